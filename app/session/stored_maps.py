"""UMAP projections that the package includes, found by the digest of their table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hfposemb.samples import folder
from hfposemb.tables.table import EmbeddingTable

if TYPE_CHECKING:
    from hfposemb.analysis.projection.projecting import Projection

FILE = "maps.npz"
_SHAPES = ((512, 384), (30_522, 384))


def key_of(digest: str, dims: int, what: str) -> str:
    """Return the name of an array in the file of the maps."""
    return f"{digest[:16]}/{dims}/{what}"


def stored_map(table: EmbeddingTable, dims: int) -> Projection | None:
    """Return the UMAP projection of a table with default parameters; ``None`` if it is not in the package.

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
    from hfposemb.analysis.projection.projecting import Projection
    from hfposemb.analysis.projection.quality import NEIGHBOURS, PointTrust

    measured, shares, told = (found[key_of(table.digest, dims, name)] for name in ("measured", "trust", "parameters"))
    rows, parameters = table.shape[0], json.loads(str(told))
    kept, trustworthiness, continuity = shares
    trust = PointTrust(
        measured.astype(np.int64), kept, trustworthiness, continuity, NEIGHBOURS, rows, str(parameters["metric"])
    )
    return Projection(
        coordinates=points.astype(np.float32),
        rows=np.arange(rows),
        left_out=0,
        method="umap",
        dims=dims,
        seed=0,
        parameters=parameters,
        explained_variance_ratio=None,
        name=table.name,
        quality=trust.quality,
        trust=trust,
    )


@cache
def _arrays() -> Mapping[str, NDArray[Any]]:
    with np.load(folder("minilm") / FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
