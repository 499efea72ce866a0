"""Words as mixtures of others, and the planes of sets of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import OrthogonalMatchingPursuit

import hfposemb as hpe
from hfposemb.errors import InputError, MissingTableError
from hfposemb.surveys.published_findings import STUDIES


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> hpe.Embeddings:
    return hpe.extract(str(minilm_folder))


@pytest.fixture(scope="module")
def made() -> NDArray[np.float64]:
    """Words of which the first is half the second, a third of the third, and little noise, from a far mean."""
    rows = np.random.default_rng(0).standard_normal((400, 32))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] = 0.6 * rows[1] + 0.3 * rows[2] + 0.01 * rows[3]
    return rows + 5


def test_planted_words_are_found_with_their_weights(made: NDArray[np.float64]) -> None:
    found = hpe.mixture(hpe.from_arrays(token=made).token, 0, 2)
    assert found.rows.tolist() == [1, 2]
    assert found.weights == pytest.approx([0.6, 0.3], abs=0.03)
    assert found.explained[-1] == pytest.approx(1, abs=0.01)
    assert found.null.beyond
    assert found.null.mean < 0.5
    words = hpe.from_arrays(token=made)
    assert hpe.mixture(words, 0, 2).rows.tolist() == [1, 2], "a model that adds no positions has mixtures, too"
    with pytest.raises(MissingTableError, match="no positions"):
        hpe.mixture(words, 0, 2, positions=3)


def test_the_pursuit_is_that_of_scikit_learn(made: NDArray[np.float64]) -> None:
    """Of a random word whose weights are all positive, since scikit-learn takes closeness of either sign."""
    seen = made - made.mean(axis=0)
    directions = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    for row in range(10, 100):
        others = np.delete(np.arange(400), row)
        oracle = OrthogonalMatchingPursuit(n_nonzero_coefs=4, fit_intercept=False).fit(directions[others].T, seen[row])
        if (oracle.coef_ >= 0).all():
            break
    found = hpe.mixture(hpe.from_arrays(token=made).token, row, 4)
    order = np.argsort(found.rows)
    chosen = np.flatnonzero(oracle.coef_)
    assert found.rows[order].tolist() == others[chosen].tolist()
    assert found.weights[order] == pytest.approx(oracle.coef_[chosen])
    assert found.explained[-1] == pytest.approx(
        1 - np.square(seen[row] - found.weights @ directions[found.rows]).sum() / np.square(seen[row]).sum()
    )
    assert (np.diff(found.explained) > 0).all()
    assert found.multiples * np.linalg.norm(seen, axis=1)[found.rows] == pytest.approx(found.weights)


def test_airplane_keeps_its_words_at_positions(minilm: hpe.Embeddings) -> None:
    """The example of the issue, on MiniLM: airplanes and plane, whatever position is added."""
    found = hpe.mixture(minilm, "airplane", positions=[1, 5, 20])
    assert set(found.labels) == {"airplanes", "plane", "airline", "gypsy", "smartphone", "debate"}
    assert found.labels[:2] == ("airplanes", "plane")
    assert found.weights[:2] == pytest.approx([0.59, 0.37], abs=0.005)
    assert found.null.observed == pytest.approx(0.733, abs=0.001)
    assert 0.28 < found.null.mean < 0.33
    assert found.null.p == 1 / 40
    assert ((found.weights_at[:, 0] > 0.60) & (found.weights_at[:, 0] < 0.625)).all()
    assert ((found.weights_at[:, 1] > 0.355) & (found.weights_at[:, 1] < 0.385)).all()
    assert str(found).splitlines()[0].startswith("airplane = 0.59 airplanes + 0.37 plane + 0.17 ")


@pytest.mark.parametrize("width", [48, 600])
def test_random_words_are_no_mixture(width: int) -> None:
    """A share that explains no more than of random vectors has a p value to match: at most 1 of 20 below .05."""
    table = hpe.from_arrays(token=np.random.default_rng(1).standard_normal((600, width))).token
    found = [hpe.mixture(table, row, 4).null for row in range(40)]
    assert sum(one.beyond for one in found) <= 5
    assert found[0].mean == pytest.approx(np.mean([one.observed for one in found]), rel=0.1)


def test_other_spellings_and_other_classes_do_not_join() -> None:
    found = hpe.mixture(hpe.extract("sample:gpt2").token, "king", 8)
    assert not {label.strip().casefold() for label in found.labels} & {"king"}
    assert all(label.strip().isalpha() and len(label.strip()) > 2 for label in found.labels)
    words = ["king", "King", "KING", *(f"word{letter}" for letter in "abcdef")]
    few = hpe.from_arrays(token=np.random.default_rng(0).standard_normal((9, 16)), labels=words)
    found = hpe.mixture(few, "king", 6)
    assert (set(found.labels), found.candidates) == (set(words[3:]), 6)
    with pytest.raises(InputError, match="6 words of arrays tokens can join a mixture of 7"):
        hpe.mixture(few, "king", 7)


@pytest.mark.parametrize(
    ("source", "given", "error"),
    [
        ("sample:bert", {"word": "king", "positions": [900]}, "position 900 has no vector; there are 256 positions"),
        ("sample:bert", {"word": "king", "k": 0}, "k and draws must be at least 1"),
        ("sample:bert", {"word": "king", "k": 5000}, "words of sample:bert tokens can join a mixture of 5000"),
        ("sample:bert", {"word": "nonesuch"}, "has no row named 'nonesuch'"),
    ],
)
def test_what_cannot_be_mixed_is_said(source: str, given: Any, error: str) -> None:
    with pytest.raises(InputError, match=error):
        hpe.mixture(hpe.extract(source), **given)
    with pytest.raises(InputError, match="is a table of tokens alone"):
        hpe.mixture(hpe.extract(source).token, "king", positions=1)


def test_words_on_a_circle_turn_in_their_plane() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 64))
    angles = np.arange(12) * np.pi / 6
    rows[:12] = 0.2 * rows[:12] + 8 * np.stack([np.cos(angles), np.sin(angles), *np.zeros((62, 12))], axis=1)
    table = hpe.from_arrays(token=rows).token
    found = hpe.word_plane(table, [0, *(str(row) for row in range(1, 12))])
    assert found.share.observed > 0.95
    assert found.turn.observed > 0.95
    assert found.share.beyond
    assert found.turn.beyond
    turned = np.unwrap(np.arctan2(*found.coordinates.T))
    assert abs(turned[-1] - turned[0]) == pytest.approx(11 * np.pi / 6, rel=0.05)
    shuffled = hpe.word_plane(table, [str(row) for row in rng.permutation(12)])
    assert shuffled.share.observed == pytest.approx(found.share.observed)
    assert not shuffled.turn.beyond
    with pytest.raises(InputError, match="at least 4 different words"):
        hpe.word_plane(table, ["1", 2, "2", "3"])
    with pytest.raises(InputError, match="'days', 'numbers'; got 'weeks'"):
        hpe.word_plane(table, "weeks")
    with pytest.raises(InputError, match="has no token '10'"):
        hpe.word_plane(table, "numbers")  # rows have numbers, which are no words


def test_equal_words_have_no_plane_and_random_words_may_be_equal() -> None:
    rows = np.random.default_rng(0).standard_normal((60, 8))
    rows[:45] = rows[0]
    table = hpe.from_arrays(token=rows).token
    found = hpe.word_plane(table, [50, 51, 52, 53], draws=39)
    assert found.share.p > 0.2
    assert found.share.high == 1
    with pytest.raises(InputError, match="are all equal"):
        hpe.word_plane(table, [0, 1, 2, 3])


def test_months_of_minilm_lie_in_a_plane(minilm: hpe.Embeddings) -> None:
    found = hpe.word_plane(minilm.token, "months")
    assert found.turn.observed == pytest.approx(0.314, abs=0.001)
    assert found.turn.beyond
    claim = STUDIES["calendar-circle"].claims[0]
    assert claim.measure({"words": minilm}).value == pytest.approx(found.turn.observed)


def test_random_sets_of_words_have_no_plane() -> None:
    table, rng = hpe.extract("sample:bert").token, np.random.default_rng(3)
    words = [label for label, kind in zip(table.labels, table.labels.classes, strict=True) if kind == 0]
    found = [hpe.word_plane(table, list(rng.choice(words, 7, replace=False)), draws=39) for _ in range(40)]
    assert sum(one.share.beyond for one in found) <= 5
    assert sum(one.turn.beyond for one in found) <= 5
