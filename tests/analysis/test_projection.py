"""Projection: PCA is exact, and UMAP is repeatable."""

from __future__ import annotations

import pickle
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial import procrustes
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from hfposemb.analysis.projection import projecting
from hfposemb.analysis.projection.projecting import UMAPParameters, project
from hfposemb.analysis.projection.quality import measure, point_trust
from hfposemb.errors import InputError
from hfposemb.models.extraction import extract
from hfposemb.tables.encodings import Absolute
from hfposemb.tables.table import EmbeddingTable
from tests.support.made_tables import noise as _noise
from tests.support.made_tables import streamed
from tests.support.made_tables import table as _table
from tests.support.processes.past_memory import within, write_large

Array = NDArray[np.float64]
FAST = UMAPParameters(n_neighbors=5, n_epochs=20)
ENGINES: tuple[Literal["hfposemb", "umap-learn"], ...] = ("hfposemb", "umap-learn")


@pytest.fixture(scope="module")
def positions(minilm_folder: Path) -> EmbeddingTable:
    table = extract(str(minilm_folder)).position.table
    assert table is not None
    return table


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(2, 30), width=st.integers(1, 12))
def test_pca_at_full_rank_keeps_distances(seed: int, rows: int, width: int) -> None:
    vectors = _noise(rows, width, seed)
    found = project(_table(vectors), dims=width)
    assert found.coordinates.shape == (rows, width)
    np.testing.assert_allclose(pairwise_distances(found.coordinates), pairwise_distances(vectors), rtol=1e-4, atol=1e-5)
    assert found.explained_variance_ratio is not None
    assert found.explained_variance_ratio.sum() == pytest.approx(1)
    assert (np.diff(found.explained_variance_ratio) <= 1e-12).all()
    assert found.quality.trustworthiness == pytest.approx(1)
    assert found.quality.neighbours_kept == pytest.approx(1)


@pytest.mark.parametrize(("rows", "width"), [(60, 8), (8, 60), (30, 30), (6_000, 16)])
def test_pca_is_that_of_scikit_learn(rows: int, width: int) -> None:
    vectors = (_noise(rows, width) * np.arange(1, width + 1) + 5).astype(np.float32)
    found, oracle = project(_table(vectors), dims=3), PCA(3, svd_solver="full").fit(vectors.astype(np.float64))
    wanted = oracle.transform(vectors.astype(np.float64))
    wanted *= np.sign(np.take_along_axis(oracle.components_, np.abs(oracle.components_).argmax(1)[:, None], 1)[:, 0])
    np.testing.assert_allclose(found.coordinates, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found.explained_variance_ratio, oracle.explained_variance_ratio_, rtol=1e-5)


def test_reference_variance(positions: EmbeddingTable) -> None:
    found = project(positions, dims=5)
    assert found.explained_variance_ratio is not None
    assert np.round(100 * found.explained_variance_ratio.cumsum()[[1, 2, 4]], 2).tolist() == [24.51, 34.53, 51.61]
    assert found.coordinates.dtype == np.float32
    assert found.rows.tolist() == list(range(512))
    assert repr(found).startswith("Projection(pca of ")
    assert "512 points in 5-D, seed 0, 51.6% of the variance" in repr(found)


def test_pca_is_the_same_every_time_and_for_every_seed(positions: EmbeddingTable) -> None:
    first, second = project(positions, dims=3), project(Absolute(positions), dims=3, seed=9)
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    assert (first.seed, second.seed) == (0, 9)


def test_a_picture_is_measured_when_somebody_looks(positions: EmbeddingTable) -> None:
    found = project(positions)
    assert not found.measured
    assert found.quality == measure(positions, found.coordinates)
    assert found.measured
    expected = point_trust(positions, found.coordinates)
    assert found.trust is not None
    np.testing.assert_array_equal(found.trust.neighbours_kept, expected.neighbours_kept)
    np.testing.assert_array_equal(found.trust.continuity, expected.continuity)


def test_a_pickled_picture_is_measured_and_carries_no_table(positions: EmbeddingTable) -> None:
    found = pickle.dumps(project(positions))
    assert len(found) < positions.vectors.nbytes / 4
    again = pickle.loads(found)
    assert again.measured
    assert again.quality == project(positions).quality
    assert replace(again, name="other", trust=None).trust is None


def test_turning_a_table_turns_no_picture_but_by_sign() -> None:
    vectors = _noise(50, 6) * np.arange(1, 7)
    turned = project(_table(vectors @ np.linalg.qr(_noise(6, 6))[0] + 3), dims=3)
    plain = project(_table(vectors), dims=3)
    np.testing.assert_allclose(np.abs(turned.coordinates), np.abs(plain.coordinates), atol=1e-4)
    assert turned.quality == plain.quality


