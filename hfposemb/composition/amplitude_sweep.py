"""Sweep of the amplitude: how much of a word and of its position survives as positions are added.

Up to division by the length of the sum, which does not change the ranking, the cosine of x + A·p with a token is linear
in A. Two matrix products therefore serve all amplitudes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Floats, Rows
from ..analysis.similarity.nearest_rows import Neighbours, neighbours
from ..errors import InputError
from ..guesses import several
from ..tables.tabular import Columns, Tabular
from .added_positions import AddedPositions, Single
from .position_decoder import PositionDecoder

AMPLITUDES: tuple[float, ...] = tuple(step / 4 for step in range(17))
"""0 to 4 in steps of a quarter."""

SCORE_BYTES = 4 * 2**20
"""Maximum size of the scores held at once for one amplitude, in bytes."""

FITTED_NUMBERS = 2**22
"""Maximum number of elements of the tokens that the position decoder is fitted on, if that allows at least d tokens."""

BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Concatenated:
    """What survives if the position is concatenated to the word instead of added, at twice the width.

    The nearest neighbours of a word are then the same at every amplitude, so ``kept`` is 1. ``words`` and ``positions``
    are the shares of rows that are unique, and so are recovered exactly.
    """

    kept: float
    words: float
    positions: float


RECOVERED = 0.95
"""Share of words, and of positions, that counts as recovering them."""


@dataclass(frozen=True, eq=False)
class Sweep(Tabular):
    """What survives at every amplitude [A] of ``queries`` words, each at a random inner position.

    Attributes:
        amplitudes: The amplitudes [A].
        kept: Share of a word's ``k`` nearest tokens that are among the ``k`` nearest of the sum, by cosine [A].
        low: Lower end of its 2.5–97.5 % interval over bootstrapped words [A].
        high: Upper end of that interval [A].
        words: Share of sums whose nearest token, by distance, is the word [A].
        positions: Share of sums whose position ``PositionDecoder`` identifies [A].
        chance: ``kept`` expected by chance.
        words_by_chance: ``words`` expected by chance.
        positions_by_chance: ``positions`` expected by chance.
        concatenated: The same for concatenation instead of addition.
        ratio: Mean norm of the tokens over that of the positions, at amplitude 1.
        k: Number of neighbours.
        queries: Number of words.
        fitted: Number of other tokens that the decoder was fitted on.
        tokens: Number of tokens searched.
        whole: Number of tokens with a direction.
        places: Number of inner positions.
        seed: Random seed.
    """

    amplitudes: Floats
    kept: Floats
    low: Floats
    high: Floats
    words: Floats
    positions: Floats
    chance: float
    words_by_chance: float
    positions_by_chance: float
    concatenated: Concatenated
    ratio: float
    k: int
    queries: int
    fitted: int
    tokens: int
    whole: int
    places: int
    seed: int

    def index(self, amplitude: float) -> int:
        """Return the index of the amplitude nearest to a given one."""
        return step_of(amplitude, self.amplitudes)

    @property
    def both(self) -> Floats:
        """The lower of the shares of words and of positions recovered [A]."""
        return np.minimum(self.words, self.positions)

    @property
    def window(self) -> tuple[float, float] | None:
        """The widest range of measured amplitudes in which 95 % of words and 95 % of positions are recovered.

        ``None`` if there is none. A model whose own amplitude, 1, lies in it can read both from the sum.
        """
        both = np.concatenate([[False], self.both >= RECOVERED, [False]])
        starts, ends = np.flatnonzero(both[1:] & ~both[:-1]), np.flatnonzero(both[:-1] & ~both[1:]) - 1
        if not len(starts):
            return None
        widest = int((self.amplitudes[ends] - self.amplitudes[starts]).argmax())
        return float(self.amplitudes[starts[widest]]), float(self.amplitudes[ends[widest]])

    def columns(self) -> Columns:
        """Return one row per amplitude: ``amplitude``, ``kept``, ``low``, ``high``, ``words`` and ``positions``."""
        names = ("kept", "low", "high", "words", "positions")
        return {"amplitude": self.amplitudes, **{name: getattr(self, name) for name in names}}


def step_of(amplitude: float, amplitudes: Sequence[float] | Floats = AMPLITUDES) -> int:
    """Return the index of the amplitude nearest to a given one, among ``amplitudes``."""
    return int(np.abs(np.asarray(amplitudes) - amplitude).argmin())


def sweep_amplitude(
    words: AddedPositions, *, amplitudes: Sequence[float] = AMPLITUDES, queries: int = 500, k: int = 10, seed: int = 0
) -> Sweep:
    """Measure how much of words and of their positions survives at each amplitude.

    Args:
        words: Words and positions (``added_positions.added``).
        amplitudes: Amplitudes, 0 or more.
        queries: Number of words drawn, each with a random inner position.
        k: Number of neighbours.
        seed: Random seed.

    Raises:
        InputError: If an amplitude is negative or not finite, or there are too few tokens.
    """
    at = _amplitudes(amplitudes)
    tokens, count = words.tokens, len(words.rows)
    if not 1 <= k < count - 1 or queries < 2:
        raise InputError(
            f"{words.name} has {count:,} tokens to search; more than {k + 1} tokens and at least 2 queries are needed"
        )
    rng = np.random.default_rng(seed)
    own = np.sort(rng.choice(count, min(queries, count // 2), replace=False))
    drawn = rng.integers(len(words.inner), size=len(own))
    asked, where = tokens[own], words.positions[words.inner]
    pairs = _Pairs.of(words, asked, where[drawn], own, k)
    shares, found = pairs.kept(at), pairs.found(at)
    drawings = rng.multinomial(len(own), np.full(len(own), 1 / len(own)), BOOTSTRAPS)
    low, high = np.quantile(drawings @ shares.T / len(own), [0.025, 0.975], axis=0)
    others = np.setdiff1d(np.arange(count), own)
    width = tokens.shape[1]
    fit = np.sort(rng.choice(others, min(len(others), max(width, FITTED_NUMBERS // width)), replace=False))
    decoder = PositionDecoder.fit(tokens[fit], where)
    evidence = decoder.evidence(asked)
    named = np.array([(decoder.named(evidence, drawn, one) == drawn).mean() for one in at])
    return Sweep(
        amplitudes=at,
        kept=shares.mean(axis=1),
        low=low,
        high=high,
        words=found.mean(axis=1),
        positions=named,
        chance=k / (count - 1),
        words_by_chance=1 / count,
        positions_by_chance=1 / len(where),
        concatenated=Concatenated(1.0, _distinct(asked, tokens), _distinct(where, where)),
        ratio=words.ratio,
        k=k,
        queries=len(own),
        fitted=len(fit),
        tokens=count,
        whole=words.whole,
        places=len(where),
        seed=seed,
    )


def retention_at(
    words: AddedPositions, rows: Rows, places: Rows, *, amplitudes: Sequence[float] = AMPLITUDES, k: int = 10
) -> Floats:
    """Return the share of its ``k`` nearest that each word keeps at each position [A, words, places].

    Args:
        words: Words and positions.
        rows: Token rows [words].
        places: Positions [places].
        amplitudes: Amplitudes, 0 or more [A].
        k: Number of neighbours.

    Raises:
        InputError: If a row or position has no vector, an amplitude is negative or not finite, or there are too few
            tokens.
    """
    rows, places = np.asarray(several(rows), np.int64), np.asarray(several(places), np.int64)
    whose, which = np.divmod(np.arange(len(rows) * len(places)), max(1, len(places)))
    found = _kept(words, (rows, places), (whose, which), _amplitudes(amplitudes), k)
    return found.reshape(len(found), len(rows), len(places))


def retention_in_place(
    words: AddedPositions, rows: Rows, places: Rows, *, amplitudes: Sequence[float] = AMPLITUDES, k: int = 10
) -> Floats:
    """Return the share of its ``k`` nearest that each word keeps at its own position, as in a sentence [A, words].

    Args:
        words: Words and positions.
        rows: Token rows [words].
        places: Position of each word [words].
        amplitudes: Amplitudes, 0 or more [A].
        k: Number of neighbours.

    Raises:
        InputError: As ``kept_at`` does.
    """
    (some, whose), (where, which) = (np.unique(part, return_inverse=True) for part in (rows, places))
    return _kept(words, (some, where), (whose, which), _amplitudes(amplitudes), k)


def _kept(words: AddedPositions, distinct: tuple[Rows, Rows], pairs: tuple[Rows, Rows], at: Floats, k: int) -> Floats:
    """Return the shares [A, pairs] for pairs of indices into the ``distinct`` token rows and positions."""
    if not 1 <= k < len(words.rows) - 1:
        raise InputError(f"{words.name} has {len(words.rows):,} tokens to search; more than {k + 1} are needed")
    rows, places = distinct
    asked, where = words.words(rows), words.at(places)
    place = np.minimum(np.searchsorted(words.rows, rows), len(words.rows) - 1)
    own = np.where(words.rows[place] == rows, place, -1)
    return _Pairs.of(words, asked, where, own, k, pairs=pairs).kept(at)


@dataclass(frozen=True, eq=False)
class MovedNeighbours(Tabular):
    """A word's nearest neighbours alone and at a position, and the rows common to both."""

    before: Neighbours
    after: Neighbours
    shared: tuple[int, ...]

    def columns(self) -> Columns:
        """Return one row per neighbour: ``where``, before or after, ``rank``, ``row``, ``label`` and ``value``."""
        sides = {"before": self.before, "after": self.after}
        return {
            "where": [side for side, near in sides.items() for _ in near.rows],
            "rank": [place for near in sides.values() for place in range(1, len(near.rows) + 1)],
            "row": np.concatenate([near.rows for near in sides.values()]),
            "label": [label for near in sides.values() for label in near.labels],
            "value": np.concatenate([near.values for near in sides.values()]),
        }


