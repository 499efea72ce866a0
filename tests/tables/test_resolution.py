"""What slow and fast waves tell of the position: closed cases, chance, and which columns are waves."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.positions.resolution import frequency_resolution
from hfposemb.tables.closed_forms import LAYOUTS
from hfposemb.tables.encodings import PositionEncoding


def of(rows: NDArray[np.float64]) -> PositionEncoding:
    return hpe.from_arrays(position=rows).position


def test_slow_waves_say_roughly_where_and_fast_ones_exactly() -> None:
    found = frequency_resolution(hpe.sinusoidal(256, 128).position)
    assert (found.unit, found.counts) == ("frequency pairs", (1, 2, 4, 8, 16, 32, 64))
    assert found.guess == pytest.approx(64)
    # One fast pair tells neighbours apart and comes round every 6 positions; 16 slow ones are the other way about.
    assert found.fast_next[0] > 0.99
    assert found.fast[0] > 0.8 * found.guess
    assert found.slow[4] < 0.6 * found.guess
    assert found.slow_next[4] < 0.52
    assert found.slow[-1] == found.fast[-1] == 0
    assert found.slow_next[-1] == found.fast_next[-1]


@settings(deadline=None)
@given(st.sampled_from(LAYOUTS), st.integers(3, 24), st.integers(0, 5))
def test_waves_are_found_in_every_layout(layout: str, width: int, offset: int) -> None:
    table = hpe.sinusoidal(64, width, layout=layout, offset=offset, base=100.0).position  # type: ignore[arg-type]
    found = frequency_resolution(table)
    half = width // 2
    exponents = np.arange(half) / max(half - 1, 1) if layout == "tensor2tensor" else 2 * np.arange(half) / width
    assert found.unit == "frequency pairs"
    np.testing.assert_allclose(found.periods[::-1], 2 * np.pi * 100.0**exponents, rtol=1e-3)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_rotary_encoding_is_its_own_frequencies(layout: str) -> None:
    encoding = hpe.extract(f"rotary:64x16?layout={layout}").position
    found = frequency_resolution(encoding)
    np.testing.assert_allclose(found.periods[::-1], encoding.wavelengths, rtol=1e-3)  # type: ignore[attr-defined]


def test_components_of_a_learned_table_are_ordered_by_their_frequency() -> None:
    """Two waves mixed by a rotation: the slow one, though weaker, is the slowest component."""
    t = np.arange(200)[:, None]
    waves = np.concatenate([np.sin(t * 0.2), 3 * np.sin(t * 1.3)], axis=1)
    mixed = waves @ np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    found = frequency_resolution(of(mixed + 0.5))
    assert found.unit == "components"
    assert found.periods == pytest.approx([2 * np.pi / 0.2, 2 * np.pi / 1.3], rel=0.1)


def test_noise_that_drowns_everything_leaves_a_guess() -> None:
    found = frequency_resolution(hpe.sinusoidal(128, 32).position, noise=1e3)
    assert found.slow[-1] == pytest.approx(found.guess, rel=0.05)
    assert found.slow_next[-1] == pytest.approx(0.5, abs=0.01)
    quiet, loud = (frequency_resolution(hpe.sinusoidal(128, 32).position, noise=noise) for noise in (0.1, 1.0))
    assert (quiet.slow_next <= 1).all()
    assert (quiet.slow_next >= loud.slow_next).all()


def test_it_is_the_same_for_the_same_seed_and_says_so() -> None:
    table = hpe.extract("sample:gpt2").position
    one, two, other = (frequency_resolution(table, seed=seed) for seed in (1, 1, 2))
    assert (one.slow == two.slow).all()
    assert (one.slow != other.slow).any()
    assert (one.slow_next == other.slow_next).all(), "the closed form draws nothing"
    facts = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert facts["seed"] == 1
    assert len(facts["slow"]) == len(facts["counts"])
    assert str(one).splitlines()[-1].split() == ["guessing", "64.0", "64.0", "50.0", "%", "50.0", "%"]
    still = frequency_resolution(of(np.tile([[3.0, 4.0], [3.0, -4.0]], (8, 1))), seed=0)
    assert still.to_dict()["periods"] == [pytest.approx(2, rel=0.5)]


def test_rows_that_are_not_finite_are_left_out() -> None:
    rows = np.array(hpe.sinusoidal(40, 8).position.table.vectors)  # type: ignore[union-attr]
    rows[[0, 7]] = np.nan
    assert frequency_resolution(of(rows)).positions == 38


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (np.eye(12), {}, "12 rows"),
        (np.ones((20, 3)), {}, "are the same"),
        (np.random.default_rng(0).normal(size=(20, 3)), {"noise": 0.0}, "noise above 0"),
        (np.random.default_rng(0).normal(size=(20, 3)), {"draws": 0}, "and draws=0"),
    ],
)
def test_what_cannot_be_decoded(rows: NDArray[np.float64], options: dict[str, float], message: str) -> None:
    with pytest.raises(hpe.HfposembError, match=message):
        frequency_resolution(of(rows), **options)  # type: ignore[arg-type]
