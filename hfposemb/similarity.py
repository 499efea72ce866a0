"""How alike rows are: matrices, exact nearest neighbours, and what a pair's value is worth among random pairs.

The value of a pair is its cosine, its inner product ("dot") or its Euclidean distance, of which small is near. Rows
that hold NaN or Inf have no value, and rows that are zero have no cosine: both are left out, and results say how many.
Sums run in float32 only to find candidates, with their rounding allowed for; what is given out is computed in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .geometry import directed, norms
from .position import PositionEncoding, table_in
from .table import TOKEN_CLASSES, EmbeddingTable, Vectors, all_rows, walk

Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and what is being done."""

LARGEST_MATRIX = 20_000
"""Rows beyond which a whole matrix is refused; in float32 it takes 1.6 GB there."""

MOST_PAIRED = 1_000
"""Rows up to which every pair is looked up among random pairs."""

DOUBLE_MATRIX = 5_000
"""Rows up to which a matrix is given in float64."""

GROUPED = 64
"""Scores of which only the largest is looked at while it is sought what the k nearest reach."""

SCORE_BYTES = 16 * 2**20
"""How many bytes of scores are held at once: about what a processor's cache holds."""

MATRIX_BYTES = 2**27
"""How many bytes of rows a matrix of all pairs is made of at once; fewer rows are taken together."""

WHOLE_BYTES = 2**30
"""Size of a table up to which all of it is widened at once, where rows are wanted from everywhere: that is quickest."""

READ_BYTES = 2**25
"""How many bytes of rows are read together, from larger tables."""

PAIR_BYTES = 2**20
"""How many bytes of vectors are widened to float64 at once, on each side of a pair."""


def usable(table: EmbeddingTable, metric: Metric) -> NDArray[np.bool_]:
    """Return which rows [n] have a value: finite ones, and for cosines those that are not zero.

    Raises ``InputError`` for an unknown metric.
    """
    if metric not in ("cosine", "dot", "euclidean"):
        raise InputError(f'the metric is "cosine", "dot" or "euclidean"; got {metric!r}')
    return directed(table) if metric == "cosine" else table.finite


def read_rows(table: EmbeddingTable, rows: Rows) -> Vectors:
    """Return the given rows [m, width] in their order, reading no others."""
    return table.take(rows)


def _values(left: Vectors, right: Vectors, metric: Metric, lengths: Floats) -> Floats:
    """Return the value of each pair of rows in float64; ``lengths`` are the products of both sides' lengths.

    Equal rows give equal bits, so that ties are ties.
    """
    a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    if metric == "euclidean":
        difference = a - b
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
    product = np.einsum("ij,ij->i", a, b)
    return np.asarray(product if metric == "dot" else np.clip(product / lengths, -1, 1))


