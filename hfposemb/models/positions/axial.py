"""Axial positions (Kitaev et al. 2020, arXiv 2001.04451): a vector of the row beside one of the column.

Reformer arranges its positions row by row in a grid and stores one table for each axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError
from ...tables.encodings import Absolute
from ...tables.table import EmbeddingTable, Provenance, all_rows
from ..architectures.table_names import tower_of
from ..opened_model import Opened, table_axes, table_in_tensor

_ENDINGS = ("position_embeddings.weights.0", "position_embeddings.weights.1")
_MOST = 2**24
"""Largest number of positions."""


def axial_pairs(opened: Opened) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the towers with axial positions, each with the tensors of its rows and of its columns."""
    first = [name for name in opened.tensors.names() if name.endswith(_ENDINGS[0])]
    stored = frozenset(opened.tensors.names()) if first else frozenset()
    for rows in first:
        columns = rows.removesuffix(_ENDINGS[0]) + _ENDINGS[1]
        if columns in stored:
            yield tower_of(rows), (rows, columns)


def axial_positions(opened: Opened, tensors: tuple[str, str]) -> Absolute:
    """Return the positions of a grid, row by row, from the tensors of its rows and of its columns.

    Raises:
        CheckpointError: If the tensors are no tables, or have too many positions together.
    """
    for tensor in tensors:
        if len(table_axes(opened.tensors.info(tensor))) != 2:
            raise CheckpointError(f"{tensor} in {opened.name} must have one long axis beside that of the components")
    down, across = (table_in_tensor(opened, "position", tensor) for tensor in tensors)
    length, width = down.shape[0] * across.shape[0], down.shape[1] + across.shape[1]
    if length > _MOST:
        raise CheckpointError(f"{opened.name} has {length:,} axial positions; the limit is {_MOST:,}")
    note = f"position i is row i // {across.shape[0]} of {tensors[0]} beside row i % {across.shape[0]} of {tensors[1]}"
    provenance = Provenance(opened.name, commit=opened.commit, nbytes=4 * length * width, notes=(note,))
    dtype = np.result_type(down.dtype, across.dtype)
    table = EmbeddingTable(f"{opened.name} positions", (length, width), dtype, provenance, partial(_rows, down, across))
    return Absolute(table)


def _rows(down: EmbeddingTable, across: EmbeddingTable, start: int, stop: int) -> NDArray[np.floating]:
    row, column = np.divmod(np.arange(start, stop), across.shape[0])
    return np.concatenate([all_rows(down)[row], all_rows(across)[column]], axis=1)
