"""What a tab draws: its rows, one after the other, each only if something that it is drawn from has changed.

A tab has one listener for all that it draws. A link sets several controls at once, and each of them asks for the
drawing that shows them all; what an output of a page was last drawn from is remembered, so it is drawn once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import gradio as gr
from gradio.context import LocalContext

from ..components.events import QUIET, target_of
from ..components.page_script import on_load
from ..components.plot import PanelRow
from ..jobs.turns import TURNS, asker
from .guard import complete, declared, guarded
from .opened import Opened, waiting

if TYPE_CHECKING:
    from .background_jobs import BackgroundJob

Draw = Callable[..., Any]

MOST = 8_192
"""Number of outputs, of all pages, whose last values are remembered."""

_last: OrderedDict[Hashable, tuple[bytes, Any]] = OrderedDict()
"""What the outputs of a drawing show, by page and output: the digest of its values, and the outcome of its job."""

_lock = Lock()


@dataclass(frozen=True, eq=False)
class Drawing:
    """One thing that a tab draws: see ``Session.redraw``."""

    draw: Draw
    outputs: tuple[Any, ...]
    inputs: tuple[Any, ...]
    events: tuple[Any, ...]
    fold: str = ""
    job: BackgroundJob | None = None

    @property
    def values(self) -> tuple[Any, ...]:
        """The components whose values it is drawn from."""
        return tuple(dict.fromkeys((*self.inputs, *(one.__self__ for one in self.events))))

    def closed(self) -> dict[Any, Any]:
        """Return what ends the job of an accordion that was open, and is closed now."""
        if self.job is None:
            return {}
        with _lock:
            return {self.job.wanted: []} if _last.pop(_place(self.outputs), None) else {}

    def outdated(self, due: Sequence[Any], values: Mapping[Any, Any]) -> bool:
        """Return whether the outputs show something else than what is drawn from these values, as far as is known."""
        place = _place(self.outputs)
        with _lock:
            return place is None or _last.get(place, (b"",))[0] != self._digest(due, values)

    def shown(self, opened: Sequence[Opened], due: Sequence[Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the values of the outputs by component; empty if there is nothing to show."""
        place, ended = _place(self.outputs), self.job and values[self.job.done]
        with _lock:
            before = _last.pop(place, (b"", None))
        given = [values[one] for one in self.inputs]
        if self.job is not None:
            given.append(ended if ended != before[1] else {})
        complete((opened, *given), declared(self.draw))
        found = self.draw(opened, *given)
        if found == gr.skip():
            return {}
        if place is not None:
            _remember(place, (self._digest(due, values), ended))
        return dict(zip(self.outputs, found if len(self.outputs) > 1 else [found], strict=True))

    def _digest(self, due: Sequence[Any], values: Mapping[Any, Any]) -> bytes:
        told = repr([due, *(values[one] for one in self.values)]).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(told, digest_size=16).digest()


def changes(component: Any) -> list[Any]:
    """Return the events of a component after which what is drawn from its value is drawn again."""
    if isinstance(component, gr.State | gr.Textbox):
        return [component.change]
    return [component.input, component.release] if isinstance(component, gr.Slider) else [component.input]


def bind(session: Any) -> None:
    """Bind the drawings of a tab: when its sources change, and on the events of each.

    It is not a generator, whose values Gradio's page loses in a tab that it has not mounted yet: what differs in the
    next one is applied to the same objects.
    """
    drawings = session.drawings
    if not drawings:
        return
    inputs = list(dict.fromkeys(value for one in drawings for value in one.values))
    outputs = list(dict.fromkeys(output for one in drawings for output in one.outputs))
    events = {(event.__self__, event.event_name): event for one in drawings for event in one.events}

    async def draw_tab(due: list[Any], unfolded: list[str], *given: Any) -> dict[Any, Any] | Any:
        if not due or waiting(session.shown(due)):
            return gr.skip()
        return await _drawn(session, due, unfolded, dict(zip(inputs, given, strict=True))) or gr.skip()

    options: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
    if session.pending is not None and any(isinstance(output, PanelRow) for output in outputs):
        options |= {"show_progress": "minimal", "show_progress_on": session.pending}
    triggers = [session.due.change, session.unfolded.change, session.rest.change, *events.values()]
    gr.on(triggers, draw_tab, [session.due, session.unfolded, *inputs], [*outputs, session.rest], **options)


