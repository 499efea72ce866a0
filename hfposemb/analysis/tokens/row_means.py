"""Rows that are the mean of a few old rows, as new tokens often start as the mean of the tokens they are made of.

Seen along the components of the table, all scaled to the same variance, old rows are nearly orthogonal. So those with
the largest products are the likely parts of a mean, and whether a row is the mean of some of them is seen exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tables.table import EmbeddingTable
from ..matching_pursuit import matching_pursuit
from ..rows import finite_blocks

PARTS = 8
"""Maximum number of old rows in a mean."""

PASSES, LIKELY, CHOSEN = 3, 64, 16
"""Number of searches, of old rows with the largest products that each finds, and of those that are fitted to a row."""

Floats = NDArray[np.float64]


def means_of_few(
    old: EmbeddingTable, axes: Floats, mean: Floats, vectors: Floats, *, within: float
) -> NDArray[np.bool_]:
    """Return which rows are the mean of two to eight old rows [k].

    Args:
        old: Table of the old rows [n, d]; the others are NaN.
        axes: Components of the table as columns, each divided by the standard deviation along it [d, r].
        mean: Mean of the old rows [d].
        vectors: The rows [k, d].
        within: Distance from a mean up to which a row is that mean.
    """
    seen = (vectors - mean) @ axes
    unexplained, found = seen.copy(), np.zeros(len(vectors), bool)
    before = [np.empty(0, np.int64)] * len(vectors)
    for _ in range(PASSES):
        left = np.flatnonzero(~found)
        if not len(left):
            break
        for at, near in zip(left, _likely(old, unexplained[left] @ axes.T, mean), strict=True):
            rows = np.union1d(before[at], near)
            parts = np.asarray(old.take(rows), np.float64)
            turned = (parts - mean) @ axes
            fitted = _fitted(turned, seen[at])
            chosen = fitted > fitted.max() / 2
            apart = np.linalg.norm(parts[chosen].mean(axis=0) - vectors[at])
            found[at] = 2 <= chosen.sum() <= PARTS and apart <= within
            before[at], unexplained[at] = rows[np.argsort(-np.abs(fitted))[:CHOSEN]], seen[at] - fitted @ turned
    return found


def _likely(old: EmbeddingTable, directions: Floats, mean: Floats) -> NDArray[np.int64]:
    """Return for each direction [k, d] the old rows whose difference from the mean has the largest products with it."""
    best, rows = np.empty((len(directions), 0)), np.empty((len(directions), 0), np.int64)
    for numbers, block in finite_blocks(old, single=True):
        block = block - mean.astype(block.dtype)
        products = directions.astype(block.dtype) @ block.T
        products /= np.maximum(np.sqrt(np.einsum("ij,ij->i", block, block)), np.finfo(block.dtype).tiny)
        best = np.hstack([best, products])
        rows = np.hstack([rows, np.broadcast_to(numbers, products.shape)])
        if best.shape[1] > LIKELY:
            top = np.argpartition(-best, LIKELY - 1, axis=1)[:, :LIKELY]
            best, rows = np.take_along_axis(best, top, axis=1), np.take_along_axis(rows, top, axis=1)
    return rows


def _fitted(parts: Floats, target: Floats) -> Floats:
    """Return the weights of some parts [m, r] that are fitted to a target [r], chosen one by one; 0 for the others."""
    lengths = np.linalg.norm(parts, axis=1)
    unit = parts / np.where(lengths > 0, lengths, np.inf)[:, None]
    found = matching_pursuit(
        target[None], min(CHOSEN, *parts.shape), lambda left: left @ unit.T, unit.__getitem__, signed=True
    )
    rows, weights = found.rows[0], np.zeros(len(parts))
    weights[rows] = found.weights[0] / np.where(lengths[rows] > 0, lengths[rows], np.inf)
    return weights
