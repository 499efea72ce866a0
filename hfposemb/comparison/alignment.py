"""Similarity of two whole tables of any width: CKA, RSA, Procrustes and shared neighbours, each with its null.

All four compare rows that correspond (position t, or one token), and are invariant to rotation, translation and uniform
scaling of either table, except that RSA and neighbours use cosines and so depend on the origin. Biased CKA of two
random tables can reach .54, and Procrustes is inflated in the same way. CKA is therefore the unbiased estimator, and
every measure that can be is compared with its null (``Alignment.measures``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..analysis.nulls import local_variogram
from ..analysis.nulls.surrogates import DRAWS, Keep, Rows, compute_always, over_surrogates
from ..analysis.row_values import Progress
from ..analysis.rows import outlying, some_rows
from ..errors import InputError
from ..tables.embeddings import Embeddings, stack
from ..tables.encodings import Absolute
from ..tables.null_comparison import LEVEL, Null, beside, chance_columns
from ..tables.tabular import Columns, Tabular
from ..text import number
from .matched_rows import shared_rows, tables_of
from .table_side import (
    LEADING,
    MOST_SORTED,
    NEIGHBOURS,
    Measured,
    RankedPair,
    TableSide,
    cross_product,
    hsic,
    nuclear_norm,
    rows_of,
    without_leading,
)

SAMPLE = 5_000
"""Maximum number of shared tokens compared; more are sampled with a seed."""

TESTED = ("CKA", "RSA, centred")
"""Measures of positions that have a chance level: what they compare is the cosines of the rows about their middle.

