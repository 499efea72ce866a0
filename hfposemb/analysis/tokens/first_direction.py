"""First principal direction of a table, along which the frequency of tokens mostly varies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ..geometry import Scatter, scatter
from ..rows import finite_blocks

Floats = NDArray[np.float64]


def first_direction(value: EmbeddingTable | PositionEncoding, *, found: Scatter | None = None, seed: int = 0) -> Floats:
    """Return the unit direction of largest variance [width]; its sign is arbitrary.

    Args:
        value: Table or position encoding [n, width].
        found: Its scatter matrix, if it is known.
        seed: Random seed of the iteration for wide tables.

    Raises:
        InputError: If the table has fewer than two finite rows.

    >>> import hfposemb as hpe
    >>> from hfposemb.analysis.tokens.first_direction import first_direction
    >>> first_direction(hpe.extract("sample:gpt2").token).shape
    (128,)
    """
    table = table_in(value)
    found = scatter(table, single=True) if found is None else found
    top = _leading(found.matrix, seed)
    if not found.dual:
        return top
    direction = np.zeros(table.shape[1])
    place = 0
    for _, vectors in finite_blocks(table):
        direction += top[place : place + len(vectors)] @ (vectors - found.mean)
        place += len(vectors)
    return np.asarray(direction / (np.linalg.norm(direction) or 1.0))


def _leading(matrix: Floats, seed: int) -> Floats:
    """Return the eigenvector of the largest eigenvalue of a symmetric matrix."""
    if len(matrix) < 64 or not matrix.any():
        return np.asarray(np.linalg.eigh(matrix)[1][:, -1])
    from scipy.sparse.linalg import eigsh

    begin = np.random.default_rng(seed).standard_normal(len(matrix))
    return np.asarray(eigsh(matrix, k=1, v0=begin)[1][:, 0])


def along(table: EmbeddingTable, direction: Floats) -> Floats:
    """Return the coordinate of every row along a direction [n]; NaN for rows that are not finite."""
    found = np.full(table.shape[0], np.nan)
    for rows, vectors in finite_blocks(table, single=True):
        found[rows] = vectors @ direction.astype(vectors.dtype)
    return found
