"""Position encodings: every kind answers the same questions, each in its own unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

import hfposemb as hpe
from hfposemb.errors import InputError, MissingTableError
from hfposemb.position import Absolute, Alibi, PositionEncoding, RelativeBias, Rotary, Unmeasured, table_in

DISTANCES = np.arange(-40, 41)
RANDOM = np.random.default_rng(0)
ALL: tuple[PositionEncoding, ...] = (
    hpe.from_arrays(position=RANDOM.normal(size=(50, 8))).position,
    hpe.sinusoidal(50, 8).position,
    Rotary(10000.0 ** (-np.arange(0, 8, 2) / 8), 50),
    Alibi(2.0 ** -np.arange(1, 9.0), 50),
    RelativeBias(RANDOM.normal(size=(32, 4)), 50, bidirectional=True),
    RelativeBias(RANDOM.normal(size=(32, 4)), 50, bidirectional=False),
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
    with pytest.raises(InputError, match="50 positions; a matrix of 51"):
        ALL[0].matrix(51)


@given(st.booleans(), st.lists(st.integers(-5000, 5000), min_size=1, max_size=50))
def test_buckets_are_those_of_t5(bidirectional: bool, distances: list[int]) -> None:
    own = T5Attention._relative_position_bucket(torch.tensor(distances), bidirectional, 32, 128)
    encoding = RelativeBias(np.zeros((32, 1)), 50, bidirectional=bidirectional)
    np.testing.assert_array_equal(encoding.buckets(np.array(distances)), own.numpy())


def test_what_cannot_be_measured_says_why() -> None:
    encoding = Unmeasured("none", "its order comes from the recurrence")
    assert isinstance(encoding, PositionEncoding)
    with pytest.raises(MissingTableError, match="recurrence"):
        encoding.matrix()
    with pytest.raises(MissingTableError, match="recurrence"):
        encoding.profile(DISTANCES)


def test_table_in() -> None:
    table = hpe.sinusoidal(10, 4).position.table
    assert table_in(table) is table
    assert table_in(Absolute(table)) is table
    with pytest.raises(MissingTableError, match="rotary positions have no row"):
        table_in(ALL[2])
    with pytest.raises(InputError, match="got list"):
        table_in([1])
