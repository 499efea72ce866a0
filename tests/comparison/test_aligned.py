"""Two maps in one frame: a table and itself turned lie on each other, and what cannot be drawn says why."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.comparison.aligned_maps import align_maps
from tests.conftest import FULL
from tests.support.made_tables import noise, source, turned


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_table_turned_lies_on_itself(dims: int) -> None:
    rows = noise(300, 12) * np.linspace(4, 1, 12)
    found = align_maps(source(rows, "one"), source(turned(rows, width=20), "other"), "token", dims=dims)
    assert found.coordinates_left.shape == found.coordinates_right.shape == (300, dims)
    assert np.abs(found.coordinates_left - found.coordinates_right).max() < 1e-3
    assert found.disparity < 1e-6
    assert found.labels[:2] == ("word0", "word1")
    assert (found.rows[:, 0] == found.rows[:, 1]).all()


def test_the_first_map_is_its_projection() -> None:
    one, other = hpe.extract("sample:bert"), hpe.sinusoidal(64, 16)
    found = align_maps(one, other, "position")
    assert found.coordinates_left == pytest.approx(hpe.project(one.position).coordinates[:64])
    assert 0 < found.disparity < 1
    # Of equal spread, so that ‖x − y‖² / ‖x‖² = 2 (1 − fit), where the disparity is 1 − fit².
    left = found.coordinates_left - found.coordinates_left.mean(axis=0)
    off = np.square(found.coordinates_left - found.coordinates_right).sum() / np.square(left).sum()
    assert off == pytest.approx(2 * (1 - np.sqrt(1 - found.disparity)), abs=1e-4)


@pytest.mark.skipif(not FULL, reason="numba compiles AlignedUMAP for half a minute")
def test_umap_lays_both_out_together() -> None:
    rows = noise(60, 6)
    found = align_maps(
        source(rows, "one", [f"w{row}" for row in range(60)]),
        source(rows, "two", [f"w{row}" for row in range(60)]),
        "token",
        method="umap",
    )
    assert found.method == "umap"
    assert found.coordinates_right.shape == (60, 2)
    assert np.isfinite(found.coordinates_left).all()
    assert found.disparity < 0.5


def test_what_cannot_be_drawn_says_why() -> None:
    one = hpe.sinusoidal(40, 6)
    for arguments, message in (
        ({"method": "tsne"}, '"pca" or "umap"'),
        ({"method": "umap", "dims": 4}, "dims 2 or 3; got 4"),
        ({"dims": 7}, "dims from 1 to 6; got 7"),
    ):
        with pytest.raises(hpe.HfposembError, match=message):
            align_maps(one, one, "position", **arguments)  # type: ignore[arg-type]
    with pytest.raises(hpe.HfposembError, match='be "position" or "token"; got \'words\''):
        align_maps(one, one, "words")
    with pytest.raises(hpe.HfposembError, match="share 10 positions; at least 20"):
        align_maps(one, hpe.sinusoidal(10, 6), "position")
    with pytest.raises(hpe.HfposembError, match="coincide"):
        align_maps(one, hpe.from_arrays(position=np.ones((40, 6))), "position")


def test_maps_with_little_in_common_have_the_same_spread() -> None:
    """The least-squares scale would shrink the second map to a dot."""
    random = np.random.default_rng(3)
    tables = ((name, random.normal(0, size, (200, 8))) for name, size in (("one", 1.0), ("other", 40.0)))
    one, other = (hpe.from_arrays(position=rows, name=name) for name, rows in tables)
    found = align_maps(one, other, "position")
    assert found.disparity > 0.9
    assert np.allclose(*(np.linalg.norm(m - m.mean(0)) for m in (found.coordinates_left, found.coordinates_right)))


def test_maps_of_unrelated_rows_are_told_beside_rows_in_random_order() -> None:
    """A share of 100 % alone says nothing: maps of noise differ by as much."""
    random = np.random.default_rng(4)
    worse = 0
    for _ in range(40):
        one, other = (hpe.from_arrays(position=random.normal(size=(120, 16)), name=name) for name in "ab")
        worse += "align no better than chance" in align_maps(one, other, "position").sentence("A", "B")
    assert worse >= 36
    said = align_maps(one, one, "position").sentence("A", "B")
    assert said.startswith("After the best alignment, the maps of A and B differ by 0")
    assert "rows in random order by 9" in said
