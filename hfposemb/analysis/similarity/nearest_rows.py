"""Exact nearest neighbours of a row, a word or a vector, of several of these, or of every row.

Candidates are found in float32 with an allowance for rounding; returned values are computed in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.row_lookup import named
from ...tables.table import EmbeddingTable, Vectors, all_rows, walk
from ...tables.tabular import Columns, Tabular
from ..row_values import Floats, Frame, Metric, Progress, Query, Rows, frame_of, pair_values, usable
from .anisotropy import anisotropy_notes, mean_cosine
from .score_bounds import Scores

GROUPED = 64
"""Maximum group size when bounding the k-th largest score: only the maximum of each group is examined."""

SCORE_BYTES = 16 * 2**20
"""Maximum size of the scores held at once, in bytes: about the size of a processor's cache."""


def query_of(
    table: EmbeddingTable, query: int | str | Vectors | Sequence[float], metric: Metric, *, centred: bool = False
) -> Query:
    """Resolve a query to a vector as seen from the table's frame.

    Args:
        table: Table [n, d] to search.
        query: Row number, label, or vector [d] in the table's own space; the mean row is subtracted from it too.
        metric: Metric of the search.
        centred: Whether the mean row is subtracted first.

    Raises:
        InputError: If the table has no such row or label, or the query has no value under the metric.
    """
    frame = frame_of(table, metric, centred=centred)
    if isinstance(query, (int, str, np.integer)):
        found = named(table, query if isinstance(query, str) else int(query))
        row = found.row
        if not frame.usable(metric)[row]:
            what = "not finite" if not table.finite[row] else "zero" if frame.centre is None else "the mean row"
            raise InputError(f"row {row} of {table.name} is {what} and has no {metric}")
        return Query.of_row(table.labels[row], table.rows(row, row + 1)[0], row, frame, found.note)
    expected = f"a query must be a row number, a label or a vector [{table.shape[1]}] of {table.name}; give several "
    try:
        vector = np.asarray(query, np.float64)
    except (TypeError, ValueError):  # a set, texts, rows of several lengths
        raise InputError(f"{expected}as a list; got {type(query).__name__} that is no list of numbers") from None
    if vector.shape != (table.shape[1],):
        raise InputError(f"{expected}as a list; got an array of shape {vector.shape}")
    seen = frame.seen(vector)
    if not np.isfinite(seen).all() or (metric == "cosine" and not seen.any()):
        raise InputError(
            f"the query vector is {'zero' if np.isfinite(seen).all() else 'not finite'} and has no {metric}"
        )
    return Query("vector", seen, math.sqrt(np.einsum("i,i->", seen, seen)), None)


