"""Surrogates of a table, for comparing a figure with its null distribution.

A position table is a smooth curve, and any smooth curve beats a shuffled one. Its null is therefore the impostor: a
surrogate with the same spectrum in every column and random phases (Theiler et al. 1992). The null of a token table is a
permutation of its rows.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.null_comparison import Null
from ..tables.table import EmbeddingTable
from .rows import finite_blocks

Value = TypeVar("Value")
Drawn = TypeVar("Drawn")
Rows: TypeAlias = NDArray[np.float64]
DRAWS = 200
"""Default number of surrogates; a 2.5–97.5 % interval needs about as many."""

WORKERS = 2
ALONE_BYTES = 2**18
PARALLEL_BYTES = 12 * 2**20
"""Maximum size of a surrogate for which ``WORKERS`` are measured in parallel."""


_most: ContextVar[int] = ContextVar("most", default=WORKERS)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Limit computations in this context to one thread, because other processes use the other cores."""
    from threadpoolctl import threadpool_limits

    before = _most.set(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        _most.reset(before)


Keep: TypeAlias = Callable[[tuple[str, ...], Callable[[], Mapping[str, Null]]], Mapping[str, Null]]
"""Function that returns the nulls of a key, cached or computed now (``cached_results.keep_nulls``)."""


def compute_always(key: tuple[str, ...], compute: Callable[[], Mapping[str, Null]]) -> Mapping[str, Null]:
    """Compute without caching."""
    return compute()


def finite_rows(value: EmbeddingTable | PositionEncoding) -> Rows:
    """Return the finite rows of a table [rows, d] in float64. Raises ``InputError`` if there are none."""
    table = table_in(value)
    blocks = [vectors for _, vectors in finite_blocks(table)]
    if not blocks:
        raise InputError(f"{table.name} has no finite row")
    return np.concatenate(blocks)


def impostor(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return an impostor of rows [n, d]: each column keeps its spectrum and gets random phases.

    The phases of the constant term, and of the highest frequency if n is even, are kept so that the columns stay real.
    """
    return _turned(np.fft.rfft(rows, axis=0), len(rows), rng)


def _turned(waves: NDArray[np.complex128], count: int, rng: np.random.Generator) -> Rows:
    """Return ``count`` rows from a spectrum with random phases."""
    angles = 2 * np.pi * rng.random(waves.shape)
    turned = np.empty_like(waves)
    np.cos(angles, out=turned.real)  # three times as fast as a complex np.exp
    np.sin(angles, out=turned.imag)
    turned *= waves
    turned[0] = waves[0]
    if count % 2 == 0:
        turned[-1] = waves[-1]
    return np.asarray(np.fft.irfft(turned, count, axis=0), np.float64)


def drifts(rows: Rows) -> bool:
    """Return whether a curve [n, d] ends away from where it begins, which no impostor of it does.

    True if the squared distance between the means of its first and last twentieth exceeds 3.5 times the variance (after
    the end-point mismatch of Theiler et al. 1992). This flags 19 in 20 of 300 random walks of 64 × 16, and 1 in 20 of
    as many smooth stationary tables.
    """
    few = max(1, len(rows) // 20)
    apart = rows[:few].mean(axis=0) - rows[-few:].mean(axis=0)
    return bool(apart @ apart > 3.5 * rows.var(axis=0).sum())


def impostors(rows: Rows, *, draws: int = DRAWS, seed: int = 0) -> Iterator[Rows]:
    """Yield ``draws`` impostors of rows [n, d], reproducible for a seed."""
    rng, waves = np.random.default_rng(seed), np.fft.rfft(rows, axis=0)
    for _ in range(draws):
        yield _turned(waves, len(rows), rng)


def over_surrogates(
    measure: Callable[[int, Drawn], Value], surrogates: Iterable[Drawn], *, nbytes: int
) -> Iterator[Value]:
    """Yield ``measure(number, surrogate)`` for every surrogate, in order.

    Surrogates of moderate size are measured in two threads; small and large ones one at a time.

    Args:
        measure: Function of a surrogate's number and the surrogate.
        surrogates: The surrogates.
        nbytes: Size of one surrogate in bytes.
    """
    from threadpoolctl import threadpool_limits

    if nbytes < ALONE_BYTES or _most.get() == 1:
        yield from (measure(number, rows) for number, rows in enumerate(surrogates))
        return

    workers = min(_most.get(), os.cpu_count() or 1) if nbytes <= PARALLEL_BYTES else 1
    # One BLAS thread per surrogate: more would slow down products this small, badly so on a busy machine.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Value]] = deque()
        for number, rows in enumerate(surrogates):
            waiting.append(pool.submit(measure, number, rows))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
