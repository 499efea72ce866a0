"""The calibration in small: independent tables are rarely called alike, related ones are, and a wrong null shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hfposemb.analysis.nulls.surrogates import SignFlips

from .__main__ import Result, page
from .families import INDEPENDENT, POSITIONS, RELATED, Rows
from .rates import Rate, rates

FAMILIES = ("smooth, ℓ = n/8", "random walks")


@pytest.mark.parametrize("family", FAMILIES)
def test_independent_tables_are_rarely_called_alike(family: str) -> None:
    found = rates(POSITIONS[family], 64, 16, pairs=50)
    assert set(found) == {"CKA", "RSA, centred"}
    assert all(rate.share <= 0.14 for rate in found.values()), found


@pytest.mark.parametrize("family", FAMILIES)
def test_rotated_copies_are_found(family: str) -> None:
    found = rates(POSITIONS[family], 64, 64, pairs=15, relation=next(iter(RELATED)))
    assert all(rate.share >= 0.6 for rate in found.values()), found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_null_shows(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With random phases, which end where they begin, most independent tables would be called alike."""

    def phases(self: SignFlips, *, draws: int, seed: int) -> Iterator[Rows]:
        waves = np.fft.rfft(self._mean + self._basis @ self._components, axis=0)
        rng = np.random.default_rng(seed)
        for _ in range(draws):
            turned = waves * np.exp(2j * np.pi * rng.random(waves.shape))
            turned[[0, -1]] = waves[[0, -1]]
            yield np.fft.irfft(turned, len(self._basis), axis=0)

    monkeypatch.setattr(SignFlips, "draw", phases)
    assert rates(POSITIONS[family], 64, 64, pairs=20)["CKA"].share > 0.3


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
