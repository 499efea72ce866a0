"""One table of a pair, with the intermediate results that several measures share, and ranks of its cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.nulls.surrogates import Rows
from ..analysis.positions.shift_operator import leading
from ..errors import InputError
from ..lazy_attributes import lazy_attribute

MOST_SORTED = 1_024
"""Number of rows up to which the cosines of all pairs are sorted; beyond, ranks are those of 262,144 bins."""


BINS = 2**18
PAIR_ROWS = 64


def mean_ranks(values: NDArray[np.floating]) -> Rows:
    """Return the rank of each value [n], from 0; ties get their mean rank."""
    order = np.argsort(values)
    placed = values[order]
    ranks = np.empty(len(values))
    if (placed[1:] > placed[:-1]).all():
        ranks[order] = np.arange(len(values))
        return ranks
    first = np.flatnonzero(np.diff(placed, prepend=-np.inf))
    counts = np.diff(first, append=len(values))
    ranks[order] = np.repeat(first + (counts - 1) / 2, counts)
    return ranks


class RankedPair:
    """Ranks of the cosines of all pairs of two tables as small integers, for correlations under any permutation.

    Ranks are quantised to 1 in 65,536, or to 1 in 256 beyond 1,024 rows, which changed a correlation by less than 2e-5
    in tests. Of the first table only blocks on and above the diagonal are kept; of the second, all pairs.
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
            for start, block in cosine_blocks(rows, upper=True):
                ranks = found.ranks[_bins(block)]
                if place == 0:
                    self.blocks.append((start, ranks))
                else:
                    self.square[start : start + len(ranks), start:] = ranks
                    self.square[start:, start : start + len(ranks)] = ranks.T
            del rows  # release before the next table is made
        if not min(deviations) > 0:
            raise InputError("RSA needs cosines that differ; all cosines of one table are equal")
        self.means = means
        self.scale = deviations[0] * deviations[1] * self.count * (self.count - 1) / 2

    def correlation(self, order: NDArray[np.int64]) -> float:
        """Return the correlation of the ranks with the second rows permuted by ``order`` [n]."""
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
    """Mean rank of each bin of cosines, scaled to the integer type; mean and standard deviation are over all pairs."""

    ranks: NDArray[np.unsignedinteger[Any]]
    mean: float
    deviation: float


def _rank_bins(rows: NDArray[np.floating], dtype: type[np.unsignedinteger[Any]]) -> _RankBins:
    counts = np.zeros(BINS, np.int64)
    for _, block in cosine_blocks(rows, upper=True):
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


def cosine_blocks(rows: NDArray[np.floating], *, upper: bool = False) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first row, cosines [m, n]) for blocks of rows; 0 for rows without a direction.

    Args:
        rows: Rows [n, d].
        upper: Whether to include only the columns from the block's first row on.
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


NEIGHBOURS = 10
HELD_BYTES = 2**26
"""Maximum size of the rows held during a comparison, in bytes; larger tables are read again for each measure."""


PRODUCT_ROWS = 1024

LEADING = 3
"""Number of components without which CKA is given too; a few often decide it (Mu & Viswanath 2018)."""


Given: TypeAlias = NDArray[np.floating]


Measured: TypeAlias = Callable[[int, NDArray[np.int64]], dict[str, float]]
"""Computes the measures of one permutation, from its number and order."""


