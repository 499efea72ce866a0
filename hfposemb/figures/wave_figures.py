"""Waves of position tables: strength by period, wavelengths, single dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .graph_objects import go
from .label_placement import wide
from .line_figures import curves
from .map_names import token_name
from .matrix_figures import as_matrix, heatmap
from .palette import SIMILARITY, SOURCES
from .style import (
    FAINT,
    MARGIN,
    SUBDUED,
    Array,
    Axis,
    Series,
    add_label,
    bare_figure,
    decimal_places,
    escape,
    finite_span,
    new_figure,
    plotly_scale,
    robust_limit,
)

if TYPE_CHECKING:
    from ..tables.rotary import Wavelengths


def waves_by_period(series: Sequence[Series], *, noise: tuple[float, float]) -> go.Figure:
    """Draw the strength of waves by period as multiples of the mean, on log axes.

    Args:
        series: Strengths, with periods in positions as ``at``, shortest first; dots at their ``marks``.
        noise: Low and high end of the interval of noise.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import strength_by_period
        >>> from hfposemb.figures.wave_figures import waves_by_period
        >>> from hfposemb.figures.style import Series
        >>> found = strength_by_period(hpe.sinusoidal(64, 16).position)
        >>> line = Series("sinusoid", found.strength[::-1], at=found.periods[::-1])
        >>> figure = waves_by_period([line], noise=(found.low, found.high))
        >>> figure.layout.yaxis.title.text
        'strength, mean = 1'
    """
    low, high = finite_span([s.x for s in series])
    flat = np.array([low, high], np.float32)
    band = tuple(np.full(2, max(edge, 1e-3), np.float32) for edge in noise)
    null = Series("Noise", np.ones(2, np.float32), at=flat, band=(band[0], band[1]))
    x = Axis("period in positions, log scale", log=True, span=(low, high))
    values = [np.asarray(s.values)[np.asarray(s.values) > 0] for s in series]
    bottom, top = finite_span([*values, np.array([1.0])])
    y = Axis("strength, mean = 1", log=True, span=(max(bottom, top / 3_000) / 1.3, top * 1.5))
    return curves([*series, null], x=x, y=y)


def wavelengths(found: Wavelengths, *, series: Series, scaled: str = "after scaling") -> go.Figure:
    """Draw the number of positions that each pair of a rotary encoding takes for one turn, on a log axis.

    If scaling changes any pair, the wavelengths before it are the dotted grey line, and those after it are named
    ``scaled``. The trained length is a separate line; pairs that exceeded it in training have dots. Pairs that do not
    turn have no wavelength, and are not drawn.

    Args:
        found: The wavelengths.
        series: Name, colour and dash of the line; its values are ignored.
        scaled: Name of the wavelengths after scaling.

    Examples:
        >>> import numpy as np
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.wave_figures import wavelengths
        >>> from hfposemb.figures.style import Series
        >>> found = hpe.extract("rotary:64x8").position.scaled
        >>> figure = wavelengths(found, series=Series("rotary", np.empty(0)))
        >>> figure.layout.yaxis.title.text
        'positions per turn'
    """
    before, after = (np.where(np.isfinite(part), part, np.nan) for part in (found.before, found.after))
    pairs = np.arange(len(after), dtype=np.float32)
    moved = bool(found.moved.any())
    lines = [Series("before scaling", before)] if moved else []
    lines.append(replace(series, name=scaled if moved else series.name, values=after, marks=(), band=None, at=None))
    low, high = finite_span([before, after, np.asarray([found.trained_length], np.float64)])
    ticks = tuple(map(float, decimal_places(len(pairs))))
    x = Axis("pair of dimensions", ticks=ticks, span=(0, max(len(pairs) - 1, 1)))
    y = Axis("positions per turn", log=True, span=(low * 0.8, high * 1.6))
    figure = curves(lines, x=x, y=y, labels="line")
    beyond = np.flatnonzero(found.beyond & np.isfinite(before))
    dots = {"size": 5, "color": lines[0].colour, "line": {"width": 0}}
    figure.add_scatter(
        x=pairs[beyond], y=before[beyond], mode="markers", marker=dots, hoverinfo="skip", showlegend=False
    )
    trained = {"xref": "paper", "x0": 0, "x1": 1, "y0": found.trained_length, "y1": found.trained_length}
    figure.add_shape(type="line", **trained, line={"color": SUBDUED, "width": 1, "dash": "dash"})
    where = {"xref": "paper", "x": 0, "xanchor": "left", "y": float(np.log10(found.trained_length))}
    figure.add_annotation(add_label(f"trained on {found.trained_length:,}", colour=SUBDUED, at=(4, 10), **where))
    return figure


def waves(vectors: Array, dimensions: Sequence[int], *, first: int = 0) -> go.Figure:
    """Draw chosen dimensions of a table against the position, one strip each, all on the same scale.

    Args:
        vectors: Table [n, d].
        dimensions: Columns to draw.
        first: Position of the first row.

    Raises:
        InputError: If there is no dimension, or one is outside of the table.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.wave_figures import waves
        >>> figure = waves(hpe.sinusoidal(64, 16).position.table.vectors, [0, 1])
        >>> [trace.name for trace in figure.data]
        ['dimension 0', 'dimension 1']
    """
    vectors = as_matrix(vectors)
    if not len(dimensions) or not all(0 <= d < vectors.shape[1] for d in dimensions):
        raise InputError(f"dimensions must be from 0 to {vectors.shape[1] - 1}, at least one; got {list(dimensions)}")
    low, high = finite_span([vectors[:, list(dimensions)]])
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
                meta={"link": "position", "first": first},
            )
        )  # fmt: skip
        bottom, top = 1 - (place + 1) * share, 1 - place * share
        zero = {"zeroline": True, "zerolinecolor": FAINT, "zerolinewidth": 1}
        domain = [max(0.0, bottom + 0.08 * share), min(1.0, top - 0.08 * share)]
        axes[f"yaxis{suffix}"] = {**bare_figure(range=[-1.08 * end, 1.08 * end], domain=domain), **zero}
        middle = {"xref": "paper", "x": 0, "yref": "paper", "y": (bottom + top) / 2, "xanchor": "right"}
        notes.append(add_label(name, colour=SUBDUED, at=(-10, 0), **middle))
    ticks = decimal_places(len(vectors), first)
    span = {"range": [first, first + len(vectors) - 1], "anchor": f"y{'' if count == 1 else count}"}
    return new_figure(
        traces,
        height=56 * count + 52,
        margin={**MARGIN, "l": 28 + int(max(wide(note["text"]) for note in notes)), "r": 22},
        hovermode="x",
        xaxis={**plotly_scale("position", ticks, grid=False), **span},
        annotations=notes,
        **axes,
    )


def stripes(
    parts: Mapping[str, Array],
    pieces: Sequence[str],
    *,
    ids: Sequence[int] | Array = (),
    dimensions: int = 64,
    accented: Sequence[int] = (),
) -> go.Figure:
    """Draw vectors as coloured stripes: one row per piece, one column per part; the last part is the sum of the others.

    The colours cover 99 % of all numbers. Their range is in the traces' ``meta["range"]``.

    Args:
        parts: Vectors [pieces, width] by name.
        pieces: Names of the pieces.
        ids: Token ids, shown next to the names.
        dimensions: Number of leading dimensions drawn.
        accented: Indices of pieces named in the accent colour.

    Raises:
        InputError: If a part does not have one row per piece.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.wave_figures import stripes
        >>> fed = hpe.extract("sample:bert").inputs("the king")
        >>> figure = stripes({"token": fed.token, "position": fed.position, "input": fed.sum}, fed.pieces, ids=fed.ids)
        >>> [trace.name for trace in figure.data]
        ['token', 'position', 'input']
    """
    blocks = {name: np.asarray(part, np.float32)[:, :dimensions] for name, part in parts.items()}
    if not blocks or not pieces or any(len(block) != len(pieces) for block in blocks.values()):
        sizes = {name: list(np.shape(part)) for name, part in parts.items()}
        raise InputError(f"every part must have one row for each of the {len(pieces)} pieces; the shapes are {sizes}")
    end = robust_limit(*blocks.values())
    count, rows, gap = len(blocks), len(pieces), 0.09
    width = (1 - gap * (count - 1)) / count
    traces, axes, notes = [], {}, []
    for place, (name, block) in enumerate(blocks.items()):
        suffix = "" if place == 0 else str(place + 1)
        heat = heatmap(block, SIMILARITY, (-end, end), ygap=6, name=escape(name), meta={"range": [-end, end]})
        heat.update(xaxis=f"x{suffix}", yaxis="y")
        traces.append(heat)
        left = place * (width + gap)
        axes[f"xaxis{suffix}"] = bare_figure(range=[-0.5, block.shape[1] - 0.5], domain=[left, min(1.0, left + width)])
        above = {"xref": "paper", "x": left, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
        notes.append(add_label(escape(name), colour=SUBDUED, at=(0, 4), **above))
        if place:
            sign: dict[str, Any] = {"xref": "paper", "x": left - gap / 2, "xanchor": "center"}
            notes += [
                add_label("=" if place == count - 1 else "+", colour=SUBDUED, y=row, **sign) for row in range(rows)
            ]
    names = [escape(piece, width=16) for piece in pieces]
    numbers = [str(int(number)) for number in ids]
    room = int(max(map(wide, names))) + 28 + (int(max(map(wide, numbers))) + 14 if numbers else 0)
    edge: dict[str, Any] = {"xref": "paper", "x": 0}
    for row, name in enumerate(names):
        side = {"at": (4 - room, 0), "xanchor": "left"} if numbers else {"at": (-14, 0), "xanchor": "right"}
        notes.append(token_name(name, chosen=row in accented, y=row, **side, **edge))
    for row, text in enumerate(numbers):
        notes.append(add_label(text, colour=SUBDUED, at=(-14, 0), xanchor="right", y=row, **edge))
    return new_figure(
        traces,
        height=34 * rows + 36,
        margin={"l": room, "r": 4, "t": 28, "b": 8},
        yaxis=bare_figure(range=[rows - 0.5, -0.5]),
        annotations=notes,
        **axes,
    )
