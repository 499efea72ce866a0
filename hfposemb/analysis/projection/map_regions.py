"""Dense regions of a map of tokens, named by what is distinctive for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tables.table import TOKEN_CLASSES, EmbeddingTable
from ..rows import PASS_BYTES, blocks, norms
from ..similarity.anisotropy import mean_cosine
from .projecting import Projection

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
MOST_CENTRAL = 20
"""Tokens nearest to the mean of a region among which words that name it are looked for."""

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
        >>> from hfposemb.analysis.projection.map_regions import named_regions
        >>> table = hpe.extract("sample:bert").token
        >>> named_regions(hpe.project(table, method="pca", dims=2), table, most=0)
        ()
    """
    if projection.dims != 2 or not len(projection.rows) or not most:
        return ()
    points, classes = projection.coordinates, table.labels.classes[projection.rows]
    found: list[tuple[float, Region]] = []
    wordy: list[NDArray[np.int64]] = []
    for here in _dense(points):
        shares = np.bincount(classes[here], minlength=len(TOKEN_CLASSES)) / len(here)
        kind = TOKEN_CLASSES[int(shares.argmax())]
        if kind in WORDS:
            wordy.append(here)
        elif shares.max() >= OF_CLASS:
            found.append((1 + len(here) / len(points), Region(*_middle(points[here]), len(here), kind, ())))
    common = mean_cosine(table) or 0.0
    for here, (coherence, central) in zip(
        wordy, _central(table, [projection.rows[here] for here in wordy]), strict=True
    ):
        words = _words(table, central)
        if coherence - common >= COHERENT and len(words) == 2:
            found.append((coherence, Region(*_middle(points[here]), len(here), "", words)))
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


def _middle(points: NDArray[np.float32]) -> tuple[float, float]:
    x, y = np.median(points, axis=0).tolist()
    return x, y


def _central(table: EmbeddingTable, regions: Sequence[NDArray[np.int64]]) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Yield of each region [m] of rows the mean cosine of two rows, and the rows nearest to the mean direction.

    The table is read twice, whatever the number of regions: the rows of one are spread over all of it.
    """
    of = np.full(table.shape[0], -1)
    for number, rows in enumerate(regions):
        of[rows] = number
    totals, scores = np.zeros((len(regions), table.shape[1])), np.zeros(table.shape[0])
    for rows, unit in _unit_rows(table, of):
        order = np.argsort(of[rows], kind="stable")
        there, starts = np.unique(of[rows[order]], return_index=True)
        totals[there] += np.add.reduceat(unit[order], starts, axis=0)
    for rows, unit in _unit_rows(table, of):
        scores[rows] = np.einsum("ij,ij->i", unit, totals[of[rows]])
    for rows, total in zip(regions, totals, strict=True):
        coherence = float((total @ total - len(rows)) / max(len(rows) * (len(rows) - 1), 1))
        yield coherence, rows[np.argsort(-scores[rows], kind="stable")[:MOST_CENTRAL]]


def _unit_rows(table: EmbeddingTable, of: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the rows of any region, scaled to length 1 [m, d], with their numbers [m], a block at a time."""
    lengths = norms(table)
    for first, vectors in blocks(table, rows=max(1, PASS_BYTES // (8 * table.shape[1]))):
        inside = np.flatnonzero(of[first : first + len(vectors)] >= 0)
        if len(inside):
            rows = first + inside
            scale = np.where(lengths[rows] > 0, lengths[rows], 1)
            yield rows, vectors[inside] / scale[:, None]


def _words(table: EmbeddingTable, rows: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the first two words among some rows that do not begin alike."""
    words: dict[str, None] = {}
    for row in rows.tolist():
        word = table.labels[row].strip()
        if TOKEN_CLASSES[table.labels.classes[row]] != "word start" or not 2 < len(word) <= LONGEST_WORD:
            continue
        if not any(word[:STEM].casefold() == other[:STEM].casefold() for other in words):
            words[word] = None
    return tuple(words)[:2]