class TableSide:
    """Rows of one table and the intermediate results of the measures, each computed once.

    Rows given as a function are read when needed, and again after ``let_go``.
    """

    def __init__(self, rows: Given | Callable[[], Given], *, k: int = NEIGHBOURS) -> None:
        self.rows, self.k = rows, k

    def __len__(self) -> int:
        return self.count

    @lazy_attribute
    def count(self) -> int:
        """The number of rows."""
        return len(self.given)

    @lazy_attribute
    def given(self) -> Given:
        """The rows as given [n, d]."""
        return self.rows() if callable(self.rows) else self.rows

    def let_go(self) -> None:
        """Release the rows if they are large and can be read again."""
        if callable(self.rows) and self.given.nbytes > HELD_BYTES:
            del self.given

    def single(self, *, centred: bool) -> NDArray[np.float32]:
        """Return the rows in float32, with ``centred`` minus their mean."""
        found = np.asarray(self.given, np.float32)
        return found - self.mean.astype(np.float32) if centred else found

    @lazy_attribute
    def mean(self) -> Rows:
        """The mean row [d]."""
        return np.asarray(self.given.mean(axis=0, dtype=np.float64))

    def block(self, rows: slice | NDArray[np.int64], *, single: bool) -> NDArray[np.floating]:
        """Return some rows minus the mean of all: HSIC is invariant to translation, and centred rows lose no digits."""
        dtype = np.float32 if single else np.float64
        return np.asarray(np.asarray(self.given[rows], dtype) - self.mean.astype(dtype))

    @lazy_attribute
    def centred(self) -> TableSide:
        """The same rows minus their mean."""
        return TableSide(self.block(slice(None), single=False), k=self.k)

    @lazy_attribute
    def own(self) -> Rows:
        """The squared length of every centred row [n]."""
        blocks = (self.block(rows, single=False) for rows in _slices(len(self)))
        return np.concatenate([np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in blocks])

    @lazy_attribute
    def length(self) -> float:
        """The Frobenius norm of the centred rows; 0 if all rows are equal up to rounding."""
        total = float(self.own.sum())
        return math.sqrt(total) if total > 1e-28 * len(self) * float(self.mean @ self.mean) else 0.0

    @lazy_attribute
    def hsic(self) -> float:
        """HSIC₁ of the rows with themselves."""
        cross = cross_product(self, self)
        return hsic(self, self, float(np.vdot(cross, cross)))

    @lazy_attribute
    def cosines(self) -> NDArray[np.floating]:
        """The cosines of all pairs of rows [n, n]."""
        unit = directions(np.asarray(self.given, np.float64))
        return np.asarray(unit @ unit.T)

    @lazy_attribute
    def ranks(self) -> Rows:
        """The centred ranks of the cosines of all pairs [n(n − 1)/2], ties at their mean rank."""
        values = self.cosines[np.triu(np.ones((len(self), len(self)), bool), 1)]
        ranks = mean_ranks(values)
        return np.asarray(ranks - ranks.mean())

    @lazy_attribute
    def nearest(self) -> NDArray[np.int64]:
        """The ``k`` nearest rows of each row by cosine, in no particular order [n, k]."""
        if not 1 <= self.k < len(self):
            raise InputError(f"k must be from 1 to {len(self) - 1} for {len(self)} rows; got {self.k}")
        near = np.empty((len(self), self.k), np.int64)
        for start, block in cosine_blocks(self.given):
            rows = np.arange(len(block))
            block[rows, start + rows] = -np.inf
            near[start : start + len(block)] = np.argpartition(block, -self.k, axis=1)[:, -self.k :]
        return near


def directions(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows scaled to length 1, in their own precision; zero rows remain zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


def without_leading(rows: Rows, components: int = LEADING) -> Rows:
    """Return centred rows [n, d] without their leading principal components. Raises ``InputError`` if none are left."""
    centred = rows - rows.mean(axis=0)
    scores = leading(rows, components)
    lengths = np.linalg.norm(scores, axis=0)
    some = lengths > 1e-9 * lengths.max(initial=0)
    unit = scores[:, some] / lengths[some]
    rest = np.asarray(centred - unit @ (unit.T @ centred))
    if not np.linalg.norm(rest) > 1e-6 * np.linalg.norm(centred):
        raise InputError(f"nothing is left without {components} leading components")
    return rest


def _slices(count: int, step: int = PRODUCT_ROWS) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, count, step))


def cross_product(
    left: TableSide, right: TableSide, order: NDArray[np.int64] | None = None, *, single: bool = False
) -> Rows:
    """Return XᵀY of the centred rows [p, q], computed in blocks.

    Args:
        left: Table X [n, p].
        right: Table Y [n, q].
        order: Permutation of the rows of Y [n].
        single: Whether to multiply in float32.
    """
    total = np.zeros((left.given.shape[1], right.given.shape[1]))
    for rows in _slices(len(left)):
        block = left.block(rows, single=single)
        # NumPy multiplies an array with itself at half the cost.
        same = right is left and order is None
        other = block if same else right.block(rows if order is None else order[rows], single=single)
        total += block.T @ other
    return total


def hsic(left: TableSide, right: TableSide, squares: float, order: NDArray[np.int64] | None = None) -> float:
    """Return HSIC₁ (Song et al. 2012, eq. 5) without a matrix of all pairs.

    Centred rows sum to zero, so the off-diagonal entries of a row of the kernel sum to minus its squared length.

    Args:
        left: Table X [n, p].
        right: Table Y [n, q].
        squares: Sum of the squares of XᵀY.
        order: Permutation of the rows of Y [n].
    """
    n = len(left)
    own = float(left.own @ (right.own if order is None else right.own[order]))
    total = float(left.own.sum() * right.own.sum()) / ((n - 1) * (n - 2))
    return (squares - own + total - 2 / (n - 2) * own) / (n * (n - 3))


def nuclear_norm(matrix: Rows) -> float:
    """Return the sum of the singular values to about six digits, four times as fast as by SVD."""
    squares = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0)).sum())


def rows_of(role: str, parts: tuple[str, str]) -> str:
    """Describe the rows of two tables, e.g. "decoder positions" or "encoder and decoder positions"."""
    named = dict.fromkeys(part for part in parts if part)
    return f"{' and '.join(named)} {role}s".strip()
