"""Line figures: curves by distance, position and period."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError
from ..figures import label_placement
from ..text import number, tick
from .graph_objects import go
from .label_placement import LINE, Frame, wide
from .style import (
    ACCENT,
    BASELINE,
    MARGIN,
    SUBDUED,
    Array,
    Axis,
    Series,
    Unit,
    add_label,
    decade_ticks,
    decimal_places,
    escape,
    finite_span,
    legend_row,
    new_figure,
    nice_ticks,
    plotly_scale,
)

if TYPE_CHECKING:
    from ..analysis.similarity.nearest_rows import Neighbours
    from ..analysis.similarity.similarity_matrix import Distribution


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

    Where lines leave no room for names, a legend row above the plot names them.

    Args:
        series: The lines.
        x: The x axis.
        y: The y axis.
        labels: Where to name lines: on the line, or ``"end"`` for right of the plot.
        marked: Place of a vertical line, if any.
        written: Formats the values at the ``marks`` of the series, which are then written next to their dots.
        height: Height in pixels.

    Raises:
        InputError: If there is no series.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.line_figures import curves
        >>> from hfposemb.figures.style import Axis, Series
        >>> figure = curves([Series("loss", np.array([4.0, 2.0, 1.0]))], x=Axis("step"), y=Axis("value"))
        >>> [trace.name for trace in figure.data]
        ['loss']
    """
    if not series:
        raise InputError("series is empty; give at least one")
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
        rows = -(-len(series) // max(1, int(size[0] // (44 + max(wide(s.name) for s in series)))))
        margin["t"], height = 16 + 20 * rows, height + 24 * (rows - 1)
        legend = {"showlegend": True, "legend": legend_row()}
    upright = {"type": "line", "x0": marked, "x1": marked, "y0": 0, "y1": 1, "yref": "paper"}
    shapes = [] if marked is None else [upright | {"line": {"color": ACCENT, "width": 1.5}}]
    yaxis = _axis(y, spans[1], grid=True)
    margin["l"] = max(margin["l"], 36 + int(max(map(wide, yaxis["ticktext"]))))
    return new_figure(
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


def _span(axis: Axis, arrays: Iterable[Array], *, pad: float = 0.0) -> tuple[float, float]:
    """Return the range of an axis in its own coordinates: powers of ten if it is logarithmic."""
    if axis.span is not None and axis.span[0] < axis.span[1]:
        low, high = axis.span
        return (float(np.log10(low)), float(np.log10(high))) if axis.log else (float(low), float(high))
    parts = [np.asarray(array, np.float64) for array in arrays]
    if axis.log:
        parts = [np.log10(part[part > 0]) for part in parts]
    low, high = finite_span(parts)
    room = (high - low or 1.0) * pad
    return low - room, (high if high > low else low + 1) + room


def _axis(axis: Axis, span: tuple[float, float], *, grid: bool) -> dict[str, Any]:
    low, high = (10.0 ** span[0], 10.0 ** span[1]) if axis.log else span
    ticks = axis.ticks or (decade_ticks(low, high) if axis.log else nice_ticks(low, high))
    look = plotly_scale(axis.title, ticks, grid=grid, share=axis.share)
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
) -> list[tuple[label_placement.Box, dict[str, Any]]]:
    """Return the labels of the marked points next to their dots, with the box that each occupies.

    Labels are raised by ``rise`` pixels where a vertical line passes through the dots.
    """
    notes = []
    for s in series:
        for index in s.marks:
            value = float(np.asarray(s.values)[index])
            text = written(value)
            point = frame.pixels(s.x[[index]], np.asarray([value]))[0]
            side = -1 if point[0] > frame.size[0] - wide(text) - 12 else 1  # to the left at the end of the plot
            place = label_placement.Place(point, (side * (wide(text) / 2 + 8), rise))
            at = {"x": float(frame.own(s.x[[index]], 0)[0]), "y": float(frame.own(np.asarray([value]), 1)[0])}
            notes.append((place.box(text), add_label(text, colour=s.colour, at=place.offset, **at)))
    return notes


def _line_labels(
    series: Sequence[Series], frame: Frame, taken: Sequence[label_placement.Box]
) -> list[dict[str, Any]] | None:
    """Return the name of each line next to it; ``None`` if one of them does not fit."""
    texts = [escape(s.name, width=24) for s in series]
    places = label_placement.on_lines(texts, [frame.trail(s.x, s.values) for s in series], size=frame.size, taken=taken)
    if places is None:
        return None
    notes = []
    for s, text, place in zip(series, texts, places, strict=True):
        x, y = frame.at(place.point)
        notes.append(add_label(text, colour=s.colour, at=place.offset, x=float(x), y=float(y)))
    return notes


def _end_labels(series: Sequence[Series], frame: Frame) -> list[dict[str, Any]] | None:
    """Return names to the right of the plot at the height of the lines' ends, at least one line of text apart."""
    ends = []
    for s in series:
        values = np.asarray(s.values, np.float64)
        finite = np.flatnonzero(np.isfinite(frame.own(values, 1)))
        if not len(finite):
            return None
        ends.append(float(values[finite[-1]]))
    heights = frame.pixels(np.ones(len(ends)), np.asarray(ends))[:, 1]
    moved = label_placement.apart(heights)
    notes = []
    for s, end, before, after in zip(series, ends, heights, moved, strict=True):
        y = float(frame.own(np.asarray([end]), 1)[0])
        more = {"xref": "paper", "x": 1.015, "xanchor": "left", "y": y}
        notes.append(add_label(escape(s.name, width=16), colour=s.colour, at=(0, float(after - before)), **more))
    return notes


def similarity_by_distance(series: Sequence[Series], *, unit: Unit = "cosine", height: int = 300) -> go.Figure:
    """Draw the mean similarity of two positions against their distance; bands are intervals of the null.

    Args:
        series: Similarity at each distance ``at``.
        unit: Unit of the similarity, which determines the axis; all series share it.
        height: Height in pixels.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.line_figures import similarity_by_distance
        >>> from hfposemb.figures.named_figures import mean_cosine_by_distance
        >>> from hfposemb.figures.style import Series
        >>> table = hpe.sinusoidal(64, 16).position.table
        >>> figure = similarity_by_distance([Series("sinusoid", mean_cosine_by_distance(table))])
        >>> figure.layout.yaxis.title.text
        'mean cosine'
    """
    cosine = unit in ("cosine", "expected rotary kernel")
    low, _ = finite_span([np.asarray(v) for s in series for v in (s.values, *(s.band or ()))])
    title = {"cosine": "mean cosine", "dot": "mean inner product", "euclidean": "mean distance"}.get(unit, unit)
    y = Axis(title)
    if cosine:
        edges = (min(-0.1, np.floor(low * 10 - 0.5) / 10) if low < 0 else -0.02, 1.04)
        y = Axis(title, ticks=tuple(t for t in (-1, -0.5, 0, 0.5, 1) if t >= low), span=edges)
    span = finite_span([s.x for s in series])
    x = Axis("distance in positions" if span[0] >= 0 else "distance in positions, key − query", span=span)
    figure = curves(series, x=x, y=y, height=height)
    if cosine:
        figure.update_yaxes(zeroline=True, zerolinecolor=SUBDUED, zerolinewidth=1)
    return figure


def norms_by_position(series: Sequence[Series], *, height: int = 300) -> go.Figure:
    """Draw the Euclidean norm of every position on a log axis, with a labelled dot at each of the ``marks``.

    Args:
        series: Norms of each source; NaN for rows without one.
        height: Height in pixels.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.line_figures import norms_by_position
        >>> from hfposemb.figures.named_figures import positive_norms
        >>> from hfposemb.figures.style import Series
        >>> figure = norms_by_position([Series("sinusoid", positive_norms(hpe.sinusoidal(64, 16).position.table))])
        >>> figure.layout.yaxis.type
        'log'
    """
    low, high = finite_span([s.x for s in series])
    ticks = tuple(float(place) for place in decimal_places(int(high - low) + 1, int(low)))
    x = Axis("position", ticks=ticks, span=(low, high))
    figure = curves(series, x=x, y=Axis("norm", log=True), written=lambda value: number(value, digits=2), height=height)
    figure.update_xaxes(range=[low - 0.02 * (high - low), high + 0.02 * (high - low)])
    return _linked(figure, series)


def _linked(figure: go.Figure, series: Sequence[Series]) -> go.Figure:
    names = {escape(s.name): int(s.x[0]) for s in series if len(s.values)}
    for trace in figure.data:
        if trace.mode == "lines" and trace.fill is None and trace.name in names:
            trace.update(meta={"link": "position", "first": names[trace.name]})
    return figure


def explained_variance(series: Sequence[Series], *, height: int = 300) -> go.Figure:
    """Draw the cumulative share of variance of the leading components, on a log axis, with dots at the ``marks``.

    Args:
        series: Cumulative shares [components] of each source, from the first component on.
        height: Height in pixels.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import spectrum
        >>> from hfposemb.figures.line_figures import explained_variance
        >>> from hfposemb.figures.style import Series
        >>> found = spectrum(hpe.sinusoidal(64, 16).position)
        >>> figure = explained_variance([Series("sinusoid", found.cumulative, marks=(2,))])
        >>> figure.layout.xaxis.title.text
        'components, log scale'
    """
    longest = max((len(s.values) for s in series), default=2)
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= longest]
    if len(ticks) > 5:
        ticks = [tick for tick in (1, 3, 10, 100, 1000, 10_000) if tick <= longest]
    one = [replace(s, at=np.arange(1, len(s.values) + 1, dtype=np.float32)) for s in series]
    x = Axis("components, log scale", log=True, ticks=tuple(map(float, ticks)), span=(1, max(longest, 2)))
    return curves(
        one, x=x, y=Axis("variance", share=True, ticks=(0, 0.25, 0.5, 0.75, 1), span=(-0.01, 1.03)), height=height
    )


