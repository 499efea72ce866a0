"""Figures of a source and their chance: those of real draws, with real noise behind every closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.comparison.metrics import MEASURES, Tables, beside_impostors, beside_noise, measures_of


def noise(rows: int, width: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((rows, width))


def observed(tables: Tables, section: str) -> dict[str, float]:
    return {measure.name: measure.take(tables) for measure in measures_of() if measure.section == section}


@pytest.mark.parametrize("name", ["token mean norm", "token anisotropy", "token IsoScore"])
@pytest.mark.parametrize(("rows", "width"), [(400, 24), (60, 90)])
def test_chance_of_tokens_is_that_of_noise(name: str, rows: int, width: int) -> None:
    """The closed forms against tables that are really drawn."""
    tables = Tables(hpe.from_arrays(token=0.3 * noise(rows, width)))
    null = beside_noise(tables, observed(tables, "token"), draws=4000)[name]
    measure = next(one for one in MEASURES if one.name == name)
    scale = float(np.sqrt(np.square(tables.token.vectors).mean()))
    drawn = np.array(
        [measure.take(Tables(hpe.from_arrays(token=scale * noise(rows, width, seed + 1)))) for seed in range(150)]
    )
    spread = drawn.std(ddof=1)
    assert null.mean == pytest.approx(drawn.mean(), abs=0.5 * spread)
    # Their norms vary a little more, since their scale does.
    assert null.high - null.low == pytest.approx(4 * spread, rel=0.5)
    assert null.kind == "random"


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_order_means_nothing_in_a_shuffled_table(seed: int) -> None:
    """Figures of a shuffled curve lie among those of its impostors, which are as rough as it is."""
    rows = hpe.sinusoidal(96, 8).position.table.vectors  # type: ignore[union-attr]
    shuffled = np.random.default_rng(seed).permutation(np.asarray(rows, np.float64))
    tables = Tables(hpe.from_arrays(position=shuffled))
    ordered = ("translation invariance", "monotonicity up to 128", "mean cosine at distance 2")
    values = {measure.name: measure.take(tables) for measure in MEASURES if measure.name in ordered}
    nulls = beside_impostors(tables, values, draws=60)
    assert set(nulls) == set(ordered)
    assert all(null.p > 0.01 for null in nulls.values())


def test_a_curve_is_told_from_its_impostors_by_what_its_columns_share() -> None:
    tables = Tables(hpe.sinusoidal(128, 16))
    names = ("translation invariance", "effective rank")
    values = {measure.name: measure.take(tables) for measure in MEASURES if measure.name in names}
    nulls = beside_impostors(tables, values, draws=40)
    assert nulls["translation invariance"].p == pytest.approx(1 / 41)
    assert nulls["effective rank"].p == 1
    assert nulls["effective rank"].observed < nulls["effective rank"].low
    assert nulls == beside_impostors(tables, values, draws=40)
    assert nulls != beside_impostors(tables, values, draws=40, seed=1)


def test_errors_count_as_remarkable_when_small() -> None:
    tables = Tables(hpe.sinusoidal(24, 6), seeds=2)
    values = {measure.name: measure.take(tables) for measure in MEASURES if measure.name == "absolute probe, error"}
    (null,) = beside_impostors(tables, values, draws=25).values()
    assert null.draws == 20
    assert (null.p < 0.5) == (null.observed < null.mean)
