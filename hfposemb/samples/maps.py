"""UMAP projections that are included in this package, found by the digest of their table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FILE = "maps.npz"
_FOLDER = Path(__file__).parent / "minilm"
_SHAPES = ((512, 384), (30_522, 384))


class Table(Protocol):
    """What of a table is used."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, width)."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of the vectors."""
        ...


@dataclass(frozen=True, eq=False)
class StoredMap:
    """UMAP projection of all rows of a table, with the trust of some of its points.

    Attributes:
        coordinates: Points [rows, dims].
        measured: Points whose trust is stored [m].
        neighbours_kept: Share of neighbours kept by each of them [m].
        trustworthiness: Their trustworthiness [m].
        continuity: Their continuity [m].
        parameters: Parameters of the projection.
    """

    coordinates: NDArray[np.float32]
    measured: NDArray[np.int64]
    neighbours_kept: NDArray[np.float64]
    trustworthiness: NDArray[np.float64]
    continuity: NDArray[np.float64]
    parameters: Mapping[str, object]


def key_of(digest: str, dims: int, what: str) -> str:
    """Return the name of an array in the file of the maps."""
    return f"{digest[:16]}/{dims}/{what}"


def stored_map(table: Table, dims: int) -> StoredMap | None:
    """Return the UMAP projection of a table with default parameters; ``None`` if it is not in this package.

    Tables that hold the same numbers have the same map, whatever they were read from. Only tables of a shape that has
    maps are read.

    Args:
        table: The table.
        dims: Number of dimensions, 2 or 3.
    """
    if table.shape not in _SHAPES:
        return None
    found = _arrays()
    points = found.get(key_of(table.digest, dims, "points"))
    if points is None:
        return None
    measured, trust, parameters = (
        found[key_of(table.digest, dims, name)] for name in ("measured", "trust", "parameters")
    )
    kept, trustworthiness, continuity = trust
    told = json.loads(str(parameters))
    return StoredMap(points.astype(np.float32), measured.astype(np.int64), kept, trustworthiness, continuity, told)


@cache
def _arrays() -> Mapping[str, NDArray[Any]]:
    with np.load(_FOLDER / FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