def _reached(scores: Vectors, k: int) -> float:
    """Return a close lower bound on the ``k``-th largest of some scores; −Inf for fewer than ``k``.

    The k-th largest maximum over groups of scores is such a bound, since k groups each have a score that reaches it.
    """
    if len(scores) < k:
        return -np.inf
    size = max(1, min(GROUPED, len(scores) // (4 * k)))
    # Groups of every so many scores: the maximum over the first axis is several times as fast as over the second.
    tops = scores[: len(scores) // size * size].reshape(size, -1).max(axis=0)
    tops.partition(len(tops) - k)
    return float(tops[len(tops) - k])


def _order(values: Floats, rows: Rows, metric: Metric) -> Rows:
    """Return the order nearest first; ties are broken by the lower row number."""
    return np.lexsort((rows, values if metric == "euclidean" else -values))


@dataclass(frozen=True, eq=False)
class Neighbours(Tabular):
    """Nearest neighbours of one query, nearest first.

    Attributes:
        query: Label of the query.
        rows: Row numbers of the neighbours [k].
        labels: Their labels.
        values: Their cosines, inner products or distances [k].
        metric: Metric of ``values``.
        left_out: Number of rows that have no value.
        centred: Whether the mean row was subtracted first.
        anisotropy: Mean cosine of two random rows of the uncentred table; ``None`` if undefined.
        notes: Remarks on how to read the result.
    """

    _document = ("query", "metric", "centred", "anisotropy", "notes")
    query: str
    rows: Rows
    labels: tuple[str, ...]
    values: Floats
    metric: Metric
    left_out: int
    centred: bool = False
    anisotropy: float | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self._lines(), *(f"note: {note}" for note in self.notes)])

    def _lines(self) -> str:
        width = max(map(len, self.labels), default=0)
        lines = [f"  {label:<{width}}  {value:.3f}" for label, value in zip(self.labels, self.values, strict=True)]
        how = f"{self.metric}, centred" if self.centred else self.metric
        return "\n".join([f"nearest to {self.query!r} by {how}", *lines])

    def columns(self) -> Columns:
        """Return one row per neighbour: ``query``, ``rank`` from 1, ``row``, ``label``, and the value by its metric."""
        return NeighbourLists((self,)).columns()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON."""
        near = zip(self.rows.tolist(), self.labels, self.values.tolist(), strict=True)
        listed = [{"row": row, "label": label, "value": value} for row, label, value in near]
        return {**super().to_dict(), "neighbours": listed}


@dataclass(frozen=True, eq=False)
class NeighbourLists(Tabular, Sequence[Neighbours]):
    """Neighbours of several queries, in order: a sequence indexed by place or by the query's label."""

    each: tuple[Neighbours, ...]

    def __len__(self) -> int:
        return len(self.each)

    @overload
    def __getitem__(self, index: int | str) -> Neighbours: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Neighbours, ...]: ...
    def __getitem__(self, index: int | str | slice) -> Neighbours | tuple[Neighbours, ...]:
        if not isinstance(index, str):
            return self.each[index]
        for spelling in (index, f" {index}"):
            for one in self.each:
                if one.query == spelling:
                    return one
        asked = ", ".join(repr(one.query) for one in self.each)
        raise InputError(f"{index!r} is not one of the queries: {asked}")

    def __str__(self) -> str:
        notes = dict.fromkeys(note for one in self.each for note in one.notes)
        return "\n".join(["\n\n".join(one._lines() for one in self.each), *(f"note: {note}" for note in notes)])

    def columns(self) -> Columns:
        """Return one row per query and neighbour: ``query``, ``rank``, ``row``, ``label``, and the value by metric."""
        return {
            "query": [one.query for one in self.each for _ in one.rows],
            "rank": [place for one in self.each for place in range(1, len(one.rows) + 1)],
            "row": np.concatenate([one.rows for one in self.each]),
            "label": [label for one in self.each for label in one.labels],
            self.each[0].metric: np.concatenate([one.values for one in self.each]),
        }


@overload
def neighbours(
    value: EmbeddingTable | PositionEncoding,
    query: list[str] | list[int] | list[int | str] | list[Vectors] | tuple[str, ...] | tuple[int, ...],
    k: int = 10,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    include_query: bool = False,
) -> NeighbourLists: ...
@overload
def neighbours(
    value: EmbeddingTable | PositionEncoding,
    query: int | str | Vectors | Sequence[float],
    k: int = 10,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    include_query: bool = False,
) -> Neighbours: ...
def neighbours(
    value: EmbeddingTable | PositionEncoding,
    query: int | str | Vectors | Sequence[float] | Sequence[int | str | Vectors],
    k: int = 10,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    include_query: bool = False,
) -> Neighbours | NeighbourLists:
    """Return the ``k`` exact nearest neighbours of a row, a label or a vector, reading the table in chunks.

    Ties are ordered by row number. The result is shorter if the table has fewer rows.

    Args:
        value: Table or position encoding [n, d].
        query: Row number, label or vector [d]; a list of these is searched in one pass over the table. A list of floats
            is one vector.
        k: Number of neighbours.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether to subtract the mean row first (Mu & Viswanath 2018), which helps if the table is strongly
            anisotropic; the result's notes say whether it is.
        include_query: Whether the query's own row may be among its neighbours.

    Returns:
        ``Neighbours`` for one query, ``NeighbourLists`` for a list of them.

    Raises:
        InputError: If ``k`` < 1, or a query is not in the table or has no value.

    Examples:
        >>> import hfposemb as hpe
        >>> bert = hpe.extract("sample:bert")
        >>> hpe.neighbours(bert.token, "king", k=3).labels
        ('lord', 'year', 'princes')
    """
    table = table_in(value)
    if k < 1:
        raise InputError(f"k must be at least 1; got {k}")
    many = _several_queries(query)
    queries: Any = [query] if many is None else many
    asked = [query_of(table, one, metric, centred=centred) for one in queries]
    if not asked:
        raise InputError("the list of queries is empty; give at least one row number, label or vector")
    frame = frame_of(table, metric, centred=centred)
    searches = [_Search(table, frame, one, k, metric, include_query=include_query) for one in asked]
    # A single product is fastest in one piece, unless rows have to be converted for it.
    for start, vectors in walk(table, whole=len(searches) == 1 and searches[0].plan.dtype == table.dtype):
        for search in searches:
            search.take(start, vectors)
    left_out, labels = len(frame.absent(metric)), table.labels.texts
    shared, notes = mean_cosine(table), anisotropy_notes(table, metric, centred=centred)
    found = tuple(
        Neighbours(
            search.asked.name,
            search.rows,
            tuple(labels[row] for row in search.rows.tolist()),
            search.values,
            metric,
            left_out,
            frame.centre is not None,
            shared,
            (*filter(None, [search.asked.note, table.labels.remark]), *notes),
        )
        for search in searches
    )
    return found[0] if many is None else NeighbourLists(found)


