"""How alike two tables are as wholes, whatever their widths: CKA, RSA, Procrustes and neighbours, beside their nulls.

All four compare rows that stand for the same thing, position t or one token, and are unchanged by rotating, moving or
scaling either table. Biased CKA gives two random tables .54, and Procrustes is inflated alike: so CKA is the unbiased
one, and every number stands beside those of surrogates of the second table (``nulls``).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Progress, read_rows
from ..analysis.surrogates import DRAWS, Keep, Rows, compute_always, drifts, impostors, over_surrogates
from ..errors import InputError
from ..tables.embeddings import Embeddings, stack
from ..tables.null_comparison import Kind, Null, beside
from .matched_rows import shared_rows, tables_of
from .similarity_ranks import MOST_SORTED, RankedPair
from .table_side import (
    NEIGHBOURS,
    Measured,
    SurrogateSide,
    TableSide,
    cross_product,
    hsic,
    nuclear_norm,
    singular_values,
)

SAMPLE = 5_000
"""Shared tokens that two vocabularies are compared over at most, drawn with a seed."""


DRIFTS = (
    "ends elsewhere than it begins, which its impostors do not: a small p may only say that both tables drift, as it "
    "does for most pairs of independent random walks"
)


def cka(left: Rows, right: Rows) -> float:
    """Return the unbiased CKA of two sets of the same rows [n, p] and [n, q] with a linear kernel.

    HSIC₁ of Song et al. (2012), as Nguyen, Raghu & Kornblith (ICLR 2021) use it: about 0 for independent rows at any
    width, 1 for rows that differ by rotation and scale. Raises ``InputError`` for fewer than 4 rows, or where it is
    undefined because an HSIC₁(K, K) is not positive.
    """
    return _cka(TableSide(left), TableSide(right))


def every_cka(tables: Sequence[NDArray[np.floating]]) -> Rows:
    """Return the unbiased CKA of every two of many tables of the same rows [tables, tables], to six digits.

    From the pairs of rows, as Székely & Rizzo (2014) centre them: an inner product of n (n − 1)/2 numbers for each two
    tables, however wide they are. NaN where ``cka`` is undefined.
    """
    count = len(tables[0])
    if count < 4:
        raise InputError(f"CKA compares the same rows, at least 4; got {count}")
    above = np.triu_indices(count, 1)
    pairs = np.zeros((len(tables), len(above[0])), np.float32)
    for place, rows in enumerate(tables):
        centred = TableSide(rows).block(slice(None), single=False)
        kernel = centred @ centred.T
        np.fill_diagonal(kernel, 0)
        sums = kernel.sum(axis=1)
        kernel -= (sums[:, None] + sums) / (count - 2)
        kernel += sums.sum() / ((count - 1) * (count - 2))
        found = kernel[above]
        if (length := float(np.linalg.norm(found))) > 0 and TableSide(rows).length > 0:
            pairs[place] = found / length
    alike = np.asarray(pairs @ pairs.T, np.float64)
    undefined = ~pairs.any(axis=1)
    alike[undefined], alike[:, undefined] = np.nan, np.nan
    np.fill_diagonal(alike, np.where(undefined, np.nan, 1.0))
    return alike


def procrustes(left: Rows, right: Rows) -> float:
    """Return how much of one table the best rotation and scaling of the other leaves unexplained, 0 to 1.

    Both centred, with Frobenius norm 1: disparity 1 − s², s the nuclear norm of XᵀY (Schönemann 1966). Raises
    ``InputError`` where all rows of a table are the same.
    """
    return 1.0 - _fit(TableSide(left), TableSide(right))


def rsa(left: Rows, right: Rows, *, centred: bool = False) -> float:
    """Return the Spearman correlation of the cosines of all pairs of rows (Kriegeskorte 2008).

    ``centred`` takes them about the mean row: what all rows of a table share counts for nothing then. Raises
    ``InputError`` where the cosines of a table are all the same.
    """
    sides = TableSide(left), TableSide(right)
    return _rsa(*(side.centred for side in sides)) if centred else _rsa(*sides)


def neighbour_overlap(left: Rows, right: Rows, *, k: int = NEIGHBOURS) -> float:
    """Return the mean share of the ``k`` nearest rows, by cosine, that both tables agree on.

    Raises ``InputError`` for k beyond the rows.
    """
    return _overlap(TableSide(left, k=k), TableSide(right, k=k))


def _cka(left: TableSide, right: TableSide, cross: Rows | None = None, order: NDArray[np.int64] | None = None) -> float:
    if len(left) != len(right) or len(left) < 4:
        raise InputError(f"CKA compares the same rows, at least 4; got {len(left)} and {len(right)}")
    scale = _scale(left, right)
    cross = cross_product(left, right) if cross is None else cross
    return hsic(left, right, float(np.vdot(cross, cross)), order) / scale


def _scale(left: TableSide, right: TableSide) -> float:
    if not (min(left.length, right.length) > 0 and left.hsic > 0 and right.hsic > 0):
        raise InputError("CKA is undefined here: the rows of one table have too little in common with themselves")
    return math.sqrt(left.hsic * right.hsic)


def _fit(left: TableSide, right: TableSide, cross: Rows | None = None) -> float:
    if not min(left.length, right.length) > 0:
        raise InputError("Procrustes needs rows that differ; all rows of one table are the same")
    fitted = singular_values(cross_product(left, right)) if cross is None else nuclear_norm(cross)
    return min(fitted / (left.length * right.length), 1.0) ** 2


def _rsa(left: TableSide, right: TableSide) -> float:
    spread = math.sqrt(float(left.ranks @ left.ranks) * float(right.ranks @ right.ranks))
    if not spread > 0:
        raise InputError("RSA needs cosines that differ; those of one table are all the same")
    return float(left.ranks @ right.ranks) / spread


def _overlap(left: TableSide, right: TableSide, order: NDArray[np.int64] | None = None) -> float:
    """Return the share of common neighbours; with ``order``, of the right rows in another order."""
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
"""What two tables are compared by, larger for more alike; the fit of Procrustes is 1 − its disparity."""


@dataclass(frozen=True)
class Alignment:
    """How alike two tables are: each measure beside its null, over ``rows`` shared rows.

    ``shared`` of ``of`` rows are in both, of the smaller table; ``notes`` say what was left out, and why a measure is
    missing. ``observed`` has the measures alone, also where no surrogates were asked for. ``parts`` are those that the
    positions are of, "" where a model has one.
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

    @property
    def of_what(self) -> str:
        """What is compared, in words: of models of several parts also whose positions."""
        return rows_of(self.role, self.parts)

    @property
    def coverage(self) -> float:
        """The share of the smaller table's rows that both have."""
        return self.shared / max(self.of, 1)


