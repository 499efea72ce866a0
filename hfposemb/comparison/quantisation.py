"""What quantisation did to a token table: the error of each token, the neighbours that it kept, and the worst tokens.

Both tables have the same axes, so they are compared as they are, without a rotation. The null of every figure are the
errors of all numbers in random order, spread evenly over the table: normal ones of the same energy would take a few
large errors for unevenness. Quantisation with a scale per row or group makes errors that are proportional to the
vectors, and so relative errors that are more even than those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import directed
from ..errors import InputError
from ..progress import Report, shown
from ..tables.embeddings import Embeddings
from ..tables.null_comparison import ROUNDING, Null, beside
from ..tables.table import EmbeddingTable
from ..tables.tabular import Columns, Tabular
from ..text import number
from .matched_rows import FEWEST, shared_rows
from .moved_words import Move, described_moves, only_words, row_blocks
from .table_side import directions

SAMPLE = 2_000
"""Maximum number of tokens of the figures with a null; more are sampled with the seed."""

DRAWS = 39
"""Default number of random errors, the fewest whose interval and p agree in two-sided tests."""

LISTED = 10
"""Number of tokens of largest error in the app, in reports and on the command line."""

MEASURES = ("relative error", "cosine", "neighbours kept", "neighbours' rank")
"""Names of the figures with a null."""

_BLOCK = 250
_RANKS = 400

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RandomErrors:
    """Relative errors of the tokens, largest first, if normal errors of the same energy are spread evenly.

    Attributes:
        ranks: Ranks, from 1, at which the errors are known [m].
        mean: Mean error at these ranks [m].
        low: The 2.5 % quantile of the errors at these ranks [m].
        high: The 97.5 % quantile of the errors at these ranks [m].
    """

    ranks: NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class QuantisationDamage(Tabular):
    """A token table and its quantised form.

    Attributes:
        original: Name of the original source.
        quantised: Name of the quantised source.
        stored: How the two token tables are stored.
        labels: Labels of the tokens that were compared [n].
        errors: Relative error of each token, ‖y − x‖ / ‖x‖ [n].
        random: The same errors for normal ones of the same energy, sorted.
        cosines: Cosine of the two vectors of each token [n].
        measures: Means over the ``sampled`` tokens with their nulls: ``relative error``, ``cosine``, ``neighbours
            kept`` (share of the nearest neighbours that are the same) and ``neighbours' rank`` (mean rank, in the
            quantised table, of the original's nearest neighbours, less what it is if all are kept).
        worst: The tokens of largest relative error, as ``distance``, with their neighbours in both tables.
        sampled: Number of tokens in ``measures``.
        k: Number of neighbours.
        notes: Remarks on tokens that were sampled or not listed.
    """

    _document = ("original", "quantised", "sampled", "k", "tokens", "measures", "stored", "worst", "notes")
    original: str
    quantised: str
    stored: tuple[str, str]
    labels: tuple[str, ...]
    errors: Floats
    random: RandomErrors
    cosines: Floats
    measures: Mapping[str, Null]
    worst: tuple[Move, ...]
    sampled: int
    k: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """List the figures with their nulls, and the tokens of largest error."""
        stored = " against ".join(self.stored)
        lines = [f"quantisation of {self.quantised}: {stored}, {len(self.labels):,} tokens of {self.original}"]
        for name, null in self.measures.items():
            chance = f"random errors {number(null.mean)}, {number(null.low)} to {number(null.high)}; p {number(null.p)}"
            lines.append(f"  {name:<20}{number(null.observed):>9}  ({chance})")
        lines += ["  largest relative errors:", *map(str, self.worst)]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    @property
    def tokens(self) -> int:
        """Number of tokens that were compared."""
        return len(self.labels)

    def columns(self) -> Columns:
        """Return one row per token: ``label``, ``relative error`` and ``cosine`` with the original."""
        return {"label": self.labels, "relative error": self.errors, "cosine": self.cosines}


def compare_quantised(
    original: Embeddings,
    quantised: Embeddings,
    *,
    count: int = 20,
    k: int = 10,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Report | None = None,
) -> QuantisationDamage:
    """Measure what quantisation did to the token table of a model.

    Tokens are matched by row if both vocabularies are the same, otherwise by text. Means come with the same means for
    random errors: those of all numbers of the sampled tokens, in random order.

    Args:
        original: The source in full precision.
        quantised: The same model, quantised.
        count: Number of tokens of largest error to list.
        k: Number of neighbours.
        draws: Number of random errors, at least 19.
        seed: Random seed of errors and samples.
        progress: Callback for the share done, 0 to 1, and the stage.

    Raises:
        MissingTableError: If a source has no token table.
        InputError: If the tables differ in width, share fewer than 20 tokens, or are equal.

    >>> import numpy as np
    >>> import hfposemb as hpe
    >>> source = hpe.extract("sample:gpt2")
    >>> rounded = hpe.from_arrays(token=np.round(source.token.vectors, 2), labels=source.token.labels.texts)
    >>> found = hpe.compare_quantised(source, rounded, count=1)
    >>> 0 < found.measures["relative error"].observed < 0.1
    True
    """
    if count < 1 or k < 1 or draws < 19:
        raise InputError(f"count and k must be at least 1 and draws at least 19; got {count}, {k} and {draws}")
    tables = (original.token, quantised.token)
    pairs = _pairs(original, quantised)
    errors, cosines, lengths = _of_each(tables, pairs)
    if not errors.any():
        raise InputError(f"the token tables of {original.name} and {quantised.name} are equal; nothing was quantised")
    notes = [f"{lost:,} rows that are not finite are left out"] if (lost := np.count_nonzero(~tables[1].finite)) else []
    sample = _sampled(pairs, seed, notes)
    with shown("quantisation", progress) as report:
        measures = _measures(tables, sample, k=k, draws=draws, seed=seed, report=report)
    named = only_words(tables, pairs)
    if len(named) < len(pairs):
        notes.append(f"{len(pairs) - len(named):,} unused and special tokens are not listed")
    worst = named[np.argsort(-errors[named], kind="stable")][:count]
    k = min(k, len(pairs) - 1)
    return QuantisationDamage(
        original.name,
        quantised.name,
        (tables[0].provenance.stored_dtype, tables[1].provenance.stored_dtype),
        tuple(tables[0].labels[int(row)] for row in pairs[:, 0]),
        errors,
        _random_errors(errors, lengths, tables[0].shape[1], draws=draws, seed=seed),
        cosines,
        measures,
        described_moves(tables, pairs, worst, errors, k),
        len(sample),
        k,
        tuple(notes),
    )


def quantised_pair(sources: Sequence[Embeddings]) -> tuple[Embeddings, Embeddings] | None:
    """Return the original and the quantised one of two sources; ``None`` if they are not a model in both forms.

    They are if their token tables have the same tokens and width, and one is stored with fewer bits for each number.
    """
    if len(sources) != 2 or not all("token" in source.tables for source in sources):
        return None
    tables = [source.token for source in sources]
    bits = [_bits(table) for table in tables]
    if tables[0].shape != tables[1].shape or None in bits or bits[0] == bits[1]:
        return None
    if tables[0].labels.texts != tables[1].labels.texts:
        return None
    first, second = sources
    return (first, second) if (bits[0] or 0) > (bits[1] or 0) else (second, first)


def quantised_forms(sources: Sequence[Embeddings], *, progress: Report | None = None) -> tuple[QuantisationDamage, ...]:
    """Measure what quantisation did, for every two sources that are a model in both forms and differ.

    Args:
        sources: The sources.
        progress: Callback for the share done of each pair, 0 to 1, and the stage.

    Returns:
        One result for each of these pairs, in the order of the sources; empty if there is none.
    """
    pairs = [pair for two in combinations(sources, 2) if (pair := quantised_pair(two)) is not None]
    found = []
    for original, quantised in pairs:
        try:
            found.append(compare_quantised(original, quantised, count=LISTED, progress=progress))
        except InputError:  # the tables are equal, or too small to compare
            continue
    return tuple(found)


def _bits(table: EmbeddingTable) -> float | None:
    """Return the stored bits of a number, ``None`` for a table that is not stored in a file."""
    stored = table.provenance
    return 8 * stored.nbytes / math.prod(table.shape) if stored.file and stored.nbytes else None


def _pairs(original: Embeddings, quantised: Embeddings) -> NDArray[np.int64]:
    """Return the pairs of rows of the same token [n, 2], with a direction in the original and finite in both."""
    left, right = original.token, quantised.token
    if left.shape[1] != right.shape[1]:
        widths = f"{left.shape[1]} and {right.shape[1]}"
        raise InputError(f"the token tables are {widths} wide; quantisation keeps the width, so they are not one model")
    numbered = not (left.has_names and right.has_names)
    if left.shape[0] != right.shape[0] or not (numbered or left.labels.texts == right.labels.texts):
        return shared_rows(original, quantised, "token")
    rows = np.flatnonzero(directed(left) & right.finite)
    if len(rows) < FEWEST:
        raise InputError(f"{original.name} and {quantised.name} share {len(rows)} tokens; at least {FEWEST} are needed")
    return np.stack([rows, rows], axis=1)


def _sampled(pairs: NDArray[np.int64], seed: int, notes: list[str]) -> NDArray[np.int64]:
    if len(pairs) <= SAMPLE:
        return pairs
    notes.append(f"figures from {SAMPLE:,} of {len(pairs):,} tokens, sampled with seed {seed}")
    return pairs[np.sort(np.random.default_rng(seed).choice(len(pairs), SAMPLE, replace=False))]


def _of_each(tables: tuple[EmbeddingTable, EmbeddingTable], pairs: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return the relative error and the cosine of each token, and its norm in the original [n]."""
    found = [_errors_and_cosines(x, y) for _, x, y in row_blocks(tables, pairs)]
    errors, cosines, lengths = (np.concatenate(part) for part in zip(*found, strict=True))
    return errors, cosines, lengths


