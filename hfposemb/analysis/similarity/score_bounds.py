"""Ranking of rows by matrix products in the table's own precision, with a bound on the rounding error of a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...tables.table import EmbeddingTable, Vectors
from ..row_values import Floats, Frame, Metric, Query


def _products(rows: Vectors, query: Vectors, *, whole: bool) -> Vectors:
    """Return the inner products [m] of rows with a query: by BLAS if these are all rows, else in this thread alone.

    BLAS waits for all its threads after every block. On a machine with other work, such as a browser, one of them comes
    late at most blocks, and a search through a hundred of them takes three times as long.
    """
    return np.asarray(rows @ query if whole else np.einsum("ij,j->i", rows, query))


_EPSILON = {np.dtype(kind): float(np.finfo(kind).eps) for kind in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of rows against queries by matrix products: higher means nearer, with an error of at most ``margin``.

    A score is the cosine, the inner product, or q·x − ‖x‖²/2, which ranks like the distance. Rows [m, width] are passed
    as stored. For centred rows, scored as (q·x − q·c) / ‖x − c‖, the error bound is ``slack``.
    """

    metric: Metric
    frame: Frame
    lengths: Floats
    dtype: np.dtype[np.floating]
    margin: float
    error: float
    """The part of the margin that is multiplied by a row's length."""

    @classmethod
    def of(cls, metric: Metric, table: EmbeddingTable, frame: Frame, query: float | None = None) -> Scores:
        """Prepare scores for the rows of a table in a frame.

        Args:
            metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
            table: Table [n, width].
            frame: Frame of the table.
            query: Maximum length of a query; by default that of the longest row.
        """
        dtype, width = table.dtype, table.shape[1]
        shortest, longest = frame.reach
        query = longest if query is None else query
        # Use float32 only if no product of two rows can overflow or underflow.
        if max(longest, query) > 1e17 or min(shortest, query or 1.0) < 1e-15:
            dtype = np.dtype(np.float64)
        # Twice the bound of Higham (2002, eq. 3.5) on a rounded inner product, to cover the rounding of the query.
        error = 2 * (width + 4) * _EPSILON[dtype] / 2
        scale = {"cosine": 1.0, "dot": longest * query, "euclidean": longest * query + longest**2}[metric]
        margin = error * scale
        if metric == "euclidean":
            # Distances that are equal in float64 count as ties, even where the scores tell the rows apart.
            margin += 2 * (width + 4) * _EPSILON[np.dtype(np.float64)] * (longest + query) ** 2
        return cls(metric, frame, frame.lengths, dtype, margin, error * (1.0 if metric == "cosine" else query))

    def query(self, asked: Query) -> Vectors:
        """Return a query's vector [width] prepared for ``score``."""
        return np.asarray((asked.vector / asked.length if self.metric == "cosine" else asked.vector).astype(self.dtype))

    def score(self, query: Vectors, vectors: Vectors, start: int) -> Vectors:
        """Return the scores [m] of the rows from ``start``; −Inf for rows without a value."""
        stop = start + len(vectors)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = _products(vectors.astype(self.dtype, copy=False), query, whole=len(vectors) == len(self.lengths))
            if self.frame.centre is not None:
                scores -= self.dtype.type(np.asarray(query, np.float64) @ self.frame.centre)
            if self.metric == "cosine":
                scores *= self.frame.terms("cosine", self.dtype)[start:stop]
            elif self.metric == "euclidean":
                scores -= self.frame.terms("euclidean", self.dtype)[start:stop]
        absent = self.frame.absent(self.metric)
        if len(absent):
            scores[absent[slice(*np.searchsorted(absent, (start, stop)))] - start] = -np.inf
        return scores

    def slack(self, start: int, stop: int) -> float | Vectors:
        """Return the rounding error bound of rows [start, stop): the common margin, or one per row if they are centred.

        Both q·x and q·c are rounded, and ‖x‖ ≤ ‖x − c‖ + ‖c‖; near the mean row their difference is small.
        """
        if self.frame.centre is None:
            return self.margin
        lengths = self.lengths[start:stop]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = self.error * (lengths + 2 * self.frame.shift) / (lengths if self.metric == "cosine" else 1.0)
        return np.nan_to_num(moved, nan=0, posinf=0).astype(self.dtype)  # rows without a value have no score

    def between(self, vectors: Vectors, left: tuple[int, int], right: tuple[int, int]) -> Vectors:
        """Return the scores [m, n] of two ranges [start, stop) of ``vectors``, all of which have a value.

        Scores are symmetric: for distances, half the squared length of the query is subtracted too.
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
        """Return the scores of rows [start, stop) with each other; −Inf on the diagonal."""
        scores = self.between(vectors, (start, stop), (start, stop))
        np.fill_diagonal(scores, -np.inf)
        return scores
