"""Similarity matrices, and the distribution of one row's similarities.

The value of a pair is its cosine, its inner product ("dot") or its Euclidean distance, where small means near; with
``centred`` the mean row is subtracted from all rows first. Rows with NaN or Inf have no value, and zero rows have no
cosine: both are left out, and results state how many. Returned values are computed in float64, except for matrices of
more than 5,000 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable, Vectors, walk
from ...tables.tabular import Columns, Tabular
from ..row_values import Floats, Metric, Rows, frame_of
from .nearest_rows import query_of

LARGEST_MATRIX = 20_000
"""Maximum number of rows of a matrix, which takes 1.6 GB in float32."""

DOUBLE_MATRIX = 5_000
"""Number of rows up to which a matrix is in float64."""

MATRIX_BYTES = 2**27
"""Maximum size of a block of rows in the computation of a matrix, in bytes."""


def _matrix(
    read: Callable[[int, int], Vectors], keep: NDArray[np.bool_], width: int, metric: Metric
) -> NDArray[np.floating]:
    """Return the value of every pair of the rows [n, n] that ``read`` returns; ``keep`` [n] marks those that have one.

    Two blocks of rows are held at a time, in addition to the matrix.
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
    _finish(out, metric)
    out[~keep], out[:, ~keep] = np.nan, np.nan
    return out


def _finish(products: NDArray[np.floating], metric: Metric) -> None:
    """Turn the products of all pairs of prepared rows [n, n] into values of the metric, in place."""
    if metric == "euclidean":
        squares = np.diagonal(products).copy()
        products *= -2
        # Add both squares first, so that the matrix stays exactly symmetric.
        for start in range(0, len(products), 256):
            products[start : start + 256] += squares[start : start + 256, None] + squares
        np.sqrt(np.maximum(products, 0, out=products), out=products)
        np.fill_diagonal(products, 0)
    elif metric == "cosine":
        np.clip(products, -1, 1, out=products)
        np.fill_diagonal(products, 1)


def similarity(
    value: EmbeddingTable | PositionEncoding,
    rows: int | str | Sequence[int | str] | None = None,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
) -> NDArray[np.floating]:
    """Return the similarity of every pair of rows.

    Args:
        value: Table or position encoding [n, d].
        rows: Rows to compare, by number or label; all by default.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether to subtract the mean row of the whole table first.

    Returns:
        Matrix [m, m], in float64 up to 5,000 rows and float32 beyond; NaN for rows without a value.

    Raises:
        InputError: If there are more than 20,000 rows.

    Examples:
        >>> import hfposemb as hpe
        >>> hpe.similarity(hpe.sinusoidal(64, 16).position, rows=[0, 1, 2]).round(3).tolist()
        [[1.0, 0.936, 0.796], [0.936, 1.0, 0.936], [0.796, 0.936, 1.0]]
    """
    table = table_in(value)
    frame = frame_of(table, metric, centred=centred)
    keep = frame.usable(metric)
    chosen = None if rows is None else np.array([table.row(key) for key in several(rows)], np.int64)
    count = table.shape[0] if chosen is None else len(chosen)
    if count > LARGEST_MATRIX:
        raise InputError(
            f"a matrix of {count:,} rows is too large; choose up to {LARGEST_MATRIX:,} rows with rows=, or use "
            "neighbours()"
        )

    def read(start: int, stop: int) -> Vectors:
        found = table.rows(start, stop) if chosen is None else table.take(chosen[start:stop])
        return found if frame.centre is None else frame.seen(found)

    return _matrix(read, keep if chosen is None else keep[chosen], table.shape[1], metric)


@dataclass(frozen=True, eq=False)
class Distribution(Tabular):
    """Histogram of the values of all rows with a query.

    Attributes:
        query: Label of the query.
        counts: Number of rows per bin [bins].
        edges: Edges of the bins [bins + 1].
        mean: Mean of the values.
        deviation: Standard deviation of the values.
        metric: Metric of the values.
        left_out: Number of rows that have no value.
        centred: Whether the mean row was subtracted first.
    """

    query: str
    counts: Rows
    edges: Floats
    mean: float
    deviation: float
    metric: Metric
    left_out: int
    centred: bool = False

    def columns(self) -> Columns:
        """Return one row per bin: its edges ``low`` and ``high``, and ``count``, the number of rows in it."""
        return {"low": self.edges[:-1], "high": self.edges[1:], "count": self.counts}


def similarity_distribution(
    value: EmbeddingTable | PositionEncoding,
    query: int | str | Vectors | Sequence[float],
    *,
    bins: int = 100,
    metric: Metric = "cosine",
    centred: bool = False,
) -> Distribution:
    """Return the distribution of the values of all rows with a query, excluding the query's own row.

    Args:
        value: Table or position encoding [n, d].
        query: Row number, label or vector [d].
        bins: Number of bins. Cosines are binned from −1 to 1, so that queries can be overlaid; other values over their
            range.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether to subtract the mean row first.

    Raises:
        InputError: As ``neighbours`` does, if no other row has a value, or if ``bins`` < 1.
    """
    table = table_in(value)
    asked = query_of(table, query, metric, centred=centred)
    frame = frame_of(table, metric, centred=centred)
    keep = frame.usable(metric)
    wanted = keep.copy()
    if asked.row is not None:
        wanted[asked.row] = False
    if not wanted.any() or bins < 1:
        raise InputError(
            f"{table.name} has {wanted.sum()} other rows with a {metric}, and {bins} bins; both must be 1 or more"
        )
    out = np.empty(table.shape[0])
    for start, vectors in walk(table):
        here = slice(start, start + len(vectors))
        with np.errstate(invalid="ignore", divide="ignore"):
            out[here] = asked.values(vectors, metric, frame, frame.lengths[here])
    found = out[wanted]
    counts, edges = np.histogram(found, bins=bins, range=(-1, 1) if metric == "cosine" else None)
    left_out = int((~keep).sum())
    mean, deviation = float(found.mean()), float(found.std())
    return Distribution(asked.name, counts, edges, mean, deviation, metric, left_out, frame.centre is not None)