def moved_neighbours(
    words: AddedPositions, row: int, place: int, *, amplitude: float = 1.0, k: int = 10
) -> MovedNeighbours:
    """Return the ``k`` exact nearest tokens of a word alone, and of its sum with a position, among all tokens.

    Args:
        words: Words and positions.
        row: Token row of the word.
        place: Position.
        amplitude: Factor on the position.
        k: Number of neighbours.

    Raises:
        InputError: If the row or position has no vector, or they cancel each other out.
    """
    before = neighbours(words.table, int(row), k=k)
    total = words.words(np.array([row]))[0].astype(np.float64) + amplitude * words.at(np.array([place]))[0]
    if not total.any():
        raise InputError(f"row {row} and position {place} sum to zero at amplitude {amplitude:g}")
    near = neighbours(words.table, total, k=k + 1)
    keep = np.flatnonzero(near.rows != row)[:k]
    after = Neighbours(
        before.query,
        near.rows[keep],
        tuple(near.labels[one] for one in keep),
        near.values[keep],
        near.metric,
        near.left_out,
    )
    return MovedNeighbours(before, after, tuple(int(one) for one in before.rows if one in set(after.rows.tolist())))


def _amplitudes(amplitudes: Sequence[float]) -> Floats:
    at = np.asarray(several(amplitudes), np.float64)
    if at.ndim != 1 or not len(at) or not np.isfinite(at).all() or (at < 0).any():
        raise InputError(f"amplitudes must be finite numbers of at least 0, at least one; got {at.tolist()[:5]}")
    return at


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of words and positions, by their inner products with every unit token in float32.

    Attributes:
        word: Inner products of the words [w, n].
        place: Inner products of the positions [t, n].
        own: Column of each word itself, −1 if it is not searched [w].
        near: Columns of each word's nearest [w, k].
        lengths: Norms of the tokens [n].
        whose: Word of each pair [pairs].
        which: Position of each pair [pairs].
    """

    word: Single
    place: Single
    own: Rows
    near: Rows
    lengths: Single
    whose: Rows
    which: Rows

    @classmethod
    def of(
        cls,
        words: AddedPositions,
        asked: Single,
        where: Single,
        own: Rows,
        k: int,
        *,
        pairs: tuple[Rows, Rows] | None = None,
    ) -> _Pairs:
        inverse = 1 / words.lengths
        word, place = asked @ words.tokens.T, where @ words.tokens.T
        word *= inverse
        place *= inverse
        near = _nearest(word, own, k)
        whose, which = pairs or (np.arange(len(asked)),) * 2
        return cls(word, place, own, near, words.lengths, whose, which)

    def kept(self, amplitudes: Floats) -> Floats:
        """Return the share of its nearest that each pair keeps [A, pairs]."""
        k, out = self.near.shape[1], np.empty((len(amplitudes), len(self.whose)))
        scores = np.empty(self.word.shape[1], np.float32)
        for pair, (whose, which) in enumerate(zip(self.whose.tolist(), self.which.tolist(), strict=True)):
            own = self.own[whose]
            for turn, amplitude in enumerate(amplitudes):
                np.multiply(self.place[which], np.float32(amplitude), out=scores)
                scores += self.word[whose]
                if own >= 0:
                    scores[own] = -np.inf
                near = scores[self.near[whose]]
                # The k largest scores are among those that are no less than the least of these k.
                largest = scores[scores >= near.min()]
                out[turn, pair] = (near >= np.partition(largest, len(largest) - k)[len(largest) - k]).mean()
        return out

    def found(self, amplitudes: Floats) -> NDArray[np.bool_]:
        """Return whether the token strictly nearest to each sum by distance is the word itself [A, pairs]."""
        out = np.empty((len(amplitudes), len(self.whose)), bool)
        halves = self.lengths / 2
        step = max(1, SCORE_BYTES // (4 * self.word.shape[1]))
        for start in range(0, len(self.whose), step):
            whose, which = self.whose[start : start + step], self.which[start : start + step]
            own, line = self.own[whose], np.arange(len(whose))
            # y·e − ‖e‖²/2 ranks like the distance.
            word, place = (self.word[whose] - halves) * self.lengths, self.place[which] * self.lengths
            scores = np.empty_like(word)
            for turn, amplitude in enumerate(amplitudes):
                np.multiply(place, np.float32(amplitude), out=scores)
                scores += word
                mine = scores[line, own]
                scores[line, own] = -np.inf
                out[turn, start : start + len(whose)] = mine > scores.max(axis=1)
        return out


def _nearest(scores: Single, own: Rows, k: int) -> Rows:
    """Return the columns of the ``k`` largest scores of each row [n, k], unordered, excluding its ``own`` column."""
    found = np.empty((len(scores), k), np.int64)
    for place, (row, mine) in enumerate(zip(scores, own.tolist(), strict=True)):
        others = row.copy()
        if mine >= 0:
            others[mine] = -np.inf
        found[place] = np.argpartition(others, len(row) - k)[len(row) - k :]
    return found


def _distinct(asked: Single, among: Single) -> float:
    """Return the share of rows [n, d] that occur only once ``among`` [m, d], which contains them."""
    seen = Counter(row.tobytes() for row in among)
    return float(np.mean([seen[row.tobytes()] == 1 for row in asked]))
