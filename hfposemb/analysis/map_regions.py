"""Dense regions of a map of tokens, named by what is distinctive for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tables.table import TOKEN_CLASSES, EmbeddingTable
from .projection import Projection

CELLS = 100
"""Cells of the grid along each side."""

FEWEST = 0.002
"""Share of the tokens that a region must have, and at least ``FEWEST_TOKENS`` of them."""

FEWEST_TOKENS = 25
OF_CLASS = 0.5
"""Share of a region's tokens from which it is named by their class."""

COHERENT = 0.1
"""Mean cosine of two tokens of a region, beyond that of any two, from which it is named by its most central words."""

WORDS = frozenset({"word start", "continuation"})
"""Classes that do not name a region: too many tokens have them."""

LONGEST_WORD = 16
STEM = 5
"""Letters that two words of a region's name may not have in common at their start."""


@dataclass(frozen=True)
class Region:
    """A dense region of a map.

    Attributes:
        x: Horizontal coordinate of its middle.
        y: Vertical coordinate of its middle.
        rows: Number of its tokens.
        kind: Class of most of its tokens, ``""`` for words.
        words: Its two most central words; empty if it is named by its class.
    """

    x: float
    y: float
    rows: int
    kind: str
    words: tuple[str, ...]


def named_regions(projection: Projection, table: EmbeddingTable, *, most: int = 12) -> tuple[Region, ...]:
    """Return the dense regions of a two-dimensional map that have something in common, the clearest first.

    Tokens are counted in a grid, which is smoothed; a region is what lies around a maximum. It is named by its class if
    most of its tokens are numbers, unused, or of another script, else by the words nearest to the mean of its tokens if
    they are far more similar than any two tokens. Others get no name.

    Args:
        projection: Map of the table in two dimensions.
        table: The token table.
        most: Number of regions at most.

    Returns:
        The regions, each class once.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.map_regions import named_regions
        >>> table = hpe.extract("sample:bert").token
        >>> named_regions(hpe.project(table, method="pca", dims=2), table, most=0)
        ()
    """
    if projection.dims != 2 or not len(projection.rows) or not most:
        return ()
    points, classes = projection.coordinates, table.labels.classes[projection.rows]
    common = _common(table, projection.rows)
    found: list[tuple[float, Region]] = []
    for here in _dense(points):
        x, y = np.median(points[here], axis=0).tolist()
        shares = np.bincount(classes[here], minlength=len(TOKEN_CLASSES)) / len(here)
        kind = TOKEN_CLASSES[int(shares.argmax())]
        if kind not in WORDS:
            if shares.max() >= OF_CLASS:
                found.append((1 + len(here) / len(points), Region(x, y, len(here), kind, ())))
            continue
        coherence, words = _central(table, projection.rows[here])
        if coherence - common >= COHERENT and len(words) == 2:
            found.append((coherence, Region(x, y, len(here), "", words)))
    found.sort(key=lambda one: -one[0])
    return tuple(_once([region for _, region in found]))[:most]


def _once(regions: list[Region]) -> Iterator[Region]:
    """Yield regions, those of a class and a word only the first time."""
    seen: set[str] = set()
    for region in regions:
        names = {region.kind} if region.kind else set(region.words)
        if not names & seen:
            yield region
        seen |= names


def _dense(points: NDArray[np.float32]) -> Iterator[NDArray[np.int64]]:
    """Yield the points around each maximum of the smoothed density."""
    from scipy import ndimage  # a tenth of a second to import, needed for maps of tokens only

    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / np.where(high > low, high - low, 1)
    x, y = np.clip((unit * CELLS).astype(int), 0, CELLS - 1).T
    counts = np.zeros((CELLS, CELLS))
    np.add.at(counts, (x, y), 1)
    density = ndimage.gaussian_filter(counts, 0.9, mode="constant")
    # Every occupied cell belongs to the maximum that is reached by going uphill.
    ahead = np.arange(CELLS * CELLS).reshape(CELLS, CELLS)
    padded, places = np.pad(density, 1), np.pad(ahead, 1)
    best, to = density.copy(), ahead.copy()
    for dx in range(3):
        for dy in range(3):
            other = padded[dx : dx + CELLS, dy : dy + CELLS]
            uphill = other > best
            best, to = np.where(uphill, other, best), np.where(uphill, places[dx : dx + CELLS, dy : dy + CELLS], to)
    goal = to.ravel()
    for _ in range(CELLS.bit_length() + 1):
        goal = goal[goal]
    of = goal[ahead[x, y]]
    peaks, sizes = np.unique(of, return_counts=True)
    for peak in peaks[sizes >= max(FEWEST_TOKENS, FEWEST * len(points))]:
        yield np.flatnonzero(of == peak)


def _unit(table: EmbeddingTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    vectors = table.take(rows).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)
    return unit


def _common(table: EmbeddingTable, rows: NDArray[np.int64]) -> float:
    """Return the mean cosine of two tokens, from at most a thousand of them."""
    return _mean_cosine(_unit(table, rows[:: max(1, len(rows) // 1000)]))


def _mean_cosine(unit: NDArray[np.float64]) -> float:
    count, total = len(unit), unit.sum(axis=0)
    return float((total @ total - count) / max(count * (count - 1), 1))


def _central(table: EmbeddingTable, rows: NDArray[np.int64]) -> tuple[float, tuple[str, ...]]:
    """Return the mean cosine of two of some tokens, and the two words nearest to their mean."""
    unit = _unit(table, rows)
    words: dict[str, None] = {}
    for place in np.argsort(-(unit @ unit.sum(axis=0)), kind="stable")[:20]:
        row = int(rows[place])
        word = table.labels[row].strip()
        if TOKEN_CLASSES[table.labels.classes[row]] != "word start" or not 2 < len(word) <= LONGEST_WORD:
            continue
        if not any(word[:STEM].casefold() == other[:STEM].casefold() for other in words):
            words[word] = None
    return _mean_cosine(unit), tuple(words)[:2]
