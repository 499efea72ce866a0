"""The Compare tab without a browser: what is shown at once, what is wanted, what its jobs give, and who may ask."""

from __future__ import annotations

import asyncio
import html
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr
import numpy as np
import pytest
from hfposemb.app import limits
from hfposemb.app.components.plot import PanelRow
from hfposemb.app.findings.compare.comparison import (
    POSITIONS,
    Compared,
    compared,
    comparison_key,
    figures_html,
    maps_key,
    maps_of,
    maps_panels,
    moved_panels,
    pair_title,
    pairs_html,
    quick,
    why_not,
)
from hfposemb.app.jobs import children, measuring
from hfposemb.app.jobs.queue import LINE
from hfposemb.app.jobs.visitor import Visitor
from hfposemb.app.session.background_jobs import Request
from hfposemb.app.session.library import Library
from hfposemb.app.session.state import Session
from hfposemb.app.tabs import compare

import hfposemb as hpe
from hfposemb import app
from hfposemb.comparison.results import p_values
from hfposemb.errors import HfposembError, MissingTableError
from hfposemb.reports.html_tables import p_value
from hfposemb.text import percent
from tests.support.app.models import bert_and_gpt2
from tests.support.app.sessions import computed, open_session

EVIL = '<script>alert("x")</script>'
WORDS = (EVIL, *(f"{first}{second}" for first in "bcdfg" for second in "aeiouy"))
BUILT_IN = ("random:40x32", "sinusoidal:32x32")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A BERT and a GPT-2 that share 31 words, one of them hostile."""
    return bert_and_gpt2(tmp_path_factory.mktemp("pair"), WORDS, width=32, seed=2)


pytestmark = pytest.mark.usefixtures("cache_folder")


session_of = partial(open_session, tab="compare", needs=("position", "token"))


def known(session: Session, *texts: str) -> Compared:
    """Return what is known of sources once they are measured, with few draws."""
    found = [session.library.open(text) for text in texts]
    session.library.results.put(comparison_key(texts, public=session.public), hpe.compare(*found, draws=39))
    return compared(session.open(texts), session)


def test_figures_are_there_at_once_and_chance_is_not(pair: tuple[str, str]) -> None:
    session = session_of(*pair)
    found = compared(session.open(pair), session)
    assert found.comparison is not None
    assert not found.done
    exact = hpe.compare(*(hpe.extract(text) for text in pair), draws=0, pairs=False, words=())
    shown = figures_html(found)
    for source in exact.sources:
        assert f"<strong>{source.metrics['mean norm']}</strong>" in shown
    assert "Chance levels are being computed" in shown
    assert "▲" not in shown
    assert "Measuring" in pairs_html(found)
    stopped = replace(found, stopped=True)
    assert "Chance levels were not computed" in figures_html(stopped)
    assert "Not measured" in pairs_html(stopped)
    assert "search was stopped" in moved_panels(stopped, None, 0).panels[0].message


def test_chance_stands_beside_every_number_once_it_is_known(pair: tuple[str, str]) -> None:
    session = session_of(*pair)
    found = known(session, *pair)
    assert found.done
    assert '<span class="chance">chance' in figures_html(found)
    shown = pairs_html(found)
    assert "<summary>The other" not in shown, "there is one pair"
    for one in found.comparison.pairs:
        for name, null in one.measures.items():
            assert p_values(null, one.p(name), p_value) in shown
    assert " alone)" in shown
    assert '<span class="chance">untrained ' in figures_html(found)
    title = "The positions and tokens of bert and gpt (CKA 1.000 and .461) are more similar than expected by chance"
    assert shown.startswith(f"<h2>{title}</h2>")
    assert EVIL not in shown, "nothing of a source is markup"
    assert EVIL not in figures_html(found)
    assert html.escape(EVIL) not in figures_html(found), "the figures name no word"


def test_words_that_moved_stand_beside_their_neighbours_in_both(pair: tuple[str, str]) -> None:
    session = session_of(*pair)
    found = known(session, *pair)
    (panel,) = moved_panels(found, None, 3).panels
    moves = found.moves((0, 1))
    assert [row.label for row in panel.lists[0].rows] == [move.label.strip() for move in moves.most]
    assert [row.shared for row in panel.lists[0].rows].index(True) == 3
    for listed, near in zip(panel.lists[1:], (moves.most[3].left, moves.most[3].right), strict=True):
        assert [(row.label, row.value) for row in listed.rows] == [(label.strip(), value) for label, value in near]
    assert f"“{moves.most[3].label.strip()}” moved by" in panel.title
    assert "chance" in panel.foot


def test_what_cannot_be_compared_is_said_in_its_place() -> None:
    texts = ("sinusoidal:32x32", "rotary:32x32")
    session = session_of(*texts)
    found = known(session, *texts)
    assert "rotary positions have no vector" in figures_html(found)
    assert "vocabulary" in why_not(found, (0, 1))
    assert moved_panels(found, None, 0).panels[0].message == why_not(found, (0, 1))
    assert "Choose a second source" in pairs_html(compared(session.open(texts[:1]), session))
    assert pairs_html(compared((), session)) == ""
    assert "Choose two or more sources" in figures_html(compared(session.open(["./nowhere"]), session))


def test_large_tables_are_left_to_the_job() -> None:
    session = session_of()
    small, large = session.open(["random:400x8", "random:40000x1024"])
    assert quick(small)
    assert not quick(large)
    found = compared((small, large), session)
    assert found.comparison is None
    assert "takes a while" in figures_html(found)
    assert "Stopped" in figures_html(replace(found, stopped=True))
    assert maps_of(small, large, "token", "pca", session) is None


def test_positions_are_measured_at_once_where_words_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 256 positions and 4,000 words as many dimensions wide, the words alone are left to the job."""
    session = session_of("sample:bert")
    opened = session.open(["sample:bert"])
    monkeypatch.setattr(limits, "QUICK_FLOPS", 256 * 128**2)
    assert not quick(opened[0])
    found = compared(opened, session)
    taken = found.comparison.sources[0].metrics
    assert taken["mean norm"].value is not None
    assert taken["token anisotropy"].value is None
    assert "its metrics are shown once the chance levels" in figures_html(found)


