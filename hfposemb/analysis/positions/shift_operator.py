"""Shift of the position as a linear map, and the helix of the leading components.

For the sinusoid, a shift by k rotates each pair of columns by exactly ω_i k (Vaswani et al. 2017, 3.5). For a learned
table the map is fitted on the leading components and evaluated on held-out rows, because at full width least squares
"explains" most of pure noise.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Facts
from ..geometry import SOLVED_WHOLE, leading_eigenvectors
from ..nulls.surrogates import finite_rows
from ..rows import outlying

COMPONENTS = 16
"""Number of leading principal components a shift is fitted on."""

FEW = 16
"""Ratio of matrix size to number of eigenvalues from which an iterative eigensolver is used."""

Split = Literal["random", "contiguous"]


@dataclass(frozen=True, eq=False)
class Shift(Facts):
    """Fitted map from p_t to p_{t+k} on the leading components, evaluated on held-out rows.

    Attributes:
        distance: Distance k, in positions.
        linear: Held-out R² of the least-squares map.
        orthogonal: Held-out R² of the best orthogonal map.
        angles: Rotation angles of the orthogonal map in radians, 0 to π, in descending order [pairs].
        components: Number of components fitted on.
        split: Which rows were held out: a random quarter by default (interpolation), or the last quarter
            (extrapolation).
        seed: Random seed of the split.
    """

    distance: int
    linear: float
    orthogonal: float
    angles: NDArray[np.float64]
    components: int
    split: Split
    seed: int


def fit_shift(
    value: EmbeddingTable | PositionEncoding,
    distance: int,
    *,
    split: Split = "random",
    components: int = COMPONENTS,
    held_out: float = 0.25,
    seed: int = 0,
) -> Shift:
    """Fit p_t ↦ p_{t+k} for k = ``distance`` on the leading components of the finite rows.

    R² is 1 − Σ‖y − ŷ‖² / Σ‖y − ȳ‖² over held-out pairs, with ȳ the mean of the fitted ones: 1 for a perfect map, about
    0 or below for none.

    Args:
        value: Table or position encoding [n, d].
        distance: Distance k, in positions.
        split: ``"random"`` to hold out random pairs, ``"contiguous"`` to hold out the last ones.
        components: Number of leading components to fit on.
        held_out: Share of pairs held out.
        seed: Random seed of the split.

    Raises:
        InputError: If too few pairs are left to fit that many components.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions.shift_operator import fit_shift
        >>> round(fit_shift(hpe.sinusoidal(64, 16).position, 4).linear, 2)
        0.99
    """
    table = table_in(value)
    return fit_shift_of_scores(pca_scores(table, components), distance, split=split, held_out=held_out, seed=seed)


def pca_scores(value: EmbeddingTable | PositionEncoding, components: int = COMPONENTS) -> NDArray[np.float64]:
    """Return the coordinates of every row on the leading nonempty components; NaN for rows that are not finite."""
    table = table_in(value)
    found = _scores(finite_rows(table), components)
    out = np.full((table.shape[0], found.shape[1]), np.nan)
    out[table.finite] = found
    return out


def fit_shift_of_scores(
    scores: NDArray[np.float64], distance: int, *, split: Split = "random", held_out: float = 0.25, seed: int = 0
) -> Shift:
    """Fit a shift as ``shift`` does, on given coordinates [n, components]."""
    x, y = scores[: max(len(scores) - distance, 0)], scores[max(distance, 0) :]
    both = np.isfinite(x[:, 0]) & np.isfinite(y[:, 0]) if distance > 0 else np.zeros(0, bool)
    pairs = int(both.sum())
    if not 0 < held_out < 1:
        raise InputError(f"held_out must be between 0 and 1; got {held_out}")
    fitted = round(pairs * (1 - held_out))
    if distance < 1 or fitted <= scores.shape[1] + 1 or pairs - fitted < 2:
        raise InputError(
            f"a shift by {distance} leaves {pairs} pairs of rows, too few to fit and test a map of {scores.shape[1]} "
            "components"
        )
    x, y = x[both], y[both]
    order = np.random.default_rng(seed).permutation(pairs) if split == "random" else np.arange(pairs)
    fit, test = order[:fitted], order[fitted:]
    linear = np.linalg.lstsq(x[fit], y[fit], rcond=None)[0]
    u, _, vt = np.linalg.svd(x[fit].T @ y[fit])
    orthogonal = u @ vt
    total = float(((y[test] - y[fit].mean(axis=0)) ** 2).sum())

    def explained(mapped: NDArray[np.float64]) -> float:
        return 1.0 - float(((y[test] - mapped) ** 2).sum()) / total if total else float("nan")

    angles = np.abs(np.angle(np.linalg.eigvals(orthogonal)))
    return Shift(
        distance,
        explained(x[test] @ linear),
        explained(x[test] @ orthogonal),
        np.sort(angles)[::-1][::2],
        scores.shape[1],
        split,
        seed,
    )


def leading(rows: NDArray[np.float64], components: int) -> NDArray[np.float64]:
    """Return the coordinates of rows [n, d] on their leading principal components [n, components]."""
    centred = rows - rows.mean(axis=0)
    tall = len(rows) >= rows.shape[1]
    # Use the smaller Gram matrix: for a few components of a wide table an SVD takes ten times as long.
    eigenvalues, vectors = _largest(centred.T @ centred if tall else centred @ centred.T, components)
    return np.asarray(centred @ vectors if tall else vectors * np.sqrt(np.maximum(eigenvalues, 0)))


def _largest(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues of a symmetric matrix in descending order, with their eigenvectors as columns."""
    side = len(matrix)
    if side > SOLVED_WHOLE and side >= FEW * count and np.trace(matrix) > 0:
        from scipy.sparse.linalg import ArpackError, eigsh

        with suppress(ArpackError):  # no convergence: use the dense solver
            values, vectors = eigsh(matrix, count, v0=np.ones(side))
            order = np.argsort(-values, kind="stable")
            return values[order], vectors[:, order]
    return leading_eigenvectors(matrix, count)


