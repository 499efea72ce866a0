"""Intrinsic dimension of made manifolds, its interval, and what it is held against."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.analysis.tokens.two_nn import IntrinsicDimension
from hfposemb.errors import InputError

Rows = np.ndarray


def curved(count: int, dimensions: int, rng: np.random.Generator) -> Rows:
    """Return rows [count, 32] on a curved manifold of some dimensions, in a random rotation."""
    flat = rng.random((count, dimensions))
    rows = np.concatenate([flat, flat**2, np.zeros((count, 32 - 2 * dimensions))], axis=1)
    return rows @ np.linalg.qr(rng.standard_normal((32, 32)))[0]


def dimension(rows: Rows, seed: int = 0) -> IntrinsicDimension:
    return hpe.intrinsic_dimension(hpe.from_arrays(token=rows).token, seed=seed)


@pytest.mark.parametrize(("dimensions", "least", "most"), [(2, 1.8, 2.2), (5, 4.3, 5.2), (10, 7.9, 9.5)])
def test_dimension_of_a_curved_manifold(dimensions: int, least: float, most: float) -> None:
    found = dimension(curved(2000, dimensions, np.random.default_rng(0)))
    assert least < found.value < most
    assert found.low < found.value < found.high
    assert found.rows == found.queries == found.of == 2000
    assert found.gaussian > found.value, "curvature widens the ellipsoid"


@pytest.mark.parametrize("dimensions", [2, 10])
def test_the_interval_holds_the_mean_in_95_of_100(dimensions: int) -> None:
    """At a coverage of .95, fewer than 53 of 60 do in 1 of 100 runs; without what neighbours share it is about .89."""
    rng = np.random.default_rng(1)
    found = [dimension(rng.standard_normal((500, dimensions)), seed) for seed in range(60)]
    mean = np.mean([one.value for one in found])
    assert 53 <= sum(one.low <= mean <= one.high for one in found) <= 60
    assert np.mean([one.gaussian for one in found]) == pytest.approx(mean, rel=0.03), "normal rows are their own null"


def test_neither_a_move_nor_a_scale_nor_equal_rows_change_it() -> None:
    rows = curved(600, 3, np.random.default_rng(2))
    alone = dimension(rows)
    assert dimension(50 + 7 * np.concatenate([rows, rows[:200]])).value == pytest.approx(alone.value, rel=0.1)
    assert dimension(np.concatenate([rows, np.full((3, 32), np.nan)])).of == 600


def test_few_different_rows_have_none() -> None:
    with pytest.raises(InputError, match="has 3 different finite rows; an intrinsic dimension needs 50"):
        dimension(np.tile(np.eye(3), (40, 1)))
