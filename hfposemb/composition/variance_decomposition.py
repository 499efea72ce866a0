"""The clubs of a cloud: some words, each at some places, and whether they gather by word or by place.

y_wt = N(x_w + A·p_t), N what the model does to its sums. Two-way analysis of variance without replication (Fisher 1925)
splits the cloud's variance exactly: Σ‖y_wt − ȳ‖² is T Σ‖ȳ_w − ȳ‖², that of words, plus W Σ‖ȳ_t − ȳ‖², that of
positions, plus the rest, what a word does at one place and not at others. Before N the rest is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..analysis.row_values import Floats, Rows
from ..errors import InputError, MissingTableError
from ..tables.embeddings import Embeddings
from .added_positions import Added, Single
from .amplitude_sweep import AMPLITUDES, step_of

Normed: TypeAlias = Literal["model", "length", "none"]
"""What is done to a sum: the model's own normalisation, length 1 where it has none before its first layer, nothing."""

MOST_SUMS = 2**24
"""Numbers of the largest cloud: 64 MB."""


@dataclass(frozen=True, eq=False)
class Variance:
    """Hold the shares of a cloud's variance that are of words, of positions and the rest [A]; they add up to 1.

    ``chance`` has the three shares that are expected where the same vectors are dealt out to words and places blindly:
    their degrees of freedom, (W − 1), (T − 1) and (W − 1)(T − 1), by WT − 1.
    """

    amplitudes: Floats
    words: Floats
    positions: Floats
    rest: Floats
    chance: tuple[float, float, float]
    normed: Normed

    def index(self, amplitude: float) -> int:
        """Return the place of the amplitude nearest to one."""
        return step_of(amplitude, self.amplitudes)


@dataclass(frozen=True, eq=False)
class Club:
    """Hold a cloud in two dimensions [W, T, 2], of the token ``rows`` [W] at the ``places`` [T].

    They are the principal components; ``explained`` has their shares of the variance.
    """

    rows: Rows
    places: Rows
    points: Floats
    explained: tuple[float, float]
    amplitude: float
    normed: Normed


@dataclass(frozen=True, eq=False)
class Cloud:
    """Hold words [W, d] and positions [T, d], and how their sums are normalised: ``cloud`` makes one."""

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
            recipe = self.embeddings._recipe
            for table in recipe.types:
                flat = flat + np.asarray(table.rows(0, 1), np.float32)
            assert recipe.norm is not None
            flat = recipe.norm(flat)
        else:
            flat = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return np.asarray(flat, np.float32).reshape(total.shape)

    def variance(self, *, amplitudes: Sequence[float] = AMPLITUDES) -> Variance:
        """Return how the variance is shared out at each amplitude."""
        at = np.asarray(amplitudes, np.float64)
        parts = np.array([_shares(self.sums(one)) for one in at])
        words, places = len(self.rows) - 1, len(self.places) - 1
        whole = (words + 1) * (places + 1) - 1
        chance = (words / whole, places / whole, words * places / whole)
        return Variance(at, parts[:, 0], parts[:, 1], parts[:, 2], chance, self.normed)

    def club(self, *, amplitude: float = 1.0) -> Club:
        """Return the cloud at an amplitude by its first two principal components.

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


def cloud(words: Added, embeddings: Embeddings, rows: Rows, places: Rows, *, normed: bool = True) -> Cloud:
    """Return a cloud of token ``rows``, each at all ``places``; ``normed`` as the model does it, else the bare sums.

    Raises ``InputError`` for fewer than two different words or places, or for more than fit.
    """
    rows, places = np.unique(rows), np.unique(places)
    width = words.positions.shape[1]
    if len(rows) < 2 or len(places) < 2 or len(rows) * len(places) * width > MOST_SUMS:
        raise InputError(
            f"a cloud needs 2 words and 2 places, and at most {MOST_SUMS // width:,} sums; "
            f"got {len(rows)} words at {len(places)} places"
        )
    how: Normed = "none"
    if normed:
        how = "model" if _normalises(embeddings, width) else "length"
    return Cloud(rows, places, words.words(rows), words.at(places), how, embeddings)


def _normalises(embeddings: Embeddings, width: int) -> bool:
    try:
        recipe = embeddings._recipe
    except MissingTableError:
        return False
    return recipe.norm is not None and all(table.shape[1] == width for table in recipe.types)


def _shares(sums: Single) -> tuple[float, float, float]:
    """Return the shares of words, positions and the rest in the variance of sums [W, T, d]."""
    wide = np.asarray(sums, np.float64)
    wide = wide - wide.mean(axis=(0, 1))
    of_words, of_places = wide.mean(axis=1), wide.mean(axis=0)
    words, places = len(of_places) * (of_words**2).sum(), len(of_words) * (of_places**2).sum()
    rest = ((wide - of_words[:, None] - of_places) ** 2).sum()
    total = words + places + rest
    if not total > 0:
        raise InputError("all sums are the same vector, so there is no variance to share out")
    return float(words / total), float(places / total), float(rest / total)
