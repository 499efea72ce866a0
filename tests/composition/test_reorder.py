"""The same words in another order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.composition.word_order import reorder_words, reverse_tokens


def test_positions_tell_orders_apart(minilm_folder: Path) -> None:
    model = hpe.extract(minilm_folder)
    one, other = model.inputs("the king saw the queen"), model.inputs("the queen saw the king")
    found = reorder_words(one, other)
    assert (found.same_tokens, found.same_inputs, found.added) == (True, False, True)
    assert found.pieces == ("[CLS]", "the", "king", "saw", "the", "queen", "[SEP]")
    assert found.second.tolist() == [0, 1, 5, 3, 4, 2, 6]
    assert found.changed.tolist() == [False, False, True, False, False, True, False]
    a, b = one.sum[2].astype(float), other.sum[5].astype(float)
    assert found.cosines[2] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    assert found.distances[2] == pytest.approx(np.linalg.norm(a - b))


def test_without_positions_every_order_is_the_same() -> None:
    model = hpe.from_arrays(token=np.random.default_rng(0).standard_normal((20, 4)))
    found = reorder_words(model.inputs([3, 4, 5, 4]), model.inputs([4, 4, 3, 5]))
    assert (found.same_tokens, found.same_inputs, found.added) == (True, True, False)
    assert np.allclose(found.cosines, 1)
    found = reorder_words(model.inputs([7, 1, 7, 2]), model.inputs([7, 7, 2, 1]))
    assert found.second.tolist() == [0, 3, 1, 2], "a word that comes twice is paired in its order"


def test_marks_stay_where_they_are() -> None:
    assert reverse_tokens([101, 5, 6, 7, 102], fixed=[True, False, False, False, True]).tolist() == [101, 7, 6, 5, 102]
    assert reverse_tokens([5], fixed=[False]).tolist() == [5]


def test_other_words_are_no_other_order() -> None:
    model = hpe.from_arrays(token=np.eye(9), position=np.ones((9, 9)))
    with pytest.raises(hpe.HfposembError, match="different pieces"):
        reorder_words(model.inputs([1, 2]), model.inputs([1, 3]))
    with pytest.raises(hpe.HfposembError, match="not a batch"):
        reorder_words(model.inputs([[1, 2]]), model.inputs([[1, 2]]))
    zero = hpe.from_arrays(token=np.zeros((9, 9)))
    with pytest.raises(hpe.HfposembError, match="its cosine is undefined"):
        reorder_words(zero.inputs([1, 2]), zero.inputs([2, 1]))
