"""How new rows of a table were made: zeros, copies, the mean of the old rows, or numbers drawn at random."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...numbers import number
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Tabular
from ..geometry import Scatter, scatter
from ..row_values import read_rows
from ..rows import finite_blocks, norms, some_rows, without

Origin: TypeAlias = Literal["zeros", "copies", "mean", "old covariance", "one normal", "trained"]

AT_MEAN = 0.01
"""Distance from the mean of the old rows, relative to theirs, up to which a new row is their mean.

Rounding to bfloat16 moves a mean by up to .004 of its length; transformers adds a normal of .00003 of the old spread.
"""

FEWEST = 5
"""Number of rows from which a distribution is tested."""

MOST = 4_096
"""Maximum number of new rows that are tested; the first ones."""

LEVEL = 0.05
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class OriginTest:
    """One way of making rows, and whether the rows agree with it.

    Attributes:
        origin: The way.
        rows: The rows that agree with it, all rows tested for a distribution.
        p: For zeros, copies and the mean: share of the old rows that agree as well, (1 + k) / (n + 1), and 1 if no new
            row agrees. For a distribution: of the test that the rows were drawn from it, which small values refute.
        about: What was tested.
    """

    origin: Origin
    rows: tuple[int, ...]
    p: float
    about: str


@dataclass(frozen=True)
class RowOrigin(Tabular):
    """How the new rows of a table were made.

    Attributes:
        table: Name of the table.
        rows: The new rows.
        tests: The ways that were tested.
        made: The way that the most rows agree with; ``trained`` if none fits.
        notes: Remarks on tests that were left out.
    """

    table: str
    rows: tuple[int, ...]
    tests: tuple[OriginTest, ...]
    made: Origin
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say how the rows were made and list the tests."""
        new = "new row" if len(self.rows) == 1 else "new rows"
        lines = [f"{len(self.rows):,} {new} of {self.table}: {MEANING[self.made]}"]
        for test in self.tests:
            rows = f"{len(test.rows):,} rows" + (f" ({some_rows(np.array(test.rows), most=5)})" if test.rows else "")
            lines.append(f"  {test.origin:<15}{rows:<34} p {number(test.p, digits=4)}  {test.about}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def columns(self) -> Columns:
        """Return one row per test: ``origin``, ``rows``, the number of rows that agree with it, ``p`` and ``about``."""
        return {
            "origin": [test.origin for test in self.tests],
            "rows": [len(test.rows) for test in self.tests],
            "p": [test.p for test in self.tests],
            "about": [test.about for test in self.tests],
        }


MEANING: dict[Origin, str] = {
    "zeros": "zeros",
    "copies": "copies of other rows",
    "mean": "the mean of the old rows",
    "old covariance": "drawn from a normal with mean and covariance of the old rows",
    "one normal": "drawn from one normal, like the initial values of a table",
    "trained": "none of the tested ways: trained, or made in another way",
}


def row_origin(value: EmbeddingTable | PositionEncoding, rows: Sequence[int]) -> RowOrigin:
    """Return how new rows of a table were made.

    - *zeros*, *copies* (equal to the bit to another row) and the *mean* of the old rows are seen row by row.
    - *old covariance*: the squared Mahalanobis lengths of the others follow χ² with one degree per column if they were
      drawn from a normal with mean and covariance of the old rows (Hewitt 2021); Kolmogorov–Smirnov test.
    - *one normal*: all their numbers follow one normal; the same test of all numbers, standardised by their own
      spread, which makes it cautious.

    Args:
        value: Table [n, d].
        rows: Row numbers of the new rows.

    Raises:
        InputError: If no row is given, one does not exist, or fewer than two old rows are finite.

    >>> import numpy as np
    >>> import hfposemb as hpe
    >>> token = np.random.default_rng(0).standard_normal((500, 8))
    >>> token[490:] = token[:490].mean(axis=0)
    >>> hpe.row_origin(hpe.from_arrays(token=token).token, range(490, 500)).made
    'mean'
    """
    table = table_in(value)
    new = np.unique(np.asarray(rows, np.int64))
    if not len(new):
        raise InputError(f"give the new rows of {table.name}; got none")
    if wrong := [int(row) for row in new if not 0 <= row < len(table)]:
        raise InputError(f"{table.name} has no row {wrong[0]}; its rows are 0 to {len(table) - 1:,}")
    notes = [f"the first {MOST:,} of {len(new):,} rows were tested"] if len(new) > MOST else []
    tested = new[:MOST]
    old = without(table, new)
    found = scatter(old, single=True)
    vectors = np.asarray(read_rows(table, tested), np.float64)
    tests, rest = _row_by_row(table, old, found, tested, vectors)
    if 0 < len(rest) < FEWEST:
        few = "row is" if len(rest) == 1 else "rows are"
        notes.append(f"{len(rest)} {few} too few to test a distribution, which takes {FEWEST}")
    elif len(rest):
        drawn, more = _distributions(found, tested[rest], vectors[rest])
        tests += drawn
        notes += more
    return RowOrigin(table.name, tuple(new.tolist()), tuple(tests), _made(tests, len(tested)), tuple(notes))


def _made(tests: Sequence[OriginTest], count: int) -> Origin:
    """Return the way that most rows agree with, if it is at least half of them."""
    exact = max((test for test in tests if test.origin in ("zeros", "copies", "mean")), key=lambda test: len(test.rows))
    if 2 * len(exact.rows) >= count:
        return exact.origin
    fitting = [test for test in tests if test.origin in ("one normal", "old covariance") and test.p > LEVEL]
    return fitting[0].origin if fitting else "trained"  # the covariance first, which says more


def _row_by_row(
    table: EmbeddingTable, old: EmbeddingTable, found: Scatter, rows: Rows, vectors: Floats
) -> tuple[list[OriginTest], Rows]:
    """Return the tests of single rows, and the places of the finite rows that agree with none."""
    length = np.linalg.norm(vectors, axis=1)
    olds = norms(old)
    count = int(np.isfinite(olds).sum())
    zero = length == 0
    copied = _copied(table, rows, vectors) & ~zero
    typical = np.sqrt(found.total / max(found.rows - 1, 1))
    apart = np.linalg.norm(vectors - found.mean, axis=1)
    at_mean = (apart <= AT_MEAN * typical) & ~zero
    copies = copied & ~at_mean
    farthest = float(apart[at_mean].max()) if at_mean.any() else AT_MEAN * typical
    near = sum(int((np.linalg.norm(block - found.mean, axis=1) <= farthest).sum()) for _, block in finite_blocks(old))
    ways: tuple[tuple[Origin, NDArray[np.bool_], int, str], ...] = (
        ("zeros", zero, int((olds == 0).sum()), "all numbers are 0"),
        ("copies", copies, _equal(old), "equal to the bit to another row"),
        ("mean", at_mean, near, "the mean of the old rows, up to rounding"),
    )
    tests = [
        OriginTest(origin, _listed(rows, mask), (1 + alike) / (count + 1) if mask.any() else 1.0, about)
        for origin, mask, alike, about in ways
    ]
    return tests, np.flatnonzero(~(zero | copied | at_mean) & np.isfinite(length))


def _listed(rows: Rows, mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(rows[mask].tolist())


def _digest(vector: NDArray[np.floating]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vector).data, digest_size=16).digest()


def _copied(table: EmbeddingTable, rows: Rows, vectors: Floats) -> NDArray[np.bool_]:
    """Return which of the rows are equal to the bit to another row of the table."""
    length = norms(table)
    likely = np.flatnonzero(np.isin(length, length[rows]))
    seen: dict[bytes, int] = {}
    for vector in read_rows(table, likely):
        key = _digest(np.asarray(vector, np.float64))
        seen[key] = seen.get(key, 0) + 1
    return np.array([seen.get(_digest(vector), 0) > 1 for vector in vectors], bool)


def _equal(table: EmbeddingTable) -> int:
    """Return the number of finite rows whose length another one has to the bit, as copies do."""
    length = norms(table)
    _, count = np.unique(length[np.isfinite(length) & (length > 0)], return_counts=True)
    return int(count[count > 1].sum())


def _distributions(found: Scatter, rows: Rows, vectors: Floats) -> tuple[list[OriginTest], list[str]]:
    """Return the tests of distributions of rows that are neither zeros, copies nor the mean."""
    from scipy.stats import chi2, kstest, norm

    tests: list[OriginTest] = []
    notes: list[str] = []
    width, listed = vectors.shape[1], tuple(rows.tolist())
    values, axes = (np.ones(1), np.eye(1)) if found.dual else np.linalg.eigh(found.matrix / (found.rows - 1))
    if found.dual or values[0] <= 1e-9 * values[-1] or found.rows < 10 * width:
        notes.append(
            f"{found.rows:,} old rows of width {width:,} do not determine a covariance, which takes {10 * width:,}"
        )
    else:
        squares = np.square((vectors - found.mean) @ axes / np.sqrt(values)).sum(axis=1)
        p = float(kstest(squares, chi2(width).cdf).pvalue)
        tests.append(OriginTest("old covariance", listed, p, "drawn from a normal with mean and covariance of the old"))
    centred = (vectors - vectors.mean()) / vectors.std()
    p = float(kstest(centred.reshape(-1), norm.cdf).pvalue)
    tests.append(OriginTest("one normal", listed, p, "all numbers drawn from one normal"))
    return tests, notes