def _pair_values(vectors: Vectors, left: Rows, right: Rows, metric: Metric, lengths: Floats) -> Floats:
    """Return the value of each pair of rows of ``vectors``, a few at a time."""
    out, step = np.empty(len(left)), max(1, PAIR_BYTES // (8 * vectors.shape[1]))
    for start in range(0, len(left), step):
        a, b = left[start : start + step], right[start : start + step]
        out[start : start + step] = _values(vectors[a], vectors[b], metric, lengths[a] * lengths[b])
    return out


def _query_values(asked: _Query, vectors: Vectors, metric: Metric, lengths: Floats) -> Floats:
    """Return the value of each row with a query, a few at a time."""
    out, step = np.empty(len(vectors)), max(1, PAIR_BYTES // (8 * vectors.shape[1]))
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step]
        scale = lengths[start : start + step] * asked.length
        out[start : start + step] = _values(block, np.broadcast_to(asked.vector, block.shape), metric, scale)
    return out


def _matrix(
    read: Callable[[int, int], Vectors], keep: NDArray[np.bool_], width: int, metric: Metric
) -> NDArray[np.floating]:
    """Return the value of every pair of the rows that ``read`` gives [n, n]; ``keep`` [n] marks those that have one.

    Two blocks of rows are held at a time, beside the matrix.
    """
    count, dtype = len(keep), np.dtype(np.float64 if len(keep) <= DOUBLE_MATRIX else np.float32)
    step = max(1, MATRIX_BYTES // (dtype.itemsize * width))
    starts = range(0, count, step)
    mean = np.zeros(width)
    if metric == "euclidean" and keep.any():
        for start in starts:
            mean += read(start, min(start + step, count))[keep[start : start + step]].sum(axis=0, dtype=np.float64)
        mean /= keep.sum()

    def block(start: int) -> NDArray[np.floating]:
        found = read(start, min(start + step, count)).astype(dtype)
        found[~keep[start : start + step]] = 0
        if metric == "euclidean":
            found -= mean.astype(dtype)
        elif metric == "cosine":
            lengths = np.linalg.norm(found, axis=1, keepdims=True)
            np.divide(found, lengths, out=found, where=lengths > 0)
        return np.asarray(found)

    out = np.empty((count, count), dtype)
    for start in starts:
        left = block(start)
        rows = slice(start, start + step)
        out[rows, rows] = left @ left.T
        for other in range(start + step, count, step):
            columns = slice(other, other + step)
            out[rows, columns] = left @ block(other).T
            out[columns, rows] = out[rows, columns].T
    if metric == "euclidean":
        squares = np.diagonal(out).copy()
        out *= -2
        # Both squares are added up first, so that the matrix stays symmetric to the last bit.
        for start in range(0, count, 256):
            out[start : start + 256] += squares[start : start + 256, None] + squares
        np.sqrt(np.maximum(out, 0, out=out), out=out)
        np.fill_diagonal(out, 0)
    elif metric == "cosine":
        np.clip(out, -1, 1, out=out)
        np.fill_diagonal(out, 1)
    out[~keep], out[:, ~keep] = np.nan, np.nan
    return out


def similarity(
    value: EmbeddingTable | PositionEncoding,
    *,
    metric: Metric = "cosine",
    rows: Sequence[int | str] | None = None,
) -> NDArray[np.floating]:
    """Return the value of every pair of rows [n, n], of the whole table or of ``rows``, named by number or label.

    In float64 up to 5,000 rows, in float32 beyond; NaN for rows without a value. Raises ``InputError`` beyond 20,000.
    """
    table = table_in(value)
    keep = usable(table, metric)
    chosen = None if rows is None else np.array([table.row(key) for key in rows], np.int64)
    count = table.shape[0] if chosen is None else len(chosen)
    if count > LARGEST_MATRIX:
        raise InputError(
            f"a matrix of {count:,} rows would not fit; choose up to {LARGEST_MATRIX:,} with rows=, "
            "or ask for neighbours()"
        )
    if chosen is None:
        return _matrix(table.rows, keep, table.shape[1], metric)
    places = chosen
    return _matrix(lambda start, stop: read_rows(table, places[start:stop]), keep[places], table.shape[1], metric)


@dataclass(frozen=True, eq=False)
class _Query:
    name: str
    vector: Floats
    row: int | None

    @property
    def length(self) -> float:
        return float(np.sqrt(np.einsum("i,i->", self.vector, self.vector)))


def _query(table: EmbeddingTable, query: int | str | Vectors | Sequence[float], metric: Metric) -> _Query:
    keep = usable(table, metric)
    if isinstance(query, (int, str, np.integer)):
        row = table.row(query if isinstance(query, str) else int(query))
        if not keep[row]:
            raise InputError(
                f"row {row} of {table.name} is {'zero' if table.finite[row] else 'not finite'}: no {metric}"
            )
        return _Query(table.labels[row], np.asarray(table.rows(row, row + 1)[0], np.float64), row)
    vector = np.asarray(query, np.float64)
    if vector.shape != (table.shape[1],):
        raise InputError(
            f"a query is a row of {table.name}, a label or a vector [{table.shape[1]}]; got {vector.shape}"
        )
    if not np.isfinite(vector).all() or (metric == "cosine" and not vector.any()):
        raise InputError(f"the query vector is {'zero' if np.isfinite(vector).all() else 'not finite'}: no {metric}")
    return _Query("vector", vector, None)


_reaches: WeakKeyDictionary[EmbeddingTable, tuple[float, float]] = WeakKeyDictionary()


def _reach(table: EmbeddingTable) -> tuple[float, float]:
    """Return the length of the shortest row that is not zero and of the longest. Kept as long as the table is."""
    if table not in _reaches:
        present = norms(table)[directed(table)]
        _reaches[table] = float(present.min(initial=1.0)), float(present.max(initial=0.0))
    return _reaches[table]


@dataclass(frozen=True, eq=False)
class _Scores:
    """Rank rows against queries by matrix products: more is nearer, and off by ``margin`` at most.

    A score is the cosine, the inner product, or q·x − ‖x‖²/2, which ranks as the distance does.
    """

    metric: Metric
    lengths: Floats
    dtype: np.dtype[np.floating]
    margin: float

    @classmethod
    def of(cls, metric: Metric, table: EmbeddingTable, query: float | None = None) -> _Scores:
        """Plan for the rows of a table and queries ``query`` long, by default its longest row."""
        lengths, dtype, width = norms(table), table.dtype, table.shape[1]
        shortest, longest = _reach(table)
        query = longest if query is None else query
        # In float32 only where no product of two rows can leave its range.
        if max(longest, query) > 1e17 or min(shortest, query or 1.0) < 1e-15:
            dtype = np.dtype(np.float64)
        # Twice the bound of Higham (2002, eq. 3.5) on a rounded inner product, for the query's own rounding.
        error = 2 * (width + 4) * float(np.finfo(dtype).eps) / 2
        scale = {"cosine": 1.0, "dot": longest * query, "euclidean": longest * query + longest**2}[metric]
        return cls(metric, lengths, dtype, error * scale)

    def query(self, vector: Vectors) -> Vectors:
        """Return a query vector [width] ready for ``score``."""
        wide = np.asarray(vector, np.float64)
        return (wide / np.linalg.norm(wide) if self.metric == "cosine" else wide).astype(self.dtype)

    def score(self, query: Vectors, vectors: Vectors, start: int) -> Vectors:
        """Return the scores [m] of the rows from ``start``; −Inf for those without a value."""
        lengths = self.lengths[start : start + len(vectors)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores: Vectors = vectors.astype(self.dtype, copy=False) @ query
            if self.metric == "cosine":
                scores /= lengths.astype(self.dtype)
            elif self.metric == "euclidean":
                scores -= (lengths**2 / 2).astype(self.dtype)
        absent = ~(lengths > 0) if self.metric == "cosine" else np.isnan(lengths)
        if absent.any():
            scores[absent] = -np.inf
        return scores

    def between(self, vectors: Vectors, left: tuple[int, int], right: tuple[int, int]) -> Vectors:
        """Return the scores of rows with rows [m, n], both [start, stop) of ``vectors``, which all have a value.

        From both sides alike: for distances, of the query too half the square is taken off.
        """
        parts = [slice(*left), slice(*right)]
        ready = [vectors[part].astype(self.dtype, copy=False) for part in parts]
        if self.metric == "cosine":
            ready = [
                rows * (1 / self.lengths[part, None]).astype(self.dtype)
                for rows, part in zip(ready, parts, strict=True)
            ]
        scores: Vectors = ready[0] @ ready[1].T
        if self.metric == "euclidean":
            halves = (self.lengths**2 / 2).astype(self.dtype)
            scores -= halves[parts[0], None]
            scores -= halves[parts[1]]
        return scores

    def among(self, vectors: Vectors, start: int, stop: int) -> Vectors:
        """Return the scores of rows [start, stop) with each other; −Inf for each with itself."""
        scores = self.between(vectors, (start, stop), (start, stop))
        np.fill_diagonal(scores, -np.inf)
        return scores


def _reached(scores: Vectors, k: int) -> float:
    """Return what ``k`` of some scores reach at least, close to the most that they do; −Inf for fewer than ``k``.

    Of groups of scores the k-th largest maximum: k groups have one that reaches it.
    """
    if len(scores) < k:
        return -np.inf
    size = max(1, min(GROUPED, len(scores) // (4 * k)))
    tops = scores[: len(scores) // size * size].reshape(-1, size).max(axis=1)
    return float(np.partition(tops, len(tops) - k)[len(tops) - k])


def _order(values: Floats, rows: Rows, metric: Metric) -> Rows:
    """Order nearest first, the lower row first where values are the same."""
    return np.lexsort((rows, values if metric == "euclidean" else -values))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Hold the rows nearest to a query, nearest first: ``values`` [k] are cosines, inner products or distances."""

    query: str
    rows: Rows
    labels: tuple[str, ...]
    values: Floats
    metric: Metric
    left_out: int

    def __str__(self) -> str:
        width = max(map(len, self.labels), default=0)
        lines = [f"  {label:<{width}}  {value:.3f}" for label, value in zip(self.labels, self.values, strict=True)]
        return "\n".join([f"nearest to {self.query!r} by {self.metric}", *lines])


def neighbours(
    value: EmbeddingTable | PositionEncoding,
    query: int | str | Vectors | Sequence[float],
    *,
    k: int = 10,
    metric: Metric = "cosine",
    include_query: bool = False,
) -> Neighbours:
    """Return the ``k`` rows nearest to a row, a label or a vector [width], exactly, reading the table by chunks.

    Fewer where the table has fewer. Rows with the same value come in row order; the query's own row only if asked for.
    Raises ``InputError`` for ``k`` < 1, or a query that the table has not or that has no value.
    """
    table = table_in(value)
    if k < 1:
        raise InputError(f"k counts neighbours and is at least 1; got {k}")
    asked = _query(table, query, metric)
    keep = usable(table, metric)
    lengths = norms(table)
    plan = _Scores.of(metric, table, asked.length)
    vector = plan.query(asked.vector)
    skip = -1 if include_query or asked.row is None else asked.row
    rows, values, near = np.empty(0, np.int64), np.empty(0), np.empty(0, plan.dtype)
    for start, vectors in walk(table):
        scores = plan.score(vector, vectors, start)
        if start <= skip < start + len(vectors):
            scores[skip - start] = -np.inf
        floor = _reached(np.concatenate([near, scores]), k)
        picks = np.flatnonzero((scores >= floor - 2 * plan.margin) & (scores > -np.inf))
        fresh = _query_values(asked, vectors[picks], metric, lengths[start + picks])
        rows, values = np.append(rows, start + picks), np.append(values, fresh)
        near = np.append(near, scores[picks])
        best = _order(values, rows, metric)[:k]
        rows, values, near = rows[best], values[best], near[best]
    labels = tuple(table.labels[int(row)] for row in rows)
    return Neighbours(asked.name, rows, labels, values, metric, int((~keep).sum()))


@dataclass(frozen=True, eq=False)
class AllNeighbours:
    """Hold each row's nearest others: ``indices`` and ``values`` [m, k], nearest first, for the ``rows`` [m] in use."""

    rows: Rows
    indices: Rows
    values: Floats
    metric: Metric
    left_out: int


class _Block:
    """Collect who can be among the ``k`` nearest of the rows from ``start``, while scores of other rows come in.

    ``best`` [m, k] are the highest scores so far; pairs that stay below ``floor`` [m] are out for good.
    """

    def __init__(self, start: int, own: Vectors, k: int, margin: float) -> None:
        count = len(own)
        self.start, self.stop, self.margin = start, start + count, margin
        self.most = count * (64 + 4 * k)
        self.crowded = False
        self.pairs: list[tuple[Rows, Rows, Vectors]] = []
        self.best = np.full((count, k), -np.inf, own.dtype)
        if k < count:
            self.best[:] = np.partition(own, count - k, axis=1)[:, count - k :]
        left, right = _places(own >= self.floor[:, None])
        self._keep(left, right + start, own[left, right])

    @property
    def floor(self) -> Vectors:
        """What the score of a pair must reach [m]: the k-th highest so far, less what rounding can make of it."""
        return np.asarray(self.best.min(axis=1) - 2 * self.margin, self.best.dtype)

    def add(self, own: Rows, others: Rows, scores: Vectors) -> None:
        """Take in new pairs that reach the floor; ``own`` counts from the first row here, ``others`` from row 0."""
        if not len(own):
            return
        k, order = self.best.shape[1], np.lexsort((-scores, own))
        row, score = own[order], scores[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        changed, line = np.unique(row, return_inverse=True)
        fresh = np.full((len(changed), k), -np.inf, self.best.dtype)
        fresh[line[place < k], place[place < k]] = score[place < k]
        self.best[changed] = np.partition(np.hstack([self.best[changed], fresh]), k, axis=1)[:, k:]
        self._keep(own, others, scores)

    def _keep(self, own: Rows, others: Rows, scores: Vectors) -> None:
        self.pairs.append((own, others, scores))
        if sum(len(part[0]) for part in self.pairs) > self.most:
            self.pairs = [self._reaching()]
            # Where so many rows are alike that the pairs take too much memory, they are looked for once more, later.
            self.crowded = 2 * len(self.pairs[0][0]) > self.most
            if self.crowded:
                self.pairs = []

    def _reaching(self) -> tuple[Rows, Rows, Vectors]:
        own, others, scores = (np.concatenate(parts) for parts in zip(*self.pairs, strict=True))
        reach = scores >= self.floor[own]
        return own[reach], others[reach], scores[reach]

    @property
    def candidates(self) -> tuple[Rows, Rows]:
        """The pairs that reach the floor as it is now: rows from the first one here, and the others from row 0."""
        return self._reaching()[:2]


def _places(hits: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Return row and column of what is true, as ``np.nonzero`` does, several times as fast."""
    left, right = np.divmod(np.flatnonzero(hits), hits.shape[1])
    return left, right


def all_neighbours(
    value: EmbeddingTable | PositionEncoding,
    *,
    k: int,
    metric: Metric = "cosine",
    progress: Progress | None = None,
) -> AllNeighbours:
    """Return the ``k`` rows nearest to every row, exactly, the row itself left out; fewer where there are fewer.

    Scores come from products of blocks of rows, in float32, and each product serves the rows of both its blocks. Pairs
    that reach the k-th highest score of a row, rounding allowed for, are computed again in float64.
    """
    table = table_in(value)
    keep = usable(table, metric)
    rows = np.flatnonzero(keep)
    k = min(k, len(rows) - 1)
    if k < 1:
        raise InputError(
            f"{table.name} has {len(rows)} rows with a {metric}; neighbours need 2 rows and k of at least 1"
        )
    vectors = all_rows(table) if keep.all() else all_rows(table)[rows]
    lengths, count = norms(table)[rows], len(rows)
    plan = replace(_Scores.of(metric, table), lengths=lengths)
    indices, values = np.empty((count, k), np.int64), np.empty((count, k))

    def settle(start: int, stop: int, own: Rows, others: Rows) -> None:
        exact = _pair_values(vectors, own + start, others, metric, lengths)
        order = np.lexsort((others, exact if metric == "euclidean" else -exact, own))
        best = order[np.searchsorted(own, np.arange(stop - start), sorter=order)[:, None] + np.arange(k)]
        indices[start:stop], values[start:stop] = rows[others[best]], exact[best]

    blocks = [_Block(start, plan.among(vectors, start, stop), k, plan.margin) for start, stop in _spans(count, plan)]
    for at, block in enumerate(blocks):
        for other in blocks[at + 1 :]:
            if block.crowded and other.crowded:
                continue
            scores = plan.between(vectors, (block.start, block.stop), (other.start, other.stop))
            if not block.crowded:
                left, right = _places(scores >= block.floor[:, None])
                block.add(left, right + other.start, scores[left, right])
            if not other.crowded:
                left, right = _places(scores >= other.floor)
                other.add(right, left + block.start, scores[left, right])
        if not block.crowded:
            settle(block.start, block.stop, *block.candidates)
        block.pairs.clear()
        if progress is not None:
            progress(1 - (1 - block.stop / count) ** 2, "neighbours")
    for block in blocks:
        few = max(1, SCORE_BYTES // (plan.dtype.itemsize * count))
        for start in range(block.start, block.stop, few) if block.crowded else ():
            stop = min(start + few, block.stop)
            floor = block.floor[start - block.start : stop - block.start, None]
            found = []
            for other in blocks:
                left, right = _places(plan.between(vectors, (start, stop), (other.start, other.stop)) >= floor)
                found.append((left, right + other.start))
            own, others = (np.concatenate(parts) for parts in zip(*found, strict=True))
            apart = own + start != others
            settle(start, stop, own[apart], others[apart])
    return AllNeighbours(rows, indices, values, metric, int((~keep).sum()))


def _spans(count: int, plan: _Scores) -> Iterator[tuple[int, int]]:
    """Cut rows into blocks of about one size, of which two make as many scores as are held at once."""
    side = math.isqrt(SCORE_BYTES // plan.dtype.itemsize)
    return itertools.pairwise(np.linspace(0, count, -(-count // side) + 1).astype(int).tolist())


def nearest_unit_rows(asked: Vectors, unit: Vectors, own: Rows, k: int) -> Rows:
    """Return the ``k`` unit rows of largest cosine to each asked vector [m, k], in no order, its ``own`` row left out.

    In the precision of what is given, so rows that are alike to rounding may stand for each other; ``neighbours`` and
    ``all_neighbours`` are exact. The length of what is asked changes no order.
    """
    found = np.empty((len(asked), k), np.int64)
    for start in range(0, len(asked), 256):
        cosines = asked[start : start + 256] @ unit.T
        cosines[np.arange(len(cosines)), own[start : start + 256]] = -np.inf
        found[start : start + 256] = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    return found


def random_pairs(
    value: EmbeddingTable | PositionEncoding,
    *,
    metric: Metric = "cosine",
    among: NDArray[np.bool_] | None = None,
    seed: int = 0,
    sample: int = 100_000,
) -> Floats:
    """Return the values of ``sample`` random pairs of different rows, sorted: how alike rows are by chance.

    Of all rows, or of those ``among`` [n] marks.
    """
    table = table_in(value)
    keep = usable(table, metric)
    rows = np.flatnonzero(keep if among is None else keep & among)
    if len(rows) < 2 or sample < 1:
        raise InputError(f"{table.name} has {len(rows)} rows with a {metric}; random pairs need 2, and a sample of 1")
    random = np.random.default_rng(seed)
    first = random.integers(len(rows), size=sample)
    second = (first + random.integers(1, len(rows), size=sample)) % len(rows)
    return np.sort(_values_of(table, rows[first], rows[second], metric))


def _values_of(table: EmbeddingTable, left: Rows, right: Rows, metric: Metric) -> Floats:
    """Return the value of each pair of rows of a table, in any order; of a large one some rows are read at a time."""
    lengths, row_bytes = norms(table), table.shape[1] * table.dtype.itemsize
    stored = {"F32": np.float32, "F64": np.float64}.get(table.provenance.stored_dtype)
    if table.dtype == stored or table.shape[0] * row_bytes <= WHOLE_BYTES:  # nothing is widened, or little
        return _pair_values(all_rows(table), left, right, metric, lengths)
    order = np.argsort(left, kind="stable")  # one side is then read from the first row to the last
    out, step = np.empty(len(left)), max(1, READ_BYTES // row_bytes)
    for start in range(0, len(left), step):
        here = order[start : start + step]
        a, b = left[here], right[here]
        out[here] = _values(read_rows(table, a), read_rows(table, b), metric, lengths[a] * lengths[b])
    return out


def similarity_percentile(
    value: EmbeddingTable | PositionEncoding,
    values: float | Floats,
    *,
    metric: Metric = "cosine",
    among: NDArray[np.bool_] | None = None,
    seed: int = 0,
    sample: int = 100_000,
) -> Floats:
    """Return the percentile of each value among random pairs: 99.99 means nearer than 99.99 % of them.

    Pairs with the very same value count half. NaN stays NaN.
    """
    wanted = np.asarray(values, np.float64)
    chance = random_pairs(value, metric=metric, among=among, seed=seed, sample=sample)
    below = (np.searchsorted(chance, wanted, "left") + np.searchsorted(chance, wanted, "right")) / 2 / len(chance)
    return np.where(np.isnan(wanted), np.nan, 100 * (1 - below if metric == "euclidean" else below))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Hold chosen rows' values [m, m] and each pair's percentile [m, m] among ``sample`` random pairs of the table.

    ``percentiles`` is NaN on the diagonal and wherever there is no value. The random pairs are of rows of the
    ``classes`` that the chosen rows have: among words, not among unused tokens, which are all alike.
    """

    rows: Rows
    labels: tuple[str, ...]
    values: Floats
    percentiles: Floats
    classes: tuple[str, ...]
    metric: Metric
    seed: int
    sample: int


def pairs(
    value: EmbeddingTable | PositionEncoding,
    rows: Sequence[int | str],
    *,
    metric: Metric = "cosine",
    seed: int = 0,
    sample: int = 100_000,
) -> Pairs:
    """Return how alike chosen rows are, named by number or label, and how rare that is among random pairs.

    Raises ``InputError`` for no rows, more than 1,000, or rows that the table has not.
    """
    table = table_in(value)
    found = np.array([table.row(key) for key in rows], np.int64)
    if not 1 <= len(found) <= MOST_PAIRED:
        raise InputError(f"pairs() takes 1 to {MOST_PAIRED:,} rows; got {len(found):,}")
    classes = np.unique(table.labels.classes[found])
    among = np.isin(table.labels.classes, classes)
    keep, count = usable(table, metric)[found], len(found)
    left, right = np.divmod(np.arange(count**2), count)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = _pair_values(read_rows(table, found), left, right, metric, norms(table)[found]).reshape(count, count)
    values[~keep], values[:, ~keep] = np.nan, np.nan
    percentiles = similarity_percentile(table, values, metric=metric, among=among, seed=seed, sample=sample)
    np.fill_diagonal(percentiles, np.nan)
    return Pairs(
        rows=found,
        labels=tuple(table.labels[int(row)] for row in found),
        values=values,
        percentiles=percentiles,
        classes=tuple(TOKEN_CLASSES[index] for index in classes),
        metric=metric,
        seed=seed,
        sample=sample,
    )


@dataclass(frozen=True, eq=False)
class Distribution:
    """Hold how many rows have which value with a query: ``counts`` [bins] between ``edges`` [bins + 1]."""

    query: str
    counts: Rows
    edges: Floats
    mean: float
    deviation: float
    metric: Metric
    left_out: int


def query_distribution(
    value: EmbeddingTable | PositionEncoding,
    query: int | str | Vectors | Sequence[float],
    *,
    bins: int = 100,
    metric: Metric = "cosine",
) -> Distribution:
    """Return how the values of all rows with a query are spread, the query's own row left out.

    Cosines are binned from −1 to 1, so that queries can be laid over one another; other values over what occurs.
    Raises ``InputError`` as ``neighbours`` does, or where no other row has a value.
    """
    table = table_in(value)
    asked = _query(table, query, metric)
    keep = usable(table, metric)
    wanted = keep.copy()
    if asked.row is not None:
        wanted[asked.row] = False
    if not wanted.any() or bins < 1:
        raise InputError(
            f"{table.name} has {wanted.sum()} other rows with a {metric}, and {bins} bins; both must be 1 or more"
        )
    out, lengths = np.empty(table.shape[0]), norms(table)
    for start, vectors in walk(table):
        here = slice(start, start + len(vectors))
        with np.errstate(invalid="ignore", divide="ignore"):
            out[here] = _query_values(asked, vectors, metric, lengths[here])
    found = out[wanted]
    counts, edges = np.histogram(found, bins=bins, range=(-1, 1) if metric == "cosine" else None)
    return Distribution(asked.name, counts, edges, float(found.mean()), float(found.std()), metric, int((~keep).sum()))
