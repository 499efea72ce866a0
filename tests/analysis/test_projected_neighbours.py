"""The approximate search for UMAP beside an exact one."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from hfposemb.analysis.projection import projected_neighbours as searching
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


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("power", "narrower"), [(1.0, True), (0.0, False)])
def test_nearly_all_true_neighbours_are_found(metric: Metric, power: float, narrower: bool) -> None:
    vectors = tilted(3_000, 160, power=power)
    found = projected_neighbours(vectors, k=10, metric=metric)
    near, values = exact(vectors, 10, metric)
    assert (found.directions < 160) is narrower
    assert recall(found.indices, near) >= (0.95 if narrower else 0.9999)
    same = found.indices == near
    np.testing.assert_allclose(found.values[same], values[same], atol=2e-5)
    assert not (found.indices == np.arange(3_000)[:, None]).any()
    assert (np.diff(found.values if metric == "euclidean" else -found.values, axis=1) >= 0).all()
    assert all(len(np.unique(line)) == 10 for line in found.indices)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [12, 1_023, 1_025, 2_051, 3_080])
def test_every_pair_is_seen_whatever_the_number_of_tiles(metric: Metric, rows: int) -> None:
    vectors = tilted(rows, 24, power=0.0)  # too narrow to be projected
    found = projected_neighbours(vectors, k=11, metric=metric)
    assert recall(found.indices, exact(vectors, 11, metric)[0]) == pytest.approx(1, abs=2e-5)


def test_the_result_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = tilted(2_500, 128, power=0.8)
    several = projected_neighbours(vectors, k=15, metric="cosine")
    monkeypatch.setattr(searching, "processors", lambda: 1)
    alone = projected_neighbours(vectors, k=15, metric="cosine")
    np.testing.assert_array_equal(several.indices, alone.indices)
    np.testing.assert_array_equal(several.values, alone.values)


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
