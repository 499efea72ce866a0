"""First principal direction of a table, along which the frequency of tokens mostly varies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable
from .geometry import Scatter, scatter
from .rows import finite_blocks

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
    >>> from hfposemb.analysis.first_direction import first_direction
    >>> first_direction(hpe.extract("sample:gpt2").token).shape
    (128,)
    """
    table = table_in(value)
    found = scatter(table, single=True) if found is None else found
    if found.dual:
        whole = np.concatenate([vectors - found.mean for _, vectors in finite_blocks(table)])
        return np.asarray(np.linalg.svd(whole, full_matrices=False)[2][0])
    if len(found.matrix) < 64:
        return np.asarray(np.linalg.eigh(found.matrix)[1][:, -1])
    from scipy.sparse.linalg import eigsh

    begin = np.random.default_rng(seed).standard_normal(len(found.matrix))
    return np.asarray(eigsh(found.matrix, k=1, v0=begin)[1][:, 0])


def along(table: EmbeddingTable, direction: Floats) -> Floats:
    """Return the coordinate of every row along a direction [n]; NaN for rows that are not finite."""
    found = np.full(table.shape[0], np.nan)
    for rows, vectors in finite_blocks(table, single=True):
        found[rows] = vectors @ direction.astype(vectors.dtype)
    return found
