"""Comparisons of whole tables: what leaves them unchanged, what chance gives, and reference values."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis.nulls.local_variogram import Residuals
from hfposemb.analysis.nulls.surrogates import SignFlips, finite_rows, uncorrelated_curves
from hfposemb.comparison.alignment import (
    MEASURES,
    Alignment,
    TablePair,
    align,
    beside_permutations,
    cka,
    neighbour_overlap,
    procrustes,
    rsa,
)
from hfposemb.comparison.table_side import TableSide
from hfposemb.tables.null_comparison import Null, Side, beside
from hfposemb.text import number
from tests.support.made_tables import noise

Rows = NDArray[np.float64]


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


def test_cka_is_also_given_without_the_components_that_decide_it() -> None:
    shared = 9 * noise(300, 3)
    first, second = (
        hpe.from_arrays(position=turned(np.hstack([shared, noise(300, 21, seed)]), seed)) for seed in (1, 2)
    )
    found = align(first, second, "position", draws=0)
    assert found.observed["CKA"] > 0.9
    assert found.without_leading == pytest.approx(0, abs=0.05)
    assert f"CKA without the 3 leading components of either table is {number(found.without_leading)}" in found.notes
    assert align(first, first, "position", draws=0).without_leading == pytest.approx(1)
    flat = hpe.from_arrays(position=noise(40, 3) @ noise(3, 8, 1))
    assert align(flat, flat, "position", draws=0).without_leading is None


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


def permuted(name: str, x: Rows, y: Rows, *, draws: int, seed: int = 0) -> Null:
    """Return one measure beside its permutations."""
    pair = TablePair(TableSide(x), TableSide(y))
    return beside_permutations(pair, {name: MEASURES[name](x, y)}, draws=draws, seed=seed)[name]


def smooth(rows: int, width: int, seed: int) -> Rows:
    """Return columns drawn from a stationary Gaussian process."""
    t = np.arange(2 * rows)
    wave = np.exp(-(np.minimum(t, 2 * rows - t) ** 2) / 32.0)
    power = np.sqrt(np.maximum(np.fft.rfft(wave).real, 0))[:, None]
    drawn = np.fft.irfft(np.fft.rfft(noise(2 * rows, width, seed), axis=0) * power, 2 * rows, axis=0)
    return np.asarray(drawn[:rows])


def walk(rows: int, width: int, seed: int) -> Rows:
    return np.cumsum(noise(rows, width, seed), axis=0)


@pytest.mark.parametrize("make", [noise, smooth, walk])
def test_coefficients_of_the_curves_are_uncorrelated(make: Callable[[int, int, int], Rows]) -> None:
    """The average product of two coefficients over many columns is 0, for a stationary process and for a walk."""
    basis = uncorrelated_curves(make(24, 20_000, 1))
    assert basis.T @ basis == pytest.approx(np.eye(24), abs=1e-9)
    found = make(24, 20_000, 2)
    coefficients = basis.T @ (found - found.mean(axis=0))
    covariance = coefficients @ coefficients.T / 20_000
    sizes = np.sqrt(np.diag(covariance))
    large = sizes > 1e-2 * sizes.max()
    correlation = (covariance / np.maximum(sizes[:, None] * sizes, 1e-30))[np.ix_(large, large)]
    assert np.abs(correlation - np.eye(large.sum())).max() < 0.15


def test_surrogates_keep_the_mean_the_energy_and_the_smoothness() -> None:
    x = smooth(64, 12, 1) + 3
    flips = SignFlips(x)
    for drawn in flips.draw(draws=3, seed=5):
        assert drawn.mean(axis=0) == pytest.approx(x.mean(axis=0), abs=1e-5)
        assert np.linalg.norm(drawn) == pytest.approx(np.linalg.norm(x), rel=1e-5)
        steps = [np.square(np.diff(rows, axis=0)).sum() for rows in (drawn, x)]
        assert steps[0] == pytest.approx(steps[1], rel=0.25)
        assert np.abs(drawn - x).max() > 0.5
    again = [next(SignFlips(x).draw(seed=seed)) for seed in (5, 5, 6)]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


@pytest.mark.parametrize("profile", [np.ones(96), np.linspace(0.2, 1, 96)], ids=["even", "growing"])
@pytest.mark.parametrize("make", [noise, smooth])
def test_smooth_tables_alike_are_found_and_independent_ones_are_not(
    make: Callable[[int, int, int], Rows], profile: Rows
) -> None:
    x, y = (profile[:, None] * make(96, 24, seed) for seed in (1, 3))
    related = turned(x, 3) + 0.5 * y

    def test(other: Rows) -> Alignment:
        return align(*(hpe.from_arrays(position=rows) for rows in (x, other)), "position", draws=39)

    assert all(null.p > 0.05 for null in test(y).measures.values())
    assert all(null.p <= 0.05 for null in test(related).measures.values())
    assert set(test(related).measures) == {"CKA", "RSA, centred"}


def test_order_does_not_matter() -> None:
    x, y = (hpe.from_arrays(position=smooth(96, 24, seed)) for seed in (1, 3))
    one, other = (align(*pair, "position", draws=39).measures["CKA"] for pair in ((x, y), (y, x)))
    assert (one.p, one.low) == (other.p, pytest.approx(other.low, abs=1e-6))


def test_tables_alike_in_profile_are_said_to_be() -> None:
    profile = np.geomspace(0.1, 1, 96)[:, None]
    x, y = (hpe.from_arrays(position=profile * smooth(96, 24, seed)) for seed in (1, 2))
    found = align(x, y, "position", draws=39)
    assert found.alike_in_profile["distance from the middle"] > 0.9
    assert any(one.startswith("alike in profile, which says nothing of the vectors: ") for one in found.remarks)
    (power,) = align(*(hpe.from_arrays(position=noise(96, 24, seed)) for seed in (1, 2)), "position").remarks
    assert power.startswith("this test alone finds a rotated copy that makes up ")


@pytest.mark.parametrize(
    ("why", "rows"),
    {
        r"each table is too smooth for its length \(1.8 independent rows; 3.5 are needed\)": (
            np.linspace(-1, 1, 64)[:, None] * noise(1, 16) + 0.01 * noise(64, 16, 1)
        ),
        "varies in too few directions": smooth(128, 5, 1),
        "changes its smoothness abruptly": np.repeat(noise(16, 32, 1), 16, axis=0) + 0.3 * noise(256, 32, 5),
        "changes its distance from the middle too often": noise(128, 32)
        * (1 + 0.9 * np.sin(np.linspace(0, 6 * np.pi, 128)))[:, None],
        "follows a formula to the last digit": np.stack(
            [np.cos(np.arange(64) * np.pi * k / 32 + turn) for k in range(1, 32) for turn in (0, np.pi / 2)], axis=1
        ),
        "each table follows a formula": np.asarray(hpe.sinusoidal(128, 64).position.table.vectors, np.float64),
        "all rows of a table are equal": np.ones((64, 8)),
    }.items(),
)
def test_where_chance_cannot_be_told_the_reason_is_said(why: str, rows: Rows) -> None:
    """Neither a p nor a verdict, even of a table and its own copy."""
    found = align(*(hpe.from_arrays(position=rows, name=name) for name in "ab"), "position", draws=19)
    assert not found.measures
    assert re.search(why, found.untested)
    assert found.remarks[0] == f"not compared with chance: {found.untested}"
    assert set(found.columns()["untested"]) <= {found.untested}


def test_gaps_between_positions_are_no_steps() -> None:
    """Rows left out leave the others where they are: a residual is that of the whole table."""
    rows = smooth(96, 24, 1)
    there = np.setdiff1d(np.arange(96), [20, 21, 50])
    whole, gaps = Residuals(rows, np.arange(96), seed=0), Residuals(rows[there], there, seed=0)
    known = gaps.residual != 0
    assert np.corrcoef(whole.residual[known], gaps.residual[known])[0, 1] > 0.98
    assert gaps.effective == pytest.approx(whole.effective, rel=0.05)
    assert max(gaps.misfit) < 4


@pytest.mark.parametrize("side", ["greater", "less", "both"])
@given(st.lists(st.integers(0, 30), min_size=39, max_size=200), st.integers(-3, 33))
@settings(max_examples=50, deadline=None)
def test_interval_and_p_never_contradict(side: Side, drawn: list[int], value: int) -> None:
    found = beside(float(value), np.array(drawn, np.float64), seed=0, kind="permutation", side=side)
    outside = {"greater": value > found.high, "less": value < found.low}
    assert found.beyond == outside.get(side, any(outside.values()))
    assert found.low <= found.high


def test_positions_of_outlying_norm_are_left_out_of_the_test() -> None:
    x, y = smooth(96, 16, 1), smooth(96, 16, 2)
    x[0] *= 30
    y[0] *= 30
    found = align(*(hpe.from_arrays(position=rows) for rows in (x, y)), "position", draws=39)
    null = found.measures["CKA"]
    assert found.observed["CKA"] == pytest.approx(cka(x, y), abs=1e-5)
    assert null.observed == pytest.approx(cka(x[1:], y[1:]), abs=1e-5)
    assert "chance levels leave out positions of outlying norm: 0 (1)" in found.notes
    assert set(found.measures) == {"CKA", "RSA, centred"}


def test_minilm_is_no_nearer_to_the_sinusoid_than_chance(minilm_folder: Path) -> None:
    """METRICS: CKA .451; the measured value lies below all surrogates."""
    minilm, sines = hpe.extract(minilm_folder), hpe.sinusoidal(512, 384)
    assert cka(finite_rows(minilm.position), finite_rows(sines.position)) == pytest.approx(0.451, abs=0.0005)
    found = align(minilm, sines, "position", draws=39)
    assert found.observed["CKA"] == pytest.approx(0.451, abs=0.0005)
    null = found.measures["CKA"]
    assert not null.beyond
    assert null.kind == "local variogram"
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


def test_numbers_of_rows_are_no_tokens() -> None:
    """A table without a tokenizer shares nothing with the tokens that are numbers; with its like, rows of a number."""
    numbered, minilm = hpe.from_arrays(token=noise(2_000, 384)), hpe.extract("sample:minilm")
    for left, right in ((numbered, minilm), (minilm, numbered)):
        with pytest.raises(hpe.HfposembError, match="tokens has no tokens, only numbers of rows"):
            align(left, right, "token", draws=0)
    found = align(numbered, hpe.from_arrays(token=noise(1_000, 8)), "token", draws=0)
    assert found.shared == 1_000
    assert "rows of one number are compared as if they were one token" in found.notes[0]


@pytest.mark.parametrize("name", MEASURES)
def test_permutations_are_those_of_the_rows(name: str) -> None:
    x, y = noise(60, 8), noise(60, 5, 1)
    found = permuted(name, x, y, draws=12, seed=4)
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
