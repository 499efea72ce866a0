"""Rows for tokens that only another model has: how well each method makes them, and which would become salient.

The methods are those of mergekit's tokensurgeon, whose *base* keeps its space and whose *donor* has the tokens. Their
quality is measured on tokens that both have, hidden from the method. A breaker token (Liu et al., arXiv 2601.00065) is
one whose weights cancel in the donor and add up in the base; its row grows as no ordinary token's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import leading_eigenvectors
from ..analysis.matching_pursuit import matching_pursuit
from ..analysis.row_values import Floats, Rows
from ..analysis.rows import directed, mean_row
from ..errors import InputError
from ..guesses import several, unknown_choice
from ..progress import Report, shown
from ..tables.documents import plain
from ..tables.embeddings import Embeddings, from_arrays
from ..tables.null_comparison import Null, beside
from ..tables.table import TOKEN_CLASSES, EmbeddingTable
from ..tables.tabular import Columns, Facts, Tabular
from ..text import number
from .matched_rows import with_names
from .row_fingerprints import as_open
from .table_side import NEIGHBOURS, directions

Method: TypeAlias = Literal["mean", "subword", "omp"]
Model: TypeAlias = "str | Path | Embeddings | EmbeddingTable"
Singles: TypeAlias = NDArray[np.float32]

METHODS: Mapping[Method, str] = {
    "mean": "mean of all rows",
    "subword": "mean of the subwords' rows",
    "omp": "sparse sum of shared rows",
}
"""What each method makes a row of."""

HIDDEN, FEWEST = 256, 20
"""Shared tokens that are hidden, of few a quarter at most, and the fewest that say anything."""

DRAWS = 39
"""Shufflings of the hidden tokens, the fewest that allow p ≤ .025."""

SALIENT = 16.0
"""Salience above which a token is called a breaker, unless a hidden one has more: of the ordinary tokens of the samples
at most 1 in 1,000 does."""

DOMINANT, SAMPLED = 16, 4096
"""Number of leading directions of the base that rows are projected on, and rows that these are computed from."""

LISTED = 20
"""Breakers that are listed."""

_BATCH, _BATCH_NUMBERS = 64, 2**25
_LEFT_OUT = tuple(TOKEN_CLASSES.index(name) for name in ("unused", "padding"))


@dataclass(frozen=True)
class TransplantQuality(Facts):
    """How close the rows that a method makes of hidden tokens are to those that these have.

    Attributes:
        method: The method.
        cosine: Mean cosine of the row made and the true one, beside that with another hidden token's.
        kept: Share of the true row's ten nearest tokens that are those of the one made, among the shared tokens that
            are not hidden, beside the same.
    """

    method: Method
    cosine: Null
    kept: Null


@dataclass(frozen=True, eq=False)
class Transplant(Tabular):
    """Rows in the space of a base model for tokens that only a donor has.

    Attributes:
        base: Name of the base, whose space the rows are in.
        donor: Name of the donor.
        method: How the rows were made.
        k: Number of shared rows in a sparse sum.
        rows: Rows of the tokens in the donor [m].
        labels: These tokens.
        vectors: Their rows in the base [m, width].
        salience: How far each grew and turned beyond what most tokens did, in their deviations, times its length in
            those of the base's median row [m]; ``None`` unless the method is ``"omp"``.
        threshold: Salience above which a token would become salient: 16, or the largest of the hidden tokens, which
            nobody can have planted for this.
        quality: The quality of every method on hidden tokens.
        shared: Number of tokens that both have.
        alone: Number of tokens that only the donor has.
        hidden: Number of hidden tokens.
        notes: What else the base needs: rows of its output head, if it is not tied.
    """

    _document = ("base", "donor", "method", "k", "shared", "alone", "hidden", "quality", "threshold", "notes")
    base: str
    donor: str
    method: Method
    k: int
    rows: Rows
    labels: tuple[str, ...]
    vectors: Singles
    salience: Floats | None
    threshold: float
    quality: tuple[TransplantQuality, ...]
    shared: int
    alone: int
    hidden: int
    notes: tuple[str, ...] = ()

    @property
    def breakers(self) -> tuple[int, ...]:
        """Places among the rows of those that would become salient, the strongest first."""
        if self.salience is None:
            return ()
        order = np.argsort(-self.salience, kind="stable")
        return tuple(order[self.salience[order] > self.threshold].tolist())

    @property
    def best(self) -> TransplantQuality:
        """The method that keeps most neighbours."""
        return max(self.quality, key=lambda one: (one.kept.observed, one.cosine.observed))

    @property
    def table(self) -> EmbeddingTable:
        """The rows as a table, which can be saved."""
        if not len(self.rows):
            raise InputError(f"{self.donor} has no tokens that {self.base} lacks, so there are no rows to save")
        return from_arrays(token=self.vectors, labels=self.labels, name=f"{self.donor} in {self.base}").token

    def columns(self) -> Columns:
        """Return a line per token: ``row`` in the donor, ``label``, ``norm``, ``salience`` and ``breaker``."""
        found = np.isin(np.arange(len(self.rows)), self.breakers)
        salience = np.full(len(self.rows), np.nan) if self.salience is None else self.salience
        norms = np.linalg.norm(self.vectors, axis=1)
        return {"row": self.rows, "label": self.labels, "norm": norms, "salience": salience, "breaker": found}

    def __str__(self) -> str:
        """State the tokens, the quality of the methods, and the breakers."""
        lines = [
            f"{self.donor} into {self.base}: {self.shared:,} shared tokens, {self.alone:,} that only {self.donor} has",
            f"on {self.hidden} hidden shared tokens (chance: another hidden token's row)",
        ]
        for one in self.quality:
            parts = (f"{name} {_beside(null)}" for name, null in (("cosine", one.cosine), ("kept", one.kept)))
            lines.append(f"  {one.method:<8}{METHODS[one.method]:<28}{', '.join(parts)}")
        if self.salience is not None and len(self.rows):
            said = f"{len(self.breakers):,} of {len(self.rows):,} tokens would become salient in the base"
            lines.append(f"{said}, salience above {self.threshold:.3g}; the largest is {self.salience.max():.1f}")
            lines += [f"  {self.labels[one]!r}: {self.salience[one]:.1f}" for one in self.breakers[:LISTED]]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON, without the rows."""
        salience = [] if self.salience is None else self.salience.tolist()
        broken = [
            {"row": self.rows[one], "label": self.labels[one], "salience": salience[one]} for one in self.breakers
        ]
        largest = max(salience, default=None)
        return {**super().to_dict(), "made": len(self.rows), "largest_salience": largest, "breakers": plain(broken)}


