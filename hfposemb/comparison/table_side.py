"""NEIGHBOURS One table of a pair, with what several measures of both need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.surrogates import Rows
from ..errors import InputError
from .similarity_ranks import PAIR_ROWS, binned_ranks, cosine_blocks, mean_ranks

NEIGHBOURS = 10
HELD_BYTES = 2**26
"""Rows of a table that are held while it is compared; more are read anew for each measure."""


PRODUCT_ROWS = 1024


Given: TypeAlias = NDArray[np.floating]


Measured: TypeAlias = Callable[[int, NDArray[np.int64]], dict[str, float]]
"""Takes measures of the permutation of a number."""


class TableSide:
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
    def centred(self) -> TableSide:
        """The same rows about their mean."""
        return TableSide(self.block(slice(None), single=self.surrogate), k=self.k, surrogate=self.surrogate)

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
        cross = cross_product(self, self, single=self.surrogate)
        return hsic(self, self, float(np.vdot(cross, cross)))

    @cached_property
    def cosines(self) -> NDArray[np.floating]:
        unit = directions(np.asarray(self.given, np.float32 if self.surrogate else np.float64))
        return np.asarray(unit @ unit.T)

    @cached_property
    def ranks(self) -> Rows:
        """The ranks of the cosines of all pairs [n(n − 1)/2], ties at their mean, about their mean."""
        values = self.cosines[np.triu(np.ones((len(self), len(self)), bool), 1)]
        ranks = binned_ranks(values) if self.surrogate else mean_ranks(values)
        return np.asarray(ranks - ranks.mean())

    @cached_property
    def nearest(self) -> NDArray[np.int64]:
        if not 1 <= self.k < len(self):
            raise InputError(f"{len(self)} rows have 1 to {len(self) - 1} neighbours each; got k = {self.k}")
        near = np.empty((len(self), self.k), np.int64)
        for start, block in cosine_blocks(self.given):
            rows = np.arange(len(block))
            block[rows, start + rows] = -np.inf
            near[start : start + len(block)] = np.argpartition(block, -self.k, axis=1)[:, -self.k :]
        return near


class SurrogateSide(TableSide):
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
        return hsic(self, self, squares)

    @cached_property
    def cosines(self) -> NDArray[np.floating]:
        mean = self.mean.astype(np.float32)
        along = self.around @ mean + np.float32(mean @ mean / 2)
        return _scaled(self.gram + along[:, None] + along, np.einsum("ij,ij->i", self.given, self.given))

    @cached_property
    def centred(self) -> TableSide:
        side = TableSide(self.around, k=self.k, surrogate=True)
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


def _slices(count: int, step: int = PRODUCT_ROWS) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, count, step))


def cross_product(
    left: TableSide, right: TableSide, order: NDArray[np.int64] | None = None, *, single: bool = False
) -> Rows:
    """Return XᵀY of the rows about their means [p, q], some rows at a time; ``order`` is that of the right ones."""
    total = np.zeros((left.given.shape[1], right.given.shape[1]))
    for rows in _slices(len(left)):
        block = left.block(rows, single=single)
        # numpy multiplies an array with itself at half the cost.
        same = right is left and order is None
        other = block if same else right.block(rows if order is None else order[rows], single=single)
        total += block.T @ other
    return total


def hsic(left: TableSide, right: TableSide, squares: float, order: NDArray[np.int64] | None = None) -> float:
    """Return HSIC₁ [Song et al. 2012, eq. 5] from the ``squares`` of XᵀY, without a matrix of all pairs.

    Centred rows add up to nothing, so a row of a kernel without its diagonal adds up to minus its own square.
    """
    n = len(left)
    own = float(left.own @ (right.own if order is None else right.own[order]))
    total = float(left.own.sum() * right.own.sum()) / ((n - 1) * (n - 2))
    return (squares - own + total - 2 / (n - 2) * own) / (n * (n - 3))


def singular_values(matrix: Rows) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False).sum())


def nuclear_norm(matrix: Rows) -> float:
    """Return the sum of the singular values, to about six digits and four times as fast as by the SVD."""
    squares = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0)).sum())
