"""Decomposition of the variance of words at positions into shares of words, positions and their interaction.

y_wt = N(x_w + A·p_t), with N the model's normalisation of sums. Two-way analysis of variance without replication
(Fisher 1925) splits the variance exactly: Σ‖y_wt − ȳ‖² is T Σ‖ȳ_w − ȳ‖² for words, plus W Σ‖ȳ_t − ȳ‖² for positions,
plus the interaction, which is 0 before N. The plot of such a cloud is called a club.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..analysis.row_values import Floats, Rows
from ..errors import InputError, MissingTableError
from ..guesses import several
from ..tables.embeddings import Embeddings
from ..tables.tabular import Columns, Facts, Tabular, over_axes
from .added_positions import AddedPositions, Single
from .amplitude_sweep import AMPLITUDES, step_of
from .neighbour_retention import as_normed

Normed: TypeAlias = Literal["model", "length", "none"]
"""Normalisation of sums: the model's own, length 1 if it has none before its first layer, or none."""

MOST_SUMS = 2**24
"""Maximum number of elements of a cloud: 64 MB."""


@dataclass(frozen=True, eq=False)
class Variance(Tabular):
    """Shares of a cloud's variance at each amplitude; they add up to 1.

    Attributes:
        amplitudes: The amplitudes [A].
        words: Share of words [A].
        positions: Share of positions [A].
        rest: Share of the interaction [A].
        chance: The three shares expected if the vectors were assigned to words and positions at random: their degrees
            of freedom (W − 1), (T − 1) and (W − 1)(T − 1) over WT − 1.
        normed: How sums are normalised.
    """

    amplitudes: Floats
    words: Floats
    positions: Floats
    rest: Floats
    chance: tuple[float, float, float]
    normed: Normed

    def index(self, amplitude: float) -> int:
        """Return the index of the amplitude nearest to a given one."""
        return step_of(amplitude, self.amplitudes)

    def columns(self) -> Columns:
        """Return one row per amplitude: ``amplitude``, and the shares of ``words``, ``positions`` and ``rest``."""
        names = ("words", "positions", "rest")
        return {"amplitude": self.amplitudes, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, eq=False)
class Club(Tabular):
    """A cloud by its first two principal components.

    Attributes:
        rows: Token rows [W].
        places: Positions [T].
        points: Coordinates [W, T, 2].
        explained: Share of variance of each component.
        amplitude: Factor on the positions.
        normed: How sums are normalised.
    """

    rows: Rows
    places: Rows
    points: Floats
    explained: tuple[float, float]
    amplitude: float
    normed: Normed

    def columns(self) -> Columns:
        """Return one row per word and position: ``row``, ``position``, ``x`` and ``y``."""
        axes = {"row": self.rows, "position": self.places}
        return over_axes(axes, x=self.points[..., 0], y=self.points[..., 1])


@dataclass(frozen=True, eq=False)
class SumCloud(Facts):
    """Words [W, d] at positions [T, d], with the normalisation of their sums; created by ``cloud``."""

    rows: Rows
    places: Rows
    words: Single
    positions: Single
    normed: Normed
    embeddings: Embeddings

    def sums(self, amplitude: float) -> Single:
        """Return the normalised sums [W, T, d]."""
        total = self.words[:, None] + np.float32(amplitude) * self.positions
        if self.normed == "none":
            return total
        flat = total.reshape(-1, total.shape[2])
        if self.normed == "model":
            flat = as_normed(self.embeddings, flat)
        else:
            flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return np.asarray(flat, np.float32).reshape(total.shape)

    def variance(self, *, amplitudes: Sequence[float] = AMPLITUDES) -> Variance:
        """Return the decomposition of the variance at each amplitude."""
        at = np.asarray(amplitudes, np.float64)
        parts = np.array([_shares(self.sums(one)) for one in at])
        words, places = len(self.rows) - 1, len(self.places) - 1
        whole = (words + 1) * (places + 1) - 1
        chance = (words / whole, places / whole, words * places / whole)
        return Variance(at, parts[:, 0], parts[:, 1], parts[:, 2], chance, self.normed)

    def club(self, *, amplitude: float = 1.0) -> Club:
        """Return the first two principal components of the cloud at an amplitude.

        A component's sign makes its loading of largest magnitude positive.
        """
        sums = self.sums(amplitude)
        flat = sums.reshape(-1, sums.shape[2]).astype(np.float64)
        flat -= flat.mean(axis=0)
        few = len(flat) < flat.shape[1]
        values, vectors = np.linalg.eigh(flat @ flat.T if few else flat.T @ flat)
        axes = flat.T @ vectors[:, :-3:-1] if few else vectors[:, :-3:-1]
        axes = axes / np.maximum(np.linalg.norm(axes, axis=0), np.finfo(np.float64).tiny)
        axes *= np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], 0) < 0, -1.0, 1.0)
        total = float(np.maximum(values, 0).sum()) or 1.0
        first, second = (float(max(values[-place], 0.0)) / total for place in (1, 2))
        points = (flat @ axes).reshape(*sums.shape[:2], 2)
        return Club(self.rows, self.places, points, (first, second), amplitude, self.normed)


def sum_cloud(
    words: AddedPositions, embeddings: Embeddings, rows: Rows, places: Rows, *, normed: bool = True
) -> SumCloud:
    """Return the cloud of token ``rows``, each at all ``places``.

    Args:
        words: Words and positions.
        embeddings: Source, whose normalisation is used.
        rows: Token rows.
        places: Positions.
        normed: Whether to normalise the sums, as the model does or to length 1.

    Raises:
        InputError: If there are fewer than two different words or positions, or more than ``MOST_SUMS`` allows.
    """
    rows, places = np.unique(several(rows)), np.unique(several(places))
    width = words.positions.shape[1]
    if len(rows) < 2 or len(places) < 2 or len(rows) * len(places) * width > MOST_SUMS:
        raise InputError(
            f"at least 2 words and 2 positions and at most {MOST_SUMS // width:,} sums are needed; "
            f"got {len(rows)} words at {len(places)} positions"
        )
    how: Normed = "length" if normed else "none"
    with suppress(MissingTableError):
        recipe = embeddings._recipe
        if normed and recipe.norm is not None and all(table.shape[1] == width for table in recipe.types):
            how = "model"
    return SumCloud(rows, places, words.words(rows), words.at(places), how, embeddings)


def _shares(sums: Single) -> tuple[float, float, float]:
    """Return the shares of words, positions and interaction in the variance of sums [W, T, d]."""
    wide = np.asarray(sums, np.float64)
    wide = wide - wide.mean(axis=(0, 1))
    of_words, of_places = wide.mean(axis=1), wide.mean(axis=0)
    words, places = len(of_places) * (of_words**2).sum(), len(of_words) * (of_places**2).sum()
    rest = ((wide - of_words[:, None] - of_places) ** 2).sum()
    total = words + places + rest
    if not total > 0:
        raise InputError("all sums are the same vector, so they have no variance")
    return float(words / total), float(places / total), float(rest / total)