def _scores(rows: NDArray[np.float64], components: int) -> NDArray[np.float64]:
    """Return the leading components that are not empty. Raises ``InputError`` if all are, or none is asked for."""
    if components < 1:
        raise InputError(f"components must be at least 1; got {components}")
    found = leading(rows, components)
    lengths = np.linalg.norm(found, axis=0)
    if not lengths[0] > 0:
        raise InputError("all rows are the same, so no shift can be fitted")
    return np.asarray(found[:, lengths > lengths[0] * 1e-6])


def rotation(inv_freq: NDArray[np.float64], distance: int) -> NDArray[np.float64]:
    """Return the matrix R [2·pairs, 2·pairs] with p_{t+k} = p_t R for interleaved sinusoids.

    Each pair (sin ω t, cos ω t) rotates by ω k, a block [[cos, −sin], [sin, cos]] (Vaswani et al. 2017).

    Args:
        inv_freq: Angular frequencies ω in radians per position [pairs].
        distance: Distance k, in positions.
    """
    width = 2 * len(inv_freq)
    matrix = np.zeros((width, width))
    angle = np.asarray(inv_freq, np.float64) * distance
    even, odd = np.arange(0, width, 2), np.arange(1, width, 2)
    matrix[even, even] = matrix[odd, odd] = np.cos(angle)
    matrix[even, odd], matrix[odd, even] = -np.sin(angle), np.sin(angle)
    return matrix


FEWEST_TURNS = 1.5
"""Number of turns from which two components wind; the leading components of any slow curve make up to one."""

SPEED, RADIUS, ROUND = 0.38, 0.3, 0.7
"""Largest spread of speed and radius, and smallest ratio of variances, of two components that wind."""

