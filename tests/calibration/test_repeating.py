"""Tables that repeat along the way, as patches of an image do, are not called alike for it; copies are as before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hfposemb import from_arrays
from hfposemb.analysis.nulls import local_variogram
from hfposemb.comparison.alignment import align
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.encodings import Absolute, Grid

from .families import POSITIONS, RELATED, Rows
from .rates import rates
from .varying import REPEATING, VARYING, patches, segments

SHAPES = {"a grid of patches": (50, 65), "segments of n/8": (64,)}


@pytest.mark.parametrize(("family", "count"), [(family, count) for family in SHAPES for count in SHAPES[family]])
def test_independent_tables_that_repeat_are_rarely_called_alike(family: str, count: int) -> None:
    found = rates(REPEATING[family], count, 64, pairs=20)
    assert found.found <= 1, found


def test_the_bench_shows_a_test_that_takes_a_period_for_an_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_variogram, "why_repeating", lambda *_: "")
    for make in (patches, segments):
        found = rates(make, 65, 64, pairs=12)
        assert found.found >= 0.8 * found.tested
        assert found.tested >= 6


@pytest.mark.parametrize("family", ["noise", "smooth, ℓ = n/16", "rough, memory n/8", "ARMA, period 20"])
def test_copies_do_not_repeat(family: str) -> None:
    """Not even those that have a wave of one period, whose cosines depend on the lag alone."""
    rng, said = np.random.default_rng(0), []
    for _ in range(10):
        sides = RELATED["rotated copies with noise of 0.5"]((POSITIONS | VARYING)[family], 64, 64, rng)
        pair = align(*(from_arrays(position=rows.astype(np.float32)) for rows in sides), "position", draws=99)
        said.append(pair.untested)
    assert not any("repeat" in why for why in said)


def test_patches_of_two_images_are_not_compared_with_chance() -> None:
    """However weak their grid is, which the source knows."""
    rng = np.random.default_rng(0)

    def source(rows: Rows, grid: Grid | None) -> Embeddings:
        made = from_arrays(position=rows.astype(np.float32))
        assert isinstance(made.position, Absolute)
        return replace(made, positions={"position": replace(made.position, grid=grid)})

    tables = [patches(65, 64, rng, spoilt=2.0) for _ in range(2)]
    found = align(*(source(rows, Grid(8, 8, first=1)) for rows in tables), "position", draws=99)
    assert not found.measures
    assert "patches of an image" in found.untested
    one = align(
        source(tables[0], Grid(8, 8, first=1)), source(POSITIONS["noise"](65, 64, rng), None), "position", draws=99
    )
    assert one.measures, "the test holds if the variogram of either fits"
