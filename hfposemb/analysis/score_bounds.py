"""Rank rows by matrix products in the table's own precision, with a bound on how far rounding can move a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tables.table import EmbeddingTable, Vectors
from .row_values import Floats, Frame, Metric


@dataclass(frozen=True, eq=False)
class Scores:
    """Rank rows against queries by matrix products: more is nearer, and off by ``margin`` at most.

    A score is the cosine, the inner product, or q·x − ‖x‖²/2, which ranks as the distance does. Rows [m, width] are
    given as the table has them; of centred ones, (q·x − q·c) / ‖x − c‖, rounding can move a score by ``slack``.
    """

    metric: Metric
    frame: Frame
    lengths: Floats
    dtype: np.dtype[np.floating]
    margin: float
    error: float
    """The part of the margin by which a row's length is multiplied."""

    @classmethod
    def of(cls, metric: Metric, table: EmbeddingTable, frame: Frame, query: float | None = None) -> Scores:
        """Plan for the rows of a table in a frame and queries ``query`` long, by default its longest row."""
        dtype, width = table.dtype, table.shape[1]
        shortest, longest = frame.reach
        query = longest if query is None else query
        # In float32 only where no product of two rows can leave its range.
        if max(longest, query) > 1e17 or min(shortest, query or 1.0) < 1e-15:
            dtype = np.dtype(np.float64)
        # Twice the bound of Higham (2002, eq. 3.5) on a rounded inner product, for the query's own rounding.
        error = 2 * (width + 4) * float(np.finfo(dtype).eps) / 2
        scale = {"cosine": 1.0, "dot": longest * query, "euclidean": longest * query + longest**2}[metric]
        return cls(metric, frame, frame.lengths, dtype, error * scale, error * (1.0 if metric == "cosine" else query))

    def query(self, vector: Vectors) -> Vectors:
        """Return a query vector [width], as the frame sees it, ready for ``score``."""
        wide = np.asarray(vector, np.float64)
        return (wide / np.linalg.norm(wide) if self.metric == "cosine" else wide).astype(self.dtype)

    def score(self, query: Vectors, vectors: Vectors, start: int) -> Vectors:
        """Return the scores [m] of the rows from ``start``; −Inf for those without a value."""
        lengths = self.lengths[start : start + len(vectors)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores: Vectors = vectors.astype(self.dtype, copy=False) @ query
            if self.frame.centre is not None:
                scores -= self.dtype.type(np.asarray(query, np.float64) @ self.frame.centre)
            if self.metric == "cosine":
                scores /= lengths.astype(self.dtype)
            elif self.metric == "euclidean":
                scores -= (lengths**2 / 2).astype(self.dtype)
        absent = ~(lengths > 0) if self.metric == "cosine" else np.isnan(lengths)
        if absent.any():
            scores[absent] = -np.inf
        return scores

    def slack(self, start: int, stop: int) -> float | Vectors:
        """Return how far rounding can move the scores of rows [start, stop): the margin, of centred rows for each.

        Both q·x and q·c are rounded, and ‖x‖ ≤ ‖x − c‖ + ‖c‖; near the mean row, what is left of the two is small.
        """
        if self.frame.centre is None:
            return self.margin
        lengths = self.lengths[start:stop]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = self.error * (lengths + 2 * self.frame.shift) / (lengths if self.metric == "cosine" else 1.0)
        return np.nan_to_num(moved, nan=0, posinf=0).astype(self.dtype)  # rows without a value have no score anyway

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
