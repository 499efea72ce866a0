"""A sum is a concatenation times [I; I], and what it costs is what making the two on purpose costs."""

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.composition.sum_and_concatenation import expected_interference
from hfposemb.errors import InputError


def made(width: int, *, shared: float = 0.0, same: bool = False) -> hpe.Embeddings:
    """Words and positions that are drawn at random, with a shared mean, or with positions that are words."""
    rng = np.random.default_rng(3)
    words = rng.standard_normal((900, width)) + shared
    positions = words[:40] * 0.5 if same else rng.standard_normal((40, width)) + shared
    return hpe.from_arrays(token=words, position=positions)


def test_a_sum_is_a_concatenation_under_a_fixed_projection() -> None:
    added = hpe.add_positions(hpe.extract("sample:minilm"))
    found = hpe.compare_sum_with_concatenation(added, amplitudes=[0, 1], queries=200)
    x, v = added.tokens[:50].astype(float), added.positions[5].astype(float)
    tied = np.vstack([np.eye(384), np.eye(384)])
    np.testing.assert_allclose(np.hstack([x, np.tile(v, (50, 1))]) @ tied, x + v, atol=1e-12)
    assert found.difference < 1e-12
    # Nothing of a position is left at 0; both parts are there at the model's own amplitude, as in the concatenation.
    np.testing.assert_allclose(found.both[:, 0], found.both[0, 0], atol=0.03)
    assert found.both[:, 1].min() > 0.97
    assert found.both[2, 1] == 1


def test_directions_that_words_use_cost_more_than_others() -> None:
    found = hpe.compare_sum_with_concatenation(hpe.add_positions(made(48, same=True)), amplitudes=[2], queries=300)
    own, turned, beside = found.words[:, 0]
    assert own < turned - 0.05 < beside
    assert "turned" in found.ways


@pytest.mark.parametrize("width", [64, 384, 768])
def test_random_directions_overlap_as_the_formula_says(width: int) -> None:
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((2, 4000, width))
    cosines = np.abs((x * v).sum(axis=1)) / np.linalg.norm(x, axis=1) / np.linalg.norm(v, axis=1)
    assert expected_interference(width) == pytest.approx(cosines.mean(), rel=0.05)
    assert expected_interference(width) == pytest.approx(np.sqrt(2 / (np.pi * width)), rel=0.01)


def test_interference_falls_with_width_and_a_shared_mean_raises_it() -> None:
    plain, shared = (hpe.interference(hpe.add_positions(made(256, shared=mean))) for mean in (0, 0.5))
    assert plain.widths == shared.widths == (64, 128, 192, 256)
    np.testing.assert_allclose(plain.cosines, plain.expected, rtol=0.1)
    assert plain.equivalent == pytest.approx(256, rel=0.2)
    assert (shared.cosines > 2 * shared.expected).all()
    np.testing.assert_allclose(shared.centred, shared.expected, rtol=0.15)
    with pytest.raises(InputError, match="at least 1"):
        hpe.interference(hpe.add_positions(made(64)), widths=[0])
