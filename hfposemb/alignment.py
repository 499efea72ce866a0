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
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .embeddings import Embeddings, stack
from .errors import InputError
from .geometry import directed
from .nulls import DRAWS, Keep, Kind, Null, Rows, beside, compute_always, drifts, impostors, over_surrogates
from .position import table_in
from .similarity import Progress, read_rows
from .table import TOKEN_CLASSES, EmbeddingTable

SAMPLE = 5_000
"""Shared tokens that two vocabularies are compared over at most, drawn with a seed."""

FEWEST = 20
"""Shared rows below which nothing is compared: the spread of unbiased CKA over noise is .09 there."""

NEIGHBOURS = 10

MOST_SORTED = 1_024
"""Rows up to which the cosines of all pairs are sorted; beyond, their ranks are those of 262,144 bins."""

DRIFTS = (
    "ends elsewhere than it begins, which its impostors do not: a small p may only say that both tables drift, as it "
    "does for most pairs of independent random walks"
)

BINS, FEWER_BINS = 2**18, 2**16
PAIR_ROWS = 64

HELD_BYTES = 2**26
"""Rows of a table that are held while it is compared; more are read anew for each measure."""
PRODUCT_ROWS = 1024


def cka(left: Rows, right: Rows) -> float:
    """Return the unbiased CKA of two sets of the same rows [n, p] and [n, q] with a linear kernel.

    HSIC₁ of Song et al. (2012), as Nguyen, Raghu & Kornblith (ICLR 2021) use it: about 0 for independent rows at any
    width, 1 for rows that differ by rotation and scale. Raises ``InputError`` for fewer than 4 rows, or where it is
    undefined because an HSIC₁(K, K) is not positive.
    """
    return _cka(_Side(left), _Side(right))


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
        centred = _Side(rows).block(slice(None), single=False)
        kernel = centred @ centred.T
        np.fill_diagonal(kernel, 0)
        sums = kernel.sum(axis=1)
        kernel -= (sums[:, None] + sums) / (count - 2)
        kernel += sums.sum() / ((count - 1) * (count - 2))
        found = kernel[above]
        if (length := float(np.linalg.norm(found))) > 0 and _Side(rows).length > 0:
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
    return 1.0 - _fit(_Side(left), _Side(right))


def rsa(left: Rows, right: Rows, *, centred: bool = False) -> float:
    """Return the Spearman correlation of the cosines of all pairs of rows (Kriegeskorte 2008).

    ``centred`` takes them about the mean row: what all rows of a table share counts for nothing then. Raises
    ``InputError`` where the cosines of a table are all the same.
    """
    sides = _Side(left), _Side(right)
    return _rsa(*(side.centred for side in sides)) if centred else _rsa(*sides)


def neighbour_overlap(left: Rows, right: Rows, *, k: int = NEIGHBOURS) -> float:
    """Return the mean share of the ``k`` nearest rows, by cosine, that both tables agree on.

    Raises ``InputError`` for k beyond the rows.
    """
    return _overlap(_Side(left, k=k), _Side(right, k=k))


Given: TypeAlias = NDArray[np.floating]

Measured: TypeAlias = Callable[[int, NDArray[np.int64]], dict[str, float]]
"""Takes measures of the permutation of a number."""


