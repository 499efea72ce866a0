"""The approximate search for UMAP and that of near cells, beside an exact one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from hfposemb.analysis.projection import projected_neighbours as searching
from hfposemb.analysis.projection.inverted_file import build_inverted_file, probes_for, search_inverted_file
from hfposemb.analysis.projection.projected_neighbours import projected_neighbours

Metric = Literal["cosine", "euclidean"]
METRICS: tuple[Metric, ...] = ("cosine", "euclidean")


def tilted(rows: int, width: int, *, power: float, seed: int = 0) -> NDArray[np.float32]:
    """Return rows about a mean that is not zero, whose spread falls with the power of the column's number."""
    random = np.random.default_rng(seed)
    out = random.standard_normal((rows, width)) * np.arange(1, width + 1) ** -power
    return (out + 0.3 * random.standard_normal(width)).astype(np.float32)


def exact(vectors: NDArray[np.float32], k: int, metric: Metric) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest rows of each, and their cosines or distances, in float64."""
    wide = vectors.astype(np.float64)
    if metric == "cosine":
        wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    products = wide @ wide.T
    squares = np.diag(products)
    far = -products if metric == "cosine" else squares[:, None] + squares - 2 * products
    np.fill_diagonal(far, np.inf)
    near = np.argsort(far, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(far, near, 1)
    return near, -values if metric == "cosine" else np.sqrt(values.clip(0))


def recall(found: NDArray[np.integer], true: NDArray[np.integer]) -> float:
    """Return the share of true neighbours that are found."""
    return float(np.mean([len(np.intersect1d(*pair)) for pair in zip(found, true, strict=True)])) / true.shape[1]


def sound(found: searching.Found, near: NDArray[np.int64], values: NDArray[np.float64], metric: Metric) -> None:
    """Fail unless the values are exact and in order, and no row finds itself or another one twice."""
    same = found.indices == near
    np.testing.assert_allclose(found.values[same], values[same], atol=2e-5)
    assert not (found.indices == np.arange(len(near))[:, None]).any()
    assert (np.diff(found.values if metric == "euclidean" else -found.values, axis=1) >= 0).all()
    assert all(len(np.unique(line)) == 10 for line in found.indices)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("power", "narrower"), [(1.0, True), (0.0, False)])
def test_nearly_all_true_neighbours_are_found(metric: Metric, power: float, narrower: bool) -> None:
    vectors = tilted(3_000, 160, power=power)
    found = projected_neighbours(vectors, k=10, metric=metric)
    near, values = exact(vectors, 10, metric)
    assert (found.directions < 160) is narrower
    assert recall(found.indices, near) >= (0.95 if narrower else 0.9999)
    sound(found, near, values, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [12, 1_023, 1_025, 2_051, 3_080])
def test_every_pair_is_seen_whatever_the_number_of_tiles(metric: Metric, rows: int) -> None:
    vectors = tilted(rows, 24, power=0.0)  # too narrow to be projected
    found = projected_neighbours(vectors, k=11, metric=metric)
    assert recall(found.indices, exact(vectors, 11, metric)[0]) == pytest.approx(1, abs=2e-5)


def test_equal_rows_find_each_other() -> None:
    vectors = tilted(1_200, 96, power=0.5)
    vectors[:600] = vectors[0]  # like the unused words of BERT, many more than there is room for
    found = projected_neighbours(vectors, k=15, metric="euclidean")
    assert (found.values[:600] == 0).all()
    assert (found.indices[:600] < 600).all()


def test_progress_ends_at_one_and_never_falls() -> None:
    shares: list[float] = []
    projected_neighbours(
        tilted(3_000, 16, power=0.0), k=3, metric="cosine", progress=lambda share, _: shares.append(share)
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1


# --- near cells -------------------------------------------------------------------------------------------------------


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
    sound(found, near, values, metric)


@pytest.mark.usefixtures("cheap")
def test_rows_without_clusters_are_compared_with_all_others() -> None:
    noise = np.random.default_rng(0).standard_normal((2_000, 96)).astype(np.float32)
    assert projected_neighbours(noise, k=10, metric="cosine").probes == 0


@pytest.mark.parametrize("cells", [False, True], ids=["all rows", "near cells"])
def test_the_result_does_not_depend_on_the_number_of_threads(cells: bool, request: pytest.FixtureRequest) -> None:
    if cells:
        request.getfixturevalue("cheap")
    vectors = clustered(2_500, 64, clusters=20) if cells else tilted(2_500, 128, power=0.8)
    several = projected_neighbours(vectors, k=15, metric="cosine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching.joblib, "cpu_count", lambda: 1)
        alone = projected_neighbours(vectors, k=15, metric="cosine")
    assert (several.probes > 0) is cells
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
