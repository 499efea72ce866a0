"""The figure of a quantised table's errors: its numbers are those of the comparison, and its names keep apart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.comparison.quantisation import QuantisationDamage
from hfposemb.figures.quantisation_errors import quantisation_errors
from hfposemb.figures.style import dark

ROWS, WIDTH = 500, 32


def damage(spread: float = 0.0, *, zero: bool = False, draws: int = 39) -> QuantisationDamage:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, WIDTH)) * np.exp(spread * rng.standard_normal((ROWS, 1)))
    y = np.round(x, 1)
    if zero:
        y[3] = 0
    labels = [f"<b>{row}</b>" for row in range(ROWS)]
    original, other = (hpe.from_arrays(token=one.astype(np.float32), labels=labels) for one in (x, y))
    return hpe.compare_quantised(original, other, count=5, draws=draws)


def ordered(found: QuantisationDamage) -> NDArray[np.float64]:
    return np.sort(found.errors)[::-1]


def test_the_line_has_the_errors_and_the_dots_the_worst_tokens() -> None:
    found = damage()
    figure = quantisation_errors(found)
    line = next(trace for trace in figure.data if trace.name == "quantised")
    np.testing.assert_allclose(line.y, ordered(found)[np.asarray(line.x) - 1])
    assert (line.x[0], line.x[-1]) == (1, ROWS)
    dots = figure.data[-1]
    assert list(dots.y) == [move.distance for move in found.worst[:3]]
    np.testing.assert_allclose(dots.y, ordered(found)[np.asarray(dots.x) - 1])
    assert [note.text for note in figure.layout.annotations] == [
        f"“&lt;b&gt;{move.label[3:-4]}&lt;/b&gt;”" for move in found.worst[:3]
    ]
    tops = [note.ay for note in figure.layout.annotations]
    assert np.diff(tops).min() >= 15, "each name is one line lower than the one before"
    with_zero = quantisation_errors(damage(zero=True))
    for light, other in zip(with_zero.data[1:], dark(with_zero).data[1:], strict=True):
        assert (light.line.color, light.marker.color) != (other.line.color, other.marker.color)


def test_evenly_spread_errors_lie_in_the_band_and_rounding_by_row_does_not() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((ROWS, WIDTH)) * np.exp(rng.standard_normal((ROWS, 1)))).astype(np.float32)
    even = (x + 0.05 * rng.standard_normal(x.shape)).astype(np.float32)
    step = np.abs(x).max(axis=1, keepdims=True) / 7
    inside = []
    for y in (even, np.round(x / step) * step):
        found = hpe.compare_quantised(hpe.from_arrays(token=x), hpe.from_arrays(token=y), count=1, draws=99)
        errors, random = ordered(found), found.random
        at = errors[random.ranks - 1]
        inside.append(float(((at >= random.low) & (at <= random.high)).mean()))
    assert inside[0] > 0.8
    assert inside[1] < 0.2


def test_the_random_errors_are_those_of_noise_of_the_same_energy() -> None:
    found = damage(0.5, draws=199)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, WIDTH)) * np.exp(0.5 * rng.standard_normal((ROWS, 1)))
    size = np.sqrt(np.square(np.round(x, 1) - x).mean())
    drawn = [
        np.sort(np.linalg.norm(size * rng.standard_normal(x.shape), axis=1) / np.linalg.norm(x, axis=1))[::-1]
        for _ in range(200)
    ]
    np.testing.assert_allclose(found.random.mean, np.mean(drawn, axis=0)[found.random.ranks - 1], rtol=0.04)


@pytest.mark.parametrize(("spread", "scale"), [(0.0, "linear"), (2.0, "log")])
def test_skewed_errors_have_a_log_axis_with_room_for_the_names(spread: float, scale: str) -> None:
    found = damage(spread)
    figure = quantisation_errors(found)
    axis = figure.layout.yaxis
    assert axis.type == scale
    largest = float(found.errors.max())
    low, high = axis.range
    top = np.log10(largest) if scale == "log" else largest
    assert (high - top) / (high - low) * 220 >= 14 + 2 * 16
    assert all(low <= note.y <= high for note in figure.layout.annotations)
