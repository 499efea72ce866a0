"""UMAP's layout by umap-learn's own stochastic gradient descent, one epoch at a time.

umap-learn runs all epochs in one call and says nothing until the last one. Here its compiled function is called for
each epoch, so that progress and unfinished layouts can be shown. It runs on one thread, as in umap-learn with a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .compiled_umap import compiled_umap

RATE = 5.0
"""Negative samples per edge, umap-learn's default."""

Points: TypeAlias = NDArray[np.float32]
Epoch: TypeAlias = Callable[[int, Points], None]
"""Called after each epoch with its number, from 1, and the coordinates [n, dims], which change afterwards."""


def _boxed(start: NDArray[Any]) -> Points:
    """Return coordinates scaled to 0 to 10 along each dimension, as umap-learn does before it optimises."""
    low, high = start.min(axis=0), start.max(axis=0)
    width = np.where(high > low, high - low, 1)
    return np.ascontiguousarray(10 * (start - low) / width, np.float32)


def optimised_layout(
    graph: Any,
    start: NDArray[Any],
    *,
    epochs: int,
    curve: tuple[float, float],
    seed: int,
    each: Epoch | None = None,
) -> Points:
    """Optimise a layout by UMAP's stochastic gradient descent (McInnes et al. 2018).

    Args:
        graph: Symmetric fuzzy simplicial set, a scipy sparse matrix [n, n] of edge weights.
        start: Initial coordinates [n, 2 or 3].
        epochs: Number of epochs.
        curve: Parameters a and b of the similarity 1 / (1 + a x^2b) of points at distance x, from ``min_dist``.
        seed: Random seed of the negative samples.
        each: Called after each epoch; an exception that it raises ends the optimisation.

    Returns:
        Coordinates [n, 2 or 3].
    """
    umap = compiled_umap()
    graph = graph.tocoo(copy=True)
    graph.sum_duplicates()
    graph.data[graph.data < graph.data.max(initial=0) / epochs] = 0  # edges that are due in none of the epochs
    graph.eliminate_zeros()
    points = _boxed(np.asarray(start, np.float64))
    periods = umap.umap_.make_epochs_per_sample(graph.data, epochs)
    negative_periods = periods / RATE
    due, negative_due = periods.copy(), negative_periods.copy()
    state = np.random.RandomState(seed).randint(np.iinfo(np.int32).min + 1, np.iinfo(np.int32).max - 1, 3)
    states = points[:, :1].astype(np.float64).view(np.int64) + state.astype(np.int64)
    none = np.zeros(1, np.float32)
    rate = 1.0
    for epoch in range(epochs):
        umap.layouts._nb_optimize_layout_euclidean_single_epoch(
            *(points, points, graph.row, graph.col, len(points), periods, *curve, states, 1.0, points.shape[1], True),
            *(rate, negative_periods, negative_due, due, epoch),
            *(False, none, none, 0, 0, 0, 0, none, none, 0),  # densMAP, which is not asked for
        )
        rate = 1.0 - epoch / epochs
        if each is not None:
            each(epoch + 1, points)
    return points


def warm_umap() -> None:
    """Compile what UMAP of cosines needs and cache it: half a minute on a new machine, two seconds if it is cached.

    Meant for a background process: processes started later on this machine find the code compiled.
    """
    umap = compiled_umap().umap_
    points = np.random.default_rng(0).standard_normal((256, 3)).astype(np.float32)
    random = np.random.RandomState(0)
    near = umap.nearest_neighbors(points, 15, "cosine", {}, True, random)
    graph = umap.fuzzy_simplicial_set(points, 15, random, "cosine", {}, near[0], near[1])[0]
    optimised_layout(graph, points, epochs=2, curve=(1.6, 0.9), seed=0)
