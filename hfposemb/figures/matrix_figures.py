"""Matrix figures: similarities, tables as images, and patch maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..text import number, standing
from .graph_objects import go
from .label_placement import wide
from .palette import SHARE, SIMILARITY, Scale
from .style import (
    ACCENT,
    INK,
    LARGEST_MATRIX,
    PANEL,
    Array,
    Unit,
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
    from ..analysis.positions.patches import PatchMaps


TILE_GAP = 0.08  # gap between the maps of two patches, as a fraction of a map
MOST_LEVEL = 7  # maximum number of horizontal column names; more are written vertically
WRITTEN_CELLS = 12  # maximum number of rows of a labelled matrix with numbers in its cells, for values up to 1


def as_matrix(values: Array) -> Array:
    """Return values as an array; raise ``InputError`` unless it is a non-empty matrix."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"values must be a non-empty matrix; their shape is {list(matrix.shape)}")
    return matrix


def block_reduce(matrix: Array, *, limit: int = LARGEST_MATRIX) -> tuple[Array, tuple[int, int]]:
    """Average blocks of a matrix, so that it has at most ``limit`` rows and columns.

    For drawing only: a screen shows no more. Row *r* of the matrix is in row *r // step* of the result.

    Args:
        matrix: Matrix [n, m].
        limit: Maximum number of rows and columns of the result.

    Returns:
        The block means in float32, and the (rows, columns) of a block.

    Raises:
        InputError: If the matrix is empty or not two-dimensional.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.matrix_figures import block_reduce
        >>> means, block = block_reduce(np.arange(16).reshape(4, 4), limit=2)
        >>> means.tolist(), block
        ([[2.5, 4.5], [10.5, 12.5]], (2, 2))
    """
    matrix = as_matrix(matrix)
    steps = (-(-matrix.shape[0] // limit), -(-matrix.shape[1] // limit))
    if steps == (1, 1):
        return matrix.astype(np.float32, copy=False), steps
    starts = [np.arange(0, length, step) for length, step in zip(matrix.shape, steps, strict=True)]
    bands = np.stack([matrix[at : at + steps[0]].sum(axis=0, dtype=np.float64) for at in starts[0]])
    sums = np.add.reduceat(bands, starts[1], axis=1)
    sizes = [np.diff(start, append=length) for start, length in zip(starts, matrix.shape, strict=True)]
    return (sums / np.multiply.outer(*sizes)).astype(np.float32), steps


def heatmap(
    matrix: Array,
    scale: Scale,
    limits: tuple[float, float],
    *,
    first: int = 0,
    most: int = LARGEST_MATRIX,
    every: int = 1,
    **more: Any,
) -> go.Heatmap:
    """Return a heatmap in the coordinates of rows and columns, reduced by blocks if larger than a screen.

    Args:
        matrix: Matrix [n, m].
        scale: Colour scale.
        limits: Values at both ends of the scale.
        first: Coordinate of the first row and column.
        most: Maximum number of cells per direction.
        every: Coordinates per row and column.
        more: Further properties of the trace.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.matrix_figures import heatmap
        >>> from hfposemb.figures.palette import SHARE
        >>> heatmap(np.eye(4), SHARE, (0.0, 1.0), most=2).z.tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
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


def similarity_matrix(  # noqa: PLR0913 - keywords with defaults
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
    """Draw the similarity of every pair of rows as a square; small labelled matrices have numbers in their cells.

    Cosines and rotary kernels are always coloured from −1 to 1, shares from 0 to 1, other units up to the largest
    absolute value or ``limit``. The figure has no height: the page makes it square.

    Args:
        matrix: Similarities [n, n].
        labels: Names of the rows; without them rows are positions.
        first: Position of row 0.
        unit: Unit of the values.
        limit: End of the colour scale, for units without a fixed one.
        percentiles: Percentile of each pair among random pairs [n, n], from 0 to 100, shown in tooltips.
        most: Maximum number of cells per direction; larger matrices are drawn by blocks.
        every: Positions per row.

    Raises:
        InputError: If the matrix is empty, the labels do not match, or the unit has no colour scale.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.matrix_figures import similarity_matrix
        >>> figure = similarity_matrix(hpe.similarity(hpe.sinusoidal(64, 16).position))
        >>> figure.data[0].z.shape
        (64, 64)
    """
    matrix = as_matrix(matrix)
    scale, limits = _unit_scale(unit, matrix, limit)
    rows, columns = matrix.shape
    if labels is None:
        step = every * -(-max(rows, columns) // most)
        meta = {"link": "position", "first": first, "step": step}
        heat = heatmap(matrix, scale, limits, first=first, most=most, every=every, meta=meta)
        xaxis = plotly_scale("position", decimal_places(every * columns, first), grid=False)
        yaxis = plotly_scale("position", decimal_places(every * rows, first), grid=False)
        margin, notes = {"l": 58, "r": 22, "t": 8, "b": 44}, []
    else:
        if len(labels) != rows or rows != columns:
            raise InputError(
                f"a labelled matrix needs a label per row and column; got {len(labels)} for {list(matrix.shape)}"
            )
        names = [escape(label, width=16) for label in labels]
        heat = heatmap(
            matrix, scale, limits, xgap=2, ygap=2, text=_pairs(matrix, names, percentiles), meta={"range": limits}
        )
        xaxis, yaxis = (
            {**plotly_scale("", range(rows), grid=False), "ticktext": names, "tickfont": {"color": INK}} for _ in "xy"
        )
        xaxis["side"] = "top"
        longest = int(max(map(wide, names)))
        # Where it is narrow, the names above are slanted.
        margin = {"l": 16 + longest, "r": 16, "t": max(32, 20 + longest // 2), "b": 8}
        if rows > MOST_LEVEL:
            xaxis["tickangle"], margin["t"] = -90, max(16 + longest, margin["t"])
        most = WRITTEN_CELLS if limits[1] <= 1 else MOST_LEVEL
        notes = _written(matrix, limits) if rows <= most else []
    square = {"constrain": "domain"}
    before = first - every / 2
    xaxis |= {"range": [before, before + every * columns], **square}
    yaxis |= {"range": [before + every * rows, before], "scaleanchor": "x", **square}
    return new_figure([heat], height=None, margin=margin, xaxis=xaxis, yaxis=yaxis, annotations=notes)


def _unit_scale(unit: Unit, matrix: Array, limit: float | None) -> tuple[Scale, tuple[float, float]]:
    if unit in ("cosine", "expected rotary kernel"):
        return SIMILARITY, (-1.0, 1.0)
    if unit == "share":
        return SHARE, (0.0, 1.0)
    end = limit if limit is not None else max(map(abs, finite_span([matrix]))) or 1.0
    if unit == "euclidean":
        return SHARE, (0.0, float(end))
    if unit in ("additive bias", "dot"):
        return SIMILARITY, (-float(end), float(end))
    raise InputError(f"unknown unit {unit!r}; use cosine, dot, euclidean, additive bias or share")


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
    """Return the numbers in the cells: ink on pale cells, the panel's white on strong ones, reversed on a dark page."""
    notes = []
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            if not np.isfinite(value):
                continue
            place = (float(value) - limits[0]) / (limits[1] - limits[0])
            strong = place < 0.45 if limits[0] == 0 else abs(place - 0.5) > 0.36
            digits = 2 if limits[1] <= 1 else 1
            notes.append(add_label(number(value, digits=digits), colour=PANEL if strong else INK, x=j, y=i))
    return notes


def table_image(vectors: Array, *, height: int = 340) -> go.Figure:
    """Draw a table of positions as an image, rows × dimensions; the colours cover 99 % of all numbers.

    Their range is in the trace's ``meta["range"]``.

    Args:
        vectors: Table [n, d].
        height: Height in pixels.

    Raises:
        InputError: If the table is empty.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.figures.matrix_figures import table_image
        >>> figure = table_image(hpe.sinusoidal(64, 16).position.table.vectors)
        >>> figure.data[0].meta["range"]
        [-1.0, 1.0]
    """
    vectors = as_matrix(vectors)
    end = robust_limit(vectors)
    step = -(-len(vectors) // LARGEST_MATRIX)
    meta = {"link": "position", "first": 0, "step": step, "axes": "y", "range": [-end, end]}
    count, width = vectors.shape
    heat = heatmap(vectors, SIMILARITY, (-end, end), meta=meta)
    heat.update(x0=(heat.dx - 1) / 2)
    return new_figure(
        [heat],
        height=height,
        margin={"l": 58, "r": 22, "t": 8, "b": 44},
        xaxis={**plotly_scale("dimension", decimal_places(width), grid=False), "range": [-0.5, width - 0.5]},
        yaxis={**plotly_scale("position", decimal_places(count), grid=False), "range": [count - 0.5, -0.5]},
    )


def patch_tiles(maps: PatchMaps, *, chosen: int | None = None) -> go.Figure:
    """Draw a small map for every patch, in its place over the image: its cosines with all patches, from −1 to 1.

    The figure has no height: the page gives it the shape of the image.

    Args:
        maps: The maps.
        chosen: Patch that is framed if it has a tile, counted row by row over the whole grid.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions.patches import patch_maps
        >>> from hfposemb.figures.matrix_figures import patch_tiles
        >>> from hfposemb.tables.encodings import Absolute, Grid
        >>> encoding = Absolute(hpe.sinusoidal(6, 8).position.table, grid=Grid(2, 3))
        >>> figure = patch_tiles(patch_maps(encoding), chosen=0)
        >>> figure.data[0].meta["grid"]
        [2, 3]
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
    """Draw the cosines of one patch with all patches over the image, from −1 to 1; the patch is framed.

    Args:
        cosines: Cosines [rows, columns].
        patch: The patch, counted row by row.

    Raises:
        InputError: If there is no such patch.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.figures.matrix_figures import patch_map
        >>> figure = patch_map(np.array([[1.0, 0.5, 0.0], [0.5, 0.2, -0.1]]), 0)
        >>> figure.data[0].z.shape
        (2, 3)
    """
    cosines = as_matrix(cosines)
    rows, columns = cosines.shape
    if not 0 <= patch < rows * columns:
        raise InputError(
            f"patch must be from 0 to {rows * columns - 1:,} on a grid of {rows} × {columns}; got {patch:,}"
        )
    row, column = divmod(patch, columns)
    frame = [_frame(column, row, column + 1, row + 1, pad=0)]
    across, down = (np.arange(count + 1, dtype=np.float32) for count in (columns, rows))
    return _map(np.asarray(cosines, np.float32), across, down, {"grid": [rows, columns]}, frame)


def _tile_edges(tiles: int, cells: int, gap: float) -> Array:
    """Return the edges of all cells in a row of tiles, including the gaps between tiles."""
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
    return new_figure(
        [heat],
        height=None,
        meta={"aspect": float(down[-1] / across[-1])},
        margin=dict.fromkeys("lrtb", 8),
        xaxis=bare_figure(range=[-edge, float(across[-1]) + edge], constrain="domain"),
        yaxis=bare_figure(range=[float(down[-1]) + edge, -edge], scaleanchor="x", constrain="domain"),
        shapes=frame,
    )
