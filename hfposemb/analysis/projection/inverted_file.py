"""Nearest neighbours of every row by an inverted file: a row is compared only with the rows of the cells nearest to it.

The cells are those of k-means (Lloyd 1982); Jégou, Douze and Schmid (2011) describe such an index. It pays for large
tables whose rows form clusters, and for those whose variance is spread over too many directions to be projected.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..row_values import Progress

WIDE = 512
"""Number of columns that are compared with their floors at once."""


@njit(nogil=True)
def _select(scores: Any, others: Any, keep: Any) -> Any:
    """Move the ``keep`` largest scores to the front, with their rows, and return the smallest of them (Hoare 1961)."""
    low, high = 0, len(scores) - 1
    while low < high:
        pivot, left, right = scores[(low + high) // 2], low, high
        while left <= right:
            while scores[left] > pivot:
                left += 1
            while scores[right] < pivot:
                right -= 1
            if left <= right:
                scores[left], scores[right] = scores[right], scores[left]
                others[left], others[right] = others[right], others[left]
                left, right = left + 1, right - 1
        if keep - 1 <= right:
            high = right
        elif keep - 1 >= left:
            low = left
        else:
            break
    return scores[:keep].min()


@njit(nogil=True)
def keep(held: Any, row: Any, other: Any, score: Any) -> None:
    """Add a candidate of a row; if there is no room, only the better half of them remain, and raise its floor."""
    best, others, filled, floors = held
    at = filled[row]
    best[row, at] = score
    others[row, at] = other
    filled[row] = at + 1
    if at + 1 == best.shape[1]:
        half = best.shape[1] // 2
        floors[row] = _select(best[row], others[row], half)
        filled[row] = half


@njit(nogil=True)
def keep_by_row(scores: Any, corner: Any, held: Any, marks: Any) -> None:
    """Keep the scores of a tile that reach the floor of the row that they belong to.

    ``corner`` is the tile's first row and column. ``held`` are the candidates' scores [n, 2 m] and rows [n, 2 m], their
    number [n], and the floor of each row: the m-th largest score when it last had 2 m candidates.
    """
    floors, words, wide = held[3], marks.view(np.uint64), len(marks)
    for row in range(scores.shape[0]):
        mine = corner[0] + row
        for left in range(0, scores.shape[1], wide):
            line, floor = scores[row, left : left + wide], floors[mine]
            for column in range(len(line)):  # a loop without branches, eight or sixteen columns at a time
                marks[column] = line[column] > floor
            for word in range(len(line) // 8):
                if words[word] != 0:
                    for column in range(8 * word, 8 * word + 8):
                        if line[column] > floors[mine]:
                            keep(held, mine, corner[1] + left + column, line[column])


@njit(nogil=True)
def keep_by_column(scores: Any, corner: Any, held: Any, marks: Any) -> None:
    """Keep the scores of a tile that reach the floor of the row that their column stands for."""
    floors, words, wide = held[3], marks.view(np.uint64), len(marks)
    for left in range(0, scores.shape[1], wide):
        limits = floors[corner[1] + left : corner[1] + left + wide]
        for row in range(scores.shape[0]):
            line = scores[row, left : left + wide]
            for column in range(len(line)):
                marks[column] = line[column] > limits[column]
            for word in range(len(line) // 8):
                if words[word] != 0:
                    for column in range(8 * word, 8 * word + 8):
                        if line[column] > limits[column]:
                            keep(held, corner[1] + left + column, corner[0] + row, line[column])


@njit(nogil=True, fastmath=True)
def rank_candidates(rows: Any, span: Any, held: Any, apart: Any, into: Any) -> None:
    """Rank the candidates of some rows by whole rows: by inner product, or with ``apart`` by distance."""
    others, filled = held
    indices, values = into
    k = indices.shape[1]
    for row in range(span[0], span[1]):
        found = 0
        for place in range(filled[row]):
            other = others[row, place]
            total = np.float32(0)
            if apart:
                for column in range(rows.shape[1]):
                    difference = rows[row, column] - rows[other, column]
                    total -= difference * difference
            else:
                for column in range(rows.shape[1]):
                    total += rows[row, column] * rows[other, column]
            # Sorted by insertion, with the lower of two equal rows first.
            at = min(found, k - 1)
            if found == k and (total < values[row, at] or (total == values[row, at] and other > indices[row, at])):
                continue
            while at > 0 and (
                total > values[row, at - 1] or (total == values[row, at - 1] and other < indices[row, at - 1])
            ):
                values[row, at] = values[row, at - 1]
                indices[row, at] = indices[row, at - 1]
                at -= 1
            values[row, at] = total
            indices[row, at] = other
            found = min(found + 1, k)


Vectors = NDArray[np.float32]

TRAINED_ROWS = 32
"""Number of sampled rows per cell from which the centres are computed."""

ITERATIONS = 4
"""Number of iterations of k-means."""

BLOCK = 8192
"""Number of rows whose distances from all centres are held at once."""

TILE = 1024, 2048
"""Queries and rows of a cell that are compared at once."""


@dataclass(frozen=True, eq=False)
class InvertedFile:
    """Rows by cell.

    Attributes:
        centres: Centres of the cells [c, d].
        order: Row numbers, sorted by cell [n].
        starts: Place in ``order`` at which each cell begins, and n at the end [c + 1].
    """

    centres: Vectors
    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def cell(self) -> NDArray[np.int64]:
        """The cell of each row [n]."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.repeat(np.arange(len(self.centres)), np.diff(self.starts))
        return found

    def nearness(self, rows: Vectors) -> Vectors:
        """Return how near rows [m, d] are to all centres [m, c]; the nearest centre has the largest value."""
        return rows @ self.centres.T - _half(self.centres)


