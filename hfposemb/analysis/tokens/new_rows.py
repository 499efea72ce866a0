"""How new rows of a table were made: zeros, copies, the mean of the old rows, drawn at random, or trained.

Trained rows differ from each other more than rows drawn from one distribution: in their lengths, in their distances
from the mean by the covariance of the table, and in how far they follow its large components and the spreads of its
columns. Five figures of a set of rows say so. Each way of making rows is a cloud of the figures of drawn sets, and
"like the other rows" one of sets of old rows. A way is refuted by a set that lies outside its cloud.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Tabular
from ...text import number, percent
from ..geometry import Scatter, scatter
from ..rows import finite_blocks, norms, some_rows, without
from .row_means import means_of_few

DRAWS = 199
"""Number of sets in a cloud."""

TESTED = 64
"""Maximum number of rows in a set."""

SETS = 40
"""Minimum number of sets that the old rows can be divided into."""

ROWS_PER_COMPONENT = 2
"""Minimum number of old rows for each component of their covariance that is used."""

POOL = 4_096
"""Maximum number of old rows from which columns are drawn."""

FEWEST_COMPONENTS = 4
EMPTY = 1e-9
"""Share of the largest variance up to which a component is empty."""


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of every other old row; new rows and the rest of the old ones had no part in them.

    Attributes:
        mean: Mean of these rows [d].
        spreads: Standard deviations of their columns [d].
        axes: The components as columns [d, r].
        values: Variance along them [r].
        others: Row numbers of the other old rows.
    """

    mean: Floats
    spreads: Floats
    axes: Floats
    values: Floats
    others: Rows

    def scores(self, vectors: NDArray[np.floating]) -> Floats:
        """Return the coordinates of rows [k, d] along the components [k, r]."""
        return np.asarray((np.asarray(vectors, np.float64) - self.mean) @ self.axes)

    @cached_property
    def pattern(self) -> Floats:
        """Deviations of the logarithms of the columns' variances from their mean [d]."""
        return _logarithms(np.square(self.spreads))

    def figures(self, vectors: NDArray[np.floating]) -> Floats:
        """Return five figures of a set of rows [k, d].

        The mean of the logarithms of the squared Mahalanobis lengths, their spread, that of the lengths about the mean
        of the set, and the variance that these have along the components, weighted by the variance of the old rows, all
        three as logarithms; and how steeply the logarithms of the columns' variances rise with those of the old rows.
        """
        scores = self.scores(vectors)
        squares = np.square(scores - scores.mean(axis=0))
        lengths, own = (np.square(scores) / self.values).sum(axis=1), squares.sum(axis=1)
        along = float(np.mean(squares @ self.values / np.maximum(own, np.finfo(float).tiny)))
        size, shape = (np.log(np.maximum(one, EMPTY)) for one in (lengths, own / max(own.mean(), EMPTY)))
        slope = float(_logarithms(vectors.var(axis=0, dtype=np.float64)) @ self.pattern)
        rise = slope / max(float(self.pattern @ self.pattern), EMPTY)
        return np.array([size.mean(), *np.log(np.maximum([size.std(), shape.std(), along], EMPTY)), rise])


def _logarithms(variances: Floats) -> Floats:
    """Return the deviations of the logarithms of variances [d] from their mean; empty ones count as very small."""
    logarithms = np.log(np.maximum(variances, max(EMPTY * variances.max(), np.finfo(float).tiny)))
    return np.asarray(logarithms - logarithms.mean())


