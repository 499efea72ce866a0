"""Whether a shift of the position is a linear map, and how positions wind: Vaswani's rotation and its learned kin.

Of the sinusoid a shift by k is a rotation of every pair of components by ω_i k, exactly (Vaswani et al. 2017, 3.5).
For a learned table the map is fitted: on the leading components, and judged on rows it has not seen, because in full
width least squares "explains" most of pure noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .nulls import Rows, finite_rows, impostors
from .position import PositionEncoding, table_in
from .table import EmbeddingTable

COMPONENTS = 16
"""Leading principal components that a shift is fitted on."""

HELD_OUT = 0.25
"""The share of the pairs that a map is judged on."""

IMPOSTORS = 20
"""Surrogates of a table whose shifts are fitted too; their lowest and highest R² make the band."""

Split = Literal["random", "contiguous"]
SPLITS: tuple[Split, ...] = get_args(Split)


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
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> Shift:
    """Fit p_t ↦ p_{t+k} for k = ``distance`` on the leading components of the finite rows.

    R² is 1 − Σ‖y − ŷ‖² / Σ‖y − ȳ‖² on held-out pairs, ȳ the mean of the fitted ones: 1 for a perfect map, about 0 or
    below for none. Raises ``InputError`` where too few pairs are left to fit as many components.
    """
    table = table_in(value)
    return _shift(_scores(finite_rows(table), components), distance, (split, held_out, seed), table.name)


def _shift(scores: Rows, distance: int, how: tuple[Split, float, int], name: str) -> Shift:
    """Fit one shift of scores [n, components]; ``how`` is the split, the share held out and the seed."""
    split, held_out, seed = how
    pairs = len(scores) - distance
    fitted = round(pairs * (1 - held_out))
    if distance < 1 or fitted <= scores.shape[1] + 1 or pairs - fitted < 2:
        raise InputError(
            f"a shift by {distance} of {name} leaves {max(pairs, 0)} pairs of rows; {scores.shape[1]} components "
            "need more than that to fit a map and judge it"
        )
    order = np.random.default_rng(seed).permutation(pairs) if split == "random" else np.arange(pairs)
    fit, test = order[:fitted], order[fitted:]
    x, y = scores[:-distance], scores[distance:]
    linear = np.linalg.lstsq(x[fit], y[fit], rcond=None)[0]
    orthogonal = _orthogonal(x[fit], y[fit])
    centre = y[fit].mean(axis=0)
    angles = np.abs(np.angle(np.linalg.eigvals(orthogonal)))
    return Shift(
        distance,
        _explained(y[test], x[test] @ linear, centre),
        _explained(y[test], x[test] @ orthogonal, centre),
        np.sort(angles)[::-1][::2],
        scores.shape[1],
        split,
        seed,
    )


def _orthogonal(x: Rows, y: Rows) -> Rows:
    """Return the orthogonal map that takes rows x [n, d] nearest to rows y [n, d] (Schönemann 1966)."""
    u, _, vt = np.linalg.svd(x.T @ y)
    return np.asarray(u @ vt)


def _explained(y: Rows, mapped: Rows, centre: Rows) -> float:
    """Return R² of rows mapped, against their ``centre`` [d]; NaN where all rows are at it."""
    total = float(((y - centre) ** 2).sum())
    return 1.0 - float(((y - mapped) ** 2).sum()) / total if total else float("nan")


@dataclass(frozen=True, eq=False)
class ShiftCurve:
    """Held-out R² of the shift by each of ``distances`` [m], of both maps and both splits.

    ``linear`` and ``orthogonal`` [m] are by split, "random" or "contiguous"; see ``Shift``. At either end ``leave_out``
    rows were not counted.
    """

    distances: NDArray[np.int64]
    linear: Mapping[Split, NDArray[np.float64]]
    orthogonal: Mapping[Split, NDArray[np.float64]]
    components: int
    leave_out: int
    seed: int


def shift_distances(rows: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … up to a quarter of a table's rows."""
    return tuple(2**power for power in range(max(0, rows // 4).bit_length()))


def shift_by_distance(
    value: EmbeddingTable | PositionEncoding,
    *,
    distances: Sequence[int] | None = None,
    components: int = COMPONENTS,
    leave_out: int = 1,
    seed: int = 0,
) -> ShiftCurve:
    """Return how well a shift by each distance is a linear map, and how well a rotation, on held-out rows.

    By default the distances are 1, 2, 4, … up to a quarter of the rows, as far as pairs are left to fit a map. The
    ``leave_out`` rows at either end often stand apart, and would decide R² where they are held out. Raises
    ``InputError`` where not one distance can be fitted.
    """
    table = table_in(value)
    return _curve(_scores(_inner(table, leave_out), components), distances, (leave_out, seed), table.name)


def shift_null(
    value: EmbeddingTable | PositionEncoding,
    *,
    distances: Sequence[int] | None = None,
    components: int = COMPONENTS,
    leave_out: int = 1,
    draws: int = IMPOSTORS,
    seed: int = 0,
) -> tuple[ShiftCurve, ShiftCurve]:
    """Return the lowest and the highest R² of a table's impostors, as ``shift_by_distance`` measures the table.

    Impostors are as smooth as the table, so a shift that is only smoothness is no better than theirs. Their leading
    components are found by random projection (Halko, Martinsson & Tropp 2011), within 1e-3 of R².
    """
    from sklearn.utils.extmath import randomized_svd

    table = table_in(value)
    drawn = []
    for rows in impostors(_inner(table, leave_out), draws=draws, seed=seed):
        u, s, _ = randomized_svd(rows - rows.mean(axis=0), min(components, *rows.shape), n_iter=2, random_state=seed)
        drawn.append(_curve(_held(u * s), distances, (leave_out, seed), table.name))

    def edge(take: Callable[..., Rows]) -> ShiftCurve:
        linear, orthogonal = (
            {split: take([getattr(one, name)[split] for one in drawn], axis=0) for split in SPLITS}
            for name in ("linear", "orthogonal")
        )
        return replace(drawn[0], linear=linear, orthogonal=orthogonal)

    return edge(np.min), edge(np.max)


def _inner(table: EmbeddingTable, leave_out: int) -> Rows:
    rows = finite_rows(table)
    inner = rows[leave_out : len(rows) - leave_out]
    if len(inner) < 3:
        raise InputError(f"{table.name} has {len(inner)} rows between its ends; a shift needs many more to be fitted")
    return inner


def _curve(scores: Rows, distances: Sequence[int] | None, how: tuple[int, int], name: str) -> ShiftCurve:
    leave_out, seed = how
    found: dict[int, tuple[Shift, ...]] = {}
    for distance in shift_distances(len(scores)) if distances is None else distances:
        try:
            found[distance] = tuple(_shift(scores, distance, (split, HELD_OUT, seed), name) for split in SPLITS)
        except InputError:
            if not found or distances is not None:
                raise
            break
    if not found:
        raise InputError(f"{name} has {len(scores)} rows between its ends; a shift needs many more to be fitted")
    linear, orthogonal = (
        {split: np.array([getattr(one[place], kind) for one in found.values()]) for place, split in enumerate(SPLITS)}
        for kind in ("linear", "orthogonal")
    )
    return ShiftCurve(np.array(list(found)), linear, orthogonal, scores.shape[1], leave_out, seed)


@dataclass(frozen=True, eq=False)
class Turning:
    """How far each plane turns in a shift by ``distance``, beside what one step's turn says it should.

    ``step`` [planes] is ω_i, the angle in radians by which the best orthogonal map of a shift by 1 turns plane i;
    ``expected`` is ω_i k and ``turned`` the angle by which the best orthogonal map of a shift by k turns that plane,
    both folded to 0 … π. ``held`` says how much of the plane comes to lie in itself, 0 to 1: 1 for a rotation in it.
    ``alike`` planes turn as they should: |held · e^{i turned} − e^{i expected}| < ``ALIKE``, before folding.
    """

    distance: int
    step: NDArray[np.float64]
    expected: NDArray[np.float64]
    turned: NDArray[np.float64]
    held: NDArray[np.float64]
    alike: NDArray[np.bool_]


ALIKE = 0.25
"""How far from a full rotation by the expected angle a plane may be to be counted: 14 degrees, or a quarter lost."""


def turning(
    value: EmbeddingTable | PositionEncoding, distance: int, *, components: int = COMPONENTS, leave_out: int = 1
) -> Turning:
    """Return the angles of the best orthogonal map of a shift by ``distance`` against ω_i k, plane by plane.

    Positions that shift by a rotation, as the sinusoid does (Vaswani et al. 2017, 3.5), turn every plane by ω_i k. The
    planes are those of the shift by one: pairs of eigenvectors v of its map, and plane i turns by the angle of
    v* O_k v. Both maps are fitted on all pairs of the leading components. Raises ``InputError`` where too few pairs are
    left.
    """
    table = table_in(value)
    scores = _scores(_inner(table, leave_out), components)
    if distance < 1 or len(scores) - distance <= scores.shape[1] + 1:
        raise InputError(f"a shift by {distance} of {table.name} leaves too few pairs of rows to fit a rotation")
    one, many = (_orthogonal(scores[:-k], scores[k:]) for k in (1, distance))
    values, vectors = np.linalg.eig(one)
    plane = np.imag(values) > 1e-9  # one of each pair; what is left turns by 0 or is mirrored
    step, vectors = np.angle(values[plane]), vectors[:, plane]
    found = np.einsum("ij,ij->j", vectors.conj(), many @ vectors)
    wanted = np.exp(1j * step * distance)
    order = np.argsort(-step)
    return Turning(
        distance,
        step[order],
        np.abs(np.angle(wanted))[order],
        np.abs(np.angle(found))[order],
        np.abs(found)[order],
        (np.abs(found - wanted) < ALIKE)[order],
    )


def closed_form(
    rows: int, width: int, *, distances: Sequence[int] | NDArray[np.int64], base: float = 10000.0
) -> NDArray[np.float64]:
    """Return R² of the sinusoid's own rotation for each distance: 1, but for rounding (Vaswani et al. 2017, 3.5)."""
    inv_freq = base ** (-np.arange(0, width - 1, 2) / width)
    angles = np.arange(rows)[:, None] * inv_freq
    table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(rows, -1)
    return np.array(
        [
            _explained(table[k:], table[:-k] @ rotation(inv_freq, int(k)), table[k:].mean(axis=0))
            for k in map(int, distances)
        ]
    )


def leading(rows: Rows, components: int) -> Rows:
    """Return the coordinates of rows [n, components] on their leading principal components."""
    import scipy.linalg

    # Eigenvectors of the smaller of both products: many times faster than an SVD, and exact for leading components.
    centred = rows - rows.mean(axis=0)
    dual = len(centred) < centred.shape[1]
    product = centred @ centred.T if dual else centred.T @ centred
    count = min(components, len(product))
    values, vectors = scipy.linalg.eigh(product, subset_by_index=(len(product) - count, len(product) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) if dual else centred @ vectors)


def _scores(rows: Rows, components: int) -> Rows:
    """Return those of the leading components that are not empty. Raises ``InputError`` where all are."""
    return _held(leading(rows, components))


def _held(found: Rows) -> Rows:
    lengths = np.linalg.norm(found, axis=0)
    if not lengths[0] > 0:
        raise InputError("all rows are the same: there is no direction in which they shift")
    # Squared, as the eigenvalues are, rounding is 1e-15 of the largest.
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
