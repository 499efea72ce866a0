"""A sinusoid as its frequencies are added, one pair after another, and its shift as a matrix for rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.closed_forms import sine_rows
from ...tables.tabular import Columns, Facts, Tabular
from ..row_values import Floats
from .shift_operator import rotation

PAIRS = (1, 2, 4, 8, 16, 32, 64)
MOST_POSITIONS = 4096
"""Maximum number of positions, as all pairs of them are compared."""
MOST_WIDTH = 4096
"""Maximum width, as a shift is a matrix of width by width."""


@dataclass(frozen=True, eq=False)
class FrequencyBuildup(Tabular):
    """The positions of a sinusoid that has only its first pairs of sine and cosine.

    Attributes:
        pairs: Number of pairs [m].
        periods: Period of the slowest of them, in positions [m].
        neighbours: Share of positions whose nearest other position is one before or after [m].
        separation: Smallest distance of two positions as a share of that of neighbours [m]; below 1, positions that are
            far apart in the text are closer than neighbours.
    """

    pairs: tuple[int, ...]
    periods: Floats
    neighbours: Floats
    separation: Floats

    def columns(self) -> Columns:
        """Return one row per number of pairs: ``pairs``, ``period``, ``neighbours`` and ``separation``."""
        named = {"pairs": self.pairs, "period": self.periods}
        return {**named, "neighbours": self.neighbours, "separation": self.separation}


def frequency_buildup(
    length: int = 256, width: int = 128, *, pairs: int | Sequence[int] = PAIRS, base: float = 10000.0
) -> FrequencyBuildup:
    """Build a sinusoid up from its fastest frequency: how positions come apart as slower ones are added.

    With the fastest pair alone positions run round a circle, so that those a period apart almost coincide. Each slower
    pair, like the next hand of a clock, tells some of them apart.

    Args:
        length: Number of positions.
        width: Width of the whole sinusoid, which sets its frequencies base^(−2i/width).
        pairs: Numbers of pairs, from the fastest; those beyond width / 2 are left out.
        base: Base of the frequencies.

    Raises:
        InputError: If there are fewer than 3 positions or more than 4,096, no pair fits, a number is less than 1, the
            width exceeds 4,096, or the base is not positive and finite.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.frequency_buildup(256, 128, pairs=[1, 64])
        >>> found.neighbours.round(2).tolist()
        [0.0, 1.0]
    """
    wanted = tuple(sorted({int(count) for count in several(pairs)}))
    counts = tuple(count for count in wanted if count <= width // 2)
    if width > MOST_WIDTH or not 0 < base < float("inf"):
        raise InputError(f"width must be up to {MOST_WIDTH:,}, and base positive; got width {width}, base {base}")
    if not 3 <= length <= MOST_POSITIONS or not counts or counts[0] < 1:
        raise InputError(
            f"length must be 3 to {MOST_POSITIONS:,} and pairs from 1 to {width // 2}; got length={length} and "
            f"pairs={list(wanted)[:8]}"
        )
    rows = sine_rows(0, length, width, base=base)
    built = [rows[:, : 2 * count] for count in counts]
    neighbours, separation = zip(*(_apart(one) for one in built), strict=True)
    return FrequencyBuildup(
        pairs=counts,
        periods=np.array([2 * np.pi * base ** (2 * (count - 1) / width) for count in counts]),
        neighbours=np.array(neighbours),
        separation=np.array(separation),
    )


def _apart(rows: Floats) -> tuple[float, float]:
    """Return how often the nearest row is a neighbour, and the least distance over that of neighbours."""
    squares = np.square(rows).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))
    np.fill_diagonal(distances, np.inf)
    places = np.arange(len(rows))
    near = np.abs(distances.argmin(axis=1) - places) == 1
    return float(near.mean()), float(distances.min() / np.diagonal(distances, 1).mean())


@dataclass(frozen=True, eq=False)
class ShiftRotation(Facts):
    """A shift of the sinusoid by k positions as a matrix, in both ways of writing it.

    Attributes:
        distance: Distance k, in positions.
        angles: Angle ω k by which each pair turns, in radians [pairs].
        for_rows: R with p_{t+k} = p_t R, as this library writes: blocks [[cos, −sin], [sin, cos]].
        for_columns: M with p_{t+k} = M p_t, as the paper and most texts write: blocks [[cos, sin], [−sin, cos]].
        error: Largest difference of either form from the row k positions on, over the first 1,024 positions.
    """

    distance: int
    angles: NDArray[np.float64]
    for_rows: NDArray[np.float64]
    for_columns: NDArray[np.float64]
    error: float


def shift_rotation(distance: int, width: int = 6, *, base: float = 10000.0) -> ShiftRotation:
    """Return the rotation that shifts the sinusoid by ``distance``, for positions as rows and as columns.

    The two are transposes of each other: a text that writes [[cos, sin], [−sin, cos]] and one that writes [[cos, −sin],
    [sin, cos]] mean the same map of (sin ω t, cos ω t) (Vaswani et al. 2017, 3.5).

    Args:
        distance: Distance k, in positions; negative to shift back.
        width: Width of the sinusoid, an even number.
        base: Base of the frequencies.

    Raises:
        InputError: If the width is odd or not 2 to 4,096, or the base is not positive and finite.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.shift_rotation(4, 6)
        >>> found.for_columns[:2, :2].round(3).tolist(), found.error < 1e-12
        ([[-0.654, -0.757], [0.757, -0.654]], True)
    """
    if not 2 <= width <= MOST_WIDTH or width % 2 or not 0 < base < float("inf"):
        raise InputError(f"width must be even, 2 to {MOST_WIDTH:,}, and base positive; got width {width}, base {base}")
    frequencies = base ** (-np.arange(0, width, 2) / width)
    for_rows = rotation(frequencies, distance)
    for_columns = for_rows.T.copy()
    start = max(0, -distance)
    before, after = (sine_rows(at, at + 1024, width, base=base) for at in (start, start + distance))
    errors = (before @ for_rows - after, (for_columns @ before.T).T - after)
    error = max(float(np.abs(one).max()) for one in errors)
    return ShiftRotation(int(distance), frequencies * distance, for_rows, for_columns, error)