RSA and shared neighbours depend on where a curve lies about the origin, and the Procrustes fit on its weakest
components: independent random walks, or tables as smooth as a fifth of their length, have p ≤ .05 too often.
"""

UNTESTED = "for positions, only CKA and centred RSA have a chance level; the others have no calibrated test"

GRIDS = (
    "positions of both are patches of an image, alike along rows and columns of a grid; the test follows one direction"
)


def cka(left: Rows, right: Rows) -> float:
    """Return the unbiased linear CKA of two sets of the same rows.

    Uses HSIC₁ of Song et al. (2012), as in Nguyen, Raghu & Kornblith (ICLR 2021): about 0 for independent rows at any
    width, 1 for rows that differ by rotation and scale.

    Args:
        left: Rows [n, p].
        right: Corresponding rows [n, q].

    Raises:
        InputError: If there are fewer than 4 rows, or HSIC₁(K, K) of a table is not positive, which leaves CKA
            undefined.
    """
    return _cka(TableSide(left), TableSide(right))


def every_cka(tables: Sequence[NDArray[np.floating]]) -> Rows:
    """Return the unbiased linear CKA of every two of many tables of the same rows, to six digits.

    Uses the U-centred kernels of Székely & Rizzo (2014): an inner product of n (n − 1)/2 numbers per pair of tables,
    whatever their width.

    Args:
        tables: Tables [n, d] of any width each.

    Returns:
        Matrix [tables, tables]; NaN where ``cka`` is undefined.

    Raises:
        InputError: If there are fewer than 4 rows.
    """
    count = len(tables[0])
    if count < 4:
        raise InputError(f"CKA needs at least 4 rows; got {count}")
    above = np.triu_indices(count, 1)
    pairs = np.zeros((len(tables), len(above[0])), np.float32)
    for place, rows in enumerate(tables):
        found = u_centred(rows)[above]
        if (length := float(np.linalg.norm(found))) > 0:
            pairs[place] = found / length
    alike = np.asarray(pairs @ pairs.T, np.float64)
    undefined = ~pairs.any(axis=1)
    alike[undefined], alike[:, undefined] = np.nan, np.nan
    np.fill_diagonal(alike, np.where(undefined, np.nan, 1.0))
    return alike


def u_centred(rows: NDArray[np.floating]) -> Rows:
    """Return the U-centred kernel of rows [n, n] (Székely & Rizzo 2014), with a diagonal of 0; all 0 for equal rows.

    The cosine of two such kernels is the unbiased linear CKA of their rows.

    Args:
        rows: Rows [n, d], at least 3.
    """
    side, count = TableSide(rows), len(rows)
    if not side.length > 0:
        return np.zeros((count, count))
    centred = side.block(slice(None), single=False)
    kernel = centred @ centred.T
    np.fill_diagonal(kernel, 0)
    sums = kernel.sum(axis=1)
    kernel -= (sums[:, None] + sums) / (count - 2)
    kernel += sums.sum() / ((count - 1) * (count - 2))
    np.fill_diagonal(kernel, 0)
    return np.asarray(kernel)


def procrustes(left: Rows, right: Rows) -> float:
    """Return the share of one table that the best rotation and scaling of the other leaves unexplained, 0 to 1.

    The disparity 1 − s² of the centred tables with Frobenius norm 1, with s the nuclear norm of XᵀY (Schönemann 1966).

    Args:
        left: Rows [n, p].
        right: Corresponding rows [n, q].

    Raises:
        InputError: If all rows of a table are equal.
    """
    return 1.0 - _fit(TableSide(left), TableSide(right))


def rsa(left: Rows, right: Rows, *, centred: bool = False) -> float:
    """Return the Spearman correlation of the cosines of all pairs of rows (Kriegeskorte 2008).

    Args:
        left: Rows [n, p].
        right: Corresponding rows [n, q].
        centred: Whether to subtract the mean row of each table first, which removes what all rows have in common.

    Raises:
        InputError: If the cosines of a table are all equal.
    """
    sides = TableSide(left), TableSide(right)
    return _rsa(*(side.centred for side in sides)) if centred else _rsa(*sides)


def neighbour_overlap(left: Rows, right: Rows, *, k: int = NEIGHBOURS) -> float:
    """Return the mean share of each row's ``k`` nearest, by cosine, that both tables have in common.

    Args:
        left: Rows [n, p].
        right: Corresponding rows [n, q].
        k: Number of neighbours.

    Raises:
        InputError: If ``k`` is not between 1 and n − 1.
    """
    return _overlap(TableSide(left, k=k), TableSide(right, k=k))


def _cka(left: TableSide, right: TableSide, cross: Rows | None = None, order: NDArray[np.int64] | None = None) -> float:
    if len(left) != len(right) or len(left) < 4:
        raise InputError(
            f"CKA needs two tables with the same number of rows, at least 4; got {len(left)} and {len(right)}"
        )
    scale = _scale(left, right)
    cross = cross_product(left, right) if cross is None else cross
    return hsic(left, right, float(np.vdot(cross, cross)), order) / scale


def _scale(left: TableSide, right: TableSide) -> float:
    if not (min(left.length, right.length) > 0 and left.hsic > 0 and right.hsic > 0):
        raise InputError("CKA is undefined: the rows of one table are equal, or differ no more than by chance")
    return math.sqrt(left.hsic * right.hsic)


def _fit(left: TableSide, right: TableSide, cross: Rows | None = None) -> float:
    if not min(left.length, right.length) > 0:
        raise InputError("Procrustes needs rows that differ; all rows of one table are equal")
    if cross is None:
        fitted = float(np.linalg.svd(cross_product(left, right), compute_uv=False).sum())
    else:
        fitted = nuclear_norm(cross)
    return min(fitted / (left.length * right.length), 1.0) ** 2


def _rsa(left: TableSide, right: TableSide) -> float:
    spread = math.sqrt(float(left.ranks @ left.ranks) * float(right.ranks @ right.ranks))
    if not spread > 0:
        raise InputError("RSA needs cosines that differ; all cosines of one table are equal")
    return float(left.ranks @ right.ranks) / spread


def _overlap(left: TableSide, right: TableSide, order: NDArray[np.int64] | None = None) -> float:
    """Return the mean share of each row's nearest that both tables have; ``order`` [n] permutes the right rows."""
    near = right.nearest if order is None else np.argsort(order)[right.nearest[order]]
    return float((left.nearest[:, :, None] == near[:, None, :]).sum() / near.size)


def _of_rows(take: Callable[[TableSide, TableSide], float], left: Rows, right: Rows) -> float:
    return take(TableSide(left), TableSide(right))


_TAKE: Mapping[str, Callable[[TableSide, TableSide], float]] = {
    "CKA": _cka,
    "RSA": _rsa,
    "RSA, centred": lambda left, right: _rsa(left.centred, right.centred),
    "Procrustes fit": _fit,
    "shared neighbours": _overlap,
}


MEASURES: Mapping[str, Callable[[Rows, Rows], float]] = {name: partial(_of_rows, take) for name, take in _TAKE.items()}
"""Measures of two tables by name, larger for more similar ones; the Procrustes fit is 1 − its disparity."""


