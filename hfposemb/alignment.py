"""How alike two tables are as wholes, whatever their widths: CKA, RSA, Procrustes and neighbours, beside their nulls.

All four compare rows that stand for the same thing, position t or one token, and are unchanged by rotating, moving or
scaling either table. Biased CKA gives two random tables .54, and Procrustes is inflated alike: so CKA is the unbiased
one, and every number stands beside those of surrogates of the second table (``nulls``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .embeddings import Embeddings
from .errors import InputError
from .geometry import directed
from .nulls import DRAWS, Kind, Null, Rows, impostors
from .position import table_in
from .similarity import nearest_unit_rows, read_rows
from .table import TOKEN_CLASSES, EmbeddingTable

SAMPLE = 5_000
"""Shared tokens that two vocabularies are compared over at most, drawn with a seed."""

FEWEST = 20
"""Shared rows below which nothing is compared: the spread of unbiased CKA over noise is .09 there."""

NEIGHBOURS = 10


def cka(left: Rows, right: Rows) -> float:
    """Return the unbiased CKA of two sets of the same rows [n, p] and [n, q] with a linear kernel.

    HSIC₁ of Song et al. (2012), as Nguyen, Raghu & Kornblith (ICLR 2021) use it: about 0 for independent rows at any
    width, 1 for rows that differ by rotation and scale. Raises ``InputError`` for fewer than 4 rows, or where it is
    undefined because an HSIC₁(K, K) is not positive.
    """
    if len(left) != len(right) or len(left) < 4:
        raise InputError(f"CKA compares the same rows, at least 4; got {len(left)} and {len(right)}")
    own = _hsic(left, left) * _hsic(right, right)
    if not own > 0:
        raise InputError("CKA is undefined here: the rows of one table have too little in common with themselves")
    return _hsic(left, right) / float(np.sqrt(own))


def _hsic(left: Rows, right: Rows) -> float:
    """Return HSIC₁ [Song et al. 2012, eq. 5] from the features, without a matrix of all pairs."""
    n = len(left)
    # Moving the rows changes no HSIC, and centred ones lose no digits.
    x, y = left - left.mean(axis=0), right - right.mean(axis=0)
    own_x, own_y = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    # Row sums of both kernels without their diagonals; centred rows add up to nothing.
    sums_x, sums_y = x @ x.sum(axis=0) - own_x, y @ y.sum(axis=0) - own_y
    both = float((np.abs(x.T @ y) ** 2).sum() - own_x @ own_y)
    total = sums_x.sum() * sums_y.sum() / ((n - 1) * (n - 2))
    return float((both + total - 2 / (n - 2) * (sums_x @ sums_y)) / (n * (n - 3)))


def procrustes(left: Rows, right: Rows) -> float:
    """Return how much of one table the best rotation and scaling of the other leaves unexplained, 0 to 1.

    Both centred, with Frobenius norm 1: disparity 1 − s², s the nuclear norm of XᵀY (Schönemann 1966). Raises
    ``InputError`` where all rows of a table are the same.
    """
    x, y = left - left.mean(axis=0), right - right.mean(axis=0)
    lengths = np.linalg.norm(x), np.linalg.norm(y)
    if not min(lengths) > 0:
        raise InputError("Procrustes needs rows that differ; all rows of one table are the same")
    fitted = float(np.linalg.svd(x.T @ y, compute_uv=False).sum() / (lengths[0] * lengths[1]))
    return 1.0 - min(fitted, 1.0) ** 2


def rsa(left: Rows, right: Rows) -> float:
    """Return the Spearman correlation of the cosines of all pairs of rows (Kriegeskorte 2008).

    Raises ``InputError`` where the cosines of a table are all the same.
    """
    return _correlation(_ranks(left), _ranks(right))


def _ranks(rows: Rows) -> NDArray[np.float64]:
    """Return the ranks of the cosines of all pairs [n(n − 1)/2], ties at their mean."""
    from scipy.stats import rankdata

    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return np.asarray(rankdata((unit @ unit.T)[np.triu_indices(len(rows), 1)]), np.float64)


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    spread = float(np.sqrt((x @ x) * (y @ y)))
    if not spread > 0:
        raise InputError("RSA needs cosines that differ; those of one table are all the same")
    return float(x @ y) / spread


def neighbour_overlap(left: Rows, right: Rows, *, k: int = NEIGHBOURS) -> float:
    """Return the mean share of the ``k`` nearest rows, by cosine, that both tables agree on.

    Raises ``InputError`` for k beyond the rows.
    """
    if not 1 <= k < len(left):
        raise InputError(f"{len(left)} rows have 1 to {len(left) - 1} neighbours each; got k = {k}")
    near = [_nearest(rows, k) for rows in (left, right)]
    return float(np.mean([len(np.intersect1d(a, b, assume_unique=True)) for a, b in zip(*near, strict=True)]) / k)


def _nearest(rows: Rows, k: int) -> NDArray[np.int64]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0).astype(np.float32)
    return nearest_unit_rows(unit, unit, np.arange(len(rows)), k)


MEASURES: Mapping[str, Callable[[Rows, Rows], float]] = {
    "CKA": cka,
    "RSA": rsa,
    "Procrustes fit": lambda left, right: 1.0 - procrustes(left, right),
    "shared neighbours": neighbour_overlap,
}
"""What two tables are compared by, larger for more alike; the fit of Procrustes is 1 − its disparity."""


@dataclass(frozen=True)
class Alignment:
    """How alike two tables are: each measure beside its null, over ``rows`` shared rows.

    ``shared`` of ``of`` rows are in both, of the smaller table; ``notes`` say what was left out, and why a measure is
    missing.
    """

    role: str
    left: str
    right: str
    measures: Mapping[str, Null]
    rows: int
    shared: int
    of: int
    notes: tuple[str, ...] = ()

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
) -> Alignment:
    """Compare the ``role``, ``position`` or ``token``, of two sources.

    Positions are matched by their number, as many as both have; tokens by their text without the marks of their
    tokenizer, ``fold_case`` without case too, over a seeded sample. The null of tokens is a permutation, that of
    positions the impostor: the interval is that of impostors of the second table, and p the larger of those against
    impostors of either, since one table can be the easier one to imitate. Of independent smooth tables 3 to 7 % come
    out below .05 (``tests/test_alignment.py``). Raises ``InputError`` for fewer than 20 shared rows,
    ``MissingTableError`` without a table.
    """
    tables = tables_of(left, right, role)
    rows = shared_rows(left, right, role, fold_case=fold_case)
    kind: Kind = "impostor" if role == "position" else "permutation"
    shared, smaller = len(rows), min(table.shape[0] for table in tables)
    if shared < FEWEST:
        raise InputError(f"{left.name} and {right.name} share {shared} {role}s; at least {FEWEST} are needed")
    notes = []
    if role == "token" and shared > sample:
        rows = rows[np.sort(np.random.default_rng(seed).choice(shared, sample, replace=False))]
        notes.append(f"over {sample:,} of {shared:,} shared tokens, drawn with seed {seed}")
    x, y = (np.asarray(read_rows(table, rows[:, side]), np.float64) for side, table in enumerate(tables))
    measures = {}
    for name, measure in MEASURES.items():
        try:
            measures[name] = _beside(name, measure, x, y, kind=kind, draws=draws, seed=seed)
        except InputError as error:
            notes.append(f"{name}: {error}")
    return Alignment(role, left.name, right.name, measures, len(rows), shared, smaller, tuple(notes))


def _beside(
    name: str, measure: Callable[[Rows, Rows], float], x: Rows, y: Rows, *, kind: Kind, draws: int, seed: int
) -> Null:
    observed = measure(x, y)
    if kind == "permutation":
        sides = [np.array(list(_permuted(name, measure, x, y, draws=draws, seed=seed)))]
    else:
        sides = [
            np.array([measure(x, other) for other in impostors(y, draws=draws, seed=seed)]),
            np.array([measure(other, y) for other in impostors(x, draws=draws, seed=seed)]),
        ]
    low, high = np.quantile(sides[0], [0.025, 0.975])
    p = max((1 + int((found >= observed).sum())) / (draws + 1) for found in sides)
    return Null(observed, float(sides[0].mean()), float(low), float(high), p, draws, seed, kind)


def _permuted(
    name: str, measure: Callable[[Rows, Rows], float], x: Rows, y: Rows, *, draws: int, seed: int
) -> Iterator[float]:
    """Yield a measure for permutations of the second rows; what a permutation only renames is computed once."""
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(y)) for _ in range(draws))
    if name == "shared neighbours":
        left, right = _nearest(x, NEIGHBOURS), _nearest(y, NEIGHBOURS)
        for order in orders:
            renamed = np.argsort(order)[right[order]]
            same = (left[:, :, None] == renamed[:, None, :]).any(axis=2).sum()
            yield float(same) / left.size
        return
    if name == "RSA":
        # Ranks of all pairs as matrices, in float32: a rank of 12.5 million keeps its seven leading digits.
        first, second = (_rank_matrix(rows) for rows in (x, y))
        for order in orders:
            yield _product(first, second, order) / (len(x) * (len(x) - 1))
        return
    for order in orders:
        yield measure(x, y[order])


def _rank_matrix(rows: Rows) -> NDArray[np.float32]:
    """Return the standardised ranks of the cosines of all pairs [n, n], zero on the diagonal."""
    ranks = _ranks(rows)
    matrix = np.zeros((len(rows), len(rows)), np.float32)
    matrix[np.triu_indices(len(rows), 1)] = (ranks - ranks.mean()) / ranks.std()
    return np.asarray(matrix + matrix.T)


def _product(first: NDArray[np.float32], second: NDArray[np.float32], order: NDArray[np.int64]) -> float:
    """Return the sum of ``first`` times ``second`` with its rows and columns in another order, some rows at a time."""
    total = 0.0
    for start in range(0, len(first), 256):
        total += float(np.vdot(first[start : start + 256], second[order[start : start + 256]].take(order, axis=1)))
    return total


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
    without case too.
    """
    tables = tables_of(left, right, role)
    return _same_positions(*tables) if role == "position" else _same_tokens(*tables, fold_case=fold_case)