def align(
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
    """Compare the ``role``, ``position`` or ``token``, of two sources.

    Positions are matched by their number, as many as both have; tokens by their text without the marks of their
    tokenizer, ``fold_case`` without case too, over a seeded sample. The null of tokens is a permutation, that of
    positions the impostor: the interval is that of impostors of the second table, and p the larger of those against
    impostors of either, since one table can be the easier one to imitate. Of independent smooth stationary tables 3 to
    7 % come out below .05 (``tests/test_alignment.py``). Of 500 pairs of independent random walks of 64 × 16 it is 94 %
    by CKA, 96 % by Procrustes and RSA, and 51 % by neighbours: an impostor ends where it began, so p means nothing for
    tables that drift, and a note says which do. Without ``draws`` there are no nulls. Raises ``InputError`` for fewer
    than 20 shared rows, ``MissingTableError`` without a table.
    """
    tables = tables_of(left, right, role)
    rows = shared_rows(left, right, role, fold_case=fold_case)
    kind: Kind = "impostor" if role == "position" else "permutation"
    shared, smaller = len(rows), min(table.shape[0] for table in tables)
    notes = []
    if role == "token" and shared > sample:
        rows = rows[np.sort(np.random.default_rng(seed).choice(shared, sample, replace=False))]
        notes.append(f"over {sample:,} of {shared:,} shared tokens, drawn with seed {seed}")
    pair = _Pair(*(TableSide(partial(read_rows, table, rows[:, side])) for side, table in enumerate(tables)))
    for one, side in ((left, pair.left), (right, pair.right)) if role == "position" else ():
        notes += [f"{one.name} {DRIFTS}"] if drifts(np.asarray(side.given, np.float64)) else []
    observed: dict[str, float] = {}
    # What ranks take is taken last, when the others have given back theirs.
    for name in sorted(MEASURES, key=lambda name: name in _RANKED):
        try:
            observed[name] = pair.observed(name)
        except InputError as error:
            notes.append(f"{name}: {error}")
    observed = {name: observed[name] for name in MEASURES if name in observed}
    _give_back()

    def compute() -> Mapping[str, Null]:
        return _beside_surrogates(pair, observed, kind=kind, draws=draws, seed=seed, progress=progress)

    digests = (_digest(side.given) for side in (pair.left, pair.right))
    key = ("pair", *digests, ",".join(observed), kind, str(draws), str(seed))
    measures = keep(key, compute) if draws > 0 and observed else {}
    notes += [f"{name}: no surrogate has it" for name in observed if draws > 0 and name not in measures]
    return Alignment(
        role,
        left.name,
        right.name,
        measures,
        len(rows),
        shared,
        smaller,
        tuple(notes),
        observed,
        stacks(left, right, role),
    )


def stacks(left: Embeddings, right: Embeddings, role: str) -> tuple[str, str]:
    """Return the parts of two sources that their positions are of; "" for words, and where a source has one only."""
    return (stack(left), stack(right)) if role == "position" else ("", "")


def rows_of(role: str, parts: tuple[str, str]) -> str:
    """Return what the rows of two tables are, such as "decoder positions", or "encoder and decoder positions"."""
    named = dict.fromkeys(part for part in parts if part)
    return f"{' and '.join(named)} {role}s".strip()


def _digest(rows: NDArray[np.floating]) -> str:
    sha = hashlib.sha256(f"{rows.shape}{rows.dtype.str}".encode())
    sha.update(np.ascontiguousarray(rows).data)
    return sha.hexdigest()


class _Pair:
    """Two tables of the same rows; what several measures of both need is computed once."""

    def __init__(self, left: TableSide, right: TableSide) -> None:
        self.left, self.right = left, right
        self.ranks: dict[str, RankedPair] = {}

    def ranked(self, name: str) -> RankedPair:
        """Return the ranks that a measure of ``_RANKED`` takes. They are large: only the last ones are kept."""
        if name not in self.ranks:
            count, both = len(self.left), (self.left, self.right)
            for side in both:
                side.let_go()
            self.ranks.clear()
            self.ranks[name] = RankedPair(count, (side.single(centred=name != "RSA") for side in both))
        return self.ranks[name]

    def observed(self, name: str) -> float:
        if name in _RANKED and len(self.left) > MOST_SORTED:
            return self.ranked(name).correlation(np.arange(len(self.left)))
        return _TAKE[name](self.left, self.right)


_RANKED = ("RSA", "RSA, centred")
"""The measures of ranks, which take far more memory than the others and are computed apart."""


def beside_surrogates(
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    observed: Mapping[str, float],
    *,
    kind: Kind,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Null]:
    """Set measures, by their names in ``MEASURES``, beside those of surrogates of the rows; one draw serves them all.

    Permutations are of the second rows; impostors are of either, and the larger p counts. A measure that no surrogate
    has is left out.
    """
    pair = _Pair(TableSide(x), TableSide(y))
    return _beside_surrogates(pair, observed, kind=kind, draws=draws, seed=seed, progress=progress)


def _beside_surrogates(
    pair: _Pair, observed: Mapping[str, float], *, kind: Kind, draws: int, seed: int, progress: Progress | None
) -> dict[str, Null]:
    if kind == "permutation":
        passes = 1 + sum(name in observed for name in _RANKED)
        sides = [_gathered(_permuted(pair, observed, draws, seed), passes * draws, progress)]
    else:
        both = pair.left, pair.right
        found = itertools.chain(*(_imitated(*turned, observed, draws, seed) for turned in (both, both[::-1])))
        whole = _gathered(found, 2 * draws, progress)
        sides = [whole[:draws], whole[draws:]]
    nulls = {}
    for name, value in observed.items():
        drawn = [np.array([one[name] for one in side if name in one]) for side in sides]
        if all(map(len, drawn)):
            each = [beside(value, values, seed=seed, kind=kind) for values in drawn]
            nulls[name] = replace(each[0], p=max(null.p for null in each))
    return nulls


def _gathered(found: Iterator[dict[str, float]], expected: int, progress: Progress | None) -> list[dict[str, float]]:
    out = []
    for one in found:
        out.append(one)
        if progress is not None:
            progress(len(out) / expected, f"surrogate {len(out):,} of {expected:,}")
    return out


def _imitated(
    fixed: TableSide, other: TableSide, names: Collection[str], draws: int, seed: int
) -> Iterator[dict[str, float]]:
    """Yield the measures of one table with each impostor of the other."""
    rows = np.asarray(other.given, np.float64)

    def measured(number: int, surrogate: Rows) -> dict[str, float]:
        side = SurrogateSide(surrogate)
        cross = cross_product(fixed, side, single=True)
        found: dict[str, float] = {}
        for name in names:
            with suppress(InputError):  # CKA can be undefined for one of them
                match name:
                    case "CKA":
                        found[name] = _cka(fixed, side, cross)
                    case "Procrustes fit":
                        found[name] = _fit(fixed, side, cross)
                    case _:
                        found[name] = _TAKE[name](fixed, side)
        return found

    return over_surrogates(measured, impostors(rows, draws=draws, seed=seed), nbytes=rows.nbytes)


def _permuted(pair: _Pair, names: Collection[str], draws: int, seed: int) -> Iterator[dict[str, float]]:
    """Yield the measures of rows with permutations of the others; what a permutation only renames is kept."""
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

    # One after the other: what ranks take is given back before the products take theirs.
    ranked_names = sorted((name for name in _RANKED if name in names), key=lambda name: name not in pair.ranks)
    for name in (*ranked_names, ""):
        measure = ranked(name) if name else measured
        # What all share is computed before several are at it.
        yield measure(0, orders[0])
        yield from over_surrogates(measure, orders[1:], nbytes=nbytes)
        del measure
        pair.ranks.pop(name, None)
        for side in (left, right):
            side.let_go()
        _give_back()


def _give_back() -> None:
    """Return freed memory to the system: glibc keeps blocks as large as those of the ranks for later."""
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
