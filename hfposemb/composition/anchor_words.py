"""Similarity of a word to user-chosen anchor words as positions are added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..analysis.row_values import Floats, Rows
from ..errors import InputError
from ..guesses import several
from ..tables.tabular import Columns, Tabular, over_axes
from .added_positions import AddedPositions
from .amplitude_sweep import AMPLITUDES

RANDOM_TOKENS = 500
RANDOM_PLACES = 64


@dataclass(frozen=True, eq=False)
class AnchorSimilarity(Tabular):
    """Cosine of x + A·p with each anchor token at every amplitude, over the inner positions p.

    Attributes:
        amplitudes: The amplitudes [A].
        rows: Token rows of the anchors [anchors].
        mean: Mean cosine over positions [A, anchors].
        low: Lower end of its 2.5–97.5 % interval over positions [A, anchors].
        high: Upper end of that interval [A, anchors].
        chance_low: Lower end of the interval of the cosine with random tokens [A].
        chance_high: Upper end of that interval [A].
        random: Number of random tokens.
        places: Number of inner positions.
        seed: Random seed.
    """

    amplitudes: Floats
    rows: Rows
    mean: Floats
    low: Floats
    high: Floats
    chance_low: Floats
    chance_high: Floats
    random: int
    places: int
    seed: int

    def columns(self) -> Columns:
        """Return one row per amplitude and anchor.

        ``amplitude``, ``row`` of the anchor, ``mean``, ``low``, ``high``, ``chance_low`` and ``chance_high``.
        """
        axes, chance = {"amplitude": self.amplitudes, "row": self.rows}, ("chance_low", "chance_high")
        own = {name: getattr(self, name) for name in ("mean", "low", "high")}
        return over_axes(axes, **own, **{name: getattr(self, name)[:, None] for name in chance})


def anchor_similarity(
    words: AddedPositions, row: int, anchors: Rows, *, amplitudes: Sequence[float] = AMPLITUDES, seed: int = 0
) -> AnchorSimilarity:
    """Return the cosine of a word with ``anchors`` as positions are added to it.

    Args:
        words: Words and positions.
        row: Token row of the word.
        anchors: Token rows of the anchors.
        amplitudes: Amplitudes [A].
        seed: Random seed of the random tokens.

    Raises:
        InputError: If a row has no vector, or there is no anchor.
    """
    at, anchors = np.asarray(several(amplitudes), np.float64), np.asarray(several(anchors), np.int64)
    if not len(anchors):
        raise InputError("anchors is empty; give at least one anchor word")
    rng = np.random.default_rng(seed)
    x = words.words(np.array([row]))[0].astype(np.float64)
    named = _Cosines.of(x, words.positions[words.inner], words.words(anchors))
    drawn = rng.choice(words.rows, min(RANDOM_TOKENS, len(words.rows)), replace=False)
    drawn = drawn[drawn != row]
    places = rng.choice(words.inner, min(RANDOM_PLACES, len(words.inner)), replace=False)
    chance = _Cosines.of(x, words.positions[places], words.words(drawn))
    cosines, others = [named.at(one) for one in at], [chance.at(one) for one in at]
    low, high = (np.array([np.quantile(one, edge, axis=0) for one in cosines]) for edge in (0.025, 0.975))
    chance_low, chance_high = (np.array([np.quantile(one, edge) for one in others]) for edge in (0.025, 0.975))
    mean = np.array([one.mean(axis=0) for one in cosines])
    return AnchorSimilarity(at, anchors, mean, low, high, chance_low, chance_high, len(drawn), len(words.inner), seed)


@dataclass(frozen=True, eq=False)
class _Cosines:
    """Inner products from which the cosine of x + A·p with y follows, for every position and y."""

    square: float
    crossed: Floats
    squares: Floats
    word: Floats
    place: Floats

    @classmethod
    def of(cls, x: Floats, positions: np.ndarray, others: np.ndarray) -> _Cosines:
        where, other = np.asarray(positions, np.float64), np.asarray(others, np.float64)
        other = other / np.linalg.norm(other, axis=1, keepdims=True)
        squares = np.einsum("ij,ij->i", where, where)
        return cls(float(x @ x), where @ x, squares, other @ x, where @ other.T)

    def at(self, amplitude: float) -> Floats:
        """Return the cosines [places, others]; 0 where word and position cancel each other out."""
        length = np.sqrt(np.maximum(self.square + 2 * amplitude * self.crossed + amplitude**2 * self.squares, 0))
        total = self.word + amplitude * self.place
        some = np.broadcast_to(length[:, None] > 0, total.shape)
        return np.divide(total, length[:, None], out=np.zeros_like(total), where=some)