def _half(rows: Vectors) -> Vectors:
    return np.asarray(np.einsum("ij,ij->i", rows, rows) / 2, np.float32)


def build_inverted_file(rows: Vectors, cells: int, *, seed: int) -> InvertedFile:
    """Divide rows into the cells of k-means, whose centres are computed from a sample.

    Args:
        rows: Rows [n, d].
        cells: Number of cells, at most n.
        seed: Seed of the sample.
    """
    random = np.random.default_rng(seed)
    sample = rows[random.choice(len(rows), min(len(rows), TRAINED_ROWS * cells), replace=False)]
    centres = sample[:cells].copy()
    for _ in range(ITERATIONS):
        nearest = _nearest(sample, centres)
        order, counts = np.argsort(nearest, kind="stable"), np.bincount(nearest, minlength=cells)
        filled = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
        centres[filled] = np.add.reduceat(sample[order], starts) / counts[filled, None]
        empty = np.flatnonzero(counts == 0)
        centres[empty] = sample[random.choice(len(sample), len(empty), replace=False)]
    nearest = _nearest(rows, centres)
    starts = np.concatenate([[0], np.cumsum(np.bincount(nearest, minlength=cells))])
    return InvertedFile(centres, np.argsort(nearest, kind="stable"), starts)


def _nearest(rows: Vectors, centres: Vectors) -> NDArray[np.int64]:
    """Return the nearest centre of each row [n]."""
    half, found = _half(centres), np.empty(len(rows), np.int64)
    for start in range(0, len(rows), BLOCK):
        found[start : start + BLOCK] = (rows[start : start + BLOCK] @ centres.T - half).argmax(axis=1)
    return found


def probes_for(index: InvertedFile, queries: Vectors, true: NDArray[np.intp], recall: float) -> tuple[int, float]:
    """Return the number of cells to search, and the mean share of all rows in them.

    Args:
        index: The cells.
        queries: Sampled rows [m, d].
        true: Their nearest rows [m, k].
        recall: Share of the nearest rows that the cells must contain.
    """
    places = np.argsort(-index.nearness(queries), axis=1)
    rank = np.empty_like(places)
    np.put_along_axis(rank, places, np.arange(places.shape[1])[None, :], axis=1)
    needed = np.sort(np.take_along_axis(rank, index.cell[true], axis=1), axis=None)
    probes = int(needed[int(np.ceil(recall * len(needed))) - 1]) + 1
    sizes = np.diff(index.starts)
    return probes, float(sizes[places[:, :probes]].sum(axis=1).mean() / len(index.order))


