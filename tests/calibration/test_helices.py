"""The rates of ``helix`` in small: helices with noise are found, and none in curves without one."""

from __future__ import annotations

from functools import partial

import pytest

from hfposemb.analysis.positions import shift_operator

from .families import POSITIONS
from .helices import DRIFTING, HELICES, WITHOUT, found, wound

SMALL = ("random walks", "smooth, ℓ = n/8", "three slow waves", "falling speed", "growing amplitude", "blocks of 16")


@pytest.mark.parametrize("family", HELICES)
def test_a_helix_with_noise_is_found(family: str) -> None:
    """Single steps go either way there."""
    assert found(HELICES[family], (256, 64), tables=30) >= 28


@pytest.mark.parametrize("family", DRIFTING)
def test_a_helix_beside_a_straight_drift_is_found(family: str) -> None:
    assert found(DRIFTING[family], (128, 32), tables=30) >= 28


@pytest.mark.parametrize("turns", [0.0, 0.5, 1.0])
def test_a_drift_makes_no_helix_of_a_line_or_an_arc(turns: float) -> None:
    assert found(partial(wound, turns=turns, noise=0.3, drift=6.0), (128, 32), tables=60) <= 3


@pytest.mark.parametrize("family", [*SMALL, "fractional, H = .8", "walks of rank 8", "own speeds", "own amplitudes"])
def test_no_helix_is_found_in_other_curves(family: str) -> None:
    """At a rate of .02, more than 6 of 100 are in fewer than 1 of 200 runs."""
    assert found(WITHOUT[family], (64, 32), tables=100) <= 6


def test_a_rule_that_takes_all_curves_for_circles_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, loose in (("SPEED", 9.0), ("RADIUS", 9.0), ("ROUND", 0.0)):
        monkeypatch.setattr(shift_operator, name, loose)
    assert found(POSITIONS["three slow waves"], (64, 32), tables=100) > 6
