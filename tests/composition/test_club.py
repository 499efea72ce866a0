"""Clouds of words at places: the shares of their variance, and their picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.composition.added_positions import add_positions
from hfposemb.composition.variance_decomposition import SumCloud, sum_cloud
from tests.support.made_tables import made

ROWS, PLACES = np.array([3, 9, 27, 81]), np.arange(2, 12)


def of(model: hpe.Embeddings, *, normed: bool = True) -> SumCloud:
    return sum_cloud(add_positions(model), model, ROWS, PLACES, normed=normed)


@pytest.mark.parametrize("normed", [True, False])
def test_shares_add_up_and_go_from_words_to_positions(normed: bool) -> None:
    found = of(made(), normed=normed).variance()
    assert np.allclose(found.words + found.positions + found.rest, 1)
    assert found.words[0] == pytest.approx(1.0)
    assert (np.diff(found.positions) > 0).all()
    assert sum(found.chance) == pytest.approx(1.0)
    assert found.normed == ("length" if normed else "none")
    if not normed:  # there the shares are those of the two tables' own variances
        twice, whole = of(made(), normed=False).variance(amplitudes=(2.0,)), of(made())
        words, places = (np.var(part.astype(float), axis=0).sum() for part in (whole.words, whole.positions))
        assert twice.rest[0] == pytest.approx(0, abs=1e-12)
        assert twice.words[0] == pytest.approx(words / (words + 4 * places))


def test_blind_dealing_gives_the_shares_by_chance() -> None:
    """The null: the same vectors dealt out to words and places at random."""
    from hfposemb.composition.variance_decomposition import _shares

    rng, found = np.random.default_rng(0), of(made())
    sums = found.sums(1.0)
    flat = sums.reshape(-1, sums.shape[2])
    drawn = np.mean([_shares(rng.permutation(flat).reshape(sums.shape)) for _ in range(400)], axis=0)
    assert np.allclose(drawn, found.variance().chance, atol=0.01)


def test_rotation_changes_no_share() -> None:
    model = made(width=16)
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((16, 16)))[0]
    turned = hpe.from_arrays(token=model.token.vectors @ turn, position=model.position.table.vectors @ turn)
    assert np.allclose(of(model).variance().rest, of(turned).variance().rest, atol=1e-6)


@pytest.mark.parametrize("width", [6, 120])
def test_the_picture_is_the_principal_components(width: int) -> None:
    from sklearn.decomposition import PCA

    clouded = of(made(width=width))
    found = clouded.club(amplitude=1.5)
    assert found.points.shape == (4, 10, 2)
    oracle = PCA(2).fit(clouded.sums(1.5).reshape(40, width).astype(float))
    expected = oracle.transform(clouded.sums(1.5).reshape(40, width).astype(float))
    assert np.allclose(np.abs(found.points.reshape(-1, 2)), np.abs(expected), atol=1e-4)
    assert np.allclose(found.explained, oracle.explained_variance_ratio_, atol=1e-6)


def test_the_models_own_normalisation(minilm_folder: Path) -> None:
    model = hpe.extract(minilm_folder)
    ids = [model.token.row(word) for word in ("king", "queen")]
    clouded = sum_cloud(add_positions(model), model, np.array(ids), np.arange(1, 5))
    assert clouded.normed == "model"
    fed = model.inputs([101, *ids]).normed
    assert np.allclose(clouded.sums(1.0)[0, 0], fed[1], atol=1e-5)  # "king" at position 1
    assert np.allclose(clouded.sums(1.0)[1, 1], fed[2], atol=1e-5)


def test_what_is_no_cloud() -> None:
    model = made()
    with pytest.raises(hpe.HfposembError, match="2 words and 2 positions"):
        sum_cloud(add_positions(model), model, np.array([3, 3]), PLACES)
    alike = hpe.from_arrays(token=np.ones((50, 4)), position=np.ones((9, 4)))
    with pytest.raises(hpe.HfposembError, match="no variance"):
        sum_cloud(add_positions(alike), alike, np.array([1, 2]), np.array([2, 3])).variance()
