"""Quality of a projection: which neighbourhoods it preserves, tears apart or invents, for each point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Facts, Tabular
from ..row_values import Progress, usable
from ..rows import finite_blocks, mean_row, norms

Places = NDArray[np.int64]
Shares = NDArray[np.float64]

NEIGHBOURS = 10

WHOLE = 2_500
"""Number of rows up to which every point is measured; beyond that, ``SAMPLE`` of them."""

SAMPLE = 500

DOUBLE_ROWS = 5_000
"""Number of rows up to which products are in float64; beyond that float32, which changes no displayed digit."""

WRONG = 0.3
"""Share of neighbours kept below which a point counts as misplaced: fewer than 3 of 10."""

GROUPS = 6
"""Number of groups of a block's columns per neighbour searched for."""

HELD = 512
"""Number of neighbour rows held at once."""

CELLS = 2**18
"""Number of distances held at once: about the size of a processor's cache."""

TREE_DIMS = 3
"""Dimensions up to which a k-d tree finds neighbours in the projection, and differences are faster than products."""


@dataclass(frozen=True)
class Quality(Facts):
    """How well neighbourhoods survive a projection: means over points, with their expected values for a random layout.

    See ``PointTrust`` for the definitions.

    Attributes:
        trustworthiness: Mean trustworthiness, 0 to 1.
        continuity: Mean continuity, 0 to 1.
        neighbours_kept: Mean share of the ``k`` neighbours kept.
        k: Number of neighbours compared.
        points: Number of points measured.
        rows: Number of points in the projection.
        metric: Metric of the table's rows.
    """

    trustworthiness: float
    continuity: float
    neighbours_kept: float
    k: int
    points: int
    rows: int
    metric: str

    @property
    def kept_by_chance(self) -> float:
        """The share of neighbours that a random layout keeps: k / (n − 1)."""
        return self.k / (self.rows - 1) if self.rows > 2 else 1.0

    @property
    def trust_by_chance(self) -> float:
        """The expected trustworthiness, and continuity, of a random layout: .5 for many rows.

        Each neighbour in the projection has any rank r = 1 … n − 1 in the table with equal probability, so the mean of
        its penalty max(r − k, 0) is (n − 1 − k)(n − k) / 2(n − 1).
        """
        n, k = self.rows, self.k
        return 1 - (n - 1 - k) * (n - k) / ((n - 1) * (2 * n - 3 * k - 1)) if n > 2 else 1.0


NOT_MEASURED = Quality(np.nan, np.nan, np.nan, NEIGHBOURS, 0, 0, "")
"""Quality of a projection that has not been measured yet."""


