"""The plane that a set of words spans, such as days, months or numbers, and whether they turn in it in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encoding_base import unit_rows
from ...tables.null_comparison import Null, beside
from ...tables.table import EmbeddingTable
from ...tables.tabular import Columns, Tabular
from ..row_values import Floats, Rows
from ..rows import directed

WORD_SETS = {
    "months": (
        *("january", "february", "march", "april", "may", "june"),
        *("july", "august", "september", "october", "november", "december"),
    ),
    "days": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "numbers": tuple(map(str, range(10, 30))),
}
"""Sets of words by name, in their order."""

FEWEST = 4
"""Minimum number of words; three always lie in a plane."""


@dataclass(frozen=True, eq=False)
class WordPlane(Tabular):
    """Words in the plane that holds most of their variance.

    Attributes:
        labels: The words as the vocabulary spells them.
        rows: Their rows [n].
        coordinates: Their places in the plane, from their mean [n, 2].
        share: Share of their variance in the plane, beside that of as many random words of the same class.
        turn: Share of their variance in one turn, the first Fourier mode of their order, beside shuffled orders. An
            open arc has a large one too.
    """

    labels: tuple[str, ...]
    rows: Rows
    coordinates: Floats
    share: Null
    turn: Null

    def columns(self) -> Columns:
        """Return one row per word: ``row``, ``label``, ``x`` and ``y``."""
        x, y = self.coordinates.T
        return {"row": self.rows, "label": self.labels, "x": x, "y": y}

    def __str__(self) -> str:
        share, turn = self.share, self.turn
        return (
            f"{len(self.labels)} words: their plane holds {100 * share.observed:.0f} % of their variance, that of as "
            f"many random words {100 * share.mean:.0f} % (p {share.p:.3f}); one turn in their order holds "
            f"{100 * turn.observed:.0f} %, in shuffled orders {100 * turn.mean:.0f} % (p {turn.p:.3f})"
        )


def word_plane(
    value: EmbeddingTable, words: str | Sequence[int | str], *, draws: int = 199, seed: int = 0
) -> WordPlane:
    """Return the plane that a set of words spans, with its share of their variance beside that of random words.

    Rows have unit length, and words are found as they are written in a text, with a space or a capital letter.

    Args:
        value: Token table [vocabulary, d].
        words: At least four words or rows in their order, or the name of a set: ``"days"``, ``"months"`` or
            ``"numbers"``.
        draws: Number of random sets of words, and of shuffled orders.
        seed: Random seed.

    Raises:
        InputError: If a word is no token or has no direction, fewer than four are given, or their rows are all equal.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.word_plane(hpe.extract("sample:gpt2").token, ["king", "queen", "lord", "prince", "duke"])
        >>> found.coordinates.shape, 0 < found.share.mean < found.share.observed
        ((5, 2), True)
    """
    if isinstance(words, str):
        if words not in WORD_SETS:
            raise InputError(f"words must be a list, or one of {', '.join(map(repr, WORD_SETS))}; got {words!r}")
        words = WORD_SETS[words]
        rows, vectors = rows_of_set(value, words)
    else:
        words = several(words)
        rows, vectors = spelt_rows(value, words)
    if len(set(rows.tolist())) < max(FEWEST, len(rows)):
        raise InputError(f"a plane needs at least {FEWEST} different words; got {', '.join(map(str, words))}")
    classes = value.labels.classes
    others = np.flatnonzero(directed(value) & np.isin(classes, np.unique(classes[rows])))
    rng = np.random.default_rng(seed)
    drawn = (rng.choice(others, len(rows), replace=False) for _ in range(draws))
    shares = np.array([_plane(unit_rows(value.take(some)))[1] for some in drawn])
    coordinates, share = _plane(vectors)
    return WordPlane(
        tuple(value.labels[row].strip() for row in rows.tolist()),
        rows,
        coordinates,
        beside(share, shares, seed=seed, kind="random"),
        turn(vectors, draws=draws, seed=seed),
    )


def turn(vectors: NDArray[np.floating], *, draws: int, seed: int) -> Null:
    """Return the share of the variance of vectors [n, d] in one turn of their order, beside shuffled orders.

    Raises:
        InputError: If all of them are equal.
    """
    if not np.ptp(vectors, axis=0).any():
        raise InputError("the rows of these words are all equal, so they have no order; give words that differ")
    rng = np.random.default_rng(seed)
    shuffled = np.array([_first_mode(vectors[rng.permutation(len(vectors))]) for _ in range(draws)])
    return beside(_first_mode(vectors), shuffled, seed=seed, kind="permutation")


def _plane(vectors: NDArray[np.floating]) -> tuple[Floats, float]:
    """Return the places of vectors [n, d] in the plane of most variance [n, 2], and the share of variance in it.

    The share of equal vectors, of which a table with many equal rows gives some at random, is 1.
    """
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    return left[:, :2] * sizes[:2], float(sizes[:2] @ sizes[:2] / (sizes @ sizes)) if sizes.any() else 1.0


def _first_mode(vectors: NDArray[np.floating]) -> float:
    """Return the share of the variance of vectors in a cycle that is in their first Fourier mode, one turn a cycle."""
    power = np.square(np.abs(np.fft.rfft(vectors - vectors.mean(axis=0), axis=0))).sum(axis=1)
    power[1 : (len(vectors) + 1) // 2] *= 2  # all but the mean and, for an even count, the fastest come in pairs
    return float(power[1] / power.sum())


def rows_of_set(table: EmbeddingTable, words: Sequence[str]) -> tuple[Rows, Floats]:
    """Return the rows [n] and unit vectors of words that nobody typed, among which the number of a row is no word."""
    if not table.has_names:
        raise InputError(f"{table.name} has no token {words[0]!r}")
    return spelt_rows(table, words)


def spelt_rows(table: EmbeddingTable, words: Sequence[str | int]) -> tuple[Rows, Floats]:
    """Return the rows of words [n], as they are written in a text or with a capital letter, and their unit vectors.

    A row number is a row. Raises ``InputError`` for a word that is no token or has no direction.
    """
    rows = np.array([_spelt_row(table, word) for word in words], np.int64)
    for row in rows[~directed(table)[rows]].tolist():
        raise InputError(f"the row of {table.labels[row].strip()!r} is zero or not finite in {table.name}")
    return rows, unit_rows(table.take(rows))


def _spelt_row(table: EmbeddingTable, word: str | int) -> int:
    if not isinstance(word, str):
        return table.row(word)
    for spelling in (word, word.capitalize()):
        if spelling in table:
            return table.row(spelling)
    raise InputError(f"{table.name} has no token {word!r}")