def test_maps_of_a_table_that_a_source_lacks_are_not_asked_for() -> None:
    texts = ("random:40x32", "sinusoidal:32x32")
    session = session_of(*texts)
    for method in ("pca", "umap"):
        with pytest.raises(MissingTableError, match="sinusoidal:32x32 has no token table"):
            maps_of(*session.open(texts), "token", method, session)


def test_maps_of_positions_share_a_frame(pair: tuple[str, str]) -> None:
    session = session_of(*pair)
    found = compared(session.open(pair), session)
    maps = maps_of(*found.sources, "position", "pca", session)
    assert maps_of(*found.sources, "position", "pca", session) is maps, "it is computed once"
    drawn = maps_panels(found, (0, 1), maps)
    left, right = (panel.drawings[0].figure for panel in drawn.panels)
    assert left.layout.xaxis.range == right.layout.xaxis.range
    assert percent(maps.disparity) in drawn.heading
    row = PanelRow.postprocess(PanelRow(render=False), drawn)
    assert [panel["key"] for panel in json.loads(row["row"])["panels"]] == ["map-left", "map-right"]


def told(share: float, doing: str) -> None:
    assert 0 <= share <= 1
    assert doing


def test_jobs_give_what_the_tab_shows(pair: tuple[str, str]) -> None:
    exact = hpe.compare(*(hpe.extract(text) for text in pair), draws=19)
    found = measuring.comparison(pair, 19, told)
    assert found.pairs == exact.pairs
    assert found.moves == exact.moves
    assert measuring.maps(pair, "position", "pca", told).role == "position"
    again, page = measuring.page(pair, found, 19, told)
    assert again is found
    assert page.startswith("<!doctype html>")
    assert EVIL not in page


def test_strangers_compare_no_local_files(pair: tuple[str, str]) -> None:
    assert comparison_key(pair, public=False) != comparison_key(pair[::-1], public=False)
    with pytest.raises(HfposembError, match="on your own machine"):
        comparison_key(pair, public=True)
    with pytest.raises(HfposembError, match="on your own machine"):
        maps_key(pair, "position", "umap", public=True)


