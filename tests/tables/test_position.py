"""Position encodings: every kind answers the same questions, each in its own unit."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention

import hfposemb as hpe
from hfposemb.errors import InputError, MissingTableError
from hfposemb.tables.encodings import (
    Absolute,
    Alibi,
    Convolution,
    NoPositions,
    PositionEncoding,
    RelativeBias,
    RelativeTable,
    Unmeasured,
    table_in,
)
from hfposemb.tables.rotary import Rotary

DISTANCES = np.arange(-40, 41)
RANDOM = np.random.default_rng(0)
ALL: tuple[PositionEncoding, ...] = (
    hpe.from_arrays(position=RANDOM.normal(size=(50, 8))).position,
    hpe.sinusoidal(50, 8).position,
    Rotary(10000.0 ** (-np.arange(0, 8, 2) / 8), 50),
    Alibi(2.0 ** -np.arange(1, 9.0), 50),
    RelativeBias(RANDOM.normal(size=(32, 4)), 50, bidirectional=True),
    RelativeBias(RANDOM.normal(size=(32, 4)), 50, bidirectional=False),
    RelativeTable(RANDOM.normal(size=(21, 8)), np.arange(10, -11, -1), 50),
)
UNDRAWN: tuple[PositionEncoding, ...] = (
    Convolution(128, 16),
    NoPositions("its recurrence"),
    Unmeasured("rotary", "not computed yet"),
)


@pytest.mark.parametrize("encoding", ALL, ids=lambda e: e.kind)
def test_every_kind_speaks_the_protocol(encoding: PositionEncoding) -> None:
    assert isinstance(encoding, PositionEncoding)
    matrix = encoding.matrix(20)
    assert matrix.shape == (20, 20)
    assert np.isfinite(matrix).all()
    assert encoding.profile(DISTANCES).shape == DISTANCES.shape


@pytest.mark.parametrize("encoding", ALL[2:], ids=lambda e: e.kind)
def test_relative_kinds_depend_on_distance_alone(encoding: PositionEncoding) -> None:
    matrix, profile = encoding.matrix(20), encoding.profile(np.arange(-19, 20))
    for query in range(20):
        np.testing.assert_array_equal(matrix[query], profile[19 - query : 39 - query])


def test_cosines_of_a_table() -> None:
    vectors = RANDOM.normal(size=(30, 5))
    encoding = hpe.from_arrays(position=vectors).position
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(encoding.matrix(), unit @ unit.T, atol=1e-12)
    means = [np.diagonal(unit @ unit.T, k).mean() for k in range(30)]
    np.testing.assert_allclose(encoding.profile(np.arange(30)), means, atol=1e-12)
    np.testing.assert_array_equal(encoding.profile(np.array([-3])), encoding.profile(np.array([3])))
    assert np.isnan(encoding.profile(np.array([30]))[0])


def test_rows_without_a_direction_are_left_out() -> None:
    vectors = RANDOM.normal(size=(6, 3))
    vectors[2], vectors[4] = 0.0, np.nan
    encoding = hpe.from_arrays(position=vectors).position
    assert np.isnan(encoding.matrix()[2]).all()
    good = hpe.from_arrays(position=vectors[:2]).position
    assert encoding.profile(np.array([1]))[0] == pytest.approx(good.profile(np.array([1]))[0])


def test_a_matrix_longer_than_the_table_is_refused() -> None:
    with pytest.raises(InputError, match=r"must be from 1 to 50 for .*; got 51"):
        ALL[0].matrix(51)


FREQUENCIES = st.lists(st.floats(0, 3.2), min_size=1, max_size=9).map(np.array)


@given(FREQUENCIES, st.integers(0, 20_000), st.integers(0, 400), st.sampled_from(["half", "interleaved"]))
def test_cosines_of_rotary_rows_are_the_expected_kernel(
    frequencies: np.ndarray, first: int, distance: int, layout: Any
) -> None:
    encoding = Rotary(frequencies, 30_000, 1.3, layout)
    one, other = (encoding.table.rows(t, t + 1)[0].astype(np.float64) for t in (first, first + distance))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert cosine == pytest.approx(encoding.profile(np.array([distance]))[0], abs=1e-6)
    kernels = encoding.kernels(np.array([distance, 0]))
    assert kernels.shape == (2, len(frequencies))
    np.testing.assert_array_equal(kernels[1], 1)
    assert kernels[0].mean() == encoding.profile(np.array([distance]))[0]


def test_rotary_rows_have_the_layout_of_the_model() -> None:
    frequencies, angle = np.array([1.0, 0.1]), np.arange(50)[:, None] * [1.0, 0.1]
    half = Rotary(frequencies, 50, 2.0).table
    assert half is not None
    assert (half.shape, half.dtype, half.vectors.dtype) == ((50, 4), np.float32, np.float32)
    np.testing.assert_allclose(half.vectors, 2 * np.hstack([np.cos(angle), np.sin(angle)]), rtol=1e-6, atol=1e-7)
    turned = Rotary(frequencies, 50, 2.0, "interleaved").table
    np.testing.assert_array_equal(turned.vectors, half.vectors[:, [0, 2, 1, 3]])
    np.testing.assert_array_equal(half.rows(7, 9), half.vectors[7:9])
    with pytest.raises(InputError, match="50 rows"):
        half.rows(0, 51)


def test_a_long_rotary_table_is_made_by_rows() -> None:
    """Of a million positions nobody pays for more than is read."""
    rows = Rotary(10000.0 ** (-np.arange(64) / 64), 2**20).table.rows(2**20 - 2, 2**20)
    np.testing.assert_allclose(rows[1, 0], np.cos(2**20 - 1), rtol=1e-6)


def test_wavelengths_are_positions_for_a_turn() -> None:
    encoding = Rotary(np.array([2 * np.pi, 2 * np.pi / 100, 0.0]), 50)
    np.testing.assert_allclose(encoding.wavelengths, [1, 100, np.inf])
    plain = encoding.scaled
    assert plain.trained_length == 50
    assert plain.beyond.tolist() == plain.beyond_after.tolist() == [False, True, True]
    assert not plain.moved.any()
    slowed = replace(encoding, base_freq=2 * encoding.inv_freq, trained_length=60).scaled
    np.testing.assert_allclose(slowed.before, [0.5, 50, np.inf])
    assert slowed.moved.tolist() == [True, True, False]
    assert (slowed.beyond.sum(), slowed.beyond_after.sum()) == (1, 2)


@given(st.booleans(), st.lists(st.integers(-5000, 5000), min_size=1, max_size=50))
def test_buckets_are_those_of_t5(bidirectional: bool, distances: list[int]) -> None:
    own = T5Attention._relative_position_bucket(torch.tensor(distances), bidirectional, 32, 128)
    encoding = RelativeBias(np.zeros((32, 1)), 50, bidirectional=bidirectional)
    np.testing.assert_array_equal(encoding.buckets(np.array(distances)), own.numpy())


@given(st.permutations(range(-6, 7)), st.booleans(), st.lists(st.integers(-40, 40), min_size=1, max_size=30))
def test_a_relative_table_reads_the_row_of_each_distance(order: list[int], clipped: bool, wanted: list[int]) -> None:
    rows = np.random.default_rng(1).normal(size=(13, 5))
    encoding = RelativeTable(rows, np.array(order), 20, clipped=clipped)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for distance, found in zip(wanted, encoding.profile(np.array(wanted)), strict=True):
        if abs(distance) > 6 and not clipped:
            assert np.isnan(found)
        else:
            read = order.index(min(6, max(-6, distance)))
            assert found == pytest.approx(unit[read] @ unit[order.index(0)])
            assert abs(found) <= 1


def test_buckets_of_a_relative_table_are_those_of_deberta() -> None:
    distances = np.arange(-600, 601)
    buckets = make_log_bucket_position(torch.tensor(distances), 32, 512).numpy().astype(int)
    nearest = [distances[buckets == bucket] for bucket in range(buckets.min(), buckets.max() + 1)]
    first = np.array([found[np.argmin(np.abs(found))] for found in nearest])
    encoding = RelativeTable(np.eye(len(first)), first, 600)
    np.testing.assert_array_equal(encoding.row_of(distances) + buckets.min(), buckets)


def test_a_relative_row_without_a_direction_is_left_out() -> None:
    rows = np.random.default_rng(4).normal(size=(5, 3))
    rows[1], rows[4] = 0.0, np.inf
    found = RelativeTable(rows, np.arange(-2, 3), 5).profile(np.arange(-2, 3))
    np.testing.assert_array_equal(np.isnan(found), [False, True, False, False, True])


@pytest.mark.parametrize(
    ("rows", "distances", "said"),
    [
        ((3, 4), [0, 1], "one row for each of 2"),
        ((2, 4), [1, 1], "one row for each of 2"),
        ((2, 4), [1, 2], "must include 0"),
    ],
)
def test_a_table_that_does_not_fit_its_distances_is_refused(
    rows: tuple[int, int], distances: list[int], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        RelativeTable(np.ones(rows), np.array(distances), 5)


@pytest.mark.parametrize("encoding", UNDRAWN, ids=lambda e: type(e).__name__)
def test_what_cannot_be_drawn_says_why(encoding: Any) -> None:
    assert isinstance(encoding, PositionEncoding)
    assert (encoding.has_table, encoding.unit) == (False, "none")
    for draw in (encoding.matrix, lambda: encoding.profile(DISTANCES)):
        with pytest.raises(MissingTableError, match=re.escape(encoding.reason)):
            draw()
    with pytest.raises(MissingTableError, match="no vector for a position"):
        table_in(encoding)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
def test_a_convolution_sees_what_torch_lets_it_see(width: int) -> None:
    """Wav2vec 2.0 pads by width // 2 on both sides, and drops the last output of a kernel of an even width."""
    length = 30
    kernel = torch.nn.Conv1d(1, 1, width, padding=width // 2, bias=False)
    torch.nn.init.ones_(kernel.weight)
    seen = torch.stack([kernel(one[None, None])[0, 0, :length] for one in torch.eye(length)], dim=1) > 0
    query, key = np.indices((length, length))
    np.testing.assert_array_equal(Convolution(width).sees(key - query), seen.numpy())


def test_a_convolution_names_its_kernel() -> None:
    assert "width 128 in 16 groups, reaching 64 positions" in Convolution(128, 16).reason
    for width, groups in ((0, 1), (3, 0)):
        with pytest.raises(InputError, match="must be at least 1"):
            Convolution(width, groups)


def test_table_in() -> None:
    table = hpe.sinusoidal(10, 4).position.table
    assert table_in(table) is table
    assert table_in(Absolute(table)) is table
    rotary = ALL[2]
    assert table_in(rotary) is rotary.table
    with pytest.raises(MissingTableError, match="alibi positions have no vector"):
        table_in(ALL[3])
    with pytest.raises(InputError, match="got list"):
        table_in([1])


def rows_of(encoding: PositionEncoding) -> np.ndarray:
    """Take the table without a check for None: mypy reads this too."""
    return encoding.table.vectors


@pytest.mark.parametrize("encoding", ALL[:3], ids=lambda e: e.kind)
def test_an_encoding_with_rows_is_an_array_of_them(encoding: Any) -> None:
    rows = rows_of(encoding)
    assert encoding.has_table
    for taken in (np.asarray(encoding), np.array(list(encoding)), encoding[:], torch.as_tensor(encoding).numpy()):
        np.testing.assert_array_equal(taken, rows)
    assert len(encoding) == 50
    np.testing.assert_array_equal(encoding[-1], rows[-1])


@pytest.mark.parametrize("encoding", [*ALL[3:], *UNDRAWN], ids=lambda e: type(e).__name__)
def test_an_encoding_without_rows_says_what_to_use_instead(encoding: Any) -> None:
    assert not encoding.has_table
    expected = re.escape(getattr(encoding, "reason", "use .matrix(length) or .profile(distances)"))
    for take in (lambda: encoding.table, lambda: np.asarray(encoding), lambda: rows_of(encoding)):
        with pytest.raises(MissingTableError, match=f"positions have no vector for a position.*{expected}"):
            take()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpt2", r"got the string 'gpt2'; open it first: hpe\.extract\('gpt2'\)\.token or \.position"),
        (hpe.sinusoidal(4, 2), r"got an Embeddings, which holds several; give embeddings\.position"),
        (hpe.extract("sample:bert"), r"give embeddings\.token or embeddings\.position"),
        (
            np.ones((3, 2)),
            r"got ndarray; make a table first: hpe\.from_arrays\(token=vectors\)\.token",
        ),
    ],
)
def test_what_is_no_table_is_answered_with_the_right_call(given: Any, message: str) -> None:
    calls = (hpe.similarity, hpe.project, lambda value: hpe.neighbours(value, 0, k=1))
    for call in calls:
        with pytest.raises(InputError, match=message):
            call(given)


@pytest.mark.parametrize("encoding", [*ALL, *UNDRAWN], ids=lambda e: type(e).__name__)
def test_every_encoding_can_be_pickled(encoding: Any) -> None:
    again = pickle.loads(pickle.dumps(encoding))
    assert (type(again), again.kind, again.unit, again.has_table) == (
        type(encoding),
        encoding.kind,
        encoding.unit,
        encoding.has_table,
    )
    if encoding not in UNDRAWN:
        np.testing.assert_array_equal(again.profile(DISTANCES), encoding.profile(DISTANCES))
