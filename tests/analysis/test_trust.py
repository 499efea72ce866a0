"""Trust in a picture: the means are what scikit-learn measures, and single points tell where it lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors

from hfposemb.analysis.projection.projecting import project
from hfposemb.analysis.projection.quality import measure, point_trust
from hfposemb.errors import InputError
from tests.support.made_tables import noise as _noise
from tests.support.made_tables import table as _table

Array = NDArray[np.float64]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(3, 60), metric=st.sampled_from(["cosine", "euclidean"]))
def test_the_means_are_those_of_scikit_learn(seed: int, rows: int, metric: str) -> None:
    vectors, picture = _noise(rows, 5, seed), _noise(rows, 2, seed + 1)
    each = point_trust(_table(vectors), picture, metric=metric)  # type: ignore[arg-type]
    found = measure(_table(vectors), picture, metric=metric)  # type: ignore[arg-type]
    assert found == each.quality
    assert (found.k, found.points, found.rows) == (min(10, (rows - 1) // 2), rows, rows)
    assert found.trustworthiness == pytest.approx(trustworthiness(vectors, picture, n_neighbors=found.k, metric=metric))
    if metric == "euclidean":  # with the roles swapped, the oracle's metric is that of the picture
        assert found.continuity == pytest.approx(trustworthiness(picture, vectors, n_neighbors=found.k))
    sides = [
        NearestNeighbors(n_neighbors=found.k, metric=m).fit(x) for x, m in ((vectors, metric), (picture, "euclidean"))
    ]
    near = [side.kneighbors(return_distance=False) for side in sides]
    kept = [len(set(a) & set(b)) for a, b in zip(*near, strict=True)]
    assert each.counts.tolist() == kept
    assert found.neighbours_kept == pytest.approx(np.mean(kept) / found.k)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(3, 60), width=st.integers(1, 4))
def test_continuity_is_trustworthiness_with_the_roles_swapped(seed: int, rows: int, width: int) -> None:
    vectors, picture = _noise(rows, width, seed), _noise(rows, 2, seed + 1)
    there, back = point_trust(_table(vectors), picture), point_trust(_table(picture), vectors)
    np.testing.assert_allclose(there.continuity, back.trustworthiness, atol=1e-12)
    np.testing.assert_allclose(there.trustworthiness, back.continuity, atol=1e-12)
    np.testing.assert_array_equal(there.neighbours_kept, back.neighbours_kept)
    for part in (there.continuity, there.trustworthiness, there.neighbours_kept):
        assert (part >= 0).all()
        assert (part <= 1).all()


@pytest.mark.parametrize("rows", [3, 200, 6_000])
def test_the_table_itself_is_its_best_picture(rows: int) -> None:
    vectors = _noise(rows, 3)
    found = point_trust(_table(vectors), 7 - 2 * vectors)
    assert (found.neighbours_kept == 1).all()
    assert (found.trustworthiness == 1).all()
    assert (found.continuity == 1).all()


def test_a_scrambled_picture_is_chance() -> None:
    vectors = _noise(1_500, 6)
    found = measure(_table(vectors), vectors[np.random.default_rng(1).permutation(1_500), :3])
    assert found.kept_by_chance == 10 / 1_499
    assert found.neighbours_kept == pytest.approx(found.kept_by_chance, abs=0.003)
    assert found.trust_by_chance == pytest.approx(0.5, abs=0.002)
    assert found.trustworthiness == pytest.approx(found.trust_by_chance, abs=0.02)
    assert found.continuity == pytest.approx(found.trust_by_chance, abs=0.02)


@pytest.mark.parametrize("rows", [5, 12, 40])
def test_chance_is_the_mean_over_layouts(rows: int) -> None:
    """Of small tables too, where chance is not one half."""
    table = _table(_noise(rows, 4))
    drawn = [measure(table, _noise(rows, 2, seed)) for seed in range(300)]
    spread = np.std([one.trustworthiness for one in drawn]) / np.sqrt(300)
    assert np.mean([one.trustworthiness for one in drawn]) == pytest.approx(drawn[0].trust_by_chance, abs=4 * spread)
    assert np.mean([one.neighbours_kept for one in drawn]) == pytest.approx(drawn[0].kept_by_chance, abs=0.05)


def test_a_point_that_lies_wrongly_is_found() -> None:
    """A circle, one point of which is drawn on the other side: it alone has none of its neighbours near."""
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    picture = circle.copy()
    picture[20] = -0.99 * circle[20]
    found = point_trust(_table(circle), picture)
    assert found.counts[20] == 0
    assert found.trustworthiness.argmin() == found.continuity.argmin() == 20
    others = np.delete(found.counts, 20)
    assert others.min() >= 9
    alone = point_trust(_table(circle), picture, points=[20, 3])
    assert alone.points.tolist() == [20, 3]
    assert alone.trustworthiness.tolist() == found.trustworthiness[[20, 3]].tolist()
    assert alone.continuity.tolist() == found.continuity[[20, 3]].tolist()
    first = found.take(np.arange(30))
    assert (first.points.tolist(), first.rows) == (list(range(30)), 100)
    assert first.neighbours_kept.tolist() == found.neighbours_kept[:30].tolist()
    some = alone.take(np.array([50, 20, 3]))
    assert some.points.tolist() == [1, 2], "the places of rows 20 and 3 in the cut picture"
    assert some.continuity.tolist() == found.continuity[[20, 3]].tolist()


def test_points_of_large_tables_are_a_stated_sample() -> None:
    vectors = _noise(3_000, 6)
    found = point_trust(_table(vectors), vectors[:, :3], seed=1)
    whole = trustworthiness(vectors, vectors[:, :3], n_neighbors=10)
    assert (len(found.points), found.k, found.rows) == (500, 10, 3_000)
    assert found.quality.trustworthiness == pytest.approx(whole, abs=0.02)
    some = point_trust(_table(vectors), vectors[:, :3], points=found.points[:40])
    np.testing.assert_array_equal(some.neighbours_kept, found.neighbours_kept[:40])
    assert len(point_trust(_table(vectors), vectors[:, :3], points=30).points) == 30
    # In float32, as of all larger tables, the numbers are the same to what is shown.
    large = _noise(5_200, 6).astype(np.float32)
    both = [point_trust(_table(large.astype(kind)), large[:, :2], points=60) for kind in (np.float32, np.float64)]
    np.testing.assert_allclose(both[0].trustworthiness, both[1].trustworthiness, atol=1e-3)
    np.testing.assert_allclose(both[0].continuity, both[1].continuity, atol=1e-3)


def test_a_table_of_several_blocks_is_measured_as_one() -> None:
    vectors, picture = _noise(3_000, 1_024), _noise(3_000, 2, 1)
    vectors[:, :2] += 9 * picture
    there = point_trust(_table(vectors), picture, points=30)
    back = point_trust(_table(picture), vectors, points=there.points)
    np.testing.assert_allclose(there.continuity, back.trustworthiness, atol=1e-12)
    np.testing.assert_allclose(there.trustworthiness, back.continuity, atol=1e-12)
    assert there.neighbours_kept.mean() > 0.02


def test_rows_left_out_are_neither_points_nor_neighbours() -> None:
    vectors = _noise(60, 4)
    vectors[2], vectors[11, 1], vectors[30] = np.nan, np.inf, 0
    kept = np.delete(vectors, [2, 11], axis=0)
    found, clean = project(_table(vectors)).trust, project(_table(kept)).trust
    assert found is not None
    assert clean is not None
    np.testing.assert_array_equal(found.neighbours_kept, clean.neighbours_kept)
    np.testing.assert_array_equal(found.continuity, clean.continuity)
    assert found.points.tolist() == list(range(58))
    rows, picture = np.flatnonzero(np.linalg.norm(vectors, axis=1) > 0), _noise(60, 2)
    rows = rows[np.isfinite(vectors[rows]).all(axis=1)]
    bent = point_trust(_table(vectors), picture[rows], rows=rows, metric="cosine")
    again = point_trust(_table(vectors[rows]), picture[rows], metric="cosine")
    assert bent.rows == 57
    np.testing.assert_array_equal(bent.counts, again.counts)
    np.testing.assert_array_equal(bent.trustworthiness, again.trustworthiness)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_one_or_two_points_cannot_lie_wrongly(rows: int) -> None:
    found = point_trust(_table(_noise(3, 2)), np.zeros((rows, 2)), rows=np.arange(rows), points=5)
    assert found.neighbours_kept.tolist() == [1.0] * rows


def test_what_cannot_be_measured_says_so() -> None:
    vectors = _noise(30, 4)
    with pytest.raises(InputError, match="finite points, one for each row"):
        measure(_table(vectors), vectors[1:])
    with pytest.raises(InputError, match="have no cosine"):
        measure(_table(np.zeros((4, 2))), np.zeros((4, 2)), metric="cosine")
    for points in ([30], [-1], [], 0):
        with pytest.raises(InputError, match=r"must be indices|must be at least 1"):
            point_trust(_table(vectors), vectors, points=points)
