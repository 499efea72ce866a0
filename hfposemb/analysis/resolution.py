"""How finely positions can be read off the slow and the fast parts of an encoding: roughly, or exactly.

"Slow dimensions say roughly where, fast ones exactly": a slow wave changes little from one position to the next, a fast
one comes round again and again. So two things are asked of the m slowest and of the m fastest waves alone: how far off
the position is that is decoded from them, and how surely they tell a position from the next. Both stand beside what
guessing gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable
from .row_values import read_rows
from .rows import directed

Floats = NDArray[np.float64]
Unit = Literal["frequency pairs", "components"]

MOST = 1_024
"""Positions that are decoded at most, the first of the table."""

HELD = 0.95
"""Share of the variance that the components of a table without pairs hold together; the rest is mostly noise."""

FEWEST = 16
"""Rows with a direction below which nothing is decoded."""


@dataclass(frozen=True, eq=False)
class Resolution:
    """How well the ``counts`` slowest or fastest ``unit``s tell the position.

    ``slow`` and ``fast`` [counts] are mean errors in positions, ``guess`` that of naming the middle each time.
    ``slow_next`` and ``fast_next`` [counts] are how often a position is told from the next, .5 by guessing. ``periods``
    [units] are in positions, slowest first, infinite where nothing turns.
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

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON; a period that is infinite is ``None``."""
        facts = {part.name: getattr(self, part.name) for part in fields(self)}
        periods = [period if np.isfinite(period) else None for period in self.periods.tolist()]
        lists = {name: value.tolist() for name, value in facts.items() if isinstance(value, np.ndarray)}
        return {**facts, **lists, "periods": periods}

    def __str__(self) -> str:
        """List by m how far off the position is, and how often it is told from the next."""
        lines = [f"{self.unit:<16}{'slowest':>9}{'fastest':>9}{'slowest, next':>15}{'fastest, next':>15}"]
        for count, slow, fast, slow_next, fast_next in zip(
            self.counts, self.slow, self.fast, self.slow_next, self.fast_next, strict=True
        ):
            lines.append(f"{count:<16,}{slow:>9.1f}{fast:>9.1f}{100 * slow_next:>13.1f} %{100 * fast_next:>13.1f} %")
        return "\n".join([*lines, f"{'guessing':<16}{self.guess:>9.1f}{self.guess:>9.1f}{50:>13.1f} %{50:>13.1f} %"])


def resolution(
    value: EmbeddingTable | PositionEncoding, *, noise: float = 0.1, draws: int = 4, seed: int = 0
) -> Resolution:
    """Decode the position from the m slowest and the m fastest waves, m = 1, 2, 4, … and all.

    The waves are frequency pairs where columns pair up as sines and cosines of one angle, as those of the sinusoid and
    of rotary tables do, side by side or in halves. In any other table they are the principal components that hold 95 %
    of the variance, ordered by their mean frequency: columns of a learned table mix all waves.

    What is decoded is the row after normal noise was added, as far as the kept waves show it. The decoder knows the
    rows and the size of the noise, and names the median of the positions, each weighted by how likely it is: nobody
    errs less on average, and where the waves tell nothing it names the middle. A linear decoder would find no use for a
    fast wave, since the position is no linear function of what comes round. A position is told from the next with
    probability Φ(‖p_t+1 − p_t‖ / 2σ), in closed form. The noise is isotropic over the whole table, σ = ``noise`` times
    the root mean square of its centred entries: without any, whatever two rows differ by would tell them apart. The
    errors are means over ``draws``. Rows without a direction are left out. Raises ``InputError`` for fewer than 16
    rows, a noise that is not above 0, or rows that are all the same.
    """
    table = table_in(value)
    found = np.flatnonzero(directed(table)[:MOST])
    if len(found) < FEWEST or not 0 < noise < np.inf or draws < 1:
        raise InputError(
            f"{table.name} has {len(found)} rows with a direction, noise {noise:g}, {draws} draws; a position is "
            f"decoded from {FEWEST} rows or more, with noise above 0 and a draw"
        )
    rows = np.asarray(read_rows(table, found), np.float64)
    spread = float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).mean()))
    if not spread > 1e-12 * float(np.abs(rows).max()):
        raise InputError(f"all rows of {table.name} are the same: there is no position to decode")
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
    """Return the pairs of columns [pairs, n, 2] that are a sine and a cosine of one angle; ``None`` where not all are.

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
    """Return the leading principal components [components, n, 1] that hold ``HELD`` of the variance."""
    u, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    kept = int(np.searchsorted(np.cumsum(s**2) / (s**2).sum(), HELD)) + 1
    return np.ascontiguousarray((u[:, :kept] * s[:kept]).T[:, :, None])


def _frequencies(waves: Floats) -> Floats:
    """Return the radians a position of every wave: the angle that a pair turns, or a component's mean frequency."""
    if waves.shape[2] == 2:
        turning = waves[:, :, 0] + 1j * waves[:, :, 1]
        return np.asarray(np.abs(np.angle((turning[:, 1:] * turning[:, :-1].conj()).sum(axis=1))))
    power = np.abs(np.fft.rfft(waves[:, :, 0] * np.hanning(waves.shape[1]), axis=1)) ** 2
    return np.asarray(2 * np.pi * (power @ np.fft.rfftfreq(waves.shape[1])) / power.sum(axis=1))


def _errors(
    waves: Floats, positions: NDArray[np.int64], counts: tuple[int, ...], noise: float, *, draws: int, seed: int
) -> Floats:
    """Return the mean error [counts] of decoding the position from the first m waves, with noise of size ``noise``.

    Squared distances are added up wave by wave, so that all m cost as much as the largest.
    """
    rng = np.random.default_rng(seed)
    out = np.zeros(len(counts))
    for _ in range(draws):
        squares, start = np.zeros((len(positions),) * 2), 0
        for place, count in enumerate(counts):
            kept = waves[start:count].transpose(1, 0, 2).reshape(len(positions), -1)
            heard = kept + noise * rng.standard_normal(kept.shape)
            # Without the squares of what is heard, which are the same for all candidates.
            squares += np.einsum("ij,ij->i", kept, kept) - 2 * heard @ kept.T
            likely = np.exp((squares.min(axis=1, keepdims=True) - squares) / (2 * noise**2)).cumsum(axis=1)
            median = (likely < likely[:, -1:] / 2).sum(axis=1)
            out[place] += np.abs(positions[median] - positions).mean()
            start = count
    return out / draws


def _told(waves: Floats, following: NDArray[np.bool_], counts: tuple[int, ...], noise: float) -> Floats:
    """Return how often the first m waves tell a row from the ``following`` one, when heard with noise [counts]."""
    squares = (np.diff(waves, axis=1)[:, following] ** 2).sum(axis=2).cumsum(axis=0)
    halves = np.sqrt(squares[np.array(counts) - 1]) / (2 * noise)
    return np.asarray([np.mean([0.5 * math.erfc(-half / math.sqrt(2)) for half in row]) for row in halves])