def _errors_and_cosines(x: Vectors, y: Vectors) -> tuple[Floats, Floats, Floats]:
    """Return relative errors, cosines and norms of corresponding rows [m]; 0 is the cosine of a row that became 0."""
    wide, other = x.astype(np.float64), y.astype(np.float64)
    left, right, apart = (np.sqrt(np.einsum("ij,ij->i", one, one)) for one in (wide, other, other - wide))
    lengths = left * right
    products = np.einsum("ij,ij->i", wide, other)
    return apart / left, np.divide(products, lengths, out=np.zeros(len(x)), where=lengths > 0), left


def _random_errors(errors: Floats, lengths: Floats, width: int, *, draws: int, seed: int) -> RandomErrors:
    """Return the sorted relative errors of random errors of the same energy, at ranks that are evenly spaced in log."""
    count, rng = len(errors), np.random.default_rng(seed)
    ranks = np.unique(np.geomspace(1, count, min(count, _RANKS)).round().astype(np.int64))
    variance = float(np.mean(np.square(errors * lengths))) / width
    drawn = np.empty((draws, len(ranks)))
    for one in drawn:  # the squared norm of normal numbers has a chi-squared distribution
        found = np.sqrt(variance * rng.chisquare(width, count)) / lengths
        one[:] = np.sort(found)[count - ranks]
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return RandomErrors(ranks, drawn.mean(axis=0), low, high)


