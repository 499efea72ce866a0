"""How precisely positions can be decoded from the slow and from the fast waves of an encoding.

A common claim is that slow dimensions encode the position roughly and fast ones exactly: a slow wave changes little
from one position to the next, a fast one repeats often. Two quantities test it for the m slowest and the m fastest
waves alone: the error of the decoded position, and how reliably a position is distinguished from the next. Both are
compared with guessing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Tabular
from ..rows import directed

Floats = NDArray[np.float64]
Unit = Literal["frequency pairs", "components"]

MOST = 1_024
"""Maximum number of positions decoded, from the first."""

HELD = 0.95
"""Share of variance that the retained components of a table without pairs explain; the rest is mostly noise."""

FEWEST = 16
"""Minimum number of rows with a direction."""


@dataclass(frozen=True, eq=False)
class Resolution(Tabular):
    """How well the slowest or fastest waves determine the position.

    Attributes:
        unit: What a wave is: "frequency pairs" or "components".
        counts: Numbers m of waves evaluated.
        slow: Mean error of the m slowest waves, in positions [counts].
        fast: Mean error of the m fastest waves, in positions [counts].
        slow_next: Probability that the m slowest waves distinguish a position from the next; .5 by guessing [counts].
        fast_next: The same for the m fastest waves [counts].
        guess: Mean error of always naming the middle, in positions.
        periods: Period of each wave in positions, slowest first; infinite for a constant [waves].
        positions: Number of positions decoded.
        noise: Size of the noise, relative to the root mean square of the centred entries.
        draws: Number of noise draws averaged.
        seed: Random seed.
    """

    unit: Unit
    counts: tuple[int, ...]
    slow: Floats
    fast: Floats
    slow_next: Floats
    fast_next: Floats
    guess: float
    periods: Floats
    positions: int
    noise: float
    draws: int
    seed: int

    def __str__(self) -> str:
        """List the error and the probability of distinguishing neighbours for each number of waves."""
        lines = [f"{self.unit:<16}{'slowest':>9}{'fastest':>9}{'slowest, next':>15}{'fastest, next':>15}"]
        for count, slow, fast, slow_next, fast_next in zip(
            self.counts, self.slow, self.fast, self.slow_next, self.fast_next, strict=True
        ):
            lines.append(f"{count:<16,}{slow:>9.1f}{fast:>9.1f}{100 * slow_next:>13.1f} %{100 * fast_next:>13.1f} %")
        return "\n".join([*lines, f"{'guessing':<16}{self.guess:>9.1f}{self.guess:>9.1f}{50:>13.1f} %{50:>13.1f} %"])

    def columns(self) -> Columns:
        """Return one row per number of waves.

        ``count``, the mean errors of the ``slow`` and ``fast`` waves in positions, and ``slow_next`` and ``fast_next``,
        the probability of distinguishing neighbours.
        """
        names = ("slow", "fast", "slow_next", "fast_next")
        return {"count": self.counts, **{name: getattr(self, name) for name in names}}


def frequency_resolution(
    value: EmbeddingTable | PositionEncoding, *, noise: float = 0.1, draws: int = 4, seed: int = 0
) -> Resolution:
    """Decode the position from the m slowest and the m fastest waves, for m = 1, 2, 4, … and all.

    The waves are frequency pairs if the columns pair up as sine and cosine of one angle, side by side or in halves, as
    in the sinusoid and in rotary tables. In any other table they are the principal components that explain 95 % of the
    variance, ordered by mean frequency, since the columns of a learned table mix all waves.

    The decoder sees the retained waves of a row with normal noise added. It knows the rows and the size of the noise,
    and returns the median of the posterior over positions, which minimises the expected absolute error and is the
    middle if the waves are uninformative. A linear decoder could not use a fast wave, since the position is not a
    linear function of a periodic one. A position is distinguished from the next with probability Φ(‖p_t+1 − p_t‖ / 2σ),
    in closed form. The noise is isotropic over the whole table; without noise, any difference between two rows would
    distinguish them. Rows without a direction are left out.

    Args:
        value: Table or position encoding [n, d].
        noise: Standard deviation σ of the noise, relative to the root mean square of the table's centred entries.
        draws: Number of noise draws to average.
        seed: Random seed.

    Raises:
        InputError: If there are fewer than 16 rows with a direction, ``noise`` or ``draws`` is not positive, or all
            rows are equal.
    """
    table = table_in(value)
    found = np.flatnonzero(directed(table)[:MOST])
    if len(found) < FEWEST or not 0 < noise < np.inf or draws < 1:
        raise InputError(
            f"at least {FEWEST} finite nonzero rows, noise above 0 and 1 draw are needed; {table.name} has "
            f"{len(found)} rows, with noise={noise:g} and draws={draws}"
        )
    rows = np.asarray(table.take(found), np.float64)
    spread = float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).mean()))
    if not spread > 1e-12 * float(np.abs(rows).max()):
        raise InputError(f"all rows of {table.name} are the same, so no position can be decoded")
    unit: Unit = "frequency pairs"
    if (waves := _pairs(rows)) is None:
        unit, waves = "components", _components(rows)
    frequencies = _frequencies(waves)
    waves = waves[np.argsort(frequencies, kind="stable")]
    counts = tuple(sorted({*(2**power for power in range(len(waves).bit_length())), len(waves)}))
    sigma = noise * spread
    following = np.diff(found) == 1
    slow, fast = (_errors(part, found, counts, sigma, draws=draws, seed=seed) for part in (waves, waves[::-1]))
    slow_next, fast_next = (_told(part, following, counts, sigma) for part in (waves, waves[::-1]))
    turning = np.sort(frequencies)
    return Resolution(
        unit,
        counts,
        slow,
        fast,
        slow_next,
        fast_next,
        guess=float(np.abs(found - np.median(found)).mean()),
        periods=np.divide(2 * np.pi, turning, out=np.full(len(turning), np.inf), where=turning > 1e-12),
        positions=len(found),
        noise=noise,
        draws=draws,
        seed=seed,
    )


def _pairs(rows: Floats) -> Floats | None:
    """Return the column pairs [pairs, n, 2] that are sine and cosine of one angle; ``None`` unless all columns pair up.

    The last column of an odd width has no partner and is left out.
    """
    width, half = rows.shape[1], rows.shape[1] // 2
    halves = [rows[:, :half], rows[:, half : 2 * half], rows[:, width - half :]]
    for first, second in ((rows[:, 0 : 2 * half : 2], rows[:, 1 : 2 * half : 2]), halves[:2], halves[::2]):
        radius = first**2 + second**2
        if half and (radius.std(axis=0) <= 1e-3 * radius.mean(axis=0)).all():
            return np.ascontiguousarray(np.stack([first, second], axis=2).transpose(1, 0, 2))
    return None


def _components(rows: Floats) -> Floats:
    """Return the leading principal components [components, n, 1] that explain ``HELD`` of the variance."""
    u, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    kept = int(np.searchsorted(np.cumsum(s**2) / (s**2).sum(), HELD)) + 1
    return np.ascontiguousarray((u[:, :kept] * s[:kept]).T[:, :, None])


def _frequencies(waves: Floats) -> Floats:
    """Return the frequency of each wave in radians per position: a pair's rotation, or a component's mean frequency."""
    if waves.shape[2] == 2:
        turning = waves[:, :, 0] + 1j * waves[:, :, 1]
        return np.asarray(np.abs(np.angle((turning[:, 1:] * turning[:, :-1].conj()).sum(axis=1))))
    power = np.abs(np.fft.rfft(waves[:, :, 0] * np.hanning(waves.shape[1]), axis=1)) ** 2
    return np.asarray(2 * np.pi * (power @ np.fft.rfftfreq(waves.shape[1])) / power.sum(axis=1))


def _errors(
    waves: Floats, positions: NDArray[np.int64], counts: tuple[int, ...], noise: float, *, draws: int, seed: int
) -> Floats:
    """Return the mean error [counts] of decoding the position from the first m waves with noise of size ``noise``.

    Squared distances are accumulated wave by wave, so all m together cost as much as the largest.
    """
    rng = np.random.default_rng(seed)
    out = np.zeros(len(counts))
    for _ in range(draws):
        squares, start = np.zeros((len(positions),) * 2), 0
        for place, count in enumerate(counts):
            kept = waves[start:count].transpose(1, 0, 2).reshape(len(positions), -1)
            heard = kept + noise * rng.standard_normal(kept.shape)
            # The squares of the noisy rows are omitted: they are the same for all candidates.
            squares += np.einsum("ij,ij->i", kept, kept) - 2 * heard @ kept.T
            likely = np.exp((squares.min(axis=1, keepdims=True) - squares) / (2 * noise**2)).cumsum(axis=1)
            median = (likely < likely[:, -1:] / 2).sum(axis=1)
            out[place] += np.abs(positions[median] - positions).mean()
            start = count
    return out / draws


def _told(waves: Floats, following: NDArray[np.bool_], counts: tuple[int, ...], noise: float) -> Floats:
    """Return the probability [counts] that the first m waves with noise tell a row from the ``following`` one."""
    squares = (np.diff(waves, axis=1)[:, following] ** 2).sum(axis=2).cumsum(axis=0)
    halves = np.sqrt(squares[np.array(counts) - 1]) / (2 * noise)
    return np.asarray([np.mean([0.5 * math.erfc(-half / math.sqrt(2)) for half in row]) for row in halves])
