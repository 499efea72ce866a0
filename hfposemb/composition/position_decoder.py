"""Linear discriminant that decodes the position from a sum of word and position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

BLOCK = 4096
"""Number of rows centred at once."""


@dataclass(frozen=True, eq=False)
class PositionDecoder:
    """Linear discriminant of positions: maximises yᵀΣ⁻¹(A·p) − ½(A·p)ᵀΣ⁻¹(A·p) over p (Fisher 1936).

    Σ is the scatter of the tokens it was fitted on, shrunk towards the mean of its eigenvalues if there are few tokens.

    Attributes:
        mean: Mean of the tokens [d].
        weights: Σ⁻¹Pᵀ [d, T].
        gram: PΣ⁻¹Pᵀ [T, T].
    """

    mean: NDArray[np.float64]
    weights: NDArray[np.float64]
    gram: NDArray[np.float64]

    @classmethod
    def fit(cls, tokens: NDArray[np.floating], positions: NDArray[np.floating]) -> PositionDecoder:
        """Fit on token vectors [n, d], for positions [T, d]. Raises ``InputError`` if the tokens are all the same."""
        width = tokens.shape[1]
        mean = tokens.mean(axis=0, dtype=np.float64)
        scatter: NDArray[np.float64] = np.zeros((width, width))
        for start in range(0, len(tokens), BLOCK):
            block = tokens[start : start + BLOCK] - mean.astype(tokens.dtype)
            scatter += block.T @ block
        if not np.trace(scatter) > 0:
            raise InputError(f"all {len(tokens):,} tokens have the same vector; expected words that differ")
        scatter /= len(tokens)
        # With fewer tokens than dimensions Σ is singular.
        share = min(0.5, width / (10 * len(tokens)))
        even = share * float(np.trace(scatter)) / width
        scatter *= 1 - share
        scatter[np.diag_indices(width)] += even
        where = np.asarray(positions, np.float64)
        weights: NDArray[np.float64] = np.asarray(np.linalg.solve(scatter, where.T), np.float64)
        return cls(mean, weights, where @ weights)

    def evidence(self, words: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the contribution of words [n, d] alone to the score of each position [n, T]."""
        return np.asarray((words - self.mean) @ self.weights)

    def named(self, evidence: NDArray[np.float64], at: NDArray[np.int64], amplitude: float = 1.0) -> NDArray[np.int64]:
        """Return the position decoded from each sum x + A·p_at.

        Args:
            evidence: Contribution of the words [n, T].
            at: True positions [n].
            amplitude: Factor A on the positions; at 0 the result depends on the words only.

        Returns:
            Indices of the decoded positions [n].
        """
        score = evidence + amplitude * (self.gram[at] - np.diag(self.gram) / 2)
        # The discriminant divided by the magnitude of the amplitude, which does not change the ranking.
        return np.asarray((-score if amplitude < 0 else score).argmax(axis=1))