def _several_queries(query: Any) -> Sequence[Any] | None:
    """Return the queries of a list; ``None`` for a single one, which a list of floats and an array [d] are too."""
    found = several(query)
    if getattr(query, "ndim", 0) == 1 and np.asarray(query).dtype.kind in "iuf":
        return None
    alone = len(found) == 1 and found[0] is query
    return None if alone or any(isinstance(one, (float, np.floating)) for one in found) else found


class _Search:
    """Collects the ``k`` rows nearest to a query from successive chunks of the table."""

    def __init__(
        self, table: EmbeddingTable, frame: Frame, asked: Query, k: int, metric: Metric, *, include_query: bool
    ) -> None:
        self.asked, self.frame, self.k, self.metric = asked, frame, k, metric
        self.plan = Scores.of(metric, table, frame, asked.length)
        self.vector = self.plan.query(asked)
        self.skip = -1 if include_query or asked.row is None else asked.row
        self.rows: Rows = np.empty(0, np.int64)
        self.values: Floats = np.empty(0)

    def take(self, start: int, vectors: Vectors) -> None:
        """Process a chunk of rows that begins at row ``start``."""
        scores, slack = self.plan.score(self.vector, vectors, start), self.plan.slack(start, start + len(vectors))
        if start <= self.skip < start + len(vectors):
            scores[self.skip - start] = -np.inf
        # Each side of the comparison allows for rounding. If there are fewer than k rows, all with a value are kept.
        reach = scores + slack >= _reached(scores - slack, self.k)
        picks = (reach & (scores > -np.inf)).nonzero()[0]
        found = self.asked.values(vectors[picks], self.metric, self.frame, self.frame.lengths[start + picks])
        rows, values = np.append(self.rows, start + picks), np.append(self.values, found)
        best = _order(values, rows, self.metric)[: self.k]
        self.rows, self.values = rows[best], values[best]


@dataclass(frozen=True, eq=False)
class AllNeighbours:
    """Nearest neighbours of every row.

    Attributes:
        rows: Rows that have a value [m].
        indices: Row numbers of the neighbours of each, nearest first [m, k].
        values: Their cosines, inner products or distances [m, k].
        metric: Metric of ``values``.
        left_out: Number of rows that have no value.
    """

    rows: Rows
    indices: Rows
    values: Floats
    metric: Metric
    left_out: int


class _Block:
    """Collects candidates for the ``k`` nearest of a block of rows from successive score matrices.

    ``best`` [m, k] are the highest scores so far; pairs below ``floor`` [m] are discarded for good.
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
        """The score a pair must reach [m]: the k-th highest so far, less the possible rounding error."""
        return np.asarray(self.best.min(axis=1) - 2 * self.margin, self.best.dtype)

    def add(self, own: Rows, others: Rows, scores: Vectors) -> None:
        """Add new pairs that reach the floor; ``own`` counts from the block's first row, ``others`` from row 0."""
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
            # If so many rows are alike that the pairs take too much memory, they are searched again later.
            self.crowded = 2 * len(self.pairs[0][0]) > self.most
            if self.crowded:
                self.pairs = []

    def _reaching(self) -> tuple[Rows, Rows, Vectors]:
        own, others, scores = (np.concatenate(parts) for parts in zip(*self.pairs, strict=True))
        reach = scores >= self.floor[own]
        return own[reach], others[reach], scores[reach]

    @property
    def candidates(self) -> tuple[Rows, Rows]:
        """The pairs that reach the current floor: rows counted from the block's first row, and others from row 0."""
        return self._reaching()[:2]