class _Side:
    """The rows of one table and what the measures need of them, each computed once.

    Those of a ``surrogate`` are multiplied in float32 and ranked by bins, which is six digits and three times as fast.
    Rows that come as a function are read when they are needed, anew where they were let go.
    """

    def __init__(self, rows: Given | Callable[[], Given], *, k: int = NEIGHBOURS, surrogate: bool = False) -> None:
        self.rows, self.k, self.surrogate = rows, k, surrogate

    def __len__(self) -> int:
        return self.count

    @cached_property
    def count(self) -> int:
        return len(self.given)

    @cached_property
    def given(self) -> Given:
        return self.rows() if callable(self.rows) else self.rows

    def let_go(self) -> None:
        """Hold the rows no longer, where they are many and can be read anew."""
        if callable(self.rows) and self.given.nbytes > HELD_BYTES:
            del self.given

    def single(self, *, centred: bool) -> NDArray[np.float32]:
        """Return the rows in float32, ``centred`` about their mean."""
        found = np.asarray(self.given, np.float32)
        return found - self.mean.astype(np.float32) if centred else found

    @cached_property
    def mean(self) -> Rows:
        return np.asarray(self.given.mean(axis=0, dtype=np.float64))

    def block(self, rows: slice | NDArray[np.int64], *, single: bool) -> NDArray[np.floating]:
        """Return some rows about the mean of all: moving them changes no HSIC, and centred ones lose no digits."""
        dtype = np.float32 if single else np.float64
        return np.asarray(np.asarray(self.given[rows], dtype) - self.mean.astype(dtype))

    @cached_property
    def centred(self) -> _Side:
        """The same rows about their mean."""
        return _Side(self.block(slice(None), single=self.surrogate), k=self.k, surrogate=self.surrogate)

    @cached_property
    def own(self) -> Rows:
        """The squared length of every row about the mean [n]."""
        blocks = (self.block(rows, single=self.surrogate) for rows in _slices(len(self)))
        return np.concatenate([np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in blocks])

    @cached_property
    def length(self) -> float:
        """The Frobenius norm; 0 where all rows are the same but for rounding."""
        total = float(self.own.sum())
        return math.sqrt(total) if total > 1e-28 * len(self) * float(self.mean @ self.mean) else 0.0

    @cached_property
    def hsic(self) -> float:
        cross = _cross(self, self, single=self.surrogate)
        return _hsic(self, self, float(np.vdot(cross, cross)))

    @cached_property
    def cosines(self) -> NDArray[np.floating]:
        unit = directions(np.asarray(self.given, np.float32 if self.surrogate else np.float64))
        return np.asarray(unit @ unit.T)

    @cached_property
    def ranks(self) -> Rows:
        """The ranks of the cosines of all pairs [n(n − 1)/2], ties at their mean, about their mean."""
        values = self.cosines[np.triu(np.ones((len(self), len(self)), bool), 1)]
        ranks = _binned_ranks(values) if self.surrogate else _mean_ranks(values)
        return np.asarray(ranks - ranks.mean())

    @cached_property
    def nearest(self) -> NDArray[np.int64]:
        if not 1 <= self.k < len(self):
            raise InputError(f"{len(self)} rows have 1 to {len(self) - 1} neighbours each; got k = {self.k}")
        near = np.empty((len(self), self.k), np.int64)
        for start, block in _cosine_blocks(self.given):
            rows = np.arange(len(block))
            block[rows, start + rows] = -np.inf
            near[start : start + len(block)] = np.argpartition(block, -self.k, axis=1)[:, -self.k :]
        return near


class _Surrogate(_Side):
    """The rows of a surrogate, which is measured once: all comes from one product of its rows about their mean."""

    def __init__(self, rows: Given, *, k: int = NEIGHBOURS) -> None:
        super().__init__(rows, k=k, surrogate=True)

    @cached_property
    def around(self) -> NDArray[np.floating]:
        """The rows about their mean, in float32."""
        return self.block(slice(None), single=True)

    @cached_property
    def gram(self) -> NDArray[np.floating]:
        """The inner products of the rows about their mean [n, n]."""
        return np.asarray(self.around @ self.around.T)

    @cached_property
    def hsic(self) -> float:
        # The squares of XXᵀ add up to those of XᵀX.
        squares = sum(float(np.vdot(self.gram[rows], self.gram[rows])) for rows in _slices(len(self), PAIR_ROWS))
        return _hsic(self, self, squares)

    @cached_property
    def cosines(self) -> NDArray[np.floating]:
        mean = self.mean.astype(np.float32)
        along = self.around @ mean + np.float32(mean @ mean / 2)
        return _scaled(self.gram + along[:, None] + along, np.einsum("ij,ij->i", self.given, self.given))

    @cached_property
    def centred(self) -> _Side:
        side = _Side(self.around, k=self.k, surrogate=True)
        side.cosines = _scaled(self.gram.copy(), self.own)
        return side

    @cached_property
    def nearest(self) -> NDArray[np.int64]:
        if not 1 <= self.k < len(self):
            raise InputError(f"{len(self)} rows have 1 to {len(self) - 1} neighbours each; got k = {self.k}")
        cosines = self.cosines.copy()
        np.fill_diagonal(cosines, -np.inf)
        return np.argpartition(cosines, -self.k, axis=1)[:, -self.k :]


