"""Comparison of a value with its surrogate distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["impostor", "permutation", "random"]
"""Kind of surrogates: impostors of a curve, permuted rows, or noise of the same scale."""


@dataclass(frozen=True)
class Null:
    """A value with the mean and the 2.5–97.5 % interval of its surrogates, from ``draws`` drawn with ``seed``.

    ``p`` is (1 + number of surrogates at least as extreme) / (draws + 1).
    """

    observed: float
    mean: float
    low: float
    high: float
    p: float
    draws: int
    seed: int
    kind: Kind

    @property
    def beyond(self) -> bool:
        """Whether the observed value exceeds the interval of its surrogates."""
        return self.observed > self.high


def beside(observed: float, drawn: NDArray[np.float64], *, seed: int, kind: Kind, small: bool = False) -> Null:
    """Compare a value with its surrogate distribution.

    Args:
        observed: The value.
        drawn: Values of the surrogates [draws].
        seed: Seed they were drawn with.
        kind: Kind of surrogates.
        small: Whether small values are the extreme ones, so that ``p`` counts surrogates that are at most as large.
    """
    low, high = np.quantile(drawn, [0.025, 0.975])
    as_far = int((drawn <= observed).sum() if small else (drawn >= observed).sum())
    return Null(
        observed, float(drawn.mean()), float(low), float(high), (1 + as_far) / (len(drawn) + 1), len(drawn), seed, kind
    )
