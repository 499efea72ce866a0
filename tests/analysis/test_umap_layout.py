"""UMAP's layout: the same as umap-learn's in quality, and the same for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from hfposemb.analysis.projection import umap_layout
from hfposemb.analysis.projection.umap_layout import SMALL, optimised_layout

CURVE = (1.577, 0.895)


def ring(count: int) -> Any:
    """Return the graph of a ring whose points are joined to their two neighbours on either side."""
    rows = np.repeat(np.arange(count), 4)
    columns = (np.arange(count)[:, None] + [-2, -1, 1, 2]) % count
    weights = np.tile([0.4, 1.0, 1.0, 0.4], count)
    return scipy.sparse.coo_matrix((weights, (rows, columns.ravel())), (count, count))


def start(count: int, dims: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(count, dims))


@pytest.mark.parametrize("count", [60, SMALL + 300])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_number_of_threads_changes_nothing(count: int, dims: int) -> None:
    found = [
        optimised_layout(ring(count), start(count, dims), epochs=6, curve=CURVE, seed=3, workers=workers)
        for workers in (1, 2, 5)
    ]
    assert found[0].shape == (count, dims)
    assert np.isfinite(found[0]).all()
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    other = optimised_layout(ring(count), start(count, dims), epochs=6, curve=CURVE, seed=4)
    assert (other != found[0]).any()


@pytest.mark.parametrize("parts", [1, 4])
def test_neighbours_in_the_graph_become_neighbours(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From random places, neighbours on a ring come close; with a part to a thread as with a single one."""
    monkeypatch.setattr(umap_layout, "SMALL", 10_000 if parts == 1 else 0)
    found = optimised_layout(ring(400), start(400, 2), epochs=300, curve=CURVE, seed=0)
    steps = np.linalg.norm(found - np.roll(found, 1, axis=0), axis=1)
    far = np.linalg.norm(found - np.roll(found, 200, axis=0), axis=1)
    assert np.median(steps) < 0.1 * np.median(far)


def test_forces_are_those_of_umap() -> None:
    """A pair alone is pulled along the gradient of the attraction, by both of its edges in turn."""
    a, b = CURVE
    graph = scipy.sparse.coo_matrix(([1.0, 1.0], ([0, 1], [1, 0])), (2, 2))
    seen: list[NDArray[np.float32]] = []
    optimised_layout(
        graph,
        np.array([[0.0, 0.0], [1.0, 0.5]]),
        epochs=2,
        curve=CURVE,
        seed=0,
        each=lambda _, points: seen.append(points.copy()),
    )
    left, right = np.array([0.0, 0.0]), np.array([10.0, 10.0])
    np.testing.assert_array_equal(seen[0], [left, right])  # the first samples are due in the second epoch
    for _ in range(2):
        square = ((left - right) ** 2).sum()
        factor = -2 * a * b * square ** (b - 1) / (1 + a * square**b)
        move = np.clip(factor * (left - right), -4, 4)
        left, right = left + move, right - move
    assert left[0] > 0.15
    # Negative samples are the other point or the point itself, 4 an edge, and push by less than this at that distance.
    np.testing.assert_allclose(seen[1], [left, right], atol=0.01)


@pytest.mark.parametrize("base", [1e-12, 1e-3, 0.3, 1.0, 1.999999, 7.5, 4e4, 1e9])
@pytest.mark.parametrize("exponent", [0.1, 0.895, 1.9])
def test_powers(base: float, exponent: float) -> None:
    found = float(umap_layout._power(np.float32(base), np.float32(exponent)))
    assert found == pytest.approx(float(np.float32(base)) ** float(np.float32(exponent)), rel=2e-4)


def test_an_error_of_the_callback_ends_the_layout() -> None:
    calls: list[int] = []

    def stop(epoch: int, _: NDArray[np.float32]) -> None:
        calls.append(epoch)
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimised_layout(ring(50), start(50, 2), epochs=100, curve=CURVE, seed=0, each=stop)
    assert calls == [1, 2, 3]
