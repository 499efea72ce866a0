"""A word's cosine with named words while positions are added."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.composition.added_positions import add_positions
from hfposemb.composition.anchor_words import anchor_similarity
from tests.support.made_tables import made


def test_each_cosine_is_that_of_the_sum() -> None:
    words = add_positions(made())
    anchors = np.array([7, 2, 399])
    found = anchor_similarity(words, 11, anchors, amplitudes=(0.0, 1.5))
    tokens = words.tokens.astype(float)
    for turn, amplitude in enumerate((0.0, 1.5)):
        sums = tokens[11] + amplitude * words.positions[words.inner]
        for j, anchor in enumerate(anchors):
            cosines = sums @ tokens[anchor] / np.linalg.norm(sums, axis=1) / np.linalg.norm(tokens[anchor])
            assert found.mean[turn, j] == pytest.approx(cosines.mean(), abs=1e-6)
            assert found.low[turn, j] == pytest.approx(np.quantile(cosines, 0.025), abs=1e-6)
            assert found.high[turn, j] == pytest.approx(np.quantile(cosines, 0.975), abs=1e-6)
    assert np.allclose(found.low[0], found.high[0])
    assert (found.chance_low < found.chance_high).all()
    itself = anchor_similarity(words, 5, np.array([5])).mean[:, 0]
    assert itself[0] == pytest.approx(1.0)
    assert (np.diff(itself) < 0).all(), "it is its own nearest anchor, and fades"
    with pytest.raises(hpe.HfposembError, match="give at least one"):
        anchor_similarity(words, 5, np.array([], np.int64))
    with pytest.raises(hpe.HfposembError, match="zero or not finite"):
        anchor_similarity(words, 5, np.array([400]))
