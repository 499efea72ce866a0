"""Output heads in the app: the table that stands for the tokens, the panel that compares both, and what says why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
from hfposemb.app.components.happened import Happened
from hfposemb.app.findings import chosen_word
from hfposemb.app.findings.chosen_word import Word, of_table
from hfposemb.app.findings.tokens import (
    token_head,
    token_map,
    token_neighbours,
    token_selection,
    undertrained,
)
from hfposemb.app.findings.tokens.token_selection import Selection
from hfposemb.app.findings.tokens.undertrained import odd_panels
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session
from hfposemb.app.tabs import tokens

import hfposemb as hpe
from hfposemb.tables.token_marks import TokenMarks
from hfposemb.text import number
from tests.hub import FakeHub
from tests.support.app.models import UNTIED_WORDS, untied
from tests.support.app.sessions import computed, open_session, taken

TIED = "sample:gpt2"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untied checkpoint."""
    return untied(tmp_path_factory.mktemp("models") / "untied")


def opened(session: Session, table: str) -> tuple[Opened, ...]:
    """Return the sources of a session with the table that stands for their tokens."""
    return of_table(session, session.open(session.first), table)


# --- the table that stands for the tokens -----------------------------------------------------------------------------


def test_neighbours_in_the_head_are_those_of_the_library(source: str) -> None:
    session = open_session(source, TIED)
    (panel,) = token_neighbours.word_panels(session, opened(session, "head"), Word("king"))
    found = hpe.neighbours(hpe.extract(source).head, 0, k=12)
    (listed,) = panel.lists
    assert [row.id for row in listed.rows] == found.rows.tolist()
    assert listed.name == "untied’s output head"
    assert panel.title.startswith("Closest to king in untied’s output head: ")
    assert "The head of Demo GPT-2 is its token table." in panel.foot
    token = token_neighbours.word_panels(session, opened(session, "token"), Word("king"))[0]
    assert [row.id for row in token.lists[0].rows] == hpe.neighbours(hpe.extract(source).token, 0, k=12).rows.tolist()
    assert token.lists[0].rows != listed.rows


def test_map_selection_and_file_are_of_the_head(source: str) -> None:
    session = open_session(source)
    (one,) = opened(session, "head")
    controls = token_map.MapControls(None, "PCA", "2-D", "Class", Word("king"))
    (panel,) = token_map.asked_map(session, (one,), controls)[1]
    head = hpe.extract(source).head
    trace = next(trace for trace in panel.drawings[0].figure.data if len(trace.x) > 10)
    drawn = hpe.project(head, method="pca", dims=2).coordinates
    assert np.isin(np.float32(trace.x), drawn[:, 0]).all()
    assert "of untied’s output head" in panel.title
    found = token_selection.selected_panel(one, np.arange(5), Selection("ids", "0~4", source))
    assert found.title == "5 tokens of untied’s output head selected"
    assert [chip.value for chip in found.chips] == pytest.approx(hpe.norms(head)[:5].tolist())


def test_control_is_offered_only_where_a_head_is_a_table_of_its_own(source: str) -> None:
    without, beside = open_session(TIED, "sample:bert"), open_session(TIED, source)
    assert not tokens.draw_table_field(without.open(without.first), "head")["visible"]
    assert tokens.draw_table_field(without.open(without.first), "head")["value"] == "token"
    assert tokens.draw_table_field(beside.open(beside.first), "head")["visible"]
    assert [one.words for one in opened(without, "head")] == ["token", "token"], "a link of other sources shows tokens"
    assert chosen_word.which_choices(opened(beside, "head")) == [("untied", source)]


def test_a_source_without_a_head_says_so(source: str) -> None:
    session = open_session(source, "sample:minilm", "random:60x8")
    said = [chosen_word.why_no_tokens(one) for one in opened(session, "head")[1:]]
    assert said == ["MiniLM has no output head.", "Untrained has no output head."]


def test_a_click_takes_the_row_of_the_head(source: str) -> None:
    session = open_session(source, TIED)
    handlers = tokens.Handlers(session)
    due = ["", [TIED, ""], [source, ""]]

    click, state = Happened(None, {"panel": "neighbours", "list": 0, "id": 7}), Word("king")
    assert handlers.pick(due, "head", None, state, False, click)[0] == Word("word1", source, 7)
    assert handlers.pick(due, "token", None, state, False, click)[0].source == TIED


def test_a_head_of_the_hub_is_read_once_it_is_asked_for(hub: FakeHub, tmp_path: Path) -> None:
    folder = Path(untied(tmp_path / "untied"))
    hub.add("somebody/untied", {file.name: file.read_bytes() for file in folder.iterdir()})
    session = open_session("somebody/untied").at("tokens", ("token",))

    wanted = session.wanted(session.open(session.first))
    asyncio.run(taken(session.library.fetches.follow("page", session.first, wanted)))
    sources = session.open(session.first)
    assert token_head.unread(session, sources) == ["somebody/untied"]
    assert of_table(session, sources, "head")[0].table("token") is None
    request = gr.Request(session_hash="visitor")
    *_, (line, done) = asyncio.run(taken(token_head.HeadReads(session).read(["somebody/untied"], request)))
    assert (line["visible"], bool(done)) == (False, True)
    assert token_head.unread(session, sources) == []
    before = len(hub.requests)
    (one,) = opened(session, "head")
    assert np.array_equal(one.tokens.vectors, hpe.extract(folder).head.vectors)
    assert len(hub.requests) == before, "drawing asks for nothing"


