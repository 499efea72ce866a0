"""Made tables of positions whose smoothness, length or trend varies along the way, each in its own manner or in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import numpy as np

from hfposemb import extract
from hfposemb.analysis.nulls.local_variogram import directions
from hfposemb.analysis.nulls.surrogates import finite_rows

from .families import Make, Rows, noise, part_of_rows, smooth, walk

Profile = Callable[[int, np.random.Generator], Rows]
"""Draws positive values, one per row."""

GPT2_SPEED = (1.41, 1.37, 1.25, 1.12, 1.04, 0.98, 0.88, 0.77, 0.72, 0.74, 0.78, 0.84, 0.92, 1.0, 1.06, 1.12)
"""Length of steps over 8 positions of OpenAI's GPT-2, in 16 parts, relative to the mean."""

GPT2 = "HFPOSEMB_GPT2"
"""Environment variable with the source of OpenAI's GPT-2, whose whole profile is measured if it is given."""

smooth_rows = partial(part_of_rows, share=1 / 16)


def own(count: int, rng: np.random.Generator) -> Rows:
    """Draw a slow random profile."""
    return np.exp(0.7 * smooth(count, 1, rng, length=count / 4)[:, 0])


def line(count: int, rng: np.random.Generator, *, last: float) -> Rows:
    """Return a profile that goes from 1 to ``last`` in a line."""
    return np.linspace(1, last, count)


def decay(count: int, rng: np.random.Generator) -> Rows:
    """Return a profile that decays by e²."""
    return np.exp(np.linspace(0, -2, count))


def waves(count: int, rng: np.random.Generator) -> Rows:
    """Return a profile that goes up and down three times."""
    return 1 + 0.7 * np.sin(np.linspace(0, 6 * np.pi, count))


def gpt2(count: int, rng: np.random.Generator) -> Rows:
    """Return the profile of the speed of GPT-2's table."""
    return np.interp(np.linspace(0, 15, count), np.arange(16), GPT2_SPEED)


def amplitude(count: int, width: int, rng: np.random.Generator, *, profile: Profile, make: Make = smooth_rows) -> Rows:
    """Draw a table whose rows are scaled by a profile."""
    return profile(count, rng)[:, None] * make(count, width, rng)


def speed(count: int, width: int, rng: np.random.Generator, *, profile: Profile) -> Rows:
    """Draw a smooth table that is run through at the speed of a profile."""
    places = np.cumsum(profile(count, rng))
    places *= (count - 1) / places[-1]
    rows, low = smooth_rows(count, width, rng), np.minimum(places.astype(int), count - 2)
    share = (places - low)[:, None]
    return (1 - share) * rows[low] + share * rows[low + 1]


@lru_cache(maxsize=1)
def _gpt2_profiles() -> tuple[Rows, Rows]:
    """Return the steps over 8 positions and the distances from the middle, in 64 parts, of the table of ``GPT2``."""
    rows = finite_rows(extract(os.environ[GPT2]).position)[1:-1]
    lengths = directions(rows)[0]
    steps = np.linalg.norm(rows[8:] - rows[:-8], axis=1)
    speeds, sizes = ([part.mean() for part in np.array_split(values, 64)] for values in (steps, lengths))
    return np.array(speeds), np.array(sizes)