def _places(hits: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Return the row and column indices of true entries, as ``np.nonzero`` does but several times faster."""
    left, right = np.divmod(np.flatnonzero(hits), hits.shape[1])
    return left, right


def _exchange(block: _Block, other: _Block, scores: Vectors) -> None:
    """Add to each of two blocks its candidates among the rows of the other one, by their scores [rows, rows]."""
    if not block.crowded:
        left, right = _places(scores >= block.floor[:, None])
        block.add(left, right + other.start, scores[left, right])
    if not other.crowded:
        left, right = _places(scores >= other.floor)
        other.add(right, left + block.start, scores[left, right])


def _reached_by(
    block: _Block, blocks: Sequence[_Block], plan: Scores, vectors: Vectors, span: tuple[int, int]
) -> tuple[Rows, Rows]:
    """Return which rows of a block, counted from the start of ``span``, have which other rows as candidates."""
    start, stop = span
    floor = block.floor[start - block.start : stop - block.start, None]
    found = []
    for other in blocks:
        left, right = _places(plan.between(vectors, span, (other.start, other.stop)) >= floor)
        found.append((left, right + other.start))
    own, others = (np.concatenate(parts) for parts in zip(*found, strict=True))
    apart = own + start != others
    return own[apart], others[apart]


def all_neighbours(
    value: EmbeddingTable | PositionEncoding,
    *,
    k: int,
    metric: Metric = "cosine",
    progress: Progress | None = None,
) -> AllNeighbours:
    """Return the ``k`` exact nearest neighbours of every row, excluding the row itself.

    Scores come from float32 products of blocks of rows, each of which serves the rows of both blocks. Pairs that reach
    the k-th highest score of a row, allowing for rounding, are computed again in float64.

    Args:
        value: Table or position encoding [n, d].
        k: Number of neighbours; fewer are returned if there are fewer rows.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        progress: Callback for the share done, 0 to 1, and the stage.

    Raises:
        InputError: If ``k`` < 1, or fewer than two rows have a value.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.similarity.nearest_rows import all_neighbours
        >>> all_neighbours(hpe.sinusoidal(64, 16).position, k=1).indices[:4, 0].tolist()
        [1, 2, 1, 2]
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
    whole, count = frame_of(table, metric), len(rows)
    frame = replace(whole, lengths=whole.lengths[rows])
    plan = replace(Scores.of(metric, table, whole), lengths=frame.lengths)
    indices, values = np.empty((count, k), np.int64), np.empty((count, k))

    def settle(start: int, stop: int, own: Rows, others: Rows) -> None:
        exact = pair_values(vectors, own + start, others, metric, frame)
        order = np.lexsort((others, exact if metric == "euclidean" else -exact, own))
        best = order[np.searchsorted(own, np.arange(stop - start), sorter=order)[:, None] + np.arange(k)]
        indices[start:stop], values[start:stop] = rows[others[best]], exact[best]

    blocks = [_Block(start, plan.among(vectors, start, stop), k, plan.margin) for start, stop in _spans(count, plan)]
    for at, block in enumerate(blocks):
        for other in blocks[at + 1 :]:
            if not (block.crowded and other.crowded):
                _exchange(block, other, plan.between(vectors, (block.start, block.stop), (other.start, other.stop)))
        if not block.crowded:
            settle(block.start, block.stop, *block.candidates)
        block.pairs.clear()
        if progress is not None:
            progress(1 - (1 - block.stop / count) ** 2, "neighbours")
    few = max(1, SCORE_BYTES // (plan.dtype.itemsize * count))
    for block in filter(lambda block: block.crowded, blocks):
        for start in range(block.start, block.stop, few):
            stop = min(start + few, block.stop)
            settle(start, stop, *_reached_by(block, blocks, plan, vectors, (start, stop)))
    return AllNeighbours(rows, indices, values, metric, int((~keep).sum()))


def _spans(count: int, plan: Scores) -> Iterator[tuple[int, int]]:
    """Split rows into blocks of about equal size, such that the scores of two blocks fit into ``SCORE_BYTES``."""
    side = math.isqrt(SCORE_BYTES // plan.dtype.itemsize)
    return itertools.pairwise(np.linspace(0, count, -(-count // side) + 1).astype(int).tolist())


def nearest_unit_rows(asked: Vectors, unit: Vectors, own: Rows, k: int) -> Rows:
    """Return the ``k`` unit rows with the largest cosine to each query vector, in no particular order.

    Computed in the precision of the input, so rows equal up to rounding may be interchanged; ``neighbours`` and
    ``all_neighbours`` are exact.

    Args:
        asked: Query vectors [m, d]; their length does not matter.
        unit: Rows of unit length [n, d].
        own: Row to exclude for each query [m].
        k: Number of rows to return for each query.

    Returns:
        Row numbers [m, k].
    """
    found = np.empty((len(asked), k), np.int64)
    for start in range(0, len(asked), 256):
        cosines = asked[start : start + 256] @ unit.T
        cosines[np.arange(len(cosines)), own[start : start + 256]] = -np.inf
        found[start : start + 256] = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    return found
