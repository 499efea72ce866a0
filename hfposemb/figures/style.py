"""Colours, scales and layout shared by all figures."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..tables.table import TOKEN_CLASSES, Labels
from ..text import display, tick
from .graph_objects import go
from .palette import CLASSES, PALETTE, SOURCES, dark_map

Array: TypeAlias = NDArray[Any]


Unit: TypeAlias = Literal["cosine", "expected rotary kernel", "additive bias", "dot", "euclidean", "share"]


FONT = "-apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"
INK, SUBDUED, FAINT = (PALETTE[role].light for role in ("ink", "subdued", "faint"))
PAGE, PANEL = PALETTE["page"].light, PALETTE["panel"].light
ACCENT, ACCENT_TEXT, BASELINE = (PALETTE[role].light for role in ("accent", "accent_text", "baseline"))
CLEAR = "rgba(0,0,0,0)"
MARGIN = {"l": 48, "r": 16, "t": 8, "b": 44}
EYE = (1.22, 1.08, 0.66)
LARGEST_MATRIX = 1024
SVG_POINTS = 2_000  # more points use WebGL; fewer stay SVG, because a page has only about 16 WebGL contexts
UNMEASURED = 0.15  # opacity of tokens that have no number to colour by
RING = {2: 1.7, 3: 3.0}  # size of a hollow dot relative to others, by number of dimensions
COIL = 0.05  # a median step above this fraction of the extent makes a coil, which is drawn with thin lines
CLASS_COLOURS = {
    name: CLASSES[{"has a digit": "digit", "padding": "unused"}.get(name, name)].light for name in TOKEN_CLASSES
}


CLASS_MEANINGS = frozenset({"text", "hovertext", "customdata", "meta", "name", "ticktext", "ids"})


@dataclass(frozen=True, eq=False)
class Series:
    """A line of a plot.

    Attributes:
        name: Name shown in the plot.
        values: Values [n].
        colour: Colour as hex.
        dash: Dash style of plotly.
        at: Where the values are [n], by default 0, 1, 2, ….
        band: Low and high end of an interval, two arrays [n].
        marks: Indices of values with a dot.
        chosen: Whether the line is emphasised among several.
    """

    name: str
    values: Array
    colour: str = BASELINE
    dash: str = "dot"
    at: Array | None = None
    band: tuple[Array, Array] | None = None
    marks: tuple[int, ...] = ()
    chosen: bool = False

    @property
    def x(self) -> Array:
        """Where the values are [n]."""
        return np.arange(len(self.values), dtype=np.float32) if self.at is None else np.asarray(self.at)


@dataclass(frozen=True)
class Axis:
    """An axis. ``ticks`` and ``span`` are derived from the data unless given; with ``share``, .5 is shown as 50 %."""

    title: str = ""
    log: bool = False
    share: bool = False
    ticks: tuple[float, ...] = ()
    span: tuple[float, float] | None = None


def source_style(index: int) -> tuple[str, str]:
    """Return the colour and dash of a source by its index in the list of sources."""
    style = SOURCES[index % len(SOURCES)]
    return style.colour.light, style.dash


def sources(values: Mapping[str, Array]) -> tuple[Series, ...]:
    """Return one series per source, in order, with the colour and dash it has in every plot."""
    return tuple(Series(name, array, *source_style(index)) for index, (name, array) in enumerate(values.items()))


def escape(text: str, *, width: int = 40) -> str:
    """Return a text of at most ``width`` characters that plotly shows literally, without markup.

    Invisible characters are shown by name.
    """
    shown = text if len(text) <= width and text.isprintable() else display(text, width=width)
    return html.escape(shown, quote=False).replace("$", "&#36;") if SPECIAL.search(shown) else shown


SPECIAL = re.compile("[&<>$]")


def listed(parts: Sequence[str], *, most: int = 4) -> str:
    """Join parts with commas and "and"; of more than ``most``, all but the first are counted only."""
    shown = parts if len(parts) <= most else [*parts[: most - 1], f"{len(parts) - most + 1:,} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def new_figure(traces: Iterable[Any], *, height: int | None, **layout: Any) -> go.Figure:
    """Return a figure with the common layout, overridden by ``layout``."""
    base: dict[str, Any] = {
        "template": "none",
        "autosize": True,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": FONT, "size": 12.5, "color": SUBDUED},
        "margin": MARGIN,
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "modebar": {"bgcolor": CLEAR},
    }
    if height is not None:
        base["height"] = height
    # plotly copies what it is created with, texts one by one, but not what a trace is given later.
    drawn = list(traces)
    texts = {at: trace.text for at, trace in enumerate(drawn) if isinstance(getattr(trace, "text", None), np.ndarray)}
    for at in texts:
        drawn[at].text = texts[at][:0]
    figure = go.Figure(drawn, {**base, **layout})
    for at, text in texts.items():
        figure.data[at].text = text
    return figure


def legend_row() -> dict[str, Any]:
    """Return the layout of a legend in one row above the plot."""
    return {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "yanchor": "bottom",
        "itemclick": False,
        "itemdoubleclick": False,
        "bgcolor": CLEAR,
        "font": {"color": SUBDUED, "size": 12.5},
    }


def bare_figure(**more: Any) -> dict[str, Any]:
    """Return the properties of an axis without grid, ticks and labels, overridden by ``more``."""
    return {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "automargin": False, **more}


def equal_axes(low: Array, high: Array, **more: Any) -> dict[str, Any]:
    """Return the layout of a map between two corners [2], whose axes have one scale and a faint grid."""
    x, y = (
        bare_figure(range=[float(start), float(end)], **more, showgrid=True, gridcolor=FAINT, nticks=6)
        for start, end in zip(low, high, strict=True)
    )
    return {"margin": dict.fromkeys("lrtb", 8), "xaxis": x, "yaxis": {**y, "scaleanchor": "x"}}


def plotly_scale(title: str, ticks: Sequence[float], *, grid: bool, share: bool = False) -> dict[str, Any]:
    """Return the properties of an axis with a title and given ticks."""
    font = {"size": 12.5, "color": SUBDUED}
    return {
        "title": {"text": title, "standoff": 8, "font": font} if title else {"text": ""},
        "tickmode": "array",
        "tickvals": [float(tick) for tick in ticks],
        "ticktext": [tick(at, share=share) for at in ticks],
        "ticks": "outside",
        "ticklen": 6,
        "tickcolor": CLEAR,
        "ticklabeloverflow": "allow",
        "showgrid": grid,
        "gridcolor": FAINT,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "automargin": False,
    }


def decimal_places(count: int, first: int = 0) -> list[int]:
    """Return up to five ticks for an axis of ``count`` rows from ``first`` on, including the first and the last."""
    if count <= 5:
        return [first + i for i in range(count)]
    return [first + i * count // 4 for i in range(4)] + [first + count - 1]


def nice_ticks(low: float, high: float) -> list[float]:
    """Return at most five round numbers between low and high."""
    if not high > low:
        return [low]
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    for step in (1, 2, 2.5, 5, 10, 20):
        first, last = np.ceil(low / (step * power) - 1e-9), np.floor(high / (step * power) + 1e-9)
        if last - first < 5:
            return [round(float(i * step * power), 12) + 0.0 for i in np.arange(first, last + 1)]
    return [low, high]


def decade_ticks(low: float, high: float) -> list[float]:
    """Return at most five round numbers between low and high, for a logarithmic axis."""
    first, last = int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1
    decades = range(first, last)
    choices: list[list[float]] = [[m * 10.0**e for e in decades for m in digits] for digits in ((1, 3), (1, 2, 5))]
    choices += [[10.0**e for e in decades if not e % every] for every in (1, 2, 3, 4, 6, 12, 24)]
    for choice in choices:
        inside = [round(v, 12) for v in choice if low * 0.999 <= v <= high * 1.001]
        if 2 <= len(inside) <= 5:
            return inside
    return [low, high]


def link_axis(group: str | None, rows: Array, *, kept: tuple[Array, int] | None = None) -> dict[str, Any]:
    """Return trace properties with the points' rows in the group: the first one if they are consecutive, otherwise all.

    Args:
        group: Group for linked hover, if any.
        rows: Row of each point [n].
        kept: How many of each point's nearest rows are near it [n], and out of how many.
    """
    if group is None:
        return {}
    told = {} if kept is None else {"kept": kept[0], "of": kept[1]}
    if not len(rows) or np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return {"meta": {"link": group, "first": int(rows[0]) if len(rows) else 0, **told}}
    return {"meta": {"link": group, "ids": np.asarray(rows, np.int32), **told}}


def finite_span(arrays: Iterable[Array]) -> tuple[float, float]:
    """Return the smallest and largest finite value of some arrays; 0 and 1 if there is none."""
    lows, highs = [], []
    for array in arrays:
        finite = array[np.isfinite(array)]
        if finite.size:
            lows.append(float(finite.min()))
            highs.append(float(finite.max()))
    return (min(lows), max(highs)) if lows else (0.0, 1.0)


def robust_limit(*arrays: Array) -> float:
    """Return the end of a range −limit … limit that contains 99 % of all numbers, rounded up to two digits."""
    parts = [np.abs(array[np.isfinite(array)]).ravel() for array in map(np.asarray, arrays)]
    together = np.concatenate(parts) if parts else np.zeros(0)
    limit = float(np.quantile(together, 0.99)) if together.size else 0.0
    if limit <= 0:
        return 1.0
    unit = 10.0 ** (np.floor(np.log10(limit)) - 1)
    return float(np.ceil(limit / unit - 1e-9) * unit)


def dark(figure: go.Figure) -> go.Figure:
    """Return the figure for a dark page: every colour replaced by its partner, all numbers unchanged."""
    partners = dark_map()

    def recolour(value: Any) -> Any:
        if isinstance(value, str):
            return partners.get(value.lower(), value)
        if isinstance(value, Mapping):
            return {
                key: item if key in CLASS_MEANINGS and key != "font" else recolour(item) for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [recolour(item) for item in value]
        return value

    return go.Figure(
        [recolour(trace.to_plotly_json()) for trace in figure.data], recolour(figure.layout.to_plotly_json())
    )


def add_label(text: str, *, colour: str = INK, at: tuple[float, float] = (0, 0), **more: Any) -> dict[str, Any]:
    """Return an annotation: a text without arrow, shifted by ``at`` pixels."""
    return {
        "text": text,
        "showarrow": False,
        "font": {"size": 12.5, "color": colour},
        "xshift": at[0],
        "yshift": at[1],
        **more,
    }


spelt_out: WeakKeyDictionary[Labels, Array] = WeakKeyDictionary()


def escaped(labels: Labels) -> Array:
    """Return all labels escaped for plotly, as an array of objects [n], cached for as long as the labels exist."""
    if labels not in spelt_out:
        texts = np.empty(len(labels), object)
        texts[:] = list(map(escape, labels))
        spelt_out[labels] = texts
    return spelt_out[labels]