def _scaled(products: NDArray[np.floating], squares: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return inner products as cosines, in place; 0 for rows without a direction."""
    lengths = np.sqrt(squares)
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(products.dtype)
    products *= scale[:, None]
    products *= scale
    return products


def directions(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows at length 1, in the precision that they have; those that are zero stay so."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


def _mean_ranks(values: NDArray[np.floating]) -> Rows:
    order = np.argsort(values)
    placed = values[order]
    first = np.flatnonzero(np.diff(placed, prepend=-np.inf))
    counts = np.diff(first, append=len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(first + (counts - 1) / 2, counts)
    return ranks


def _binned_ranks(values: NDArray[np.floating]) -> Rows:
    """Return the mean rank of all values in the same of 65,536 equal bins."""
    low, high = float(values.min()), float(values.max())
    bins = ((values - low) * ((FEWER_BINS - 1) / max(high - low, 1e-30))).astype(np.int32)
    counts = np.bincount(bins, minlength=FEWER_BINS)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[bins])


def _slices(count: int, step: int = PRODUCT_ROWS) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, count, step))


def _cross(left: _Side, right: _Side, order: NDArray[np.int64] | None = None, *, single: bool = False) -> Rows:
    """Return XᵀY of the rows about their means [p, q], some rows at a time; ``order`` is that of the right ones."""
    total = np.zeros((left.given.shape[1], right.given.shape[1]))
    for rows in _slices(len(left)):
        block = left.block(rows, single=single)
        # numpy multiplies an array with itself at half the cost.
        same = right is left and order is None
        other = block if same else right.block(rows if order is None else order[rows], single=single)
        total += block.T @ other
    return total


def _hsic(left: _Side, right: _Side, squares: float, order: NDArray[np.int64] | None = None) -> float:
    """Return HSIC₁ [Song et al. 2012, eq. 5] from the ``squares`` of XᵀY, without a matrix of all pairs.

    Centred rows add up to nothing, so a row of a kernel without its diagonal adds up to minus its own square.
    """
    n = len(left)
    own = float(left.own @ (right.own if order is None else right.own[order]))
    total = float(left.own.sum() * right.own.sum()) / ((n - 1) * (n - 2))
    return (squares - own + total - 2 / (n - 2) * own) / (n * (n - 3))


def _cka(left: _Side, right: _Side, cross: Rows | None = None, order: NDArray[np.int64] | None = None) -> float:
    if len(left) != len(right) or len(left) < 4:
        raise InputError(f"CKA compares the same rows, at least 4; got {len(left)} and {len(right)}")
    scale = _scale(left, right)
    cross = _cross(left, right) if cross is None else cross
    return _hsic(left, right, float(np.vdot(cross, cross)), order) / scale


def _scale(left: _Side, right: _Side) -> float:
    if not (min(left.length, right.length) > 0 and left.hsic > 0 and right.hsic > 0):
        raise InputError("CKA is undefined here: the rows of one table have too little in common with themselves")
    return math.sqrt(left.hsic * right.hsic)


def _fit(left: _Side, right: _Side, cross: Rows | None = None) -> float:
    if not min(left.length, right.length) > 0:
        raise InputError("Procrustes needs rows that differ; all rows of one table are the same")
    fitted = _singular(_cross(left, right)) if cross is None else _nuclear(cross)
    return min(fitted / (left.length * right.length), 1.0) ** 2


def _singular(matrix: Rows) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False).sum())


def _nuclear(matrix: Rows) -> float:
    """Return the sum of the singular values, to about six digits and four times as fast as by the SVD."""
    squares = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0)).sum())


def _rsa(left: _Side, right: _Side) -> float:
    spread = math.sqrt(float(left.ranks @ left.ranks) * float(right.ranks @ right.ranks))
    if not spread > 0:
        raise InputError("RSA needs cosines that differ; those of one table are all the same")
    return float(left.ranks @ right.ranks) / spread


def _overlap(left: _Side, right: _Side, order: NDArray[np.int64] | None = None) -> float:
    """Return the share of common neighbours; with ``order``, of the right rows in another order."""
    near = right.nearest if order is None else np.argsort(order)[right.nearest[order]]
    return float((left.nearest[:, :, None] == near[:, None, :]).sum() / near.size)


def _of_rows(take: Callable[[_Side, _Side], float], left: Rows, right: Rows) -> float:
    return take(_Side(left), _Side(right))


_TAKE: Mapping[str, Callable[[_Side, _Side], float]] = {
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
    pair = _Pair(*(_Side(partial(read_rows, table, rows[:, side])) for side, table in enumerate(tables)))
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

    def __init__(self, left: _Side, right: _Side) -> None:
        self.left, self.right = left, right
        self.ranks: dict[str, _Ranked] = {}

    def ranked(self, name: str) -> _Ranked:
        """Return the ranks that a measure of ``_RANKED`` takes. They are large: only the last ones are kept."""
        if name not in self.ranks:
            count, both = len(self.left), (self.left, self.right)
            for side in both:
                side.let_go()
            self.ranks.clear()
            self.ranks[name] = _Ranked(count, (side.single(centred=name != "RSA") for side in both))
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
    pair = _Pair(_Side(x), _Side(y))
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


def _imitated(fixed: _Side, other: _Side, names: Collection[str], draws: int, seed: int) -> Iterator[dict[str, float]]:
    """Yield the measures of one table with each impostor of the other."""
    rows = np.asarray(other.given, np.float64)

    def measured(number: int, surrogate: Rows) -> dict[str, float]:
        side = _Surrogate(surrogate)
        cross = _cross(fixed, side, single=True)
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
        cross = _cross(left, right, order, single=True)
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


class _Ranked:
    """The ranks of the cosines of all pairs of two tables, as small numbers, for correlations in any order.

    To 1 part in 65,536, or in 256 beyond 1,024 rows, which moves a correlation by less than 2e-5 where it was tried. Of
    the first table the blocks on and above the diagonal are kept, of the second all pairs.
    """

    def __init__(self, count: int, tables: Iterator[NDArray[np.floating]]) -> None:
        self.count = count
        dtype: type[np.unsignedinteger[Any]] = np.uint16 if self.count <= MOST_SORTED else np.uint8
        self.blocks: list[tuple[int, NDArray[np.unsignedinteger[Any]]]] = []
        self.square = np.empty((self.count, self.count), dtype)
        means, deviations = [], []
        for place, rows in enumerate(tables):
            found = _rank_bins(rows, dtype)
            means.append(np.float32(found.mean))
            deviations.append(found.deviation)
            for start, block in _cosine_blocks(rows, upper=True):
                ranks = found.ranks[_bins(block)]
                if place == 0:
                    self.blocks.append((start, ranks))
                else:
                    self.square[start : start + len(ranks), start:] = ranks
                    self.square[start:, start : start + len(ranks)] = ranks.T
            del rows  # before the next ones are made
        if not min(deviations) > 0:
            raise InputError("RSA needs cosines that differ; those of one table are all the same")
        self.means = means
        self.scale = deviations[0] * deviations[1] * self.count * (self.count - 1) / 2

    def correlation(self, order: NDArray[np.int64]) -> float:
        """Return the correlation of the ranks with the second rows in another order."""
        total = 0.0
        for start, block in self.blocks:
            a = block.astype(np.float32)
            a -= self.means[0]
            a[:, : len(block)] = np.triu(a[:, : len(block)], 1)
            b = self.square[order[start : start + len(block)]].take(order[start:], axis=1).astype(np.float32)
            b -= self.means[1]
            total += float(np.vdot(a, b))
        return total / self.scale


@dataclass(frozen=True, eq=False)
class _RankBins:
    """The mean rank of all cosines in a bin, scaled to the range of its type, and mean and deviation over all pairs."""

    ranks: NDArray[np.unsignedinteger[Any]]
    mean: float
    deviation: float


def _rank_bins(rows: NDArray[np.floating], dtype: type[np.unsignedinteger[Any]]) -> _RankBins:
    counts = np.zeros(BINS, np.int64)
    for _, block in _cosine_blocks(rows, upper=True):
        bins = _bins(block)
        corner = bins[:, : len(bins)]
        counts += np.bincount(corner[np.triu_indices(len(bins), 1)], minlength=BINS)
        counts += np.bincount(bins[:, len(bins) :].ravel(), minlength=BINS)
    pairs = int(counts.sum())
    ranks = np.cumsum(counts) - (counts + 1) / 2
    scaled = np.rint(ranks.clip(0) * (np.iinfo(dtype).max / max(pairs - 1, 1))).astype(dtype)
    wide = scaled.astype(np.float64)
    mean = float(counts @ wide) / pairs
    return _RankBins(scaled, mean, math.sqrt(float(counts @ np.square(wide - mean)) / pairs))


def _cosine_blocks(rows: NDArray[np.floating], *, upper: bool = False) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first row, cosines of some rows with all); ``upper`` with those from the first of them on.

    0 for rows without a direction.
    """
    single = np.asarray(rows, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", single, single))
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    for start in range(0, len(single), PAIR_ROWS):
        part = slice(start, start + PAIR_ROWS)
        others = slice(start if upper else 0, None)
        block = (single[part] * scale[part, None]) @ single[others].T
        block *= scale[others]
        yield start, block


def _bins(cosines: NDArray[np.float32]) -> NDArray[np.int32]:
    scaled = cosines + np.float32(1)
    scaled *= BINS / 2
    return scaled.clip(0, BINS - 1, out=scaled).astype(np.int32)


def tables_of(left: Embeddings, right: Embeddings, role: str) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return the tables of both sources that ``role``, ``position`` or ``token``, names.

    Raises ``InputError`` for another role, ``MissingTableError`` without a table.
    """
    if role not in ("position", "token"):
        raise InputError(f'two sources are compared by "position" or "token"; got {role!r}')
    if role == "position":
        return table_in(left.position), table_in(right.position)
    return left.token, right.token


def shared_rows(left: Embeddings, right: Embeddings, role: str, *, fold_case: bool = False) -> NDArray[np.int64]:
    """Return the pairs of rows [shared, 2] that stand for the same in both and have a direction.

    Positions are matched by their number; tokens by their text without the marks of their tokenizer, ``fold_case``
    without case too. Raises ``InputError`` for fewer than 20.
    """
    tables = tables_of(left, right, role)
    rows = _same_positions(*tables) if role == "position" else _same_tokens(*tables, fold_case=fold_case)
    if len(rows) < FEWEST:
        raise InputError(f"{left.name} and {right.name} share {len(rows)} {role}s; at least {FEWEST} are needed")
    return rows


def _same_positions(left: EmbeddingTable, right: EmbeddingTable) -> NDArray[np.int64]:
    count = min(left.shape[0], right.shape[0])
    both = np.flatnonzero(directed(left)[:count] & directed(right)[:count])
    return np.stack([both, both], axis=1)


def _same_tokens(left: EmbeddingTable, right: EmbeddingTable, *, fold_case: bool) -> NDArray[np.int64]:
    """Return pairs of rows [shared, 2] of tokens that read the same, in the order of the left table."""
    rows = [by_text(table, fold_case=fold_case) for table in (left, right)]
    usable = [directed(table) for table in (left, right)]
    pairs = [
        (row, rows[1][text])
        for text, row in rows[0].items()
        if text in rows[1] and usable[0][row] and usable[1][rows[1][text]]
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def by_text(table: EmbeddingTable, *, fold_case: bool = False) -> dict[str, int]:
    """Return the row of every text without its marks, continuations of a word apart; of several rows the first."""
    found: dict[str, int] = {}
    continued = table.labels.classes == TOKEN_CLASSES.index("continuation")
    for row, text in enumerate(table.labels):
        plain = text.strip().removeprefix("##")
        if plain:
            plain = plain.casefold() if fold_case else plain
            found.setdefault(f"##{plain}" if continued[row] else plain, row)
    return found
