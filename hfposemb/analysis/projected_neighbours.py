"""Nearest neighbours of every row of a large table: nearly all of them, at a fraction of the cost of an exact search.

All pairs of rows are scored along the leading principal directions only; the best of each row are candidates, which
are then ranked by the whole rows. The number of directions is the smallest for which the candidates of a sample of rows
contain ``RECALL`` of their true neighbours. A table whose variance is spread evenly needs all directions, and the
result is then exact up to rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .row_values import Progress
from .umap_layout import processors

Vectors = NDArray[np.float32]

RECALL = 0.955
"""Share of the true neighbours that the candidates of a sample of rows must contain."""

SAMPLE = 128
"""Number of rows on which that share is measured."""

DIRECTIONS = (64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1536, 2048)
"""Numbers of principal directions to try. Beyond three quarters of the width, whole rows are scored instead."""

MORE = 30
"""Maximum number of candidates of a row beyond the neighbours asked for."""

TILE = 1024, 2048
"""Rows and columns of the scores held at once: 8 MB, so that they remain in the processor's cache."""

WIDE = 512
"""Number of columns that are compared with their floors at once."""


@dataclass(frozen=True, eq=False)
class Found:
    """Nearest neighbours of every row.

    Attributes:
        indices: Places of the neighbours of each row, nearest first, without the row itself [n, k].
        values: Their cosines, or Euclidean distances [n, k].
        directions: Number of principal directions along which pairs were scored; the width if along all.
    """

    indices: NDArray[np.int32]
    values: Vectors
    directions: int


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
def _keep(held: Any, row: Any, other: Any, score: Any) -> None:
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
def _of_rows(scores: Any, corner: Any, held: Any, marks: Any) -> None:
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
                            _keep(held, mine, corner[1] + left + column, line[column])


@njit(nogil=True)
def _of_columns(scores: Any, corner: Any, held: Any, marks: Any) -> None:
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
                            _keep(held, corner[1] + left + column, corner[0] + row, line[column])


@njit(nogil=True, fastmath=True)
def _rank(rows: Any, span: Any, held: Any, apart: Any, into: Any) -> None:
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


def principal_directions(rows: Vectors) -> Vectors:
    """Return the directions [d, d] in which rows are longest, as columns, longest first."""
    total = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(rows), 8192):
        block = rows[start : start + 8192]
        total += block.T @ block
    return np.ascontiguousarray(np.linalg.eigh(total)[1][:, ::-1], np.float32)


def _largest(scores: Vectors, count: int) -> NDArray[np.intp]:
    return np.argpartition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count :]


def _scored(rows: Vectors, k: int, most: int, half: Vectors | None, seed: int) -> Vectors:
    """Return rows by their coordinates [n, m] along as many principal directions as the candidates need.

    Args:
        rows: Rows [n, d].
        k: Number of neighbours.
        most: Number of candidates.
        half: Half the squared lengths [n] for distances, ``None`` for inner products.
        seed: Seed of the sample.
    """
    tried = [count for count in DIRECTIONS if count <= 0.75 * rows.shape[1]]
    if not tried:
        return rows
    asked = np.random.default_rng(seed).choice(len(rows), min(SAMPLE, len(rows)), replace=False)
    onto, own = principal_directions(rows), (np.arange(len(asked)), asked)
    penalty = np.zeros(1, np.float32) if half is None else half
    scores = rows[asked] @ rows.T - penalty
    scores[own] = -np.inf
    true = _largest(scores, k)
    scores = np.broadcast_to(-penalty, scores.shape).copy()
    scores[own] = -np.inf
    along: list[Vectors] = []
    for known, count in itertools.pairwise((0, *tried)):
        along.append(rows @ onto[:, known:count])
        scores += along[-1][asked] @ along[-1].T
        floors = np.partition(scores, len(rows) - most, axis=1)[:, len(rows) - most]
        if (np.take_along_axis(scores, true, 1) >= floors[:, None]).mean() >= RECALL:
            return np.hstack(along)
    return rows


