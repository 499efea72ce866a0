"""Projections of two tables in one frame, over the rows that both have, so that they can be compared by eye."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..analysis.projection.compiled_umap import require_umap
from ..analysis.projection.methods import method_named
from ..analysis.projection.projecting import MOST_COMPONENTS, pca
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.tabular import Columns, Tabular
from ..text import percent
from .alignment import SAMPLE, stacks
from .matched_rows import shared_rows, tables_of

NEIGHBOURS = 15
SHUFFLES = 99

Points = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class AlignedMaps(Tabular):
    """Shared rows of two tables in one frame.

    Attributes:
        left: Name of the first source.
        right: Name of the second source.
        role: ``"position"`` or ``"token"``.
        method: ``"pca"`` or ``"umap"``.
        labels: Labels of the rows in the first table.
        rows: Row numbers in both tables [n, 2].
        coordinates_left: Points of the first table [n, dims].
        coordinates_right: Points of the second table [n, dims].
        disparity: Share of one map that the best rotation and scaling of the other leaves unexplained, 0 to 1.
        shuffled: 2.5 and 97.5 % quantiles of the disparity with the rows of one map in random order.
        notes: Remarks on the sample drawn.
        parts: Parts of the models that the positions belong to; "" for a model with a single part.
    """

    left: str
    right: str
    role: str
    method: str
    labels: tuple[str, ...]
    rows: NDArray[np.int64]
    coordinates_left: Points
    coordinates_right: Points
    disparity: float
    shuffled: tuple[float, float]
    notes: tuple[str, ...] = ()
    parts: tuple[str, str] = ("", "")

    def sentence(self, left: str, right: str) -> str:
        """Return how far the two maps differ, beside rows in random order where they were aligned after the fact.

        Args:
            left: Display name of the first source.
            right: Display name of the second source.
        """
        share = percent(self.disparity)
        if self.method != "pca":
            return f"In a layout that draws shared rows together, the maps of {left} and {right} differ by {share}"
        ends = list(dict.fromkeys(map(percent, self.shuffled)))
        chance = f"rows in random order by {' to '.join(ends)}"
        if self.disparity >= self.shuffled[0]:
            return f"The maps of {left} and {right} align no better than chance: they differ by {share}, {chance}"
        return f"After the best alignment, the maps of {left} and {right} differ by {share}, {chance}"

    def columns(self) -> Columns:
        """Return one row per shared row.

        ``label``, ``left_row``, ``right_row``, and the coordinates ``left_x``, ``left_y``, ``right_x`` and ``right_y``;
        in three dimensions also ``left_z`` and ``right_z``.
        """
        found: Columns = {"label": self.labels}
        sides = {"left": self.coordinates_left, "right": self.coordinates_right}
        found |= {f"{side}_row": self.rows[:, place] for place, side in enumerate(sides)}
        return found | {
            f"{side}_{axis}": points[:, place]
            for side, points in sides.items()
            for place, axis in enumerate("xyz"[: points.shape[1]])
        }


def align_maps(
    left: Embeddings,
    right: Embeddings,
    role: str,
    *,
    method: Literal["pca", "umap"] = "pca",
    dims: int = 2,
    seed: int = 0,
) -> AlignedMaps:
    """Project the shared rows of two sources into one frame.

    With PCA, each table is projected on its own, and the second map is rotated onto the first and scaled to its spread.
    With UMAP, both are laid out together (AlignedUMAP), for up to 5,000 shared rows; more are sampled.

    Args:
        left: First source.
        right: Second source.
        role: ``"position"`` or ``"token"``.
        method: ``"pca"`` or ``"umap"``.
        dims: Number of dimensions: 1 to 50 for PCA, 2 or 3 for UMAP.
        seed: Random seed of UMAP and of the sample.

    Raises:
        InputError: If there are fewer than 20 shared rows, or ``role``, ``method`` or ``dims`` is not supported.
        MissingExtraError: If the method is ``"umap"`` and umap-learn is not installed.
    """
    method = method_named(method)
    tables = tables_of(left, right, role)
    if method == "umap" and dims not in (2, 3):
        raise InputError(f"UMAP needs dims 2 or 3; got {dims}")
    most = min(MOST_COMPONENTS, *(table.shape[1] for table in tables))
    if not 1 <= dims <= most:
        raise InputError(f"PCA of {left.name} and {right.name} needs dims from 1 to {most}; got {dims}")
    if method == "umap":
        require_umap()
    rows = shared_rows(left, right, role)
    shared = len(rows)
    notes = []
    if method == "umap" and shared > SAMPLE:
        rows = rows[np.sort(np.random.default_rng(seed).choice(shared, SAMPLE, replace=False))]
        notes.append(f"{SAMPLE:,} of {shared:,} shared {role}s, sampled with seed {seed}")
    if method == "pca":
        one, other = (
            np.asarray(found.coordinates[np.searchsorted(found.rows, rows[:, side])], np.float32)
            for side, found in enumerate(pca(table, dims) for table in tables)
        )
    else:
        one, other = _umap([table.take(rows[:, side]) for side, table in enumerate(tables)], dims, seed)
    turned, disparity = rotate_onto(other, one, same_spread=True)
    names = tuple(tables[0].labels[int(row)] for row in rows[:, 0])
    maps = one, turned if method == "pca" else other
    apart = disparity, _shuffled(other, one, seed)
    parts = stacks(left, right, role)
    return AlignedMaps(left.name, right.name, role, method, names, rows, *maps, *apart, tuple(notes), parts)


def _shuffled(points: Points, onto: Points, seed: int) -> tuple[float, float]:
    """Return the 95 % interval of the disparity with the rows of one map in random order."""
    random = np.random.default_rng(seed)
    x, y = (np.asarray(one, np.float64) - one.mean(axis=0, dtype=np.float64) for one in (onto, points))
    whole = float(np.linalg.norm(x) * np.linalg.norm(y))
    fits = [np.linalg.norm(x.T @ y[random.permutation(len(y))], "nuc") / whole for _ in range(SHUFFLES)]
    low, high = np.quantile(1 - np.square(fits), (0.025, 0.975))
    return float(low), float(high)


def rotate_onto(points: Points, onto: Points, *, same_spread: bool = False) -> tuple[Points, float]:
    """Translate, scale and rotate points onto others, with reflection if that fits better (Schönemann 1966).

    Args:
        points: Points to align [n, dims].
        onto: Points to align to [n, dims].
        same_spread: Whether to scale to the spread of ``onto``. By default the least-squares scale is used, which
            shrinks the points to nothing if the two have little in common. The disparity is the same either way.

    Returns:
        The aligned points, and the disparity: the share of ``onto`` that is left unexplained, 0 to 1.

    Raises:
        InputError: If all points of one set coincide.
    """
    x, y = np.asarray(onto, np.float64), np.asarray(points, np.float64)
    centre = x.mean(axis=0)
    x, y = x - centre, y - y.mean(axis=0)
    sizes = float(np.linalg.norm(x)), float(np.linalg.norm(y))
    if not min(sizes) > 0:
        raise InputError("all points of one map coincide, so the maps cannot be aligned")
    u, s, vt = np.linalg.svd(y.T @ x)
    fit = min(float(s.sum()) / (sizes[0] * sizes[1]), 1.0)
    scale = sizes[0] / sizes[1] * (1.0 if same_spread else fit)
    return (y @ u @ vt * scale + centre).astype(np.float32), 1 - fit**2


def _umap(rows: list[NDArray[Any]], dims: int, seed: int) -> tuple[Points, Points]:
    import warnings

    from umap import AlignedUMAP

    count = len(rows[0])
    fit = AlignedUMAP(n_neighbors=min(NEIGHBOURS, count - 1), n_components=dims, metric="cosine", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit.fit([np.asarray(one, np.float32) for one in rows], relations=[{row: row for row in range(count)}])
    one, other = (np.asarray(found, np.float32) for found in fit.embeddings_)
    return one, other
