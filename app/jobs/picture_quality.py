"""Projections with their quality, if it is quick to measure: a picture is never drawn later because of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import limits

if TYPE_CHECKING:
    from hfposemb.analysis.projection import Projection
    from hfposemb.tables.table import EmbeddingTable


def unmeasured(found: Projection) -> Projection:
    """Return a projection whose quality is not measured, and which does not keep the table in memory."""
    from hfposemb.analysis.projection_quality import NOT_MEASURED

    return replace(found, trust=None, quality=NOT_MEASURED)


def quickly_measured(found: Projection, table: EmbeddingTable) -> Projection:
    """Return a projection measured if that takes hundredths of a second, else unmeasured; neither keeps the table."""
    from hfposemb.analysis.projection_quality import SAMPLE

    if SAMPLE * table.shape[0] * table.shape[1] > limits.TRUST_FLOPS:
        return unmeasured(found)
    return replace(found, trust=found.trust, quality=found.quality)
