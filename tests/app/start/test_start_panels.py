"""The panels of the tab Start: their sentences and titles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hfposemb.app.findings.start import model_input
from hfposemb.app.findings.start.questions import cards, ordinal, questions
from hfposemb.app.findings.start.shapes import facts_of, shape_panels
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb.reports.position_findings import Facts, measure, shapes


def test_a_word_said_twice_goes_in_as_two_vectors(minilm: Opened) -> None:
    panel = model_input.input_panel([minilm], model_input.SENTENCE)
    assert panel.title == "The same word at two positions becomes two different inputs"
    inputs = minilm.embeddings.inputs(model_input.SENTENCE)
    one, two = inputs.sum[1].astype(float), inputs.sum[4].astype(float)
    cosine = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
    assert panel.message == (
        "Both “the” have the same token vector (cosine 1.00). At positions 1 and 4 their inputs differ "
        f"(cosine {cosine:.2f}).".replace("0.", ".")
    )
    assert panel.emphasis == "“the”"
    drawn = [np.asarray(trace.z) for trace in panel.drawings[0].figure.data]
    parts = (inputs.token, inputs.position, inputs.type, inputs.sum)
    for part, seen in zip(parts, drawn, strict=True):
        assert np.array_equal(seen, part[:, :64])
    assert np.allclose(sum(parts[:3]), inputs.sum, atol=1e-6), "what is drawn adds up"
    words = [note.text for note in panel.drawings[0].figure.layout.annotations]
    assert {"[CLS]", "<b>the</b>", "king", "1996", "2332"} <= set(words)


def test_no_word_twice_is_said_too(minilm: Opened) -> None:
    panel = model_input.input_panel([minilm], "a queen")
    assert panel.title == "The input of each piece is its token vector plus its position vector"
    assert panel.message.startswith("At position 1, the input of “a” has cosine .")
    assert "No piece occurs twice" in panel.message


def test_a_model_without_positions_says_so() -> None:
    words = hpe.from_arrays(token=np.eye(4))
    feedable = Opened("words", "words", "", "", words)
    inputs = words.inputs([1, 2, 1])
    title, said = model_input.sentence_finding(feedable, inputs, model_input.twice(feedable, inputs))
    assert "adds no positions" in title
    assert said


def test_sentences_that_cannot_be_fed(minilm: Opened) -> None:
    assert "Write a sentence" in model_input.input_panel([minilm], "  ").message
    untold = model_input.input_panel([Opened("x", "x", "", "", hpe.extract("sinusoidal:8x4"))], "the king")
    assert untold.tone == "error"
    assert "No input for this sentence" in untold.message
    assert model_input.input_panel([], "the king").message
    long = model_input.input_panel([minilm], "king " * 60)
    assert f"{model_input.PIECES} of 62 pieces" in long.foot
    far = model_input.input_panel([minilm], "king " * 600)
    assert "at most 300 characters" in far.message


# --- shapes -----------------------------------------------------------------------------------------------------------


def spiral(period: float, rows: int = 300) -> np.ndarray:
    t = np.arange(rows)
    angle = 2 * np.pi * t / period
    return np.stack([np.cos(angle), np.sin(angle), t / rows], axis=1) @ np.random.default_rng(0).normal(size=(3, 12))


def measured(vectors: np.ndarray) -> Facts:
    return measure(hpe.from_arrays(position=vectors.astype(np.float32)).position.table)


def test_the_headline_names_shapes_and_groups_them() -> None:
    slow, fast = measured(spiral(100.0)), measured(spiral(6.0))
    noise = measured(np.random.default_rng(1).normal(size=(300, 12)))
    sinusoid = measure(hpe.sinusoidal(300, 64).position.table)
    assert shapes({"A": slow, "B": fast}, {"S": sinusoid}, "S") == (
        "A learned one slow helix, B a fast helix. Neither is the sinusoid."
    )
    assert shapes({"A": slow, "B": slow}, {}) == "A and B learned one slow helix."
    few = measured(spiral(100.0, rows=8))
    assert shapes({"A": slow, "B": few}, {"S": sinusoid}, "S") == (
        "A learned one slow helix, B has too few positions for a shape."
    )
    assert shapes({"A": few, "B": few}, {}) == "A and B have too few positions for a shape."
    assert shapes({"A": noise}, {"S": sinusoid}, "S") == "A learned no order. It is not the sinusoid."
    assert shapes({"A": sinusoid}, {"S": sinusoid}, "S") == "A learned a smooth curve.", "it may well be the sinusoid"
    assert shapes({}, {"S": sinusoid, "R": noise}, "S") == (
        "Computed, not learned: a smooth curve in S and no order in R."
    )
    assert shapes({}, {}) == "How each model encodes positions"


def test_every_source_has_a_panel_of_its_shape(session: Session, minilm: Opened) -> None:
    texts = ("sinusoidal:64x16", "rotary:64x16", "alibi:64x8")
    opened = [minilm, *session.open(texts), Opened("x", "x", "", "", error="no such model")]
    found = shape_panels(opened, session)
    assert found.heading == "MiniLM learned a fast helix. It is not the sinusoid."
    assert [len(panel.drawings) for panel in found.panels] == [2, 2, 2, 1, 0]
    turns = minilm.position.table.shape[0] / 5.9
    said = f"One fast helix: {turns:.0f} turns, one per 5.9 positions"
    assert found.panels[0].title == said
    assert found.panels[0].foot == "3 axes: 35\u00a0% of the variance · 421 turns the other way look the same"
    assert found.panels[-1].message == "no such model"
    assert "Add a model above" in shape_panels([], session).panels[0].message


# --- questions --------------------------------------------------------------------------------------------------------


def test_questions_are_answered_with_measurements(session: Session, minilm: Opened) -> None:
    opened = [minilm, *session.open(["sinusoidal:64x16"])]
    asked = {one.title: one for one in questions(opened, facts_of(opened, session), session)}
    assert len(asked) == 6
    table = minilm.embeddings.token
    found = hpe.neighbours(table, "king", k=2)
    assert table.labels[int(found.rows[1])] == "queen"
    cosine = f"{found.values[1]:.2f}".removeprefix("0")
    assert asked["Are “king” and “queen” close?"].answer == (
        f"Cosine {cosine}: “queen” is the second nearest of 30,522 tokens in MiniLM."
    )
    assert asked["Does similarity depend on distance alone?"].answer == (
        "Distance explains 49\u00a0% in MiniLM and 100\u00a0% in Sinusoid."
    )
    assert asked["What does a position vector look like?"].answer == (
        "Slow trends are strongest in MiniLM and Sinusoid; MiniLM is a helix with a turn per 5.9 positions."
    )


def test_questions_about_nothing_still_lead_somewhere(session: Session) -> None:
    opened = session.open(["alibi:64x8"])
    asked = questions(opened, facts_of(opened, session), session)
    assert asked[1].answer == "None of the models has position vectors to compare."
    assert asked[3].answer == "Look up any word and its nearest neighbours."


@pytest.mark.parametrize(
    ("rank", "said"),
    [(1, "nearest"), (2, "second nearest"), (4, "4th nearest"), (12, "12th nearest"), (22, "22nd nearest")],
)
def test_ranks_are_written_out(rank: int, said: str) -> None:
    assert ordinal(rank) == said


def test_cards_are_links_only_where_the_page_has_an_address(session: Session) -> None:
    asked = questions([], {}, session)
    assert cards(asked, session, ["sample:bert"]).count("<button") == 6
    linked = cards(asked, replace(session, linked=True), ["sample:bert", "", "<b>"])
    assert linked.count("<a ") == 6
    assert "models=sample%3Abert&amp;models=%3Cb%3E&amp;tab=positions&amp;shifts=unfolded" in linked
    assert 'href="?models=sample%3Abert&amp;models=%3Cb%3E"' in linked