@dataclass(frozen=True)
class Alignment(Tabular):
    """Similarity of two tables over their shared rows, by several measures with their nulls.

    Attributes:
        role: ``"position"`` or ``"token"``.
        left: Name of the first source.
        right: Name of the second source.
        measures: Null of each measure; empty without surrogates.
        rows: Number of rows compared.
        shared: Number of rows that both tables have.
        of: Number of rows of the smaller table.
        notes: What was left out, and why a measure is missing.
        observed: Value of each measure, with or without surrogates.
        parts: Parts of the models that the positions belong to; "" for a model with a single part.
        untested: Why the tables were not compared with chance; "" if they were, or if no surrogates were asked for.
        alike_in_profile: Correlation of what changes in the same manner along both tables of positions, at least
            twofold: "distance from the middle" or "squared step". It says nothing of their vectors.
        corrected: p of each measure corrected for all pairs and roles of a comparison in which it was tested (Holm
            1979); empty for a pair that was compared alone.
        among: Number of these tests, of the measure that was tested most often.
        least_found: Share of one table of positions that a rotated copy of the other has to make up so that this test
            alone finds it in 4 of 5 cases; ``None`` for tokens, and where nothing was tested.
        without_leading: CKA without the ``LEADING`` components of either table; ``None`` where it is undefined.
    """

    role: str
    left: str
    right: str
    measures: Mapping[str, Null]
    rows: int
    shared: int
    of: int
    notes: tuple[str, ...] = ()
    observed: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[str, str] = ("", "")
    untested: str = ""
    alike_in_profile: Mapping[str, float] = field(default_factory=dict)
    corrected: Mapping[str, float] = field(default_factory=dict)
    among: int = 1
    least_found: float | None = None
    without_leading: float | None = None

    def p(self, name: str) -> float | None:
        """Return the p value of a measure, corrected if others were tested beside it; ``None`` without a test."""
        null = self.measures.get(name)
        return None if null is None else self.corrected.get(name, null.p)

    @property
    def of_what(self) -> str:
        """What is compared, in words, including the parts of models with several."""
        return rows_of(self.role, self.parts)

    @property
    def coverage(self) -> float:
        """The share of the smaller table's rows that both tables have."""
        return self.shared / max(self.of, 1)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said of the pair: why it was not compared with chance, what is found, and profiles that are alike."""
        said = [f"not compared with chance: {self.untested}"] if self.untested else []
        if self.least_found is not None and (self.p("CKA") or 0) > LEVEL:
            said.append(local_variogram.power_note(self.least_found))
        if self.alike_in_profile:
            alike = self.alike_in_profile.items()
            each = " and ".join(f"{name} (correlation {number(value, digits=2)})" for name, value in alike)
            said.append(f"alike in profile, which says nothing of the vectors: {each}")
        return tuple(said)

    def columns(self) -> Columns:
        """Return one row per measure.

        ``measure``, ``value``, and ``tested``, the value that is compared with chance; ``chance_low``, ``chance_high``,
        ``p`` and ``draws`` of its null; ``p_corrected`` for all pairs and roles of a comparison; and ``untested``, why
        the tables were not compared with chance.
        """
        nulls = [self.measures.get(name) for name in self.observed]
        return {
            "measure": list(self.observed),
            "value": list(self.observed.values()),
            "tested": [None if null is None else null.observed for null in nulls],
            **chance_columns(nulls),
            "p_corrected": [self.p(name) for name in self.observed],
            "untested": [self.untested] * len(nulls),
        }


def align(  # noqa: PLR0913 - keywords with defaults
    left: Embeddings,
    right: Embeddings,
    role: str,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    sample: int = SAMPLE,
    fold_case: bool = False,
    keep: Keep = compute_always,
    progress: Progress | None = None,
) -> Alignment:
    """Compare the position or token tables of two sources.

    Positions are matched by number, as many as both have; tokens by their text without tokenizer marks, over a seeded
    sample.

    The null of tokens is a permutation of rows. That of positions keeps the smoothness of both tables, as it varies
    along them (``analysis.nulls.local_variogram``): a small p means that they agree beyond what two unrelated curves as
    smooth in the same places would. Where that cannot be told there is no p, and ``untested`` says why.
    ``docs/calibration.md`` lists how often independent tables of many kinds have p ≤ .05, and how often related ones
    do.

    Args:
        left: First source.
        right: Second source.
        role: ``"position"`` or ``"token"``.
        draws: Number of surrogates; 0 for none.
        seed: Random seed of the surrogates and the sample.
        sample: Maximum number of shared tokens compared.
        fold_case: Whether tokens are matched regardless of case.
        keep: Cache of nulls.
        progress: Callback for the share done, 0 to 1, and the stage.

    Raises:
        InputError: If there are fewer than 20 shared rows.
        MissingTableError: If a source has no such table.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.comparison.alignment import align
        >>> bert, gpt2 = hpe.extract("sample:bert"), hpe.extract("sample:gpt2")
        >>> round(align(bert, gpt2, "position", draws=0).observed["CKA"], 2)
        0.93
    """
    tables = tables_of(left, right, role)
    rows = shared_rows(left, right, role, fold_case=fold_case)
    shared, smaller = len(rows), min(table.shape[0] for table in tables)
    notes: list[str] = []
    if role == "token" and not tables[0].has_names:
        notes.append("no tokens are known: rows of one number are compared as if they were one token")
    if role == "token" and shared > sample:
        rows = rows[np.sort(np.random.default_rng(seed).choice(shared, sample, replace=False))]
        notes.append(f"measured on {sample:,} of {shared:,} shared tokens, sampled with seed {seed}")
    first, second = (TableSide(partial(table.take, rows[:, side])) for side, table in enumerate(tables))
    pair = TablePair(first, second, rows[:, 0])
    rest: float | None = None
    with suppress(InputError):
        rest = cka(*(without_leading(np.asarray(side.given, np.float64)) for side in (first, second)))
        notes.append(f"CKA without the {LEADING} leading components of either table is {number(rest)}")
    observed: dict[str, float] = {}
    # Rank measures come last, after the other measures have released their memory.
    for name in sorted(MEASURES, key=lambda name: name in _RANKED):
        try:
            observed[name] = pair.observed(name)
        except InputError as error:
            notes.append(f"{name}: {error}")
    observed = {name: observed[name] for name in MEASURES if name in observed}
    _give_back()

    parts = stacks(left, right, role)
    found = Alignment(role, left.name, right.name, {}, len(rows), shared, smaller, tuple(notes), observed, parts)
    found = replace(found, without_leading=rest)
    if draws < 1 or not observed:
        return found
    if role == "position":
        if all(isinstance(one.position, Absolute) and one.position.grid is not None for one in (left, right)):
            return replace(found, untested=GRIDS)
        return _beside_surrogates(found, pair, draws=draws, seed=seed)
    digests = (_digest(side.given) for side in (pair.left, pair.right))
    nulls = keep(
        ("pair", *digests, ",".join(observed), "permutation", str(draws), str(seed)),
        lambda: beside_permutations(pair, observed, draws=draws, seed=seed, progress=progress),
    )
    return replace(found, measures=nulls)


def _beside_surrogates(found: Alignment, pair: TablePair, *, draws: int, seed: int) -> Alignment:
    """Add the nulls of two tables of positions: one test of the cosines that both measures compare."""
    pair, notes = _testable(pair)
    observed = {name: pair.observed(name) for name in TESTED if name in found.observed}
    places = pair.places - pair.places[0]
    step = 1 + int(places[-1]) // local_variogram.MOST_ROWS
    if step > 1:
        notes.append(f"chance levels are of one position in {step}")
    taken = np.flatnonzero(places % step == 0)
    try:
        left, right = (
            local_variogram.Residuals(np.asarray(side.given, np.float64)[taken], places[taken] // step, seed=seed)
            for side in (pair.left, pair.right)
        )
    except InputError as error:
        return replace(found, notes=(*found.notes, *notes), untested=str(error))
    said, alike = local_variogram.profile_note(left, right)
    notes.append(said)
    if why := local_variogram.why_untestable(left, right):
        return replace(found, notes=(*found.notes, *notes), untested=why, alike_in_profile=alike)
    product, drawn = local_variogram.compare(left, right, draws=draws)
    if why := local_variogram.why_repeating(left, right, product, drawn):
        return replace(found, notes=(*found.notes, *notes), untested=why, alike_in_profile=alike)
    beyond = (drawn - product) / (left.size * right.size)
    measures = {
        name: beside(value, np.minimum(value + beyond, 1.0), seed=seed, kind="local variogram")
        for name, value in observed.items()
    }
    notes = [*found.notes, UNTESTED, *notes]
    least = local_variogram.least_found(left, right, drawn)
    return replace(found, measures=measures, notes=tuple(notes), alike_in_profile=alike, least_found=least)


def _testable(pair: TablePair) -> tuple[TablePair, list[str]]:
    """Return a pair of position tables without the rows of outlying norm, and a note that says which were left out."""
    tables = [np.asarray(side.given, np.float64) for side in (pair.left, pair.right)]
    special = np.unique(np.concatenate([outlying(np.linalg.norm(rows, axis=1)) for rows in tables]))
    notes: list[str] = []
    if not len(special):
        return pair, notes
    usual = np.setdiff1d(np.arange(len(pair.left)), special)
    notes.append(
        f"chance levels leave out positions of outlying norm: {some_rows(pair.places[special])} ({len(special)})"
    )
    left, right = (TableSide(rows[usual]) for rows in tables)
    return TablePair(left, right, pair.places[usual]), notes


def stacks(left: Embeddings, right: Embeddings, role: str) -> tuple[str, str]:
    """Return the parts that two sources' positions belong to; "" for tokens and for sources with a single part."""
    return (stack(left), stack(right)) if role == "position" else ("", "")


