"""Nearest neighbours of every row of a large table: nearly all of them, at a fraction of the cost of an exact search.

All pairs of rows are scored along the leading principal directions only; the best of each row are candidates, which
are then ranked by the whole rows. The number of directions is the smallest for which the candidates of a sample of rows
contain ``RECALL`` of their true neighbours. A table whose variance is spread evenly needs all directions, and the
result is then exact up to rounding. If that would take long, and comparing each row with those of a few cells finds as
many neighbours of the sample for less, an inverted file is searched instead.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..row_values import Progress
from .inverted_file import (
    WIDE,
    InvertedFile,
    build_inverted_file,
    keep_by_column,
    keep_by_row,
    probes_for,
    rank_candidates,
    search_inverted_file,
)

Vectors = NDArray[np.float32]

RECALL = 0.955
"""Share of the true neighbours that the candidates of a sample of rows must contain."""

SAMPLE = 128
"""Number of rows on which that share is measured."""

DIRECTIONS = (64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024, 1536, 2048)
"""Numbers of principal directions to try. Beyond three quarters of the width, whole rows are scored instead."""

CELLS = 512
"""Number of cells of the inverted file."""

WORTH = 20
"""How many times as much as dividing the rows into cells a search must cost before it is tried."""

MORE = 30
"""Maximum number of candidates of a row beyond the neighbours asked for."""

TILE = 1024, 2048
"""Rows and columns of the scores held at once: 8 MB, so that they remain in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Found:
    """Nearest neighbours of every row.

    Attributes:
        indices: Places of the neighbours of each row, nearest first, without the row itself [n, k].
        values: Their cosines, or Euclidean distances [n, k].
        directions: Number of principal directions along which pairs were scored; the width if along all.
        probes: Number of cells that each row was compared with; 0 if it was compared with all rows.
    """

    indices: NDArray[np.int32]
    values: Vectors
    directions: int
    probes: int = 0


def principal_directions(rows: Vectors) -> Vectors:
    """Return the directions [d, d] in which rows are longest, as columns, longest first."""
    total = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(rows), 8192):
        block = rows[start : start + 8192]
        total += block.T @ block
    return np.ascontiguousarray(np.linalg.eigh(total)[1][:, ::-1], np.float32)


def _largest(scores: Vectors, count: int) -> NDArray[np.intp]:
    return np.argpartition(scores, scores.shape[1] - count, axis=1)[:, scores.shape[1] - count :]


@dataclass(frozen=True, eq=False)
class _Sample:
    """A sample of rows with their true neighbours.

    Attributes:
        rows: All rows [n, d].
        penalty: Half the squared lengths [n] for distances, [0] for inner products; subtracted from inner products.
        places: Places of the sample [m].
        true: Places of their nearest rows [m, k].
    """

    rows: Vectors
    penalty: Vectors
    places: NDArray[np.int64]
    true: NDArray[np.intp]

    @classmethod
    def of(cls, rows: Vectors, k: int, penalty: Vectors, seed: int) -> _Sample:
        places = np.random.default_rng(seed).choice(len(rows), min(SAMPLE, len(rows)), replace=False)
        scores = rows[places] @ rows.T - penalty
        scores[np.arange(len(places)), places] = -np.inf
        return cls(rows, penalty, places, _largest(scores, k))

    def recall(self, onto: Vectors, most: int) -> float:
        """Return the share of true neighbours among the ``most`` best candidates along some directions [d, m]."""
        scores = (self.rows[self.places] @ onto @ onto.T) @ self.rows.T - self.penalty
        scores[np.arange(len(self.places)), self.places] = -np.inf
        floors = np.partition(scores, len(self.rows) - most, axis=1)[:, len(self.rows) - most]
        return float((np.take_along_axis(scores, self.true, 1) >= floors[:, None]).mean())

    def directions(self, most: int) -> Vectors | None:
        """Return the principal directions [d, m] along which candidates suffice; ``None`` if whole rows are needed."""
        tried = [count for count in DIRECTIONS if count <= 0.75 * self.rows.shape[1]]
        if not tried:
            return None
        onto = principal_directions(self.rows)
        enough = bisect_left(tried, RECALL, key=lambda count: self.recall(onto[:, :count], most))
        return onto[:, : tried[enough]] if enough < len(tried) else None

    def index(self, columns: int, seed: int) -> tuple[InvertedFile, int] | None:
        """Return cells and how many of them to search, if that costs less than scoring all pairs by ``columns``."""
        count, width = self.rows.shape
        cost = count**2 * columns / 2
        if cost < WORTH * count * CELLS * width:
            return None
        index = build_inverted_file(self.rows, CELLS, seed=seed)
        probes, share = probes_for(index, self.rows[self.places], self.true, RECALL)
        return (index, probes) if share * count**2 * width < cost else None


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
            keep_by_row(scores, (first + low, start), self.held, np.zeros(WIDE, bool))

        def columns(low: int, top: int) -> None:
            keep_by_column(self.scores[:high, low:top], (first, start + low), self.held, np.zeros(WIDE, bool))

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
    most = min(k + min(3 * k, MORE), len(rows) - 1)
    sample = _Sample.of(rows, k, np.zeros(1, np.float32) if half is None else half, seed)
    onto = sample.directions(most)
    columns = rows.shape[1] if onto is None else onto.shape[1]
    found = sample.index(columns, seed)
    into = np.zeros((len(rows), k), np.int32), np.full((len(rows), k), -np.inf, np.float32)
    # The threads multiply, too: those of a BLAS of several would wait busily while candidates are taken.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(min(2, joblib.cpu_count())) as pool:
        if found is None:
            _search_all(rows, rows if onto is None else rows @ onto, half, most, into, pool, progress)
        else:
            search_inverted_file(found[0], rows, found[1], into, apart=apart, pool=pool, progress=progress)
    values = np.sqrt(-into[1]) if apart else into[1]
    return Found(into[0], values, columns if found is None else rows.shape[1], 0 if found is None else found[1])


def _search_all(
    rows: Vectors,
    along: Vectors,
    half: Vectors | None,
    most: int,
    into: tuple[NDArray[np.int32], Vectors],
    pool: ThreadPoolExecutor,
    progress: Progress | None,
) -> None:
    """Score all pairs along some directions [n, m], and rank the ``most`` best candidates of each row by whole rows."""
    left = right = along
    count = len(rows)
    if half is not None:  # −|x − y|² / 2 as one inner product
        ones = np.ones(count, np.float32)
        left, right = np.column_stack([along, -half, ones]), np.column_stack([along, ones, -half])
    found = _Candidates(left, right, most, pool)
    for first in range(0, count, TILE[0]):
        for start in range(first, count, TILE[1]):
            found.add(first, start)
        if progress is not None:
            progress(1 - (1 - min(first + TILE[0], count) / count) ** 2, "neighbours")
    held, cuts = found.held[1:3], np.linspace(0, count, 9).astype(int)
    spans = itertools.pairwise(cuts)
    for done in [pool.submit(rank_candidates, rows, span, held, half is not None, into) for span in spans]:
        done.result()
