"""Made tables of positions and of tokens: independent ones by family, and copies that are related by construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float64]
Make: TypeAlias = Callable[[int, int, np.random.Generator], Rows]
"""Draws a table from its number of rows and columns."""


@lru_cache(maxsize=32)
def _root(count: int, length: float) -> Rows:
    """Return a square root of the kernel exp(−t²/2ℓ²)."""
    t = np.arange(count)
    values, vectors = np.linalg.eigh(np.exp(-0.5 * ((t[:, None] - t) / length) ** 2))
    return np.asarray(vectors * np.sqrt(np.clip(values, 0, None)))


def smooth(count: int, width: int, rng: np.random.Generator, *, length: float) -> Rows:
    """Draw columns of a Gaussian process of some length scale, in positions."""
    return _root(count, length) @ rng.standard_normal((count, width))


def part_of_rows(count: int, width: int, rng: np.random.Generator, *, share: float) -> Rows:
    """Draw columns of a Gaussian process whose length scale is a share of the rows."""
    return smooth(count, width, rng, length=share * count)


def noise(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw white noise."""
    return rng.standard_normal((count, width))


def rough(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw an autoregressive process of order 1 with a memory of an eighth of the rows."""
    from scipy.signal import lfilter

    keep = np.exp(-8 / count)
    drawn = rng.standard_normal((2 * count, width))
    return np.asarray(lfilter([np.sqrt(1 - keep**2)], [1, -keep], drawn, axis=0)[count:])


def walk(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw random walks."""
    return np.cumsum(rng.standard_normal((count, width)), axis=0)


def waves(count: int, width: int, rng: np.random.Generator, *, number: int) -> Rows:
    """Draw a few slow waves of random frequency, up to four cycles, and phase, mixed into all columns."""
    cycles, phases = rng.uniform(0.5, 4, number), rng.random(number)
    drawn = np.cos(2 * np.pi * (np.arange(count)[:, None] / count * cycles + phases))
    return np.asarray(drawn @ rng.standard_normal((number, width)))


def ends(count: int, width: int, rng: np.random.Generator, *, both: bool) -> Rows:
    """Draw a smooth table whose first row, or first and last, are six times as long and point elsewhere."""
    rows = part_of_rows(count, width, rng, share=1 / 16)
    for row in (0, -1) if both else (0,):
        rows[row] = 6 * rng.standard_normal(width)
    return rows


def long_start(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table whose first row is six times as long."""
    rows = smooth(count, width, rng, length=8.0)
    rows[0] *= 6
    return rows


def mixture(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a sum of slow components that few directions share, faster ones in all columns, and noise."""
    few = part_of_rows(count, 6, rng, share=1 / 8) @ rng.standard_normal((6, width))
    return few + 0.5 * smooth(count, width, rng, length=2.0) + 0.1 * noise(count, width, rng)


def drifting(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw the sum of a walk and a smooth table of similar size."""
    return walk(count, width, rng) + np.sqrt(count) / 2 * part_of_rows(count, width, rng, share=1 / 16)


def far_mean(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table whose mean row is three times as long as the rest."""
    return part_of_rows(count, width, rng, share=1 / 16) + 3 * rng.standard_normal(width)


def noisy(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table with noise of .3 on it."""
    return part_of_rows(count, width, rng, share=1 / 8) + 0.3 * noise(count, width, rng)


def ramp(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table with a straight drift in one direction that makes up half of its variance."""
    rows = part_of_rows(count, width, rng, share=1 / 16)
    drift = np.linspace(-1, 1, count)[:, None] * rng.standard_normal(width)
    return rows / np.linalg.norm(rows) + drift / np.linalg.norm(drift)


def either(first: Make, second: Make, count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw from one of two families at random, so that half of all pairs are unequal."""
    return (first if rng.random() < 0.5 else second)(count, width, rng)


POSITIONS: Mapping[str, Make] = {
    "noise": noise,
    "smooth, ℓ = 1": partial(smooth, length=1.0),
    "smooth, ℓ = 2": partial(smooth, length=2.0),
    "smooth, ℓ = n/32": partial(part_of_rows, share=1 / 32),
    "smooth, ℓ = n/16": partial(part_of_rows, share=1 / 16),
    "smooth, ℓ = n/8": partial(part_of_rows, share=1 / 8),
    "smooth, ℓ = n/5": partial(part_of_rows, share=1 / 5),
    "rough, memory n/8": rough,
    "random walks": walk,
    "three slow waves": partial(waves, number=3),
    "eight slow waves": partial(waves, number=8),
    "long first row": long_start,
    "outlying first row": partial(ends, both=False),
    "outlying first and last rows": partial(ends, both=True),
    "mixture": mixture,
    "walk + smooth": drifting,
    "smooth + noise": noisy,
    "far mean": far_mean,
    "unequal ℓ": partial(either, partial(part_of_rows, share=1 / 8), partial(part_of_rows, share=1 / 32)),
    "smooth or walk": partial(either, partial(part_of_rows, share=1 / 8), walk),
    "straight drift": ramp,
}
"""Families of independent tables of positions."""


def far_tokens(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens whose mean is as long as they are, as in most trained models."""
    return noise(count, width, rng) + rng.standard_normal(width)


def clusters(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens in 12 clusters, to which they belong at random."""
    centres = 2 * rng.standard_normal((12, width))
    return centres[rng.integers(len(centres), size=count)] + noise(count, width, rng)


def unequal_columns(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens whose variance decays over the components, as 1/component."""
    turn = np.linalg.qr(rng.standard_normal((width, width)))[0]
    return noise(count, width, rng) / np.sqrt(1 + np.arange(width)) @ turn


def long_tokens(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens of very unequal lengths in no order."""
    return noise(count, width, rng) * np.exp(rng.standard_normal((count, 1)))


def hubs(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens of unequal lengths about one mean, to which the short ones are nearest, and so to all others."""
    return long_tokens(count, width, rng) + rng.standard_normal(width)


TOKENS: Mapping[str, Make] = {
    "tokens: noise": noise,
    "tokens: far mean": far_tokens,
    "tokens: clusters": clusters,
    "tokens: unequal components": unequal_columns,
    "tokens: unequal lengths": long_tokens,
}
"""Families of independent tables of tokens."""


def by_frequency(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens with noise on a direction of their own along which frequent ones lie apart from rare ones."""
    rank = np.log1p(np.arange(count))
    return noise(count, width, rng) + (rank - rank.mean())[:, None] * rng.standard_normal(width)


FREQUENCY: Mapping[str, Make] = {"tokens: ordered by frequency": by_frequency}
"""Tables of tokens that share nothing but the order of frequency, which is something."""


def noisy_copy(make: Make, count: int, width: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Draw a table and a rotated copy of it plus half as much of an independent table of the same family."""
    one, other = make(count, width, rng), make(count, width, rng)
    spread, spoilt = (np.linalg.norm(rows - rows.mean(axis=0)) for rows in (one, other))
    turn = np.linalg.qr(rng.standard_normal((width, width)))[0]
    return one, one @ turn + 0.5 * spread / spoilt * other


def warped_copy(make: Make, count: int, width: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Draw a table and a copy with its columns permuted, scaled, and its positions moved by up to n/32."""
    rows = make(count, width, rng)
    places = np.arange(count)
    moved = np.clip(places + count / 32 * np.sin(2 * np.pi * places / count), 0, count - 1)
    low = np.minimum(moved.astype(int), count - 2)
    share = (moved - low)[:, None]
    warped = (1 - share) * rows[low] + share * rows[low + 1]
    return rows, rng.uniform(0.1, 10) * warped[:, rng.permutation(width)]


INDEPENDENT = "independent tables"
RELATED: Mapping[str, Callable[[Make, int, int, np.random.Generator], tuple[Rows, Rows]]] = {
    "rotated copies with noise of 0.5": noisy_copy,
    "scaled copies with permuted columns and positions moved by up to n/32": warped_copy,
}
"""How the second table of a pair is made from the first."""
