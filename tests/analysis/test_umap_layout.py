"""UMAP's layout: umap-learn's own, seen after each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from umap.umap_ import simplicial_set_embedding

from hfposemb.analysis.projection.umap_layout import optimised_layout

CURVE = (1.577, 0.895)


def ring(count: int) -> Any:
    """Return the graph of a ring whose points are joined to their two neighbours on either side."""
    rows = np.repeat(np.arange(count), 4)
    columns = (np.arange(count)[:, None] + [-2, -1, 1, 2]) % count
    weights = np.tile([0.4, 1.0, 1.0, 0.4], count)
    return scipy.sparse.coo_matrix((weights, (rows, columns.ravel())), (count, count))


def start(count: int, dims: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(count, dims))


@pytest.mark.parametrize("dims", [2, 3])
def test_the_layout_is_that_of_umap_learn(dims: int) -> None:
    """To the bit, and another one for another seed."""
    random = np.random.RandomState(3)
    whole = simplicial_set_embedding(
        np.zeros((60, 4)),
        ring(60),
        dims,
        1.0,
        *CURVE,
        1.0,
        5,
        30,
        start(60, dims),
        random,
        "euclidean",
        {},
        False,
        {},
        False,
    )[0]
    seen: list[int] = []
    found = optimised_layout(
        ring(60), start(60, dims), epochs=30, curve=CURVE, seed=3, each=lambda epoch, _: seen.append(epoch)
    )
    np.testing.assert_array_equal(found, whole)
    assert seen == list(range(1, 31))
    assert (optimised_layout(ring(60), start(60, dims), epochs=30, curve=CURVE, seed=4) != whole).any()


def test_a_coordinate_that_all_points_share_stays_finite() -> None:
    flat = start(60, 2) * [1, 0]
    assert np.isfinite(optimised_layout(ring(60), flat, epochs=6, curve=CURVE, seed=0)).all()


def test_neighbours_in_the_graph_become_neighbours() -> None:
    """From random places, neighbours on a ring come close."""
    found = optimised_layout(ring(400), start(400, 2), epochs=300, curve=CURVE, seed=0)
    steps = np.linalg.norm(found - np.roll(found, 1, axis=0), axis=1)
    far = np.linalg.norm(found - np.roll(found, 200, axis=0), axis=1)
    assert np.median(steps) < 0.1 * np.median(far)


def test_an_error_of_the_callback_ends_the_layout() -> None:
    calls: list[int] = []

    def stop(epoch: int, _: NDArray[np.float32]) -> None:
        calls.append(epoch)
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimised_layout(ring(50), start(50, 2), epochs=100, curve=CURVE, seed=0, each=stop)
    assert calls == [1, 2, 3]
