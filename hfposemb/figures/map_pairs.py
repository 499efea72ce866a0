"""Two maps of the same rows as two figures in one frame, so that they can be compared by eye."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comparison.alignment import rows_of
from . import position_figures

if TYPE_CHECKING:
    from ..comparison.aligned_maps import AlignedMaps
    from ..comparison.moved_words import Moves

POINTS = 1_500
"""Points that are drawn of each map; of more rows a sample, with a seed."""

NAMED = 6
"""Words that are pointed out on both."""

SEED = 0


@dataclass(frozen=True, eq=False)
class Beside:
    """The ``left`` and the ``right`` figure, and what is ``drawn`` in both, in words."""

    left: Any
    right: Any
    drawn: str


def beside(found: AlignedMaps, moves: Sequence[Moves] = (), *, link: str = "aligned", most: int = POINTS) -> Beside:
    """Draw two maps of the rows that two tables share, at most ``most`` of them.

    Points of one place are the same row, and ``link`` each other. Words of ``moves`` that moved most between these two
    are always drawn, and pointed out.
    """
    count = len(found.labels)
    chosen, moved = np.arange(count), _places(found, moves)
    drawn = f"{count:,} shared {rows_of(found.role, found.parts)}"
    if count > most:
        sample = np.random.default_rng(SEED).choice(count, most, replace=False)
        chosen = np.union1d(sample, moved)
        drawn = f"{len(chosen):,} of {drawn}, drawn with seed {SEED}" + (
            ", those that moved most too" if len(moved) else ""
        )
    sides = [points[chosen, :2] for points in (found.coordinates_left, found.coordinates_right)]
    frame = position_figures.MapFrame.of(*sides)
    if far := sum(frame.outside(points) for points in sides):
        drawn += f" · {far:,} {'dot lies' if far == 1 else 'dots lie'} beyond the edges of the maps"
    order = found.rows[chosen, 0] if found.role == "position" else None
    labels = [found.labels[row] for row in chosen]
    named = np.searchsorted(chosen, moved).tolist()
    left, right = (
        position_figures.aligned_map(points, labels, frame=frame, link=link, order=order, named=named)
        for points in sides
    )
    return Beside(left, right, drawn)


def _places(found: AlignedMaps, moves: Sequence[Moves]) -> NDArray[np.int64]:
    """Return the places on the maps of the words that moved most."""
    words = [
        move.label
        for one in moves
        if found.role == "token" and (one.left, one.right) == (found.left, found.right)
        for move in one.most[:NAMED]
    ]
    places = {label: place for place, label in reversed(list(enumerate(found.labels)))}
    return np.array(sorted(places[word] for word in words if word in places), np.int64)
