"""Choice of the neighbours of UMAP's graph: a neighbour that shares none of a row's own neighbours gives way.

A quarter of the pairs of a token of MiniLM and one of its nearest 14 share no further neighbour. Such pairs draw parts
of a layout together that have nothing else in common. umap-learn's approximate search misses 31 % of them, and .4 % of
the pairs that share three or more, which is why its layouts keep more neighbours than those of exact neighbours do.
Here the choice is explicit; it replaces a tenth of the neighbours. The number of shared neighbours as a measure of
similarity is that of Jarvis and Patrick (1973).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

SMALL = 4_096
"""Number of rows below which neighbours are the nearest, as in umap-learn, which then searches exactly."""

CANDIDATES = 1.5
"""Number of nearest rows among which neighbours are chosen, over the number of neighbours."""

LEAST = 2
"""Neighbours in common, of the nearest k of both rows, from which a candidate takes precedence over the others."""


def candidates(k: int, rows: int) -> int:
    """Return the number of nearest rows that are needed to choose ``k`` neighbours in a table of so many rows."""
    return k if rows < SMALL else min(round(CANDIDATES * k), rows - 1)


@njit(nogil=True)
def _choose(indices: Any, near: Any, chosen: Any, least: Any) -> None:
    """Write the places of the ``k`` chosen candidates of each row, in the order of the candidates.

    ``indices`` are the candidates [n, m], nearest first; ``near`` the first k of them, in ascending order [n, k].
    """
    wide, k = indices.shape[1], near.shape[1]
    first = np.empty(wide, np.bool_)
    for row in range(indices.shape[0]):
        taken = 0
        for place in range(wide):
            other, left, right, shared = indices[row, place], 0, 0, 0
            while left < k and right < k and shared < least:
                one, two = near[row, left], near[other, right]
                shared += one == two
                left += one <= two
                right += two <= one
            first[place] = shared >= least and taken < k
            taken += first[place]
        into = 0
        for place in range(wide):
            if not first[place] and taken < k:
                first[place] = True
                taken += 1
            if first[place]:
                chosen[row, into] = place
                into += 1


def choose_neighbours(
    indices: NDArray[np.integer], values: NDArray[np.floating], k: int
) -> tuple[NDArray[np.integer], NDArray[np.floating]]:
    """Choose ``k`` of the nearest rows of each row: those that share ``LEAST`` neighbours with it, then the others.

    Args:
        indices: Nearest rows of each row, itself left out, nearest first [n, m].
        values: Their cosines or distances [n, m].
        k: Number of neighbours, at most m.

    Returns:
        The chosen rows, nearest first, and their values [n, k].
    """
    indices = indices.astype(np.int32)
    near = np.sort(indices[:, :k], axis=1)
    chosen = np.empty(near.shape, np.int64)
    _choose(indices, near, chosen, LEAST)
    return np.take_along_axis(indices, chosen, axis=1), np.take_along_axis(values, chosen, axis=1)