async def _drawn(session: Any, due: list[Any], unfolded: list[str], values: dict[Any, Any]) -> dict[Any, Any]:
    """Return what is to be shown of a tab, by component.

    This has at most one row of panels, so that the first is seen at once; the state ``rest`` then asks for more.
    """
    opened, more = session.shown(due), {session.rest: uuid4().hex}
    found: dict[Any, Any] = {}
    failed: gr.Error | None = None
    for one in session.drawings:
        if one.fold and one.fold not in unfolded:
            found |= one.closed()
        elif one.outdated(due, values):
            if any(isinstance(output, PanelRow) and not _is_update(shown) for output, shown in found.items()):
                return found | more
            draw = guarded(one.shown, public=session.public, outputs=one.outputs)
            try:
                new = await TURNS.call(asker(), draw, opened, due, values)
            except gr.Error as error:  # told once the others are drawn
                failed = failed or error
                continue
            values |= {key: value for key, value in new.items() if key in values and not _is_update(value)}
            found |= new
    if failed is not None and not found:
        raise failed
    return found | more if failed else found


class Fold(NamedTuple):
    """An accordion, and the state of its tab that has the names of those that are open."""

    box: gr.Accordion
    unfolded: gr.State


def bind_folds(folds: Mapping[str, Fold]) -> None:
    """Keep the states of the accordions of a page, which are given by name."""
    if not folds:
        return
    states = list(dict.fromkeys(one.unfolded for one in folds.values()))
    names = {f"fold-{name}": name for name in folds}

    def moved(*, opened: bool) -> Callable[..., Any]:
        def on_event(event: gr.EventData, *unfolded: list[str]) -> Any:
            if (name := target_of(event, names)) is None:
                return gr.skip()
            state = folds[name].unfolded
            others = [one for one in unfolded[states.index(state)] if one != name]
            return {state: [*others, name] if opened else others}

        return on_event

    gr.on([one.box.expand for one in folds.values()], moved(opened=True), states, states, **QUIET)
    gr.on([one.box.collapse for one in folds.values()], moved(opened=False), states, states, **QUIET)


def follow_tabs(items: Mapping[str, gr.Tab], active: gr.State, *, announced: bool) -> None:
    """Keep the name of the open tab in ``active``.

    If ``announced``, the answer to the first tab tells the page's scripts that the server knows its tab.
    """
    script = on_load("announceReady")
    unseen: dict[str, Any] = {"html_template": "", "apply_default_css": False, "elem_classes": "unseen"}
    ready = [gr.HTML("", js_on_load=script, **unseen)] if announced else []

    def opened(event: gr.EventData) -> Any:
        name = getattr(event.target, "id", None)
        return gr.skip() if name not in items else {active: name, **dict.fromkeys(ready, "ready")}

    gr.on([item.select for item in items.values()], opened, None, [active, *ready], **QUIET)


def _is_update(value: Any) -> bool:
    return isinstance(value, dict) and value.get("__type__") == "update"


def _place(outputs: Sequence[Any]) -> Hashable | None:
    """Return the first output on the visitor's page; ``None`` if the event comes from no page."""
    page = getattr(LocalContext.request.get(None), "session_hash", None)
    return (page, outputs[0]._id) if page and outputs else None


def _remember(place: Hashable, shown: tuple[bytes, Any]) -> None:
    with _lock:
        _last[place] = shown
        _last.move_to_end(place)
        while len(_last) > MOST:
            _last.popitem(last=False)
