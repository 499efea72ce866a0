"""Rows of a table one by one: norms, means, outliers and breaks between neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable, Vectors, walk

BLOCK_BYTES = 12 * 2**20
"""How much of a table is widened to float64 at once."""


LARGEST_BLOCK = 2**26
"""Bytes of a block of which there is one product, in float32."""


MOST_SQUARE = 2_048
"""Rows up to which sums over diagonals are taken from the matrix of all pairs."""


_norms: WeakKeyDictionary[EmbeddingTable, NDArray[np.float64]] = WeakKeyDictionary()


unit_sums: WeakKeyDictionary[EmbeddingTable, NDArray[np.float64]] = WeakKeyDictionary()


_norms_lock = Lock()
"""Several views of a table ask for its norms at once: one computes them, the others wait."""


def finite_blocks(
    table: EmbeddingTable, *, single: bool = False, rows: int | None = None, least: int = 1
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.floating]]]:
    """Walk through the finite rows as (row numbers, vectors), about ``BLOCK_BYTES`` at a time, ``least`` to ``rows``.

    The vectors are in float64; with ``single`` as the table has them, to be read only.
    """
    step = max(least, BLOCK_BYTES // (8 * table.shape[1]))
    step = step if rows is None else min(step, rows)
    finite = table.finite
    for first, vectors in walk(table):
        for start in range(0, len(vectors), step):
            block = vectors[start : start + step]
            keep = finite[first + start : first + start + len(block)]
            if keep.any():
                found = block if keep.all() else block[keep]
                yield first + start + np.flatnonzero(keep), found if single else np.asarray(found, np.float64)


def norms(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return the Euclidean norm of every row [n]; NaN for rows that are not finite. Kept as long as the table is."""
    table = table_in(value)
    with _norms_lock:
        if table not in _norms:
            found, total = np.full(table.shape[0], np.nan), np.zeros(table.shape[1])
            for rows, vectors in finite_blocks(table):
                found[rows] = lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
                with np.errstate(over="ignore", invalid="ignore"):
                    # While the rows are at hand: to read and widen a large table once more takes seconds.
                    total += (1 / np.where(lengths > 0, lengths, np.inf)) @ vectors
            found.flags.writeable = False
            _norms[table], unit_sums[table] = found, total
        return _norms[table]


def directed(value: EmbeddingTable | PositionEncoding) -> NDArray[np.bool_]:
    """Return which rows [n] have a direction, and so a cosine: they are finite and not zero."""
    return np.asarray(norms(value) > 0)


