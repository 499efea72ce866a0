"""Draw results as plotly figures. Nothing is measured here, nothing is shown or written.

Figures are made with the light colours of :mod:`hfposemb.palette`; :func:`dark` gives the same figure for a dark page.
Arrays stay arrays, so plotly encodes them in binary. A trace says which results its points are, for linked views:
``meta`` is ``{"link": group, "first": k}`` where point *i* is row *i + k* of the group, and has ``"ids": rows`` instead
where the rows have gaps; the coordinates of a matrix are rows themselves, on the ``"axes"`` that ``meta`` names (both
unless it does). The cells of an image's map are patches: ``meta`` is ``{"grid": [rows, columns]}``, with ``"tiles"``
where there is a map for each of several. ``text`` is what a reader may see of a point, already safe for plotly;
``meta["kept"]`` is how many of its ``meta["of"]`` nearest are near it in the picture, −1 where that was not measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from . import placing
from .errors import InputError
from .palette import CLASSES, PALETTE, POSITION, SHARE, SIMILARITY, SOURCES, Scale, dark_map
from .placing import LINE, Corner, Frame, wide
from .table import TOKEN_CLASSES, Labels
from .vocabulary import display

if TYPE_CHECKING:
    from .club import Club
    from .geometry import PatchMaps
    from .position import Wavelengths
    from .projection import Projection
    from .similarity import Distribution, Neighbours

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
SVG_POINTS = 2_000  # more points than this go to WebGL; fewer stay SVG, since a page has about 16 WebGL contexts
UNMEASURED = 0.15  # opacity of tokens that have no number to be coloured by
RING = {2: 1.7, 3: 3.0}  # how much larger a hollow dot is, by the dimensions of the picture
COIL = 0.05  # a median step above this share of the extent makes a coil, which is drawn with thin lines
TILE_GAP = 0.08  # between the maps of two patches, as a share of a map
MOST_LEVEL = 7  # columns whose names find room side by side; those of more are written upright
WRITTEN_CELLS = 12  # up to this many rows a labelled matrix has its numbers written in, where they are below 1
CLASS_COLOURS = {
    name: CLASSES[{"has a digit": "digit", "padding": "unused"}.get(name, name)].light for name in TOKEN_CLASSES
}
ISLANDS = {
    "continuation": "continuations",
    "has a digit": "numbers",
    "other script": "other scripts",
    "unused": "unused slots",
    "padding": "padding",
}  # what a part of a map is called; words are the mainland
_MEANING = frozenset({"text", "hovertext", "customdata", "meta", "name", "ticktext", "ids"})


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a plot: ``values`` [n] at ``at`` [n], which is 0, 1, 2… by default.

    ``band`` is a pair of arrays [n], low and high; ``marks`` are indices of values worth a dot; the ``chosen`` one of
    several lines is thicker.
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
    """What an axis shows. ``ticks`` and ``span`` are chosen from the data unless given; a ``share`` .5 reads 50 %."""

    title: str = ""
    log: bool = False
    share: bool = False
    ticks: tuple[float, ...] = ()
    span: tuple[float, float] | None = None


def source_style(index: int) -> tuple[str, str]:
    """Return the colour and dash of a source by its place in the list of sources."""
    style = SOURCES[index % len(SOURCES)]
    return style.colour.light, style.dash


def sources(values: Mapping[str, Array]) -> tuple[Series, ...]:
    """Make one series of each source, in their order and with the colour and dash each has in every plot."""
    return tuple(Series(name, array, *source_style(index)) for index, (name, array) in enumerate(values.items()))


# --- words and numbers -----------------------------------------------------------------------------------------------


def escape(text: str, *, width: int = 40) -> str:
    """Return a text that plotly shows literally: no markup, formula or invisible character, and at most ``width``."""
    shown = text if len(text) <= width and text.isprintable() else display(text, width=width)
    return _markup(shown) if _SPECIAL.search(shown) else shown


_SPECIAL = re.compile("[&<>$]")


def _markup(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        text = text.replace(character, entity)
    return text


def number(value: float, *, digits: int = 3) -> str:
    """Write a number for a reader: .690, 1,024, and a true minus."""
    text = f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"
    sign, text = ("−", text[1:]) if text.startswith("-") else ("", text)
    if not text.strip("0."):
        sign = ""
    return sign + (text[1:] if text.startswith("0.") else text)


def listed(parts: Sequence[str]) -> str:
    """Join parts as a reader would say them."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def standing(percentile: float) -> str:
    """Say where a value stands by its percentile, from 0 to 100: above 98.2 %.

    It is rounded so that no more is said than is true, and no sample is trusted beyond 99.9 %.
    """
    if percentile < 0.1:
        return "below 99.9 %"
    return f"above {min(99.9, math.floor(10 * percentile + 1e-9) / 10):g} %"


def _tick(value: float, *, share: bool = False) -> str:
    text = f"{100 * value:,.4g} %" if share else f"{value:,.4g}"
    return (f"{value:,.0f}" if not share and abs(value) >= 1000 else text).replace("-", "−")


# --- what all figures have in common ---------------------------------------------------------------------------------


def _figure(traces: Iterable[Any], *, height: int | None, **layout: Any) -> go.Figure:
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
    return go.Figure(list(traces), {**base, **layout})


def _bare(**more: Any) -> dict[str, Any]:
    return {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "automargin": False, **more}


def _titled(title: str, *, standoff: int = 8) -> dict[str, Any]:
    return {"text": title, "standoff": standoff, "font": {"size": 12.5, "color": SUBDUED}} if title else {"text": ""}