class _Candidates:
    """The best scores of every row so far, from tiles of the scores of all pairs."""

    def __init__(self, left: Vectors, right: Vectors, most: int, pool: ThreadPoolExecutor) -> None:
        count = len(left)
        self.left, self.right, self.pool = left, right, pool
        self.scores = np.empty(TILE, np.float32)
        # The last tile may have columns beyond the last row, whose scores never reach a floor.
        floors = np.full(count + TILE[1], -np.inf, np.float32)
        floors[count:] = np.inf
        self.held = (
            np.empty((count, 2 * most), np.float32),
            np.empty((count, 2 * most), np.int32),
            np.zeros(count, np.int32),
            floors,
        )

    def add(self, first: int, start: int) -> None:
        """Score the rows from ``first`` with those from ``start`` on; of a pair, both get a candidate."""
        count = len(self.left)
        high, wide = min(TILE[0], count - first), min(TILE[1], count - start)
        padded = -(-wide // 8) * 8

        def rows(low: int, top: int) -> None:
            scores = self.scores[low:top, :padded]
            np.matmul(self.left[first + low : first + top], self.right[start : start + wide].T, out=scores[:, :wide])
            scores[:, wide:] = -np.inf
            shared = np.arange(max(first + low, start), min(first + top, start + wide))
            scores[shared - first - low, shared - start] = -np.inf
            _of_rows(scores, (first + low, start), self.held, np.zeros(WIDE, bool))

        def columns(low: int, top: int) -> None:
            _of_columns(self.scores[:high, low:top], (first, start + low), self.held, np.zeros(WIDE, bool))

        self._split(0, high, rows)
        # Pairs within the tile's own rows have been seen from both sides already.
        seen = max(first + high - start, 0)
        if seen < wide:
            self._split(seen, padded, columns)

    def _split(self, low: int, top: int, work: Callable[[int, int], None]) -> None:
        """Let two threads work, as they do not share a row whose candidates they change."""
        middle = low + (top - low) // 16 * 8
        for done in [self.pool.submit(work, *part) for part in ((low, middle), (middle, top)) if part[0] < part[1]]:
            done.result()


def unit_or_centred(vectors: NDArray[np.floating], metric: Literal["cosine", "euclidean"]) -> Vectors:
    """Return rows [n, d] scaled to length 1 for cosines, or less their mean for distances, which keeps their digits."""
    rows = np.array(vectors, np.float32)
    if metric == "euclidean":
        rows -= rows.mean(axis=0)
    else:
        rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


def projected_neighbours(
    vectors: NDArray[np.floating],
    *,
    k: int,
    metric: Literal["cosine", "euclidean"],
    seed: int = 0,
    progress: Progress | None = None,
) -> Found:
    """Return nearly all of the ``k`` nearest neighbours of every row.

    Args:
        vectors: Rows [n, d], finite, and not zero for cosines.
        k: Number of neighbours, less than n.
        metric: ``"cosine"`` or ``"euclidean"``.
        seed: Seed of the sample from which the number of directions is chosen.
        progress: Callback for the share done, 0 to 1, and the stage.
    """
    rows, apart = unit_or_centred(vectors, metric), metric == "euclidean"
    half = np.einsum("ij,ij->i", rows, rows) / 2 if apart else None
    count = len(rows)
    most = min(k + min(3 * k, MORE), count - 1)
    along = _scored(rows, k, most, half, seed)
    left = right = along
    if half is not None:  # −|x − y|² / 2 as one inner product
        ones = np.ones(count, np.float32)
        left, right = np.column_stack([along, -half, ones]), np.column_stack([along, ones, -half])
    indices, values = np.zeros((count, k), np.int32), np.full((count, k), -np.inf, np.float32)
    # The threads multiply, too: those of a BLAS of several would wait busily while candidates are taken.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(min(2, processors())) as pool:
        found = _Candidates(left, right, most, pool)
        for first in range(0, count, TILE[0]):
            for start in range(first, count, TILE[1]):
                found.add(first, start)
            if progress is not None:
                progress(1 - (1 - min(first + TILE[0], count) / count) ** 2, "neighbours")
        held, into, cuts = found.held[1:3], (indices, values), np.linspace(0, count, 9).astype(int)
        for done in [pool.submit(_rank, rows, span, held, apart, into) for span in itertools.pairwise(cuts)]:
            done.result()
    return Found(indices, np.sqrt(-values) if apart else values, along.shape[1])
