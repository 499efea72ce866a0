"""What a host app gets of a panel: what is selected in it, and its controls to set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

import gradio as gr
from gradio.context import get_blocks_context

from hfposemb.errors import HfposembError, InputError

from ..components.events import EACH, QUIET
from ..components.happened import Happened
from ..components.plot import PanelRow
from .opened import Opened, split

if TYPE_CHECKING:
    from .state import Session

SOURCES, TAB = "sources", "tab"


class Selection(TypedDict):
    """What a visitor clicked: a row of a table, with its source as it was given to the panel."""

    source: str
    role: str
    row: int
    label: str


@dataclass(frozen=True)
class Plugged:
    """A panel in a page of a host; use it while the host's ``gr.Blocks`` is open.

    ``keys`` are its tabs, ``given`` the names of the sources that it opens by the names that it uses for them.
    """

    session: Session
    sessions: dict[str, Session]
    given: dict[str, str]

    def on_select(self, call: Callable[[Selection], Any], outputs: Any = None) -> None:
        """Call a function whenever a position, a token or a neighbour in a list is clicked.

        Args:
            call: Takes the ``Selection`` and returns the values of ``outputs``.
            outputs: Components of the host.
        """
        for key, row in self._rows():
            handler = self._reader(key, call)
            row.select(handler, self.sessions[key].due, outputs, **EACH)

    def follow(self, **values: Any) -> None:
        """Set controls of the panel whenever components of the host change.

        Args:
            values: Components by the names that links use for the controls, such as ``position``, ``word``, ``method``
                or ``dims``; ``sources`` for a component with a list of source names, and ``tab`` for one with a tab's
                name.

        Raises:
            InputError: The panel has no control of that name.
        """
        known = {one.name: one for one in self.session.controls}
        for name, component in values.items():
            if name == SOURCES:
                component.change(lambda texts: split(texts or ())[0], component, self.session.sources, **QUIET)
            elif name == TAB:
                component.change(self.session.show, component, [self.session.tabs, self.session.active], **QUIET)
            elif name in known:
                self._follow(known[name], component)
            else:
                raise InputError(f"no control is named {name!r}; the names are {', '.join([SOURCES, TAB, *known])}")

    def _follow(self, control: Any, component: Any) -> None:
        def take(value: Any) -> list[Any]:
            with suppress(ValueError):
                return [control.read(str(value)), uuid4().hex]
            return [gr.skip()] * 2  # not a value that this control can have

        component.change(take, component, [control.component, self.session.restored], **QUIET)

    def _rows(self) -> list[tuple[str, PanelRow]]:
        """Return the rows of panels of every tab."""
        page = get_blocks_context()
        assert page is not None
        rows = [block for block in page.blocks.values() if isinstance(block, PanelRow)]
        return [
            (key, row) for row in rows for key in [_tab_of(row)] if key and row.scope.startswith(self.session.scope)
        ]

    def _reader(self, key: str, call: Callable[[Selection], Any]) -> Callable[..., Any]:
        def read(due: list[Any], event: Happened) -> Any:
            made = selected(event.told, self.sessions[key].shown(due))
            if made is None:
                return gr.skip()
            return call({**made, "source": self.given.get(made["source"], made["source"])})

        return read


def _tab_of(block: Any) -> str:
    while block is not None and not isinstance(block, gr.Tab):
        block = block.parent
    return str(block.id) if block is not None else ""


def selected(told: dict[str, Any], opened: Sequence[Opened]) -> Selection | None:
    """Return the row that an event of a row of panels is about, ``None`` if it is about none."""
    key = str(told.get("panel", ""))
    source = next((one for one in opened if one.text in (key, *key.split(" ")[1:])), None)
    if told.get("group") == "position":
        row = told.get("index")
        label = str(row)
        role = "position"
        source = source or (opened[0] if len(opened) == 1 else None)
    else:
        row, role, label = told.get("id", told.get("index")), "token", str(told.get("label", told.get("text", "")))
        having = [one for one in opened if one.table("token") is not None]
        place = told.get("list", 0)
        listed = having[place] if isinstance(place, int) and place < len(having) else None
        source = source or listed
    if not isinstance(row, int) or row < 0:
        return None
    if role == "token" and source is not None:
        with suppress(HfposembError, IndexError):
            table = source.table("token")
            label = label if table is None else table.labels[row]
    return Selection(source="" if source is None else source.text, role=role, row=row, label=label)
