"""Comparison of a value with its surrogate distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .tabular import Columns, Facts

Kind: TypeAlias = Literal["local variogram", "permutation", "random"]
"""Kind of null: tables as smooth in the same places (``Residuals``), permuted rows, or noise of the same scale."""

Side: TypeAlias = Literal["greater", "less", "both"]
"""Which values are extreme: large ones, small ones, or either."""

LEVEL = 0.05
"""Significance level: the share of independent tables whose value lies beyond chance."""

ROUNDING = 1e-6
"""Relative difference up to which a surrogate counts as equal to the observed value; surrogates are in float32."""


@dataclass(frozen=True)
class Null(Facts):
    """A value with the distribution of the same value among surrogates, summarised by an interval and a p value.

    Both come from the same draws and never contradict each other: with at least 39 draws the value lies beyond the
    interval, on the side or sides that are tested, exactly if p is at most .05.

    Attributes:
        observed: The value.
        mean: Mean of the surrogates.
        low: Lower end of the interval: the 5 % quantile of the surrogates, or the 2.5 % quantile of a two-sided test.
        high: Upper end of the interval: the 95 % or the 97.5 % quantile.
        p: (1 + number of surrogates at least as extreme) / (draws + 1), doubled for a two-sided test.
        draws: Number of surrogates.
        seed: Seed they were drawn with.
        kind: Kind of surrogates.
        side: Which values are extreme.
    """

    observed: float
    mean: float
    low: float
    high: float
    p: float
    draws: int
    seed: int
    kind: Kind
    side: Side = "greater"

    @property
    def beyond(self) -> bool:
        """Whether the value is more extreme than chance allows, p ≤ .05."""
        return self.p <= LEVEL


def chance_columns(nulls: Sequence[Null | None]) -> Columns:
    """Return ``chance_low``, ``chance_high``, ``p`` and ``draws`` of nulls as columns; ``None`` where there is none."""
    names = {"chance_low": "low", "chance_high": "high", "p": "p", "draws": "draws"}
    return {name: [None if null is None else getattr(null, of) for null in nulls] for name, of in names.items()}


def holm(values: Sequence[float]) -> list[float]:
    """Correct p values of several tests, so that any of them is at most .05 by chance in 5 % of cases (Holm 1979).

    Args:
        values: The p values.

    Returns:
        The corrected ones, in the same order.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected, largest = [1.0] * len(values), 0.0
    for before, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - before) * values[place]))
        corrected[place] = largest
    return corrected


def beside(
    observed: float, drawn: NDArray[np.float64], *, seed: int, kind: Kind, side: Side = "greater", slack: float = 0
) -> Null:
    """Compare a value with its surrogate distribution.

    Args:
        observed: The value.
        drawn: Values of the surrogates [draws].
        seed: Seed they were drawn with.
        kind: Kind of surrogates.
        side: Which values are extreme.
        slack: Difference up to which a surrogate counts as equal; 0 for ``ROUNDING`` of the value, or of 1.
    """
    drawn = np.sort(drawn)
    count, slack = len(drawn), slack or ROUNDING * max(1.0, abs(observed))
    above = count - int(np.searchsorted(drawn, observed - slack, side="left"))
    below = int(np.searchsorted(drawn, observed + slack, side="right"))
    tails = {"greater": above, "less": below, "both": min(above, below)}
    sides = 2 if side == "both" else 1
    # The most extreme surrogate that a value must exceed for p to be at most the level.
    end = max(0, math.floor(LEVEL / sides * (count + 1) + 1e-9) - 1)
    return Null(
        observed=observed,
        mean=float(drawn.mean()),
        low=float(drawn[end]),
        high=float(drawn[count - 1 - end]),
        p=min(1.0, sides * (1 + tails[side]) / (count + 1)),
        draws=count,
        seed=seed,
        kind=kind,
        side=side,
    )