def test_a_head_of_the_hub_that_was_not_read_is_not_read_while_drawing(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(source)
    (one,) = session.open(session.first)
    monkeypatch.setattr(type(session.library), "opened", lambda *_, **__: None)
    (waiting,) = of_table(session, (one,), "head")
    assert waiting.table("token") is None
    assert chosen_word.why_no_tokens(waiting) == "untied: its output head has not been read from the Hub"


# --- token table against head -----------------------------------------------------------------------------------------


def test_panel_has_the_figures_and_tokens_of_the_library(source: str) -> None:
    session = open_session(source)
    (panel,) = token_head.head_panels(session, session.open(session.first)).panels
    assert panel.title == "untied has a head of its own"
    assert not panel.numbers
    (stopped,) = token_head.head_panels(session, session.open(session.first), stopped=True).panels
    assert stopped.actions == (token_head.AGAIN,)
    wanted = token_head.wanted_of(session, session.open(session.first))
    assert computed(session, wanted, partial(token_head.head_request, session))
    found = hpe.compare_head(hpe.extract(source), count=token_head.LISTED)
    (panel,) = token_head.head_panels(session, session.open(session.first)).panels
    assert panel.title.startswith(
        "Inner products of token table and head of untied are no more alike than by chance: CKA "
    )
    assert [figure for figure, _ in panel.numbers] == [number(one.null.observed, digits=2) for one in found.measures]
    assert all("Chance " in words for _, words in panel.numbers)
    assert [row.label for row in panel.lists[0].rows] == [move.label for move in found.most]
    assert [UNTIED_WORDS[row.id] for row in panel.lists[1].rows] == [move.label for move in found.least]
    assert token_head.wanted_of(session, session.open(session.first)) == []


def test_tied_and_missing_heads_say_how_that_is_known() -> None:
    session = open_session(TIED, "sample:minilm")
    tied, without = token_head.head_panels(session, session.open(session.first)).panels
    assert tied.title == "The output head of Demo GPT-2 is its token table"
    assert tied.message == "No head is stored, and tie_word_embeddings is true."
    assert without.title == "MiniLM has no output head"
    assert without.message
    assert token_head.wanted_of(session, session.open(session.first)) == []


# --- odd tokens -------------------------------------------------------------------------------------------------------


def test_odd_tokens_are_those_of_source_and_head(tmp_path: Path) -> None:
    words = (*UNTIED_WORDS, *(f"<|reserved_special_token_{place}|>" for place in range(6)))
    text = untied(tmp_path / "odd", words=words)
    session = open_session(text)
    (panel,) = odd_panels(session, session.open(session.first)[0])
    found = hpe.undertrained_tokens(hpe.extract(text), count=8)
    listed = {one.name: one.rows for one in panel.lists}
    name = "near unused in the head"
    assert found[name].rows
    assert [row.id for row in listed[undertrained.NAMES[name]]] == [odd.row for odd in found[name].rows]
    assert [row.value for row in listed[undertrained.NAMES[name]]] == [odd.value for odd in found[name].rows]


def test_marks_and_origin_of_added_rows_are_said(source: str) -> None:
    session = open_session(source)
    (one,) = session.open(session.first)
    plain = hpe.undertrained_tokens(one.embeddings, count=8)
    chat = frozenset({plain["far from the mean"].rows[0].row})
    marks = TokenMarks(added=frozenset(range(40, 60)), chat=chat)
    marked = replace(one, embeddings=replace(one.embeddings, marks=lambda: marks))
    (panel,) = odd_panels(session, marked)
    found = hpe.undertrained_tokens(marked.embeddings, count=8)  # type: ignore[arg-type]
    assert panel.subtitle.endswith(f"20 rows were added: {found.origin.sentence}.")
    first = next(part for part in panel.lists if part.name == undertrained.NAMES["far from the mean"]).rows[0]
    assert first.label.endswith("chat template)")
    assert first.shared
    assert "Tinted: " in panel.subtitle
    assert any(row.label.endswith("(added)") for part in panel.lists for row in part.rows)


def test_odd_tokens_are_of_the_source_that_the_map_shows(source: str) -> None:
    session = open_session(TIED, source)
    sources = session.open(session.first)
    of_head, of_token = (undertrained.chosen(session, sources, table, TIED) for table in ("head", "token"))
    assert (of_head.text, of_head.words, of_token.text) == (source, "token", TIED)
