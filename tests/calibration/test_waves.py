"""No period is named in noise, however its columns depend on each other, and waves in such noise are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hfposemb import from_arrays
from hfposemb.analysis.geometry import Waves, strength_by_period

from .families import Rows, noise, unequal_columns
from .varying import few

Make = Callable[[int, int, np.random.Generator], Rows]


def wide_columns(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw noise with a column that is thirty times as wide, as in many trained models."""
    return noise(count, width, rng) * np.where(np.arange(width) == rng.integers(width), 30, 1)


def low_rank(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw noise of eight columns, mixed into all."""
    return few(count, width, rng, make=noise)


NOISE: dict[str, Make] = {
    "noise": noise,
    "wide columns": wide_columns,
    "rank 8": low_rank,
    "unequal components": unequal_columns,
}


def waves(make: Make, *, tables: int, wave: float = 0.0) -> list[Waves]:
    """Measure made tables, with a wave of 16 positions of some size relative to the table's."""
    rng, angles, found = np.random.default_rng(0), 2 * np.pi * np.arange(128) / 16, []
    for _ in range(tables):
        rows = make(128, 64, rng)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ rng.standard_normal((2, 64))
        rows += wave * np.linalg.norm(rows) / np.linalg.norm(circle) * circle
        found.append(strength_by_period(from_arrays(position=rows.astype(np.float32)).position))
    return found


@pytest.mark.parametrize("family", NOISE)
def test_no_period_is_named_in_noise(family: str) -> None:
    found = waves(NOISE[family], tables=60)
    assert sum(one.peak is not None for one in found) <= 2
    assert sum(one.strongest is not None for one in found) <= 6
    outside = np.mean([(one.strength < one.low) | (one.strength > one.high) for one in found])
    assert 0.01 <= outside <= 0.12


@pytest.mark.parametrize("family", NOISE)
def test_a_wave_in_noise_is_named(family: str) -> None:
    found = waves(NOISE[family], tables=10, wave=2.0)
    assert {one.peak for one in found} == {16.0}
