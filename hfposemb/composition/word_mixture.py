"""A word as a mixture of other words: its row as a weighted sum of a few directions, before and after a position.

The words are found by orthogonal matching pursuit. Rows are taken from the mean word, as they share a direction that is
no word's own. Only positive closeness counts: a mixture is of words that it resembles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..analysis.matching_pursuit import matching_pursuit
from ..analysis.row_values import Floats, Rows
from ..analysis.rows import directed, fits_single
from ..errors import InputError
from ..guesses import several
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.null_comparison import Null, beside
from ..tables.table import EmbeddingTable, all_rows, walk
from ..tables.tabular import Columns, Tabular
from .added_positions import MOST_NUMBERS, AddedPositions, Single, add_positions

DRAWS = 39
"""Number of random vectors; the least with which a share beyond all of them has p ≤ .025."""

SAMPLE = 4096
"""Maximum number of words whose covariance random vectors have, a tenth of all at most."""

SHORTLIST = 1024
"""Number of words closest to a random vector among which all but the first are sought; 256 would miss some."""

LETTERS = 3
"""Minimum number of letters of a word that begins with a letter; shorter ones are mostly abbreviations."""


@dataclass(frozen=True, eq=False)
class Mixture(Tabular):
    """A word's row as a weighted sum of the directions of other words, all taken from the mean word.

    Attributes:
        word: The word.
        row: Its row.
        rows: Rows of the words that it is mixed from [k], in the order in which they joined.
        labels: These words.
        weights: Weight of each [k]: a length along its direction, in the units of the table.
        multiples: Weight of each [k] as a multiple of its row from the mean word.
        explained: Share of the squared length that the first 1 … k words explain [k].
        null: The share that all k explain, beside that of random vectors with the covariance of the words.
        candidates: Number of words that could join.
        positions: The positions added [p].
        weights_at: Weights of the same words, fitted to word and position [p, k], with tokens as long as in the table.
        explained_at: Share of the squared length of word and position that these words explain [p].
    """

    word: str
    row: int
    rows: Rows
    labels: tuple[str, ...]
    weights: Floats
    multiples: Floats
    explained: Floats
    null: Null
    candidates: int
    positions: Rows
    weights_at: Floats
    explained_at: Floats

    def columns(self) -> Columns:
        """Return one row per word of the mixture: ``row``, ``label``, ``weight``, ``multiple`` and ``explained``.

        With positions, there is a column ``position 5`` for each, with the weights at that position.
        """
        at = {f"position {p}": weights for p, weights in zip(self.positions.tolist(), self.weights_at, strict=True)}
        named = {"row": self.rows, "label": self.labels, "weight": self.weights, "multiple": self.multiples}
        return {**named, "explained": self.explained, **at}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON."""
        names = ("row", "label", "weight", "multiple", "explained")
        words = zip(*(np.asarray(self.columns()[name]).tolist() for name in names), strict=True)
        added = zip(self.positions.tolist(), self.weights_at.tolist(), self.explained_at.tolist(), strict=True)
        return {
            "word": self.word,
            "row": self.row,
            "candidates": self.candidates,
            "mixture": [dict(zip(names, line, strict=True)) for line in words],
            "explained": plain(self.null),
            "positions": [
                {"position": place, "weights": weights, "explained": share} for place, weights, share in added
            ],
        }

    def __str__(self) -> str:
        null = self.null
        return "\n".join(
            [
                f"{self.word.strip()} = {self._sum(self.weights)}",
                f"R² {null.observed:.2f}; of {null.draws} random vectors with the words' covariance {null.mean:.2f}, "
                f"in 95 % of them at most {null.high:.2f} (p {null.p:.3f}); {self.candidates:,} words could join",
                *(
                    f"at position {place}: {self._sum(weights)}; R² {share:.2f}"
                    for place, weights, share in zip(self.positions, self.weights_at, self.explained_at, strict=True)
                ),
            ]
        )

    def _sum(self, weights: Floats) -> str:
        """Return the mixture as a sum, the largest weights first: ``0.59 airplanes + 0.37 plane − 0.10 train``."""
        order = np.argsort(-self.weights, kind="stable").tolist()
        signs = ["−" if weight < 0 else "+" for weight in weights]
        parts = [f"{signs[one]} {abs(weights[one]):.2f} {self.labels[one].strip()}" for one in order]
        return " ".join(parts).removeprefix("+ ")


