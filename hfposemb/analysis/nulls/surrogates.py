"""Surrogates of a table, for comparing a figure of it with its null distribution.

The surrogates of a position table keep what smoothness fixes: the table is written in components that are uncorrelated
for any process whose increments are stationary, and each component gets a random sign (``SignFlips``). Two tables are
compared by ``local_variogram``, and tokens with their rows permuted.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.encodings import PositionEncoding, table_in
from ...tables.null_comparison import Null
from ...tables.table import EmbeddingTable
from ..rows import finite_blocks

Value = TypeVar("Value")
Drawn = TypeVar("Drawn")
Rows: TypeAlias = NDArray[np.float64]
DRAWS = 200
"""Default number of surrogates; a 2.5–97.5 % interval needs about as many."""

FEWEST_DRAWS = 19
"""Fewest surrogates with which p can be .05: it is at least one in one more than the draws."""

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


class SignFlips:
    """Surrogates of a position table: its components in a basis of uncorrelated curves, each with a random sign.

    The expected squared distance of two rows as a function of their distance, the variogram (Matheron 1963), defines a
    kernel whose eigenvectors are curves with uncorrelated coefficients, both for stationary processes and for random
    walks. Changing the sign of such a coefficient changes nothing in distribution, while the energy of every curve, and
    with it the smoothness, is kept, as far as it is the same all along the table.

    Args:
        rows: Rows [n, d] of the table to draw surrogates of.

    Raises:
        InputError: If all rows are equal.
    """

    def __init__(self, rows: Rows) -> None:
        basis, self._mean = uncorrelated_curves(rows), rows.mean(axis=0)
        self._basis = basis.astype(np.float32)
        self._components = (basis.T @ (rows - self._mean)).astype(np.float32)

    def draw(self, *, draws: int = DRAWS, seed: int | Sequence[int] = 0) -> Iterator[Rows]:
        """Yield ``draws`` surrogates [n, d], reproducible for a seed."""
        rng = np.random.default_rng(seed)
        for _ in range(draws):
            signs = rng.choice(np.array([-1, 1], np.float32), len(self._components))
            yield self._mean + self._basis @ (signs[:, None] * self._components)


def uncorrelated_curves(*tables: Rows) -> Rows:
    """Return an orthonormal basis of curves [n, n] whose coefficients are uncorrelated if increments are stationary.

    The eigenvectors of −HΓH, with H the centring matrix and Γ the variogram of each pair of rows, pooled over the
    tables scaled to the same variance.

    Args:
        tables: Tables [n, d], of any width each.

    Raises:
        InputError: If all rows of a table are equal.
    """
    from scipy.linalg import eigh

    places = np.arange(len(tables[0]))
    lags = np.abs(places[:, None] - places)
    counts = np.bincount(lags.ravel())
    variogram = np.zeros(len(counts))
    for rows in tables:
        centred = rows - rows.mean(axis=0)
        squares = np.einsum("ij,ij->i", centred, centred)
        if not (total := squares.sum()) > 0:
            raise InputError("all rows of a table are equal, so it has no surrogates")
        apart = (squares[:, None] + squares - 2 * (centred @ centred.T)) / total
        variogram += np.bincount(lags.ravel(), apart.ravel())
    variogram /= counts
    kernel = -variogram[lags]
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1)[:, None]
    return np.asarray(eigh(kernel, driver="evd", overwrite_a=True, check_finite=False)[1])


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