def shift_by_distance(series: Sequence[Series]) -> go.Figure:
    """Draw the held-out R² of shifts against their distance, on a log axis; bands are intervals of the null.

    Negative values are drawn as 0, since R² below 0 is no better than predicting the mean, however far below.

    Args:
        series: R² at each distance ``at``.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions import shift_curves as shifts
        >>> from hfposemb.figures.line_figures import shift_by_distance
        >>> from hfposemb.figures.style import Series
        >>> found = shifts.shift_by_distance(hpe.sinusoidal(64, 16).position.table)
        >>> figure = shift_by_distance([Series("sinusoid", found.linear["random"], at=found.distances)])
        >>> figure.layout.xaxis.title.text
        'shift in positions, log scale'
    """
    at = np.unique(np.concatenate([s.x for s in series])) if series else np.zeros(1)
    ticks = at if len(at) <= 5 else at[:: -(-(len(at) - 1) // 4)]
    x = Axis("shift in positions, log scale", log=True, ticks=tuple(map(float, ticks)), span=(1, max(float(at[-1]), 2)))
    y = Axis("held-out R²", ticks=(0, 0.25, 0.5, 0.75, 1), span=(-0.03, 1.05))

    def floored(s: Series) -> Series:
        band = s.band and (np.maximum(s.band[0], 0), np.maximum(s.band[1], 0))
        return replace(s, values=np.maximum(s.values, 0), band=band)

    return curves([floored(s) for s in series], x=x, y=y)


def turned_planes(series: Sequence[Series]) -> go.Figure:
    """Draw the turning angle of each plane against the expected angle, in degrees folded to 0 … 180.

    The dotted diagonal is a rotation, such as the sinusoid's.

    Args:
        series: Measured angles as ``values``, expected ones as ``at``.

    Examples:
        >>> import numpy as np
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions.shift_curves import plane_rotation
        >>> from hfposemb.figures.line_figures import turned_planes
        >>> from hfposemb.figures.style import Series
        >>> found = plane_rotation(hpe.sinusoidal(64, 16).position.table, 4)
        >>> line = Series("sinusoid", np.rad2deg(found.turned), at=np.rad2deg(found.expected))
        >>> [trace.name for trace in turned_planes([line]).data]
        ['rotation', 'sinusoid']
    """
    ends = np.array([0.0, 180.0], np.float32)
    axis = Axis("", ticks=(0, 45, 90, 135, 180), span=(-6.0, 186.0))
    figure = curves(
        [Series("rotation", ends, at=ends)],
        x=replace(axis, title="expected angle ω k, degrees"),
        y=replace(axis, title="measured angle, degrees"),
    )
    figure.data[0].update(showlegend=False)  # named on its line
    for s in series:
        name, angles = escape(s.name), zip(s.x, s.values, strict=True)
        text = [f"{name}: measured {tick(round(y))}°, expected {tick(round(x))}°" for x, y in angles]
        marker = {"size": 8, "color": s.colour, "opacity": 0.8, "line": {"width": 0}}
        look = {"mode": "markers", "marker": marker, "name": name, "hoverinfo": "none"}
        figure.add_scatter(x=s.x, y=np.asarray(s.values), text=text, **look)
    return figure.update_layout(hovermode="closest", showlegend=True, legend=legend_row(), margin_t=36)


def clock(hands: Array, *, named: Sequence[str], height: int = 170) -> go.Figure:
    """Draw pairs of sine and cosine as the hands of a clock, beside those of position 0, which point up.

    Args:
        hands: Sine and cosine of each pair at a position: where its hand ends [pairs, 2].
        named: What is written below each dial [pairs].
        height: Height in pixels.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.line_figures import clock
        >>> hand = clock(np.array([[1.0, 0.0]]), named=["a quarter"]).data[-1]
        >>> float(hand.x[-1]), float(hand.y[-1])  # at three o'clock
        (1.0, 0.0)
    """
    turns = np.linspace(0, 2 * np.pi, 49)
    ends = np.asarray(hands, np.float64)
    figure = new_figure([], height=height, margin={"l": 0, "r": 0, "t": 0, "b": 24})
    for place, (end, name) in enumerate(zip(ends, named, strict=True)):
        axis = str(place + 1) if place else ""
        axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        line: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip", **axes}
        figure.add_scatter(x=np.sin(turns), y=np.cos(turns), line={"color": BASELINE, "width": 1}, **line)
        for tip, colour, width in (np.array([0.0, 1.0]), SUBDUED, 2), (end, ACCENT, 3):
            x, y = np.stack([np.zeros(2), tip], axis=1)
            figure.add_scatter(x=x, y=y, line={"color": colour, "width": width}, **line)
        marked: dict[str, Any] = {"mode": "markers", "marker": {"color": ACCENT, "size": 5}, "hoverinfo": "none"}
        figure.add_scatter(x=end[:1], y=end[1:], **marked, **axes)
        bare = {"visible": False, "fixedrange": True}
        domain = [place / len(ends), (place + 1) / len(ends)]
        figure.layout[f"xaxis{axis}"] = {"range": [-1.1, 1.1], "domain": domain, "anchor": f"y{axis}", **bare}
        figure.layout[f"yaxis{axis}"] = {"range": [-1.1, 1.1], "scaleanchor": f"x{axis}", "anchor": f"x{axis}", **bare}
        at: dict[str, Any] = {
            "x": sum(domain) / 2,
            "y": 0,
            "xref": "paper",
            "yref": "paper",
            "xanchor": "center",
            "yshift": -12,
        }
        figure.add_annotation(add_label(escape(name), colour=SUBDUED, **at))
    return figure.update_layout(showlegend=False)


NAMED = 2
"""Nearest tokens of a distribution that are labelled."""


def distribution(d: Distribution, *, neighbours: Neighbours | None = None) -> go.Figure:
    """Draw a histogram of tokens by similarity with the query, on a log axis, with the nearest ones as dots below.

    Args:
        d: The distribution.
        neighbours: The nearest tokens, if any.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.similarity.similarity_matrix import similarity_distribution
        >>> from hfposemb.figures.line_figures import distribution
        >>> figure = distribution(similarity_distribution(hpe.extract("sample:bert").token, "king"))
        >>> figure.layout.xaxis.title.text
        'cosine with king'
    """
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
        for order in range(min(NAMED, len(names))):
            # Each name is one line higher than the previous one and ends at its dot, so names of close dots never
            # overlap.
            at: dict[str, Any] = {"x": float(values[order]), "y": 0.0, "xanchor": "right"}
            notes.append(add_label(names[order], at=(10, 16 + LINE * order), **at))
    pad = 0.03 * (high - low or 1.0)
    name = {"cosine": "cosine with", "dot": "inner product with", "euclidean": "distance to"}[d.metric]
    name = f"centred {name}" if d.centred else name
    ticks = [tick for tick in (1, 10, 100, 1000, 10_000, 100_000, 1_000_000) if tick <= 10**top]
    yaxis = plotly_scale("tokens", ticks[:: 1 + (len(ticks) > 5)], grid=True)
    return new_figure(
        traces,
        height=220,
        margin={**MARGIN, "l": max(48, 36 + int(max(map(wide, yaxis["ticktext"])))), "r": 22},
        bargap=0,
        xaxis={
            **plotly_scale(f"{name} {escape(d.query.strip() or d.query, width=20)}", nice_ticks(low, high), grid=False),
            "range": [low - pad, high + pad],
        },
        yaxis={**yaxis, "type": "log", "range": [-0.12, max(top, 0.5)]},
        annotations=notes,
    )
