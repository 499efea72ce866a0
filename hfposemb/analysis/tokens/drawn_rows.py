"""Whether rows of a table were drawn at once from a distribution, or are distributed like its other rows.

Trained rows differ from each other more than rows drawn from one distribution: in their lengths, in their distances
from the mean by the covariance of the table, and in how far they follow its large components. Four figures of a set of
rows say so. Each way of making rows is a cloud of the figures of drawn sets, and "like the other rows" one of sets of
old rows. A way is refuted by a set that lies outside its cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.table import EmbeddingTable
from ..geometry import Scatter, scatter
from ..row_values import read_rows
from ..rows import finite_blocks, without

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

DRAWS = 199
"""Number of sets in a cloud."""

TESTED = 64
"""Maximum number of rows in a set."""

SETS = 20
"""Minimum number of sets that the old rows can be divided into."""

ROWS_PER_COMPONENT = 2
"""Minimum number of old rows for each component of their covariance that is used."""

FEWEST_COMPONENTS = 4
EMPTY = 1e-9
"""Share of the largest variance up to which a component is empty."""


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of every other old row; new rows and the rest of the old ones had no part in them.

    Attributes:
        mean: Mean of these rows [d].
        axes: The components as columns [d, r].
        values: Variance along them [r].
        others: Row numbers of the other old rows.
    """

    mean: Floats
    axes: Floats
    values: Floats
    others: Rows

    def scores(self, vectors: NDArray[np.floating]) -> Floats:
        """Return the coordinates of rows [k, d] along the components [k, r]."""
        return np.asarray((np.asarray(vectors, np.float64) - self.mean) @ self.axes)

    def figures(self, scores: Floats) -> Floats:
        """Return four figures of a set of rows from their coordinates [k, r].

        The logarithms of the mean and of the spread of the squared Mahalanobis lengths, of the spread of the lengths
        about the mean of the set, and of the variance that these have along the components, weighted by the variance of
        the old rows.
        """
        squares = np.square(scores - scores.mean(axis=0))
        lengths, own = (np.square(scores) / self.values).sum(axis=1), squares.sum(axis=1)
        along = (squares @ self.values).sum() / own.sum()
        spreads = [np.log(np.maximum(one, EMPTY)).std() for one in (lengths, own / own.mean())]
        return np.log(np.maximum([lengths.mean(), *spreads, along], EMPTY))


def components(old: EmbeddingTable) -> Components | None:
    """Return the components that every other row of a table determines; ``None`` if they are fewer than four."""
    rows = np.flatnonzero(old.finite)
    half = without(old, rows[1::2])
    found = scatter(half, single=True)
    values, vectors = np.linalg.eigh(found.matrix / (found.rows - 1))
    most = min(found.rows // ROWS_PER_COMPONENT, len(found.mean))
    kept = np.arange(len(values)) >= len(values) - most
    kept &= values > EMPTY * values[-1]
    if kept.sum() < FEWEST_COMPONENTS:
        return None
    values, vectors = values[kept], vectors[:, kept]
    if found.dual:
        vectors = whole(half, found.mean).T @ vectors / np.sqrt(values * (found.rows - 1))
    return Components(found.mean, vectors, values, rows[1::2])


def whole(table: EmbeddingTable, mean: Floats) -> Floats:
    """Return the finite rows of a small table, seen from a point [n, d]."""
    return np.concatenate([block - mean for _, block in finite_blocks(table)])


@dataclass(frozen=True, eq=False)
class Cloud:
    """Figures of sets of rows that were made in one way [sets, 4]."""

    figures: Floats

    def distances(self, figures: Floats) -> Floats:
        """Return the squared Mahalanobis distances of figures [..., 4] from the middle of the cloud [...]."""
        middle = self.figures.mean(axis=0)
        inverse = np.linalg.pinv(np.cov(self.figures.T), hermitian=True)
        return np.asarray(np.einsum("...i,ij,...j", figures - middle, inverse, figures - middle))

    def p(self, figures: Floats) -> float:
        """Return the share of sets at least as far from the middle, and 1 in addition, as p values have it."""
        far = self.distances(self.figures) >= self.distances(figures)
        return float((1 + far.sum()) / (1 + len(far)))

    def p_against(self, figures: Floats, others: Cloud) -> float:
        """Return the share of the sets of another cloud that are at least as near to the middle of this one."""
        near = self.distances(others.figures) <= self.distances(figures)
        return float((1 + near.sum()) / (1 + len(near)))


def like_old(old: EmbeddingTable, within: Components, rows: Rows, rng: np.random.Generator) -> Cloud:
    """Return the cloud of sets of old rows in the arrangement of the given rows, from a random old row on."""
    offsets = np.searchsorted(np.union1d(within.others, rows), rows)
    places = (rng.integers(len(within.others), size=(DRAWS, 1)) + offsets - offsets[0]) % len(within.others)
    needed, where = np.unique(within.others[places], return_inverse=True)
    scores = within.scores(read_rows(old, needed))
    return Cloud(np.array([within.figures(scores[one]) for one in where.reshape(places.shape)]))


def of_old_covariance(
    old: EmbeddingTable, found: Scatter, within: Components, count: int, rng: np.random.Generator
) -> Cloud:
    """Return the cloud of rows drawn from a normal with mean and covariance of all old rows."""
    if found.dual:
        part = whole(old, found.mean) @ within.axes
        matrix = part.T @ part
    else:
        matrix = within.axes.T @ found.matrix @ within.axes
    values, turn = np.linalg.eigh(matrix / (found.rows - 1))
    root, mean = np.sqrt(np.maximum(values, 0))[:, None] * turn.T, within.scores(found.mean)
    shape = (count, len(root))
    return Cloud(np.array([within.figures(mean + rng.standard_normal(shape) @ root) for _ in range(DRAWS)]))


def of_one_distribution(within: Components, vectors: Floats, rng: np.random.Generator) -> Cloud:
    """Return the cloud of rows about one point whose numbers are independent and alike.

    The point is the mean of the given rows. Their differences from it are shuffled among rows and columns, with the
    mean of the rows and their total variance kept.
    """
    centre = vectors.mean(axis=0)
    numbers = vectors - centre
    total = np.square(numbers).sum()

    def shuffled() -> Floats:
        drawn = rng.permutation(numbers.reshape(-1)).reshape(numbers.shape)
        drawn -= drawn.mean(axis=0)
        drawn *= np.sqrt(total / np.square(drawn).sum())
        return within.figures(within.scores(drawn + centre))

    return Cloud(np.array([shuffled() for _ in range(DRAWS)]))