@dataclass(frozen=True, eq=False)
class PointTrust(Tabular):
    """Faithfulness of single points of a projection; the means over points are those of the projection.

    Let U_i be the k nearest points of point i in the projection (by Euclidean distance), V_i those of its row in the
    table (by ``metric``), and r(i, j) the rank of j among the nearest of i in the table, from 1. The measures, all from
    0 to 1, are those of Venna & Kaski 2001 and 2006:

    - ``neighbours_kept`` is |U_i ∩ V_i| / k;
    - ``trustworthiness`` is 1 − 2 Σ_{j ∈ U_i} max(r(i, j) − k, 0) / k(2n − 3k − 1): lowered by points that are near in
      the projection and far apart in the table;
    - ``continuity`` is the same with projection and table exchanged: lowered by neighbours that were torn apart.

    Attributes:
        points: Measured points, as indices into the projection [m].
        neighbours_kept: Share of neighbours kept [m].
        trustworthiness: Trustworthiness [m].
        continuity: Continuity [m].
        k: Number of neighbours compared.
        rows: Number of points in the projection.
        metric: Metric of the table's rows.
    """

    points: Places
    neighbours_kept: Shares
    trustworthiness: Shares
    continuity: Shares
    k: int
    rows: int
    metric: str

    @property
    def quality(self) -> Quality:
        """The means over points."""
        return Quality(
            trustworthiness=float(self.trustworthiness.mean()),
            continuity=float(self.continuity.mean()),
            neighbours_kept=float(self.neighbours_kept.mean()),
            k=self.k,
            points=len(self.points),
            rows=self.rows,
            metric=self.metric,
        )

    @property
    def counts(self) -> Places:
        """How many of each point's k nearest are preserved [m]."""
        return np.asarray(np.rint(self.neighbours_kept * self.k), np.int64)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which points [m] are misplaced: they keep less than ``WRONG`` of their neighbours."""
        return np.asarray(self.neighbours_kept < WRONG - 1e-9)

    def take(self, places: Places) -> PointTrust:
        """Return the trust of the points at ``places`` [m], in that order, as measured among all points.

        ``points`` of the result index the reduced projection.
        """
        _, cut, kept = np.intersect1d(places, self.points, return_indices=True)
        order = np.argsort(cut)
        kept = kept[order]
        return replace(
            self,
            points=cut[order],
            neighbours_kept=self.neighbours_kept[kept],
            trustworthiness=self.trustworthiness[kept],
            continuity=self.continuity[kept],
        )

    def columns(self) -> Columns:
        """Return one row per measured point.

        ``point``, its index in the projection, ``neighbours_kept``, ``trustworthiness`` and ``continuity``.
        """
        names = ("neighbours_kept", "trustworthiness", "continuity")
        return {"point": self.points, **{name: getattr(self, name) for name in names}}


def measure(
    value: EmbeddingTable | PositionEncoding,
    coordinates: NDArray[np.floating],
    *,
    rows: Places | None = None,
    metric: Literal["cosine", "euclidean"] = "euclidean",
    seed: int = 0,
) -> Quality:
    """Measure any layout of a table's rows: the means of ``point_trust``.

    Args:
        value: Table or position encoding [rows, d].
        coordinates: Points of the layout [n, dims].
        rows: Table rows of the points [n]; all rows by default.
        metric: Metric of the table's rows.
        seed: Random seed of the sample of points.

    Raises:
        InputError: As ``point_trust`` does.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.projection.quality import measure
        >>> sines = hpe.sinusoidal(64, 16).position
        >>> round(measure(sines, hpe.project(sines, dims=3).coordinates).trustworthiness, 3)
        0.865
    """
    return point_trust(value, coordinates, rows=rows, metric=metric, seed=seed).quality


def point_trust(
    value: EmbeddingTable | PositionEncoding,
    coordinates: NDArray[np.floating],
    *,
    rows: Places | None = None,
    metric: Literal["cosine", "euclidean"] = "euclidean",
    points: int | Sequence[int] | Places | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> PointTrust:
    """Measure single points of any layout of a table's rows, reading the table once.

    Neighbours are exact and taken among all points; k is 10, or less if there are fewer than 21 points.

    Args:
        value: Table or position encoding [rows, d].
        coordinates: Points of the layout [n, dims].
        rows: Table rows of the points [n]; all rows by default.
        metric: Metric of the table's rows.
        points: Points to measure, as indices into the layout, or how many to draw; by default all of up to 2,500, else
            500.
        seed: Random seed of the drawn points.
        progress: Callback for the share of the table read, 0 to 1, and the stage.

    Raises:
        InputError: If the layout does not have one finite point for each row, or a row does not exist or has no value
            under ``metric``.
    """
    table = table_in(value)
    rows = np.arange(table.shape[0]) if rows is None else np.asarray(several(rows), np.int64)
    picture, count = np.asarray(coordinates), len(rows)
    if picture.ndim != 2 or len(picture) != count or not np.isfinite(picture).all():
        raise InputError(
            f"coordinates must hold {count:,} finite points, one for each row; their shape is {list(picture.shape)}"
        )
    if wrong := [int(row) for row in rows if not 0 <= row < table.shape[0]]:
        raise InputError(f"{table.name} has no row {wrong[0]}; its rows are 0 to {table.shape[0] - 1:,}")
    if not usable(table, metric)[rows].all():
        raise InputError(f"some rows are zero or not finite and have no {metric}; leave them out with rows=")
    chosen = _chosen(points, count, seed)
    if count < 3:
        whole = np.ones(len(chosen))
        return PointTrust(chosen, whole, whole, whole, max(0, count - 1), count, metric)
    k = min(NEIGHBOURS, (count - 1) // 2)
    near = _near(picture, chosen, k)
    found = _in_table(table, rows, chosen, near, metric, progress)
    torn = _in_picture(picture, chosen, found.nearest)
    scale = 2 / (k * (2 * count - 3 * k - 1))
    trusted, whole = (1 - scale * np.maximum(ranks - k, 0).sum(axis=1) for ranks in (found.ranks, torn))
    return PointTrust(chosen, (found.ranks <= k).mean(axis=1), trusted, whole, k, count, metric)


def _chosen(points: int | Sequence[int] | Places | None, count: int, seed: int) -> Places:
    """Return the points to measure. Raises ``InputError`` for points that the layout does not have."""
    if points is None:
        points = count if count <= WHOLE else SAMPLE
    if isinstance(points, (int, np.integer)):
        if points >= count:
            return np.arange(count)
        if points < 1:
            raise InputError(f"points must be at least 1; got {points}")
        return np.sort(np.random.default_rng(seed).choice(count, int(points), replace=False))
    found = np.asarray(several(points), np.int64)
    if found.ndim != 1 or not len(found) or found.min() < 0 or found.max() >= count:
        raise InputError(f"points must be indices from 0 to {count - 1:,}, at least one; got {points!r:.80}")
    return found


def _near(picture: NDArray[np.floating], points: Places, k: int) -> Places:
    """Return the k nearest points of each given point in the projection [points, k]."""
    if picture.shape[1] > TREE_DIMS or len(picture) * len(points) <= CELLS:
        best = np.full((len(points), k), np.inf), np.zeros((len(points), k), np.int64)
        for away, places in _distances(picture, points):
            best = _merged(best, (away, places))
        return best[1]
    from scipy.spatial import cKDTree

    near = cKDTree(picture).query(picture[points], k + 1)[1]
    # The point itself comes first, unless others coincide with it.
    itself = near == points[:, None]
    itself[~itself.any(axis=1), -1] = True
    return np.asarray(near[~itself].reshape(len(points), k), np.int64)


def _distances(picture: NDArray[np.floating], points: Places) -> Iterator[tuple[NDArray[np.float64], Places]]:
    """Yield (squared distances [points, m], indices [m]) block by block; the distance of a point to itself is Inf."""
    here, step = np.asarray(picture[points], np.float64), max(1, CELLS // len(points))
    for start in range(0, len(picture), step):
        block = np.asarray(picture[start : start + step], np.float64)
        away = _squared_distances(here, block, many=len(picture) > step)
        mine = np.flatnonzero((points >= start) & (points < start + step))
        away[mine, points[mine] - start] = np.inf
        yield away, np.arange(start, start + len(block))


def _squared_distances(left: NDArray[np.floating], right: NDArray[np.floating], *, many: bool) -> NDArray[np.float64]:
    """Return the squared distances [m, n] of two sets of points; it takes ``many`` to make up for importing scipy."""
    if left.shape[1] > TREE_DIMS:
        return np.asarray(_squares(left)[:, None] + _squares(right) - 2 * (left @ right.T))
    if many:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(left, right, "sqeuclidean"))
    return np.asarray(sum(np.square(mine[:, None] - others) for mine, others in zip(left.T, right.T, strict=True)))


def _squares(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the squared length of each vector [m]."""
    return np.asarray(np.einsum("ij,ij->i", vectors, vectors))


