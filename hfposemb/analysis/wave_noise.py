"""How much the mean strength of a wave over the columns of a table varies in noise.

Of independent columns of one width, √(4/π − 1) / √d of its mean. Wide columns, and columns that depend on each other,
count as fewer: as many as the directions of the coefficients of different waves amount to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

DEPENDENT = 1.5
"""Number of columns relative to the effective number from which the latter counts; independent ones vary by less."""

MOST_WAVES = 512
"""Maximum number of waves whose coefficients are compared, the strongest ones."""


@dataclass(frozen=True)
class WaveNoise:
    """Distribution of the strength of one wave, as a multiple of its mean, over columns of noise.

    Attributes:
        columns: Effective number of columns.
        dependent: Whether it is less than that of the table, so that the distribution is not near a normal one.
    """

    columns: float
    dependent: bool

    @property
    def spread(self) -> float:
        """The standard deviation, as that of the mean of so many Rayleigh distributed magnitudes."""
        return math.sqrt((4 / math.pi - 1) / self.columns)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of 95 %."""
        if self.dependent:
            return self.quantile(0.025), self.quantile(0.975)
        return max(0.0, 1 - 1.96 * self.spread), 1 + 1.96 * self.spread

    def quantile(self, share: float) -> float:
        """Return a quantile of the strength: of a normal or, of few columns, a Nakagami distribution."""
        if not self.dependent:
            return 1 + self.spread * NormalDist().inv_cdf(share)
        shape = self.columns  # 1 is a single column: the distribution of Rayleigh
        mean = math.exp(math.lgamma(shape + 0.5) - math.lgamma(shape)) / math.sqrt(shape)
        # Wilson and Hilferty (1931) for a gamma distribution: the first page of the app would import scipy for its own.
        error = 1 / (9 * shape)
        root = max(0.0, 1 - error + math.sqrt(error) * NormalDist().inv_cdf(share))
        return root * math.sqrt(root) / mean

    def excess(self, share: float, *, beside: int) -> float:
        """Return a quantile of the logarithm of a strength relative to the geometric mean of ``beside`` others."""
        spread = self.spread
        if self.dependent:
            # Half the root of the trigamma function, by its series from five on.
            far = self.columns + 5
            trigamma = (
                sum((self.columns + one) ** -2 for one in range(5)) + 1 / far + 1 / (2 * far**2) + 1 / (6 * far**3)
            )
            spread = math.sqrt(trigamma) / 2
        return math.sqrt(1 + 1 / beside) * spread * NormalDist().inv_cdf(share)


def wave_noise(coefficients: NDArray[np.complexfloating]) -> WaveNoise:
    """Return the distribution in noise whose columns are as wide, and as dependent, as those of a table.

    With w the widths of the columns and ρ their correlations, the variance of the mean magnitude relative to that of
    one column is Σ wᵢ wⱼ ρᵢⱼ² / (Σ w)². It is estimated without bias by the squared cosines of the coefficients of
    different waves, weighted by their power, after columns are divided by √w.

    Args:
        coefficients: Discrete Fourier transform of the columns, without the mean [waves, d].
    """
    width = coefficients.shape[1]
    squares = np.square(np.abs(coefficients))
    widths = np.sqrt(squares.mean(axis=0))
    used = widths > 0
    power = squares[:, used] @ (1 / widths[used])
    strongest = np.argsort(power)[-MOST_WAVES:]
    scaled, power = coefficients[strongest][:, used] / np.sqrt(widths[used]), power[strongest]
    if len(scaled) > 1 and (weights := float(np.square(power.sum()) - np.square(power).sum())) > 0:
        of_smaller = scaled @ scaled.conj().T if len(scaled) < scaled.shape[1] else scaled.conj().T @ scaled
        alike = float(np.square(np.abs(of_smaller)).sum() - np.square(power).sum()) / weights
        if alike * width > DEPENDENT:
            return WaveNoise(max(1.0, 1 / alike), dependent=True)
    return WaveNoise(float(width), dependent=False)
