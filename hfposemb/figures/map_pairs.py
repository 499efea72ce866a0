"""Two maps of the same rows as two figures in a common frame, for visual comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comparison.table_side import rows_of
from . import position_figures

if TYPE_CHECKING:
    from ..comparison.aligned_maps import AlignedMaps
    from ..comparison.moved_words import Moves

POINTS = 1_500
"""Maximum number of points drawn of each map; larger maps are sampled with a seed."""

NAMED = 6
"""Number of moved words that are labelled on both maps."""

SEED = 0


@dataclass(frozen=True, eq=False)
class Beside:
    """The ``left`` and ``right`` figure, and a text that states what is ``drawn`` in both."""

    left: Any
    right: Any
    drawn: str


def beside(found: AlignedMaps, moves: Sequence[Moves] = (), *, link: str = "aligned", most: int = POINTS) -> Beside:
    """Draw two maps of the rows that two tables share.

    Args:
        found: The aligned maps. Points with the same index are the same row.
        moves: Words that moved; those that moved most between these two sources are always drawn, and labelled.
        link: Group for linked hover of both figures.
        most: Maximum number of points per map.
    """
    count = len(found.labels)
    chosen, moved = np.arange(count), _places(found, moves)
    drawn = f"{count:,} shared {rows_of(found.role, found.parts)}"
    if count > most:
        sample = np.random.default_rng(SEED).choice(count, most, replace=False)
        chosen = np.union1d(sample, moved)
        drawn = f"{len(chosen):,} of {drawn}, sampled with seed {SEED}" + (
            ", plus those that moved most" if len(moved) else ""
        )
    sides = [points[chosen, :2] for points in (found.coordinates_left, found.coordinates_right)]
    frame = position_figures.MapFrame.of(*sides)
    if far := frame.left_out(*map(frame.outside, sides)):
        drawn += f" · {far}"
    order = found.rows[chosen, 0] if found.role == "position" else None
    labels = [found.labels[row] for row in chosen]
    named = np.searchsorted(chosen, moved).tolist()
    left, right = (
        position_figures.aligned_map(points, labels, frame=frame, link=link, order=order, named=named)
        for points in sides
    )
    return Beside(left, right, drawn)


def _places(found: AlignedMaps, moves: Sequence[Moves]) -> NDArray[np.int64]:
    """Return the indices, in the maps, of the words that moved most."""
    words = [
        move.label
        for one in moves
        if found.role == "token" and (one.left, one.right) == (found.left, found.right)
        for move in one.most[:NAMED]
    ]
    places = {label: place for place, label in reversed(list(enumerate(found.labels)))}
    return np.array(sorted(places[word] for word in words if word in places), np.int64)
