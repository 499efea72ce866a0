"""The component for all figures: a row of panels with plotly figures, whose data are sent as files.

``gr.Plot`` has no click or hover event, leaks a WebGL context on every update, and sends its data as JSON lists. A
:class:`PanelRow` sends a small dict with the text of each panel and a skeleton of each figure, and one binary file per
figure with its numbers. The page's script joins them in the browser, with plotly.js.

A trace takes part in linked hover if its ``meta`` is ``{"link": group, "first": k}``: its point *i* is row *i + k* of
``group``, in every panel of the same ``scope``. Without ``"first"``, the trace's ``customdata`` (or ``"ids"``) holds
the row of each point. ``"labels": [...]`` are the tooltips as they are, ``text`` those escaped by the ``figures``
package. In a heatmap the axis coordinates are the rows, on both axes or on the one in ``"axis"``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr

from hfposemb.figures.assets import asset, plotly_js
from hfposemb.figures.figure_packing import Packer, sendable
from hfposemb.figures.palette import dark_map

from . import files as served
from .events import NoStub
from .page_script import on_load, page_script
from .recipe import Recipe

if TYPE_CHECKING:
    import plotly.graph_objects as go

SCRIPT = "hfposemb.js"
"""Name of the script that a page loads once for all its rows."""

LOAD_JS = f"""
{on_load("drawStyledRow")}
import(props.value.script.url).catch(() => {{
  element.textContent = "The panels could not be loaded. Reload the page.";
}});
"""


FRAME_CSS = """
.html-container:has(> &) { padding: 0; opacity: 1; }
.block:has(> .html-container > &) { overflow: visible; padding: 0; border: 0; background: none; box-shadow: none; }
.block:has(> .html-container > &) > .wrap { display: none; }
"""
"""Removes Gradio's frame around a row, its veil and its spinner; all else is in the style sheet."""


FILES = ("PNG", "SVG")
"""Actions that save what is drawn."""


@dataclass(frozen=True)
class ScaleBar:
    """A colour scale with the meaning of both ends."""

    low: str
    high: str
    colors: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class LegendItem:
    """An entry of the legend above a plot, for lines or dots that cannot carry their own label."""

    name: str
    color: str
    note: str = ""
    pick: bool = False
    """Whether it is a button that sends ``{"panel", "legend": name}``."""


@dataclass(frozen=True)
class Drawing:
    """A figure and its centred caption. Without ``layout.height``, a square matrix fills the panel's width."""

    figure: go.Figure
    caption: str = ""


@dataclass(frozen=True)
class NeighbourRow:
    """A neighbour in a list; ``shared`` ones are tinted."""

    label: str
    value: float
    shared: bool = False
    id: int = 0


@dataclass(frozen=True)
class NeighbourList:
    """The neighbours in one source; each is a button that sends ``{"panel", "list", "id", "label"}``."""

    name: str
    color: str
    rows: tuple[NeighbourRow, ...]


@dataclass(frozen=True)
class Panel:
    """A panel of a row. ``key`` identifies it: a panel that keeps its key keeps its place, camera and zoom.

    A panel that shows numbers has the ``recipe`` that reproduces them, opened from its actions. With drawings it has
    the actions ``FILES``, unless it has others.
    """

    key: str
    title: str
    drawings: tuple[Drawing, ...] = ()
    source: tuple[str, str] | None = None
    color: str = ""
    subtitle: str = ""
    help: str = ""
    foot: str = ""
    actions: tuple[str, ...] = ()
    scale_bars: tuple[ScaleBar, ...] = ()
    legend: tuple[LegendItem, ...] = ()
    numbers: tuple[tuple[str, str], ...] = ()
    lists: tuple[NeighbourList, ...] = ()
    chips: tuple[NeighbourRow, ...] = ()  # words in a box that scrolls, each a button like those of a list
    tools: tuple[Literal["Lasso", "Box", "Range"], ...] = ()  # to select dots of flat plots
    selects: bool = False  # whether selected rows stand out in its plots; with tools they always do
    message: str = ""
    tone: Literal["normal", "error"] = "normal"
    span: int = 1
    emphasis: str = ""  # occurrences in title, subtitle, captions and message are drawn in the accent colour
    recipe: Recipe | None = None


@dataclass(frozen=True)
class Panels:
    """A row with its own heading or marks. A plain tuple of panels suffices if neither is needed."""

    panels: tuple[Panel, ...]
    heading: str = ""
    subheading: str = ""
    scale_bars: tuple[ScaleBar, ...] = ()
    marked: Mapping[str, int] = field(default_factory=dict)
    selected: Mapping[str, str] = field(default_factory=dict)
    """Rows of a group, as text of ``figures.encoded_rows``, that stand out in the panels that select."""
    columns: int = 0