STEADY_SPEED, STEADY_RADIUS, STEADY_ROUND = 0.12, 0.06, 0.2
"""The same of two components that wind in an ellipse; chance hardly makes them that steady."""

SCORES_WITH_DRIFT, MOST_TURNS_WITH_DRIFT, MOST_WITH_DRIFT = 6, 64, 2048
"""Number of components, of turns, and of positions by which the wave is chosen that a straight drift is fitted with."""

SMOOTHED, FEWEST_SMOOTHED = 0.25, 4
"""Width of the window in turns, and its minimum in positions."""


@dataclass(frozen=True)
class Helix(Facts):
    """Helical winding of two leading components of a table.

    ``smoothed``, ``speed`` and ``radius`` are of the curve smoothed over a quarter of a turn at its strongest
    frequency, which noise of single rows does not change.

    Attributes:
        period: Number of positions per turn; infinite without a turn.
        turns: Number of turns about the mean over the table, less those in the opposite direction.
        held: Share of the variance the two components explain.
        even: Share of the steps from one position to the next that turn in the direction of the whole; .5 for noise.
        components: The two components, counted from 1 by variance.
        smoothed: Number of turns of the smoothed curve.
        speed: Standard deviation of its angle from one position to the next, relative to the mean; 0 if it is steady.
        radius: Standard deviation of its distance from the mean, relative to the mean distance; 0 for a circle.
        round: Ratio of the smaller variance of the two components to the larger; 1 for a circle.
        count: Number of positions from the first that counts to the last.
        drift: Share of the variance of a straight drift that was taken off first, since nothing winds with it; or 0.
    """

    period: float
    turns: float
    held: float
    even: float
    components: tuple[int, int]
    smoothed: float
    speed: float
    radius: float
    round: float
    count: int
    drift: float = 0.0

    @property
    def winds(self) -> bool:
        """Whether the components wind more evenly, and more often, than those of random curves."""
        circle = not self.drift and self.round >= ROUND and self.speed <= SPEED and self.radius <= RADIUS
        steady = self.round >= STEADY_ROUND and self.speed <= STEADY_SPEED and self.radius <= STEADY_RADIUS
        return self.smoothed >= FEWEST_TURNS and (circle or steady)

    @property
    def alias(self) -> float:
        """Number of turns in the other direction that look the same at every position, being whole turns apart."""
        return self.count - self.turns


def helix(value: EmbeddingTable | PositionEncoding, *, leave_out: int = 1) -> Helix:
    """Return the pair among the three leading components that turns most evenly, as GPT-2's positions do.

    The pair maximises evenness times share of variance. If it does not wind, a straight drift is fitted beside the wave
    that fits best and taken off, and the three components are those of the rest. Turns are counted by the angle from
    each position to the next, as seen from the mean and with both components scaled to the same variance; rows of
    outlying norm do not count.

    Args:
        value: Table or position encoding [n, d].
        leave_out: Number of rows to leave out at either end, which often differ from the rest.

    Raises:
        InputError: If fewer than 16 rows are left, or they vary in one direction only.
    """
    table = table_in(value)
    rows = finite_rows(table)
    rows = rows[leave_out : len(rows) - leave_out]
    places = np.setdiff1d(np.arange(len(rows)), outlying(np.linalg.norm(rows, axis=1)))
    rows = rows[places]
    if len(rows) < 16:
        raise InputError(f"{table.name} has {len(rows)} inner rows; a helix needs at least 16")
    total = float(((rows - rows.mean(axis=0)) ** 2).sum())
    found = _evenest(rows, places, total)
    if found is None:
        raise InputError(f"{table.name} varies along one direction only; a helix needs 2")
    if found.winds:
        return found
    drift = _drift(rows, places)
    beside = _evenest(rows - drift, places, total, float((drift**2).sum()) / total)
    return beside if beside is not None and beside.winds else found