def mean_row(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return the mean of the finite rows [d]. Raises ``InputError`` where there is none."""
    table = table_in(value)
    if not (rows := int(table.finite.sum())):
        raise InputError(f"{table.name} has no row that is finite; nothing can be computed from it")
    total = np.zeros(table.shape[1])
    for _, vectors in finite_blocks(table, single=True):
        total += vectors.sum(axis=0, dtype=np.float64)
    return total / rows


def outliers(value: EmbeddingTable | PositionEncoding) -> NDArray[np.int64]:
    """Return the rows whose norm stands out, such as position 0 of BERT and the last row of GPT-2, in order.

    A norm stands out when its modified z-score, .6745 (x − median) / MAD, is beyond ±3.5 (Iglewicz & Hoaglin 1993) and
    it is at least a quarter off the median: the z-score alone flags rounding in a table of equal norms, and every
    position up to 127 of a BERT, which saw more training than the others.
    """
    found = norms(value)
    if not np.isfinite(found).any():
        return np.empty(0, np.int64)
    median = np.nanmedian(found)
    off = np.abs(found - median)
    return np.flatnonzero((0.6745 * off > 3.5 * np.nanmedian(off)) & (off >= 0.25 * median) & (off > 0))


def without(table: EmbeddingTable, rows: NDArray[np.int64]) -> EmbeddingTable:
    """Return a table in which some rows hold NaN, so that every figure leaves them out and distances stay."""
    read, named = partial(_read_without, table, rows), partial(getattr, table, "labels")
    return EmbeddingTable(table.name, table.shape, table.dtype, table.provenance, read, named)


def _read_without(table: EmbeddingTable, rows: NDArray[np.int64], start: int, stop: int) -> Vectors:
    inside = rows[(rows >= start) & (rows < stop)] - start
    vectors = table.rows(start, stop)
    if len(inside):
        vectors = vectors.copy()
        vectors[inside] = np.nan
    return vectors


def adjacent(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return cos(p_t, p_{t+1}) [n − 1]: a fall marks a break, such as BERT's at row 128.

    NaN beside a row without a direction. Raises ``InputError`` for a single row.
    """
    table = table_in(value)
    if table.shape[0] < 2:
        raise InputError(f"{table.name} has one row; two are needed for a neighbouring pair")
    length = norms(table)
    out = np.full(table.shape[0] - 1, np.nan)
    before, last = np.full(table.shape[1], np.nan), -1
    for rows, vectors in finite_blocks(table):
        unit = vectors / np.where(length[rows] > 0, length[rows], np.nan)[:, None]
        cosines = np.einsum("ij,ij->i", np.concatenate([before[None], unit[:-1]]), unit)
        consecutive = np.diff(rows, prepend=last) == 1
        consecutive[0] &= rows[0] > 0
        out[rows[consecutive] - 1] = cosines[consecutive]
        before, last = unit[-1], int(rows[-1])
    return np.asarray(np.clip(out, -1, 1), np.float64)


FALL = 0.25
"""How far the cosine of two neighbouring rows falls at a break."""


RARE = 0.02
"""In which share of the places it falls so far at most: more of them are no break but a rough table."""


ENDS = 4
"""Rows at either end, which often stand apart, where no break is looked for."""


@dataclass(frozen=True)
class Break:
    """A place inside a table where rows stop being like their neighbours, between rows ``before`` and ``after``.

    ``cosine`` is the least between neighbours there, ``typical`` the median of all neighbours; ``deviations`` is how
    many robust deviations of the other neighbours, 1.4826 MAD, lie between the two.
    """

    before: int
    after: int
    cosine: float
    typical: float
    deviations: float


def breaks(value: EmbeddingTable | PositionEncoding) -> tuple[Break, ...]:
    """Return where the cosine of neighbouring rows falls, as it does in BERT near row 128; the deepest first.

    A fall is .25 below the median of neighbours that are alike, .5 or more, and beyond 3.5 robust deviations
    (Iglewicz & Hoaglin 1993), in 2 % of the places at most; falls beside each other are one break. The four rows at
    either end are not counted, since many models keep them apart. Empty where there is none, or too few rows to tell.
    """
    table = table_in(value)
    if table.shape[0] < 4 * ENDS + 1:
        return ()
    inner = adjacent(table)[ENDS:-ENDS]
    if not np.isfinite(inner).any() or (typical := float(np.nanmedian(inner))) < 2 * FALL:
        return ()
    # A table whose neighbours are all equally alike has no deviation: any fall then stands out.
    deviation = 1.4826 * max(float(np.nanmedian(np.abs(inner - typical))), 1e-6)
    places = np.flatnonzero(inner < min(typical - FALL, typical - 3.5 * deviation))
    if not 0 < len(places) <= max(1, RARE * len(inner)):
        return ()
    found = []
    for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        least = float(inner[run].min())
        before, after = ENDS + int(run[0]), ENDS + int(run[-1]) + 1
        found.append(Break(before, after, least, typical, (typical - least) / deviation))
    return tuple(sorted(found, key=lambda one: one.cosine))


def deepest_fall(value: EmbeddingTable | PositionEncoding) -> float:
    """Return how far below the median the cosine of two neighbouring rows falls at most, the ends apart.

    Raises ``InputError`` for fewer than 17 rows, or where no two neighbours have a cosine.
    """
    table = table_in(value)
    inner = adjacent(table)[ENDS:-ENDS] if table.shape[0] > 4 * ENDS else np.empty(0)
    if not np.isfinite(inner).any():
        raise InputError(f"{table.name} has too few neighbouring rows with a direction; {4 * ENDS + 1} rows are needed")
    return float(np.nanmedian(inner) - np.nanmin(inner))
