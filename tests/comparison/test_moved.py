"""Words that moved: planted ones are found, whatever rotation and scale, and chance moves all of them far."""

from __future__ import annotations

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.comparison.moved_words import find_moved_words
from tests.support.made_tables import ROWS, WIDTH, WORDS, noise, source, turned


@pytest.mark.parametrize("width", [WIDTH, 20])
def test_planted_words_are_found(width: int) -> None:
    rows = noise(ROWS, WIDTH)
    other = rows + 0.01 * noise(ROWS, WIDTH, 1)
    other[[7, 130]] = noise(2, WIDTH, 2)
    found = find_moved_words(source(rows, "here"), source(turned(other, width=width), "there"), count=2, k=5)
    assert {move.label for move in found.most} == {"word7", "word130"}
    assert all(move.distance > 0.3 for move in found.most)
    assert all(move.distance < 0.05 for move in found.least)
    assert all(move.kept > 0.7 for move in found.least)
    for move in found.most:
        cosines = [cosine for _, cosine in move.left]
        assert cosines == sorted(cosines, reverse=True)
        assert move.label not in dict(move.left)
    assert found.mean == pytest.approx(found.null.observed)
    assert found.null.p == 0.05
    assert found.null.low > 10 * found.mean
    assert (found.shared, found.rows) == (ROWS, ROWS)


def test_it_is_the_same_from_either_side_and_for_any_length() -> None:
    """A distance is relative: it does not grow with the size of a table, or depend on its mean or which is turned."""
    order = np.random.default_rng(2).permutation(ROWS)
    mixed = [WORDS[row] for row in order]
    here, there = source(noise(ROWS, 6), "here"), source(noise(ROWS, 9, 1)[order], "there", mixed)
    one, other = find_moved_words(here, there, count=ROWS), find_moved_words(there, here, count=ROWS)
    assert one.mean == pytest.approx(other.mean, abs=1e-6)
    assert {m.label: pytest.approx(m.distance, abs=1e-5) for m in one.most} == {m.label: m.distance for m in other.most}
    assert one.most[0].distance <= 2**0.5
    far = source(noise(ROWS, 9, 1)[order] + 9, "there", mixed)
    larger = find_moved_words(source(1000 * noise(ROWS, 6) + 9000, "here"), far, count=ROWS)
    assert larger.mean == pytest.approx(one.mean, abs=1e-5)
    for move in one.most:
        for rows, near in ((noise(ROWS, 6), move.left), (noise(ROWS, 9, 1), move.right)):
            units = rows / np.linalg.norm(rows, axis=1)[:, None]
            cosines = units @ units[WORDS.index(move.label)]
            best = np.argsort(-cosines)[1:11]
            assert near == tuple((WORDS[row], pytest.approx(cosines[row], abs=1e-6)) for row in best)


def test_words_are_matched_by_text() -> None:
    upper = [f"Ġ{word.upper()}" if row % 2 else word for row, word in enumerate(WORDS)]
    plain, other = (
        source(noise(ROWS, 4), "plain"),
        source(noise(ROWS, 4, 1), "other", [w.removeprefix("Ġ") for w in upper]),
    )
    assert find_moved_words(plain, other).shared == ROWS // 2
    assert find_moved_words(plain, other, fold_case=True).shared == ROWS


def test_chance_is_of_a_stated_sample() -> None:
    many = [f"w{row}" for row in range(2_001)]
    found = find_moved_words(source(noise(2_001, 4), "a", many), source(noise(2_001, 4, 1), "b", many), count=3)
    assert (found.shared, found.rows) == (2_001, 2_000)
    assert found.null.observed == pytest.approx(found.mean, abs=1e-3), "all words but one, each once"
    assert "2,000 of 2,001 shared words, sampled with seed 0" in found.notes[0]


def test_whole_words_are_listed_before_signs_numbers_and_pieces() -> None:
    odd = ['"', "4", "[", "ly", "…"]
    words = [f"Ġ{a}{b}{c}" for a in "abc" for b in "aeiou" for c in "dn"]
    left = noise(len(odd) + len(words), 4)
    right = left + 0.01 * noise(len(left), 4, 1)
    right[: len(odd)] *= -1
    sides = [source(rows, name, [*odd, *words]) for name, rows in (("a", left), ("b", right))]
    found = find_moved_words(*sides, count=20)
    assert not {move.label.strip() for move in found.most} & set(odd)
    assert found.notes[0].startswith(f"{len(odd)} pieces of words, numbers, signs")
    few = find_moved_words(*sides, count=len(words) + 1)
    assert {move.label.strip() for move in few.most[: len(odd)]} == set(odd), "there are not as many whole words"


def test_what_cannot_be_told_says_so() -> None:
    words = source(noise(ROWS, 4), "words")
    with pytest.raises(hpe.HfposembError, match="share 5 tokens; at least 20"):
        find_moved_words(words, source(noise(5, 4), "few", WORDS[:5]))
    centred = source(np.concatenate([half := noise(ROWS // 2, 4), -half]), "centred")
    rounded = 1000 * (1 + 1e-7 * (noise(ROWS, 4) > 0))
    for flat in (np.ones((ROWS, 4)), rounded):
        for other in (words, centred):
            with pytest.raises(hpe.HfposembError, match="the same vector"):
                find_moved_words(other, source(flat, "flat"))
    with pytest.raises(hpe.HfposembError, match="must be at least 1"):
        find_moved_words(words, words, count=0)
    with pytest.raises(hpe.HfposembError, match="no token table"):
        find_moved_words(words, hpe.sinusoidal(30, 4))
    assert len(find_moved_words(words, words, k=10**6).most[0].left) == ROWS - 1
