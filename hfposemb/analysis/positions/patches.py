"""Image position tables: similarity maps of patches, and the variance explained by grid rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.encoding_base import unit_rows
from ...tables.encodings import Absolute, Grid, PositionEncoding, table_in
from ...tables.null_comparison import Null, beside
from ...tables.tabular import Facts

MOST_TILES = 14
"""Maximum number of patches per row or column in ``patch_maps``: more tiles would be too small to read."""


@dataclass(frozen=True, eq=False)
class PatchMaps(Facts):
    """Cosines of selected patches with all patches.

    Attributes:
        grid: Grid of patches.
        rows: Grid rows of the selected patches.
        columns: Grid columns of the selected patches.
        maps: Cosines [rows, columns, grid rows, grid columns]; NaN where a vector has no direction.
    """

    grid: Grid
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    maps: NDArray[np.float32]


def _patches(encoding: PositionEncoding) -> Grid:
    """Return the grid of an encoding whose rows are patches of an image."""
    if not isinstance(encoding, PositionEncoding):
        raise InputError(f"expected a position encoding such as model.position; got {type(encoding).__name__}")
    grid = encoding.grid if isinstance(encoding, Absolute) else None
    if grid is None:
        raise InputError(f"these {encoding.kind} positions have no grid of image patches")
    rows = encoding.table.shape[0] if encoding.has_table else 0
    if grid.rows < 1 or grid.columns < 1 or rows < grid.first + grid.rows * grid.columns:
        raise InputError(
            f"a grid of {grid.rows} × {grid.columns} patches after {grid.first} other rows does not fit a table of "
            f"{rows:,} rows"
        )
    return grid


def _patch_rows(encoding: PositionEncoding, grid: Grid) -> NDArray[np.float64]:
    rows = table_in(encoding).rows(grid.first, grid.first + grid.rows * grid.columns)
    return np.asarray(rows, np.float64)


def patch_maps(encoding: PositionEncoding, *, most: int = MOST_TILES) -> PatchMaps:
    """Return the cosines of patch positions with those of all patches (Dosovitskiy et al. 2021, ViT, figure 7).

    Args:
        encoding: Position encoding with a grid of patches.
        most: Maximum number of patches selected in each direction; larger grids are sampled evenly.

    Raises:
        InputError: If the positions have no grid.
    """
    grid = _patches(encoding)
    unit = unit_rows(_patch_rows(encoding, grid))
    rows, columns = (_spaced(count, most) for count in (grid.rows, grid.columns))
    chosen = (rows[:, None] * grid.columns + columns).ravel()
    cosines = np.clip(unit[chosen] @ unit.T, -1, 1).astype(np.float32)
    return PatchMaps(grid, rows, columns, cosines.reshape(len(rows), len(columns), grid.rows, grid.columns))


def patch_map(encoding: PositionEncoding, patch: int) -> NDArray[np.float32]:
    """Return the cosines of one patch's position with those of all patches [grid rows, grid columns].

    Args:
        encoding: Position encoding with a grid of patches.
        patch: Patch number, counted row by row.

    Raises:
        InputError: If the positions have no grid, or the patch is outside of it.
    """
    grid = _patches(encoding)
    if not 0 <= patch < grid.rows * grid.columns:
        raise InputError(f"patch must be from 0 to {grid.rows * grid.columns - 1:,}; got {patch:,}")
    unit = unit_rows(_patch_rows(encoding, grid))
    cosines = np.clip(unit @ unit[patch], -1, 1).astype(np.float32)
    return np.asarray(cosines.reshape(grid.rows, grid.columns))


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` of ``count`` indices, evenly spaced and centred."""
    step = -(-count // max(1, most))
    places = np.arange(0, count, step)
    return places + (count - 1 - int(places[-1])) // 2


@dataclass(frozen=True)
class GridVariance(Facts):
    """Shares of the patches' variance explained by their grid row, their column, and both additively.

    ``nulls`` holds the null of each share for shuffled patches, under the same names: "row", "column", "both".
    """

    row: float
    column: float
    both: float
    nulls: Mapping[str, Null]
    draws: int
    seed: int


def grid_variance(encoding: PositionEncoding, *, draws: int = 100, seed: int = 0) -> GridVariance:
    """Return the shares of the variance of patch vectors explained by grid row, by column, and by both.

    Two-way analysis of variance without interaction (Fisher 1925), summed over dimensions: the sum of squares of the
    row means about the grand mean over that of all vectors. With one vector per cell both shares add up.

    Args:
        encoding: Position encoding with a grid of patches.
        draws: Number of permutations of the patches in the null.
        seed: Random seed of the null.

    Raises:
        InputError: If the positions have no grid, the grid has a single row or column, a vector holds NaN or Inf, or
            all vectors are equal.
    """
    grid = _patches(encoding)
    if min(grid.rows, grid.columns) < 2 or draws < 1:
        raise InputError(
            f"a grid of at least 2 × 2 and 1 draw are needed; got {grid.rows} × {grid.columns}, {draws} draws"
        )
    patches = _patch_rows(encoding, grid)
    if not np.isfinite(patches).all():
        bad = int((~np.isfinite(patches).all(axis=1)).sum())
        raise InputError(f"{bad:,} of {len(patches):,} patches hold NaN or Inf; all of them are needed")
    centred = patches - patches.mean(axis=0)
    total = float(np.einsum("ij,ij->", centred, centred))
    if total <= 1e-24 * float(np.einsum("ij,ij->", patches, patches)):
        raise InputError(f"all {len(patches):,} patches have the same vector, so there is no variance to explain")
    if len(centred) < centred.shape[1]:  # the same inner products in fewer columns
        centred = np.linalg.qr(centred.T).R.T

    def shares(order: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        cells = centred[order].reshape(grid.rows, grid.columns, -1)
        row, column = cells.mean(axis=1), cells.mean(axis=0)
        found = np.array([grid.columns * (row**2).sum(), grid.rows * (column**2).sum()]) / total
        return np.append(found, found.sum())

    random = np.random.default_rng(seed)
    drawn = np.stack([shares(random.permutation(len(centred))) for _ in range(draws)])
    found = dict(zip(("row", "column", "both"), np.minimum(shares(slice(None)), 1.0).tolist(), strict=True))
    nulls = {
        name: beside(share, drawn[:, place], seed=seed, kind="permutation")
        for place, (name, share) in enumerate(found.items())
    }
    return GridVariance(**found, nulls=nulls, draws=draws, seed=seed)
