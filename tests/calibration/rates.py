"""How often a test of two tables finds p ≤ .05: false positives of independent tables, and power for related ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from hfposemb import from_arrays
from hfposemb.comparison.alignment import align
from hfposemb.tables.null_comparison import LEVEL

from .families import Make, Rows, related

DRAWS = 39
"""Surrogates per pair; p ≤ .05 is exact for 19, 39, 59 …"""


@dataclass(frozen=True)
class Rate:
    """The share of pairs with p ≤ .05.

    Attributes:
        found: Number of pairs with p ≤ .05.
        tested: Number of pairs that were tested.
        pairs: Number of pairs; the test abstained from the rest.
    """

    found: int
    tested: int
    pairs: int

    @property
    def share(self) -> float:
        """The share of the tested pairs; NaN if none was tested."""
        return self.found / self.tested if self.tested else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the share (Wilson 1927)."""
        if not self.tested:
            return float("nan"), float("nan")
        found = binomtest(self.found, self.tested).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


def narrow(rows: Rows) -> Rows:
    """Return rows [n, d] in at most n columns, rotated, which leaves every measure as it is."""
    return np.linalg.qr(rows.T).R.T if rows.shape[1] > len(rows) else rows


def p_values(left: Rows, right: Rows, *, seed: int) -> Mapping[str, float]:
    """Return the p value of each measure of two tables of positions that has one."""
    sides = (from_arrays(position=narrow(rows).astype(np.float32)) for rows in (left, right))
    return {name: null.p for name, null in align(*sides, "position", draws=DRAWS, seed=seed).measures.items()}


def rates(
    make: Make, count: int, width: int, *, pairs: int, seed: int = 0, noise: float | None = None
) -> dict[str, Rate]:
    """Return the rate of each measure over pairs of a family, independent ones or related ones with some noise."""
    rng = np.random.default_rng((seed, count, width))
    found: dict[str, list[float]] = {}
    for number in range(pairs):
        if noise is None:
            drawn = make(count, width, rng), make(count, width, rng)
        else:
            drawn = related(make, count, width, rng, noise=noise)
        for name, p in p_values(*drawn, seed=number).items():
            found.setdefault(name, []).append(p)
    return {name: Rate(sum(p <= LEVEL for p in values), len(values), pairs) for name, values in found.items()}
