"""Words that two vocabularies use differently, by how far each shared word moves once the tables are aligned.

Both tables are centred over the shared words and scaled to the same size, and one is rotated onto the other
(Procrustes). The distance of a word from itself is then taken relative to its lengths, √(‖x − y‖² / (‖x‖² + ‖y‖²)): 0
if it did not move, 1 if its two vectors have nothing in common, √2 if they are opposite. An absolute distance would
only find the longest vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.nulls.surrogates import over_surrogates
from ..analysis.rows import fits_single
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.null_comparison import Null, beside
from ..tables.table import TOKEN_CLASSES, EmbeddingTable
from ..tables.tabular import Columns, Tabular
from ..text import number, percent
from .matched_rows import shared_rows
from .table_side import directions

MOVES_DRAWS = 19
"""Number of permutations in the null of the mean distance, which hardly varies among them."""

CHANCE_WORDS = 2_000
"""Maximum number of shared words in the null; more are sampled with the seed."""

BLOCK_ROWS = 512

Pairs = NDArray[np.int64]
Floats = NDArray[np.float32]

CONTINUATION = TOKEN_CLASSES.index("continuation")
NOT_WORDS = tuple(TOKEN_CLASSES.index(name) for name in ("unused", "special", "padding"))


@dataclass(frozen=True)
class Move:
    """A word that two tables share, and how far it moved.

    Attributes:
        label: Label of the word.
        distance: Relative distance of the word from itself.
        kept: Share of its nearest neighbours that are the same in both tables.
        left: Its nearest shared words in the first table, as (label, cosine).
        right: Its nearest shared words in the second table, as (label, cosine).
    """

    label: str
    distance: float
    kept: float
    left: tuple[tuple[str, float], ...]
    right: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """Return a line of a list of words: the distance, the share of neighbours kept, and three in each table."""
        near = " / ".join(", ".join(repr(label) for label, _ in side[:3]) for side in (self.left, self.right))
        return f"    {self.label!r:<24}{number(self.distance):>7}  {percent(self.kept)} kept  {near}"


@dataclass(frozen=True)
class Moves(Tabular):
    """The words that moved most and least between two vocabularies.

    Attributes:
        left: Name of the first source.
        right: Name of the second source.
        most: The words that moved most, the farthest first.
        least: The words that moved least, the nearest first.
        mean: Mean distance over all shared words.
        null: Mean distance over ``rows`` words, compared with that of permuted rows; p counts permutations with at most
            that distance.
        shared: Number of shared words.
        rows: Number of words in ``null``.
        notes: Remarks on sampled and unlisted words.
    """

    left: str
    right: str
    most: tuple[Move, ...]
    least: tuple[Move, ...]
    mean: float
    null: Null
    shared: int
    rows: int
    notes: tuple[str, ...] = ()

    def columns(self) -> Columns:
        """Return one row per listed word: ``list``, most or least, ``label``, ``distance`` and ``kept``."""
        moves = [*(("most", move) for move in self.most), *(("least", move) for move in self.least)]
        of_words = {name: [getattr(move, name) for _, move in moves] for name in ("label", "distance", "kept")}
        return {"list": [name for name, _ in moves], **of_words}


def find_moved_words(
    left: Embeddings, right: Embeddings, *, count: int = 20, k: int = 10, seed: int = 0, fold_case: bool = False
) -> Moves:
    """Return the words whose vectors moved most, and those that moved least, between two vocabularies.

    Words are matched as in ``align``. All tokens take part in the alignment; pieces of words, numbers and signs are
    listed only where there are fewer than ``count`` whole words, unused and special tokens never.

    Args:
        left: First source.
        right: Second source.
        count: Number of words listed of each kind.
        k: Number of neighbours given for each word.
        seed: Random seed of the null.
        fold_case: Whether words are matched regardless of case.

    Raises:
        InputError: If there are fewer than 20 shared words, or all of a table's have the same vector.
    """
    pairs = shared_rows(left, right, "token", fold_case=fold_case)
    return moved_between((left.token, right.token), pairs, (left.name, right.name), count=count, k=k, seed=seed)


def moved_between(
    tables: tuple[EmbeddingTable, EmbeddingTable],
    pairs: Pairs,
    names: tuple[str, str],
    *,
    count: int,
    k: int,
    seed: int,
) -> Moves:
    """Return the moves between two tables whose corresponding rows are known.

    Args:
        tables: The two tables.
        pairs: Row of the first and row of the second table for each word [words, 2].
        names: Their names.
        count: Number of words listed of each kind.
        k: Number of neighbours given for each word.
        seed: Random seed of the null.

    Raises:
        InputError: For ``count`` or ``k`` below 1, and if all rows of a table are equal.
    """
    if count < 1 or k < 1:
        raise InputError(f"count and k must be at least 1; got count={count} and k={k}")
    for table in tables:
        fits_single(table)
    distances = _turned_distances(lambda: row_blocks(tables, pairs), len(pairs))
    rng = np.random.default_rng(seed)
    notes: list[str] = []
    sample = pairs
    if len(pairs) > CHANCE_WORDS:
        sample = pairs[np.sort(rng.choice(len(pairs), CHANCE_WORDS, replace=False))]
        notes.append(f"chance level from {CHANCE_WORDS:,} of {len(pairs):,} shared words, sampled with seed {seed}")
    null = _by_chance(tables, sample, rng, seed)
    named = only_words(tables, pairs)
    what = "unused and special tokens"
    if len(whole := _whole_words(tables[0], pairs, named)) >= count:
        named, what = whole, "pieces of words, numbers, signs, unused and special tokens"
    if len(named) < len(pairs):
        notes.append(f"{len(pairs) - len(named):,} {what} are not listed")
    order = named[np.argsort(distances[named], kind="stable")]
    k = min(k, len(pairs) - 1)
    least, most = order[:count], order[::-1][:count]
    moves = described_moves(tables, pairs, np.concatenate([most, least]), distances, k)
    lists, sizes = (moves[: len(most)], moves[len(most) :]), (len(pairs), len(sample))
    return Moves(*names, *lists, float(distances.mean()), null, *sizes, tuple(notes))


def _by_chance(
    tables: tuple[EmbeddingTable, EmbeddingTable], pairs: Pairs, rng: np.random.Generator, seed: int
) -> Null:
    """Compare the mean distance with that of permuted words."""
    x, y = (np.asarray(table.take(pairs[:, side]), np.float32) for side, table in enumerate(tables))
    parts = [slice(start, start + BLOCK_ROWS) for start in range(0, len(pairs), BLOCK_ROWS)]

    def mean(number: int, order: NDArray[np.int64]) -> float:
        return float(_turned_distances(lambda: ((part, x[part], y[order[part]]) for part in parts), len(x)).mean())

    orders = (rng.permutation(len(x)) for _ in range(MOVES_DRAWS))
    drawn = np.array(list(over_surrogates(mean, orders, nbytes=x.nbytes + y.nbytes)))
    return beside(mean(0, np.arange(len(x))), drawn, seed=seed, kind="permutation", side="less")


def row_blocks(tables: tuple[EmbeddingTable, EmbeddingTable], pairs: Pairs) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield corresponding rows of both tables in blocks."""
    for start in range(0, len(pairs), BLOCK_ROWS):
        part = pairs[start : start + BLOCK_ROWS]
        x, y = (np.asarray(table.take(part[:, side]), np.float32) for side, table in enumerate(tables))
        yield slice(start, start + len(part)), x, y


