"""Per-row figures of a table: norms, means, outliers, and breaks between neighbouring rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable, Vectors, walk

BLOCK_BYTES = 12 * 2**20
"""Amount of a table that is widened to float64 at once."""

PASS_BYTES = 2 * 2**20
"""The same for single passes without matrix products: an amount that a processor's cache holds."""


LARGEST_BLOCK = 2**26
"""Maximum size in bytes of a float32 block that is multiplied in one go."""


LEAST_ROWS = 4_096
"""Number of rows of a float32 block that is multiplied in one go, unless it would be larger than that."""


MOST_SQUARE = 2_048
"""Number of rows up to which diagonal sums are taken from the matrix of all pairs."""


_norms: WeakKeyDictionary[EmbeddingTable, NDArray[np.float64]] = WeakKeyDictionary()


unit_sums: WeakKeyDictionary[EmbeddingTable, NDArray[np.float64]] = WeakKeyDictionary()


_norms_lock = Lock()
"""Several views may request the norms of a table at once: one thread computes them, the others wait."""


def finite_blocks(
    table: EmbeddingTable, *, single: bool = False, rows: int | None = None, least: int = 1
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.floating]]]:
    """Yield the finite rows in blocks of (row numbers [m], vectors [m, width]), of about ``BLOCK_BYTES`` each.

    Args:
        table: Table [n, width].
        single: Whether to yield vectors in the table's own precision, read-only; by default they are widened to
            float64.
        rows: Maximum number of rows per block.
        least: Minimum number of rows per block.
    """
    finite = table.finite
    for first, block in blocks(table, rows=rows, least=least):
        keep = finite[first : first + len(block)]
        if keep.any():
            found = block if keep.all() else block[keep]
            yield first + np.flatnonzero(keep), found if single else np.asarray(found, np.float64)


