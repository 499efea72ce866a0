"""Indicators of untrained tokens (Land & Bartolo, EMNLP 2024): how near a row is to rows known to be unused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...tables.embeddings import Embeddings
from ...tables.output_head import OutputHead
from ...tables.table import EmbeddingTable
from ..rows import finite_blocks

FEWEST = 3
"""Fewest unused rows from which a limit is estimated."""

COVERED = 0.995
"""Share of the unused rows that the limit is expected to find."""

MOST = 0.1
"""Largest share of all rows that can be separated; more means that unused rows lie among the others."""

Floats = NDArray[np.float64]


def separate_head(source: Embeddings) -> OutputHead | None:
    """Return the head of an untied source; ``None`` if it is the token table or there is none."""
    key = next((key for key in ("head", "decoder.head") if key in source.ties), None)
    if key is None or source.ties[key].how in ("absent", "alias", "same tensor"):
        return None
    head = source.heads[key]
    fits = head.token is not None and head.shape[0] == source.token.shape[0] and head.token is source.token
    return None if not fits or head.tied_by_bytes else head


def distance_to_unused(table: EmbeddingTable, reference: NDArray[np.bool_]) -> Floats:
    """Return the Euclidean distance of every row to the mean of unused rows [n]; NaN for rows that are not finite.

    An unused row is compared with the mean of the other unused ones, as further rows are. It is the indicator of Land &
    Bartolo (EMNLP 2024) for untied models.

    Args:
        table: Output head [n, width].
        reference: Mask of the unused rows [n].
    """
    found = np.full(table.shape[0], np.nan)
    rows = np.flatnonzero(reference & table.finite)
    if not len(rows):
        return found
    mean = np.asarray(table.take(rows), np.float64).mean(axis=0)
    for numbers, vectors in finite_blocks(table):
        apart = vectors - mean
        found[numbers] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    if len(rows) > 1:
        found[rows] *= len(rows) / (len(rows) - 1)
    return found


def cosine_to_other_unused(table: EmbeddingTable, reference: NDArray[np.bool_], first: Floats) -> Floats:
    """Return the cosine distance of each unused row to the mean of the other unused ones [m], without one direction.

    Args:
        table: Token table [n, width].
        reference: Mask of the unused rows [n].
        first: Unit direction that is removed [width].
    """
    rows = np.asarray(table.take(np.flatnonzero(reference)), np.float64)
    rows -= np.outer(rows @ first, first)
    others = rows.sum(axis=0) - rows
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return np.asarray(1 - np.divide((rows * others).sum(axis=1), lengths, out=np.zeros(len(rows)), where=lengths > 0))


def limit_of(known: Floats) -> float:
    """Return the value up to which 99.5 % of further unused rows are expected, from those of known ones.

    The prediction limit of Student's t for the logarithms of the distances.

    Args:
        known: Distances of the rows known to be unused [m], at least ``FEWEST``.
    """
    from scipy.special import stdtrit

    logs = np.log(np.maximum(known, np.finfo(np.float32).eps))
    spread = float(logs.std(ddof=1)) * np.sqrt(1 + 1 / len(logs))
    return float(np.exp(logs.mean() + stdtrit(len(logs) - 1, COVERED) * spread))
