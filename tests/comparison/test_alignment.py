"""Comparisons of whole tables: what leaves them unchanged, what chance gives, and reference values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.surrogates import drifts, finite_rows, impostor
from hfposemb.comparison.alignment import MEASURES, align, beside_surrogates, cka, neighbour_overlap, procrustes, rsa
from hfposemb.tables.null_comparison import Kind, Null
from tests.conftest import FULL

Rows = NDArray[np.float64]


def noise(rows: int, width: int, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).standard_normal((rows, width))


def turned(rows: Rows, seed: int) -> Rows:
    """Return rows after a random rotation, scaled and moved."""
    q = np.linalg.qr(noise(rows.shape[1], rows.shape[1], seed))[0]
    return 3.7 * rows @ q


@settings(max_examples=25, deadline=None)
@given(st.integers(24, 60), st.integers(2, 40), st.integers(2, 40), st.integers(0, 10**6))
def test_rotation_and_scale_change_nothing(rows: int, width: int, other: int, seed: int) -> None:
    x, y = noise(rows, width, seed), noise(rows, other, seed + 1)
    for name, measure in MEASURES.items():
        try:
            value = measure(x, y)
        except hpe.HfposembError:
            continue  # CKA of few rows of noise can be undefined
        assert measure(turned(x, 1), turned(y, 2)) == pytest.approx(value, abs=1e-9), name
        assert measure(y, x) == pytest.approx(value, abs=1e-9), name


@given(st.integers(8, 40), st.integers(2, 12), st.integers(0, 10**6))
def test_a_table_is_like_itself_turned(rows: int, width: int, seed: int) -> None:
    x = noise(rows, width, seed)
    assert cka(x, turned(x, 3)) == pytest.approx(1.0)
    assert procrustes(x, turned(x, 3)) == pytest.approx(0.0, abs=1e-9)
    assert rsa(x, turned(x, 3)) == pytest.approx(1.0)
    assert neighbour_overlap(x, turned(x, 3), k=3) == pytest.approx(1.0, abs=0.1)


def test_centred_rsa_forgets_what_all_rows_share() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 8))
    other = rows[:, :5] + rng.normal(size=(60, 5))
    moved = rows + 30 * rng.normal(size=8)
    assert rsa(moved, other, centred=True) == pytest.approx(rsa(rows, other, centred=True), abs=1e-9)
    assert rsa(moved, other) < rsa(rows, other) - 0.1
    assert rsa(rows - rows.mean(axis=0), other - other.mean(axis=0)) == pytest.approx(rsa(rows, other, centred=True))


@pytest.mark.parametrize(("rows", "left", "right"), [(400, 8, 8), (448, 384, 768), (500, 40, 1500), (2000, 64, 64)])
def test_unbiased_cka_of_noise_is_nothing(rows: int, left: int, right: int) -> None:
    found = [cka(noise(rows, left, seed), noise(rows, right, seed + 100)) for seed in range(5)]
    assert np.abs(found).max() < 0.03


def test_cka_is_that_of_the_kernels() -> None:
    """HSIC₁ by the formula of the paper, on matrices of all pairs."""
    x, y = noise(30, 5), noise(30, 9, 1)
    n = len(x)

    def hsic(a: Rows, b: Rows) -> float:
        k, m = a @ a.T, b @ b.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        one = np.ones(n)
        return float(
            (
                np.trace(k @ m)
                + one @ k @ one * (one @ m @ one) / ((n - 1) * (n - 2))
                - 2 / (n - 2) * (one @ k @ m @ one)
            )
            / (n * (n - 3))
        )

    # The kernels of centred rows have another diagonal, and the same HSIC.
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    assert cka(x + 5, y - 3) == pytest.approx(hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y)))


def surrogates(name: str, x: Rows, y: Rows, kind: Kind, *, draws: int, seed: int = 0) -> Null:
    """Return one measure beside its surrogates."""
    return beside_surrogates(x, y, {name: MEASURES[name](x, y)}, kind=kind, draws=draws, seed=seed)[name]


def smooth(rows: int, width: int, seed: int) -> Rows:
    """Return columns drawn from a stationary Gaussian process."""
    t = np.arange(2 * rows)
    wave = np.exp(-(np.minimum(t, 2 * rows - t) ** 2) / 32.0)
    power = np.sqrt(np.maximum(np.fft.rfft(wave).real, 0))[:, None]
    drawn = np.fft.irfft(np.fft.rfft(noise(2 * rows, width, seed), axis=0) * power, 2 * rows, axis=0)
    return np.asarray(drawn[:rows])


def test_independent_smooth_tables_are_called_significant_as_often_as_stated() -> None:
    cases, significant = 500 if FULL else 250, 0
    for seed in range(cases):
        x, y = smooth(64, 6, 2 * seed), smooth(64, 6, 2 * seed + 10**6)
        significant += surrogates("CKA", x, y, "impostor", draws=19, seed=seed).p <= 0.05
    assert 0.03 <= significant / cases <= 0.07


def test_tables_that_drift_are_called_significant_and_noted() -> None:
    """Of 500 pairs of random walks 94 % are, as ``align`` says."""
    small = drifting = calm = 0
    for seed in range(20):
        x, y = (np.cumsum(noise(64, 16, number), axis=0) for number in (2 * seed, 2 * seed + 10**6))
        small += surrogates("CKA", x, y, "impostor", draws=39, seed=seed).p <= 0.05
        drifting += drifts(x)
        calm += not drifts(smooth(64, 16, seed))
    assert min(small, drifting, calm) >= 16
    walks = [hpe.from_arrays(position=np.cumsum(noise(64, 16, seed), axis=0), name=f"walk {seed}") for seed in (0, 1)]
    assert any("walk 1 drifts from start to end" in note for note in align(*walks, "position", draws=2).notes)


def test_impostors_keep_the_spectrum_of_every_column() -> None:
    for rows in (33, 64):
        x = smooth(rows, 4, 1)
        other = impostor(x, np.random.default_rng(0))
        assert np.allclose(np.abs(np.fft.rfft(other, axis=0)), np.abs(np.fft.rfft(x, axis=0)))
        assert np.allclose(other.mean(axis=0), x.mean(axis=0))
        assert np.abs(other - x).max() > 0.1


def test_minilm_is_no_nearer_to_the_sinusoid_than_an_impostor(minilm_folder: Path) -> None:
    """METRICS: .451, impostor [.435, .453]."""
    minilm, sines = hpe.extract(minilm_folder), hpe.sinusoidal(512, 384)
    x, y = finite_rows(minilm.position), finite_rows(sines.position)
    null = surrogates("CKA", x, y, "impostor", draws=60)
    assert null.observed == pytest.approx(0.451, abs=0.0005)
    assert (null.low, null.high) == (pytest.approx(0.435, abs=0.008), pytest.approx(0.453, abs=0.008))
    assert not null.beyond
    found = align(minilm, sines, "position", draws=2)
    assert found.measures["CKA"].observed == pytest.approx(null.observed)
    assert found.measures["CKA"].kind == "impostor"
    assert found.rows == 512


def test_vocabularies_are_matched_by_text(minilm_folder: Path) -> None:
    minilm, bert = hpe.extract(minilm_folder), hpe.extract("sample:bert")
    found = align(minilm, bert, "token", draws=20, sample=300, seed=3)
    assert found.rows == 300
    assert found.shared > 1000
    assert 0 < found.coverage <= 1
    assert "sampled with seed 3" in found.notes[0]
    assert found.measures["shared neighbours"].observed > 3 * found.measures["shared neighbours"].high / 2
    assert found.measures["CKA"].beyond
    again = align(minilm, bert, "token", draws=20, sample=300, seed=3)
    assert again == found
    same = align(minilm, minilm, "token", draws=5, sample=200)
    assert same.measures["CKA"].observed == pytest.approx(1.0)
    assert same.coverage > 0.9


@pytest.mark.parametrize("name", MEASURES)
def test_permutations_are_those_of_the_rows(name: str) -> None:
    x, y = noise(60, 8), noise(60, 5, 1)
    found = surrogates(name, x, y, "permutation", draws=12, seed=4)
    rng = np.random.default_rng(4)
    values = [MEASURES[name](x, y[rng.permutation(60)]) for _ in range(12)]
    assert found.mean == pytest.approx(float(np.mean(values)), abs=1e-5)


@pytest.mark.parametrize("name", ["RSA", "RSA, centred"])
def test_many_rows_are_ranked_closely_enough(name: str) -> None:
    rng = np.random.default_rng(1)
    left = rng.normal(size=(1_500, 12)) + 1
    right = left @ rng.normal(size=(12, 9)) + rng.normal(size=(1_500, 9))
    tables = [hpe.from_arrays(token=rows, labels=[f"w{row}" for row in range(1_500)]) for rows in (left, right)]
    found = align(*tables, "token", draws=1).observed[name]
    assert found == pytest.approx(MEASURES[name](left, right), abs=2e-5)


def test_what_cannot_be_compared_says_so() -> None:
    few = hpe.from_arrays(token=noise(12, 4), labels=[f"w{i}" for i in range(12)], name="few")
    with pytest.raises(hpe.HfposembError, match="share 12 tokens; at least 20"):
        align(few, few, "token")
    flat = hpe.from_arrays(position=np.ones((30, 4)), name="flat")
    found = align(flat, hpe.sinusoidal(30, 8), "position", draws=3)
    assert "CKA" not in found.measures
    assert any("CKA is undefined" in note for note in found.notes)
    holes = noise(40, 4)
    holes[7] = np.nan
    holes[9] = 0
    broken = hpe.from_arrays(position=holes, name="broken")
    assert align(broken, hpe.sinusoidal(64, 8), "position", draws=3).rows == 38
    with pytest.raises(hpe.HfposembError, match="at least 4"):
        cka(noise(3, 2), noise(3, 2))
