"""Shift of the position by each distance, compared with surrogates, and the rotation angle of each plane of the table.

Vaswani et al. (2017, 3.5) chose sines and cosines because a shift is then a rotation. This module tests whether learned
tables obey the same law, using the fit that ``shift`` makes for a single distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, require
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Tabular
from ..nulls.surrogates import Rows, SignFlips, finite_rows
from .shift_operator import COMPONENTS, Shift, Split, fit_shift_of_scores, pca_scores, rotation

SURROGATES = 20
"""Number of surrogates whose shifts are fitted too; their lowest and highest R² form the band."""

ALIKE = 0.25
"""Maximum deviation of a plane from a full rotation by the expected angle: 14 degrees, or a quarter lost."""

SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, eq=False)
class ShiftCurve(Tabular):
    """Held-out R² of the shift by each distance, for both maps and both splits; see ``Shift``.

    Attributes:
        distances: Distances [m].
        linear: R² of the linear map by split, "random" or "contiguous" [m].
        orthogonal: R² of the orthogonal map by split [m].
        components: Number of leading components fitted on.
        leave_out: Number of rows left out at either end.
        seed: Random seed of the splits.
    """

    distances: NDArray[np.int64]
    linear: Mapping[Split, NDArray[np.float64]]
    orthogonal: Mapping[Split, NDArray[np.float64]]
    components: int
    leave_out: int
    seed: int

    def columns(self) -> Columns:
        """Return one row per distance: ``distance``, and R² of each map and split, such as ``linear, random``."""
        maps = {"linear": self.linear, "orthogonal": self.orthogonal}
        found: Columns = {"distance": self.distances}
        return found | {f"{name}, {split}": values[split] for name, values in maps.items() for split in values}


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
    """Return how well a shift by each distance is approximated by a linear map and by a rotation, on held-out rows.

    Args:
        value: Table or position encoding [n, d].
        distances: Distances in positions; by default 1, 2, 4, … up to a quarter of the rows, as long as enough pairs
            remain to fit a map.
        components: Number of leading components to fit on.
        leave_out: Number of rows to leave out at either end; these often differ and would dominate R² if held out.
        seed: Random seed of the splits.

    Raises:
        InputError: If no distance can be fitted.
    """
    table = _inner(value, leave_out)
    return _curve(pca_scores(table, components), distances, (leave_out, seed), table.name)


def shift_null(
    value: EmbeddingTable | PositionEncoding,
    *,
    distances: Sequence[int] | None = None,
    components: int = COMPONENTS,
    leave_out: int = 1,
    draws: int = SURROGATES,
    seed: int = 0,
) -> tuple[ShiftCurve, ShiftCurve]:
    """Return the lowest and the highest R² among a table's surrogates, measured as by ``shift_by_distance``.

    Surrogates are as smooth as the table (``SignFlips``), so a fit that reflects only smoothness does no better than
    theirs. Their leading components are found by random projection (Halko, Martinsson & Tropp 2011), accurate to 1e-3
    in R².

    Args:
        value: Table or position encoding [n, d].
        distances: Distances in positions; by default as in ``shift_by_distance``.
        components: Number of leading components to fit on.
        leave_out: Number of rows to leave out at either end.
        draws: Number of surrogates.
        seed: Random seed of the surrogates and splits.

    Raises:
        MissingExtraError: If scikit-learn is not installed.
    """
    require("sklearn", package="scikit-learn", extra="probes", purpose="shift_null()")
    from sklearn.utils.extmath import randomized_svd

    table = _inner(value, leave_out)
    drawn = []
    for rows in SignFlips(finite_rows(table)).draw(draws=draws, seed=seed):
        u, s, _ = randomized_svd(rows - rows.mean(axis=0), min(components, *rows.shape), n_iter=2, random_state=seed)
        real = s > s[0] * 1e-6
        drawn.append(_curve(u[:, real] * s[real], distances, (leave_out, seed), table.name))

    def edge(take: Callable[..., Rows]) -> ShiftCurve:
        linear, orthogonal = (
            {split: take([getattr(one, name)[split] for one in drawn], axis=0) for split in SPLITS}
            for name in ("linear", "orthogonal")
        )
        return replace(drawn[0], linear=linear, orthogonal=orthogonal)

    return edge(np.min), edge(np.max)


def _inner(value: EmbeddingTable | PositionEncoding, leave_out: int) -> EmbeddingTable:
    """Return a table without ``leave_out`` rows at either end. Raises ``InputError`` if fewer than 3 rows remain."""
    table = table_in(value)
    last = table.shape[0] - leave_out
    if last - leave_out < 3:
        raise InputError(f"{table.name} has {max(0, last - leave_out)} inner rows, which are too few to fit a shift")
    return table.part(leave_out, last)


def _curve(scores: Rows, distances: Sequence[int] | None, how: tuple[int, int], name: str) -> ShiftCurve:
    leave_out, seed = how
    found: dict[int, tuple[Shift, ...]] = {}
    for distance in shift_distances(len(scores)) if distances is None else several(distances):
        try:
            found[distance] = tuple(fit_shift_of_scores(scores, distance, split=split, seed=seed) for split in SPLITS)
        except InputError:
            if not found or distances is not None:
                raise
            break
    if not found:
        raise InputError(f"{name} has {len(scores)} inner rows, which are too few to fit a shift")
    linear, orthogonal = (
        {split: np.array([getattr(one[place], kind) for one in found.values()]) for place, split in enumerate(SPLITS)}
        for kind in ("linear", "orthogonal")
    )
    return ShiftCurve(np.array(list(found)), linear, orthogonal, scores.shape[1], leave_out, seed)


@dataclass(frozen=True, eq=False)
class PlaneRotation(Tabular):
    """Rotation of each plane in a shift by ``distance``, compared with the rotation expected from a single step.

    Attributes:
        distance: Distance k of the shift, in positions.
        step: ω_i, the angle in radians by which the best orthogonal map of a shift by 1 rotates plane i [planes].
        expected: ω_i k, folded to 0 … π [planes].
        turned: Angle by which the best orthogonal map of a shift by k rotates the plane, folded to 0 … π [planes].
        held: How much of the plane is mapped onto itself, 0 to 1; 1 for a rotation within it [planes].
        alike: Whether the plane rotates as expected: |held · e^{i turned} − e^{i expected}| < ``ALIKE``, before folding
            [planes].
    """

    distance: int
    step: NDArray[np.float64]
    expected: NDArray[np.float64]
    turned: NDArray[np.float64]
    held: NDArray[np.float64]
    alike: NDArray[np.bool_]

    def columns(self) -> Columns:
        """Return one row per plane: ``step``, ``expected`` and ``turned`` in radians, ``held`` and ``alike``."""
        return {name: getattr(self, name) for name in ("step", "expected", "turned", "held", "alike")}


def plane_rotation(
    value: EmbeddingTable | PositionEncoding, distance: int, *, components: int = COMPONENTS, leave_out: int = 1
) -> PlaneRotation:
    """Return the rotation angles of the best orthogonal map of a shift by ``distance``, compared with ω_i k per plane.

    If a shift of the position is a rotation, as for the sinusoid (Vaswani et al. 2017, 3.5), every plane rotates by ω_i
    k. The planes are those of the shift by one, spanned by pairs of eigenvectors v of its map O_1; the rotation of a
    plane by O_k is the angle of v* O_k v. Both maps are fitted on all pairs of the leading components.

    Args:
        value: Table or position encoding [n, d].
        distance: Distance k of the shift, in positions.
        components: Number of leading components to fit on.
        leave_out: Number of rows to leave out at either end.

    Raises:
        InputError: If ``distance`` < 1, or too few pairs of rows are left.
    """
    if distance < 1:
        raise InputError(f"distance must be at least 1; got {distance}")
    table = _inner(value, leave_out)
    places = pca_scores(table, components)
    one, many = (_orthogonal(places, k, table.name) for k in (1, distance))
    values, vectors = np.linalg.eig(one)
    plane = np.imag(values) > 1e-9  # one of each conjugate pair; real eigenvalues are fixed or mirrored directions
    step, vectors = np.angle(values[plane]), vectors[:, plane]
    found = np.einsum("ij,ij->j", vectors.conj(), many @ vectors)
    wanted = np.exp(1j * step * distance)
    order = np.argsort(-step)
    return PlaneRotation(
        distance,
        step[order],
        np.abs(np.angle(wanted))[order],
        np.abs(np.angle(found))[order],
        np.abs(found)[order],
        (np.abs(found - wanted) < ALIKE)[order],
    )


def _orthogonal(places: Rows, distance: int, name: str) -> Rows:
    """Return the orthogonal map that best takes rows [n, d] to those ``distance`` later (Schönemann 1966)."""
    x, y = places[:-distance], places[distance:]
    both = np.isfinite(x[:, 0]) & np.isfinite(y[:, 0])
    if both.sum() <= places.shape[1] + 1:
        raise InputError(
            f"a shift by {distance} of {name} leaves {int(both.sum())} pairs of rows, too few to fit a rotation"
        )
    u, _, vt = np.linalg.svd(x[both].T @ y[both])
    return np.asarray(u @ vt)


def sinusoid_shift_accuracy(
    rows: int, width: int, *, distances: Sequence[int] | NDArray[np.int64], base: float = 10000.0
) -> NDArray[np.float64]:
    """Return the R² of the sinusoid's own rotation for each distance: 1 up to rounding (Vaswani et al. 2017, 3.5).

    Args:
        rows: Number of positions.
        width: Number of columns.
        distances: Distances in positions [m].
        base: Base of the frequencies.
    """
    inv_freq = base ** (-np.arange(0, width - 1, 2) / width)
    angles = np.arange(rows)[:, None] * inv_freq
    table = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(rows, -1)
    centred = table - table.mean(axis=0)

    def explained(distance: int) -> float:
        missed = table[distance:] - table[:-distance] @ rotation(inv_freq, distance)
        return 1.0 - float((missed**2).sum() / (centred[distance:] ** 2).sum())

    return np.array([explained(int(distance)) for distance in distances])