def _turned_distances(blocks: Callable[[], Iterator[tuple[slice, Floats, Floats]]], count: int) -> NDArray[np.float64]:
    """Return the relative distance of each pair of rows after centring, scaling and rotation [pairs], 0 to √2."""
    sums: list[NDArray[np.float64]] = []
    for _, *both in blocks():
        part = [rows.sum(axis=0, dtype=np.float64) for rows in both]
        sums = [total + one for total, one in zip(sums, part, strict=True)] if sums else part
    means = [(total / count).astype(np.float32) for total in sums]
    cross, squares = np.zeros((len(means[0]), len(means[1]))), np.zeros((2, count))
    for where, *both in blocks():
        x, y = (rows - mean for rows, mean in zip(both, means, strict=True))
        cross += x.T @ y
        squares[:, where] = [np.einsum("ij,ij->i", rows, rows, dtype=np.float64) for rows in (x, y)]
    totals = squares.sum(axis=1)
    if not (totals > [1e-12 * count * float(mean @ mean) for mean in means]).all():
        raise InputError("all shared words of one table have the same vector, so the vocabularies cannot be aligned")
    turn = _turn(cross).astype(np.float32)
    products = np.empty(count)
    for where, *both in blocks():
        x, y = (rows - mean for rows, mean in zip(both, means, strict=True))
        products[where] = np.einsum("ij,ij->i", x @ turn, y, dtype=np.float64)
    squares /= totals[:, None]
    lengths = squares.sum(axis=0)
    apart = np.maximum(lengths - 2 * products / np.sqrt(totals.prod()), 0)
    return np.asarray(np.sqrt(np.divide(apart, lengths, out=np.zeros(count), where=lengths > 0)))


