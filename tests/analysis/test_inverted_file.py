"""The search of near cells beside an exact one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hfposemb.analysis.projection import projected_neighbours as searching
from hfposemb.analysis.projection.inverted_file import build_inverted_file, probes_for, search_inverted_file
from hfposemb.analysis.projection.projected_neighbours import projected_neighbours

from .test_projected_neighbours import METRICS, Metric, exact, recall


def clustered(rows: int, width: int, *, clusters: int, seed: int = 0) -> NDArray[np.float32]:
    """Return rows about some centres, with no direction that matters more than others."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((clusters, width))
    found = centres[random.integers(clusters, size=rows)] + 0.7 * random.standard_normal((rows, width))
    return found.astype(np.float32)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an inverted file tried for small tables too, with few cells."""
    monkeypatch.setattr(searching, "WORTH", 0)
    monkeypatch.setattr(searching, "CELLS", 24)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("metric", METRICS)
def test_nearly_all_true_neighbours_are_in_the_cells_searched(metric: Metric) -> None:
    vectors = clustered(3_000, 96, clusters=30)
    found = projected_neighbours(vectors, k=10, metric=metric)
    near, values = exact(vectors, 10, metric)
    assert 0 < found.probes < 24
    assert recall(found.indices, near) >= 0.95
    same = found.indices == near
    np.testing.assert_allclose(found.values[same], values[same], atol=2e-5)
    assert not (found.indices == np.arange(3_000)[:, None]).any()
    assert (np.diff(found.values if metric == "euclidean" else -found.values, axis=1) >= 0).all()
    assert all(len(np.unique(line)) == 10 for line in found.indices)


@pytest.mark.usefixtures("cheap")
def test_rows_without_clusters_are_compared_with_all_others() -> None:
    noise = np.random.default_rng(0).standard_normal((2_000, 96)).astype(np.float32)
    assert projected_neighbours(noise, k=10, metric="cosine").probes == 0


@pytest.mark.usefixtures("cheap")
def test_the_result_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(2_500, 64, clusters=20)
    several = projected_neighbours(vectors, k=15, metric="cosine")
    monkeypatch.setattr(searching, "processors", lambda: 1)
    alone = projected_neighbours(vectors, k=15, metric="cosine")
    assert several.probes > 0
    np.testing.assert_array_equal(several.indices, alone.indices)
    np.testing.assert_array_equal(several.values, alone.values)


def _searched(vectors: NDArray[np.float32], k: int, cells: int, probes: int) -> tuple[Any, Any]:
    into = np.zeros((len(vectors), k), np.int32), np.full((len(vectors), k), -np.inf, np.float32)
    index = build_inverted_file(vectors, cells, seed=0)
    with ThreadPoolExecutor(2) as pool:
        search_inverted_file(index, vectors, probes, into, apart=True, pool=pool, progress=None)
    return into


def test_rows_of_cells_with_too_few_rows_are_compared_with_all_others() -> None:
    vectors = clustered(600, 16, clusters=5)
    vectors[:3] += 100  # a cell of their own
    near, values = exact(vectors, 8, "euclidean")
    indices, found = _searched(vectors, 8, 40, 1)
    np.testing.assert_array_equal(indices[:3], near[:3])
    np.testing.assert_allclose(np.sqrt(-found[:3]), values[:3], rtol=1e-4)


def test_all_cells_together_hold_all_neighbours() -> None:
    vectors = clustered(1_100, 32, clusters=7)
    near, _ = exact(vectors, 6, "euclidean")
    assert recall(_searched(vectors, 6, 16, 16)[0], near) == pytest.approx(1, abs=1e-4)


def test_every_row_is_in_the_cell_of_its_nearest_centre() -> None:
    vectors = clustered(900, 24, clusters=9)
    index = build_inverted_file(vectors, 12, seed=3)
    far = np.linalg.norm(vectors[:, None] - index.centres, axis=2)
    np.testing.assert_array_equal(index.cell, far.argmin(axis=1))
    assert sorted(index.order.tolist()) == list(range(900))


def test_the_number_of_cells_grows_with_the_recall() -> None:
    vectors = clustered(1_500, 48, clusters=400)
    index, asked = build_inverted_file(vectors, 20, seed=0), np.arange(64)
    near, _ = exact(vectors, 10, "euclidean")
    found = [probes_for(index, vectors[asked], near[asked], share) for share in (0.5, 0.9, 1.0)]
    assert [probes for probes, _ in found] == sorted(probes for probes, _ in found)
    cells = index.cell
    places = np.argsort(-index.nearness(vectors[asked]), axis=1)[:, : found[1][0]]
    held = (cells[near[asked]][:, :, None] == places[:, None, :]).any(axis=2).mean()
    assert held >= 0.9
