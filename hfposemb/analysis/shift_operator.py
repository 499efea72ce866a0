"""Whether a shift of the position is a linear map, and how positions wind: Vaswani's rotation and its learned kin.

Of the sinusoid a shift by k is a rotation of every pair of components by ω_i k, exactly (Vaswani et al. 2017, 3.5).
For a learned table the map is fitted: on the leading components, and judged on rows it has not seen, because in full
width least squares "explains" most of pure noise.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable
from .surrogates import finite_rows

COMPONENTS = 16
"""Leading principal components that a shift is fitted on."""

FEW = 16
"""How many times as many rows as eigenvectors a matrix has from where on those are found one by one."""

Split = Literal["random", "contiguous"]


@dataclass(frozen=True, eq=False)
class Shift:
    """The map from p_t to p_{t+k} on the leading components, judged on held-out rows.

    ``linear`` and ``orthogonal`` are R² of the least-squares map and of the best orthogonal one; ``angles`` [pairs] are
    those of the orthogonal map, in radians, from 0 to π, largest first. ``split`` says which rows were held out: every
    fourth or so at random (interpolation), or the last quarter (extrapolation).
    """

    distance: int
    linear: float
    orthogonal: float
    angles: NDArray[np.float64]
    components: int
    split: Split
    seed: int


def shift(
    value: EmbeddingTable | PositionEncoding,
    distance: int,
    *,
    split: Split = "random",
    components: int = COMPONENTS,
    held_out: float = 0.25,
    seed: int = 0,
) -> Shift:
    """Fit p_t ↦ p_{t+k} for k = ``distance`` on the leading components of the finite rows.

    R² is 1 − Σ‖y − ŷ‖² / Σ‖y − ȳ‖² on held-out pairs, ȳ the mean of the fitted ones: 1 for a perfect map, about 0 or
    below for none. Raises ``InputError`` where too few pairs are left to fit as many components.
    """
    table = table_in(value)
    return shift_of(scores(table, components), distance, split=split, held_out=held_out, seed=seed)


def scores(value: EmbeddingTable | PositionEncoding, components: int = COMPONENTS) -> NDArray[np.float64]:
    """Return the coordinates of every row on the leading components that are not empty; NaN for rows not finite."""
    table = table_in(value)
    found = _scores(finite_rows(table), components)
    out = np.full((table.shape[0], found.shape[1]), np.nan)
    out[table.finite] = found
    return out


def shift_of(
    scores: NDArray[np.float64], distance: int, *, split: Split = "random", held_out: float = 0.25, seed: int = 0
) -> Shift:
    """Fit a shift as ``shift`` does, of coordinates [n, components] that are there already."""
    x, y = scores[: max(len(scores) - distance, 0)], scores[max(distance, 0) :]
    both = np.isfinite(x[:, 0]) & np.isfinite(y[:, 0]) if distance > 0 else np.zeros(0, bool)
    pairs = int(both.sum())
    fitted = round(pairs * (1 - held_out))
    if distance < 1 or fitted <= scores.shape[1] + 1 or pairs - fitted < 2:
        raise InputError(
            f"a shift by {distance} leaves {pairs} pairs of rows; {scores.shape[1]} components need more than that to "
            "fit a map and judge it"
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
    """Return the coordinates of rows [n, components] on their leading principal components."""
    centred = rows - rows.mean(axis=0)
    tall = len(rows) >= rows.shape[1]
    # By the smaller matrix of products: an SVD takes ten times as long for a few components of a wide table.
    eigenvalues, vectors = _largest(centred.T @ centred if tall else centred @ centred.T, components)
    return np.asarray(centred @ vectors if tall else vectors * np.sqrt(np.maximum(eigenvalues, 0)))


def _largest(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues of a symmetric matrix, in falling order, and their vectors as columns."""
    import scipy.linalg
    from scipy.sparse.linalg import ArpackError, eigsh

    side = len(matrix)
    if side >= FEW * count and np.trace(matrix) > 0:
        with suppress(ArpackError):  # where it does not converge
            values, vectors = eigsh(matrix, count, v0=np.ones(side))
            order = np.argsort(-values, kind="stable")
            return values[order], vectors[:, order]
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(max(side - count, 0), side - 1))
    return values[::-1], vectors[:, ::-1]