def _same_positions(left: EmbeddingTable, right: EmbeddingTable) -> NDArray[np.int64]:
    count = min(left.shape[0], right.shape[0])
    both = np.flatnonzero(directed(left)[:count] & directed(right)[:count])
    return np.stack([both, both], axis=1)


def _same_tokens(left: EmbeddingTable, right: EmbeddingTable, *, fold_case: bool) -> NDArray[np.int64]:
    """Return pairs of rows [shared, 2] of tokens that read the same, in the order of the left table."""
    rows = [_by_text(table, fold_case=fold_case) for table in (left, right)]
    usable = [directed(table) for table in (left, right)]
    pairs = [
        (row, rows[1][text])
        for text, row in rows[0].items()
        if text in rows[1] and usable[0][row] and usable[1][rows[1][text]]
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _by_text(table: EmbeddingTable, *, fold_case: bool) -> dict[str, int]:
    """Return the row of every text without its marks, continuations of a word apart; of several rows the first."""
    found: dict[str, int] = {}
    continued = table.labels.classes == TOKEN_CLASSES.index("continuation")
    for row, text in enumerate(table.labels):
        plain = text.strip().removeprefix("##")
        if plain:
            plain = plain.casefold() if fold_case else plain
            found.setdefault(f"##{plain}" if continued[row] else plain, row)
    return found