def _turn(cross: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return U Vᵀ of XᵀY, which rotates X onto Y; by eigenvectors of its square, four times as fast as by SVD.

    Directions that the tables do not share are dropped. Overwrites its argument to save memory, because several threads
    run it at once.
    """
    import scipy.linalg

    if cross.shape[0] < cross.shape[1]:
        return _turn(cross.T).T
    square = (cross.T @ cross).T  # symmetric; column-major order, which LAPACK needs no copy of
    values, vectors = scipy.linalg.eigh(square, driver="evr", overwrite_a=True)
    del square
    first = int(np.searchsorted(values, values[-1] * 1e-12, "right"))
    vectors = vectors[:, first:]
    turned = cross @ vectors
    turned /= np.sqrt(values[first:])
    return np.matmul(turned, vectors.T, out=cross)


def only_words(tables: tuple[EmbeddingTable, EmbeddingTable], pairs: Pairs) -> NDArray[np.int64]:
    """Return the indices of pairs that are words, not unused or special tokens in either table."""
    classes = np.stack([table.labels.classes[pairs[:, side]] for side, table in enumerate(tables)])
    return np.flatnonzero(~np.isin(classes, NOT_WORDS).any(axis=0))


def _whole_words(table: EmbeddingTable, pairs: Pairs, named: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of some pairs that begin a word and have letters only, at least three of a script that has cases."""
    labels = table.labels
    words = [labels.texts[row].strip() for row in pairs[named, 0].tolist()]
    letters = [word.isalpha() and (len(word) > 2 or word.lower() == word.upper()) for word in words]
    return np.asarray(named[(labels.classes[pairs[named, 0]] != CONTINUATION) & np.array(letters, bool)])


def described_moves(
    tables: tuple[EmbeddingTable, EmbeddingTable],
    pairs: Pairs,
    chosen: NDArray[np.int64],
    distances: NDArray[np.float64],
    k: int,
) -> tuple[Move, ...]:
    """Return selected words with their distances and neighbours in both tables.

    Args:
        tables: The two tables.
        pairs: Row of the first and row of the second table for each word [words, 2].
        chosen: Indices of the selected words among the pairs [m].
        distances: Distance of each word from itself [words].
        k: Number of neighbours.
    """
    labels = tables[0].labels
    near = [_nearest(table, pairs[:, side], chosen, k) for side, table in enumerate(tables)]
    found = []
    for place, word in enumerate(chosen):
        left, right = (
            tuple((labels[int(pairs[row, 0])], float(cosine)) for row, cosine in side[place]) for side in near
        )
        same = len({row for row, _ in near[0][place]} & {row for row, _ in near[1][place]})
        found.append(Move(labels[int(pairs[word, 0])], float(distances[word]), same / k, left, right))
    return tuple(found)


def _nearest(
    table: EmbeddingTable, rows: NDArray[np.int64], chosen: NDArray[np.int64], k: int
) -> list[list[tuple[int, float]]]:
    """Return the ``k`` shared words nearest to each selected one, as (index among the shared words, cosine)."""
    asked = _unit_rows(table, rows[chosen])
    cosines = np.empty((len(chosen), len(rows)), np.float32)
    for start in range(0, len(rows), BLOCK_ROWS):
        cosines[:, start : start + BLOCK_ROWS] = asked @ _unit_rows(table, rows[start : start + BLOCK_ROWS]).T
    cosines[np.arange(len(chosen)), chosen] = -np.inf
    best = [np.argsort(-found, kind="stable")[:k] for found in cosines]
    return [[(int(row), float(cosines[place, row])) for row in near] for place, near in enumerate(best)]


def _unit_rows(table: EmbeddingTable, rows: NDArray[np.int64]) -> Floats:
    return directions(np.asarray(table.take(rows), np.float32))