def _scores(rows: NDArray[np.float64], components: int) -> NDArray[np.float64]:
    """Return those of the leading components that are not empty. Raises ``InputError`` where all are."""
    found = leading(rows, components)
    lengths = np.linalg.norm(found, axis=0)
    if not lengths[0] > 0:
        raise InputError("all rows are the same: there is no direction in which they shift")
    return np.asarray(found[:, lengths > lengths[0] * 1e-6])


def rotation(inv_freq: NDArray[np.float64], distance: int) -> NDArray[np.float64]:
    """Return the matrix R [2·pairs, 2·pairs] with p_{t+k} = p_t R for interleaved sinusoids of these frequencies.

    Each pair (sin ω t, cos ω t) turns by ω k, a block [[cos, −sin], [sin, cos]] (Vaswani et al. 2017).
    """
    width = 2 * len(inv_freq)
    matrix = np.zeros((width, width))
    angle = np.asarray(inv_freq, np.float64) * distance
    even, odd = np.arange(0, width, 2), np.arange(1, width, 2)
    matrix[even, even] = matrix[odd, odd] = np.cos(angle)
    matrix[even, odd], matrix[odd, even] = -np.sin(angle), np.sin(angle)
    return matrix


@dataclass(frozen=True, eq=False)
class Helix:
    """How the leading components of a table wind about each other.

    ``period`` is that of the strongest wave of the two components, in positions; ``turns`` how often they go round;
    ``held`` the share of the variance they hold; ``even`` how nearly both wave with that period, 0 to 1: the share of
    their power at it. ``components`` names the two, from 1 on, by variance.
    """

    period: float
    turns: float
    held: float
    even: float
    components: tuple[int, int]


def helix(value: EmbeddingTable | PositionEncoding, *, leave_out: int = 1) -> Helix:
    """Return the pair among the three leading components that winds most evenly, as GPT-2's positions do.

    ``leave_out`` rows at either end, which often stand apart, are not counted. The period is read off the spectrum of
    both components together, between two bins by their power (after Yamamoto & Matsuzaki, EMNLP 2023). Raises
    ``InputError`` for fewer than 16 rows.
    """
    table = table_in(value)
    rows = finite_rows(table)
    rows = rows[leave_out : len(rows) - leave_out]
    if len(rows) < 16:
        raise InputError(f"{table.name} has {len(rows)} rows between its ends; 16 are needed to see them wind")
    scores = _scores(rows, 3)
    share = (scores**2).sum(axis=0) / ((rows - rows.mean(axis=0)) ** 2).sum()
    if scores.shape[1] < 2:
        raise InputError(f"{table.name} has one direction of variance; two are needed to wind")
    power = np.abs(np.fft.rfft(scores * np.hanning(len(scores))[:, None], axis=0)) ** 2
    best: Helix | None = None
    for first in range(scores.shape[1]):
        for second in range(first + 1, scores.shape[1]):
            both = power[:, first] + power[:, second]
            peak = int(both[1:].argmax()) + 1
            near = slice(max(peak - 1, 1), peak + 2)
            frequency = float((np.arange(len(both))[near] * both[near]).sum() / both[near].sum()) / len(scores)
            even = float(min(power[near, one].sum() / power[:, one].sum() for one in (first, second)))
            found = Helix(
                1 / frequency,
                len(scores) * frequency,
                float(share[first] + share[second]),
                even,
                (first + 1, second + 1),
            )
            if best is None or found.even * found.held > best.even * best.held:
                best = found
    assert best is not None
    return best
