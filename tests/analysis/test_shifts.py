"""Shifts by every distance: closed forms, surrogates and noise, and the planes that a shift turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.analysis.positions.shift_curves import (
    SPLITS,
    plane_rotation,
    shift_by_distance,
    shift_distances,
    shift_null,
    sinusoid_shift_accuracy,
)
from hfposemb.analysis.positions.shift_operator import fit_shift
from hfposemb.reports.position_findings import turns_of
from hfposemb.tables.encodings import Absolute
from tests.calibration.helices import wound
from tests.support.made_tables import table


def positions(rows: np.ndarray) -> Absolute:
    return Absolute(table(rows))


def spiral(rows: int, *speeds: float) -> np.ndarray:
    """Circles at several speeds, each half as large as the one before, in planes of their own."""
    t = np.arange(rows)[:, None]
    parts = [2.0**-i * np.concatenate([np.cos(w * t), np.sin(w * t)], axis=1) for i, w in enumerate(speeds)]
    return np.concatenate(parts, axis=1)


@given(st.integers(20, 300), st.integers(2, 40))
@settings(max_examples=20, deadline=None)
def test_the_rotation_of_the_sinusoid_is_exact(rows: int, width: int) -> None:
    assert sinusoid_shift_accuracy(rows, width, distances=shift_distances(rows)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("rows", "last"), [(4, 1), (15, 2), (16, 4), (255, 32), (256, 64), (1024, 256)])
def test_distances_double_up_to_a_quarter(rows: int, last: int) -> None:
    found = shift_distances(rows)
    assert found == tuple(2**power for power in range(len(found)))
    assert found[-1] == last


def test_the_curve_is_made_of_single_shifts() -> None:
    table = hpe.extract("sinusoidal:200x32").position
    curve = shift_by_distance(table, leave_out=0)
    assert curve.distances.tolist() == [1, 2, 4, 8, 16, 32]
    for split in SPLITS:
        single = [fit_shift(table, int(k), split=split) for k in curve.distances]
        assert curve.linear[split].tolist() == [one.linear for one in single]
        assert curve.orthogonal[split].tolist() == [one.orthogonal for one in single]
    inner = shift_by_distance(positions(table.matrix(200)[1:-1, :32]), distances=[4], leave_out=0)
    trimmed = shift_by_distance(positions(table.matrix(200)[:, :32]), distances=[4])
    assert (trimmed.leave_out, trimmed.linear["random"]) == (1, inner.linear["random"])


def test_noise_is_not_shifted_and_rotations_are() -> None:
    noise = shift_by_distance(hpe.extract("random:256x64").position)
    turned = shift_by_distance(positions(spiral(256, 0.5, 0.3, 0.11)))
    for split in SPLITS:
        assert (noise.linear[split] < 0.1).all()
        assert (noise.orthogonal[split] < noise.linear[split]).all()
        assert turned.linear[split] == pytest.approx(1, abs=0.01)
        assert turned.orthogonal[split] == pytest.approx(1, abs=0.02)


def test_surrogates_are_as_smooth_and_no_better() -> None:
    """The curve of a table whose columns are independent lies among those of its surrogates."""
    rng = np.random.default_rng(4)
    walks = np.fft.irfft(
        np.fft.rfft(rng.normal(size=(256, 40)), axis=0) / (1 + np.arange(129)[:, None]) ** 1.5, 256, axis=0
    )
    low, high = shift_null(positions(walks), draws=12, components=8)
    found = shift_by_distance(positions(walks), components=8)
    assert low.distances.tolist() == found.distances.tolist()
    for split in SPLITS:
        assert (low.linear[split] <= high.linear[split]).all()
    assert low.linear["random"][0] - 0.02 < found.linear["random"][0] < high.linear["random"][0] + 0.02
    again = shift_null(positions(walks), draws=12, components=8)[0]
    assert again.linear["random"].tolist() == low.linear["random"].tolist()


@pytest.mark.parametrize("distance", [1, 3, 16])
def test_planes_turn_by_their_step_times_the_distance(distance: int) -> None:
    found = plane_rotation(positions(spiral(400, 1.9, 0.7, 0.2)), distance)
    assert found.step == pytest.approx([1.9, 0.7, 0.2], abs=0.01)
    assert found.expected == pytest.approx(np.abs(np.angle(np.exp(1j * found.step * distance))))
    assert found.turned == pytest.approx(found.expected, abs=0.02)
    assert found.held == pytest.approx(1, abs=0.01)
    assert found.alike.all()


def test_planes_of_noise_do_not() -> None:
    found = plane_rotation(hpe.extract("random:300x64").position, 4)
    assert found.alike.sum() <= 1
    assert found.held.max() < 0.9
    assert plane_rotation(hpe.extract("sinusoidal:256x64").position, 4).alike.all()


def test_missing_rows_are_no_shorter_way() -> None:
    """Rows with NaN leave a gap: those around it stay two positions apart."""
    rows = spiral(300, 0.5, 0.3)
    rows[100] = np.nan
    assert plane_rotation(positions(rows), 5).turned == pytest.approx([2.5, 1.5], abs=0.01)
    assert shift_by_distance(positions(rows)).linear["random"] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("rows", [1, 4, 12])
def test_too_few_rows_say_so(rows: int) -> None:
    table = positions(np.random.default_rng(0).normal(size=(rows, 30)))
    for what in (shift_by_distance, shift_null):
        with pytest.raises(hpe.HfposembError, match="shift"):
            what(table)  # type: ignore[operator]
    with pytest.raises(hpe.HfposembError, match="shift"):
        plane_rotation(table, 1)


@pytest.mark.parametrize("turns", [2, 3.7, 40])
def test_turns_of_a_helix_are_counted(turns: float) -> None:
    """With noise on it, a drift along it, and a longer first row."""
    t, rng = np.linspace(0, 1, 400), np.random.default_rng(0)
    angles = 2 * np.pi * turns * t
    rows = np.stack([np.cos(angles), np.sin(angles), 0.5 * t], axis=1) @ rng.standard_normal((3, 24))
    rows += 0.02 * rng.standard_normal(rows.shape)
    rows[0] *= 5
    found = hpe.helix(positions(rows))
    assert found.turns == pytest.approx(turns, rel=0.03)
    assert found.period == pytest.approx(400 / turns, rel=0.03)
    assert found.winds


def test_a_helix_of_more_than_half_a_turn_is_told_with_its_alias() -> None:
    found = hpe.helix(positions(wound(256, 64, np.random.default_rng(3), turns=0.7 * 256, noise=0.3)))
    assert found.winds
    assert found.turns == pytest.approx(0.3 * 253, rel=0.02)
    assert found.alias == pytest.approx(0.7 * 253, rel=0.02)
    assert turns_of(found) == "76 turns, one per 3.3 positions"