def _scale(title: str, ticks: Sequence[float], *, grid: bool, share: bool = False) -> dict[str, Any]:
    return {
        "title": _titled(title),
        "tickmode": "array",
        "tickvals": [float(tick) for tick in ticks],
        "ticktext": [_tick(tick, share=share) for tick in ticks],
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


def _places(count: int, first: int = 0) -> list[int]:
    """Five places of an axis of rows, the first and the last among them."""
    if count <= 5:
        return [first + i for i in range(count)]
    return [first + i * count // 4 for i in range(4)] + [first + count - 1]


def _nice(low: float, high: float) -> list[float]:
    """At most five round numbers between low and high."""
    if not high > low:
        return [low]
    raw = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(raw))
    for step in (1, 2, 2.5, 5, 10, 20):
        first, last = np.ceil(low / (step * power) - 1e-9), np.floor(high / (step * power) + 1e-9)
        if last - first < 5:
            return [round(float(i * step * power), 12) + 0.0 for i in np.arange(first, last + 1)]
    return [low, high]


def _decades(low: float, high: float) -> list[float]:
    """At most five round numbers between low and high, for a logarithmic axis."""
    first, last = int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1
    choices: list[list[float]] = [[m * 10.0**e for e in range(first, last) for m in (1, 3)]]
    choices += [[10.0**e for e in range(first, last) if not e % every] for every in (1, 2, 3, 4, 6, 12, 24)]
    for choice in choices:
        inside = [round(v, 12) for v in choice if low * 0.999 <= v <= high * 1.001]
        if 2 <= len(inside) <= 5:
            return inside
    return [low, high]


def _link(group: str | None, rows: Array, *, kept: tuple[Array, int] | None = None) -> dict[str, Any]:
    """Say which rows of the group the points are: by the first one where they follow each other, else one by one."""
    if group is None:
        return {}
    told = {} if kept is None else {"kept": kept[0], "of": kept[1]}
    if not len(rows) or np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return {"meta": {"link": group, "first": int(rows[0]) if len(rows) else 0, **told}}
    return {"meta": {"link": group, "ids": np.asarray(rows, np.int32), **told}}


def _finite_span(arrays: Iterable[Array]) -> tuple[float, float]:
    lows, highs = [], []
    for array in arrays:
        finite = array[np.isfinite(array)]
        if finite.size:
            lows.append(float(finite.min()))
            highs.append(float(finite.max()))
    return (min(lows), max(highs)) if lows else (0.0, 1.0)


def robust_limit(*arrays: Array) -> float:
    """Return the end of a range −limit…limit that 99 % of all these numbers are in, rounded up to two digits."""
    parts = [np.abs(array[np.isfinite(array)]).ravel() for array in map(np.asarray, arrays)]
    together = np.concatenate(parts) if parts else np.zeros(0)
    limit = float(np.quantile(together, 0.99)) if together.size else 0.0
    if limit <= 0:
        return 1.0
    unit = 10.0 ** (np.floor(np.log10(limit)) - 1)
    return float(np.ceil(limit / unit - 1e-9) * unit)


def dark(figure: go.Figure) -> go.Figure:
    """Return the same figure for a dark page: every colour replaced by its partner, every number as it was."""
    partners = dark_map()

    def recolour(value: Any) -> Any:
        if isinstance(value, str):
            return partners.get(value.lower(), value)
        if isinstance(value, Mapping):
            return {key: item if key in _MEANING and key != "font" else recolour(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [recolour(item) for item in value]
        return value

    return go.Figure(
        [recolour(trace.to_plotly_json()) for trace in figure.data], recolour(figure.layout.to_plotly_json())
    )


def _label(text: str, *, colour: str = INK, at: tuple[float, float] = (0, 0), **more: Any) -> dict[str, Any]:
    return {
        "text": text,
        "showarrow": False,
        "font": {"size": 12.5, "color": colour},
        "xshift": at[0],
        "yshift": at[1],
        **more,
    }


# --- clouds ----------------------------------------------------------------------------------------------------------


def projection(
    p: Projection,
    *,
    joined: bool = True,
    color: Array | None = None,
    labels: Sequence[str] | None = None,
    named: Sequence[int] = (),
    trust: bool = False,
    link: str | None = "position",
    height: int = 340,
) -> go.Figure:
    """Draw every row of a projection as a dot in two or three dimensions, coloured from the first row to the last.

    ``joined`` dots are connected in their order. ``color`` and ``labels`` have a number and a name for every row of the
    table: what colour shows in place of the order, and what a point is called. ``named`` rows are pointed out. With
    ``trust`` points that lie wrongly are hollow, and every point says how many of its neighbours are near it.
    """
    points = _cloud(p)
    order = np.asarray(p.rows, np.float32) if color is None else np.asarray(color, np.float32)[p.rows]
    scale = POSITION if color is None else SHARE
    low, high = _finite_span([order])
    shown = [escape(labels[row]) for row in p.rows] if labels is not None else None
    smooth = joined and _step(points) < COIL
    paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": scale.stops(), "showscale": False}
    kept = _kept(p) if trust else None
    common = {"hoverinfo": "none", "text": shown, **_link(link, np.asarray(p.rows), kept=kept)}
    hollow = np.zeros(len(points), bool)
    if trust and p.trust is not None:
        hollow[p.trust.points] = p.trust.wrong
    cloud = _Cloud(points, order, paint, common, joined, smooth, scale, tuple(named), height, hollow)
    draw = _cloud_3d if points.shape[1] == 3 else _cloud_2d
    return draw(cloud, points[[_index(p, row) for row in named]])


@dataclass(frozen=True, eq=False)
class _Cloud:
    """Points [n, 2 or 3], their colours, what all traces of them say, and how they look."""

    points: Array
    order: Array
    paint: Mapping[str, Any]
    common: Mapping[str, Any]
    joined: bool
    smooth: bool
    scale: Scale
    named: tuple[int, ...]
    height: int
    hollow: Array

    def shape(self, size: float) -> dict[str, Any]:
        """The dots' size and symbol: rings, which must be larger to be seen, for points that lie wrongly."""
        if not self.hollow.any():
            return {"size": size}
        return {
            "size": np.where(self.hollow, size * RING[self.points.shape[1]], size).astype(np.float32),
            "symbol": np.where(self.hollow, "circle-open", "circle").tolist(),
        }


def _kept(p: Projection) -> tuple[Array, int] | None:
    """How many of the nearest of every point are near it, −1 for what was not measured, and of how many."""
    if p.trust is None:
        return None
    kept = np.full(len(p.rows), -1, np.int8)
    kept[p.trust.points] = p.trust.counts
    return kept, p.trust.k


def _cloud(p: Projection) -> Array:
    points = np.asarray(p.coordinates)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise InputError(f"a cloud is drawn in 2 or 3 dimensions; this projection is {list(points.shape)}")
    return points


def _index(p: Projection, row: int) -> int:
    found = np.flatnonzero(np.asarray(p.rows) == row)
    if not len(found):
        raise InputError(f"row {row} is not among the {len(p.rows):,} rows of this projection")
    return int(found[0])


def _step(points: Array) -> float:
    """The median step from a point to the next, as a share of the cloud's widest extent."""
    extent = float(np.ptp(points, axis=0).max()) if len(points) > 1 else 0.0
    return float(np.median(np.linalg.norm(np.diff(points, axis=0), axis=1))) / extent if extent else 0.0


def _cube(points: Array) -> tuple[Array, float]:
    """The middle of the cloud and half the width of the cube around it: one scale on all axes keeps distances true."""
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    return (low + high) / 2, (float((high - low).max()) / 2 or 1.0) * 1.04


def _cloud_3d(cloud: _Cloud, at: Array) -> go.Figure:
    middle, half = _cube(cloud.points)
    marker = {"color": cloud.order, "line": {"width": 0}, **cloud.paint, **cloud.shape(2.6 if cloud.smooth else 2.2)}
    line = {"width": 5 if cloud.smooth else 1.5, "color": cloud.order, **cloud.paint}
    x, y, z = cloud.points.T
    traces = [
        go.Scatter3d(
            x=x, y=y, z=z,
            mode="lines+markers" if cloud.joined else "markers",
            marker=marker,
            line=line if cloud.joined else None,
            opacity=1 if cloud.smooth else 0.8,
            **cloud.common,
        )
    ]  # fmt: skip
    notes = []
    if len(at):
        traces.append(_dots_3d(at, INK, 5))
        size = (1.2 * cloud.height, float(cloud.height))
        texts = [_tick(row) for row in cloud.named]
        parts = (at, placing.dense(cloud.points))
        anchors, crowd = (placing.on_screen((part - middle) / (2 * half), eye=EYE, size=size) for part in parts)
        for where, text, offset in zip(at, texts, placing.beside_dots(anchors, texts, crowd, size=size), strict=True):
            place: dict[str, Any] = dict(zip("xyz", map(float, where), strict=True))
            notes.append(_label(text, at=offset, **place))
    scene = _scene(middle, half, notes)
    return _figure(traces, height=cloud.height, margin=dict.fromkeys("lrtb", 0), scene=scene)


def _scene(middle: Array, half: float, notes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    axes = {f"{name}axis": _side(float(mid), half) for name, mid in zip("xyz", middle, strict=True)}
    camera = {"eye": dict(zip("xyz", EYE, strict=True))}
    scene = {"aspectmode": "cube", "camera": camera, "bgcolor": CLEAR, "dragmode": "turntable"}
    return {**axes, **scene, "annotations": list(notes)}


def _side(middle: float, half: float) -> dict[str, Any]:
    return {
        "range": [middle - half, middle + half],
        "title": {"text": ""},
        "showticklabels": False,
        "ticks": "",
        "nticks": 5,
        "showgrid": True,
        "gridcolor": FAINT,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "showspikes": False,
        "showbackground": False,
    }


def _dots_3d(points: Array, colour: str, size: float) -> go.Scatter3d:
    x, y, z = points.T
    marker = {"size": size, "color": colour, "line": {"width": 0}}
    return go.Scatter3d(x=x, y=y, z=z, mode="markers", marker=marker, hoverinfo="skip")


def _cloud_2d(cloud: _Cloud, at: Array) -> go.Figure:
    x, y = cloud.points.T
    scatter = go.Scatter if len(cloud.points) <= SVG_POINTS else go.Scattergl
    traces = []
    if cloud.joined:
        # A flat line has one colour, so the line is drawn in as many pieces as the scale has stops.
        stops = cloud.scale.light
        ends = np.linspace(0, len(cloud.points) - 1, len(stops) + 1).astype(int)
        for colour, start, stop in zip(stops, ends[:-1], ends[1:] + 1, strict=True):
            line = {"color": colour, "width": 3 if cloud.smooth else 1}
            piece = {"x": x[start:stop], "y": y[start:stop], "mode": "lines", "line": line}
            traces.append(scatter(**piece, opacity=0.8 if cloud.smooth else 0.45, hoverinfo="skip"))
    shape = cloud.shape(4.5 if cloud.smooth else 4)
    marker = {"color": cloud.order, "line": {"width": 0}, "opacity": 1, **cloud.paint, **shape}
    traces.append(scatter(x=x, y=y, mode="markers", marker=marker, **cloud.common))
    notes = []
    middle, half = _cube(cloud.points)
    if len(at):
        marker = {"size": 9, "color": INK, "line": {"width": 0}}
        traces.append(go.Scatter(x=at[:, 0], y=at[:, 1], mode="markers", marker=marker, hoverinfo="skip"))
        side = cloud.height - 16.0
        parts = (at, placing.dense(cloud.points))
        anchors, crowd = (((part - middle) / (2 * half) + 0.5) * side for part in parts)
        texts = [_tick(row) for row in cloud.named]
        offsets = placing.beside_dots(anchors, texts, crowd, size=(side, side))
        for where, text, offset in zip(at, texts, offsets, strict=True):
            notes.append(_label(text, at=offset, x=float(where[0]), y=float(where[1])))
    sides = [_bare(range=[float(mid) - half, float(mid) + half], showgrid=True, gridcolor=FAINT) for mid in middle]
    xaxis, yaxis = {**sides[0], "nticks": 6}, {**sides[1], "nticks": 6, "scaleanchor": "x"}
    margin = dict.fromkeys("lrtb", 8)
    return _figure(traces, height=cloud.height, margin=margin, xaxis=xaxis, yaxis=yaxis, annotations=notes)


@dataclass(frozen=True, eq=False)
class MapFrame:
    """The square that maps beside each other share: a point has one place in all of them."""

    middle: Array
    half: float

    @classmethod
    def of(cls, *maps: Array) -> MapFrame:
        """Return the square around the points of some maps [n, 2], but for the 2 % of them that lie farthest out."""
        points = np.concatenate([np.asarray(points)[:, :2] for points in maps])
        away = np.abs(points - np.median(points, axis=0)).max(axis=1)
        return cls(*_cube(points[away <= np.quantile(away, 0.98)]))

    def outside(self, points: Array) -> int:
        """Return how many points lie beyond it."""
        return int((np.abs(np.asarray(points)[:, :2] - self.middle) > self.half).any(axis=1).sum())


def aligned_map(
    points: Array,
    labels: Sequence[str],
    *,
    frame: MapFrame,
    link: str,
    order: Array | None = None,
    named: Sequence[int] = (),
    height: int = 420,
) -> go.Figure:
    """Draw one of two maps [n, 2] of the same rows in the ``frame`` of both; a point's ``link`` row is its place.

    With ``order`` [n] the points are joined and coloured by it, as positions are. ``named`` points are pointed out.
    """
    points = np.asarray(points)[:, :2]
    shown = [escape(label) for label in labels]
    x, y = points.T
    scatter = go.Scatter if len(points) <= SVG_POINTS else go.Scattergl
    common = {"text": shown, "hoverinfo": "none", "meta": {"link": link, "first": 0}}
    traces: list[Any] = []
    if order is None:
        marker = {"size": 4, "color": CLASSES["word start"].light, "opacity": 0.6, "line": {"width": 0}}
    else:
        low, high = _finite_span([np.asarray(order)])
        paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": POSITION.stops()}
        marker = {"size": 4.5, "color": np.asarray(order, np.float32), "line": {"width": 0}, **paint}
        traces.append(scatter(x=x, y=y, mode="lines", line={"color": FAINT, "width": 1.5}, hoverinfo="skip"))
    traces.append(scatter(x=x, y=y, mode="markers", marker=marker, **common))
    notes = []
    if len(named):
        named = [place for place in named if not frame.outside(points[[place]])]
        at = points[named]
        spot = {"size": 8, "color": INK, "line": {"width": 0}}
        traces.append(scatter(x=at[:, 0], y=at[:, 1], mode="markers", marker=spot, hoverinfo="skip"))
        side = height - 16.0
        parts = (at, points if order is None else placing.dense(points))
        anchors, crowd = (((part - frame.middle) / (2 * frame.half) + 0.5) * side for part in parts)
        texts = [shown[place].strip() or "(space)" for place in named]
        offsets = placing.beside_dots(anchors, texts, crowd, size=(side, side))
        for where, text, offset in zip(at, texts, offsets, strict=True):
            notes.append(_label(text, at=offset, x=float(where[0]), y=float(where[1]), bgcolor=PANEL))
    sides = [
        _bare(range=[float(mid) - frame.half, float(mid) + frame.half], showgrid=True, gridcolor=FAINT)
        for mid in frame.middle
    ]
    xaxis, yaxis = {**sides[0], "nticks": 6}, {**sides[1], "nticks": 6, "scaleanchor": "x"}
    margin = dict.fromkeys("lrtb", 8)
    return _figure(traces, height=height, margin=margin, xaxis=xaxis, yaxis=yaxis, annotations=notes)


def trajectory_map(
    frames: Array, steps: Sequence[int], labels: Sequence[str], *, joined: bool, height: int = 520
) -> go.Figure:
    """Draw the maps [steps, n, 2] of one table over its training, one at a time, with a slider over the steps.

    ``joined`` points are coloured by their order, as positions are.
    """
    whole = MapFrame.of(*frames)
    order = np.arange(len(labels)) if joined else None
    shown = [aligned_map(one, labels, frame=whole, link="trajectory", order=order) for one in frames]
    figure = go.Figure(shown[-1])
    figure.frames = [go.Frame(data=one.data, name=f"{step}") for step, one in zip(steps, shown, strict=True)]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 70},
        sliders=[
            {
                "active": len(steps) - 1,
                "currentvalue": {"prefix": "step "},
                "steps": [
                    {"label": f"{step:,}", "method": "animate", "args": [[f"{step}"], at_once]} for step in steps
                ],
            }
        ],
    )
    return figure


# --- matrices --------------------------------------------------------------------------------------------------------


def _matrix(values: Array) -> Array:
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"only a matrix that is not empty can be drawn; this is {list(matrix.shape)}")
    return matrix


def block_reduce(matrix: Array, *, limit: int = LARGEST_MATRIX) -> tuple[Array, tuple[int, int]]:
    """Return the means of blocks, at most ``limit`` in each direction, and the (rows, columns) that a block holds.

    For drawing only: a screen has no room for more. Row *r* of the matrix is in row *r // step* of the result.
    """
    matrix = _matrix(matrix)
    steps = (-(-matrix.shape[0] // limit), -(-matrix.shape[1] // limit))
    if steps == (1, 1):
        return matrix.astype(np.float32, copy=False), steps
    starts = [np.arange(0, length, step) for length, step in zip(matrix.shape, steps, strict=True)]
    bands = np.stack([matrix[at : at + steps[0]].sum(axis=0, dtype=np.float64) for at in starts[0]])
    sums = np.add.reduceat(bands, starts[1], axis=1)
    sizes = [np.diff(start, append=length) for start, length in zip(starts, matrix.shape, strict=True)]
    return (sums / np.multiply.outer(*sizes)).astype(np.float32), steps


def _heat(
    matrix: Array,
    scale: Scale,
    limits: tuple[float, float],
    *,
    first: int = 0,
    most: int = LARGEST_MATRIX,
    every: int = 1,
    **more: Any,
) -> go.Heatmap:
    """A heatmap in the coordinates of the rows and columns, reduced where it is larger than a screen."""
    cells, (row_step, column_step) = block_reduce(matrix, limit=most)
    return go.Heatmap(
        z=cells,
        x0=first + every * (column_step - 1) / 2,
        dx=every * column_step,
        y0=first + every * (row_step - 1) / 2,
        dy=every * row_step,
        zmin=limits[0],
        zmax=limits[1],
        colorscale=scale.stops(),
        showscale=False,
        hoverinfo="none",
        **more,
    )


def similarity_matrix(
    matrix: Array,
    *,
    labels: Sequence[str] | None = None,
    first: int = 0,
    unit: Unit = "cosine",
    limit: float | None = None,
    percentiles: Array | None = None,
    most: int = LARGEST_MATRIX,
    every: int = 1,
) -> go.Figure:
    """Draw how alike every pair of rows is, as a square; a few named rows have their numbers written in the cells.

    Cosines and rotary kernels are always coloured from −1 to 1, shares from 0 to 1, other units up to the largest
    absolute value or ``limit``. ``first`` is the position of row 0, and its rows are ``every`` how many positions;
    ``percentiles`` [n, n], from 0 to 100, say where each pair stands among random pairs; larger than ``most`` it is
    drawn by blocks. The figure has no height: the page makes it square.
    """
    matrix = _matrix(matrix)
    scale, limits = _unit_scale(unit, matrix, limit)
    rows, columns = matrix.shape
    if labels is None:
        step = every * -(-max(rows, columns) // most)
        meta = {"link": "position", "first": first, "step": step}
        heat = _heat(matrix, scale, limits, first=first, most=most, every=every, meta=meta)
        xaxis = _scale("position", _places(every * columns, first), grid=False)
        yaxis = _scale("position", _places(every * rows, first), grid=False)
        margin, notes = {"l": 58, "r": 22, "t": 8, "b": 44}, []
    else:
        if len(labels) != rows or rows != columns:
            raise InputError(f"{len(labels)} labels cannot name the rows and columns of a matrix {list(matrix.shape)}")
        names = [escape(label, width=16) for label in labels]
        heat = _heat(
            matrix, scale, limits, xgap=2, ygap=2, text=_pairs(matrix, names, percentiles), meta={"range": limits}
        )
        xaxis, yaxis = (
            {**_scale("", range(rows), grid=False), "ticktext": names, "tickfont": {"color": INK}} for _ in "xy"
        )
        xaxis["side"] = "top"
        longest = int(max(map(wide, names)))
        margin = {"l": 16 + longest, "r": 16, "t": 32, "b": 8}
        if rows > MOST_LEVEL:
            xaxis["tickangle"], margin["t"] = -90, 16 + longest
        most = WRITTEN_CELLS if limits[1] <= 1 else MOST_LEVEL
        notes = _written(matrix, limits) if rows <= most else []
    square = {"constrain": "domain"}
    before = first - every / 2
    xaxis |= {"range": [before, before + every * columns], **square}
    yaxis |= {"range": [before + every * rows, before], "scaleanchor": "x", **square}
    return _figure([heat], height=None, margin=margin, xaxis=xaxis, yaxis=yaxis, annotations=notes)


def _unit_scale(unit: Unit, matrix: Array, limit: float | None) -> tuple[Scale, tuple[float, float]]:
    if unit in ("cosine", "expected rotary kernel"):
        return SIMILARITY, (-1.0, 1.0)
    if unit == "share":
        return SHARE, (0.0, 1.0)
    end = limit if limit is not None else max(map(abs, _finite_span([matrix]))) or 1.0
    if unit == "euclidean":
        return SHARE, (0.0, float(end))
    if unit in ("additive bias", "dot"):
        return SIMILARITY, (-float(end), float(end))
    raise InputError(f"no colours are known for the unit {unit!r}; use cosine, dot, euclidean, additive bias or share")


def _pairs(matrix: Array, names: Sequence[str], percentiles: Array | None) -> list[list[str]]:
    texts = []
    for i, row in enumerate(matrix):
        texts.append([f"{names[i]} – {name}: {number(value)}" for name, value in zip(names, row, strict=True)])
        if percentiles is not None:
            for j, share in enumerate(np.asarray(percentiles)[i]):
                if i != j and np.isfinite(share):
                    texts[i][j] += f", {standing(float(share))} of random pairs"
    return texts


def _written(matrix: Array, limits: tuple[float, float]) -> list[dict[str, Any]]:
    """The numbers in the cells: ink on pale cells, the panel's white on strong ones, and the reverse on a dark page."""
    notes = []
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            if not np.isfinite(value):
                continue
            place = (float(value) - limits[0]) / (limits[1] - limits[0])
            strong = place < 0.45 if limits[0] == 0 else abs(place - 0.5) > 0.36
            digits = 2 if limits[1] <= 1 else 1
            notes.append(_label(number(value, digits=digits), colour=PANEL if strong else INK, x=j, y=i))
    return notes


def table_image(
    vectors: Array, *, first: int = 0, limit: float | None = None, height: int = 340, rows: str = "position"
) -> go.Figure:
    """Draw a table as an image, rows × dimensions, from −limit to limit; the trace's ``meta["range"]`` states both."""
    vectors = _matrix(vectors)
    end = robust_limit(vectors) if limit is None else float(limit)
    step = -(-len(vectors) // LARGEST_MATRIX)
    meta = {"link": rows, "first": first, "step": step, "axes": "y", "range": [-end, end]}
    count, width = vectors.shape
    heat = _heat(vectors, SIMILARITY, (-end, end), first=first, meta=meta)
    heat.update(x0=(heat.dx - 1) / 2)
    return _figure(
        [heat],
        height=height,
        margin={"l": 58, "r": 22, "t": 8, "b": 44},
        xaxis={**_scale("dimension", _places(width), grid=False), "range": [-0.5, width - 0.5]},
        yaxis={**_scale(rows, _places(count, first), grid=False), "range": [first + count - 0.5, first - 0.5]},
    )


def patch_tiles(maps: PatchMaps, *, chosen: int | None = None) -> go.Figure:
    """Draw a small map for every patch of ``maps``, in its place over the image: its cosines with all patches.

    Always coloured from −1 to 1. The ``chosen`` patch, counted row by row over the whole grid, is framed if it has a
    tile. The figure has no height: the page gives it the shape of the image.
    """
    high, wide_ = maps.grid.rows, maps.grid.columns
    cells = np.full((len(maps.rows) * (high + 1) - 1, len(maps.columns) * (wide_ + 1) - 1), np.nan, np.float32)
    for r, row in enumerate(maps.maps):
        for c, tile in enumerate(row):
            cells[r * (high + 1) : r * (high + 1) + high, c * (wide_ + 1) : c * (wide_ + 1) + wide_] = tile
    gap = TILE_GAP * max(high, wide_)
    across, down = _tile_edges(len(maps.columns), wide_, gap), _tile_edges(len(maps.rows), high, gap)
    meta = {"grid": [high, wide_], "tiles": [maps.rows.tolist(), maps.columns.tolist()]}
    frame = []
    if chosen is not None:
        row, column = divmod(chosen, wide_)
        if row in maps.rows and column in maps.columns:
            top = int(np.flatnonzero(maps.rows == row)[0]) * (high + gap)
            left = int(np.flatnonzero(maps.columns == column)[0]) * (wide_ + gap)
            frame = [_frame(left, top, left + wide_, top + high, pad=gap / 2)]
    return _map(cells, across, down, meta, frame)


def patch_map(cosines: Array, patch: int) -> go.Figure:
    """Draw the cosines of one patch with all [rows, columns], from −1 to 1, over the image; the patch is framed."""
    cosines = _matrix(cosines)
    rows, columns = cosines.shape
    if not 0 <= patch < rows * columns:
        raise InputError(f"a map of {rows} × {columns} has patches 0 to {rows * columns - 1:,}; got {patch:,}")
    row, column = divmod(patch, columns)
    frame = [_frame(column, row, column + 1, row + 1, pad=0)]
    across, down = (np.arange(count + 1, dtype=np.float32) for count in (columns, rows))
    return _map(np.asarray(cosines, np.float32), across, down, {"grid": [rows, columns]}, frame)


def _tile_edges(tiles: int, cells: int, gap: float) -> Array:
    """The edges of all cells of a row of tiles, the gaps between them among them."""
    edges = np.arange(tiles)[:, None] * (cells + gap) + np.arange(cells + 1)
    return edges.ravel().astype(np.float32)


def _frame(left: float, top: float, right: float, bottom: float, *, pad: float) -> dict[str, Any]:
    corners = {"x0": left - pad, "x1": right + pad, "y0": top - pad, "y1": bottom + pad}
    return {"type": "rect", **corners, "line": {"color": ACCENT, "width": 2}}


def _map(cells: Array, across: Array, down: Array, meta: dict[str, Any], frame: list[dict[str, Any]]) -> go.Figure:
    heat = go.Heatmap(
        z=cells,
        x=across,
        y=down,
        zmin=-1.0,
        zmax=1.0,
        colorscale=SIMILARITY.stops(),
        showscale=False,
        hoverinfo="none",
        hoverongaps=False,
        meta=meta,
    )
    edge = 0.01 * float(max(across[-1], down[-1]))
    return _figure(
        [heat],
        height=None,
        meta={"aspect": float(down[-1] / across[-1])},
        margin=dict.fromkeys("lrtb", 8),
        xaxis=_bare(range=[-edge, float(across[-1]) + edge], constrain="domain"),
        yaxis=_bare(range=[float(down[-1]) + edge, -edge], scaleanchor="x", constrain="domain"),
        shapes=frame,
    )


# --- lines -----------------------------------------------------------------------------------------------------------


def curves(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    labels: Literal["line", "end"] = "line",
    marked: float | None = None,
    written: Callable[[float], str] | None = None,
    height: int = 300,
) -> go.Figure:
    """Draw one or several series on shared axes, each named on its line.

    ``labels="end"`` names them right of the plot. Where lines leave no room, one legend row above names them.
    ``marked`` is the place of a vertical line; ``written`` writes the values of the marked points beside their dots.
    """
    if not series:
        raise InputError("there is nothing to draw: no series was given")
    spans = (
        _span(x, [s.x for s in series]),
        _span(y, [v for s in series for v in (s.values, *(s.band or ()))], pad=0.04),
    )
    margin = {**MARGIN, "r": 120 if labels == "end" else 16}
    size = (260.0, float(height - margin["t"] - margin["b"]))
    traces = [_band(s) for s in series if s.band is not None]
    traces += [_line(s) for s in series]
    traces += [_spots(s) for s in series if s.marks]
    notes: list[dict[str, Any]] = []
    frame = Frame((x.log, y.log), spans, size)
    dots = [(float(x), float(y), 6.0, 6.0) for s in series for x, y in frame.pixels(*_marked(s))]
    values = [] if written is None else _values(series, frame, written, rise=0 if marked is None else 14)
    notes += [note for _, note in values]
    taken = [*dots, *(box for box, _ in values)]
    names = _end_labels(series, frame) if labels == "end" else _line_labels(series, frame, taken)
    legend: dict[str, Any] = {}
    if names is None:
        margin["t"] = 36
        legend = {"showlegend": True, "legend": _legend_row()}
    shapes = [] if marked is None else [_upright(marked)]
    yaxis = _axis(y, spans[1], grid=True)
    margin["l"] = max(margin["l"], 36 + int(max(map(wide, yaxis["ticktext"]))))
    return _figure(
        traces,
        height=height,
        margin=margin,
        hovermode="x",
        xaxis=_axis(x, spans[0], grid=False),
        yaxis=yaxis,
        annotations=notes + (names or []),
        shapes=shapes,
        **legend,
    )


def _legend_row() -> dict[str, Any]:
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


def _upright(place: float) -> dict[str, Any]:
    line = {"color": ACCENT, "width": 1.5}
    return {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _span(axis: Axis, arrays: Iterable[Array], *, pad: float = 0.0) -> tuple[float, float]:
    """The range of an axis in its own coordinates: powers of ten where it is logarithmic."""
    if axis.span is not None:
        low, high = axis.span
        return (float(np.log10(low)), float(np.log10(high))) if axis.log else (float(low), float(high))
    parts = [np.asarray(array, np.float64) for array in arrays]
    if axis.log:
        parts = [np.log10(part[part > 0]) for part in parts]
    low, high = _finite_span(parts)
    room = (high - low or 1.0) * pad
    return low - room, (high if high > low else low + 1) + room


def _axis(axis: Axis, span: tuple[float, float], *, grid: bool) -> dict[str, Any]:
    low, high = (10.0 ** span[0], 10.0 ** span[1]) if axis.log else span
    ticks = axis.ticks or (_decades(low, high) if axis.log else _nice(low, high))
    look = _scale(axis.title, ticks, grid=grid, share=axis.share)
    return {**look, "type": "log" if axis.log else "linear", "range": [span[0], span[1]]}


def _line(s: Series) -> go.Scatter:
    line = {"color": s.colour, "width": 3 if s.chosen else 2, "dash": s.dash}
    return go.Scatter(
        x=s.x, y=np.asarray(s.values), mode="lines", name=escape(s.name), line=line, hoverinfo="none", connectgaps=False
    )


def _band(s: Series) -> go.Scatter:
    low, high = (np.asarray(edge) for edge in s.band or ())
    good = np.isfinite(low) & np.isfinite(high)
    x = s.x[good]
    return go.Scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high[good], low[good][::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=s.colour,
        opacity=0.2,
        line={"width": 0, "color": s.colour},
        hoverinfo="skip",
        showlegend=False,
    )


def _marked(s: Series) -> tuple[Array, Array]:
    at = list(s.marks)
    return s.x[at], np.asarray(s.values)[at]


def _spots(s: Series) -> go.Scatter:
    x, y = _marked(s)
    marker = {"size": 8, "color": s.colour, "line": {"width": 0}}
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, hoverinfo="skip", showlegend=False)


def _values(
    series: Sequence[Series], frame: Frame, written: Callable[[float], str], *, rise: int = 0
) -> list[tuple[placing.Box, dict[str, Any]]]:
    """The values of the marked points, written beside their dots, and the room that each takes.

    They ``rise`` so many pixels where a line goes through the dots.
    """
    notes = []
    for s in series:
        for index in s.marks:
            value = float(np.asarray(s.values)[index])
            text = written(value)
            place = placing.beside_value(text, frame.pixels(s.x[[index]], np.asarray([value]))[0], frame=frame)
            place = replace(place, offset=(place.offset[0], place.offset[1] + rise))
            at = {"x": float(frame.own(s.x[[index]], 0)[0]), "y": float(frame.own(np.asarray([value]), 1)[0])}
            notes.append((place.box(text), _label(text, colour=s.colour, at=place.offset, **at)))
    return notes


def _line_labels(series: Sequence[Series], frame: Frame, taken: Sequence[placing.Box]) -> list[dict[str, Any]] | None:
    """The name of each line beside it; None where one of them finds no room."""
    texts = [escape(s.name, width=24) for s in series]
    places = placing.on_lines(texts, [frame.trail(s.x, s.values) for s in series], size=frame.size, taken=taken)
    if places is None:
        return None
    notes = []
    for s, text, place in zip(series, texts, places, strict=True):
        x, y = frame.at(place.point)
        notes.append(_label(text, colour=s.colour, at=place.offset, x=float(x), y=float(y)))
    return notes


def _end_labels(series: Sequence[Series], frame: Frame) -> list[dict[str, Any]] | None:
    """Name the lines right of the plot at the height of their ends, pushed apart to at least one line of text."""
    ends = []
    for s in series:
        values = np.asarray(s.values, np.float64)
        finite = np.flatnonzero(np.isfinite(frame.own(values, 1)))
        if not len(finite):
            return None
        ends.append(float(values[finite[-1]]))
    heights = frame.pixels(np.ones(len(ends)), np.asarray(ends))[:, 1]
    moved = placing.apart(heights)
    notes = []
    for s, end, before, after in zip(series, ends, heights, moved, strict=True):
        y = float(frame.own(np.asarray([end]), 1)[0])
        more = {"xref": "paper", "x": 1.015, "xanchor": "left", "y": y}
        notes.append(_label(escape(s.name, width=16), colour=s.colour, at=(0, float(after - before)), **more))
    return notes


def similarity_by_distance(series: Sequence[Series], *, unit: Unit = "cosine", height: int = 300) -> go.Figure:
    """Draw the mean similarity of two positions against the distance between them; bands are the null's interval."""
    cosine = unit in ("cosine", "expected rotary kernel")
    low, _ = _finite_span([np.asarray(v) for s in series for v in (s.values, *(s.band or ()))])
    title = {"cosine": "mean cosine", "dot": "mean inner product", "euclidean": "mean distance"}.get(unit, unit)
    y = Axis(title)
    if cosine:
        edges = (min(-0.1, np.floor(low * 10 - 0.5) / 10) if low < 0 else -0.02, 1.04)
        y = Axis(title, ticks=tuple(t for t in (-1, -0.5, 0, 0.5, 1) if t >= low), span=edges)
    span = _finite_span([s.x for s in series])
    x = Axis("distance in positions" if span[0] >= 0 else "distance in positions, key − query", span=span)
    figure = curves(series, x=x, y=y, height=height)
    if cosine:
        figure.update_yaxes(zeroline=True, zerolinecolor=SUBDUED, zerolinewidth=1)
    return figure


def norms_by_position(series: Sequence[Series], *, first: int = 0, height: int = 300) -> go.Figure:
    """Draw the Euclidean norm of every position on a log axis, with a dot and its value at each series's ``marks``."""
    low, high = _finite_span([s.x for s in series])
    ticks = tuple(float(place) for place in _places(int(high - low) + 1, int(low) + first))
    moved = tuple(replace(s, at=s.x + first) for s in series)
    x = Axis("position", ticks=ticks, span=(low + first, high + first))
    figure = curves(moved, x=x, y=Axis("norm", log=True), written=lambda value: number(value, digits=2), height=height)
    figure.update_xaxes(range=[low + first - 0.02 * (high - low), high + first + 0.02 * (high - low)])
    return _linked(figure, moved)


def _linked(figure: go.Figure, series: Sequence[Series]) -> go.Figure:
    names = {escape(s.name): int(s.x[0]) for s in series if len(s.values)}
    for trace in figure.data:
        if trace.mode == "lines" and trace.fill is None and trace.name in names:
            trace.update(meta={"link": "position", "first": names[trace.name]})
    return figure


def explained_variance(series: Sequence[Series], *, height: int = 300) -> go.Figure:
    """Draw the share of the variance that the first components hold together, on a log axis; dots at the ``marks``."""
    longest = max((len(s.values) for s in series), default=2)
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= longest]
    if len(ticks) > 5:
        ticks = [tick for tick in (1, 3, 10, 100, 1000, 10_000) if tick <= longest]
    one = [replace(s, at=np.arange(1, len(s.values) + 1, dtype=np.float32)) for s in series]
    x = Axis("components, log scale", log=True, ticks=tuple(map(float, ticks)), span=(1, max(longest, 2)))
    return curves(
        one, x=x, y=Axis("variance", share=True, ticks=(0, 0.25, 0.5, 0.75, 1), span=(-0.01, 1.03)), height=height
    )


def waves_by_period(series: Sequence[Series], *, noise: tuple[float, float], height: int = 300) -> go.Figure:
    """Draw how strong the waves of each period are, as multiples of the mean, on log axes; ``noise`` is its interval.

    ``at`` of the series are periods in positions, shortest first; dots at their ``marks``.
    """
    low, high = _finite_span([s.x for s in series])
    flat = np.array([low, high], np.float32)
    band = tuple(np.full(2, max(edge, 1e-3), np.float32) for edge in noise)
    null = Series("Noise", np.ones(2, np.float32), at=flat, band=(band[0], band[1]))
    x = Axis("period in positions, log scale", log=True, span=(low, high))
    values = [np.asarray(s.values)[np.asarray(s.values) > 0] for s in series]
    bottom, top = _finite_span([*values, np.array([1.0])])
    y = Axis("strength, mean = 1", log=True, span=(max(bottom, top / 3_000) / 1.3, top * 1.5))
    return curves([*series, null], x=x, y=y, height=height)


def shift_by_distance(series: Sequence[Series], *, height: int = 300) -> go.Figure:
    """Draw held-out R² of a shift against its distance, on a log axis; bands are the null's. Below 0 it is drawn as 0.

    R² below 0 is no better than the mean, however far below.
    """
    at = np.unique(np.concatenate([s.x for s in series])) if series else np.zeros(1)
    ticks = at if len(at) <= 5 else at[:: -(-(len(at) - 1) // 4)]
    x = Axis("shift in positions, log scale", log=True, ticks=tuple(map(float, ticks)), span=(1, max(float(at[-1]), 2)))
    y = Axis("R² on rows held out", ticks=(0, 0.25, 0.5, 0.75, 1), span=(-0.03, 1.05))

    def floored(s: Series) -> Series:
        band = s.band and (np.maximum(s.band[0], 0), np.maximum(s.band[1], 0))
        return replace(s, values=np.maximum(s.values, 0), band=band)

    return curves([floored(s) for s in series], x=x, y=y, height=height)


def turned_planes(series: Sequence[Series], *, height: int = 300) -> go.Figure:
    """Draw by which angle each plane turns (``values``) against the angle that its step says (``at``), in degrees.

    Angles are folded to 0 … 180. The dotted diagonal is a rotation, such as the sinusoid's.
    """
    ends = np.array([0.0, 180.0], np.float32)
    axis = Axis("", ticks=(0, 45, 90, 135, 180), span=(-6.0, 186.0))
    figure = curves(
        [Series("rotation", ends, at=ends)],
        x=replace(axis, title="ω k, degrees"),
        y=replace(axis, title="turned by, degrees"),
        height=height,
    )
    figure.data[0].update(showlegend=False)  # it is named on its line
    for s in series:
        name, angles = escape(s.name), zip(s.x, s.values, strict=True)
        text = [f"{name}: turned by {_tick(round(y))}°, ω k is {_tick(round(x))}°" for x, y in angles]
        marker = {"size": 8, "color": s.colour, "opacity": 0.8, "line": {"width": 0}}
        look = {"mode": "markers", "marker": marker, "name": name, "hoverinfo": "none"}
        figure.add_scatter(x=s.x, y=np.asarray(s.values), text=text, **look)
    return figure.update_layout(hovermode="closest", showlegend=True, legend=_legend_row(), margin_t=36)


def wavelengths(found: Wavelengths, *, series: Series, scaled: str = "after scaling", height: int = 300) -> go.Figure:
    """Draw how many positions every pair of a rotary encoding takes for a turn, on a log axis.

    ``series`` has the name, colour and dash; its values are not read. Where scaling moves any pair, the wavelengths
    before it are the dotted grey line and those after it are named ``scaled``. The trained length is a line of its own;
    pairs beyond it in training have dots. Pairs that stand still have no wavelength, and are not drawn.
    """
    before, after = (np.where(np.isfinite(part), part, np.nan) for part in (found.before, found.after))
    pairs = np.arange(len(after), dtype=np.float32)
    moved = bool(found.moved.any())
    lines = [Series("before scaling", before)] if moved else []
    lines.append(replace(series, name=scaled if moved else series.name, values=after, marks=(), band=None, at=None))
    low, high = _finite_span([before, after, np.asarray([found.trained_length], np.float64)])
    ticks = tuple(map(float, _places(len(pairs))))
    x = Axis("pair of dimensions", ticks=ticks, span=(0, max(len(pairs) - 1, 1)))
    y = Axis("positions for one turn", log=True, span=(low * 0.8, high * 1.6))
    figure = curves(lines, x=x, y=y, labels="line", height=height)
    beyond = np.flatnonzero(found.beyond & np.isfinite(before))
    dots = {"size": 5, "color": lines[0].colour, "line": {"width": 0}}
    figure.add_scatter(
        x=pairs[beyond], y=before[beyond], mode="markers", marker=dots, hoverinfo="skip", showlegend=False
    )
    trained = {"xref": "paper", "x0": 0, "x1": 1, "y0": found.trained_length, "y1": found.trained_length}
    figure.add_shape(type="line", **trained, line={"color": SUBDUED, "width": 1, "dash": "dash"})
    where = {"xref": "paper", "x": 0, "xanchor": "left", "y": float(np.log10(found.trained_length))}
    figure.add_annotation(_label(f"trained on {found.trained_length:,}", colour=SUBDUED, at=(4, 10), **where))
    return figure


def waves(
    vectors: Array,
    dimensions: Sequence[int],
    *,
    first: int = 0,
    link: str | None = "position",
    height: int | None = None,
) -> go.Figure:
    """Draw chosen dimensions of a table against the position, one strip each, all on one range."""
    vectors = _matrix(vectors)
    if not dimensions or not all(0 <= d < vectors.shape[1] for d in dimensions):
        raise InputError(f"waves are drawn of dimensions 0 to {vectors.shape[1] - 1}; got {list(dimensions)}")
    low, high = _finite_span([vectors[:, list(dimensions)]])
    end = max(abs(low), abs(high)) or 1.0
    count, share = len(dimensions), 1 / len(dimensions)
    x = np.arange(first, first + len(vectors), dtype=np.float32)
    traces, axes, notes = [], {}, []
    for place, dimension in enumerate(dimensions):
        suffix = "" if place == 0 else str(place + 1)
        line = {"color": SOURCES[0].colour.light, "width": 1.5}
        name = f"dimension {dimension:,}"
        traces.append(
            go.Scatter(
                x=x, y=vectors[:, dimension], mode="lines", line=line, name=name, yaxis=f"y{suffix}", hoverinfo="none",
                **({"meta": {"link": link, "first": first}} if link else {}),
            )
        )  # fmt: skip
        bottom, top = 1 - (place + 1) * share, 1 - place * share
        zero = {"zeroline": True, "zerolinecolor": FAINT, "zerolinewidth": 1}
        domain = [max(0.0, bottom + 0.08 * share), min(1.0, top - 0.08 * share)]
        axes[f"yaxis{suffix}"] = {**_bare(range=[-1.08 * end, 1.08 * end], domain=domain), **zero}
        middle = {"xref": "paper", "x": 0, "yref": "paper", "y": (bottom + top) / 2, "xanchor": "right"}
        notes.append(_label(name, colour=SUBDUED, at=(-10, 0), **middle))
    ticks = _places(len(vectors), first)
    span = {"range": [first, first + len(vectors) - 1], "anchor": f"y{'' if count == 1 else count}"}
    return _figure(
        traces,
        height=height or 56 * count + 52,
        margin={**MARGIN, "l": 28 + int(max(wide(note["text"]) for note in notes)), "r": 22},
        hovermode="x",
        xaxis={**_scale("position", ticks, grid=False), **span},
        annotations=notes,
        **axes,
    )


# --- words -----------------------------------------------------------------------------------------------------------


def class_counts(labels: Labels, *, rows: Sequence[int] | Array | None = None) -> dict[str, int]:
    """Return how many tokens each class has, the largest first; their colours are ``CLASS_COLOURS``."""
    classes = labels.classes if rows is None else labels.classes[np.asarray(rows)]
    counts = np.bincount(classes, minlength=len(TOKEN_CLASSES))
    order = np.argsort(-counts, kind="stable")
    return {TOKEN_CLASSES[place]: int(counts[place]) for place in order if counts[place]}


def token_map(
    p: Projection,
    labels: Labels,
    *,
    color: Literal["class", "id", "trust"] | Array = "class",
    selected: int | None = None,
    neighbours: Sequence[int] = (),
    link: str | None = "token",
    height: int = 720,
) -> go.Figure:
    """Draw a whole vocabulary, every token a dot, coloured by class, id or the numbers given [tokens of ``labels``].

    "trust" colours the tokens that ``p.trust`` has by how many of their nearest are near them; the others are faint, as
    tokens whose number is NaN are. The ``selected`` row and its ``neighbours`` are marked and named; in two dimensions
    their surroundings are enlarged in the emptiest corner.
    """
    points, rows = _cloud(p), np.asarray(p.rows)
    if len(rows) and int(rows.max()) >= len(labels):
        raise InputError(f"the projection has row {int(rows.max()):,}, but there are only {len(labels):,} labels")
    looked_at = isinstance(color, str) and color == "trust"
    kept = _kept(p) if p.measured or looked_at else None  # a map does not wait to be measured
    if isinstance(color, str) and color == "trust":
        if p.trust is None or kept is None:
            raise InputError(f"no trust was measured of this projection of {p.name}; colour by class, id or numbers")
        color = np.full(len(labels), np.nan, np.float32)
        color[rows[p.trust.points]] = p.trust.neighbours_kept
    layers = _layers(rows, labels, color)
    chosen = [_index(p, row) for row in ([] if selected is None else [selected, *neighbours])]
    names = [escape(labels[int(rows[index])]).strip() or "(space)" for index in chosen]
    texts = _escaped(labels)[rows]
    draw = _token_map_3d if points.shape[1] == 3 else _token_map_2d
    tokens = _Tokens(points, rows, texts, labels.classes[rows], layers, link, kept)
    return draw(tokens, chosen, names, height)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Dots drawn alike: ``at`` are places in the projection; later layers lie above."""

    name: str
    at: Array
    marker: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Tokens:
    points: Array
    rows: Array
    texts: Array
    classes: Array
    layers: Sequence[_Layer]
    link: str | None
    kept: tuple[Array, int] | None

    def trace(self, kind: Any, layer: _Layer, size: float, **more: Any) -> Any:
        """One layer as a plotly trace of some kind; few dots are drawn larger, or nobody would find them."""
        few = len(layer.at) <= 50 < len(self.rows) and layer.marker["opacity"] > UNMEASURED
        names = dict(zip("xyz", self.points[layer.at].T, strict=False))
        part = isinstance(layer.marker["color"], np.ndarray) and len(layer.at) < len(self.rows)
        marker = {"line": {"width": 0}, **layer.marker, "size": 2.8 * size if few else 1.6 * size if part else size}
        if few:
            marker["opacity"] = 1
        opacity = {"opacity": marker.pop("opacity")} if kind is go.Scatter3d else {}
        return kind(
            **names,
            mode="markers",
            name=layer.name,
            marker=marker,
            text=self.texts[layer.at],
            hoverinfo="none",
            **opacity,
            **_link(self.link, self.rows[layer.at], kept=self.kept and (self.kept[0][layer.at], self.kept[1])),
            **more,
        )


_spelt: WeakKeyDictionary[Labels, Array] = WeakKeyDictionary()


def _escaped(labels: Labels) -> Array:
    """Return all labels as plotly shows them, an array of texts, which it takes as it is. Kept as long as they are."""
    if labels not in _spelt:
        texts = np.empty(len(labels), object)
        texts[:] = list(map(escape, labels))
        _spelt[labels] = texts
    return _spelt[labels]


def _layers(rows: Array, labels: Labels, color: Literal["class", "id"] | Array) -> list[_Layer]:
    if isinstance(color, str) and color == "class":
        classes, counts = labels.classes[rows], class_counts(labels, rows=rows)
        layers: list[_Layer] = []
        for name in counts:
            opacity = 0.4 if not layers else 0.65
            marker = {"color": CLASS_COLOURS[name], "opacity": opacity}
            layers.append(_Layer(name, np.flatnonzero(classes == TOKEN_CLASSES.index(name)), marker))
        return layers
    if isinstance(color, str) and color != "id":
        raise InputError(f'tokens are coloured by "class", by "id" or by numbers, one for each; got {color!r}')
    values = np.asarray(rows if isinstance(color, str) else np.asarray(color)[rows], np.float32)
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, (0.01, 0.99)).tolist() if finite.size else (0.0, 1.0)
    scale = POSITION if isinstance(color, str) else SHARE
    paint = {"cmin": low, "cmax": high if high > low else low + 1, "colorscale": scale.stops(), "showscale": False}
    known = np.isfinite(values)
    without = [_Layer("without a number", np.flatnonzero(~known), {"color": BASELINE, "opacity": UNMEASURED})]
    numbers = _Layer("tokens", np.flatnonzero(known), {"color": values[known], "opacity": 0.65, **paint})
    return [*([] if known.all() else without), numbers]


def _token_map_3d(tokens: _Tokens, chosen: Sequence[int], names: Sequence[str], height: int) -> go.Figure:
    points = tokens.points
    middle, half = _cube(points)
    traces = [tokens.trace(go.Scatter3d, layer, 1.8) for layer in tokens.layers]
    notes = []
    if chosen:
        at = points[list(chosen)]
        traces += [_dots_3d(dots, ACCENT, size) for dots, size in ((at[1:], 5), (at[:1], 9)) if len(dots)]
        size = (float(height), float(height))
        anchors, crowd = (placing.on_screen((q - middle) / (2 * half), eye=EYE, size=size) for q in (at, points))
        for index, offset in enumerate(placing.beside_dots(anchors, names, crowd, size=size)):
            place: dict[str, Any] = dict(zip("xyz", map(float, at[index]), strict=True))
            notes.append(_name(names[index], chosen=index == 0, at=offset, bgcolor=PANEL, **place))
    return _figure(traces, height=height, margin=dict.fromkeys("lrtb", 0), scene=_scene(middle, half, notes))


def _name(text: str, *, chosen: bool, at: tuple[float, float], **more: Any) -> dict[str, Any]:
    """A token's name, the chosen one in the accent."""
    return _label(f"<b>{text}</b>" if chosen else text, colour=ACCENT_TEXT if chosen else INK, at=at, **more)


MAP_WIDTH = 640  # the width in pixels that labels on a map are placed for


def _token_map_2d(tokens: _Tokens, chosen: Sequence[int], names: Sequence[str], height: int) -> go.Figure:
    points = tokens.points.astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    low, high, extent = low - 0.02 * extent, high + 0.02 * extent, 1.04 * extent
    corner = placing.empty_corner((points - low) / extent) if chosen else None
    if chosen and corner is None:
        low[0] -= 0.5 * extent[0]  # no corner is empty: make room at the left
        extent = high - low
        corner = (0.0, 0.3, 0.68, 1.0)
    traces = [tokens.trace(go.Scattergl, layer, 2.6) for layer in tokens.layers]
    layout: dict[str, Any] = {
        "xaxis": _bare(range=[float(low[0]), float(high[0])]),
        "yaxis": _bare(range=[float(low[1]), float(high[1])]),
    }
    if chosen and corner is not None:
        room = np.asarray([float(MAP_WIDTH), float(height)])
        spot = _Spot(tokens, (points - low) / extent, low, extent, chosen, names, corner, room)
        traces += spot.dots()
        layout |= spot.layout()
    layout["annotations"] = [*layout.get("annotations", ()), *_island_names(tokens, low, extent, corner, height)]
    return _figure(traces, height=height, margin=dict.fromkeys("lrtb", 0), **layout)


def _island_names(
    tokens: _Tokens, low: Array, extent: Array, corner: Corner | None, height: int
) -> list[dict[str, Any]]:
    """What the islands of a flat map are made of, written below them."""
    unit = (tokens.points - low) / extent
    of = placing.islands(unit)
    notes = []
    for island in range(1, int(of.max(initial=0)) + 1):
        here = np.flatnonzero(of == island)
        if len(here) < max(30, 0.003 * len(unit)):
            break  # they come by size
        shares = np.bincount(tokens.classes[here], minlength=len(TOKEN_CLASSES)) / len(here)
        found = [TOKEN_CLASSES[place] for place in np.argsort(-shares, kind="stable") if shares[place] >= 0.2]
        if found[0] not in ISLANDS:
            continue
        text = ", ".join(ISLANDS[name] for name in found if name in ISLANDS)
        size = (float(MAP_WIDTH), float(height))
        place = placing.beside_island(text, unit[here], unit=unit, size=size, inset=corner)
        if place is not None:
            at = low + place * extent
            notes.append(_label(text, colour=SUBDUED, x=float(at[0]), y=float(at[1])))
    return notes


@dataclass(frozen=True, eq=False)
class _Spot:
    """The selected token and its neighbours on the flat map, and the enlarged surroundings."""

    tokens: _Tokens
    unit: Array  # the points in the unit square
    low: Array
    extent: Array
    chosen: Sequence[int]
    names: Sequence[str]
    corner: Corner
    room: Array  # the map's size in pixels

    @property
    def half(self) -> float:
        """Half the width of what is enlarged: it holds the neighbours that the map has nearby."""
        away = self._away()
        near = away[away < 0.06]
        return float(np.clip(1.3 * near.max(initial=0.0), 0.012, 0.075)) if len(near) > 1 else 0.03

    def _away(self) -> Array:
        away: Array = np.abs(self.unit[list(self.chosen)] - self.unit[self.chosen[0]]).max(axis=1)
        return away

    def _window(self) -> tuple[Array, Array]:
        centre = self.unit[self.chosen[0]]
        return centre - self.half, centre + self.half

    def dots(self) -> list[Any]:
        """The marked dots, on the map and enlarged, and everything around them enlarged."""
        low, high = self._window()
        inside: Array = np.all((self.unit > low) & (self.unit < high), axis=1)
        traces = []
        for layer in self.tokens.layers:
            at = layer.at[inside[layer.at]]
            if not len(at):
                continue
            color = layer.marker["color"]
            part = color if isinstance(color, str) else color[inside[layer.at]]
            marker = {**layer.marker, "color": part, "opacity": 0.9}
            traces.append(self.tokens.trace(go.Scattergl, _Layer(layer.name, at, marker), 6, xaxis="x2", yaxis="y2"))
            traces[-1].marker.size = 6
        chosen = np.asarray(self.chosen)
        for at, size, axes in (
            (chosen, 6, {}),
            (chosen[1:][inside[chosen[1:]]], 9, {"xaxis": "x2", "yaxis": "y2"}),
            (chosen[:1], 13, {"xaxis": "x2", "yaxis": "y2"}),
        ):
            if not len(at):
                continue
            x, y = self.tokens.points[at].T
            marker = {"size": size, "color": ACCENT, "opacity": 1, "line": {"width": 0}}
            traces.append(go.Scattergl(x=x, y=y, mode="markers", marker=marker, hoverinfo="skip", **axes))
        return traces

    def layout(self) -> dict[str, Any]:
        """The enlarged corner's axes and ground, the frame around the place it shows, and all names."""
        low, high = (self.low + edge * self.extent for edge in self._window())
        x0, x1, y0, y1 = self.corner
        ground = {"type": "rect", "xref": "paper", "yref": "paper", "x0": x0, "x1": x1, "y0": y0, "y1": y1}
        frame = {"type": "rect", "x0": low[0], "x1": high[0], "y0": low[1], "y1": high[1]}
        title = {"xref": "paper", "yref": "paper", "x": x0, "y": y1, "xanchor": "left", "yanchor": "top"}
        return {
            "xaxis2": _bare(range=[float(low[0]), float(high[0])], domain=[x0, x1], anchor="y2"),
            "yaxis2": _bare(range=[float(low[1]), float(high[1])], domain=[y0, y1], anchor="x2"),
            "shapes": [
                {**ground, "fillcolor": PAGE, "line": {"width": 0}, "layer": "below"},
                {**frame, "line": {"color": ACCENT, "width": 1.5}},
            ],
            "annotations": [
                _label(f"around {self.names[0]}, enlarged", colour=SUBDUED, at=(8, -8), bgcolor=PAGE, **title),
                self._pointer(),
                *self._inside_names(),
                *self._far_names(),
            ],
        }

    def _pointer(self) -> dict[str, Any]:
        """The selected token's name beside its frame, with a line to it, where the map is emptiest."""
        crowd = self.unit * self.room
        edge = self.half * self.room
        spot = crowd[self.chosen[0]]
        best = placing.pointer(self.names[0], at=spot, edge=edge, crowd=crowd, room=self.room, inset=self.corner)
        at = self.low + self.unit[self.chosen[0]] * self.extent
        arrow = {
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 1.5,
            "arrowcolor": ACCENT,
            "standoff": float(edge.min()),
        }
        place = {"x": float(at[0]), "y": float(at[1]), "ax": best[0], "ay": -best[1]}
        return _name(self.names[0], chosen=True, at=(0, 0), bgcolor=PANEL, **arrow, **place)

    def _inside_names(self) -> list[dict[str, Any]]:
        low, high = self._window()
        x0, x1, y0, y1 = self.corner
        size = np.asarray([x1 - x0, y1 - y0]) * self.room
        inside = [place for place, away in enumerate(self._away()) if away < self.half]
        crowd = (self.unit - low) / (high - low) * size
        crowd = crowd[((crowd > 0) & (crowd < size)).all(axis=1)]
        anchors = (self.unit[[self.chosen[place] for place in inside]] - low) / (high - low) * size
        offsets = placing.beside_dots(
            anchors, [self.names[place] for place in inside], crowd, size=(float(size[0]), float(size[1]) - 24)
        )
        return [
            self._named(place, offset, bgcolor=PAGE, xref="x2", yref="y2")
            for place, offset in zip(inside, offsets, strict=True)
        ]

    def _far_names(self) -> list[dict[str, Any]]:
        """Neighbours in the table that the map has elsewhere."""
        far = [place for place, away in enumerate(self._away()) if away >= self.half][:6]
        crowd = self.unit * self.room
        anchors = crowd[[self.chosen[place] for place in far]]
        size = (float(self.room[0]), float(self.room[1]))
        offsets = placing.beside_dots(anchors, [self.names[place] for place in far], crowd, size=size)
        return [self._named(place, offset, bgcolor=PANEL) for place, offset in zip(far, offsets, strict=True)]

    def _named(self, place: int, offset: tuple[float, float], **more: str) -> dict[str, Any]:
        """A name beside its dot, on ground of its own: letters among dots cannot be read."""
        at = self.tokens.points[self.chosen[place]]
        return _name(self.names[place], chosen=place == 0, at=offset, x=float(at[0]), y=float(at[1]), **more)


def neighbour_list(n: Neighbours, *, shared: Sequence[int] = (), height: int | None = None) -> go.Figure:
    """Draw the neighbours of a token as a list of bars that start at 0; ``shared`` rows are tinted."""
    values = np.asarray(n.values, np.float32)
    low, high = _finite_span([values])
    tinted = [int(row) in set(map(int, shared)) for row in n.rows]
    place = np.arange(len(values), dtype=np.float32)
    names = [escape(label, width=24) for label in n.labels]
    bars = go.Bar(
        x=values,
        y=place,
        orientation="h",
        width=0.24,
        marker={"color": [ACCENT if tint else FAINT for tint in tinted], "cornerradius": 4, "line": {"width": 0}},
        text=[f"{name}: {number(float(value))}" for name, value in zip(names, values, strict=True)],
        textposition="none",
        hoverinfo="none",
        meta={"ids": np.asarray(n.rows, np.int32)},
    )
    notes, shapes = [], []
    for row, (name, value, tint) in enumerate(zip(names, values, tinted, strict=True)):
        at: dict[str, Any] = {"xref": "paper", "y": row}
        colour = ACCENT_TEXT if tint else INK
        notes.append(_label(f"<b>{name}</b>" if tint else name, colour=colour, at=(10, 0), x=0, xanchor="left", **at))
        notes.append(_label(number(float(value)), colour=SUBDUED, at=(-10, 0), x=1, xanchor="right", **at))
        if tint:
            ground = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": row - 0.46, "y1": row + 0.46}
            shapes.append({**ground, "fillcolor": PALETTE["accent_soft"].light, "line": {"width": 0}, "layer": "below"})
    end = max(high, 1.0) if n.metric == "cosine" else high
    return _figure(
        [bars],
        height=height or 32 * len(values) + 8,
        margin={"l": 0, "r": 0, "t": 4, "b": 4},
        xaxis=_bare(range=[min(low, 0.0), end if end > 0 else 1.0], domain=[0.45, 0.8]),
        yaxis=_bare(range=[len(values) - 0.5, -0.5]),
        annotations=notes,
        shapes=shapes,
    )


def distribution(
    d: Distribution, *, neighbours: Neighbours | None = None, named: int = 2, height: int = 220
) -> go.Figure:
    """Draw how many tokens have which similarity with the query, on a log axis; the nearest as dots at its foot."""
    counts, edges = np.asarray(d.counts, np.float32), np.asarray(d.edges, np.float64)
    used = np.flatnonzero(counts)
    low, high = (
        (float(edges[used[0]]), float(edges[used[-1] + 1])) if len(used) else (float(edges[0]), float(edges[-1]))
    )
    bars = go.Bar(
        x=((edges[:-1] + edges[1:]) / 2).astype(np.float32),
        y=counts,
        width=np.diff(edges).astype(np.float32) * 0.9,
        marker={"color": BASELINE, "opacity": 0.55, "line": {"width": 0}},
        hoverinfo="none",
    )
    traces, notes = [bars], []
    most = float(max(counts.max(initial=1), 1))
    top = float(np.log10(most)) + 0.15
    if neighbours is not None and len(neighbours.values):
        values = np.asarray(neighbours.values, np.float32)
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        names = [escape(label, width=20) for label in neighbours.labels]
        marker = {"size": 8, "color": ACCENT, "line": {"width": 0}}
        foot = np.ones_like(values)
        ids = {"ids": np.asarray(neighbours.rows, np.int32)}
        traces.append(
            go.Scatter(x=values, y=foot, mode="markers", marker=marker, text=names, hoverinfo="none", meta=ids)
        )
        for order in range(min(named, len(names))):
            # Each name a line higher than the one before, ending at its dot: so those of near dots never collide.
            at: dict[str, Any] = {"x": float(values[order]), "y": 0.0, "xanchor": "right"}
            notes.append(_label(names[order], at=(10, 16 + LINE * order), **at))
    pad = 0.03 * (high - low or 1.0)
    name = {"cosine": "cosine with", "dot": "inner product with", "euclidean": "distance to"}[d.metric]
    name = f"centred {name}" if d.centred else name
    ticks = [tick for tick in (1, 10, 100, 1000, 10_000, 100_000, 1_000_000) if tick <= 10**top]
    yaxis = _scale("tokens", ticks[:: 1 + (len(ticks) > 5)], grid=True)
    return _figure(
        traces,
        height=height,
        margin={**MARGIN, "l": max(48, 36 + int(max(map(wide, yaxis["ticktext"])))), "r": 22},
        bargap=0,
        xaxis={
            **_scale(f"{name} {escape(d.query.strip() or d.query, width=20)}", _nice(low, high), grid=False),
            "range": [low - pad, high + pad],
        },
        yaxis={**yaxis, "type": "log", "range": [-0.12, max(top, 0.5)]},
        annotations=notes,
    )


def stripes(
    parts: Mapping[str, Array],
    pieces: Sequence[str],
    *,
    ids: Sequence[int] | Array = (),
    dimensions: int = 64,
    limit: float | None = None,
    accented: Sequence[int] = (),
    height: int | None = None,
) -> go.Figure:
    """Draw vectors as coloured stripes, a row for each piece and a column of rows for each part: the last is their sum.

    ``parts`` are [pieces, width], of which the first ``dimensions`` are drawn, all coloured from −limit to limit; the
    traces' ``meta["range"]`` states both. ``accented`` pieces are named in the accent; ``ids`` stand beside the names.
    """
    blocks = {name: np.asarray(part, np.float32)[:, :dimensions] for name, part in parts.items()}
    if not blocks or not pieces or any(len(block) != len(pieces) for block in blocks.values()):
        sizes = {name: list(np.shape(part)) for name, part in parts.items()}
        raise InputError(f"every part must have one row for each of the {len(pieces)} pieces; they are {sizes}")
    end = robust_limit(*blocks.values()) if limit is None else float(limit)
    count, rows, gap = len(blocks), len(pieces), 0.09
    width = (1 - gap * (count - 1)) / count
    traces, axes, notes = [], {}, []
    for place, (name, block) in enumerate(blocks.items()):
        suffix = "" if place == 0 else str(place + 1)
        heat = _heat(block, SIMILARITY, (-end, end), ygap=6, name=escape(name), meta={"range": [-end, end]})
        heat.update(xaxis=f"x{suffix}", yaxis="y")
        traces.append(heat)
        left = place * (width + gap)
        axes[f"xaxis{suffix}"] = _bare(range=[-0.5, block.shape[1] - 0.5], domain=[left, min(1.0, left + width)])
        above = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        notes.append(_label(escape(name), colour=SUBDUED, at=(0, 4), **above))
        if place:
            sign: dict[str, Any] = {"xref": "paper", "x": left - gap / 2, "xanchor": "center"}
            notes += [_label("=" if place == count - 1 else "+", colour=SUBDUED, y=row, **sign) for row in range(rows)]
    names = [escape(piece, width=16) for piece in pieces]
    numbers = [str(int(number)) for number in ids]
    room = int(max(map(wide, names))) + 28 + (int(max(map(wide, numbers))) + 14 if numbers else 0)
    edge: dict[str, Any] = {"xref": "paper", "x": 0}
    for row, name in enumerate(names):
        side = {"at": (4 - room, 0), "xanchor": "left"} if numbers else {"at": (-14, 0), "xanchor": "right"}
        notes.append(_name(name, chosen=row in accented, y=row, **side, **edge))
    for row, text in enumerate(numbers):
        notes.append(_label(text, colour=SUBDUED, at=(-14, 0), xanchor="right", y=row, **edge))
    return _figure(
        traces,
        height=height or 34 * rows + 36,
        margin={"l": room, "r": 4, "t": 28, "b": 8},
        yaxis=_bare(range=[rows - 0.5, -0.5]),
        annotations=notes,
        **axes,
    )


CLUB_COLOURS = tuple(
    colour.light
    for colour in (
        *(source.colour for source in SOURCES),
        *(CLASSES[name] for name in ("continuation", "unused", "word start", "special")),
    )
)
"""The colours of words in a cloud, by their place."""


def club(
    found: Club, names: Sequence[str], *, by: Literal["word", "position"] = "word", height: int = 300
) -> go.Figure:
    """Draw a cloud of words, each at all places, in two dimensions, coloured by word or by position."""
    words, places = found.points.shape[:2]
    if len(names) != words:
        raise InputError(f"{len(names)} names cannot name the {words} words of a cloud")
    size = 5 if words * places < 600 else 4
    shown = [escape(name, width=24) for name in names]
    traces = []
    for word, name in enumerate(shown):
        x, y = found.points[word].T.astype(np.float32)
        paint: dict[str, Any] = {"color": CLUB_COLOURS[word % len(CLUB_COLOURS)]}
        if by == "position":
            low, high = _finite_span([found.places])
            paint = {"color": found.places, "cmin": low, "cmax": high, "colorscale": POSITION.stops()}
        marker = {"size": size, "line": {"width": 0}, "opacity": 0.85, **paint}
        text = [f"{name} at position {place}" for place in found.places]
        traces.append(go.Scatter(x=x, y=y, mode="markers", marker=marker, text=text, name=name, hoverinfo="none"))
    middle, half = _cube(found.points.reshape(-1, 2))
    half *= 1.08
    sides = [_bare(range=[float(mid) - half, float(mid) + half], showgrid=True, gridcolor=FAINT) for mid in middle]
    xaxis, yaxis = {**sides[0], "nticks": 6}, {**sides[1], "nticks": 6, "scaleanchor": "x"}
    return _figure(traces, height=height, margin=dict.fromkeys("lrtb", 8), xaxis=xaxis, yaxis=yaxis)


def share_rows(
    shares: Array, labels: Sequence[str], *, first: int = 0, title: str = "position", height: int | None = None
) -> go.Figure:
    """Draw shares from 0 to 1 as coloured strips, one for each label: the neighbours a word keeps at every position."""
    shares = _matrix(shares).astype(np.float32)
    if len(shares) != len(labels):
        raise InputError(f"{len(labels)} labels cannot name the rows of a matrix {list(shares.shape)}")
    count, width = shares.shape
    names = [escape(label, width=16) for label in labels]
    heat = _heat(shares, SHARE, (0.0, 1.0), first=first, ygap=4, meta={"link": "position", "axes": "x"})
    heat.update(y0=(heat.dy - 1) / 2)
    rows = {**_scale("", range(count), grid=False), "ticktext": names, "tickfont": {"color": INK}}
    return _figure(
        [heat],
        height=height or 34 * count + 60,
        margin={"l": 22 + int(max(map(wide, names))), "r": 22, "t": 8, "b": 44},
        xaxis={**_scale(title, _places(width, first), grid=False), "range": [first - 0.5, first + width - 0.5]},
        yaxis={**rows, "range": [count - 0.5, -0.5]},
    )