def blocks(
    table: EmbeddingTable, *, rows: int | None = None, least: int = 1
) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield all rows in blocks of (first row, vectors [m, width]), in the table's own precision.

    Args:
        table: Table [n, width].
        rows: Maximum number of rows per block.
        least: Minimum number of rows per block.
    """
    step = max(least, BLOCK_BYTES // (8 * table.shape[1]))
    step = step if rows is None else min(step, rows)
    for first, vectors in walk(table, least=least):
        for start in range(0, len(vectors), step):
            yield first + start, vectors[start : start + step]


def norms(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return the Euclidean norm of every row [n]; NaN for rows that are not finite. Cached for the table's lifetime."""
    table = table_in(value)
    with _norms_lock:
        if table not in _norms:
            found, total = np.full(table.shape[0], np.nan), np.zeros(table.shape[1])
            # The length of a row of up to 32 bits says whether it is finite, which would take another pass to find.
            known = table.finite if table.dtype.itemsize > 4 else None
            for first, block in blocks(table, rows=max(1, PASS_BYTES // (8 * table.shape[1]))):
                vectors = np.asarray(block, np.float64)
                with np.errstate(over="ignore", invalid="ignore"):
                    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
                    keep = np.isfinite(lengths) if known is None else known[first : first + len(block)]
                    if not keep.all():
                        vectors, lengths = vectors[keep], lengths[keep]
                    found[first : first + len(block)][keep] = lengths
                    # Summed in the same pass, since reading and widening a large table again takes seconds; and not by
                    # a product, which would wait for those of other threads at every block.
                    total += np.einsum("i,ij->j", 1 / np.where(lengths > 0, lengths, np.inf), vectors)
            found.flags.writeable = False
            if known is None:
                vars(table).setdefault("finite", np.isfinite(found))
            _norms[table], unit_sums[table] = found, total
        return _norms[table]


SINGLE = 1e18
"""Length of a row from which float32 may not hold its square, and inverse of one whose square may be 0 there."""


def fits_single(table: EmbeddingTable) -> None:
    """Refuse a table whose products float32 cannot hold. Raises ``InputError`` if its longest row says so."""
    known = norms(table)[table.finite]
    longest = float(known.max(initial=0.0))
    if longest > SINGLE or 0 < longest < 1 / SINGLE:
        raise InputError(
            f"{table.name} has rows of norms up to {longest:.0e}; expected {1 / SINGLE:.0e} to {SINGLE:.0e}, whose "
            "squares float32 holds: divide the table by its largest number"
        )


def directed(value: EmbeddingTable | PositionEncoding) -> NDArray[np.bool_]:
    """Return a mask of the rows [n] that have a direction, and so a cosine: finite and nonzero ones."""
    return np.asarray(norms(value) > 0)


def mean_row(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return the mean of the finite rows [d]. Raises ``InputError`` if there are none."""
    table = table_in(value)
    if not (rows := int(table.finite.sum())):
        raise InputError(f"{table.name} has no finite row")
    total = np.zeros(table.shape[1])
    for _, vectors in finite_blocks(table, single=True):
        total += vectors.sum(axis=0, dtype=np.float64)
    return total / rows


def outliers(value: EmbeddingTable | PositionEncoding) -> NDArray[np.int64]:
    """Return the rows with outlying norms in order, such as position 0 of BERT and the last row of GPT-2.

    A norm is an outlier if its modified z-score, .6745 (x − median) / MAD, exceeds a limit in magnitude (Iglewicz &
    Hoaglin 1993) and it differs from the median by at least a quarter. The z-score alone flags rounding in a table of
    equal norms, and every position up to 127 of a BERT, which saw more training than the others. The limit is 3.5 for a
    few rows and rises with their number, to 4.3 for 256 and 5.3 for 50,000. With 3.5 throughout, 45 % of tables of
    noise [1024, 64] have an outlier; with this limit at most 5 % have one.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.rows import outliers
        >>> outliers(hpe.extract("sample:bert").position).tolist()
        [254]
    """
    return outlying(norms(value))


def outlying(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the indices of outlying values [n], such as norms, by the rule of ``outliers``."""
    if not np.isfinite(values).any():
        return np.empty(0, np.int64)
    median = np.nanmedian(values)
    off = np.abs(values - median)
    # In a table of noise .5 % would exceed this if norms were normal and their spread known; measured, up to 5 % do.
    limit = max(3.5, NormalDist().inv_cdf(1 - 0.0025 / np.isfinite(values).sum()))
    return np.flatnonzero((0.6745 * off > limit * np.nanmedian(off)) & (off >= 0.25 * median) & (off > 0))


def some_rows(rows: NDArray[np.int64], *, most: int = 8) -> str:
    """List rows [n], at most the first few, e.g. "0, 1, 255"."""
    return ", ".join(map(str, rows[:most])) + (", …" if len(rows) > most else "")


def without(table: EmbeddingTable, rows: NDArray[np.int64]) -> EmbeddingTable:
    """Return the table with the given rows replaced by NaN: figures leave them out, and distances are preserved."""
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
    """Return cos(p_t, p_{t+1}) [n − 1]; a drop indicates a break, such as BERT's at row 128.

    NaN next to a row without a direction.

    Raises:
        InputError: If there is a single row.
    """
    table = table_in(value)
    if table.shape[0] < 2:
        raise InputError(f"{table.name} has one row; neighbouring pairs need at least 2")
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


def mean_cosine_of_runs(value: EmbeddingTable | PositionEncoding, count: int) -> NDArray[np.float64]:
    """Return the mean cosine of all pairs within every run of ``count`` neighbouring rows [n − count + 1].

    From the sum s of the unit vectors of a run, (|s|² − count) / (count (count − 1)). NaN for runs that contain a row
    without a direction.

    Args:
        value: Table or encoding with rows [n, d].
        count: Rows of a run, at least 2.

    Raises:
        InputError: If ``count`` is below 2, or larger than the number of rows.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.rows import mean_cosine_of_runs
        >>> found = mean_cosine_of_runs(hpe.sinusoidal(64, 16).position, 8)
        >>> found.shape, round(float(found[0]), 3)
        ((57,), 0.794)
    """
    table = table_in(value)
    rows = table.shape[0]
    if not 2 <= count <= rows:
        raise InputError(f"found a run of {count:,} rows in {table.name}; expected 2 to {rows:,}")
    out, step = np.empty(rows - count + 1), max(count, BLOCK_BYTES // (8 * table.shape[1]))
    for start in range(0, len(out), step):
        stop = min(start + step, len(out))
        length = norms(table)[start : stop + count - 1]
        blank = ~(length > 0)
        unit = np.asarray(table.rows(start, stop + count - 1), np.float64) / np.where(blank, 1, length)[:, None]
        unit[blank] = 0
        sums = np.cumsum(np.vstack([np.zeros_like(unit[:1]), unit]), axis=0)
        run = sums[count:] - sums[:-count]
        missing = np.cumsum(np.r_[0, blank])
        cosines = (np.einsum("ij,ij->i", run, run) - count) / (count * (count - 1))
        out[start:stop] = np.where(missing[count:] > missing[:-count], np.nan, np.clip(cosines, -1, 1))
    return out


FALL = 0.25
"""Drop in the cosine of neighbouring rows that counts as a break."""


RARE = 0.02
"""Maximum share of places with such a drop; with more of them the table is rough rather than broken."""


ENDS = 4
"""Number of rows at either end excluded from the search for breaks, because they often differ from the rest."""


@dataclass(frozen=True)
class Break:
    """A place inside a table where neighbouring rows stop being similar, between rows ``before`` and ``after``.

    Attributes:
        before: Last row before the break.
        after: First row after the break.
        cosine: Lowest cosine of neighbours at the break.
        typical: Median cosine of all neighbours.
        deviations: Difference of the two, in robust standard deviations (1.4826 MAD) of the neighbours' cosines.
    """

    before: int
    after: int
    cosine: float
    typical: float
    deviations: float


def breaks(value: EmbeddingTable | PositionEncoding) -> tuple[Break, ...]:
    """Return where the cosine of neighbouring rows drops, as in BERT near row 128; the deepest drop first.

    A drop is at least .25 below a median of .5 or more, exceeds 3.5 robust deviations (Iglewicz & Hoaglin 1993), and
    occurs in at most 2 % of places; adjacent drops form one break. The four rows at either end are excluded, since many
    models treat them differently. The result is empty if there is no break, or fewer than 17 rows.
    """
    table = table_in(value)
    if table.shape[0] < 4 * ENDS + 1:
        return ()
    inner = adjacent(table)[ENDS:-ENDS]
    if not np.isfinite(inner).any() or (typical := float(np.nanmedian(inner))) < 2 * FALL:
        return ()
    # If all neighbours are equally similar the deviation is 0, and any drop is significant.
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
    """Return the largest drop below the median of the cosine of neighbouring rows, excluding four rows at either end.

    Raises:
        InputError: If there are fewer than 17 rows, or no two neighbours have a cosine.
    """
    table = table_in(value)
    inner = adjacent(table)[ENDS:-ENDS] if table.shape[0] > 4 * ENDS else np.empty(0)
    if not np.isfinite(inner).any():
        raise InputError(f"{table.name} has too few neighbouring nonzero rows; at least {4 * ENDS + 1} rows are needed")
    return float(np.nanmedian(inner) - np.nanmin(inner))