@pytest.mark.parametrize("public", [False, True])
def test_a_comparison_is_made_in_a_child_and_kept_for_everybody(public: bool) -> None:
    session = session_of(*BUILT_IN, public=public)
    asks = partial(Request, comparison_key(BUILT_IN, public=public), measuring.comparison)
    assert computed(session, [(BUILT_IN, 19)], asks)
    assert len(LINE) == 0
    found = compared(session.open(BUILT_IN), session)
    assert found.done
    assert found.comparison.pairs[0].measures["CKA"].draws == 1_999
    assert computed(session, [(BUILT_IN, 19)], asks) == [], "it is not computed again"


@pytest.mark.parametrize(("wanted", "failed"), [(None, True), ([], False)], ids=["cancelled", "fold closed"])
def test_what_is_not_wanted_any_more_has_not_failed(wanted: list[Any] | None, failed: bool) -> None:
    """Otherwise a fold that was closed and opened again would say that it was stopped."""
    texts = ["random:2000x64", "random:2100x64"]
    with gr.Blocks() as blocks:
        session = session_of(*texts)
        job = session.jobs.bind(lambda one: Request("key", measuring.comparison, (one, 100)))
    compute = next(one.fn for one in blocks.fns.values() if one.name == "compute")
    (part,) = session.jobs.running
    page: Any = gr.Request(session_hash="page")

    async def run() -> list[Any]:
        said = []
        async for _, done in compute([texts], page):
            said.append(done)
            LINE.cancel(Visitor("page"), part, but=wanted)
        return said

    *_, last = asyncio.run(run())
    assert job.failed(last, [texts]) is failed
    assert len(LINE) == 0
    assert session.library.results.get("key") is None


def test_nothing_is_compared_before_the_tab_comes_to_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("compared while the page is built")

    monkeypatch.setattr(compare, "compared", refuse)
    with gr.Blocks() as blocks:
        app.panel(sources=BUILT_IN)
    values = [block.value for block in blocks.blocks.values() if type(block) is gr.HTML]
    assert compare.STARTING in values
    assert POSITIONS in str(blocks.config)


def test_work_can_be_sent_to_a_child() -> None:
    with children.Job(
        partial(measuring.maps, public=True), BUILT_IN, "position", "pca", reports=True, sealed=True
    ) as job:
        assert len(job.result().labels) == 32


def test_only_a_click_reads_the_field_of_pairs() -> None:
    """Once sources have gone, Gradio refuses the pair that the field still sends, and nothing would be drawn."""
    with gr.Blocks() as blocks, gr.Tabs() as tabs, gr.Tab(compare.TITLE):
        session = Session(False, BUILT_IN, gr.State([]), gr.State(""), tabs, library=Library())
        compare.tab(session.at("compare", compare.NEEDS))
    (field,) = (one for one in blocks.blocks.values() if isinstance(one, gr.Dropdown) and one.label == "Pair")
    targets = [target for event in blocks.fns.values() if field in event.inputs for target in event.targets]
    assert targets == [(field._id, "input")]


def test_the_title_of_pairs_says_no_more_than_was_tested() -> None:
    """A curve too simple to be tested is neither above chance nor not, even beside its own copy."""
    line = np.linspace(0, 1, 64)[:, None] * np.ones(16)
    turned = line @ np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0]
    rng = np.random.default_rng(1)
    rough = [rng.normal(size=(64, 16)) for _ in range(2)]
    same = "(CKA 1.000) are more similar than expected by chance"
    apart = "are no more similar than expected by chance"
    smooth = (
        "were not compared with chance: each table is too smooth for its length (1.7 independent rows; 3.5 are needed)"
    )
    tables = {"a": line, "b": turned, "c": rough[0], "d": rough[0], "e": rough[1]}
    sources = {name: hpe.from_arrays(position=rows, name=name) for name, rows in tables.items()}
    comparison = hpe.compare(*sources.values())

    def title(left: str, right: str) -> str:
        names = {left, right}
        pairs = tuple(one for one in comparison.pairs if {one.left, one.right} == names)
        return pair_title(replace(comparison, pairs=pairs), {name: name.upper() for name in (left, right)})

    assert title("a", "b") == f"The positions of A and B (CKA 1.000) {smooth}"
    assert title("c", "d") == f"The positions of C and D {same}"
    assert re.fullmatch(rf"The positions of C and E \(CKA −?\.\d+\) {apart}", title("c", "e"))
