"""The widget of a notebook, which shares its script with the app and the report. It needs anywidget.

Pictures of its figures, made without a browser, are shown where a widget cannot run, and in exported pages.
"""

from __future__ import annotations

import base64
import gzip
import html
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import uuid4

import anywidget
import ipywidgets
import numpy as np
import traitlets
from numpy.typing import NDArray

from ..figures.assets import BUNDLE, asset, plotly_js, script
from ..reports.html_page import PANEL_COLOURS
from ..reports.html_tables import colours
from ..text import display
from .panels import Options, token_matrices
from .selection import Chosen, Selectable, Selection
from .shown_sources import ShownSource

Image = NDArray[np.uint8]
"""Red, green and blue of every pixel [height, width, 3]."""

SIDE = 240
"""Width and height of a picture in pixels."""

DOT = 2
MARGIN = 8
WHITE = 255
LONGEST_CAPTION = 160


def picture_page(figures: Sequence[tuple[str, Any]], words: str) -> str:
    """Return HTML with a picture of every figure that can be drawn, and a caption for the others.

    Args:
        figures: Figures with their captions.
        words: Text above the pictures.
    """
    cells = []
    for caption, figure in figures:
        said = html.escape(display(caption, width=LONGEST_CAPTION))
        found = picture(figure)
        source = "" if found is None else f"data:image/png;base64,{base64.b64encode(png(found)).decode()}"
        drawn = f'<img alt="{said}" width="{SIDE}" height="{SIDE}" src="{source}">' if source else ""
        cells.append(f'<figure style="margin: 0; max-width: {SIDE}px">{drawn}<figcaption>{said}</figcaption></figure>')
    return (
        f'<div style="background: #fff; color: #1b2027; padding: 12px"><p>{html.escape(words)}</p>'
        f'<div style="display: flex; flex-wrap: wrap; gap: 16px">{"".join(cells)}</div></div>'
    )


def picture(figure: Any) -> Image | None:
    """Return a figure's dots, from above if it has three dimensions, or its matrix; ``None`` for lines.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.widget.notebook_view import picture
        >>> picture(hpe.view("similarity", hpe.sinusoidal(64, 16))).shape
        (240, 240, 3)
    """
    traces = list(figure.data)
    if traces[0].type == "heatmap":
        return _matrix(traces[0])
    dots = [trace for trace in traces if "markers" in (trace.mode or "") and trace.x is not None and len(trace.x)]
    return _dots(dots) if dots else None


def png(image: Image) -> bytes:
    """Return an image as a PNG file."""
    height, width, _ = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def _matrix(trace: Any) -> Image:
    cells = np.asarray(trace.z, np.float64)
    down, across = (np.arange(SIDE) * length // SIDE for length in cells.shape)
    return _coloured(cells[np.ix_(down, across)], trace.zmin, trace.zmax, trace.colorscale)


def _dots(traces: Sequence[Any]) -> Image:
    """Draw dots in the order of their traces, the later above the earlier."""
    points = [np.stack([np.asarray(trace.x, float), np.asarray(trace.y, float)], axis=1) for trace in traces]
    together = np.concatenate(points)
    low, high = np.percentile(together, [0.5, 99.5], axis=0)
    room = SIDE - 2 * MARGIN
    scale = room / max(float((high - low).max()), 1e-12)
    image = np.full((SIDE, SIDE, 3), WHITE, np.uint8)
    for trace, at in zip(traces, points, strict=True):
        place = np.rint(SIDE / 2 + (at - (low + high) / 2) * scale * (1, -1)).astype(int)
        colours = _colours(trace.marker, len(at))
        for dx in range(DOT):
            for dy in range(DOT):
                x, y = place[:, 0] + dx, place[:, 1] + dy
                seen = (x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE)
                image[y[seen], x[seen]] = colours[seen]
    return image


def _colours(marker: Any, count: int) -> Image:
    if isinstance(marker.color, str):
        return np.tile(_rgb(marker.color), (count, 1))
    return _coloured(np.asarray(marker.color, np.float64), marker.cmin, marker.cmax, marker.colorscale)


def _coloured(values: NDArray[np.float64], low: float, high: float, scale: Sequence[tuple[float, str]]) -> Image:
    """Return the colours of numbers on a scale, white for those that are not finite."""
    share = np.clip((values - low) / ((high - low) or 1.0), 0, 1)
    stops, colours = [stop for stop, _ in scale], np.stack([_rgb(colour) for _, colour in scale])
    channels = [np.interp(np.nan_to_num(share), stops, colours[:, channel]) for channel in range(3)]
    return np.where(np.isfinite(values)[..., None], np.stack(channels, axis=-1), WHITE).astype(np.uint8)


def _rgb(colour: str) -> Image:
    return np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)


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
