"""What the app measures of large tables in a child: the same numbers as the library's, with Cancel, beside the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hfposemb.app import limits
from hfposemb.app.findings import chosen_word
from hfposemb.app.findings.tokens import token_map, token_neighbours
from hfposemb.app.jobs import fetching, first_pictures
from hfposemb.app.jobs.children import Progress
from hfposemb.app.jobs.queue import LINE
from hfposemb.app.jobs.visitor import Visitor
from hfposemb.app.session import background_jobs, kept, library
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb.analysis.projection.quality import point_trust
from tests.support.app.models import WORDS, checkpoint
from tests.support.app.sessions import open_session, taken
from tests.support.processes.waiting import gone, until

SOURCE = "sample:bert"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session to which every table is a large one."""
    monkeypatch.setattr(limits, "PCA_FLOPS", 1)
    monkeypatch.setattr(limits, "QUICK_FLOPS", 1)
    return open_session(SOURCE)


def asked(session: Session, color: str = "Class", done: dict[str, Any] | None = None) -> list[Any]:
    """Return what the map answers to its controls: projection, panels, work that is wanted first, and colour."""
    controls = token_map.MapControls(None, "PCA", "2-D", color, chosen_word.Word("king"))
    return token_map.asked_map(session, session.open((SOURCE,)), controls, done=done)


def work(session: Session, wanted: list[list[Any]]) -> AsyncGenerator[Progress, None]:
    """Return the work that the map waits for, for one page."""
    return session.jobs.run(Visitor("page"), "tokens", wanted, partial(token_map.map_request, session))


def run(session: Session, wanted: list[list[Any]]) -> list[Progress]:
    """Do all of it."""
    return asyncio.run(taken(work(session, wanted)))


def test_a_large_map_and_its_trust_are_those_of_the_library(session: Session) -> None:
    _, _, wanted, *_ = asked(session)
    assert wanted == [[SOURCE, "token", 2, "PCA"]]
    assert run(session, wanted)
    table = hpe.extract(SOURCE).token
    expected = hpe.project(table)
    _, (panel,), wanted, *_ = asked(session)
    assert not wanted
    assert "colour by trust to measure" in panel.foot
    found = session.projection(session.open((SOURCE,))[0].embeddings.token, "pca", 2)  # type: ignore[union-attr]
    np.testing.assert_allclose(found.coordinates, expected.coordinates, atol=1e-5)
    _, _, wanted, *_ = asked(session, "Trust")
    assert wanted == [[SOURCE, "token", 2, "Trust", "pca"]]
    shares = [step.share for step in run(session, wanted)]
    assert shares == sorted(shares)
    _, (panel,), wanted, *_ = asked(session, "Trust")
    assert not wanted
    wrong = point_trust(table, expected.coordinates, rows=expected.rows, points=token_map.MEASURED).wrong.sum()
    assert f"{wrong:,} are misplaced" in panel.title
    assert kept.size_of(expected) > expected.coordinates.nbytes
    assert not expected.measured, "its size is told without measuring it"


def test_cancel_leaves_no_child_and_the_page_is_answered_meanwhile(session: Session) -> None:
    wanted = asked(session)[2]
    before = {child.pid for child in psutil.Process().children()}

    async def leave() -> list[int]:
        steps = work(session, wanted)
        while not (pids := [child.pid for child in psutil.Process().children() if child.pid not in before]):
            await anext(steps)
        (panel,) = token_neighbours.word_panels(session, session.open((SOURCE,)), chosen_word.Word("king"))
        assert panel.lists[0].rows
        await steps.aclose()
        return pids

    pids = asyncio.run(leave())
    assert pids
    assert until(lambda: all(map(gone, pids)), 5)
    assert not len(LINE)
    _, (panel,), again, *_ = asked(session, done={"ok": False, "wanted": wanted})
    assert "was stopped" in panel.message
    assert not again, "what was cancelled does not begin anew by itself"


def test_cancelled_trust_goes_back_to_classes(session: Session) -> None:
    run(session, asked(session)[2])
    wanted = asked(session, "Trust")[2]
    _, (panel,), again, color, _ = asked(session, "Trust", {"ok": False, "wanted": wanted})
    assert color["value"] == "Class"
    assert panel.legend
    assert not again


def test_an_unfinished_layout_is_drawn_and_says_so(session: Session) -> None:
    controls = token_map.MapControls(None, "UMAP", "2-D", "Trust", chosen_word.Word("king"))

    def drawn(done: dict[str, Any] | None = None) -> list[Any]:
        return token_map.asked_map(session, session.open((SOURCE,)), controls, done)

    wanted = drawn()[2]
    assert wanted == [[SOURCE, "token", 2]]
    table = session.open((SOURCE,))[0].tokens
    points = np.random.default_rng(0).standard_normal((table.shape[0], 2)).astype(np.float32)

    key = background_jobs.umap_key(session.library, table, 2)
    session.library.results.put(("draft", key), first_pictures.draft_of(table, np.arange(table.shape[0]), points))
    back, (panel,), again, *_ = drawn({"ok": True, "wanted": wanted})
    assert again == wanted, "the work goes on"
    assert isinstance(back, dict)
    assert panel.title.endswith("not finished yet")
    assert "being computed" in panel.foot
    figure = panel.drawings[0].figure
    assert sum(len(trace.x) for trace in figure.data if trace.x is not None) >= table.shape[0]


def test_results_of_a_file_that_changed_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "HASHED", 0)  # a table goes by itself, as a large one does
    random, session = np.random.default_rng(0), open_session()
    source = checkpoint(tmp_path / "model", WORDS, random.normal(size=(len(WORDS), 16)).astype(np.float32))
    first = session.library.open(source).token
    assert session.library.open(source).token is first
    key = session.library.result_key(first, ("norms",))
    assert session.library.result_key(first, ("norms",)) == key
    before = first.vectors.copy()
    checkpoint(tmp_path / "model", WORDS, random.normal(size=(len(WORDS), 16)).astype(np.float32))
    second = session.library.open(source).token
    assert session.library.result_key(second, ("norms",)) != key
    assert not np.array_equal(second.vectors, before)


def test_models_of_equal_numbers_keep_their_own_words(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 16)).astype(np.float32)
    session = open_session()
    named = {"one": WORDS, "two": WORDS[::-1]}
    tables = [session.library.open(checkpoint(tmp_path / name, words, vectors)).token for name, words in named.items()]
    one, two = (token_neighbours.neighbours_of(session, table, 0, centred=False) for table in tables)
    assert one.rows.tolist() == two.rows.tolist()
    assert [two.labels[0], one.labels[0]] == [words[one.rows[0]] for words in (WORDS[::-1], WORDS)]


def test_two_views_agree_where_a_table_is_read_from_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    session = open_session()
    work = session.library.fetch(SOURCE, ("token",))[1]
    work(fetching.Fetch("bert"))
    table = session.library.open(SOURCE).token
    assert "vectors" not in vars(table)
    np.testing.assert_array_equal(table.rows(3, 5), replace(table).vectors[3:5])
