"""The widget of a notebook, which shares its script with the app and the report. It needs anywidget."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import uuid4

import anywidget
import ipywidgets
import traitlets

from ..figures.assets import BUNDLE, asset, plotly_js, script
from ..reports.html_page import PANEL_COLOURS
from ..reports.html_tables import colours
from .panels import Options, token_matrices
from .selection import Chosen, Selectable, Selection
from .shown_sources import ShownSource
from .static_picture import picture_page

HINTS = {
    "position": "Hover over a position to mark it everywhere. Click to select; Shift adds. Range selects on a matrix.",
    "token": "Hover over a token to mark it everywhere. Click to select; Shift adds. Lasso and Box select on a map.",
}
INSTEAD = "Pictures of a widget: run the cell in a notebook that shows widgets to hover and select."


def widget_style() -> str:
    """Return the style of a widget: the colours of both themes, and the style sheets."""
    sheets = "\n".join(map(asset, ("plot.css", "widget.css")))
    return (
        f".hfposemb-widget {{ color-scheme: light; {colours(dark=False)} {PANEL_COLOURS} }}\n"
        f".hfposemb-widget.dark {{ color-scheme: dark; {colours(dark=True)} }}\n{sheets}"
    )


class SelectionTrait(traitlets.TraitType[Selection, Chosen]):
    """A trait that is a ``Selection``, and may be set to whatever ``Selectable.of`` takes."""

    def validate(self, view: NotebookView, value: Chosen) -> Selection:
        """Return the selection that a value stands for."""
        return view._chosen.of(value)


class PlotLibrary(ipywidgets.Widget):  # type: ignore[misc]
    """plotly.js as a model without a view, so that a kernel sends it once for all its widgets."""

    content = traitlets.Bytes().tag(sync=True)


class NotebookView(anywidget.AnyWidget):
    """Linked maps and matrices of sources in a notebook; ``hfposemb.show`` makes it.

    Attributes:
        selection: The selected rows, a ``Selection``. It changes when rows are selected in the notebook, and may be set
            to whatever ``Selectable.of`` takes. ``observe(handler, "selection")`` calls a handler after every change.
    """

    _esm = script(BUNDLE / "widget.js")
    _css = widget_style()
    _scope = traitlets.Unicode().tag(sync=True)
    _group = traitlets.Unicode().tag(sync=True)
    _hint = traitlets.Unicode().tag(sync=True)
    _sources = traitlets.Int().tag(sync=True)
    _library = traitlets.Unicode().tag(sync=True)
    _maps = traitlets.Dict().tag(sync=True)
    _matrices = traitlets.Dict().tag(sync=True)
    _selected = traitlets.Unicode().tag(sync=True)
    selection = SelectionTrait()

    def __init__(
        self,
        sources: Sequence[ShownSource],
        chosen: Selectable,
        options: Options,
        rows: tuple[dict[str, Any], dict[str, Any]],
        figures: Sequence[tuple[str, Any]],
    ) -> None:
        """Create the widget.

        Args:
            sources: The sources.
            chosen: What can be selected of them.
            options: What is drawn.
            rows: The row of maps and that of matrices, as ``panels`` returns them.
            figures: Their figures with captions, for pictures where the widget cannot run.
        """
        self._shown, self._chosen, self._options, self._figures = sources, chosen, options, figures
        super().__init__(
            _scope=f"widget {uuid4().hex[:12]}",
            _group=chosen.role,
            _hint=HINTS[chosen.role],
            _sources=len(sources),
            _library=shared_library().model_id,
            _maps=rows[0],
            _matrices=rows[1],
            selection=chosen.of(None),
        )
        self.on_msg(self._answer_page)

    def __repr__(self) -> str:
        names = ", ".join(source.name for source in self._shown)
        return f"NotebookView({self._chosen.role}s of {names}; {len(self.selection):,} rows selected)"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Return the widget, and pictures for where it cannot run."""
        found = super()._repr_mimebundle_(**kwargs)
        if found is not None:
            found[0]["text/html"] = picture_page(self._figures, f"{self!r}. {INSTEAD}")
        return found

    @traitlets.observe("selection")
    def _share_selection(self, change: dict[str, Any]) -> None:
        self._selected = change["new"].text
        if self._chosen.role == "token" and isinstance(change["old"], Selection):
            words = self._options.words
            self._matrices, _ = token_matrices(self._shown, self._chosen, change["new"], words)

    @traitlets.observe("_selected")
    def _take_selected(self, change: dict[str, Any]) -> None:
        found = self._chosen.of_text(change["new"])
        if found != self.selection:
            self.selection = found

    def _answer_page(self, _widget: object, content: Any, _buffers: object) -> None:
        """Send plotly.js to a notebook that knows no models but this one."""
        if isinstance(content, dict) and content.get("kind") == "library":
            self.send({"kind": "library"}, buffers=[_compressed_library()])


_libraries: list[PlotLibrary] = []


def shared_library() -> PlotLibrary:
    """Return the model of plotly.js of this kernel, made anew if all widgets were closed."""
    if not _libraries or _libraries[0].comm is None:
        _libraries[:] = [PlotLibrary(content=_compressed_library())]
    return _libraries[0]


@cache
def _compressed_library() -> bytes:
    return gzip.compress(plotly_js().encode(), 9, mtime=0)