def _digest(rows: NDArray[np.floating]) -> str:
    sha = hashlib.sha256(f"{rows.shape}{rows.dtype.str}".encode())
    sha.update(np.ascontiguousarray(rows).data)
    return sha.hexdigest()


class TablePair:
    """Two tables of the same rows; intermediate results that several measures share are computed once."""

    def __init__(self, left: TableSide, right: TableSide, places: NDArray[np.int64] | None = None) -> None:
        self.left, self.right = left, right
        self.places = np.arange(len(left)) if places is None else places
        self.ranks: dict[str, RankedPair] = {}

    def ranked(self, name: str) -> RankedPair:
        """Return the ranks for a measure in ``_RANKED``. They are large, so only the most recent ones are kept."""
        if name not in self.ranks:
            count, both = len(self.left), (self.left, self.right)
            for side in both:
                side.let_go()
            self.ranks.clear()
            self.ranks[name] = RankedPair(count, (side.single(centred=name != "RSA") for side in both))
        return self.ranks[name]

    def observed(self, name: str) -> float:
        """Return a measure in ``MEASURES``."""
        if name in _RANKED and len(self.left) > MOST_SORTED:
            return self.ranked(name).correlation(np.arange(len(self.left)))
        return _TAKE[name](self.left, self.right)


_RANKED = ("RSA", "RSA, centred")
"""Measures based on ranks, which take far more memory than the others and are computed separately."""


