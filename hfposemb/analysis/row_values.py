"""The value of two rows: their cosine, inner product or distance, in float64, as they are or after centring.

Rows that hold NaN or Inf have no value, and rows of length 0 have no cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..progress import Report
from ..tables.table import EmbeddingTable, Vectors
from .rows import finite_blocks, mean_row, norms

Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Report
"""Called with the share that is done, 0 to 1, and what is being done."""

PAIR_BYTES = 2**20
"""How many bytes of vectors are widened to float64 at once, on each side of a pair."""

AT_THE_MEAN = 1e-12
"""Distance from the mean row, relative to its length, below which only rounding separates a row from it."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The point that the rows of a table are seen from: the origin, or their mean row, the ``centre`` [width].

    ``lengths`` [rows] are the distances of the rows from that point; NaN for rows that are not finite.
    """

    centre: Floats | None
    lengths: Floats

    def seen(self, vectors: Vectors) -> Floats:
        """Return vectors in float64, as seen from this point."""
        wide = np.asarray(vectors, np.float64)
        return wide if self.centre is None else np.asarray(wide - self.centre)

    def usable(self, metric: Metric) -> NDArray[np.bool_]:
        """Return which rows [rows] have a value."""
        return np.asarray(self.lengths > 0 if metric == "cosine" else ~np.isnan(self.lengths))

    @cached_property
    def shift(self) -> float:
        """The length of the centre."""
        return 0.0 if self.centre is None else float(np.linalg.norm(self.centre))

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The length of the shortest row that is not zero, and a bound on that of the longest in any frame."""
        present = self.lengths[self.lengths > 0]
        return float(present.min(initial=1.0)), float(present.max(initial=0.0)) + self.shift


_frames: WeakKeyDictionary[EmbeddingTable, dict[bool, Frame]] = WeakKeyDictionary()


def frame_of(table: EmbeddingTable, metric: Metric, *, centred: bool = False) -> Frame:
    """Return the frame in which the rows of a table are compared. Kept as long as the table is.

    Distances are the same in either, so those are always taken between the rows as they are. Raises ``InputError`` for
    an unknown metric.
    """
    if metric not in ("cosine", "dot", "euclidean"):
        raise InputError(f'the metric is "cosine", "dot" or "euclidean"; got {metric!r}')
    moved = centred and metric != "euclidean"
    kept = _frames.setdefault(table, {})
    if moved not in kept:
        kept[moved] = _centred(table) if moved else Frame(None, norms(table))
    return kept[moved]


def _centred(table: EmbeddingTable) -> Frame:
    centre = mean_row(table)
    shift = float(np.linalg.norm(centre))
    lengths = np.full(table.shape[0], np.nan)
    for rows, vectors in finite_blocks(table):
        seen = vectors - centre
        found = np.sqrt(np.einsum("ij,ij->i", seen, seen))
        lengths[rows] = np.where(found > AT_THE_MEAN * shift, found, 0)
    for array in (centre, lengths):
        array.flags.writeable = False
    return Frame(centre, lengths)


def usable(table: EmbeddingTable, metric: Metric) -> NDArray[np.bool_]:
    """Return which rows [n] have a value: finite ones, and for cosines those that are not zero.

    Raises ``InputError`` for an unknown metric.
    """
    return frame_of(table, metric).usable(metric)


def read_rows(table: EmbeddingTable, rows: Rows) -> Vectors:
    """Return the given rows [m, width] in their order, reading no others."""
    return table.take(rows)


def values_of(left: Floats, right: Floats, metric: Metric, lengths: Floats) -> Floats:
    """Return the value of each pair of rows [m] in float64; ``lengths`` are the products of both sides' lengths.

    Equal rows give equal bits, so that ties are ties.
    """
    if metric == "euclidean":
        difference = left - right
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
    product = np.einsum("ij,ij->i", left, right)
    return np.asarray(product if metric == "dot" else np.clip(product / lengths, -1, 1))


def pair_values(vectors: Vectors, left: Rows, right: Rows, metric: Metric, frame: Frame) -> Floats:
    """Return the value of each pair of rows of ``vectors`` [m], a few at a time; the lengths are those of the frame."""
    out, step, lengths = np.empty(len(left)), max(1, PAIR_BYTES // (8 * vectors.shape[1])), frame.lengths
    for start in range(0, len(left), step):
        a, b = left[start : start + step], right[start : start + step]
        out[start : start + step] = values_of(
            frame.seen(vectors[a]), frame.seen(vectors[b]), metric, lengths[a] * lengths[b]
        )
    return out


@dataclass(frozen=True, eq=False)
class Query:
    """What is looked for: a ``vector`` [width] in float64, as its frame sees it, and its row if it is one."""

    name: str
    vector: Floats
    row: int | None
    note: str = ""

    @property
    def length(self) -> float:
        """The length of the vector."""
        return float(np.sqrt(np.einsum("i,i->", self.vector, self.vector)))

    def values(self, vectors: Vectors, metric: Metric, frame: Frame, lengths: Floats) -> Floats:
        """Return the value of each vector with the query [m], a few at a time; ``lengths`` [m] are the vectors'."""
        out, step = np.empty(len(vectors)), max(1, PAIR_BYTES // (8 * vectors.shape[1]))
        for start in range(0, len(vectors), step):
            block = frame.seen(vectors[start : start + step])
            scale = lengths[start : start + step] * self.length
            out[start : start + step] = values_of(block, np.broadcast_to(self.vector, block.shape), metric, scale)
        return out
