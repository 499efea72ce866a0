"""The calibration in small: independent tables are rarely called alike, related ones are, and a wrong null shows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from hfposemb.analysis.nulls.surrogates import SignFlips
from hfposemb.comparison.alignment import cka

from .__main__ import Result, page
from .families import INDEPENDENT, POSITIONS, RELATED, Rows
from .rates import TESTED, Rate, rates
from .varying import VARYING

TESTABLE = ("smooth, ℓ = n/16", "growing amplitude", "speed of GPT-2")
"""Families of which hardly a table is left untested."""

SHARING = ("decaying speed", "outlying first row, parabola", "blocks of 16", "rough, then smooth")
"""Families whose independent tables change in the same places, so that a test of smooth tables calls them alike."""


@pytest.mark.parametrize("family", [*TESTABLE, *SHARING])
def test_independent_tables_are_rarely_called_alike(family: str) -> None:
    found = rates((POSITIONS | VARYING)[family], 64, 64, pairs=30)
    assert found.found <= 0.14 * found.tested, found
    assert found.tested >= 18 or family not in TESTABLE


@pytest.mark.parametrize("family", TESTABLE)
@pytest.mark.parametrize("relation", RELATED)
def test_related_tables_are_found(family: str, relation: str) -> None:
    found = rates((POSITIONS | VARYING)[family], 64, 64, pairs=8, relation=relation)
    assert found.share >= 0.8, found
    assert found.tested >= 4


@pytest.mark.parametrize("family", SHARING)
def test_the_bench_shows_a_test_that_takes_tables_for_evenly_smooth(family: str) -> None:
    """Signs of components, as if smoothness were the same all along, which this project compared positions with."""

    def flips(left: Rows, right: Rows, *, seed: int) -> Mapping[str, float]:
        drawn = [cka(rows, right) for rows in SignFlips(left).draw(draws=19, seed=seed)]
        return {TESTED: (1 + sum(np.array(drawn) >= cka(left, right))) / 20}

    assert rates(VARYING[family], 64, 64, pairs=15, test=flips).share > 0.3


def test_a_rate_has_an_interval() -> None:
    assert Rate(5, 100, 120).share == 0.05
    low, high = Rate(5, 100, 120).interval
    assert 0.01 < low < 0.05 < high < 0.12
    assert np.isnan(Rate(0, 0, 3).share)


def test_the_page_has_a_cell_for_every_rate() -> None:
    independent = Result("walks", 64, 16, INDEPENDENT, "CKA", 2, 90, 100)
    related = (Result("walks", 64, 16, relation, "CKA", 25, 25, 25) for relation in RELATED)
    found = page([independent, *related])
    assert "| walks | 2.2 % (0.6 to 7.7, 90 pairs, 10 abstained) |" in found
    assert found.count("| walks | 100.0 %") == len(RELATED)