def _evenest(rows: NDArray[np.float64], places: NDArray[np.int64], total: float, drift: float = 0.0) -> Helix | None:
    """Return the pair of the three leading components that turns most evenly; ``None`` if there is one component."""
    scores = _scores(rows, 3)
    share = (scores**2).sum(axis=0) / total
    pairs = itertools.combinations(range(scores.shape[1]), 2)
    found = [_wound(scores[:, list(pair)], places, float(share[list(pair)].sum()), pair, drift) for pair in pairs]
    return max(found, key=lambda one: one.even * one.held, default=None)


def _drift(rows: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the straight line [n, d] that is fitted to rows at some positions [n] along with the wave that fits best.

    Fitted alone, the line would take part of a wave of few turns with it.
    """
    line = (places - places.mean()) / max(float(np.ptp(places)), 1.0)
    turns = np.arange(FEWEST_TURNS, min(len(rows) / 4, MOST_TURNS_WITH_DRIFT), 0.25)
    some = slice(None, None, -(-len(rows) // MOST_WITH_DRIFT))
    bases = np.linalg.qr(_waves(line[some], turns))[0]
    scores = leading(rows[some], SCORES_WITH_DRIFT)
    best = int(np.square(bases.transpose(0, 2, 1) @ scores).sum(axis=(1, 2)).argmax())
    slope = np.linalg.pinv(_waves(line, turns[best : best + 1])[0])[1] @ rows
    return np.asarray(np.multiply.outer(line, slope))


def _waves(line: NDArray[np.float64], turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a constant, a line [n], and sine and cosine of so many turns along it [t], as columns [t, n, 4]."""
    angles = 2 * np.pi * np.multiply.outer(turns, line)
    return np.stack([np.ones_like(angles), np.broadcast_to(line, angles.shape), np.cos(angles), np.sin(angles)], axis=2)


def _wound(
    plane: NDArray[np.float64], places: NDArray[np.int64], held: float, pair: tuple[int, ...], drift: float
) -> Helix:
    """Count the turns of a curve in the plane of two components [n, 2], at some positions [n]."""
    spread = plane.std(axis=0)
    first, second = (plane / spread).T
    at = first + 1j * second
    steps = np.angle(at[1:] * at[:-1].conj())
    whole = float(steps.sum())
    turns, count = abs(whole) / (2 * np.pi), int(places[-1] - places[0])
    period = float(count) / turns if turns else math.inf
    curve = _smoothed(at, places - places[0])
    angles, distances = np.angle(curve[1:] * curve[:-1].conj()), np.abs(curve)
    tiny = np.finfo(float).tiny
    return Helix(
        period,
        turns,
        held,
        float((steps * whole > 0).mean()),
        (pair[0] + 1, pair[1] + 1),
        float(abs(angles.sum()) / (2 * np.pi)),
        float(angles.std() / max(abs(angles.mean()), tiny)),
        float(distances.std() / max(distances.mean(), tiny)),
        float((spread.min() / spread.max()) ** 2),
        count,
        drift,
    )


def _smoothed(at: NDArray[np.complex128], places: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Return a complex curve, known at some positions, smoothed at the frequency at which it is strongest.

    It is turned back by that frequency, averaged with a Hann window over the known positions, and turned again.
    """
    count = int(places[-1]) + 1
    known, full = np.zeros(count), np.zeros(count, np.complex128)
    known[places], full[places] = 1, at
    power = np.abs(np.fft.fft(full, 4 * count))
    frequency = float(np.fft.fftfreq(4 * count)[power.argmax()])
    most = max(FEWEST_SMOOTHED, count // 8)
    width = int(np.clip(SMOOTHED / max(abs(frequency), 1 / (4 * count)), FEWEST_SMOOTHED, most))
    window = np.hanning(width + 2)[1:-1]
    turned = np.exp(2j * np.pi * frequency * np.arange(count))
    averaged = np.convolve(full / turned, window, "same") / np.maximum(np.convolve(known, window, "same"), 1e-9)
    return np.asarray(averaged * turned)