def test_streaming_a_large_table_projects_the_same() -> None:
    vectors = (_noise(140_000, 64) * np.linspace(1, 4, 64)).astype(np.float32)
    table, asked = streamed(vectors)
    found = project(table)
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    values, components = np.linalg.eigh(centred.T @ centred)
    components = components[:, [-1, -2]]
    components *= np.sign(components[np.abs(components).argmax(axis=0), [0, 1]])
    np.testing.assert_allclose(found.coordinates, centred @ components, atol=1e-2)
    np.testing.assert_allclose(found.explained_variance_ratio, values[[-1, -2]] / values.sum(), rtol=1e-5)
    assert found.quality.points == 500
    assert max(asked) < len(vectors)


@pytest.mark.parametrize("length", [1, 100])
def test_pca_of_rows_far_from_zero_is_exact(length: float) -> None:
    # The mean is subtracted from the coordinates of rows near it, and from the rows themselves if it is far away.
    spread = np.linspace(1, 4, 32)
    vectors = (_noise(6_000, 32) * spread + length * np.linalg.norm(spread)).astype(np.float32)
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    components = np.linalg.eigh(centred.T @ centred)[1][:, [-1, -2]]
    components *= np.sign(components[np.abs(components).argmax(axis=0), [0, 1]])
    found = project(_table(vectors)).coordinates
    np.testing.assert_allclose(found, centred @ components, atol=0.02)
    assert np.abs(found.mean(axis=0)).max() < 1e-3


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not hold a process to RLIMIT_DATA")
def test_pca_of_a_table_past_memory(tmp_path: Path) -> None:
    done = within(write_large(tmp_path), "print(len(project(table).coordinates))")
    assert done.stdout == "100000\n", done.stderr


def test_rows_that_are_not_finite_are_left_out() -> None:
    vectors = _noise(30, 4)
    vectors[2], vectors[11, 1] = np.nan, np.inf
    found, without = project(_table(vectors)), project(_table(np.delete(vectors, [2, 11], axis=0)))
    assert found.left_out == 2
    assert "2 rows left out" in repr(found)
    assert found.rows.tolist() == [row for row in range(30) if row not in (2, 11)]
    np.testing.assert_array_equal(found.coordinates, without.coordinates)


@pytest.mark.parametrize("vectors", [np.full((9, 4), 0.1), np.zeros((2, 3)), np.full((9, 4), 0.1, np.float32)])
def test_rows_that_are_all_the_same_lie_in_one_place(vectors: NDArray[np.floating]) -> None:
    found = project(_table(vectors), dims=3)
    assert (found.coordinates == 0).all()
    assert found.explained_variance_ratio is not None
    assert (found.explained_variance_ratio == 0).all()
    assert found.quality.trustworthiness == 1


def test_directions_without_variance_are_zero() -> None:
    found = project(_table(np.outer(np.arange(20.0), np.ones(5))), dims=3)
    assert found.explained_variance_ratio == pytest.approx([1, 0, 0])
    assert (found.coordinates[:, 1:] == 0).all()
    assert project(_table(_noise(2, 5)), dims=3).coordinates.shape == (2, 3)


