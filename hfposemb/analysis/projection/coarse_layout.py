"""First layout of a large table: UMAP of a sample of its rows, with each other row at the most similar of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .projected_neighbours import principal_directions, projected_neighbours, unit_or_centred
from .umap_layout import optimised_layout

SAMPLE = 4_096
"""Number of rows laid out."""

DIRECTIONS = 64
"""Number of principal directions along which the other rows are compared with them."""

STRIDE = 8
"""Principal directions are those of every so many rows."""

BLOCK = 512
"""Number of rows that are compared with the sample at once."""

EPOCHS = 200
"""Number of epochs of the sample's layout."""

JITTER = 0.06
"""Standard deviation of each coordinate about the row that a row is placed at, in a layout from −10 to 10."""


def coarse_layout(
    vectors: NDArray[np.floating],
    start: NDArray[np.floating],
    *,
    neighbors: int,
    metric: Literal["cosine", "euclidean"],
    curve: tuple[float, float],
    seed: int,
    graph_of: Callable[[NDArray[np.int32], NDArray[np.float32]], Any],
) -> NDArray[np.float64]:
    """Lay out a table by UMAP of a sample of its rows.

    Args:
        vectors: Rows [n, d], more than ``SAMPLE``.
        start: Initial coordinates [n, dims].
        neighbors: Number of neighbours, with the row itself.
        metric: Metric of the rows.
        curve: Parameters a and b of UMAP's curve.
        seed: Random seed.
        graph_of: Makes the graph from neighbours and their cosines, or distances [m, k].

    Returns:
        Coordinates [n, dims], the largest of which is 10.
    """
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(vectors), SAMPLE, replace=False))
    near = projected_neighbours(vectors[chosen], k=neighbors - 1, metric=metric, seed=seed)
    points = optimised_layout(graph_of(near.indices, near.values), start[chosen], epochs=EPOCHS, curve=curve, seed=seed)
    points -= points.mean(axis=0)
    points *= 10 / np.abs(points).max()
    rows = unit_or_centred(vectors, metric)
    along = rows @ np.ascontiguousarray(principal_directions(rows[::STRIDE])[:, :DIRECTIONS])
    few = along[chosen]
    penalty = np.einsum("ij,ij->i", few, few) / 2 if metric == "euclidean" else None
    place = np.empty(len(rows), np.int64)
    for first in range(0, len(rows), BLOCK):
        scores = along[first : first + BLOCK] @ few.T
        if penalty is not None:
            scores -= penalty
        place[first : first + BLOCK] = scores.argmax(axis=1)
    place[chosen] = np.arange(SAMPLE)
    found = points[place].astype(np.float64)
    return found + random.normal(scale=JITTER, size=found.shape)
