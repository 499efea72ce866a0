"""The calibration in small: independent tables are rarely called alike, related ones are, and a wrong null shows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from hfposemb import from_arrays
from hfposemb.analysis.nulls.surrogates import SignFlips
from hfposemb.comparison.alignment import align, cka
from hfposemb.comparison.side_by_side import corrected, pair_draws
from tests.conftest import FULL

from .__main__ import Result, page
from .families import INDEPENDENT, POSITIONS, RELATED, Rows
from .rates import TESTED, Rate, position_p_values, rates
from .varying import VARYING

TESTABLE = ("smooth, ℓ = n/16", "growing amplitude", "speed of GPT-2")
"""Families of which hardly a table is left untested."""

SHARING = ("decaying speed", "outlying first row, parabola", "blocks of 16", "rough, then smooth")[:: 1 if FULL else 2]
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


@pytest.mark.parametrize("family", ["noise", "speed of GPT-2"])
def test_a_copy_of_the_size_that_is_said_to_be_found_is_found(family: str) -> None:
    """In four of five pairs, and of half the size in clearly fewer."""
    make, rng, found = (POSITIONS | VARYING)[family], np.random.default_rng(0), {1.0: list[bool](), 0.5: list[bool]()}
    for _ in range(40 if FULL else 12):
        rows = [make(64, 64, rng) for _ in range(2)]
        left, right = (one / np.linalg.norm(one - one.mean(axis=0)) for one in rows)
        share = align(from_arrays(position=left), from_arrays(position=right), "position").least_found
        for part, seen in found.items():
            if share is not None and part * share < 1:
                turn = np.linalg.qr(rng.normal(size=(64, 64)))[0]
                planted = np.sqrt(part * share) * left @ turn + np.sqrt(1 - part * share) * right
                seen += [p <= 0.05 for p in position_p_values(left, planted, seed=0).values()]
    assert np.mean(found[1.0]) >= 0.7
    assert np.mean(found[0.5]) <= 0.75


@pytest.mark.parametrize("family", SHARING)
def test_the_bench_shows_a_test_that_takes_tables_for_evenly_smooth(family: str) -> None:
    """Signs of components, as if smoothness were the same all along, which this project compared positions with."""

    def flips(left: Rows, right: Rows, *, seed: int) -> Mapping[str, float]:
        drawn = [cka(rows, right) for rows in SignFlips(left).draw(draws=19, seed=seed)]
        return {TESTED: (1 + sum(np.array(drawn) >= cka(left, right))) / 20}

    assert rates(VARYING[family], 64, 64, pairs=15, test=flips).share > 0.3


def test_the_correction_holds_over_all_pairs() -> None:
    """Six unrelated tables have 15 pairs: without a correction any is found alike in most comparisons."""
    rng, alone, found = np.random.default_rng(0), 0, 0
    roles, runs = (("position", "token"), 60) if FULL else (("position",), 8)
    smooth, labels = POSITIONS["smooth, ℓ = 2"], [f"word{row}" for row in range(40)]
    for seed in range(runs):
        tables = [
            from_arrays(position=smooth(64, 16, rng), token=rng.normal(size=(40, 16)), labels=labels) for _ in range(6)
        ]
        pairs = corrected(
            [
                align(*pair, role, draws=pair_draws(role, 40, 30), seed=seed)
                for role in roles
                for pair in combinations(tables, 2)
            ]
        )
        tested = [pair for pair in pairs if "CKA" in pair.measures]
        assert {pair.among for pair in tested} == {len(tested)}
        alone += any(pair.measures["CKA"].beyond for pair in tested)
        found += any((pair.p("CKA") or 1) <= 0.05 for pair in tested)
    assert alone >= 0.3 * runs, alone
    assert found <= max(1, 0.07 * runs), found


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
