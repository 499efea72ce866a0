"""Reading of rows that are far apart: runs of neighbouring rows, from afar several at once."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

REQUESTS = 8
"""Runs that are fetched at once."""

GAP_BYTES = 2048
"""Largest gap between two rows that are fetched together; the answer to another request has about as many bytes."""

LOCAL_GAP_BYTES = 2**18
"""The same of a file on this machine, as float32: to widen as many bytes takes about as long as to open the file."""

MOST_RUNS, MOST_GAP_BYTES = 256, 2**20
"""Most runs that are fetched; more rows are fetched with larger gaps between them, up to so many bytes."""

STEP = 1024
"""Rows that are put in their places at once."""


def read_scattered(
    read: Callable[[int, int], NDArray[Any]],
    rows: NDArray[np.integer[Any]],
    width: int,
    dtype: np.dtype[Any],
    *,
    most: int | None,
) -> NDArray[Any]:
    """Return the given rows [m, width] in the given order.

    Args:
        read: Reads rows ``[start, stop)``.
        rows: Row numbers [m], in any order, repeated or not.
        width: Numbers in a row.
        dtype: Data type of the rows.
        most: Most bytes that are read at once of a file on this machine, unless it is one row; ``None`` if each call of
            ``read`` is a request, so that only near rows are read together, and several of them at a time.
    """
    out = np.empty((len(rows), width), dtype)
    order = np.argsort(rows, kind="stable")
    runs = [run for run in np.split(order, _breaks(rows[order], width * dtype.itemsize, most)) if len(run)]

    def fill(run: NDArray[np.int64]) -> None:
        first = int(rows[run[0]])
        found = read(first, int(rows[run[-1]]) + 1)
        for start in range(0, len(run), STEP):
            some = run[start : start + STEP]
            out[some] = found[rows[some] - first]

    if most is not None or len(runs) == 1:
        for run in runs:
            fill(run)
        return out
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(REQUESTS) as threads:
        for done in [threads.submit(copy_context().run, fill, run) for run in runs]:
            done.result()
    return out


def _breaks(rows: NDArray[np.integer[Any]], row_bytes: int, most: int | None) -> NDArray[np.int64]:
    """Return the places in sorted row numbers at which another run begins."""
    gaps, row_bytes = np.diff(rows) - 1, max(row_bytes, 1)
    if most is not None:
        part = rows // max(1, most // row_bytes)
        return np.flatnonzero((gaps > LOCAL_GAP_BYTES // row_bytes) | (np.diff(part) > 0)) + 1
    near = GAP_BYTES // row_bytes
    if np.count_nonzero(gaps > near) >= MOST_RUNS:
        near = max(near, min(int(np.partition(gaps, -MOST_RUNS)[-MOST_RUNS]), MOST_GAP_BYTES // row_bytes))
    return np.flatnonzero(gaps > near) + 1
