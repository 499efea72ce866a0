"""Value of a pair of rows: cosine, inner product or distance in float64, optionally after centring.

Rows with NaN or Inf have no value, and zero rows have no cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..guesses import unknown_choice
from ..lazy_attributes import lazy_attribute
from ..progress import Report
from ..tables.table import EmbeddingTable, Vectors
from .rows import finite_blocks, mean_row, norms

Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Report
"""Callback for the share done, 0 to 1, and the current stage."""

PAIR_BYTES = 2**20
"""Maximum size of the vectors widened to float64 at once, on each side of a pair, in bytes."""

AT_THE_MEAN = 1e-12
"""Distance from the mean row, relative to that row's length, below which a difference is only rounding."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Reference point from which rows are compared: the origin (``centre`` is ``None``) or the mean row [width].

    ``lengths`` [rows] are the distances of the rows from that point; NaN for rows that are not finite.
    """

    centre: Floats | None
    lengths: Floats

    def seen(self, vectors: Vectors) -> Floats:
        """Return vectors in float64, relative to the reference point."""
        wide = np.asarray(vectors, np.float64)
        return wide if self.centre is None else np.asarray(wide - self.centre)

    def usable(self, metric: Metric) -> NDArray[np.bool_]:
        """Return a mask of the rows [rows] that have a value under the metric; read-only."""
        return self._usable[metric == "cosine"][0]

    def absent(self, metric: Metric) -> Rows:
        """Return the numbers of the rows that have no value under the metric, in order."""
        return self._usable[metric == "cosine"][1]

    @lazy_attribute
    def _usable(self) -> dict[bool, tuple[NDArray[np.bool_], Rows]]:
        masks = {True: self.lengths > 0, False: ~np.isnan(self.lengths)}
        for mask in masks.values():
            mask.flags.writeable = False
        return {key: (mask, np.flatnonzero(~mask)) for key, mask in masks.items()}

    def terms(self, metric: Metric, dtype: np.dtype[np.floating]) -> Vectors:
        """Return what the inner product with each row [rows] is multiplied by for cosines, or reduced by for distances.

        That is 1 / length and length² / 2; anything for rows without a value. Computed once for each dtype.
        """
        if (metric, dtype) not in self._terms:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                found = 1 / self.lengths if metric == "cosine" else self.lengths**2 / 2
                self._terms[metric, dtype] = found.astype(dtype)
        return self._terms[metric, dtype]

    @lazy_attribute
    def _terms(self) -> dict[tuple[Metric, np.dtype[np.floating]], Vectors]:
        return {}

    @lazy_attribute
    def shift(self) -> float:
        """The length of the centre."""
        return 0.0 if self.centre is None else float(np.linalg.norm(self.centre))

    @lazy_attribute
    def reach(self) -> tuple[float, float]:
        """The length of the shortest nonzero row, and an upper bound on that of the longest in any frame."""
        present = self.lengths[self.lengths > 0]
        return float(present.min(initial=1.0)), float(present.max(initial=0.0)) + self.shift


_frames: WeakKeyDictionary[EmbeddingTable, dict[bool, Frame]] = WeakKeyDictionary()


def frame_of(table: EmbeddingTable, metric: Metric, *, centred: bool = False) -> Frame:
    """Return the frame in which the rows of a table are compared, cached for the table's lifetime.

    Distances do not depend on the frame, so they are always taken between the original rows.

    Args:
        table: Table [n, d].
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether rows are taken relative to their mean.

    Raises:
        InputError: If the metric is unknown.
    """
    if metric not in ("cosine", "dot", "euclidean"):
        raise unknown_choice("metric", metric, ("cosine", "dot", "euclidean"))
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
    """Return a mask of the rows [n] that have a value: finite ones, and for cosines nonzero ones.

    Raises:
        InputError: If the metric is unknown.
    """
    return frame_of(table, metric).usable(metric)


def values_of(left: Floats, right: Floats, metric: Metric, lengths: Floats) -> Floats:
    """Return the value of each pair of rows in float64; equal rows give bit-identical values, so that ties are exact.

    Args:
        left: First rows of the pairs [m, width].
        right: Second rows of the pairs [m, width], or one row [1, width] for all of them.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        lengths: Product of the two rows' lengths for each pair [m]; used for cosines only.
    """
    if metric == "euclidean":
        difference = left - right
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
    product = np.einsum("ij,ij->i", left, right)
    return np.asarray(product if metric == "dot" else np.minimum(np.maximum(product / lengths, -1), 1))


def pair_values(vectors: Vectors, left: Rows, right: Rows, metric: Metric, frame: Frame) -> Floats:
    """Return the value of each pair of rows of ``vectors`` in small batches.

    Args:
        vectors: Rows of the table [n, width].
        left: Indices of the first rows [m].
        right: Indices of the second rows [m].
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        frame: Frame of the rows, with a length for each of them.
    """
    out, step, lengths = np.empty(len(left)), max(1, PAIR_BYTES // (8 * vectors.shape[1])), frame.lengths
    for start in range(0, len(left), step):
        a, b = left[start : start + step], right[start : start + step]
        out[start : start + step] = values_of(
            frame.seen(vectors[a]), frame.seen(vectors[b]), metric, lengths[a] * lengths[b]
        )
    return out


@dataclass(frozen=True, eq=False)
class Query:
    """A query: its ``vector`` [width] in float64, relative to the frame, and its row number if it is a row."""

    name: str
    vector: Floats
    length: float
    row: int | None
    note: str = ""

    @classmethod
    def of_row(cls, name: str, vector: Vectors, row: int, frame: Frame, note: str = "") -> Query:
        """Return the query by a row of a table [width]; its length is that of the frame."""
        return cls(name, frame.seen(vector), float(frame.lengths[row]), row, note)

    def values(self, vectors: Vectors, metric: Metric, frame: Frame, lengths: Floats) -> Floats:
        """Return the value of each vector with the query [m] in small batches; ``lengths`` [m] are the vectors' own."""
        step = max(1, PAIR_BYTES // (8 * vectors.shape[1]))
        if len(vectors) <= step:
            return values_of(frame.seen(vectors), self.vector[None], metric, lengths * self.length)
        out = np.empty(len(vectors))
        for start in range(0, len(vectors), step):
            part = slice(start, start + step)
            out[part] = self.values(vectors[part], metric, frame, lengths[part])
        return out
