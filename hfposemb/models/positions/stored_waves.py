"""Recognition of stored position tables that are sinusoids, by their numbers rather than by the name of the model."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...tables.encodings import Grid
from ...tables.table import EmbeddingTable

_FEW = 3
"""Rows that are read at first; nearly all learned tables are told apart by them."""

_TOLERANCE = 4e-3
"""Largest difference between the numbers of a table and sinusoids, which allows for storage in bfloat16."""

_MOST_CELLS = 2**24


def are_waves(table: EmbeddingTable, grid: Grid | None) -> bool:
    """Return whether every column of a table is a sine or cosine of the position, or of one axis of a grid.

    The test needs no formula: x(t + 1) + x(t − 1) = 2 cos(ω) x(t) for a sampled sine of frequency ω, and sines and
    cosines in equal number give all rows the length √(width / 2). Three rows decide for nearly all learned tables.

    Args:
        table: Table [rows, width]; with a grid, its patches row by row after ``grid.first`` other rows.
        grid: Grid of patches; ``None`` for positions along one axis.

    >>> import hfposemb as hpe
    >>> from hfposemb.models.positions.stored_waves import are_waves
    >>> are_waves(hpe.sinusoidal(64, 16).position.table, None)
    True
    >>> are_waves(hpe.extract("sample:bert").position.table, None)
    False
    """
    first = 0 if grid is None else grid.first
    rows, width = table.shape[0] - first, table.shape[1]
    if width % 2 or rows < 2 * _FEW or rows * width > _MOST_CELLS:
        return False
    if not _alike(np.asarray(table.rows(first, first + _FEW), np.float64), width):
        return False
    whole = np.asarray(table.rows(first, table.shape[0]), np.float64)
    if not _alike(whole, width):
        return False
    if grid is None:
        return bool(_sampled(whole[:, None, :]).all())
    cells = whole[: grid.rows * grid.columns].reshape(grid.rows, grid.columns, width)
    down = _sampled(cells) & _constant(cells.transpose(1, 0, 2))
    across = _sampled(cells.transpose(1, 0, 2)) & _constant(cells)
    return bool((down | across).all())


def _alike(rows: NDArray[np.float64], width: int) -> bool:
    """Return whether rows have the length of width / 2 pairs of a sine and a cosine."""
    lengths = np.linalg.norm(rows, axis=1) / math.sqrt(width / 2)
    return bool(np.isfinite(rows).all() and (np.abs(lengths - 1) < _TOLERANCE).all())


def _sampled(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each column [n, m, width] is a sampled sine along the first axis, for all m alike."""
    middle, around = cells[1:-1], cells[2:] + cells[:-2]
    energy = np.square(middle).sum(axis=(0, 1))
    twice_cosine = (middle * around).sum(axis=(0, 1)) / np.where(energy > 0, energy, 1)
    residual = np.abs(around - twice_cosine * middle).max(axis=(0, 1))
    return np.asarray((residual < _TOLERANCE * 2) & (np.abs(twice_cosine) < 2 + _TOLERANCE))


def _constant(cells: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each column [n, m, width] is the same for all of the first axis."""
    return np.asarray(np.abs(cells - cells[:1]).max(axis=(0, 1)) < _TOLERANCE)


def square_grid(rows: int) -> Grid | None:
    """Return the square grid of as many patches as there are rows, after at most one other row; ``None`` if none fits.

    >>> from hfposemb.models.positions.stored_waves import square_grid
    >>> square_grid(65)
    Grid(rows=8, columns=8, first=1)
    """
    for first in (0, 1):
        side = math.isqrt(max(rows - first, 0))
        if side > 2 and side * side == rows - first:
            return Grid(side, side, first)
    return None
