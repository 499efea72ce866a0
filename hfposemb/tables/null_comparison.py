"""A number beside what chance gives for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["impostor", "permutation", "random"]
"""What the surrogates are: impostors of a curve, the rows in another order, or rows of noise of the same scale."""


@dataclass(frozen=True)
class Null:
    """A number beside what its surrogates give: their mean and 2.5–97.5 % interval, from ``draws`` with ``seed``.

    ``p`` is (1 + how many are at least as large) / (draws + 1).
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
        """Whether the number is larger than the interval of its surrogates."""
        return self.observed > self.high


def beside(observed: float, drawn: NDArray[np.float64], *, seed: int, kind: Kind, small: bool = False) -> Null:
    """Set a number beside what its surrogates give [draws]; with ``small`` p counts those that are at most as large."""
    low, high = np.quantile(drawn, [0.025, 0.975])
    as_far = int((drawn <= observed).sum() if small else (drawn >= observed).sum())
    return Null(
        observed, float(drawn.mean()), float(low), float(high), (1 + as_far) / (len(drawn) + 1), len(drawn), seed, kind
    )
