"""The panels of odd tokens and of requirements: what they say is what the functions return, and what fails says why."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from app.findings.chosen_word import Word
from app.findings.positions import properties as requirement_app
from app.findings.positions.properties import requirement_panel
from app.findings.start.sentence_steps import sentence_steps
from app.findings.tokens import undertrained as odd_app
from app.findings.tokens.token_map import map_panels
from app.findings.tokens.token_neighbours import word_panels
from app.findings.tokens.undertrained import odd_panels
from app.session.opened import Opened
from hfposemb.analysis.positions.encoding_properties import encoding_requirements
from hfposemb.analysis.tokens.undertrained import undertrained_tokens
from tests.support.app.models import HOSTILE, WORDS, checkpoint
from tests.support.app.sessions import computed, open_session


def test_odd_tokens_are_those_of_the_function(tmp_path: Path) -> None:
    words = (*WORDS, "[unused1]", "[unused2]", *HOSTILE)
    vectors = np.random.default_rng(0).normal(size=(len(words), 16)).astype(np.float32)
    vectors[3] = vectors[5]
    source = checkpoint(tmp_path / "bert", words, vectors)
    session = open_session(source)
    (panel,) = odd_panels(session, session.open([source])[0])
    found = undertrained_tokens(hpe.extract(source), count=8)
    assert panel.title.startswith("Closest to the unused slots of bert: ")
    listed = {one.name: [row.id for row in one.rows] for one in panel.lists}
    for name in ("near the mean", "far from the mean"):
        assert listed[odd_app.NAMES[name]] == [odd.row for odd in found[name].rows]
    (equal,) = [one for one in panel.lists if one.name.startswith("Equal")]
    assert equal.rows[0].label.count(" = ") == 1
    assert equal.rows[0].value == 2
    assert "2 unused" in panel.foot
    assert "IsoScore" in panel.foot


def test_odd_tokens_of_a_source_without_any_take_no_room_and_of_too_few_say_so(tmp_path: Path) -> None:
    session = open_session("sinusoidal:32x8", checkpoint(tmp_path / "tiny", WORDS[:2]))
    formula, tiny = session.open(session.first)
    assert odd_panels(session, formula) == ()
    assert odd_panels(session, None) == ()
    (panel,) = odd_panels(session, tiny)
    assert "outliers need at least 3" in panel.message


def test_a_large_table_is_searched_on_demand_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_app, "SEARCHED", 1000)
    session = open_session("sample:minilm")
    source = session.open(session.first)[0]
    (panel,) = odd_panels(session, source)
    assert panel.message.endswith("hfposemb odd sample:minilm")
    assert panel.actions == (odd_app.LOOK,)
    assert not panel.lists

    said = computed(session, [["sample:minilm", "id"]], partial(odd_app.odd_request, session))
    assert max(step.share for step in said) > 0
    (panel,) = odd_panels(session, source)
    monkeypatch.undo()  # the table counts as small, in a session that has measured nothing
    (small,) = odd_panels(open_session("sample:bert"), source)
    assert panel.lists == small.lists


def test_numbers_of_rows_are_shown_as_no_tokens(tmp_path: Path, minilm: Opened) -> None:
    """Of a checkpoint without its tokenizer: no classes, no list that another model's numbers share, no sentence."""
    source = checkpoint(tmp_path / "bare", [str(row) for row in range(40)])
    (tmp_path / "bare/vocab.txt").unlink()
    session = open_session(source)
    (bare,) = session.open([source])
    (panel,) = map_panels(session, bare, hpe.project(bare.tokens), "Class", Word("7", source, 7))
    assert not panel.legend
    assert "rows are numbered" in panel.foot
    (panel,) = word_panels(session, [bare, minilm], Word("7", source, 7))
    assert "the same" not in panel.title
    assert not any(row.shared for one in panel.lists for row in one.rows)
    assert "MiniLM, since bare takes no sentence" in sentence_steps([bare, minilm], "I love NLP", "model")


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("counting:256x16", "Meets 3 of 5: grows without bound, neighbours are hardly apart"),
        ("single-sine:512x16", "Meets 2 of 5: positions repeat, neighbours are hardly apart, does not extrapolate"),
        ("sample:gpt2", "Meets 3 of 4 that apply: does not extrapolate"),
        ("alibi:64x4", "Meets 4 of 5: grows without bound"),
    ],
)
def test_requirements_are_those_of_the_function(source: str, title: str) -> None:
    session = open_session(source)
    panel = requirement_panel(session.open([source])[0], session)
    found = encoding_requirements(hpe.extract(source))
    assert panel.title == title
    assert [words.partition(":")[0] for _, words in panel.numbers] == [item.name for item in found.items]
    for (figure, words), item in zip(panel.numbers, found.items, strict=True):
        assert ("not met" in words) == (item.verdict == "not met")
        assert (figure == "–") == (item.value is None)
    # One wave alone is no curve, and a bias has no row to decode a position from.
    assert len(panel.drawings) == (source == "sample:gpt2")
    told = {"alibi:64x4": "no position vectors", "sample:gpt2": ""}.get(source, "only one wave")
    assert told in panel.message
    assert bool(told) == bool(panel.message)
    assert f"{found.reads}s of error in the second half" in panel.numbers[-1][1]


def test_waves_are_drawn_beside_a_guess() -> None:
    session = open_session("sinusoidal:128x32")
    panel = requirement_panel(session.open(session.first)[0], session)
    slow, fast, guess = [trace for trace in panel.drawings[0].figure.data if trace.mode == "lines"]
    assert [slow.name, fast.name, guess.name] == ["slow", "fast", "guess"]
    assert slow.y[-1] == fast.y[-1] == 0
    assert set(guess.y) == {32.0}
    assert "the fastest 100\u00a0%" in panel.drawings[0].caption


def test_what_has_no_positions_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session("./nowhere", "sample:gpt2")
    missing, sample = session.open(session.first)
    assert "does not exist" in requirement_panel(missing, session).message
    monkeypatch.setattr(requirement_app, "MEASURED_AT_ONCE", 10)
    assert requirement_panel(sample, session).message.endswith("hfposemb info sample:gpt2 --requirements")


def test_a_headline_names_what_every_font_can_write() -> None:
    rows = undertrained_tokens(hpe.extract("sample:gpt2"), count=8)["near the mean"].rows
    made = [
        replace(row, label=label) for row, label in zip(rows, ["字", "\U0001fae8", "one", "ก", "two"], strict=False)
    ]
    assert odd_app._named(made) == ["one", "two", "字"]
    assert odd_app._named(made[:2]) == ["字", "\U0001fae8"]