def like_gpt2(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table with the profiles of speed and amplitude of the table of ``GPT2``."""
    speeds, sizes = (
        np.interp(np.linspace(0, 63, count), np.arange(64), values / values.mean()) for values in _gpt2_profiles()
    )
    return sizes[:, None] * speed(count, width, rng, profile=lambda *_: speeds)


def uneven_walk(count: int, width: int, rng: np.random.Generator, *, profile: Profile) -> Rows:
    """Draw random walks whose steps are scaled by a profile."""
    return np.cumsum(amplitude(count, width, rng, profile=profile, make=noise), axis=0)


def cubic(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a smooth table with a cubic trend of its own that makes up half of its variance."""
    rows, place = smooth_rows(count, width, rng), np.linspace(-1, 1, count)
    trend = np.stack([place, place**2, place**3], axis=1) @ rng.standard_normal((3, width))
    trend -= trend.mean(axis=0)
    return rows / np.linalg.norm(rows) + trend / np.linalg.norm(trend)


def parabola(count: int, width: int, rng: np.random.Generator, *, both: bool) -> Rows:
    """Draw a smooth table on a parabola whose first row, or first and last, are outliers."""
    rows = smooth_rows(count, width, rng)
    rows += 1.5 * np.square(np.linspace(-1, 1, count))[:, None] * rng.standard_normal(width)
    for row in (0, -1) if both else (0,):
        rows[row] = 6 * rng.standard_normal(width)
    return rows


def blocks(count: int, width: int, rng: np.random.Generator, *, spoilt: float, make: Make = noise) -> Rows:
    """Draw blocks of 16 equal rows, plus ``spoilt`` of another table."""
    steps = np.repeat(rng.standard_normal((-(-count // 16), width)), 16, axis=0)[:count]
    return steps + spoilt * make(count, width, rng)


def patches(count: int, width: int, rng: np.random.Generator, *, spoilt: float = 0.5) -> Rows:
    """Draw a first row, and patches of a square grid with a smooth table each for its rows and columns, with noise."""
    side = round((count - 1) ** 0.5)
    down, across = (smooth(side, width, rng, length=2.0) for _ in range(2))
    cells = np.repeat(down, side, axis=0) + np.tile(across, (side, 1))
    return np.concatenate([3 * noise(1, width, rng), cells + spoilt * noise(side**2, width, rng)])


def segments(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw noise with half as much of a level for each eighth of the rows."""
    levels = np.repeat(noise(8, width, rng), -(-count // 8), axis=0)[:count]
    return 0.5 * levels + noise(count, width, rng)


def level(count: int, width: int, rng: np.random.Generator, *, at: float | None) -> Rows:
    """Draw a smooth table that is moved from a share of its rows on, or from a random one."""
    rows = smooth_rows(count, width, rng)
    rows[int(count * (rng.uniform(0.2, 0.8) if at is None else at)) :] += 1.5 * rng.standard_normal(width)
    return rows


def rough_then_smooth(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw a table that is eight times as smooth after its first third."""
    late = 1 / (1 + np.exp(-(np.arange(count)[:, None] - count / 3) / (count / 64)))
    ends = (part_of_rows(count, width, rng, share=share) for share in (1 / 64, 1 / 8))
    return (1 - late) * next(ends) + late * next(ends)


@lru_cache(maxsize=8)
def _fractional(count: int, exponent: float) -> Rows:
    t, power = np.arange(1, count + 1.0), 2 * exponent
    kernel = (t[:, None] ** power + t**power - np.abs(t[:, None] - t) ** power) / 2
    return np.linalg.cholesky(kernel + 1e-9 * np.eye(count))


def fractional(count: int, width: int, rng: np.random.Generator, *, exponent: float) -> Rows:
    """Draw fractional Brownian motion of a Hurst exponent (Mandelbrot & Van Ness 1968)."""
    return _fractional(count, exponent) @ rng.standard_normal((count, width))


def periodic(count: int, width: int, rng: np.random.Generator, *, period: float | None) -> Rows:
    """Draw ARMA(1, 1) columns with a wave of a period, or of a random one, in a plane of their own."""
    from scipy.signal import lfilter

    rows = lfilter([1, 0.5], [1, -0.9], rng.standard_normal((count + 200, width)), axis=0)[200:]
    angle = 2 * np.pi * np.arange(count)[:, None] / (rng.uniform(8, count / 4) if period is None else period)
    return rows + 2 * np.concatenate([np.cos(angle), np.sin(angle)], axis=1) @ rng.standard_normal((2, width))


def few(count: int, width: int, rng: np.random.Generator, *, make: Make) -> Rows:
    """Draw a table of eight columns, mixed into all."""
    return make(count, 8, rng) @ rng.standard_normal((8, width))


VARYING: Mapping[str, Make] = {
    "own amplitudes": partial(amplitude, profile=own),
    "growing amplitude": partial(amplitude, profile=partial(line, last=5)),
    "decaying amplitude": partial(amplitude, profile=decay),
    "wavy amplitude": partial(amplitude, profile=waves),
    "growing noise": partial(amplitude, profile=partial(line, last=5), make=noise),
    "own amplitudes, rank 8": partial(few, make=partial(amplitude, profile=own)),
    "own speeds": partial(speed, profile=own),
    "falling speed": partial(speed, profile=partial(line, last=1 / 3)),
    "decaying speed": partial(speed, profile=decay),
    "wavy speed": partial(speed, profile=waves),
    "speed of GPT-2": partial(speed, profile=gpt2),
    "own cubic trends": cubic,
    "outlying first row, parabola": partial(parabola, both=False),
    "outlying first and last rows, parabola": partial(parabola, both=True),
    "blocks of 16": partial(blocks, spoilt=0.5),
    "blocks of 16 + smooth": partial(blocks, spoilt=2.0, make=smooth_rows),
    "level shift at n/4": partial(level, at=0.25),
    "own level shifts": partial(level, at=None),
    "rough, then smooth": rough_then_smooth,
    "fractional, H = .2": partial(fractional, exponent=0.2),
    "fractional, H = .5": partial(fractional, exponent=0.5),
    "fractional, H = .8": partial(fractional, exponent=0.8),
    "ARMA, own periods": partial(periodic, period=None),
    "ARMA, period 20": partial(periodic, period=20),
    "walks of rank 8": partial(few, make=walk),
    "walks of own steps": partial(uneven_walk, profile=own),
    "walks of decaying steps": partial(uneven_walk, profile=decay),
    **({"speed and amplitude of GPT-2": like_gpt2} if os.environ.get(GPT2) else {}),
}
"""Families of independent tables of positions that vary along the way."""

REPEATING: Mapping[str, Make] = {"a grid of patches": patches, "segments of n/8": segments}
"""Families of independent tables whose rows are alike after a period, too."""