def _nearest(rows: Vectors, k: int) -> NDArray[np.int64]:
    """Return the nearest neighbours of rows [n, k], the nearest first."""
    unit, found = directions(rows), np.empty((len(rows), k), np.int64)
    for start in range(0, len(rows), _BLOCK):
        cosines = _cosines(unit, start)
        part = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(cosines, part, axis=1), axis=1, kind="stable")
        found[start : start + _BLOCK] = np.take_along_axis(part, order, axis=1)
    return found


def _kept(nearest: NDArray[np.int64], rows: Vectors) -> tuple[float, float]:
    """Return the share of neighbours [n, k] that other rows keep, and their mean rank beyond that of kept ones.

    Of rows that are equally near, neighbours come first, one after the other.
    """
    count, k = nearest.shape
    unit, same, ranks = directions(rows), 0, 0
    for start in range(0, count, _BLOCK):
        cosines = _cosines(unit, start)
        theirs = np.take_along_axis(cosines, nearest[start : start + _BLOCK], axis=1)
        for one in range(k):
            this = theirs[:, one : one + 1]
            before = (cosines > this).sum(axis=1) + (theirs[:, :one] == this).sum(axis=1)
            same += int((before < k).sum())
            ranks += int(before.sum())
    return same / (count * k), ranks / (count * k) - (k - 1) / 2


def _cosines(unit: Vectors, start: int) -> Vectors:
    """Return the cosines of a block of unit rows with all rows, and −1 less for a row with itself."""
    part = unit[start : start + _BLOCK]
    cosines: Vectors = part @ unit.T
    cosines[np.arange(len(part)), np.arange(start, start + len(part))] = -2
    return cosines


def _measures(
    tables: tuple[EmbeddingTable, EmbeddingTable],
    sample: NDArray[np.int64],
    *,
    k: int,
    draws: int,
    seed: int,
    report: Report,
) -> dict[str, Null]:
    """Return the means over sampled tokens with those of their errors in random order."""
    x, y = (np.asarray(table.take(sample[:, side]), np.float32) for side, table in enumerate(tables))
    nearest = _nearest(x, min(k, len(x) - 1))
    apart, rng = (y - x).ravel(), np.random.default_rng(seed)

    def means(rows: Vectors) -> tuple[float, ...]:
        errors, cosines, _ = _errors_and_cosines(x, rows)
        return float(errors.mean()), float(cosines.mean()), *_kept(nearest, rows)

    observed, drawn = means(y), []
    for at in range(draws):
        report(at / draws, "random errors")
        drawn.append(means(x + rng.permutation(apart).reshape(x.shape)))
    slack = ROUNDING * observed[0] ** 2  # a cosine is less than 1 by half as much
    return {
        name: beside(value, values, seed=seed, kind="permutation", side="both", slack=slack)
        for name, value, values in zip(MEASURES, observed, np.array(drawn).T, strict=True)
    }
