"""The rates of ``helix`` in small: helices with noise are found, and none in curves without one."""

from __future__ import annotations

import pytest

from hfposemb.analysis.positions import shift_operator

from .families import POSITIONS
from .helices import HELICES, WITHOUT, found

SMALL = ("random walks", "smooth, ℓ = n/8", "three slow waves", "falling speed", "growing amplitude", "blocks of 16")


@pytest.mark.parametrize("family", HELICES)
def test_a_helix_with_noise_is_found(family: str) -> None:
    """Single steps go either way there."""
    assert found(HELICES[family], (256, 64), tables=30) >= 28


@pytest.mark.parametrize("family", [*SMALL, "fractional, H = .8", "walks of rank 8", "own speeds", "own amplitudes"])
def test_no_helix_is_found_in_other_curves(family: str) -> None:
    """At a rate of .02, more than 6 of 100 are in fewer than 1 of 200 runs."""
    assert found(WITHOUT[family], (64, 32), tables=100) <= 6


def test_a_rule_that_takes_all_curves_for_circles_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, loose in (("SPEED", 9.0), ("RADIUS", 9.0), ("ROUND", 0.0)):
        monkeypatch.setattr(shift_operator, name, loose)
    assert found(POSITIONS["three slow waves"], (64, 32), tables=100) > 6
