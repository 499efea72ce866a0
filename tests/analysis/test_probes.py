"""Probes, shifts and windings: closed forms, noise, and the reference values of the real BERT-type table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hfposemb as hpe
from hfposemb.analysis.positions.probes import (
    PROBES,
    absolute_probe,
    extrapolation_probe,
    noise_like,
    position_probes,
    relative_probe,
)
from hfposemb.analysis.positions.shift_operator import fit_shift, helix, rotation
from hfposemb.tables.closed_forms import sine_rows


@given(st.integers(1, 300), st.integers(1, 24))
def test_a_shift_of_the_sinusoid_is_a_rotation(distance: int, pairs: int) -> None:
    width = 2 * pairs
    inv_freq = 10000.0 ** (-np.arange(0, width, 2) / width)
    rows = sine_rows(0, 40 + distance, width)
    turned = rows[:40] @ rotation(inv_freq, distance)
    assert np.abs(turned - rows[distance : distance + 40]).max() < 1e-6
    matrix = rotation(inv_freq, distance)
    assert np.allclose(matrix @ matrix.T, np.eye(width))
    assert np.allclose(rotation(inv_freq, -distance), matrix.T)


def test_fitted_shifts_meet_the_reference(minilm_folder: Path) -> None:
    """METRICS gives .989 / .927 / .344 and 1.000 / .998 / .988 for a split of its own: orientation."""
    minilm, sines = hpe.extract(minilm_folder).position, hpe.sinusoidal(512, 384).position
    drawn = hpe.extract("random:512x384").position
    assert [fit_shift(minilm, k).linear for k in (1, 4, 16)] == pytest.approx([0.989, 0.927, 0.4], abs=0.07)
    assert [fit_shift(sines, k).linear for k in (1, 4, 16)] == pytest.approx([1.0, 0.998, 0.988], abs=0.01)
    assert [fit_shift(drawn, k).linear for k in (1, 4, 16)] == pytest.approx([-0.03] * 3, abs=0.06)
    found = fit_shift(minilm, 1, split="contiguous", seed=5)
    assert (found.split, found.seed, found.components, len(found.angles)) == ("contiguous", 5, 16, 8)
    assert fit_shift(minilm, 1).linear == fit_shift(minilm, 1).linear


def test_the_angles_are_those_of_the_waves() -> None:
    """Two pairs of waves, each pair of its own amplitude: the best orthogonal map turns each by ω k."""
    t = np.arange(400)[:, None]
    waves = [np.concatenate([a * np.sin(w * t), a * np.cos(w * t)], axis=1) for a, w in ((3.0, 0.31), (1.0, 0.07))]
    table = hpe.from_arrays(position=np.concatenate(waves, axis=1)).position
    found = fit_shift(table, 3, components=4)
    assert found.angles == pytest.approx([0.93, 0.21], abs=0.005)
    assert found.linear == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("period", "width"), [(37.0, 16), (120.0, 64), (15.5, 8)])
def test_a_helix_is_found(period: float, width: int) -> None:
    rng = np.random.default_rng(1)
    t = np.arange(360)
    plane = rng.standard_normal((3, width))
    rows = (
        3 * np.cos(2 * np.pi * t / period)[:, None] * plane[0] + 3 * np.sin(2 * np.pi * t / period)[:, None] * plane[1]
    )
    rows += (t / 360)[:, None] * plane[2] + 0.1 * rng.standard_normal((360, width))
    found = helix(hpe.from_arrays(position=rows).position)
    assert found.period == pytest.approx(period, rel=0.05)
    assert found.turns == pytest.approx(358 / period, rel=0.05)
    assert found.components == (1, 2)
    assert found.even > 0.8
    assert found.held > 0.8
    noise = helix(hpe.extract("random:360x64").position)
    assert noise.even == pytest.approx(0.5, abs=0.1)
    assert not noise.winds


def test_components_come_from_the_fitted_rows_alone() -> None:
    """As computed by hand: with components of all rows, held-out rows would have a say in what is fitted."""
    rows = np.random.default_rng(2).normal(size=(60, 30)) + np.arange(60)[:, None] / 20
    order = np.random.default_rng(7).permutation(60)
    missed = {"fitted": 0.0, "all": 0.0}
    for test in np.array_split(np.arange(60), 5):
        fit = np.setdiff1d(np.arange(60), test)
        for name, seen in (("fitted", rows[order[fit]]), ("all", rows)):
            axes = np.linalg.svd(seen - seen.mean(axis=0), full_matrices=False)[2][:4].T
            x = np.column_stack([np.ones(60), (rows - seen.mean(axis=0)) @ axes])
            slope = np.linalg.lstsq(x[order[fit]], order[fit].astype(float), rcond=None)[0]
            missed[name] += float(np.abs(np.rint(x[order[test]] @ slope) - order[test]).sum()) / 60
    found = absolute_probe(hpe.from_arrays(position=rows).position, components=4, seeds=[7]).mean
    assert found == pytest.approx(missed["fitted"])
    assert found != pytest.approx(missed["all"])


def test_probes_meet_the_reference(minilm_folder: Path) -> None:
    """METRICS: 55.72 ± 3.40 and 14.81 ± 1.87 % for MiniLM, 0 and 6.09 ± .82 % for the sinusoid, over 10 seeds."""
    minilm, sines = hpe.extract(minilm_folder).position, hpe.sinusoidal(512, 384).position
    seeds = range(4)
    assert absolute_probe(minilm, seeds=seeds).mean == pytest.approx(55.72, abs=2 * 3.4)
    assert absolute_probe(minilm, components=32, seeds=seeds).mean == pytest.approx(15.61, abs=4)
    assert absolute_probe(sines, seeds=[0]).mean == 0
    assert absolute_probe(minilm, seeds=[0]).deviation == 0
    relative = relative_probe(minilm, seeds=seeds)
    assert relative.mean == pytest.approx(0.1481, abs=2 * 0.0187)
    assert relative.deviation > 0
    assert relative_probe(sines, seeds=seeds).mean == pytest.approx(0.0609, abs=2 * 0.0082)
    assert extrapolation_probe(sines) == pytest.approx(201, abs=1)
    assert extrapolation_probe(minilm) == pytest.approx(215, abs=1)


def test_noise_has_no_positions() -> None:
    drawn = hpe.extract("random:128x16").position
    assert absolute_probe(drawn, seeds=range(2)).mean > 20
    assert relative_probe(drawn, seeds=range(2)).mean > 0.3
    assert relative_probe(drawn, standardised=True, seeds=range(2)).mean > 0.3


def test_all_probes_are_the_single_ones_beside_noise_of_the_same_scale() -> None:
    sines = hpe.sinusoidal(1_100, 16).position
    said: list[tuple[float, str]] = []
    found = position_probes(sines, seeds=range(2), progress=lambda share, doing: said.append((share, doing)))
    assert list(found) == list(PROBES)
    first = hpe.sinusoidal(1_024, 16).position
    assert found["absolute"] == absolute_probe(first, seeds=range(2))
    assert found["relative, standardised"] == relative_probe(first, standardised=True, seeds=range(2))
    assert [share for share, _ in said] == [place / 8 for place in range(8)]
    assert said[-1][1] == "relative, standardised, seed 1"
    noise = noise_like(sines)
    assert noise.shape == (1_024, 16)
    table = first.table
    assert table is not None
    assert noise.vectors.std() == pytest.approx(table.vectors.std(axis=0).mean(), rel=0.05)
    assert position_probes(noise, seeds=[0])["absolute"].mean > 10 * found["absolute"].mean


@pytest.mark.parametrize(("rows", "message"), [(9, "needs at least 10"), (1, "needs at least 10")])
def test_too_few_rows(rows: int, message: str) -> None:
    table = hpe.from_arrays(position=np.random.default_rng(0).standard_normal((rows, 4))).position
    for probe in (absolute_probe, relative_probe, extrapolation_probe):
        with pytest.raises(hpe.HfposembError, match=message):
            probe(table)
    with pytest.raises(hpe.HfposembError, match=r"too few to fit|all rows are the same"):
        fit_shift(table, 6)
    with pytest.raises(hpe.HfposembError, match="at least 16"):
        helix(table)
    flat = hpe.from_arrays(position=np.ones((30, 4))).position
    with pytest.raises(hpe.HfposembError, match="all rows are the same"):
        fit_shift(flat, 1)