@dataclass(frozen=True, eq=False)
class _InTable:
    """For each point [points, k]: table ranks of its nearest in the projection, and its nearest in the table."""

    ranks: Places
    nearest: Places


def _in_table(
    table: EmbeddingTable, rows: Places, points: Places, near: Places, metric: str, progress: Progress | None
) -> _InTable:
    """Return the table ranks of the points ``near`` [points, k], and each point's nearest in the table, in one pass.

    Rows at the same distance as a neighbour, up to rounding, do not count as nearer.
    """
    single = len(rows) > DOUBLE_ROWS
    dtype: np.dtype[np.floating] = np.dtype(np.float32 if single else np.float64)
    lengths = norms(table) if metric == "cosine" else None
    offset = mean_row(table).astype(dtype) if lengths is None else np.zeros(1, dtype)

    def ready(vectors: NDArray[np.floating], numbers: Places) -> NDArray[np.floating]:
        wide = vectors.astype(dtype, copy=False)
        return wide - offset if lengths is None else wide / lengths[numbers, None].astype(dtype)

    asked = ready(table.take(rows[points]), rows[points])
    keys = np.empty(near.shape, dtype)
    step = max(1, HELD // near.shape[1])
    for start in range(0, len(near), step):  # read each row once per group of points, whose neighbours overlap
        some = slice(start, start + step)
        known = np.unique(near[some])
        others, at = ready(table.take(rows[known]), rows[known]), np.searchsorted(known, near[some])
        for column in range(near.shape[1]):
            other = others[at[:, column]]
            keys[some, column] = _squares(other) / 2 - np.einsum("ij,ij->i", asked[some], other)
    largest = max(float(_squares(asked).max()) / 2, float(np.abs(keys).max()))
    keys -= 8 * np.sqrt(table.shape[1]) * np.finfo(dtype).eps * largest
    before = np.zeros(near.shape, np.int64)
    best, nearest = np.full(near.shape, np.inf, dtype), np.zeros(near.shape, np.int64)
    place = np.full(table.shape[0], -1)
    place[rows] = np.arange(len(rows))
    asker = np.full(len(rows), -1)
    asker[points] = np.arange(len(points))
    for numbers, vectors in finite_blocks(table, single=single, rows=max(1, CELLS // len(points))):
        here = place[numbers] >= 0
        if not here.all():
            numbers, vectors = numbers[here], vectors[here]
        if not len(numbers):
            continue
        block, places = ready(vectors, numbers), place[numbers]
        away = _squares(block) / 2 - asked @ block.T
        own = np.flatnonzero(asker[places] >= 0)
        away[asker[places[own]], own] = np.inf
        for column in range(near.shape[1]):
            before[:, column] += np.count_nonzero(away < keys[:, column, None], axis=1)
        best, nearest = _merged((best, nearest), (away, places))
        if progress is not None:
            progress(float(numbers[-1] + 1) / table.shape[0], "finding neighbours in the table")
    return _InTable(before + 1, nearest)


def _merged(
    best: tuple[NDArray[np.floating], Places], fresh: tuple[NDArray[np.floating], Places]
) -> tuple[NDArray[np.floating], Places]:
    """Merge the smallest keys and their indices [points, k] with those of a block, [points, m] and [m].

    The k-th smallest of the minima over groups of columns is an upper bound on a point's k-th key, so few keys are left
    to sort.
    """
    keys, places = best
    away, numbers = fresh
    count, k = keys.shape
    bound, size = keys[:, -1], away.shape[1] // (GROUPS * k)
    if size > 1:
        minima = away[:, : size * GROUPS * k].reshape(count, GROUPS * k, size).min(axis=2)
        bound = np.minimum(bound, np.partition(minima, k - 1, axis=1)[:, k - 1])
    rows, columns = np.nonzero(away <= bound[:, None])
    found = np.bincount(rows, minlength=count)
    turn = np.arange(len(rows)) - np.repeat(np.cumsum(found) - found, found)
    left, at = np.full((count, found.max()), np.inf, away.dtype), np.zeros((count, found.max()), np.int64)
    left[rows, turn], at[rows, turn] = away[rows, columns], numbers[columns]
    keys, places = np.hstack([keys, left]), np.hstack([places, at])
    picks = np.argsort(keys, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(keys, picks, axis=1), np.take_along_axis(places, picks, axis=1)


def _in_picture(picture: NDArray[np.floating], points: Places, near: Places) -> Places:
    """Return the ranks in the projection of points ``near`` [points, k], from 1; ties do not lower them."""
    here, keys, before = picture[points].astype(np.float64), np.empty(near.shape), np.zeros(near.shape, np.int64)
    for column in range(near.shape[1]):
        keys[:, column] = _squares(here - picture[near[:, column]])
    # Distances computed by products carry the rounding error of the squares.
    largest = float(_squares(np.array([picture.min(axis=0), picture.max(axis=0)], np.float64)).sum())
    keys -= 1e-9 * keys + 8 * picture.shape[1] * np.finfo(np.float64).eps * largest
    for away, _ in _distances(picture, points):
        for column in range(near.shape[1]):
            before[:, column] += np.count_nonzero(away < keys[:, column, None], axis=1)
    return before + 1
