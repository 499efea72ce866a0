"""What chance gives: surrogates of a table, and a number beside those of its surrogates.

A position table is a smooth curve, and any smooth curve beats a shuffled one. So its null is the impostor, a surrogate
with the same spectrum in every column and random phases (Theiler et al. 1992); that of a token table is a permutation
of its rows.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .geometry import finite_blocks
from .position import PositionEncoding, table_in
from .table import EmbeddingTable

Value = TypeVar("Value")
Drawn = TypeVar("Drawn")
Rows: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["impostor", "permutation", "random"]
"""What the surrogates are: impostors of a curve, the rows in another order, or rows of noise of the same scale."""

DRAWS = 200
"""Surrogates drawn by default; an interval from 2.5 to 97.5 % needs about as many."""

WORKERS = 2
ALONE_BYTES = 2**18
PARALLEL_BYTES = 12 * 2**20
"""Size of a surrogate up to which ``WORKERS`` are measured at a time."""


@dataclass(frozen=True)
class Null:
    """A number beside what its surrogates give: their mean and 2.5–97.5 % interval, from ``draws`` with ``seed``.

    ``p`` is (1 + how many are at least as large) / (draws + 1).
    """

    observed: float
    mean: float
    low: float
    high: float
    p: float
    draws: int
    seed: int
    kind: Kind

    @property
    def beyond(self) -> bool:
        """Whether the number is larger than the interval of its surrogates."""
        return self.observed > self.high


Keep: TypeAlias = Callable[[tuple[str, ...], Callable[[], Mapping[str, Null]]], Mapping[str, Null]]
"""Gives the nulls that a key names: kept ones, or those computed now (``results.keep_nulls``)."""


def compute_always(key: tuple[str, ...], compute: Callable[[], Mapping[str, Null]]) -> Mapping[str, Null]:
    """Keep nothing."""
    return compute()


def beside(observed: float, drawn: Rows, *, seed: int, kind: Kind, small: bool = False) -> Null:
    """Set a number beside what its surrogates give [draws]; with ``small`` p counts those that are at most as large."""
    low, high = np.quantile(drawn, [0.025, 0.975])
    as_far = int((drawn <= observed).sum() if small else (drawn >= observed).sum())
    return Null(
        observed, float(drawn.mean()), float(low), float(high), (1 + as_far) / (len(drawn) + 1), len(drawn), seed, kind
    )


def finite_rows(value: EmbeddingTable | PositionEncoding) -> Rows:
    """Return the finite rows of a table [rows, d] in float64. Raises ``InputError`` where there is none."""
    table = table_in(value)
    blocks = [vectors for _, vectors in finite_blocks(table)]
    if not blocks:
        raise InputError(f"{table.name} has no row that is finite; nothing can be computed from it")
    return np.concatenate(blocks)


def impostor(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return rows [n, d] whose columns have the spectrum of those given, and phases of their own.

    The phases of the constant part, and of the fastest wave where n is even, are kept, so that the columns stay real.
    """
    waves = np.fft.rfft(rows, axis=0)
    turned = waves * np.exp(2j * np.pi * rng.random(waves.shape))
    turned[0] = waves[0]
    if len(rows) % 2 == 0:
        turned[-1] = waves[-1]
    return np.asarray(np.fft.irfft(turned, len(rows), axis=0), np.float64)


def impostors(rows: Rows, *, draws: int = DRAWS, seed: int = 0) -> Iterator[Rows]:
    """Yield ``draws`` impostors of rows [n, d], the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        yield impostor(rows, rng)


def over_surrogates(
    measure: Callable[[int, Drawn], Value], surrogates: Iterable[Drawn], *, nbytes: int
) -> Iterator[Value]:
    """Yield a measure of every surrogate and its number, in order.

    Two at a time, but for those whose ``nbytes`` are so few that it is not worth it, or too many.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if nbytes < ALONE_BYTES:
        yield from (measure(number, rows) for number, rows in enumerate(surrogates))
        return

    workers = min(WORKERS, os.cpu_count() or 1) if nbytes <= PARALLEL_BYTES else 1
    # One thread a surrogate: matrices this small are slower in several, and much slower where others compute too.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Value]] = deque()
        for number, rows in enumerate(surrogates):
            waiting.append(pool.submit(measure, number, rows))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
