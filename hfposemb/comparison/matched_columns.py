"""Columns of two tables that hold the same numbers, in another order and with other signs."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .table_side import directions

Floats: TypeAlias = NDArray[np.float64]

MOST_MATCHED = 8192
"""Most columns that are matched with each other."""


def matched_columns(x: Floats, y: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Match the columns of two tables by the absolute correlation of their values, each the other's best.

    Args:
        x: Rows [n, d].
        y: The same rows in other columns [n, d].

    Returns:
        For each column of x the one of y [d], −1 if it has none, and the sign of their correlation [d].
    """
    sides = [directions((one - one.mean(axis=0)).T).astype(np.float32) for one in (x, y)]
    width = len(sides[0])
    best, signs = np.zeros(width, np.int64), np.ones(width)
    most, back = np.full(width, -1.0, np.float32), np.zeros(width, np.int64)
    for start in range(0, width, 1024):
        block = sides[0][start : start + 1024] @ sides[1].T
        size = np.abs(block)
        best[start : start + 1024] = size.argmax(axis=1)
        rows = np.arange(len(block))
        signs[start : start + 1024] = np.sign(block[rows, best[start : start + 1024]])
        top = size.argmax(axis=0)
        value = size[top, np.arange(width)]
        better = value > most
        most[better], back[better] = value[better], start + top[better]
    mutual = back[best] == np.arange(width)
    return np.where(mutual, best, -1), signs