def _beside(null: Null) -> str:
    return f"{number(null.observed)} (chance {number(null.mean)})"


def transplant(
    base: Model,
    donor: Model,
    method: Method = "omp",
    *,
    k: int = 64,
    tokens: int | Sequence[str] | None = None,
    seed: int = 0,
    progress: Report | None = None,
) -> Transplant:
    """Make rows in the space of ``base`` for tokens that only ``donor`` has, and measure how well that works.

    Every method is tried on shared tokens that are hidden from it. The sparse sum is that of mergekit's tokensurgeon:
    the ``k`` shared rows of the donor that orthogonal matching pursuit finds for a token's row, and their weights, with
    the same tokens' rows of the base.

    Args:
        base: The model whose space the rows are in: an open source, a name or path, or a table such as a head.
        donor: The model that has the tokens.
        method: ``"mean"`` of all rows, ``"subword"``: the mean of the rows of the token's pieces in the base, or
            ``"omp"``: a sparse sum of shared rows.
        k: Number of shared rows in a sparse sum.
        tokens: Which of the tokens to make rows for: all by default, so many at random, or those named.
        seed: Seed of what is hidden and drawn.
        progress: Called with the share done and the stage.

    Returns:
        The rows, the quality of each method, and tokens that would become salient.

    Raises:
        InputError: If fewer than ``k`` and 20 hidden tokens are shared, a token is not the donor's alone, or rows have
            no names.
        SourceError: If a source cannot be opened.
        MissingTableError: If it has no token table.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.transplant("sample:gpt2", "sample:bert", tokens=100)
        >>> found.vectors.shape, found.best.method, len(found.breakers)
        ((100, 128), 'omp', 0)
    """
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_choice("method", method, get_args(Method))
    if k < 1:
        raise InputError(f"k, the number of rows in a sum, must be a whole number of at least 1; got {k}")
    with shown("transplanting", progress) as told:
        opened, given = (one if isinstance(one, EmbeddingTable) else as_open(one) for one in (base, donor))
        pair = _Pair.of(_table(opened), _table(given), k, seed)
        wanted = pair.chosen(tokens, seed)
        quality, sums = pair.measured(seed, lambda share: told(0.1 + 0.4 * share, "hidden tokens"))
        salience, threshold = None, SALIENT
        if method == "omp":
            vectors = np.asarray(pair.donor.take(wanted), np.float64) / pair.scales[1]
            made = pair.sums(vectors, 0, lambda share: told(0.5 + 0.5 * share, "tokens of the donor"))
            salience, threshold = _salience(vectors, made, sums, pair.ours)
        elif method == "subword":
            made = pair.pieces([pair.labels[row] for row in wanted.tolist()], cut=_cut(opened))
        else:
            made = np.repeat(pair.mean[None], len(wanted), axis=0)
    rows = (made * pair.scales[0]).astype(np.float32)
    labels = tuple(pair.donor.labels[row] for row in wanted.tolist())
    named = (pair.base.provenance.source, pair.donor.provenance.source)
    sizes = (len(pair.places), len(pair.alone), pair.hidden)
    notes = _notes(opened)
    return Transplant(*named, method, k, wanted, labels, rows, salience, threshold, quality, *sizes, notes)