@njit(nogil=True)
def _keep_listed(scores: Any, listed: Any, first: Any, held: Any, marks: Any) -> None:
    """Keep the scores that reach the floor of their row: ``listed`` [m] are the rows, ``first`` the first column's."""
    floors, words, wide = held[3], marks.view(np.uint64), len(marks)
    for row in range(scores.shape[0]):
        mine = listed[row]
        for left in range(0, scores.shape[1], wide):
            line, floor = scores[row, left : left + wide], floors[mine]
            for column in range(len(line)):
                marks[column] = line[column] > floor
            for word in range(len(line) // 8):
                if words[word] != 0:
                    for column in range(8 * word, 8 * word + 8):
                        if line[column] > floors[mine]:
                            keep(held, mine, first + left + column, line[column])


def search_inverted_file(
    index: InvertedFile,
    rows: Vectors,
    probes: int,
    into: tuple[NDArray[np.int32], Vectors],
    *,
    apart: bool,
    pool: Executor,
    progress: Progress | None,
) -> None:
    """Find the nearest rows of every row among those of the ``probes`` cells nearest to it.

    Args:
        index: The cells.
        rows: Rows [n, d].
        probes: Number of cells to search.
        into: Where places [n, k] and inner products, or negative squared distances, [n, k] are written.
        apart: Whether the nearest are those at the smallest distance, not those with the largest inner product.
        pool: Runs several threads.
        progress: Callback for the share done, 0 to 1, and the stage.
    """
    count, k = into[0].shape
    ordered = rows[index.order]
    half = _half(ordered) if apart else np.zeros(count, np.float32)
    held = (
        np.empty((count, 2 * k), np.float32),
        np.empty((count, 2 * k), np.int32),
        np.zeros(count, np.int32),
        np.full(count, -np.inf, np.float32),
    )
    queries, starts = _queries(index, ordered, probes)

    def compare(listed: NDArray[np.int64], low: int, high: int) -> None:
        scores = np.full((len(listed), -(-(high - low) // 8) * 8), -np.inf, np.float32)
        np.matmul(ordered[listed], ordered[low:high].T, out=scores[:, : high - low])
        scores[:, : high - low] -= half[low:high]
        own = np.flatnonzero((listed >= low) & (listed < high))
        scores[own, listed[own] - low] = -np.inf
        _keep_listed(scores, listed, low, held, np.zeros(WIDE, bool))

    for cell, (first, last) in enumerate(itertools.pairwise(index.starts.tolist())):
        listed = queries[starts[cell] : starts[cell + 1]]
        for low in range(first, last, TILE[1]):
            # Two tiles never have a query in common, so their threads change different candidates.
            tiles = [listed[at : at + TILE[0]] for at in range(0, len(listed), TILE[0])]
            _all(pool, compare, [(tile, low, min(low + TILE[1], last)) for tile in tiles])
        if progress is not None:
            progress((cell + 1) / len(index.centres), "neighbours")
    _complete(ordered, half, held, k)
    places, values = np.zeros((count, k), np.int32), np.full((count, k), -np.inf, np.float32)
    spans = itertools.pairwise(np.linspace(0, count, 9).astype(int))
    _all(pool, rank_candidates, [(ordered, span, held[1:3], apart, (places, values)) for span in spans])
    into[0][index.order], into[1][index.order] = index.order[places], values


def _all(pool: Executor, work: Callable[..., None], each: list[tuple[Any, ...]]) -> None:
    for done in [pool.submit(work, *one) for one in each]:
        done.result()


def _queries(index: InvertedFile, ordered: Vectors, probes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows, by their places in ``ordered``, that search each cell, and where those of a cell begin."""
    cells = len(index.centres)
    asked = np.empty((len(ordered), probes), np.int16)
    for start in range(0, len(ordered), BLOCK):
        near = index.nearness(ordered[start : start + BLOCK])
        asked[start : start + BLOCK] = np.argpartition(near, cells - probes, axis=1)[:, cells - probes :]
    counts = np.bincount(asked.reshape(-1), minlength=cells)
    queries = np.argsort(asked.reshape(-1), kind="stable") // probes
    return queries, np.concatenate([[0], np.cumsum(counts)])


def _complete(ordered: Vectors, half: Vectors, held: Any, k: int) -> None:
    """Compare rows with all others if their cells have fewer than ``k`` of them."""
    few = np.flatnonzero(held[2] < k)
    for start in range(0, len(few), TILE[0]):
        some = few[start : start + TILE[0]]
        scores = ordered[some] @ ordered.T - half
        scores[np.arange(len(some)), some] = -np.inf
        held[1][some, :k] = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k :]
        held[2][some] = k