def mixture(
    value: EmbeddingTable | Embeddings | AddedPositions,
    word: int | str,
    k: int = 6,
    *,
    positions: int | Sequence[int] | Rows = (),
    amplitude: float = 1.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> Mixture:
    """Return a word as a mixture of ``k`` others by orthogonal matching pursuit, before and after a position is added.

    Words of the same class as the word can join, such as all that begin one and have three letters or more, but for
    its other spellings. Whether the same words keep their weights when a position is added says whether position and
    word can be told apart.

    Args:
        value: Token table [vocabulary, d], a source with one, or its words with other positions (``add_positions``).
        word: Label or row of the word.
        k: Number of words to mix it from.
        positions: Positions to add to the word, each in turn; these need a source that adds positions to its words.
        amplitude: Factor on the positions; 1 as in the model.
        draws: Number of random vectors with the words' covariance.
        seed: Random seed.

    Raises:
        InputError: If the word is not in the table or has no direction, if fewer than ``k`` words can join, or a
            position does not exist.
        MissingTableError: If positions are given and the source adds none to its words.

    Examples:
        >>> import hfposemb as hpe
        >>> print(str(hpe.mixture(hpe.extract("sample:gpt2"), "king", 3, positions=5)).splitlines()[0])
        king = 0.51 queen + 0.44 the + 0.35 LORD
    """
    if k < 1 or draws < 1:
        raise InputError(f"k and draws must be at least 1; got {k} and {draws}")
    places = np.asarray(several(positions), np.int64)
    if isinstance(value, Embeddings):
        value = add_positions(value) if len(places) else value.token
    if len(places) and isinstance(value, EmbeddingTable):
        raise InputError(f"{value.name} is a table of tokens alone; give the model to add its positions")
    added = value if isinstance(value, AddedPositions) else None
    table = value if isinstance(value, EmbeddingTable) else value.table
    row = table.row(word)
    words = _Words.of(table, row)
    barred = words.spellings(row)
    candidates = int(words.usable.sum() - words.usable[barred].sum())
    if candidates < k:
        advice = "give a smaller k" if candidates else "its other rows are spelled like it, equal, zero or not finite"
        raise InputError(f"{candidates:,} words of {table.name} can join a mixture of {k}; {advice}")
    target = np.asarray(table.take(np.array([row])), np.float64)[0] - words.mean
    found = matching_pursuit(target[None], k, lambda left: words.closeness(left, barred), words.directions, signed=True)
    rows, explained = found.rows[0], found.explained[0]
    basis = words.directions(rows)
    vectors = target[None] if added is None else target + amplitude * added.at(places).astype(np.float64) / added.factor
    weights, _ = _fit(basis, target[None])
    at, shares = _fit(basis, vectors) if len(places) else (np.empty((0, k)), np.empty(0))
    return Mixture(
        word=table.labels[row],
        row=row,
        rows=rows,
        labels=tuple(table.labels[one] for one in rows.tolist()),
        weights=weights[0],
        multiples=weights[0] / words.lengths[rows],
        explained=explained,
        null=beside(float(explained[-1]), words.chance(k, draws, seed), seed=seed, kind="random"),
        candidates=candidates,
        positions=places,
        weights_at=at,
        explained_at=shares,
    )


@dataclass(eq=False)
class _Words:
    """Words of one class that a mixture can be made of, as directions from their mean."""

    table: EmbeddingTable
    usable: NDArray[np.bool_]
    mean: Floats
    lengths: Floats
    shares: dict[tuple[int, int, int], Floats]

    @classmethod
    def of(cls, table: EmbeddingTable, row: int) -> _Words:
        """Return the words of the class of a row, kept for the table's lifetime."""
        if not directed(table)[row]:
            raise InputError(f"row {row} of {table.name} is zero or not finite, so it is no mixture of others")
        kind = int(table.labels.classes[row]), _is_word(table.labels[row])
        kept = _kept.setdefault(table, {})
        if kind not in kept:
            if table.shape[0] * table.shape[1] <= MOST_NUMBERS:
                all_rows(table)  # read once and held, since every word that joins takes another pass
            usable = (table.labels.classes == kind[0]) & directed(table)
            if kind[1]:
                usable &= np.fromiter(map(_is_word, table.labels.texts), bool, len(usable))
            fits_single(table)
            total = np.zeros(table.shape[1])
            for first, block in walk(table):
                total += block[usable[first : first + len(block)]].sum(axis=0, dtype=np.float64)
            mean = total / usable.sum()
            lengths = np.empty(table.shape[0])
            for first, block in walk(table):
                seen = block - mean.astype(block.dtype)
                lengths[first : first + len(block)] = np.sqrt(np.einsum("ij,ij->i", seen, seen))
            usable &= lengths > 0
            kept[kind] = cls(table, usable, mean, lengths, {})
        return kept[kind]

    def spellings(self, row: int) -> Rows:
        """Return the rows that spell the same word, in upper or lower case and with or without a space."""
        texts = self.table.labels.texts
        wanted = texts[row].strip().casefold()
        return np.array([place for place, text in enumerate(texts) if text.strip().casefold() == wanted])

    def directions(self, rows: Rows) -> Floats:
        """Return the directions of words [m, d]."""
        found = np.asarray(self.table.take(rows), np.float64) - self.mean
        return np.asarray(found / self.lengths[rows, None])

    def closeness(self, vectors: Floats, barred: Rows) -> Single:
        """Return how far vectors [m, d] reach along each word's direction [m, rows]; −inf where no word may join."""
        allowed = self.usable.copy()
        allowed[barred] = False
        found = np.full((len(vectors), len(allowed)), -np.inf, np.float32)
        asked, shift = vectors.T.astype(np.float32), (vectors @ self.mean).astype(np.float32)
        for first, block in walk(self.table):
            part = slice(first, first + len(block))
            keep = allowed[part]
            values = (np.asarray(block, np.float32) @ asked - shift)[keep]
            found[:, part][:, keep] = (values / self.lengths[part][keep, None]).T
        return found

    def chance(self, k: int, draws: int, seed: int) -> Floats:
        """Return the share that ``k`` words explain of random vectors with the words' covariance [draws].

        A tenth of the words, which may not join, have that covariance: the others would explain sums of themselves. The
        table is read once for all: later words are sought among the ``SHORTLIST`` closest to a vector. In 21,461
        words of MiniLM that finds the same ones for random vectors, and not for words, of which few words explain more.
        """
        if (k, draws, seed) not in self.shares:
            rng = np.random.default_rng(seed)
            rows = np.flatnonzero(self.usable)
            few = max(1, min(SAMPLE, len(rows) // 10, len(rows) - k))
            some = np.sort(rng.choice(rows, few, replace=False))
            centred = np.asarray(self.table.take(some), np.float64) - self.mean
            drawn = rng.standard_normal((draws, few)) @ centred / np.sqrt(few)
            short = max(k, min(SHORTLIST, len(rows) - few))
            nearest = np.argpartition(self.closeness(drawn, some), -short, axis=1)[:, -short:]
            found = [_explained(self.directions(near), one, k) for near, one in zip(nearest, drawn, strict=True)]
            self.shares[k, draws, seed] = np.array(found)
        return self.shares[k, draws, seed]


_kept: WeakKeyDictionary[EmbeddingTable, dict[tuple[int, bool], _Words]] = WeakKeyDictionary()


def _is_word(text: str) -> bool:
    """Return whether a label is a word of some letters, or of a script whose words may be a single sign."""
    text = text.strip()
    return text.isalpha() and (len(text) >= LETTERS or not text.isascii())


def _explained(directions: Floats, target: Floats, k: int) -> float:
    """Return the share of the squared length of a target [d] that a mixture of ``k`` directions [m, d] explains."""
    found = matching_pursuit(
        target[None], k, lambda left: left @ directions.T, lambda rows: directions[rows], signed=True
    )
    return float(found.explained[0, -1])


def _fit(basis: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return the weights of directions [k, d] for targets [m, d], and the share of their squared length explained."""
    weights = np.asarray(np.linalg.lstsq(basis.T, targets.T, rcond=None)[0].T, np.float64)
    left = targets - weights @ basis
    whole = np.square(targets).sum(axis=1)
    return weights, np.asarray(1 - np.square(left).sum(axis=1) / np.where(whole > 0, whole, 1))