def _notes(base: Embeddings | EmbeddingTable) -> tuple[str, ...]:
    ties = () if isinstance(base, EmbeddingTable) else base.ties.values()
    if not any(one.token == "token" and not one.tied for one in ties):
        return ()
    made = "these are for its token table; hpe.transplant(base.head, donor.head) makes those of the head"
    return (f"the output head of {base.name} is not tied and needs rows, too: {made}",)


def _table(model: Embeddings | EmbeddingTable) -> EmbeddingTable:
    """Return the table of a model whose rows have names."""
    return with_names(model if isinstance(model, EmbeddingTable) else model.token)


def token_keys(table: EmbeddingTable) -> dict[str, int]:
    """Return the first row of each token's text, with a space before those that begin a word, in any notation."""
    labels = table.labels
    marked = any(text.startswith("##") for text in labels.texts)
    found: dict[str, int] = {}
    for row, (text, kind) in enumerate(zip(labels.texts, labels.classes.tolist(), strict=True)):
        if marked:
            text = text[2:] if text.startswith("##") else f" {text}" if text[:1].isalnum() else text
        if text.strip() and kind not in _LEFT_OUT:
            found.setdefault(text, row)
    return found


def _cut(base: Embeddings | EmbeddingTable) -> Callable[[str], Sequence[int]] | None:
    """Return what cuts a text into ids of the base, without those that its tokenizer adds around a text."""
    cut = None if isinstance(base, EmbeddingTable) else base.cut
    if cut is None:
        return None
    around = set(cut("").ids)
    return lambda text: [one for one in cut(text).ids if one not in around]


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two tables with the rows of shared tokens, the hidden ones first.

    Vectors are divided by the table's scale, a power of two near its largest number, so that no square overflows.
    """

    base: EmbeddingTable
    donor: EmbeddingTable
    k: int
    hidden: int
    places: Rows
    """Rows of shared tokens in the base and the donor [n, 2]."""
    alone: Rows
    """Rows of the donor's other tokens."""
    labels: Mapping[int, str]
    """Texts by row of the donor."""
    known: Mapping[str, int]
    """Rows of the base by text."""
    ours: Singles
    """Rows of shared tokens in the base [n, width]."""
    theirs: Singles
    """The same in the donor."""
    mean: Floats
    """Mean row of the base."""
    scales: tuple[float, float]
    """Scales of the base and the donor."""

    @classmethod
    def of(cls, base: EmbeddingTable, donor: EmbeddingTable, k: int, seed: int) -> _Pair:
        known, given = token_keys(base), token_keys(donor)
        usable = directed(base), directed(donor)
        texts = [text for text, row in given.items() if usable[1][row]]
        shared = [text for text in texts if text in known and usable[0][known[text]]]
        hidden = min(HIDDEN, len(shared) // 4, len(shared) - k)
        if hidden < FEWEST:
            raise InputError(
                f"{base.provenance.source} and {donor.provenance.source} share {len(shared):,} tokens; at least "
                f"{max(4 * FEWEST, k + FEWEST):,} are needed to combine {k:,} of them and hide some"
            )
        places = np.array([(known[text], given[text]) for text in shared], np.int64)
        places = np.random.default_rng(seed).permutation(places)
        alone = np.array([given[text] for text in texts if text not in known], np.int64)
        ours, theirs = (np.asarray(one.take(places[:, at]), np.float32) for at, one in enumerate((base, donor)))
        texts_by_row = {row: text for text, row in given.items()}
        first, second = scales = (_scale(ours), _scale(theirs))
        rows = ours / np.float32(first), theirs / np.float32(second), mean_row(base) / first
        return cls(base, donor, k, hidden, places, alone, texts_by_row, known, *rows, scales)

    def chosen(self, tokens: int | Sequence[str] | None, seed: int) -> Rows:
        """Return the rows of the donor that are asked for."""
        if tokens is None:
            return self.alone
        if isinstance(tokens, int):
            if isinstance(tokens, bool) or tokens < 0:
                raise InputError(f"tokens must be a number from 0 on, or a list of tokens; got {tokens}")
            few = np.random.default_rng(seed).permutation(len(self.alone))[:tokens]
            return self.alone[np.sort(few)]
        rows = np.array([self.donor.row(one) for one in several(tokens)], np.int64)
        for row in rows[~np.isin(rows, self.alone)].tolist():
            both = f"both {self.base.provenance.source} and {self.donor.provenance.source} have"
            raise InputError(f"{self.donor.labels[row]!r} is a token that {both}, or has no row; name others")
        return rows

    def sums(self, given: Floats, first: int, told: Callable[[float], None]) -> Floats:
        """Return sparse sums of the base's shared rows from ``first`` on, with the weights that they have in the donor.

        Args:
            given: Rows of the donor [m, width].
            first: Number of shared rows left out.
            told: Called with the share done.
        """
        ours, theirs = self.ours[first:], self.theirs[first:]
        most = max(len(theirs), self.k * theirs.shape[1])
        step = max(1, min(_BATCH, _BATCH_NUMBERS // most))
        made = np.empty((len(given), ours.shape[1]))
        for start in range(0, len(given), step):
            found = matching_pursuit(
                given[start : start + step],
                self.k,
                lambda left: left.astype(np.float32) @ theirs.T,
                lambda rows: theirs[rows].astype(np.float64),
            )
            for place, (rows, weights) in enumerate(zip(found.rows, found.weights, strict=True)):
                made[start + place] = weights @ ours[rows].astype(np.float64)
            told(min(1.0, (start + step) / len(given)))
        return made

    def pieces(
        self, texts: Sequence[str], *, cut: Callable[[str], Sequence[int]] | None = None, within: bool = False
    ) -> Floats:
        """Return the mean of the base's rows of the pieces of texts; the mean row for texts without any.

        Args:
            texts: Texts of tokens.
            cut: What cuts a text; by default the longest piece comes first.
            within: Whether only pieces shorter than the text count, as if the base did not have the token.
        """
        longest = max(map(len, self.known))
        usable = directed(self.base)
        found = [
            list(cut(text)) if cut is not None else _longest_first(text, self.known, longest, but=text * within)
            for text in texts
        ]
        found = [[row for row in rows if usable[row]] for rows in found]
        distinct = np.unique(np.array([row for rows in found for row in rows], np.int64))
        vectors = np.asarray(self.base.take(distinct), np.float64) / self.scales[0]
        made = np.repeat(self.mean[None], len(texts), axis=0)
        for place, rows in enumerate(found):
            if rows:
                made[place] = vectors[np.searchsorted(distinct, rows)].mean(axis=0)
        return made

    def measured(
        self, seed: int, told: Callable[[float], None]
    ) -> tuple[tuple[TransplantQuality, ...], tuple[Floats, Floats]]:
        """Return the quality of every method on the hidden tokens, and their rows with their sparse sums."""
        true = self.ours[: self.hidden].astype(np.float64)
        given = self.theirs[: self.hidden].astype(np.float64)
        sums = self.sums(given, self.hidden, told)
        texts = [self.labels[row] for row in self.places[: self.hidden, 1].tolist()]
        made = {
            "mean": np.repeat(self.mean[None], self.hidden, axis=0),
            "subword": self.pieces(texts, within=True),
            "omp": sums,
        }
        units = directions(self.ours[self.hidden :])
        near = ten_nearest(directions(true).astype(np.float32) @ units.T)
        quality = tuple(self._quality(method, made[method], true, near, units, seed) for method in get_args(Method))
        return quality, (given, sums)

    def _quality(
        self, method: Method, made: Floats, true: Floats, near: NDArray[np.bool_], units: Singles, seed: int
    ) -> TransplantQuality:
        cosines = directions(made) @ directions(true).T
        kept = ten_nearest(directions(made).astype(np.float32) @ units.T).astype(np.float32) @ near.T / NEIGHBOURS
        rng = np.random.default_rng(seed)
        orders = [_shuffled(rng, self.hidden) for _ in range(DRAWS)]
        rows = np.arange(self.hidden)

        def null(values: NDArray[Any]) -> Null:
            drawn = np.array([values[rows, order].mean(dtype=np.float64) for order in orders])
            return beside(float(np.diagonal(values).mean(dtype=np.float64)), drawn, seed=seed, kind="permutation")

        return TransplantQuality(method, null(cosines), null(kept))


def _scale(rows: Singles) -> float:
    return math.ldexp(1.0, math.frexp(float(np.abs(rows).max()))[1] - 1)


def _longest_first(text: str, known: Mapping[str, int], longest: int, but: str) -> list[int]:
    """Cut a text into the longest pieces that are known, from its start; what is in none is skipped."""
    rows, at = [], 0
    while at < len(text):
        for stop in range(min(len(text), at + longest), at, -1):
            piece = text[at:stop]
            if piece != but and piece in known:
                rows.append(known[piece])
                at = stop
                break
        else:
            at += 1
    return rows


def _shuffled(rng: np.random.Generator, count: int) -> Rows:
    """Return an order of numbers in which none stands in its place."""
    order = rng.permutation(count)
    back = np.empty(count, np.int64)
    back[order] = np.roll(order, 1)
    return back


def ten_nearest(cosines: Singles) -> NDArray[np.bool_]:
    """Return which of several rows are the ten nearest of each [m, n], from their cosines [m, n] to five digits.

    More would tell equal rows apart, by how a product rounds at their place.
    """
    near, cosines = np.zeros(cosines.shape, bool), np.round(cosines, 5)
    np.put_along_axis(near, np.argpartition(cosines, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:], True, axis=1)
    return near


def _salience(given: Floats, made: Floats, hidden: tuple[Floats, Floats], ours: Singles) -> tuple[Floats, float]:
    """Return the salience of rows made for tokens [m], and the one above which they break.

    A row's growth and its turn to the leading directions of the base are told from those of most rows, since most
    tokens are ordinary: the hidden ones, which nobody can have planted for this, and the others.

    Args:
        given: Rows of the donor [m, width].
        made: Rows made of them [m, width of the base].
        hidden: The same of the hidden tokens.
        ours: Shared rows of the base.
    """
    some = ours[:SAMPLED].astype(np.float64)
    _, axes = leading_eigenvectors(some.T @ some, min(DOMINANT, some.shape[1]))
    given, made = np.concatenate([given, hidden[0]]), np.concatenate([made, hidden[1]])
    before, after = np.linalg.norm(given, axis=1), np.linalg.norm(made, axis=1)
    growth, turn = np.log(np.maximum(after, np.finfo(float).tiny) / before), (made @ axes) / before[:, None]
    far = _deviations(growth) + np.abs(_deviations(turn)).max(axis=1)
    salience = far * after / np.median(np.linalg.norm(some, axis=1))
    count = len(given) - len(hidden[0])
    return salience[:count], max(SALIENT, float(salience[count:].max()))


def _deviations(values: Floats) -> Floats:
    """Return how far values are from the median of their column, in deviations by the median distance to it."""
    far = values - np.median(values, axis=0)
    return np.asarray(far / np.maximum(1.4826 * np.median(np.abs(far), axis=0), np.finfo(np.float32).eps))
