"""A link that sets several states has each picture drawn once; what else changes a picture has it drawn again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest
from gradio.context import LocalContext
from hfposemb.app.components.hidden import State
from hfposemb.app.session import drawing
from hfposemb.app.session.background_jobs import BackgroundJob
from hfposemb.app.session.drawing import Drawing
from hfposemb.app.session.library import Library
from hfposemb.app.session.state import Session
from hfposemb.app.tabs import tokens

from hfposemb import app
from hfposemb.errors import InputError
from tests.support.serving import Visitor
from tests.support.unserved import Unserved

COUNTED = ("asked_map", "word_panels")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the map and the neighbours have been drawn."""
    count: Counter[str] = Counter()

    def counting(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*values: Any, **more: Any) -> Any:
            count[name] += 1
            return draw(*values, **more)

        return counted

    for name in COUNTED:
        monkeypatch.setattr(tokens, name, counting(name, getattr(tokens, name)))
    return count


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    """A visitor of the app."""
    blocks = app.launch(warm=False, prevent_thread_lock=True, quiet=True)
    page = Visitor(str(blocks.local_url).rstrip("/"))
    yield page
    page.close()
    blocks.close(verbose=False)


def follow(page: Visitor, query: str) -> None:
    """Open a link on the page, with all that it changes in turn."""
    line = page.find(lambda one: "followAddress" in str(one.get("js_on_load")))
    for bound in page.events(line, "select"):
        message = page.run(bound, line, event_data={"query": query})
        for state in message["output"]["changed_state_ids"]:
            page.act(state, "change")


def test_a_link_draws_each_picture_once(visitor: Visitor, drawn: Counter[str]) -> None:
    """The link sets the sources, the tab, the word, the colour, the projection and the dimensions."""
    follow(visitor, "?models=sample:gpt2&models=sample:bert&tab=tokens&word=queen&colour=Norm&layout=PCA&space=3-D")
    assert drawn == Counter(dict.fromkeys(COUNTED, 1))
    follow(visitor, "?models=sample:gpt2&tab=tokens&word=king&layout=PCA")
    assert drawn == Counter(dict.fromkeys(COUNTED, 2))


@pytest.fixture
def page() -> Iterator[None]:
    """A request of a visitor's page."""
    token = LocalContext.request.set(gr.Request(session_hash="page"))
    yield
    LocalContext.request.reset(token)


def drawn_from(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the value of one input that returns what its output is given to show."""
    state, page = gr.State(), gr.HTML()
    one = Drawing(lambda _, *given: draw(*given), (page,), (state,), ())

    def shown(value: Any) -> Any:
        return one.shown((), [], {state: value}).get(page) if one.outdated([], {state: value}) else None

    return shown


def test_only_the_same_values_in_a_row_are_left_out(page: None) -> None:
    calls: list[str] = []
    first, elsewhere = (drawn_from(lambda x: calls.append(x) or x) for _ in range(2))
    assert [first("a"), first("a")] == ["a", None]
    assert elsewhere("a") == "a"
    assert [first("b"), first("a")] == ["b", "a"]
    assert calls == ["a", "a", "b", "a"]


def test_what_fails_or_shows_nothing_is_tried_again(page: None) -> None:
    outcomes = iter([gr.skip(), ValueError(), "drawn"])

    def draw(_: str) -> Any:
        outcome = next(outcomes)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    once = drawn_from(draw)
    assert once("a") is None
    with pytest.raises(ValueError, match=r"^$"):
        once("a")
    assert [once("a"), once("a")] == ["drawn", None]


def test_the_oldest_values_are_forgotten(page: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST", 2)
    handlers = [drawn_from(lambda x: x) for _ in range(3)]
    assert [once("a") for once in handlers] == ["a"] * 3
    assert handlers[2]("a") is None
    assert handlers[0]("a") == "a"


def test_without_a_page_everything_is_drawn() -> None:
    once = drawn_from(lambda x: x)
    assert [once("a"), once("a")] == ["a", "a"]


def test_the_outcome_of_a_job_is_told_once_and_the_job_ends_with_its_fold(page: None) -> None:
    job = BackgroundJob("part", gr.HTML(), gr.State(), gr.State())
    state, shown = gr.State(), gr.HTML()
    one = Drawing(lambda _, value, done: [value, done], (shown, gr.HTML()), (state,), (job.done.change,), "fold", job)

    def draw(value: str, done: Any) -> Any:
        return list(one.shown((), [], {state: value, job.done: done}).values())

    assert one.closed() == {}
    assert draw("a", {}) == ["a", {}]
    assert draw("a", {"ok": False}) == ["a", {"ok": False}]
    assert draw("b", {"ok": False}) == ["b", {}]
    assert one.closed() == {job.wanted: []}
    assert one.closed() == {}
    assert draw("b", {"ok": False}) == ["b", {"ok": False}]


def test_one_listener_draws_a_tab_and_tells_an_error_last() -> None:
    def refuse(_: Any, __: str) -> Any:
        raise InputError("write less")

    with gr.Blocks() as blocks, gr.Tabs() as tabs, gr.Tab("Texts"):
        session = Session(False, (), State([]), State(""), tabs, library=Library(), due=State([""]))
        text, first, second = gr.Textbox("a"), gr.HTML(), gr.HTML()
        session.redraw(refuse, [first], inputs=[text])
        session.redraw(lambda _, text: text, [second], inputs=[text])
        drawing.bind(session)
    (listener,) = blocks.fns.values()
    unserved = Unserved(blocks)
    assert session.rest._id in unserved.run(listener)["changed_state_ids"]
    assert unserved.values[second._id] == "a"
    with pytest.raises(gr.Error, match="write less"):
        unserved.run(listener)
