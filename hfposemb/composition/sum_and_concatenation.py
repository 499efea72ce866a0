"""What a sum of word and position does beside their concatenation, and how far the two interfere by width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, lgamma, pi, sqrt

import numpy as np

from ..analysis.row_values import Floats
from ..errors import InputError
from ..guesses import several
from ..tables.tabular import Columns, Tabular, over_axes
from .added_positions import AddedPositions, Single
from .amplitude_sweep import AMPLITUDES, Sweep, sweep_amplitude

WIDTHS = (64, 128, 192, 256, 384, 512, 768)
"""Widths at which ``interference`` is measured, as far as a table reaches; its own is always the last."""


@dataclass(frozen=True, eq=False)
class SumBesideConcatenation(Tabular):
    """How well word and position are recovered from one vector of both, by how the vector is made.

    Attributes:
        amplitudes: Factors A on the positions [A].
        ways: How the vector is made: ``sum``, [x; A·v] times [I; I]; ``turned``, times [I; Q] with Q a random rotation;
            and ``concatenated``, [x; A·v] itself, at twice the width.
        words: Share of words recovered [3, A].
        positions: Share of positions recovered [3, A].
        difference: Largest difference of x + v from [x; v] times [I; I], in units of the table: 0 up to rounding.
        width: Width d of words and positions.
        queries: Number of words.
        places: Number of positions.
        seed: Random seed.
    """

    amplitudes: Floats
    ways: tuple[str, ...]
    words: Floats
    positions: Floats
    difference: float
    width: int
    queries: int
    places: int
    seed: int

    @property
    def both(self) -> Floats:
        """The lower of the shares of words and of positions recovered [3, A]."""
        return np.minimum(self.words, self.positions)

    def columns(self) -> Columns:
        """Return one row per way and amplitude: ``way``, ``amplitude``, ``words`` and ``positions``."""
        axes = {"way": self.ways, "amplitude": self.amplitudes}
        return over_axes(axes, words=self.words, positions=self.positions)


def compare_sum_with_concatenation(
    words: AddedPositions, *, amplitudes: Sequence[float] = AMPLITUDES, queries: int = 500, seed: int = 0
) -> SumBesideConcatenation:
    """Compare a sum with the concatenation of word and position, of which it is one fixed projection.

    [x; v] times [I; I] is x + v, so a sum is a concatenation followed by a linear map that is not learned. What it
    loses is measured as ``sweep_amplitude`` does, beside that of [I; Q], which turns the positions at random and so
    keeps all norms and angles among words and among positions, but not the directions that training chose.

    Args:
        words: Words and positions (``add_positions``).
        amplitudes: Factors on the positions; 1 as in the model.
        queries: Number of words drawn, each with a random inner position.
        seed: Random seed.

    Raises:
        InputError: If an amplitude is negative or not finite, or there are too few tokens.

    Examples:
        >>> import hfposemb as hpe
        >>> bert = hpe.add_positions(hpe.extract("sample:bert"))
        >>> found = hpe.compare_sum_with_concatenation(bert, amplitudes=4)
        >>> found.ways, found.difference
        (('sum', 'turned', 'concatenated'), 0.0)
    """
    own = sweep_amplitude(words, amplitudes=tuple(several(amplitudes)), queries=queries, seed=seed)
    return concatenation_beside(words, own)


def concatenation_beside(words: AddedPositions, own: Sweep) -> SumBesideConcatenation:
    """Return ``compare_sum_with_concatenation`` of words and positions of which the sum has been measured."""
    rng, at = np.random.default_rng(own.seed), own.amplitudes
    width = words.table.shape[1]
    turn = np.linalg.qr(rng.standard_normal((width, width)))[0].astype(np.float32)
    turned = replace(words, positions=words.positions @ turn)
    sweeps = [own, sweep_amplitude(turned, amplitudes=tuple(at), queries=own.queries, seed=own.seed)]
    some = np.sort(rng.choice(len(words.rows), own.queries, replace=False))
    x, v = words.tokens[some], words.positions[rng.choice(words.inner, len(some))]
    identity = np.eye(width)
    projected = np.hstack([x, v]) @ np.vstack([identity, identity])
    beside = own.concatenated
    return SumBesideConcatenation(
        amplitudes=at,
        ways=("sum", "turned", "concatenated"),
        words=np.array([*(one.words for one in sweeps), np.full(len(at), beside.words)]),
        positions=np.array(
            [*(one.positions for one in sweeps), np.where(at > 0, beside.positions, own.positions_by_chance)]
        ),
        difference=float(np.abs(projected - (x.astype(np.float64) + v)).max()),
        width=width,
        queries=own.queries,
        places=own.places,
        seed=own.seed,
    )


@dataclass(frozen=True, eq=False)
class Interference(Tabular):
    """Mean absolute cosine of words with positions, by width.

    Attributes:
        widths: Widths [w], ascending; the last is that of the tables, the others are random projections of them.
        cosines: Mean |cos| of a word and a position, as the tables are [w].
        centred: The same without the mean word and the mean position [w].
        expected: Mean |cos| of two random directions, about √(2 / (π d)) [w].
        pairs: Number of pairs of a word and a position.
        seed: Random seed.
    """

    widths: tuple[int, ...]
    cosines: Floats
    centred: Floats
    expected: Floats
    pairs: int
    seed: int

    @property
    def equivalent(self) -> float:
        """The width at which two random directions are as close as words and positions are, 2 / (π |cos|²)."""
        return float(2 / (pi * max(self.cosines[-1], 1e-12) ** 2))

    def columns(self) -> Columns:
        """Return one row per width: ``width``, ``cosine``, ``centred`` and ``expected``."""
        return {"width": self.widths, "cosine": self.cosines, "centred": self.centred, "expected": self.expected}


def expected_interference(width: int) -> float:
    """Return the mean |cos| of two random directions in ``width`` dimensions, about √(2 / (π d)).

    Exactly Γ(d/2) / (√π Γ((d + 1)/2)), the mean absolute coordinate of a point on the unit sphere.

    Args:
        width: Number of dimensions, at least 1.

    Raises:
        InputError: If ``width`` < 1.

    Examples:
        >>> from hfposemb.composition.sum_and_concatenation import expected_interference
        >>> [round(expected_interference(d), 4) for d in (64, 768)]
        [0.1001, 0.0288]
    """
    if width < 1:
        raise InputError(f"width must be at least 1; got {width}")
    return exp(lgamma(width / 2) - lgamma((width + 1) / 2)) / sqrt(pi)


def interference(
    words: AddedPositions, *, widths: int | Sequence[int] = WIDTHS, pairs: int = 20_000, seed: int = 0
) -> Interference:
    """Measure how far words and positions overlap, at the model's own width and at random projections to less.

    Two unrelated directions in d dimensions have |cos| ≈ √(2 / (π d)), so a position that is added changes a word the
    less, the wider the table. Tables whose rows share a mean, or lie in few directions, overlap more than that.

    Args:
        words: Words and positions (``add_positions``).
        widths: Widths to project to; those of the tables' own or more are left out.
        pairs: Number of pairs of a word and a position drawn.
        seed: Random seed of pairs and projections.

    Raises:
        InputError: If a width or ``pairs`` is less than 1.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.interference(hpe.add_positions(hpe.extract("sample:bert")), widths=64)
        >>> found.widths, found.expected.round(3).tolist()
        ((64, 128), [0.1, 0.071])
    """
    asked, own = sorted({int(width) for width in several(widths)}), words.table.shape[1]
    if pairs < 1 or any(width < 1 for width in asked):
        raise InputError(f"widths and pairs must be at least 1; got widths={asked[:5]} and pairs={pairs}")
    rng = np.random.default_rng(seed)
    some = words.tokens[np.sort(rng.choice(len(words.rows), min(4096, len(words.rows)), replace=False))]
    places = words.positions[words.inner]
    left, right = rng.integers(len(some), size=pairs), rng.integers(len(places), size=pairs)
    drawn = np.linalg.qr(rng.standard_normal((own, own)))[0].astype(np.float32)
    kept = (*(width for width in asked if width < own), own)

    def overlap(x: Single, v: Single) -> Floats:
        x, v = x @ drawn, v @ drawn
        return np.array([_mean_cosine(x[:, :width], v[:, :width], left, right) for width in kept])

    return Interference(
        widths=kept,
        cosines=overlap(some, places),
        centred=overlap(some - some.mean(axis=0), places - places.mean(axis=0)),
        expected=np.array([expected_interference(width) for width in kept]),
        pairs=pairs,
        seed=seed,
    )


def _mean_cosine(x: Single, v: Single, left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean |cos| of pairs of rows; rows without a direction are left out."""
    lengths = [np.linalg.norm(part.astype(np.float64), axis=1) for part in (x, v)]
    both = (lengths[0][left] > 0) & (lengths[1][right] > 0)
    if not both.any():
        raise InputError("all words, or all positions, are the same or zero; expected rows that differ")
    unit = [part / np.where(length > 0, length, 1)[:, None] for part, length in zip((x, v), lengths, strict=True)]
    return float(np.abs(np.einsum("ij,ij->i", unit[0][left[both]], unit[1][right[both]])).mean())