@pytest.mark.parametrize(
    ("rows", "width", "knobs", "says"),
    [
        (1, 3, {}, "1 finite rows; the variance needs at least 2"),
        (9, 3, {"dims": 4}, "dims from 1 to 3"),
        (9, 60, {"dims": 51}, "dims from 1 to 50"),
        (9, 3, {"dims": 0}, "got 0"),
        (9, 3, {"method": "tsne"}, '"pca" or "umap"'),
        (9, 3, {"method": "umap", "dims": 4}, "2 or 3"),
        (3, 3, {"method": "umap"}, r"needs more than 15 rows; made has 3: use method='pca', or .*n_neighbors=2"),
        (2, 3, {"method": "umap"}, "use method='pca'$"),
    ],
)
def test_what_cannot_be_projected_says_so(rows: int, width: int, knobs: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        project(_table(_noise(rows, width)), **knobs)


@pytest.mark.parametrize(
    "wrong",
    [{"n_neighbors": 1}, {"min_dist": 2.0}, {"n_epochs": 0}, {"metric": "dot"}, {"init": ""}, {"engine": "cuml"}],
)
def test_parameters_that_make_no_sense_say_so(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="UMAP needs"):
        UMAPParameters(**wrong)


@pytest.mark.parametrize("dims", [2, 3])
def test_umap_is_the_same_for_the_same_seed(dims: int) -> None:
    table = _table(_noise(80, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        first = project(table, method="umap", dims=dims, umap=FAST)
    second, other = (project(table, method="umap", dims=dims, seed=seed, umap=FAST) for seed in (0, 1))
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    assert first.quality == second.quality
    assert (first.coordinates != other.coordinates).any()
    assert first.coordinates.shape == (80, dims)
    assert first.explained_variance_ratio is None
    assert first.parameters == {
        "n_neighbors": 5,
        "min_dist": 0.1,
        "metric": "cosine",
        "n_epochs": 20,
        "init": "pca",
        "engine": "hfposemb",
        "neighbour_search": "exact",
    }
    assert first.quality.metric == "cosine"


def test_umap_leaves_out_rows_without_a_direction() -> None:
    vectors = _noise(40, 5)
    vectors[3], vectors[8, 2] = 0, np.nan
    found = project(_table(vectors), method="umap", umap=FAST)
    assert found.left_out == 2
    assert found.rows.tolist() == [row for row in range(40) if row not in (3, 8)]
    assert np.isfinite(found.coordinates).all()
    by_distance = project(
        _table(vectors), method="umap", umap=UMAPParameters(n_neighbors=5, n_epochs=20, metric="euclidean")
    )
    assert by_distance.left_out == 1


@pytest.mark.parametrize("vectors", [np.ones((30, 4)), np.repeat(_noise(3, 4), 10, axis=0), _noise(30, 1)])
@pytest.mark.parametrize("init", ["pca", "random"])
def test_umap_of_rows_that_are_the_same_is_finite(vectors: Array, init: str) -> None:
    found = project(_table(vectors), method="umap", umap=UMAPParameters(n_neighbors=5, n_epochs=20, init=init))
    assert np.isfinite(found.coordinates).all()


def test_umap_says_how_far_it_is() -> None:
    said: list[tuple[float, str]] = []
    project(_table(_noise(60, 5)), method="umap", umap=FAST, progress=lambda share, doing: said.append((share, doing)))
    shares = [share for share, _ in said]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    stages = [doing for _, doing in said]
    assert stages.index("neighbours") < stages.index("graph") < stages.index("layout, epoch 20 of 20")
    said.clear()
    project(_table(_noise(60, 5)), progress=lambda share, doing: said.append((share, doing)))
    assert said == [(0.0, "components"), (1.0, "done")]


def test_a_large_table_starts_from_a_sample_and_is_seen_before_it_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfposemb.analysis.projection.projecting.EXACT_ROWS", 4_999)
    monkeypatch.setattr("hfposemb.analysis.projection.projecting.COARSE_ROWS", 5_000)
    monkeypatch.setattr("hfposemb.analysis.projection.projecting.PREVIEW_SECONDS", 0.0)
    random = np.random.default_rng(0)
    centres = random.standard_normal((12, 24))
    group = random.integers(12, size=5_000)
    table = _table(centres[group] + 0.3 * random.standard_normal((5_000, 24)))
    seen: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    short = UMAPParameters(n_epochs=10)
    found = project(table, method="umap", umap=short, preview=lambda *given: seen.append(given))
    assert (found.parameters["init"], found.parameters["neighbour_search"]) == ("layout of a sample", "approximate")
    assert [len(rows) for rows, _ in seen] == [5_000] * 11
    first, last = seen[0][1], seen[-1][1]
    np.testing.assert_array_equal(last, found.coordinates)
    for points in (first, last):  # each group is a cluster from the first layout on
        means = np.stack([points[group == one].mean(axis=0) for one in range(12)])
        nearest = ((points[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        assert (nearest == group).mean() > 0.95
    np.testing.assert_array_equal(project(table, method="umap", umap=short).coordinates, found.coordinates)


def test_neighbours_beyond_the_exact_ones_are_those_of_umap_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from umap import UMAP

    monkeypatch.setattr("hfposemb.analysis.projection.projecting.EXACT_ROWS", 0)
    table, rows = _table(_noise(5_000, 12)), np.arange(5_000)
    found, distances = projecting._nearest(table, rows, UMAPParameters(), 3, lambda *_: None)
    plain = UMAP(random_state=3, n_jobs=1, n_epochs=1, init="random", metric="cosine")
    wanted = plain.fit(table.vectors.astype(np.float32))
    shared = [len(np.intersect1d(*pair)) for pair in zip(found, wanted._knn_indices, strict=True)]
    assert np.mean(shared) > 0.99 * 15
    assert (found[:, 0] == rows).all()
    assert (np.diff(distances, axis=1) >= 0).all()


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("rows", [300, 4_200])
def test_the_graph_is_that_of_umap_learn(rows: int, metric: Literal["cosine", "euclidean"]) -> None:
    """Neighbours are the nearest in a table of any size, and weighted by umap-learn's definition."""
    from umap.umap_ import fuzzy_simplicial_set

    vectors, parameters = _noise(rows, 12).astype(np.float32), UMAPParameters(metric=metric)
    near = NearestNeighbors(n_neighbors=15, metric=metric, algorithm="brute").fit(vectors)
    away, places = near.kneighbors(vectors)
    wanted = fuzzy_simplicial_set(vectors, 15, np.random.RandomState(0), metric, {}, places, away.astype(np.float32))[0]
    given = projecting._nearest(_table(vectors), np.arange(rows), parameters, 0, lambda *_: None)
    found = projecting._graph(*given, parameters, 0)
    assert abs(found - wanted).max() < 1e-3


@pytest.fixture(scope="module")
def clusters() -> EmbeddingTable:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((12, 24))[random.integers(12, size=700)]
    return _table((vectors + 0.3 * random.standard_normal((700, 24))).astype(np.float32))


def test_umap_is_as_faithful_as_umap_learn(clusters: EmbeddingTable) -> None:
    ours, theirs = (
        [project(clusters, method="umap", seed=seed, umap=UMAPParameters(engine=engine)) for seed in range(3)]
        for engine in ENGINES
    )
    assert (repr(ours[0])[:20], repr(theirs[0])[:34]) == ("Projection(umap of m", "Projection(umap by umap-learn of m")
    trust, kept = (
        [np.mean([getattr(one.quality, name) for one in found]) for found in (ours, theirs)]
        for name in ("trustworthiness", "neighbours_kept")
    )
    assert trust[0] == pytest.approx(trust[1], abs=0.005)
    assert kept[0] == pytest.approx(kept[1], abs=0.01)


def test_umap_from_the_same_start_stays_near_umap_learn(clusters: EmbeddingTable) -> None:
    """Both start from PCA; after 50 epochs, two seeds of umap-learn are .04 to .09 apart, and random layouts 1."""
    apart = []
    for seed in range(3):
        chosen = [UMAPParameters(n_epochs=50, engine=engine) for engine in ENGINES]
        ours, theirs = (project(clusters, method="umap", seed=seed, umap=one).coordinates for one in chosen)
        apart.append(procrustes(ours, theirs)[2])
    assert 0 < np.mean(apart) < 0.15


def test_umap_learn_is_run_itself(positions: EmbeddingTable) -> None:
    from umap import UMAP

    chosen = UMAPParameters(n_neighbors=7, min_dist=0.3, n_epochs=20, metric="euclidean", engine="umap-learn")
    found = project(positions, method="umap", dims=3, seed=4, umap=chosen)
    knobs = {"n_neighbors": 7, "min_dist": 0.3, "n_epochs": 20, "metric": "euclidean", "init": "pca"}
    wanted = UMAP(n_components=3, random_state=4, n_jobs=1, **knobs).fit_transform(positions.vectors)
    np.testing.assert_array_equal(found.coordinates, wanted)
    assert dict(found.parameters) == {**knobs, "engine": "umap-learn", "neighbour_search": "exact"}


@pytest.mark.parametrize("rows", [400, 3_000])
def test_trustworthiness_is_that_of_scikit_learn(rows: int) -> None:
    """Of the same points, both are equal; points alone have other neighbours than among all rows of a table."""
    vectors, points = _noise(rows, 8), _noise(rows, 2, seed=1)
    vectors[:, :2] += 2 * points
    wanted = trustworthiness(vectors, points, n_neighbors=10, metric="cosine")
    found = point_trust(_table(vectors), points, metric="cosine", points=rows).quality
    assert found.trustworthiness == pytest.approx(wanted, abs=1e-9)


def test_a_cut_projection_is_cut_in_every_part() -> None:
    """Of 3,000 points 500 have trust: what stays of them must point at the same rows as before."""
    whole = project(_table(np.random.default_rng(0).normal(size=(3_000, 6))), method="pca", dims=2)
    places = np.random.default_rng(1).permutation(3_000)[:1_000]
    cut = whole.take(places)
    assert cut.rows.tolist() == whole.rows[places].tolist()
    assert cut.coordinates.tolist() == whole.coordinates[places].tolist()
    assert (cut.quality, cut.left_out) == (whole.quality, whole.left_out)
    assert whole.trust is not None
    assert cut.trust is not None
    before = dict(zip(whole.rows[whole.trust.points].tolist(), whole.trust.neighbours_kept.tolist(), strict=True))
    after = dict(zip(cut.rows[cut.trust.points].tolist(), cut.trust.neighbours_kept.tolist(), strict=True))
    assert after == {row: before[row] for row in cut.rows.tolist() if row in before}
    unmeasured = np.setdiff1d(np.arange(3_000), whole.trust.points)[:5]
    assert whole.take(unmeasured).trust is None
    for wrong in ([3_000], [-1], [1, 1], [[0]]):
        with pytest.raises(InputError, match="distinct indices"):
            whole.take(np.array(wrong))