class PanelRow(gr.HTML, metaclass=NoStub):
    """A row of panels.

    ``.select(fn, trigger_mode="multiple")`` receives clicks (by default Gradio drops one that comes while another is
    being handled). ``fn`` takes a ``gr.EventData`` whose ``_data`` is one of ``{"panel", "group", "index", "text", "x",
    "y"}`` (a point), ``{"panel", "list", "id", "label"}`` (a neighbour or a chip), ``{"panel", "legend"}`` (a name in
    the legend), ``{"panel", "area"}`` (a shape drawn by one of the ``tools``: its corners ``x`` and ``y``) and
    ``{"panel", "action"}`` (an action other than PNG and SVG). Rows of the same ``scope`` share hover, marks and
    selected rows. In the browser, ``window.hfposemb.mark(scope, group, index)`` moves the mark without a request to the
    server.
    """

    def __init__(  # noqa: PLR0913 - its own and those that the app gives to Gradio's
        self,
        value: Sequence[Panel] | Panels | Callable[..., Sequence[Panel] | Panels] | None = None,
        *,
        scope: str = "page",
        columns: int = 0,
        swipe: bool = False,
        reserve: int = 0,
        awaited: int = 1,
        visible: bool | Literal["hidden"] = True,
        elem_classes: list[str] | str | None = None,
        render: bool = True,
    ) -> None:
        """Create a row.

        Until its first value is drawn it reserves ``reserve`` pixels, or without a ``value`` most of a window, so that
        content below it moves little, and shows the outlines of ``awaited`` panels. ``columns`` is the grid's width in
        panel spans (0: the sum of the spans, at most four). On a phone the panels are stacked, or with ``swipe``
        arranged in a row that scrolls sideways.
        """
        self.scope = scope
        self.columns = columns
        self.swipe = swipe
        held = f' style="min-height: {reserve}px"' if reserve else ""
        super().__init__(
            value=value,
            html_template=f'<hfposemb-row data-panels="{awaited}"{held}></hfposemb-row>',
            css_template=FRAME_CSS,
            js_on_load=LOAD_JS,
            apply_default_css=False,
            visible=visible,
            elem_classes=elem_classes,
            render=render,
            preserved_by_key=None,
        )

    def postprocess(self, value: Any) -> Any:
        """Convert panels to the input of the page's script: files for what is large, the rest as one JSON string.

        A single string, because Gradio's page copies the properties of every component, item by item, at every step of
        every event.
        """
        if value is None:
            return {"row": "null", "script": _script(), "files": []}
        row = value if isinstance(value, Panels) else Panels(tuple(value))
        files = Packer(served.put)
        panels = [_panel(panel, files) for panel in row.panels]
        spans = sum(panel.span for panel in row.panels)
        words = {
            "heading": row.heading,
            "subheading": row.subheading,
            "scale_bars": list(map(vars, row.scale_bars)),
        }
        shown = {
            "scope": self.scope,
            "swipe": self.swipe,
            "columns": row.columns or self.columns or min(max(spans, 1), 4),
            **sendable(words),
            "marked": {group: int(index) for group, index in row.marked.items()},
            "selected": dict(row.selected),
            "dark": dark_map(),
            "panels": panels,
        }
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        return {"row": text, "script": _script(), "files": files.listed}

    def preprocess(self, payload: Any) -> Any:
        """Return the payload unchanged: a row is never used as an input."""
        return payload

    def api_info(self) -> dict[str, Any]:
        """Describe the value as an object."""
        return {"type": "object"}

    def example_payload(self) -> dict[str, Any]:
        """Return a row without panels."""
        return {"row": '{"panels": []}', "files": []}

    def example_value(self) -> tuple[Panel, ...]:
        """Return no panels."""
        return ()


def _panel(panel: Panel, files: Packer) -> dict[str, Any]:
    words = ("key", "title", "color", "subtitle", "help", "foot", "message", "tone", "span", "emphasis")
    shown = {
        **{name: getattr(panel, name) for name in words},
        "source": list(panel.source or ()),
        "actions": list(panel.actions or (FILES if panel.drawings else ())),
        "tools": list(panel.tools),
        "selects": panel.selects or bool(panel.tools),
        "numbers": [list(number) for number in panel.numbers],
        "legend": list(map(vars, panel.legend)),
        "scale_bars": list(map(vars, panel.scale_bars)),
        "lists": [{**vars(one), "rows": list(map(_neighbour, one.rows))} for one in panel.lists],
        "chips": list(map(_neighbour, panel.chips)),
    }
    drawings = [{"caption": sendable(drawing.caption), **files.figure(drawing.figure)} for drawing in panel.drawings]
    title = ": ".join(filter(None, [*(panel.source or ())[:1], panel.title]))
    recipe = {} if panel.recipe is None else {"recipe": _texts(panel.recipe, title)}
    return {**sendable(shown), **recipe, "drawings": drawings}


def _neighbour(row: NeighbourRow) -> dict[str, Any]:
    return {"label": row.label, "value": float(row.value), "shared": row.shared, "id": int(row.id)}


def _texts(recipe: Recipe, title: str) -> dict[str, Any]:
    """Return a recipe as sent to the page, never truncated: a truncated snippet does not run."""
    texts = {"python": recipe.python, "command": recipe.command, "cite": recipe.citation(title)}
    space = {"space": os.environ["SPACE_ID"]} if "SPACE_ID" in os.environ else {}
    sent = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
    return {**sent, "local": recipe.local, **space}


def _script() -> dict[str, Any]:
    """Return the script that a page loads once for all its rows, which loads what is served next to it."""
    store = served.shared()
    store.keep("hfposemb.css", lambda: asset("plot.css").encode())
    store.keep("plotly.min.js", lambda: plotly_js().encode())
    return store.keep(SCRIPT, lambda: page_script().encode())