def beside_permutations(
    pair: TablePair, observed: Mapping[str, float], *, draws: int, seed: int, progress: Progress | None = None
) -> dict[str, Null]:
    """Compare measures with the same measures of permuted rows; each permutation serves all measures.

    Args:
        pair: The tables, of which the rows of the second are permuted.
        observed: Observed values by name in ``MEASURES``.
        draws: Number of permutations.
        seed: Random seed of the permutations.
        progress: Callback for the share done, 0 to 1, and the stage.

    Returns:
        The null of each measure.
    """
    passes = 1 + sum(name in observed for name in _RANKED)
    found: list[dict[str, float]] = []
    for one in _permuted(pair, observed, draws, seed):
        found.append(one)
        if progress is not None:
            progress(len(found) / (passes * draws), f"surrogate {len(found):,} of {passes * draws:,}")
    drawn = {name: np.array([one[name] for one in found if name in one]) for name in observed}
    return {name: beside(observed[name], drawn[name], seed=seed, kind="permutation") for name in observed}


def _permuted(pair: TablePair, names: Collection[str], draws: int, seed: int) -> Iterator[dict[str, float]]:
    """Yield the measures for each permutation of the right rows, reusing what a permutation merely relabels."""
    left, right, nbytes = pair.left, pair.right, pair.left.given.nbytes
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(right)) for _ in range(draws)]

    def ranked(name: str) -> Measured:
        found = pair.ranked(name)
        return lambda number, order: {name: found.correlation(order)}

    def measured(number: int, order: NDArray[np.int64]) -> dict[str, float]:
        cross = cross_product(left, right, order, single=True)
        take: dict[str, Callable[[], float]] = {
            "CKA": lambda: _cka(left, right, cross, order),
            "Procrustes fit": lambda: _fit(left, right, cross),
            "shared neighbours": lambda: _overlap(left, right, order),
        }
        return {name: take[name]() for name in take if name in names}

    # One after the other, so that the memory of the ranks is released before the products need theirs.
    ranked_names = sorted((name for name in _RANKED if name in names), key=lambda name: name not in pair.ranks)
    for name in (*ranked_names, ""):
        measure = ranked(name) if name else measured
        # Compute shared intermediate results before several threads need them.
        yield measure(0, orders[0])
        yield from over_surrogates(measure, orders[1:], nbytes=nbytes)
        del measure
        pair.ranks.pop(name, None)
        for side in (left, right):
            side.let_go()
        _give_back()


def _give_back() -> None:
    """Return freed memory to the system, since glibc retains blocks as large as those of the ranks."""
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