def components(old: EmbeddingTable) -> Components | None:
    """Return the components that every other row of a table determines; ``None`` if they are fewer than four."""
    rows = np.flatnonzero(old.finite)
    half = without(old, rows[1::2])
    found = scatter(half, single=True)
    values, vectors = np.linalg.eigh(found.matrix / (found.rows - 1))
    most = min(found.rows // ROWS_PER_COMPONENT, len(found.mean))
    kept = np.arange(len(values)) >= len(values) - most
    kept &= values > EMPTY * values[-1]
    if kept.sum() < FEWEST_COMPONENTS:
        return None
    values, vectors = values[kept], vectors[:, kept]
    spreads = np.sqrt(np.maximum(np.diag(found.matrix), 0) / (found.rows - 1))
    if found.dual:
        spreads = whole(half, found.mean).std(axis=0)
        vectors = whole(half, found.mean).T @ vectors / np.sqrt(values * (found.rows - 1))
    return Components(found.mean, spreads, vectors, values, rows[1::2])


def whole(table: EmbeddingTable, mean: Floats) -> Floats:
    """Return the finite rows of a small table, seen from a point [n, d]."""
    return np.concatenate([block - mean for _, block in finite_blocks(table)])


@dataclass(frozen=True, eq=False)
class Cloud:
    """Figures of sets of rows that were made in one way [sets, 5].

    Attributes:
        figures: The figures.
        independent: Number of sets, or of those without a row in common if that is less.
    """

    figures: Floats
    independent: float = DRAWS

    def distances(self, figures: Floats) -> Floats:
        """Return the squared Mahalanobis distances of figures [..., 5] from the middle of the cloud [...]."""
        middle = self.figures.mean(axis=0)
        inverse = np.linalg.pinv(np.cov(self.figures.T), hermitian=True)
        return np.asarray(np.einsum("...i,ij,...j", figures - middle, inverse, figures - middle))

    def p(self, figures: Floats) -> float:
        """Return the share of sets at least as far from the middle, and 1 in addition, as p values have it.

        Sets that had a part in the middle and the covariance of the cloud lie nearer than others do, on average by the
        ratio of squared distances that normal figures have.
        """
        nearer = (self.independent - self.figures.shape[1] - 2) / (self.independent + 1)
        far = self.distances(self.figures) >= nearer * self.distances(figures)
        return float((1 + far.sum()) / (1 + len(far)))

    def p_against(self, figures: Floats, others: Cloud) -> float:
        """Return the share of the sets of another cloud that are at least as near to the middle of this one."""
        near = self.distances(others.figures) <= self.distances(figures)
        return float((1 + near.sum()) / (1 + len(near)))


def like_old(old: EmbeddingTable, within: Components, rows: Rows, rng: np.random.Generator) -> Cloud:
    """Return the cloud of sets of old rows in the arrangement of the given rows, from a random old row on."""
    offsets = np.searchsorted(np.union1d(within.others, rows), rows)
    places = (rng.integers(len(within.others), size=(DRAWS, 1)) + offsets - offsets[0]) % len(within.others)
    needed, where = np.unique(within.others[places], return_inverse=True)
    vectors = old.take(needed)
    figures = np.array([within.figures(vectors[one]) for one in where.reshape(places.shape)])
    return Cloud(figures, min(DRAWS, len(within.others) / len(rows)))


def of_old_covariance(
    old: EmbeddingTable, found: Scatter, within: Components, count: int, rng: np.random.Generator
) -> Cloud:
    """Return the cloud of rows drawn from a normal with mean and covariance of all old rows."""
    root = whole(old, found.mean)
    if not found.dual:
        values, vectors = np.linalg.eigh(found.matrix)
        root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    root /= np.sqrt(found.rows - 1)
    shape = (count, len(root))
    return Cloud(np.array([within.figures(found.mean + rng.standard_normal(shape) @ root) for _ in range(DRAWS)]))


def of_old_columns(
    old: EmbeddingTable, within: Components, count: int, rng: np.random.Generator
) -> tuple[Cloud, Cloud]:
    """Return the clouds of rows with each column drawn from its numbers in old rows, and from a normal like them."""
    numbers = old.take(rng.permutation(within.others)[:POOL])
    shape = (count, numbers.shape[1])

    def resampled() -> Floats:
        drawn = np.take_along_axis(numbers, rng.integers(len(numbers), size=shape), axis=0)
        return within.figures(np.asarray(drawn, np.float64))

    drawn = np.array([resampled() for _ in range(DRAWS)])
    normal = [within.figures(within.mean + within.spreads * rng.standard_normal(shape)) for _ in range(DRAWS)]
    return Cloud(drawn), Cloud(np.array(normal))


def of_one_distribution(within: Components, vectors: Floats, rng: np.random.Generator) -> Cloud:
    """Return the cloud of rows about one point whose numbers are independent and alike.

    The point is the mean of the given rows. Their differences from it are shuffled among rows and columns, with the
    mean of the rows and their total variance kept.
    """
    centre = vectors.mean(axis=0)
    numbers = vectors - centre
    total = np.square(numbers).sum()

    def shuffled() -> Floats:
        drawn = rng.permutation(numbers.reshape(-1)).reshape(numbers.shape)
        drawn -= drawn.mean(axis=0)
        drawn *= np.sqrt(total / np.square(drawn).sum())
        return within.figures(drawn + centre)

    return Cloud(np.array([shuffled() for _ in range(DRAWS)]))


Origin: TypeAlias = Literal[
    "zeros",
    "copies",
    "mean",
    "means",
    "old covariance",
    "old columns",
    "one normal",
    "one distribution",
    "one point",
    "drawn",
    "trained",
    "other",
    "cannot tell",
]

AT_MEAN = 0.01
"""Distance from the mean of the old rows, relative to theirs, up to which a new row is their mean.

Rounding to bfloat16 moves a mean by up to .004 of its length; transformers adds a normal of .00003 of the old spread.
"""

FEWEST = 5
"""Number of rows from which a distribution is tested."""

MOST = 4_096
"""Maximum number of new rows that are tested; the first ones."""

LEVEL = 0.02
"""P value up to which a way is refuted."""

ORDINARY = 0.05
"""P value above which rows are distributed like old rows."""

SURE = 1 / (DRAWS + 1)
"""P value up to which all ways must be refuted for none of them to have been taken; the least there is."""

APART = 0.01
"""Share of sets of old rows that agree as well with a way, up to which it is named."""

ABOUT_ZERO = 1e-3
"""P value from which the mean of rows is that of numbers about zero."""

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
        old: For a distribution: share of sets of as many old rows that agree with it as well, (1 + k) / (n + 1).
    """

    origin: Origin
    rows: tuple[int, ...]
    p: float
    about: str
    old: float | None = None


@dataclass(frozen=True)
class RowOrigin(Tabular):
    """How the new rows of a table were made.

    Attributes:
        table: Name of the table.
        rows: The new rows.
        tests: The ways that were tested.
        made: The way that sets the rows apart from old rows, ``drawn`` if several do; ``trained`` if every way of
            drawing them is refuted and they are distributed like old rows, ``other`` if they are not, ``cannot tell``
            if nothing decides.
        notes: Remarks on tests that were left out.
    """

    table: str
    rows: tuple[int, ...]
    tests: tuple[OriginTest, ...]
    made: Origin
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """How the rows were made in words, and how many of them where that is not all."""
        of = "trained" if self.made in ("drawn", "other") else self.made
        agree = next((len(test.rows) for test in self.tests if test.origin == of), len(self.rows))
        return MEANING[self.made] if agree == len(self.rows) else f"{MEANING[self.made]} ({agree:,} of them)"

    def __str__(self) -> str:
        """Say how the rows were made and list the tests."""
        new = "new row" if len(self.rows) == 1 else "new rows"
        lines = [f"{len(self.rows):,} {new} of {self.table}: {self.sentence}"]
        for test in self.tests:
            rows = f"{len(test.rows):,} rows" + (f" ({some_rows(np.array(test.rows), most=5)})" if test.rows else "")
            old = "" if test.old is None else f"; {percent(test.old)} of sets of old rows agree as well"
            lines.append(f"  {test.origin:<17}{rows:<34} p {number(test.p, digits=4)}  {test.about}{old}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def columns(self) -> Columns:
        """Return one row per test.

        ``origin``, ``rows``, the number of rows that agree with it, ``p``, ``old``, the share of sets of old rows that
        agree as well, and ``about``.
        """
        return {
            "origin": [test.origin for test in self.tests],
            "rows": [len(test.rows) for test in self.tests],
            "p": [test.p for test in self.tests],
            "old": [test.old for test in self.tests],
            "about": [test.about for test in self.tests],
        }


MEANING: dict[Origin, str] = {
    "zeros": "zeros",
    "copies": "copies of other rows",
    "mean": "the mean of the old rows",
    "means": "each the mean of two to eight old rows",
    "old columns": "drawn column by column, each column like that of the old rows and apart from the others",
    "old covariance": "drawn from a normal with mean and covariance of the old rows",
    "one normal": "drawn from one normal, like the initial values of a table",
    "one distribution": "numbers drawn from one distribution about zero, like the initial values of a table",
    "one point": "one row, or the mean of some, with noise of one distribution added",
    "drawn": "drawn at random, in one of several ways that cannot be told apart here",
    "trained": "distributed like the old rows and not drawn at once, as rows are that were trained like them",
    "other": "not distributed like the old rows, and made in none of the ways that could be seen",
    "cannot tell": "what was tested cannot tell how",
}


def row_origin(value: EmbeddingTable | PositionEncoding, rows: Sequence[int], *, seed: int = 0) -> RowOrigin:
    """Return how new rows of a table were made.

    - *zeros*, *copies* (equal to the bit to another row), the *mean* of the old rows and *means* of two to eight of
      them are seen row by row; the last are found in tables of a hundred columns or more.
    - Up to 64 of the others are compared with sets drawn in three ways: from a normal with mean and covariance of the
      old rows (*old covariance*, Hewitt 2021), with the distribution of each of their columns (*old columns*), and as
      independent numbers of one distribution about a point: *one normal* or *one distribution* about zero, *one point*
      elsewhere. A way is named only if hardly any set of old rows agrees with it as well and the others are refuted,
      and the rows are called *drawn* if several ways are left that old rows do not agree with.
    - *trained* says that all ways are refuted and that sets of old rows are no different. Where nothing decides, as
      among few rows, or where the old rows look drawn themselves, the answer is *cannot tell*.

    Args:
        value: Table [n, d].
        rows: Row numbers of the new rows.
        seed: Random seed of the sets that they are compared with.

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
    new = np.unique(np.asarray(several(rows), np.int64))
    if not len(new):
        raise InputError(f"give the new rows of {table.name}; got none")
    if wrong := [int(row) for row in new if not 0 <= row < len(table)]:
        raise InputError(f"{table.name} has no row {wrong[0]}; its rows are 0 to {len(table) - 1:,}")
    notes = [f"the first {MOST:,} of {len(new):,} rows were tested"] if len(new) > MOST else []
    tested = new[:MOST]
    old = without(table, new)
    found = scatter(old, single=True)
    vectors = np.asarray(table.take(tested), np.float64)
    tests, rest = _row_by_row(table, old, found, tested, vectors)
    within = components(old)
    if within is not None and len(rest):
        means = _means(old, within, found, tested[rest], vectors[rest])
        tests, rest = [*tests, means], rest[~np.isin(tested[rest], means.rows)]
    drawn, more = _distributions(old, found, within, tested[rest], vectors[rest], np.random.default_rng(seed))
    made = _made(tests, drawn, len(tested))
    return RowOrigin(table.name, tuple(new.tolist()), (*tests, *drawn), made, (*notes, *more))


def _means(old: EmbeddingTable, within: Components, found: Scatter, rows: Rows, vectors: Floats) -> OriginTest:
    """Return the test of rows that are means of few old ones: of all, if it finds any among the first."""
    axes, near = within.axes / np.sqrt(within.values), AT_MEAN * np.sqrt(found.total / (found.rows - 1))
    mask = means_of_few(old, axes, found.mean, vectors[:TESTED], within=near)
    if not mask.any():
        return OriginTest("means", (), 1.0, MEANING["means"])
    mask = means_of_few(old, axes, found.mean, vectors, within=near)
    others = np.asarray(old.take(within.others[:TESTED]), np.float64)
    some = without(old, within.others[:TESTED])
    alike = means_of_few(some, axes, found.mean, others, within=near).sum()
    return OriginTest("means", _listed(rows, mask), float((1 + alike) / (1 + len(others))), MEANING["means"])


def _made(exact: Sequence[OriginTest], drawn: Sequence[OriginTest], count: int) -> Origin:
    """Return the way that at least half of the rows agree with, or that the others were not refuted to be made in."""
    most = max(exact, key=lambda test: len(test.rows))
    if 2 * len(most.rows) >= count:
        return most.origin
    if not drawn:
        return "cannot tell"
    *ways, like_old = drawn
    left = [test for test in ways if test.p > LEVEL]
    if not left and like_old.p > ORDINARY:
        return "trained"
    if not left:
        return "other" if max(test.p for test in drawn) <= SURE else "cannot tell"
    if not all(test.old is not None and test.old <= APART for test in left):
        return "cannot tell"
    return left[0].origin if len(left) == 1 else "drawn"


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
    for vector in table.take(likely):
        key = _digest(np.asarray(vector, np.float64))
        seen[key] = seen.get(key, 0) + 1
    return np.array([seen.get(_digest(vector), 0) > 1 for vector in vectors], bool)


def _equal(table: EmbeddingTable) -> int:
    """Return the number of finite rows whose length another one has to the bit, as copies do."""
    length = norms(table)
    _, count = np.unique(length[np.isfinite(length) & (length > 0)], return_counts=True)
    return int(count[count > 1].sum())


def _distributions(
    old: EmbeddingTable,
    found: Scatter,
    within: Components | None,
    rows: Rows,
    vectors: Floats,
    rng: np.random.Generator,
) -> tuple[list[OriginTest], list[str]]:
    """Return the tests of rows that are neither zeros, copies nor the mean; that of being like old rows comes last."""
    if not len(rows):
        return [], []
    most = min(TESTED, found.rows // 2 // SETS)
    if within is None or most < FEWEST:
        return [], [f"{found.rows:,} old rows of width {len(found.mean):,} are too few to compare new ones with"]
    if len(rows) < FEWEST:
        few = "row is" if len(rows) == 1 else "rows are"
        return [], [f"{len(rows)} {few} too few to test a distribution, which takes {FEWEST}"]
    notes = (
        [f"the first {most:,} of {len(rows):,} rows were compared with sets of old ones"] if len(rows) > most else []
    )
    listed, rows, vectors = tuple(rows.tolist()), rows[:most], vectors[:most]
    figures, others = within.figures(vectors), like_old(old, within, rows, rng)
    ways: tuple[tuple[Origin, tuple[Cloud, ...], str], ...] = (
        (
            "old covariance",
            (of_old_covariance(old, found, within, len(rows), rng),),
            "drawn with mean and covariance of the old rows",
        ),
        ("old columns", of_old_columns(old, within, len(rows), rng), "drawn column by column like the old rows"),
        (_numbers(vectors), (of_one_distribution(within, vectors, rng),), "all numbers drawn alike about one point"),
    )
    tests = []
    for origin, clouds, about in ways:
        p, best = max(((cloud.p(figures), at) for at, cloud in enumerate(clouds)))
        tests.append(OriginTest(origin, listed, p, about, clouds[best].p_against(figures, others)))
    return [*tests, OriginTest("trained", listed, others.p(figures), "distributed like sets of old rows")], notes


def _numbers(vectors: Floats) -> Origin:
    """Return about which point rows of independent numbers were drawn, and for zero from what distribution."""
    from scipy.stats import chi2, normaltest

    count, width = vectors.shape
    centre = vectors.mean(axis=0)
    numbers = vectors - centre
    variance = max(float(np.square(numbers).sum()) / ((count - 1) * width), np.finfo(float).tiny)
    if chi2(width).sf(count * float(centre @ centre) / variance) <= ABOUT_ZERO:
        return "one point"
    return "one normal" if normaltest(vectors.reshape(-1)).pvalue > LEVEL else "one distribution"
