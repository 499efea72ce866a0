"""What the Words + positions tab says: its findings, its numbers, and why something is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hfposemb.app.components.plot import Panel
from hfposemb.app.findings.start import model_input
from hfposemb.app.findings.words import sum_amplitude, sum_claims, sum_view, word_order
from hfposemb.app.findings.words.sum_view import Asked, View, strip
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session
from hfposemb.app.tabs import words

import hfposemb as hpe
from hfposemb.composition.added_positions import add_positions
from hfposemb.composition.amplitude_sweep import moved_neighbours, retention_in_place, sweep_amplitude
from hfposemb.composition.neighbour_retention import subspace_overlap
from hfposemb.reports import position_findings
from hfposemb.tables.inputs import InputRecipe, Pieces
from hfposemb.tables.table import Labels, Provenance, table_of

VOCABULARY = ("[CLS]", "king", "queen", "the", "saw", "bread", "<b>", *(f"word{row}" for row in range(60)))


def model(*, positions: Any = None, scale: float = 1.0, name: str = "made") -> hpe.Embeddings:
    """A model of 67 words that cuts a text at its spaces."""
    rng = np.random.default_rng(1)
    classes = np.array([5 if text == "[CLS]" else 0 for text in VOCABULARY], np.uint8)
    labels = Labels(VOCABULARY, VOCABULARY, classes)
    vectors = rng.standard_normal((len(VOCABULARY), 24))
    token = table_of(vectors, name="tokens", provenance=Provenance("made"), named=lambda: labels)
    own = table_of(scale * rng.standard_normal((20, 24)), name="positions", provenance=Provenance("made"))
    encodings = {"position": hpe.extract("random:20x24").position} if positions is None else positions

    def cut(text: str) -> Pieces:
        pieces = ("[CLS]", *text.split())
        return Pieces(pieces, tuple(VOCABULARY.index(piece) for piece in pieces))

    table = own if positions is None else None
    return hpe.Embeddings(name, {"token": token}, encodings, recipe=lambda: InputRecipe(token, table, tokenize=cut))


@pytest.fixture
def view(session: Session) -> Callable[..., View]:
    def make(embeddings: hpe.Embeddings | None = None, **asked: Any) -> View:
        chosen = {
            "text": model_input.SENTENCE, "before": "", "whose": "own", "scaled": True, "amplitude": 1.0, "word": -1,
            "anchors": ("queen", "bread"), **asked,
        }  # fmt: skip
        found = embeddings or model()
        return View(session, Opened(found.name, found.name, "#0b6aa8", "solid", found), Asked(**chosen))

    return make


def every(view: View) -> dict[str, Panel]:
    """Return all panels of the tab by their keys."""
    rows = [words.top_panels(view, [view.source]), words.first_panels(view), words.sum_panels(view)]
    rows += words.remaining_panels(view, [view.source])
    return {panel.key: panel for row in rows for panel in row.panels}


def test_each_panel_says_what_it_found(view: Callable[..., View]) -> None:
    made = model()
    found = sweep_amplitude(add_positions(made))
    panels = every(view(made))
    kept = f"{round(100 * found.kept[4])}\u00a0%"
    said = f"With positions added at 1×, words keep {kept} of their ten nearest neighbours, with random vectors of the "
    assert panels["finding"].title.startswith(f"{said}same norms ")
    half = found.amplitudes[np.flatnonzero(found.kept >= 0.5)[-1]]
    assert panels["survival"].title == f"Words keep half of their ten nearest neighbours up to {half:g}×"
    assert "Average of 33 words" in panels["survival"].subtitle
    assert "Ten nearest of 67 tokens" in panels["survival"].foot
    assert all(panel.help and panel.title for panel in panels.values())
    assert not any(panel.tone == "error" for panel in panels.values())
    share = subspace_overlap(made, draws=sum_view.OVERLAP_DRAWS).share
    assert f"16 leading directions of positions hold {round(100 * share)}\u00a0%" in panels["finding"].subtitle
    lines = {trace.name: np.asarray(trace.y) for trace in panels["survival"].drawings[0].figure.data if trace.name}
    assert np.array_equal(lines["The model’s own"], found.kept)
    assert set(lines) == {"The model’s own", "Sinusoid", "Random"}
    assert panels["recovery"].numbers[0][0] == position_findings.percent(float(found.words[4]))
    assert panels["recovery"].numbers[1][0] == position_findings.percent(float(found.positions[4]))


def test_what_texts_claim_of_the_sum_is_measured(view: Callable[..., View]) -> None:
    made = model()
    added = add_positions(made)
    panels = every(view(made))
    beside = hpe.compare_sum_with_concatenation(added).both[:, 4]
    own, turned, concatenated = (f"{round(100 * share)}\u00a0%" for share in beside)
    said = f"At 1×, the sum gives back {own}; with positions turned at random {turned}, concatenated {concatenated}"
    assert panels["concatenation"].title == said
    overlap = hpe.interference(added)
    assert panels["interference"].title == (
        f"In 24 dimensions a word and a position have |cos| .{round(1000 * overlap.cosines[-1])}, random directions "
        f".{round(1000 * overlap.expected[-1])}"
    )
    own_size = sweep_amplitude(added, amplitudes=sum_view.SCALES)
    drawn = panels["windows"].drawings[0].figure.data[0]
    np.testing.assert_allclose(drawn.x, own_size.amplitudes / own_size.ratio)
    np.testing.assert_allclose(drawn.y, own_size.both)
    assert own_size.window is None
    assert panels["windows"].title == "None of 21 sizes gives back both in made and Sinusoid"
    assert "; Sinusoid " in panels["windows"].subtitle


@pytest.mark.parametrize(("ratio", "side"), [(2.0, "inside"), (0.05, "above it"), (40.0, "below it")])
def test_the_own_size_is_told_beside_the_window(ratio: float, side: str) -> None:
    wide = hpe.from_arrays(
        token=np.random.default_rng(0).standard_normal((300, 256)),
        position=np.random.default_rng(1).standard_normal((20, 256)) / ratio,
    )
    found = sweep_amplitude(add_positions(wide), amplitudes=sum_view.SCALES)
    assert sum_claims.window_title({"A": found}).endswith(f"the model’s own is {side} for A")
    low, high = found.window or (0, 0)
    assert (low <= 1 <= high, low > 1, high < 1) == (side == "inside", side == "below it", side == "above it")


def test_the_words_of_the_sentence_have_their_shares(view: Callable[..., View]) -> None:
    made = model()
    written = strip(view(made, amplitude=2.0))
    ids = np.array([3, 1, 4, 3, 2])
    kept = retention_in_place(add_positions(made), ids, np.arange(1, 6), amplitudes=(2.0,))[0]
    for share in kept:
        assert f"<span>{position_findings.percent(float(share))}</span>" in written
    assert written.count("<button") == 5
    assert "[CLS]" not in written
    assert written.count('aria-pressed="true"') == 1
    assert 'data-place="2" aria-pressed="true"><strong><bdi>king' in written
    assert 'data-place="5" aria-pressed="true"' in strip(view(made, word=5))
    assert "&lt;b&gt;" in strip(view(made, text="the <b>"))


def test_the_lists_are_those_of_the_chosen_word(view: Callable[..., View]) -> None:
    made = model(scale=0.3)
    panel = sum_amplitude.lists_panel(view(made, word=5, amplitude=1.5))
    found = moved_neighbours(add_positions(made), 2, 5, amplitude=1.5)
    assert panel.title == f"At 1.5×, queen at position 5 keeps {len(found.shared)} of its 10 neighbours"
    assert [row.label for row in panel.lists[1].rows] == list(found.after.labels)
    assert [row.id for row in panel.lists[0].rows if row.shared] == list(found.shared)


def test_a_large_amplitude_drowns(view: Callable[..., View]) -> None:
    panels = every(view(model(scale=5.0), amplitude=4.0))
    assert panels["finding"].title.startswith("With positions added at 4×, words keep ")
    assert panels["recovery"].title == "At 4×, the word can seldom be recovered from the sum"
    assert "of the variance of the inputs, positions" in panels["cloud"].title
    none = every(view(amplitude=0.0))
    assert none["finding"].title.startswith("Without positions, words keep all their neighbours")
    assert "keeps 10 of its 10" in none["lists"].title


@pytest.mark.parametrize("whose", ["sinusoid", "random"])
def test_others_positions(view: Callable[..., View], whose: str) -> None:
    panels = every(view(whose=whose))
    assert sum_view.CALLED[whose] in [trace.name for trace in panels["survival"].drawings[0].figure.data]
    called = {"sinusoid": "the sinusoid", "random": "random positions"}[whose]
    assert called in panels["finding"].title
    unscaled = sum_amplitude.survival_panel(view(whose=whose, scaled=False))
    assert unscaled.drawings[0].figure != panels["survival"].drawings[0].figure
    assert "Positions have their original norms" in unscaled.subtitle


def test_a_model_that_adds_nothing_says_so_and_others_can_be_tried(view: Callable[..., View]) -> None:
    turning = model(positions=hpe.extract("rotary:32x8").positions, name="turning")
    panels = every(view(turning))
    assert "adds no positions to its words: its rotary positions act within attention" in panels["finding"].message
    assert panels["survival"].title.startswith("turning adds no positions; shown is the effect of others")
    names = {trace.name for trace in panels["survival"].drawings[0].figure.data if trace.name}
    assert names == {"Sinusoid", "Random"}
    assert all("adds no positions" in panels[key].message for key in ("lists", "anchors", "recovery", "map", "cloud"))
    assert panels["reorder"].title == "Reordered, the input vectors stay the same: nothing is added to the words"
    assert "rotary positions take effect in attention" in panels["reorder"].subtitle
    assert every(view(turning, whose="random"))["lists"].lists


def test_another_order(view: Callable[..., View]) -> None:
    panel = word_order.reorder_panel(view())
    assert panel.title == "Reordered, 4 of 5 words get a different input vector"
    assert "The token vectors are the same in both orders" in panel.subtitle
    assert "Reversed: “[CLS] queen the saw king the”" in panel.subtitle
    assert [row.label for row in panel.lists[0].rows][:2] == ["the  1 → 2", "king  2 → 4"]
    assert [row.shared for row in panel.lists[0].rows] == [False, False, True, False, False]
    before = word_order.reorder_panel(view(before="the queen saw the king"))
    assert before.title == "Reordered, 2 of 5 words get a different input vector"
    assert "Before: “the queen saw the king”" in before.subtitle
    assert "Reversed" in word_order.reorder_panel(view(before="bread")).subtitle
    assert word_order.reorder_panel(view(text="king")).title == "Both orders are the same"


def test_shuffling_keeps_the_words() -> None:
    again = word_order.shuffled(model_input.SENTENCE)
    assert again != model_input.SENTENCE
    assert sorted(again.split()) == sorted(model_input.SENTENCE.split())
    assert word_order.shuffled("the the") == "the the"
    assert word_order.shuffled("") == ""


def test_anchor_words_that_are_not_there(view: Callable[..., View]) -> None:
    panel = sum_amplitude.anchor_panel(view(anchors=("queen", "bred", "zzz")))
    assert "No token “bred”; closest spelling: “bread”." in panel.foot
    assert "No token “zzz”." in panel.foot
    assert "queen" in panel.title
    none = sum_amplitude.anchor_panel(view(anchors=()))
    assert "Enter a token of the model" in none.message
    assert "Enter a token" in sum_amplitude.anchor_panel(view(anchors=("king",))).message


def test_the_anchor_title_tells_turns() -> None:
    mean, at = np.array([[0.9, 0.5], [0.4, 0.45]]), np.array([0.0, 2.0])
    assert (
        sum_amplitude.anchor_title("a", ["b", "c"], mean, at) == "“a” is nearest to “b” until 2×, where “c” is nearer"
    )
    assert sum_amplitude.anchor_title("a", ["b"], mean[:, :1], at) == "“a” and “b”: .900 alone, .400 at 4×"
    same = sum_amplitude.anchor_title("a", ["b", "c"], mean[:1], at[:1])
    assert same == "“a” stays nearest to “b” and farthest from “c” at every amplitude"


def test_what_cannot_be_fed_leaves_the_rest(view: Callable[..., View]) -> None:
    made = model()
    silent = hpe.Embeddings("silent", made.tables, hpe.extract("random:20x24").positions)
    asked = view(silent)
    assert strip(asked) == ""
    assert "has no computable first-layer input" in words.top_panels(asked, [asked.source]).panels[0].message
    assert "Enter at least one word" in words.top_panels(view(text=" "), []).panels[0].message
    long = view(text="king " * 100)
    assert "at most 300 characters" in words.top_panels(long, [long.source]).panels[0].message
    assert sum_amplitude.survival_panel(view(text=" ")).drawings


def test_sources_without_words_are_named(view: Callable[..., View], session: Session) -> None:
    sines = Opened("sinusoidal:32x8", "Sinusoid", "", "", hpe.extract("sinusoidal:32x8"))
    failed = Opened("gone", "gone", "", "", None, "it is not there")
    assert sum_view.view_of(session, [sines, failed], None, view().asked) is None
    panel = words.top_panels(None, [sines, failed]).panels[0]
    assert panel.title == "None of the sources has words"
    assert "Sinusoid has no words: " in panel.message
    assert "gone: it is not there." in panel.message
    assert words.top_panels(None, []).panels[0].message
    here = view()
    both = sum_view.view_of(session, [sines, here.source], "made", here.asked)
    assert both.source.name == "made"
    assert "Sinusoid has no words" in words.top_panels(both, [sines, here.source]).panels[0].foot


def test_rows_without_a_vector_do_no_harm(view: Callable[..., View]) -> None:
    made = model()
    vectors = np.array(made.token.vectors)
    vectors[1], vectors[5] = np.nan, 0
    holed = hpe.Embeddings(
        "holed",
        {"token": table_of(vectors, name="t", provenance=Provenance("made"), named=lambda: made.token.labels)},
        made.positions,
        recipe=made.recipe,
    )
    asked = view(holed)
    assert strip(asked).count("–</span>") == 1
    panels = every(asked)
    assert "holds NaN" in panels["lists"].message or "not finite" in panels["lists"].message
    assert panels["map"].drawings
    assert "king" not in asked.sample


def test_each_is_measured_once(view: Callable[..., View], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the slider is dragged nothing is swept again."""
    made = model(name="once")
    every(view(made))
    for name in ("sweep_amplitude", "retention_at", "retention_in_place", "anchor_similarity"):
        monkeypatch.setattr(sum_view, name, lambda *_, **__: pytest.fail("computed again"))
    every(view(made, amplitude=2.25))
