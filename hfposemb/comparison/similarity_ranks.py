"""Ranks of the cosines of all pairs of rows, exact or binned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.nulls.surrogates import Rows
from ..errors import InputError

MOST_SORTED = 1_024
"""Number of rows up to which the cosines of all pairs are sorted; beyond, ranks are those of 262,144 bins."""


BINS = 2**18
PAIR_ROWS = 64


def mean_ranks(values: NDArray[np.floating]) -> Rows:
    """Return the rank of each value [n], from 0; ties get their mean rank."""
    order = np.argsort(values)
    placed = values[order]
    ranks = np.empty(len(values))
    if (placed[1:] > placed[:-1]).all():
        ranks[order] = np.arange(len(values))
        return ranks
    first = np.flatnonzero(np.diff(placed, prepend=-np.inf))
    counts = np.diff(first, append=len(values))
    ranks[order] = np.repeat(first + (counts - 1) / 2, counts)
    return ranks


class RankedPair:
    """Ranks of the cosines of all pairs of two tables as small integers, for correlations under any permutation.

    Ranks are quantised to 1 in 65,536, or to 1 in 256 beyond 1,024 rows, which changed a correlation by less than 2e-5
    in tests. Of the first table only blocks on and above the diagonal are kept; of the second, all pairs.
    """

    def __init__(self, count: int, tables: Iterator[NDArray[np.floating]]) -> None:
        self.count = count
        dtype: type[np.unsignedinteger[Any]] = np.uint16 if self.count <= MOST_SORTED else np.uint8
        self.blocks: list[tuple[int, NDArray[np.unsignedinteger[Any]]]] = []
        self.square = np.empty((self.count, self.count), dtype)
        means, deviations = [], []
        for place, rows in enumerate(tables):
            found = _rank_bins(rows, dtype)
            means.append(np.float32(found.mean))
            deviations.append(found.deviation)
            for start, block in cosine_blocks(rows, upper=True):
                ranks = found.ranks[_bins(block)]
                if place == 0:
                    self.blocks.append((start, ranks))
                else:
                    self.square[start : start + len(ranks), start:] = ranks
                    self.square[start:, start : start + len(ranks)] = ranks.T
            del rows  # release before the next table is made
        if not min(deviations) > 0:
            raise InputError("RSA needs cosines that differ; all cosines of one table are equal")
        self.means = means
        self.scale = deviations[0] * deviations[1] * self.count * (self.count - 1) / 2

    def correlation(self, order: NDArray[np.int64]) -> float:
        """Return the correlation of the ranks with the second rows permuted by ``order`` [n]."""
        total = 0.0
        for start, block in self.blocks:
            a = block.astype(np.float32)
            a -= self.means[0]
            a[:, : len(block)] = np.triu(a[:, : len(block)], 1)
            b = self.square[order[start : start + len(block)]].take(order[start:], axis=1).astype(np.float32)
            b -= self.means[1]
            total += float(np.vdot(a, b))
        return total / self.scale


@dataclass(frozen=True, eq=False)
class _RankBins:
    """Mean rank of each bin of cosines, scaled to the integer type; mean and standard deviation are over all pairs."""

    ranks: NDArray[np.unsignedinteger[Any]]
    mean: float
    deviation: float


def _rank_bins(rows: NDArray[np.floating], dtype: type[np.unsignedinteger[Any]]) -> _RankBins:
    counts = np.zeros(BINS, np.int64)
    for _, block in cosine_blocks(rows, upper=True):
        bins = _bins(block)
        corner = bins[:, : len(bins)]
        counts += np.bincount(corner[np.triu_indices(len(bins), 1)], minlength=BINS)
        counts += np.bincount(bins[:, len(bins) :].ravel(), minlength=BINS)
    pairs = int(counts.sum())
    ranks = np.cumsum(counts) - (counts + 1) / 2
    scaled = np.rint(ranks.clip(0) * (np.iinfo(dtype).max / max(pairs - 1, 1))).astype(dtype)
    wide = scaled.astype(np.float64)
    mean = float(counts @ wide) / pairs
    return _RankBins(scaled, mean, math.sqrt(float(counts @ np.square(wide - mean)) / pairs))


def cosine_blocks(rows: NDArray[np.floating], *, upper: bool = False) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first row, cosines [m, n]) for blocks of rows; 0 for rows without a direction.

    Args:
        rows: Rows [n, d].
        upper: Whether to include only the columns from the block's first row on.
    """
    single = np.asarray(rows, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", single, single))
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    for start in range(0, len(single), PAIR_ROWS):
        part = slice(start, start + PAIR_ROWS)
        others = slice(start if upper else 0, None)
        block = (single[part] * scale[part, None]) @ single[others].T
        block *= scale[others]
        yield start, block


def _bins(cosines: NDArray[np.float32]) -> NDArray[np.int32]:
    scaled = cosines + np.float32(1)
    scaled *= BINS / 2
    return scaled.clip(0, BINS - 1, out=scaled).astype(np.int32)
