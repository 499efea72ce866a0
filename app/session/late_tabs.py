"""Tabs that are drawn when they are first opened, each by one ``gr.render``, so that the page itself is small.

What a page holds of such a tab are its session, whose ``due`` it sets as that of any tab, and in ``Session.view`` what
the tab's controls hold. Gradio's page forgets a listener of the page for an event that a late tab listens to as well:
a tab binds events of its own components, of its ``due`` and ``loads``, and of ``Session.asked``, which one tab takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr
from gradio.context import get_blocks_context

from ..components.events import QUIET, State
from ..components.page_script import on_load
from .address import Address, differing, taken, value_of
from .background_jobs import bind_stops
from .guard import INPUTS, guard_listeners
from .source_names import FIRST
from .state import Session

Draw = Callable[[Session], None]
"""Adds the components of a tab to what is open, and binds their events."""

SET_BY_VISITORS = tuple(kind for kind, _ in INPUTS)

ONE_AT_A_TIME: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "late tabs"}
"""Gradio numbers the listeners of a visitor's page without a lock."""


class Snapshots(dict[int, Any]):
    """Numbered parts of a page that may be looked through while a thread adds others.

    Gradio looks through a visitor's listeners at every event, and a tab that is being drawn adds its own to them.
    """

    def __iter__(self) -> Iterator[int]:
        return iter(list(super().keys()))

    def keys(self) -> Any:
        """Return the numbers of now."""
        return list(super().keys())

    def values(self) -> Any:
        """Return the parts of now."""
        return list(super().values())

    def items(self) -> Any:
        """Return both."""
        return list(super().items())


def sketched(draws: Mapping[str, Draw], sources: Sequence[str], *, public: bool) -> dict[str, Session]:
    """Draw tabs into a page that is thrown away; return their sessions, which know their controls and folds."""
    first = tuple(sources) or FIRST
    with gr.Blocks(analytics_enabled=False), gr.Tabs() as tabs:
        page = Session(public, first, State(list(first)), State(""), tabs, linked=True)
        sketches = {key: _own(page.at(key)) for key in draws}
        for key, draw in draws.items():
            with gr.Tab(id=key):
                draw(sketches[key])
    return sketches


def draw_later(draw: Draw, session: Session, address: Address) -> None:
    """Draw a tab into the open ``gr.Tab`` when that is first opened."""
    outline = gr.HTML("", js_on_load=on_load("openTab"), apply_default_css=False, elem_classes="late-tab")
    asked = [session.view, session.restored, session.sources, session.fetched]

    def drawn(view: dict[str, str], restored: str, texts: list[str], fetched: dict[str, Any]) -> None:
        page = get_blocks_context()
        assert page is not None
        blocks, others = set(page.blocks), set(page.fns)
        due, loads = State(session.drawn_with(restored, texts, fetched)), (page.root_block.load,)
        own = replace(_own(session), due=due, restored=State(restored), loads=loads)
        draw(own)
        for one in own.controls:
            one.component.value = value_of(one, view, texts)
        for name, fold in own.folds.items():
            fold.open = name in view
        for key, block in page.blocks.items():
            if key not in blocks and isinstance(block, SET_BY_VISITORS):
                block.interactive = True  # Gradio's page takes one with a value for an output
        own.bind_folds()
        bind_stops(own.running, public=own.public)
        _follow(session, own, address)
        guard_listeners(page.fns, others, public=own.public)

    render: Any = gr.render(asked, [outline.submit], trigger_mode="once", show_progress="hidden", **ONE_AT_A_TIME)
    render(drawn)
    page = get_blocks_context()
    assert page is not None
    page.blocks, page.fns = Snapshots(page.blocks), Snapshots(page.fns)  # copied for each visitor
    # Gradio counts what is rendered from 0 in every page, and offers it to programs. A page may stand in another.
    page.renderables[-1]._id = outline._id
    next(reversed(page.fns.values())).api_visibility = "private"


def _own(session: Session) -> Session:
    return replace(session, due=State([]), restored=State(""), controls=[], folds={}, opens={}, running={})


def _follow(session: Session, own: Session, address: Address) -> None:
    """Let a tab take what its page sets, and the page know what the tab's controls hold."""
    controls, components = own.controls, [one.component for one in own.controls]
    names = [one.name for one in controls]

    def take(told: list[Any], texts: list[str], view: dict[str, str], restored: str, before: str) -> list[Any]:
        kept = [gr.skip()] * (len(controls) + len(own.folds))
        return [told or gr.skip(), restored, *(kept if restored == before else taken(own, view, texts))]

    def note(before: str, *values: Any) -> list[Any]:
        held, (restored, texts, active, view, *others) = values[: len(controls)], values[len(controls) :]
        if restored != before:
            return [gr.skip()] * 2  # the page is on its way to what a link holds
        now = {name: text for name, text in view.items() if name not in names} | differing(controls, held)
        return [now, address.say(restored, texts, active, now, *others)]

    asked = [session.due, session.sources, session.view, session.restored, own.restored]
    set_by_page = [own.due, own.restored, *components, *own.folds.values()]
    gr.on([session.due.change, *own.loads], take, asked, set_by_page, trigger_mode="always_last", **QUIET)
    told = [own.restored, *components, *address.told]
    changes = [one.change for one in components]
    gr.on(changes, note, told, [session.view, address.line], trigger_mode="always_last", **QUIET)
