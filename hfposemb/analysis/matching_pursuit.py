"""Vectors as sparse sums of others: orthogonal matching pursuit (Pati, Rezaiifar & Krishnaprasad 1993), in batch.

The atom whose product with what is left over is largest joins the sum, all weights are fitted anew, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..tables.table import Vectors
from .row_values import Floats, Rows

CLOSE = 1e-5
"""Relative difference of float32 products below which they are computed anew in float64, to know the larger."""

DEPENDENT = 1e-9
"""Length of an atom beside those that have joined, relative to its own, below which it adds nothing but rounding."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """Sparse sums.

    Attributes:
        rows: Atoms of every sum [m, k], in the order in which they joined.
        weights: Weight of each [m, k]; 0 for atoms that depend on those before.
        explained: Share of the squared length of the vector that the first 1 … k explain [m, k].
    """

    rows: Rows
    weights: Floats
    explained: Floats


def matching_pursuit(
    targets: Floats,
    k: int,
    products: Callable[[Floats], Vectors],
    atoms: Callable[[Rows], Floats],
    *,
    signed: bool = False,
) -> Pursuit:
    """Approximate vectors by sums of ``k`` atoms each.

    Args:
        targets: The vectors [m, d].
        k: Number of atoms, of which there must be as many.
        products: Returns the products of vectors [m, d] with all atoms as a new array [m, n]; −inf for those that may
            not join.
        atoms: Returns atoms [c, d] by number.
        signed: Whether only positive products count.
    """
    count, width = targets.shape
    rows, explained = np.zeros((count, k), np.int64), np.zeros((count, k))
    basis, upper = np.zeros((count, k, width)), np.zeros((count, k, k))
    left, whole = targets.copy(), np.square(targets).sum(axis=1)
    for step in range(k):
        scores = products(left)
        if not signed:
            np.abs(scores, out=scores)
        np.put_along_axis(scores, rows[:, :step], -np.inf, axis=1)
        rows[:, step] = _largest(scores, left, atoms, signed=signed)
        new = atoms(rows[:, step])
        seen = basis[:, :step]
        part, rest = _split(new, seen)
        whole_length, length = np.linalg.norm(new, axis=1), np.linalg.norm(rest, axis=1)
        again = np.flatnonzero(length < 0.5 * whole_length)  # once has lost digits
        more, rest[again] = _split(rest[again], seen[again])
        part[again] += more
        length[again] = np.linalg.norm(rest[again], axis=1)
        upper[:, :step, step] = part
        fresh = length > DEPENDENT * whole_length
        basis[:, step] = np.divide(rest, length[:, None], out=np.zeros_like(rest), where=fresh[:, None])
        upper[:, step, step] = np.where(fresh, length, 1)
        left -= np.einsum("ij,ij->i", basis[:, step], left)[:, None] * basis[:, step]
        explained[:, step] = 1 - np.square(left).sum(axis=1) / np.where(whole > 0, whole, 1)
    weights = np.linalg.solve(upper, basis @ targets[:, :, None])[:, :, 0]
    return Pursuit(rows, np.asarray(weights, np.float64), explained)


def _split(vectors: Floats, basis: Floats) -> tuple[Floats, Floats]:
    """Return the coordinates of vectors [m, d] in orthonormal ones [m, s, d], each in its own, and what is left."""
    part = (basis @ vectors[:, :, None])[:, :, 0]
    return part, vectors - (part[:, None] @ basis)[:, 0]


def _largest(scores: Vectors, left: Floats, atoms: Callable[[Rows], Floats], *, signed: bool) -> Rows:
    """Return the atom of the largest product for each vector [m]."""
    best = np.asarray(scores.argmax(axis=1), np.int64)
    top = scores[np.arange(len(scores)), best]
    if scores.dtype == np.float64:
        return best
    close = scores >= (top - CLOSE * np.abs(top))[:, None]
    for row in np.flatnonzero(np.count_nonzero(close, axis=1) > 1).tolist():
        some = np.flatnonzero(close[row])
        exact = atoms(some) @ left[row]
        best[row] = some[(exact if signed else np.abs(exact)).argmax()]
    return best
