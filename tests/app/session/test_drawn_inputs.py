"""A link that sets several states has each picture drawn once; what else changes a picture has it drawn again."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio.context import LocalContext
from gradio.state_holder import SessionState
from hfposemb.app.components.plot import PanelRow
from hfposemb.app.session import state
from hfposemb.app.session.state import drawn_once
from hfposemb.app.tabs import tokens

from hfposemb import app
from tests.support.app.models import WORDS, checkpoint
from tests.support.app.serving import Visitor, visited

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
def models(tmp_path: Path) -> list[str]:
    """Two small models."""
    return [checkpoint(tmp_path / name, WORDS) for name in ("one", "two")]


@pytest.fixture
def visitor(models: list[str]) -> Iterator[Visitor]:
    """A visitor of the app."""
    with visited(app.launch((models[1],), warm=False, prevent_thread_lock=True, quiet=True)) as page:
        yield page


def follow(page: Visitor, query: str) -> None:
    """Open a link on the page, with all that it changes in turn."""
    line = page.find(lambda one: "followAddress" in str(one.get("js_on_load")))
    for bound in page.events(line, "select"):
        page.follow(page.run(bound, line, event_data={"query": query})["output"])
    page.draw(page.find(lambda one: one.get("label") == "Tokens"))


def test_a_link_draws_each_picture_once(visitor: Visitor, drawn: Counter[str], models: list[str]) -> None:
    """The link sets the sources, the tab, the word, the colour and the dimensions."""
    follow(visitor, f"?models={models[0]}&models={models[1]}&tab=tokens&word=queen&colour=Norm&space=3-D")
    assert drawn == Counter(dict.fromkeys(COUNTED, 1))
    follow(visitor, f"?models={models[0]}&tab=tokens&word=king")
    assert drawn == Counter(dict.fromkeys(COUNTED, 2))


@pytest.fixture
def page() -> Iterator[None]:
    """A request of a visitor's page."""
    token = LocalContext.request.set(gr.Request(session_hash="page"))
    yield
    LocalContext.request.reset(token)


def test_only_the_same_values_in_a_row_are_left_out(page: None) -> None:
    one, other, calls = gr.HTML(), gr.HTML(), []
    first, second = drawn_once(lambda x: calls.append(x) or x, [one]), drawn_once(lambda x: calls.append(x) or x, [one])
    elsewhere = drawn_once(lambda x: calls.append(x) or x, [other])
    assert first("a") == "a"
    assert first("a") == gr.skip()
    assert elsewhere("a") == "a"
    assert [first("b"), first("a")] == ["b", "a"]
    assert second("a") == "a", "another handler may draw something else from the same values"
    assert first("a") == "a", "which the output shows no more"
    assert calls == ["a", "a", "b", "a", "a", "a"]


def test_what_fails_or_shows_nothing_is_tried_again(page: None) -> None:
    outcomes = iter([gr.skip(), ValueError(), "drawn"])

    def draw(_: str) -> Any:
        outcome = next(outcomes)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    once = drawn_once(draw, [gr.HTML()])
    assert once("a") == gr.skip()
    with pytest.raises(ValueError, match=r"^$"):
        once("a")
    assert [once("a"), once("a")] == ["drawn", gr.skip()]


def test_the_oldest_values_are_forgotten(page: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST", 2)
    handlers = [drawn_once(lambda x: x, [gr.HTML()]) for _ in range(3)]
    assert [once("a") for once in handlers] == ["a"] * 3
    assert handlers[2]("a") == gr.skip()
    assert handlers[0]("a") == "a"


def test_without_a_page_everything_is_drawn() -> None:
    once = drawn_once(lambda x: x, [gr.HTML()])
    assert [once("a"), once("a")] == ["a", "a"]


def test_no_event_that_says_something_is_lost() -> None:
    """Gradio drops one that comes while another is answered, or answers the first twice, unless it answers each."""
    with gr.Blocks() as blocks:
        app.panel(sources=("sample:bert", "sinusoidal:42x16"), address=True)
    modes = {
        bound.name: bound.trigger_mode
        for bound in blocks.fns.values()
        if bound.fn is not None
        and any(one.annotation == "Happened" for one in inspect.signature(bound.fn).parameters.values())
    }
    assert set(modes.values()) == {"multiple"}, modes
    assert len(modes) > 10


def test_rows_are_drawn_for_the_last_values_and_fade_until_then() -> None:
    """A slider that is dragged would draw each step otherwise, and old pictures would look like the new ones."""
    page = app.build(sources=("sample:bert", "sinusoidal:42x16"))
    mark = next(one for one in page.blocks.values() if "data-drawing" in str(getattr(one, "value", "")))
    rows = [one for one in page.fns.values() if any(isinstance(output, PanelRow) for output in one.outputs)]
    drawn = [one for one in rows if one.show_progress == "minimal"]
    assert drawn
    assert {one.trigger_mode for one in drawn} == {"always_last"}
    assert all(one.show_progress_on == [mark] for one in drawn)


def test_a_visitors_page_is_looked_through_while_a_tab_is_added() -> None:
    """Gradio looks through the listeners at each event, in another thread than a tab that is drawn."""
    page = app.build(sources=("sample:bert",))
    visited = SessionState(page).blocks_config
    before = len(page.fns), len(page.blocks)
    for parts in (visited.fns, visited.blocks):
        for seen in (parts, parts.keys(), parts.values(), parts.items()):
            for _ in seen:
                parts[max(parts) + 1] = parts[min(parts)]
        assert len(parts) == 5 * before[parts is visited.blocks]
    assert (len(page.fns), len(page.blocks)) == before
