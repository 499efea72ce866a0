"""Compiled loops that keep the best candidates of every row while scores are computed, and rank them at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

WIDE = 512
"""Number of columns that are compared with their floors at once."""


@njit(nogil=True)
def _select(scores: Any, others: Any, keep: Any) -> Any:
    """Move the ``keep`` largest scores to the front, with their rows, and return the smallest of them (Hoare 1961)."""
    low, high = 0, len(scores) - 1
    while low < high:
        pivot, left, right = scores[(low + high) // 2], low, high
        while left <= right:
            while scores[left] > pivot:
                left += 1
            while scores[right] < pivot:
                right -= 1
            if left <= right:
                scores[left], scores[right] = scores[right], scores[left]
                others[left], others[right] = others[right], others[left]
                left, right = left + 1, right - 1
        if keep - 1 <= right:
            high = right
        elif keep - 1 >= left:
            low = left
        else:
            break
    return scores[:keep].min()


@njit(nogil=True)
def keep(held: Any, row: Any, other: Any, score: Any) -> None:
    """Add a candidate of a row; if there is no room, only the better half of them remain, and raise its floor."""
    best, others, filled, floors = held
    at = filled[row]
    best[row, at] = score
    others[row, at] = other
    filled[row] = at + 1
    if at + 1 == best.shape[1]:
        half = best.shape[1] // 2
        floors[row] = _select(best[row], others[row], half)
        filled[row] = half


@njit(nogil=True)
def keep_by_row(scores: Any, corner: Any, held: Any, marks: Any) -> None:
    """Keep the scores of a tile that reach the floor of the row that they belong to.

    ``corner`` is the tile's first row and column. ``held`` are the candidates' scores [n, 2 m] and rows [n, 2 m], their
    number [n], and the floor of each row: the m-th largest score when it last had 2 m candidates.
    """
    floors, words, wide = held[3], marks.view(np.uint64), len(marks)
    for row in range(scores.shape[0]):
        mine = corner[0] + row
        for left in range(0, scores.shape[1], wide):
            line, floor = scores[row, left : left + wide], floors[mine]
            for column in range(len(line)):  # a loop without branches, eight or sixteen columns at a time
                marks[column] = line[column] > floor
            for word in range(len(line) // 8):
                if words[word] != 0:
                    for column in range(8 * word, 8 * word + 8):
                        if line[column] > floors[mine]:
                            keep(held, mine, corner[1] + left + column, line[column])


@njit(nogil=True)
def keep_by_column(scores: Any, corner: Any, held: Any, marks: Any) -> None:
    """Keep the scores of a tile that reach the floor of the row that their column stands for."""
    floors, words, wide = held[3], marks.view(np.uint64), len(marks)
    for left in range(0, scores.shape[1], wide):
        limits = floors[corner[1] + left : corner[1] + left + wide]
        for row in range(scores.shape[0]):
            line = scores[row, left : left + wide]
            for column in range(len(line)):
                marks[column] = line[column] > limits[column]
            for word in range(len(line) // 8):
                if words[word] != 0:
                    for column in range(8 * word, 8 * word + 8):
                        if line[column] > limits[column]:
                            keep(held, corner[1] + left + column, corner[0] + row, line[column])


@njit(nogil=True, fastmath=True)
def rank_candidates(rows: Any, span: Any, held: Any, apart: Any, into: Any) -> None:
    """Rank the candidates of some rows by whole rows: by inner product, or with ``apart`` by distance."""
    others, filled = held
    indices, values = into
    k = indices.shape[1]
    for row in range(span[0], span[1]):
        found = 0
        for place in range(filled[row]):
            other = others[row, place]
            total = np.float32(0)
            if apart:
                for column in range(rows.shape[1]):
                    difference = rows[row, column] - rows[other, column]
                    total -= difference * difference
            else:
                for column in range(rows.shape[1]):
                    total += rows[row, column] * rows[other, column]
            # Sorted by insertion, with the lower of two equal rows first.
            at = min(found, k - 1)
            if found == k and (total < values[row, at] or (total == values[row, at] and other > indices[row, at])):
                continue
            while at > 0 and (
                total > values[row, at - 1] or (total == values[row, at - 1] and other < indices[row, at - 1])
            ):
                values[row, at] = values[row, at - 1]
                indices[row, at] = indices[row, at - 1]
                at -= 1
            values[row, at] = total
            indices[row, at] = other
            found = min(found + 1, k)
