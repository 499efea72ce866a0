"""Projections as they are first drawn: unfinished, or without their quality where that takes time to measure."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from .. import limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hfposemb.analysis.projection.projecting import Projection
    from hfposemb.analysis.row_values import Progress
    from hfposemb.tables.table import EmbeddingTable


def unmeasured(found: Projection) -> Projection:
    """Return a projection whose quality is not measured, and which does not keep the table in memory."""
    from hfposemb.analysis.projection.quality import NOT_MEASURED

    return replace(found, trust=None, quality=NOT_MEASURED)


def first_picture(table: EmbeddingTable, dims: int, progress: Progress | None = None) -> Projection:
    """Return the PCA of a table, unmeasured."""
    from hfposemb.analysis.projection.projecting import project

    return unmeasured(project(table, method="pca", dims=dims, progress=progress))


def quickly_measured(found: Projection, table: EmbeddingTable) -> Projection:
    """Return a projection measured if that takes hundredths of a second, else unmeasured; neither keeps the table."""
    from hfposemb.analysis.projection.projecting import trust_of
    from hfposemb.analysis.projection.quality import SAMPLE

    if SAMPLE * table.shape[0] * table.shape[1] > limits.TRUST_FLOPS:
        return unmeasured(found)
    trust = found.trust if found.measured else trust_of(found, table)
    assert trust is not None
    return replace(found, trust=trust, quality=trust.quality)


DRAFT = "draft"
"""Parameter of an unfinished projection."""


def draft_of(table: EmbeddingTable, rows: NDArray[np.int64], points: NDArray[np.float32]) -> Projection:
    """Return an unfinished layout of UMAP as a projection.

    Args:
        table: The table that is projected [n, d].
        rows: Rows that have a point [m].
        points: Coordinates [m, dims].
    """
    from hfposemb.analysis.projection.projecting import Projection, UMAPParameters
    from hfposemb.analysis.projection.quality import NOT_MEASURED

    return Projection(
        coordinates=points,
        rows=rows,
        left_out=table.shape[0] - len(rows),
        method="umap",
        dims=points.shape[1],
        seed=0,
        parameters={**asdict(UMAPParameters()), DRAFT: True},
        explained_variance_ratio=None,
        name=table.name,
        quality=NOT_MEASURED,
    )


def is_draft(projection: Projection) -> bool:
    """Return whether a projection is unfinished."""
    return DRAFT in projection.parameters
