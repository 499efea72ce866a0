"""Geometry: the reference figures, what leaves each metric unchanged, and what each says about nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis import geometry
from hfposemb.analysis.geometry import (
    anisotropy,
    difference_by_place,
    monotonicity,
    scatter,
    similarity_by_distance,
    spectrum,
    translation_invariance,
)
from hfposemb.analysis.positions.patches import grid_variance, patch_map, patch_maps
from hfposemb.analysis.rows import adjacent, breaks, deepest_fall, mean_cosine_of_runs, norms, outliers, without
from hfposemb.errors import InputError, MissingTableError
from hfposemb.models.extraction import extract
from hfposemb.tables.closed_forms import sinusoidal
from hfposemb.tables.embeddings import Embeddings, from_arrays
from hfposemb.tables.encodings import Absolute, Alibi, Grid, PositionEncoding
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.table import EmbeddingTable
from tests.support.made_tables import streamed
from tests.support.made_tables import table as _table

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def _noise(rows: int, width: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 0.02, (rows, width))


def _rotation(width: int, seed: int) -> Array:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Embeddings:
    return extract(str(minilm_folder))


@pytest.fixture(scope="module")
def tables(minilm: Embeddings) -> dict[str, EmbeddingTable]:
    learned, computed = minilm.position.table, sinusoidal(512, 384).position.table
    assert learned is not None
    assert computed is not None
    return {"minilm": learned, "sinusoid": computed, "random": _table(_noise(512, 384))}


REFERENCE = {
    "minilm": ((24.51, 34.53, 51.61), (11, 12, 77), 94.27, 11.70, 0.491, (0.851, 0.592, 0.504, 0.294, 0.432)),
    "sinusoid": ((23.18, 28.92, 36.92), (72, 84, 96), 89.5, 23.94, 1.000, (0.973, 0.904, 0.767, 0.722, 0.630)),
    "random": ((1.75, 2.61, 4.30), (222, 265, 330), 335.8, 218.6, 0.004, (0.0, 0.0, 0.0, 0.0, 0.0)),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_figures(tables: dict[str, EmbeddingTable], name: str) -> None:
    shares, counts, rank, ratio, invariance, cosines = REFERENCE[name]
    found = spectrum(tables[name])
    assert tuple(np.round(100 * found.cumulative[[1, 2, 4]], 2)) == shares
    assert tuple(found.components_for(share) for share in (0.9, 0.95, 0.99)) == counts
    assert found.effective_rank == pytest.approx(rank, abs=0.05 if rank in (89.5, 335.8) else 0.005)
    assert found.participation_ratio == pytest.approx(ratio, abs=0.05 if name == "random" else 0.005)
    assert round(translation_invariance(tables[name]), 3) == invariance
    near = similarity_by_distance(tables[name])[[1, 2, 4, 8, 16]]
    assert near == pytest.approx(cosines, abs=0.01 if name == "random" else 0.0005)


def test_reference_norms_and_isotropy(minilm: Embeddings, tables: dict[str, EmbeddingTable]) -> None:
    length, token = norms(tables["minilm"]), norms(minilm.token)
    assert np.round([length[0], length.mean(), length[-1]], 3).tolist() == [2.362, 0.474, 0.970]
    assert np.round(norms(tables["sinusoid"])[[0, 255, 511]], 3).tolist() == [13.856] * 3
    assert round(float(token.mean()), 4) == 1.0656
    assert round(float(token.mean() / length.mean()), 3) == 2.248
    assert round(anisotropy(minilm.token), 5) == 0.01806
    assert round(spectrum(minilm.token).isoscore, 3) == 0.532
    assert round(spectrum(tables["minilm"]).isoscore, 4) == 0.0279
    assert round(spectrum(tables["random"]).isoscore, 3) == 0.568
    assert outliers(tables["minilm"]).tolist() == [0, 127, 510, 511]
    assert outliers(tables["sinusoid"]).tolist() == []
    near = adjacent(tables["minilm"])
    assert np.round(near[[126, 127]], 3).tolist() == [0.439, 0.554]


def test_sinusoid_of_the_literature() -> None:
    table = sinusoidal(3, 6).position.table
    assert table is not None
    assert table.vectors[2, :2] == pytest.approx([0.909, -0.416], abs=5e-4)


METRICS: dict[str, Callable[[EmbeddingTable], object]] = {
    "ratio": lambda table: spectrum(table).ratio,
    "effective rank": lambda table: spectrum(table).effective_rank,
    "participation ratio": lambda table: spectrum(table).participation_ratio,
    "isoscore": lambda table: spectrum(table).isoscore,
    "by distance": similarity_by_distance,
    "invariance": translation_invariance,
    "invariance of products": lambda table: translation_invariance(table, on="inner product"),
    "anisotropy": anisotropy,
    "adjacent": adjacent,
    "outliers": outliers,
    "norms by their mean": lambda table: norms(table) / norms(table).mean(),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, rows=st.integers(4, 30), width=st.integers(2, 12), scale=st.floats(1e-3, 1e3))
def test_metrics_are_unchanged_by_rotation_and_scale(
    metric: Callable[[EmbeddingTable], object], seed: int, rows: int, width: int, scale: float
) -> None:
    plain = _noise(rows, width, seed) + 0.01
    turned = scale * plain @ _rotation(width, seed)
    np.testing.assert_allclose(metric(_table(turned)), metric(_table(plain)), rtol=1e-6, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(4, 200), pairs=st.integers(1, 32))
def test_the_sinusoid_is_translation_invariant(rows: int, pairs: int) -> None:
    table = sinusoidal(rows, 2 * pairs).position.table
    assert table is not None
    assert translation_invariance(table) == pytest.approx(1, abs=1e-4)
    assert translation_invariance(table, on="inner product") == pytest.approx(1, abs=1e-4)


def _brute_invariance(cosines: Array) -> float:
    rows = len(cosines)
    distance = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
    known = (distance > 0) & ~np.isnan(cosines)
    within = sum(
        float(((cosines[here] - cosines[here].mean()) ** 2).sum())
        for k in range(1, rows)
        if (here := known & (distance == k)).any()
    )
    return 1 - within / float(((cosines[known] - cosines[known].mean()) ** 2).sum())


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=st.integers(5, 30), width=st.integers(1, 8), gaps=st.integers(0, 2))
def test_likeness_by_distance_is_the_mean_of_the_diagonals(seed: int, rows: int, width: int, gaps: int) -> None:
    vectors = _noise(rows, width + 1, seed)
    random = np.random.default_rng(seed)
    vectors[random.integers(rows, size=gaps)] = np.nan
    vectors[random.integers(rows, size=gaps)] = 0
    with np.errstate(invalid="ignore"):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    diagonals = [np.diagonal(cosines, k) for k in range(rows)]
    wanted = [d[~np.isnan(d)].mean() if (~np.isnan(d)).any() else np.nan for d in diagonals]
    table = _table(vectors)
    np.testing.assert_allclose(similarity_by_distance(table), wanted, atol=1e-9)
    np.testing.assert_allclose(similarity_by_distance(table, longest=2), wanted[:3], atol=1e-9)
    np.testing.assert_allclose(adjacent(table), diagonals[1], atol=1e-9)
    if np.isfinite(diagonals[1]).sum() > 2:
        assert translation_invariance(table) == pytest.approx(_brute_invariance(cosines), abs=1e-8)


def test_isotropy_follows_from_all_pairs() -> None:
    vectors = _noise(40, 6) + 0.02
    vectors[3], vectors[7, 2] = 0, np.inf
    kept = np.delete(vectors, [3, 7], axis=0)
    unit = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert anisotropy(_table(vectors)) == pytest.approx(cosines[~np.eye(38, dtype=bool)].mean())
    found = spectrum(_table(vectors))
    values = np.linalg.svd(np.delete(vectors, 7, axis=0) - np.delete(vectors, 7, axis=0).mean(axis=0))[1]
    np.testing.assert_allclose(found.eigenvalues, values**2, rtol=1e-9)
    assert (found.rows, found.left_out) == (39, 1)


@pytest.mark.parametrize("seed", range(2))
def test_nulls(tables: dict[str, EmbeddingTable], seed: int) -> None:
    noise = _table(_noise(512, 384, seed))
    shuffled = _table(np.random.default_rng(seed).permutation(tables["sinusoid"].vectors))
    found = spectrum(noise)
    assert found.isoscore == pytest.approx(found.isoscore_of_noise, abs=0.005)
    for null in (noise, shuffled):
        assert translation_invariance(null) == pytest.approx(0, abs=0.01)
        assert translation_invariance(null, on="inner product") == pytest.approx(0, abs=0.01)
        by_distance = similarity_by_distance(null, longest=16)[1:]
        assert np.ptp(by_distance) < 0.06
    assert anisotropy(noise) == pytest.approx(0, abs=0.001)
    assert anisotropy(_table(np.array([[1.0, 0.0], [3.0, 3.0]]))) == pytest.approx(0.5**0.5)
    assert np.abs(adjacent(noise)).mean() < 0.06
    assert len(outliers(noise)) == 0


def test_one_dominant_direction_has_no_rank() -> None:
    line = _table(np.outer(np.arange(20.0), np.ones(5)))
    found = spectrum(line)
    assert found.effective_rank == pytest.approx(1)
    assert found.participation_ratio == pytest.approx(1)
    assert found.isoscore == pytest.approx(0, abs=1e-12)
    assert found.components_for(1.0) == 1
    pair = spectrum(_table(_noise(2, 5)))
    assert (pair.isoscore, pair.isoscore_of_noise) == (pytest.approx(0), 0), "two rows of anything have one direction"


@pytest.mark.parametrize(
    ("vectors", "metric", "says"),
    [
        (np.ones((1, 3)), spectrum, "at least 2"),
        (np.full((5, 3), 0.1), spectrum, "all 5 rows of made are the same"),
        (np.zeros((5, 3)), spectrum, "are the same"),
        (np.full((5, 3), np.nan), spectrum, "0 finite rows"),
        (np.zeros((5, 3)), anisotropy, "0 finite nonzero rows"),
        (np.ones((1, 3)), anisotropy, "1 finite nonzero rows"),
        (np.zeros((5, 3)), similarity_by_distance, "no finite nonzero row"),
        (np.ones((5, 3)), translation_invariance, "equally similar"),
        (np.eye(2), translation_invariance, "at least 3"),
        (np.ones((1, 3)), adjacent, "need at least 2"),
        (_noise(5, 1), lambda table: spectrum(table).isoscore, "width 2 or more"),
        (_noise(5, 2), lambda table: spectrum(table).components_for(1.5), "at most 1"),
        (_noise(5, 2), lambda table: similarity_by_distance(table, longest=5), "0 to 4"),
        (_noise(5, 2), lambda table: translation_invariance(table, on="dot"), "inner product"),
    ],
)
def test_what_has_no_answer_says_so(
    vectors: NDArray[np.floating], metric: Callable[[EmbeddingTable], object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        metric(_table(vectors))


def test_equal_but_for_rounding_is_equal() -> None:
    with pytest.raises(InputError, match="the same"):
        spectrum(_table(np.full((1000, 7), 0.1, np.float32)))


def test_outliers_of_tables_without_any() -> None:
    assert outliers(_table(np.full((5, 3), np.nan))).tolist() == []
    assert outliers(_table(np.ones((5, 3)))).tolist() == []
    vectors = np.ones((9, 3))
    vectors[4] *= 2
    assert outliers(_table(vectors)).tolist() == [4]


def test_position_encodings_are_taken_for_their_table() -> None:
    table = _table(_noise(8, 4))
    assert norms(Absolute(table)) is norms(table)
    np.testing.assert_allclose(norms(Rotary(np.ones(4), 8, 1.5)), 1.5 * 2)
    with pytest.raises(MissingTableError, match="alibi"):
        norms(Alibi(np.ones(4), 8))


# --- patches ----------------------------------------------------------------------------------------------------------

GRIDS = st.tuples(st.integers(2, 6), st.integers(2, 7), st.integers(0, 2))


def _image(vectors: Array, rows: int, columns: int, first: int = 0) -> Absolute:
    """Patches [rows, columns, width] after other rows, as an encoding."""
    others = np.full((first, vectors.shape[-1]), 7.0)
    return Absolute(
        _table(np.concatenate([others, vectors.reshape(rows * columns, -1)])), grid=Grid(rows, columns, first)
    )


@settings(max_examples=25, deadline=None)
@given(grid=GRIDS, width=st.integers(1, 60), seed=SEEDS)
def test_additive_patches_are_explained_in_full(grid: tuple[int, int, int], width: int, seed: int) -> None:
    rows, columns, first = grid
    random = np.random.default_rng(seed)
    row, column = random.normal(size=(rows, 1, width)), random.normal(size=(1, columns, width))
    found = grid_variance(_image(row + column, rows, columns, first), draws=3)
    assert found.both == pytest.approx(1)
    assert found.row + found.column == pytest.approx(found.both)
    alone = grid_variance(_image(row + np.zeros((1, columns, 1)), rows, columns, first), draws=3)
    assert (alone.row, alone.column) == pytest.approx((1, 0))


@settings(max_examples=25, deadline=None)
@given(grid=GRIDS, width=st.integers(1, 60), seed=SEEDS)
def test_grid_variance_is_unchanged_by_rotation_scale_and_shift(
    grid: tuple[int, int, int], width: int, seed: int
) -> None:
    rows, columns, first = grid
    patches = _noise(rows * columns, width, seed)
    moved = 30 * patches @ _rotation(width, seed) + 4
    plain, other = (grid_variance(_image(p, rows, columns, first), draws=2) for p in (patches, moved))
    assert (other.row, other.column, other.both) == pytest.approx((plain.row, plain.column, plain.both), rel=1e-4)
    turned = grid_variance(_image(patches.reshape(rows, columns, -1).swapaxes(0, 1), columns, rows, 0), draws=2)
    assert (turned.row, turned.column) == pytest.approx((plain.column, plain.row))


def test_shuffled_patches_score_as_the_null() -> None:
    rows, columns, width = 10, 14, 96
    random = np.random.default_rng(1)
    row, column = random.normal(size=(rows, 1, width)), random.normal(size=(1, columns, width))
    patches = (row + column + random.normal(size=(rows, columns, width))).reshape(-1, width)
    ordered = grid_variance(_image(patches, rows, columns))
    shuffled = grid_variance(_image(random.permutation(patches), rows, columns))
    assert ordered.row > 4 * ordered.nulls["row"].high
    cells = rows * columns - 1
    for name, freedom in (("row", rows - 1), ("column", columns - 1), ("both", rows + columns - 2)):
        null = shuffled.nulls[name]
        assert null.low <= null.mean <= null.high
        assert null.mean == pytest.approx(freedom / cells, rel=0.05)  # what the degrees of freedom give
        assert abs(getattr(shuffled, name) - null.mean) < 2 * (null.high - null.low)
    assert grid_variance(_image(patches, rows, columns)) == ordered, "the same seed, the same draws"


@settings(max_examples=15, deadline=None)
@given(grid=GRIDS, most=st.integers(1, 9), seed=SEEDS)
def test_maps_of_patches_are_their_cosines(grid: tuple[int, int, int], most: int, seed: int) -> None:
    rows, columns, first = grid
    encoding = _image(_noise(rows * columns, 5, seed), rows, columns, first)
    found = patch_maps(encoding, most=most)
    assert found.maps.shape == (len(found.rows), len(found.columns), rows, columns)
    assert 1 <= len(found.rows) <= most
    assert 1 <= len(found.columns) <= most
    cosines = encoding.matrix()[first:, first:]
    for r, row in enumerate(found.rows):
        for c, column in enumerate(found.columns):
            own = row * columns + column
            np.testing.assert_allclose(found.maps[r, c].ravel(), cosines[own], atol=1e-6)
            np.testing.assert_allclose(patch_map(encoding, int(own)).ravel(), cosines[own], atol=1e-6)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (Absolute(_table(np.ones((4, 2)))), "no grid"),
        (Alibi(np.ones(4), 8), "no grid"),
        (Absolute(_table(np.ones((4, 2))), grid=Grid(2, 2, 1)), "does not fit"),
        (_image(np.ones((4, 2)), 2, 2), "the same vector"),
        (_image(np.ones((4, 2)), 4, 1), "2 × 2"),
        (_image(np.full((4, 2), np.nan), 2, 2), "4 of 4 patches"),
    ],
)
def test_shares_that_cannot_be_had_say_why(encoding: PositionEncoding, said: str) -> None:
    with pytest.raises(InputError, match=said):
        grid_variance(encoding)


def test_a_patch_outside_of_the_grid_is_refused() -> None:
    with pytest.raises(InputError, match="from 0 to 3; got 4"):
        patch_map(_image(_noise(4, 3), 2, 2), 4)


def test_a_large_table_is_streamed() -> None:
    vectors = _noise(140_000, 64).astype(np.float32)
    vectors[131_071] = np.nan
    table, asked = streamed(vectors)
    wide = np.delete(vectors, 131_071, axis=0).astype(np.float64)
    np.testing.assert_allclose(np.delete(norms(table), 131_071), np.linalg.norm(wide, axis=1), rtol=1e-12)
    centred = wide - wide.mean(axis=0)
    np.testing.assert_allclose(scatter(table).matrix, centred.T @ centred, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scatter(table, single=True).matrix, centred.T @ centred, rtol=1e-5, atol=1e-4)
    unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    pairs = len(unit) * (len(unit) - 1)
    assert anisotropy(table) == pytest.approx((np.sum(unit.sum(axis=0) ** 2) - len(unit)) / pairs)
    near = adjacent(table)
    np.testing.assert_allclose(near[:131_070], np.einsum("ij,ij->i", unit[:131_070], unit[1:131_071]), atol=1e-12)
    assert np.isnan(near[131_070:131_072]).all()
    assert max(asked) < len(vectors)


def test_monotonicity_of_noise_is_one_half_and_of_a_curve_one() -> None:
    assert monotonicity(hpe.extract("random:400x64").position) == pytest.approx(0.5, abs=0.02)
    curve = np.stack([np.cos(np.arange(60) / 60), np.sin(np.arange(60) / 60)], axis=1)
    assert monotonicity(_table(curve)) == 1.0
    with pytest.raises(InputError, match="monotonicity"):
        monotonicity(_table(curve[:2]))


def test_waves_are_told_from_noise() -> None:
    t = np.arange(96)
    rows = np.stack([3 * np.sin(2 * np.pi * t / 12), np.cos(2 * np.pi * t / 32) + 5], axis=1)
    found = geometry.strength_by_period(hpe.from_arrays(position=rows).position)
    assert found.peak == 12
    assert found.periods[[0, 2, 7]].tolist() == [96, 32, 12]
    assert found.strength.mean() == pytest.approx(1)
    tiny = geometry.strength_by_period(hpe.from_arrays(position=1e-18 * rows).position).to_frame()
    assert tiny.period[tiny.strength.argmax()] == 12, "in any unit"
    drawn = [geometry.strength_by_period(hpe.extract(f"random:128x24?seed={seed}").position) for seed in range(60)]
    assert sum(one.strongest is not None for one in drawn) <= 4
    rng = np.random.default_rng(4)
    walks = [np.cumsum(rng.normal(size=(128, 24)), axis=0) for _ in range(40)]
    walked = [geometry.strength_by_period(hpe.from_arrays(position=walk).position) for walk in walks]
    assert all(one.trend and one.peak is None for one in walked), "a random walk has no wave of its own"
    flips = np.outer((-1.0) ** np.arange(128), rng.normal(size=24)) + 0.3 * rng.normal(size=(128, 24))
    assert geometry.strength_by_period(hpe.from_arrays(position=flips).position).peak == 2, "the fastest wave there is"
    slow = np.sin(np.pi * np.arange(128)[:, None] / 32 + np.arange(24)) + 0.3 * rng.normal(size=(128, 24))
    assert geometry.strength_by_period(hpe.from_arrays(position=slow).position).peak == 64, "the second slowest wave"
    rough = geometry.strength_by_period(hpe.from_arrays(position=np.diff(rng.normal(size=(129, 24)), axis=0)).position)
    assert (rough.peak, rough.trend) == (None, False), "a band of fast waves is neither one wave nor a trend"
    assert rough.strongest is not None
    assert rough.strongest < 4
    inside = [(one.low < one.strength) & (one.strength < one.high) for one in drawn]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
    for made in (np.ones((20, 4)), np.eye(5)):
        with pytest.raises(InputError, match="a spectrum needs at least 8"):
            geometry.strength_by_period(hpe.from_arrays(position=made).position)


def test_wave_spectrum_names_the_period() -> None:
    t = np.arange(96)
    rows = np.stack([3 * np.sin(2 * np.pi * t / 12), np.cos(2 * np.pi * t / 32) + 5], axis=1)
    found = geometry.wave_spectrum(hpe.from_arrays(position=rows).position)
    assert found.shape == (49,)
    assert set(np.argsort(found)[-2:]) == {8, 3}
    assert found[0] == pytest.approx(0.0, abs=1e-9)


def _curve(rows: int = 120, width: int = 12) -> np.ndarray:
    t = np.arange(rows)[:, None] / 9
    return np.asarray(np.concatenate([np.cos(t + np.arange(width)), np.sin(t * 0.7 + np.arange(width))], axis=1))


def test_a_break_is_found_where_it_is() -> None:
    rows = _curve()
    assert breaks(from_arrays(position=rows).position) == ()
    rows[70:] = rows[70:] @ np.linalg.qr(np.random.default_rng(3).standard_normal((24, 24)))[0]
    (found,) = breaks(from_arrays(position=rows).position)
    assert (found.before, found.after) == (69, 70)
    assert found.cosine == pytest.approx(float(adjacent(from_arrays(position=rows).position)[69]))
    assert found.typical > 0.98
    assert found.deviations > 3.5
    table = from_arrays(position=rows).position
    assert deepest_fall(table) == pytest.approx(found.typical - found.cosine)


def test_the_break_of_minilm(minilm_folder: Path) -> None:
    """METRICS: .439 at 126 to 127, .554 at 127 to 128."""
    (found,) = breaks(extract(str(minilm_folder)).position)
    assert (found.before, found.after) == (126, 128)
    assert found.cosine == pytest.approx(0.439, abs=5e-4)


@pytest.mark.parametrize("row", [0, 2, 117, 119])
def test_ends_noise_and_short_tables_are_no_break(row: int) -> None:
    rows = _curve()
    rows[row] = -rows[row]
    assert breaks(from_arrays(position=rows).position) == ()
    assert breaks(from_arrays(position=np.random.default_rng(0).standard_normal((200, 8))).position) == ()
    assert breaks(from_arrays(position=rows[:12]).position) == ()
    with pytest.raises(InputError, match="17 rows are needed"):
        deepest_fall(from_arrays(position=rows[:12]).position)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_and_finite_rows_agree_whichever_is_read_first(dtype: type[np.floating]) -> None:
    rows = np.random.default_rng(0).standard_normal((40, 8)).astype(dtype)
    rows[3, 2], rows[5, 0], rows[7] = np.nan, np.inf, 0
    rows[5, 1], rows[9] = -np.inf, np.finfo(np.float32).max  # a sum that is NaN, and one beyond float32
    first, second = (from_arrays(token=rows).token for _ in range(2))
    assert (~first.finite).nonzero()[0].tolist() == [3, 5]
    np.testing.assert_array_equal(norms(first), norms(second))
    np.testing.assert_array_equal(first.finite, second.finite)
    assert np.isnan(norms(first)).nonzero()[0].tolist() == [3, 5]
    assert norms(first)[9] == pytest.approx(np.sqrt(8) * np.finfo(np.float32).max)


def test_rows_left_out_change_no_distance() -> None:
    table = from_arrays(position=_curve()).position.table
    assert table is not None
    holed = without(table, np.array([0, 50]))
    assert (~holed.finite).nonzero()[0].tolist() == [0, 50]
    assert np.array_equal(holed.rows(49, 52)[[0, 2]], table.rows(49, 52)[[0, 2]])
    assert np.isfinite(table.vectors).all()
    assert similarity_by_distance(holed)[1] == pytest.approx(np.delete(adjacent(table), [0, 49, 50]).mean())
    assert holed.labels is table.labels


@given(st.integers(3, 60), st.integers(1, 12), st.integers(2, 70), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_monotonicity_is_the_share_of_triples(rows: int, width: int, longest: int, seed: int) -> None:
    made = np.random.default_rng(seed).standard_normal((rows, width + 1))
    made[seed % rows] = np.nan if seed % 2 else 0
    with np.errstate(invalid="ignore"):
        unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    shares = [
        unit[t] @ unit[m] < unit[t] @ unit[n]
        for t in range(rows)
        for m in range(t + 2, min(rows, t + longest + 1))
        for n in range(t + 1, m)
        if np.isfinite(unit[[t, m, n]]).all()
    ]
    table = from_arrays(position=made).position
    if shares:
        assert monotonicity(table, longest=longest) == pytest.approx(float(np.mean(shares)), abs=1e-9)
    else:
        with pytest.raises(InputError, match="no three nonzero rows"):
            monotonicity(table, longest=longest)


# --- one distance in two places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["rotary:40x8", "alibi:40x4", "sinusoidal:40x8"])
def test_where_distance_alone_counts_no_place_differs(source: str) -> None:
    assert difference_by_place(extract(source).position, 8) == pytest.approx(0, abs=1e-6)


def test_what_differs_from_place_to_place_is_the_range_of_a_diagonal() -> None:
    rows = _noise(30, 8)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = [float(unit[place] @ unit[place - 5]) for place in range(5, 20)]
    found = difference_by_place(Absolute(_table(rows)), 5, length=20)
    assert found == pytest.approx(max(cosines) - min(cosines))
    assert found > 0.3  # what chance gives: noise knows no distance


def test_one_pair_has_no_other_place() -> None:
    with pytest.raises(InputError, match="1 pairs of the 6 positions are 5 apart"):
        difference_by_place(Absolute(_table(_noise(6, 4))), 5)
    with pytest.raises(InputError, match="0 pairs"):
        difference_by_place(Absolute(_table(_noise(6, 4))), 0)


def test_runs_of_rows_have_the_mean_cosine_of_their_pairs() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 6)).cumsum(axis=0)
    rows[30] = 0
    found = mean_cosine_of_runs(_table(rows), 5)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-9)
    cosines = unit @ unit.T
    expected = [(cosines[at : at + 5, at : at + 5].sum() - 5) / 20 for at in range(36)]
    expected[26:31] = [np.nan] * 5
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(InputError, match="expected 2 to 40"):
        mean_cosine_of_runs(_table(rows), 41)
