"""Placement of labels that hide little, do not overlap, and stay within the plot.

Coordinates are pixels of a plot of a typical size, x to the right and y upwards; texts are escaped as plotly needs
them. This module does not depend on plotly: callers turn places and offsets into annotations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Offset: TypeAlias = tuple[float, float]  # from a dot to the centre of its label
Box: TypeAlias = tuple[float, float, float, float]  # centre x, centre y, half width, half height
Corner: TypeAlias = tuple[float, float, float, float]  # x from, x to, y from, y to, as fractions of the plot

CHARACTER, LINE = 6.6, 16  # width of a character and height of a line at 12.5 px


def wide(text: str) -> float:
    """Return the approximate width of an escaped text in pixels."""
    return CHARACTER * len(unescape(text))


def _inside(box: Box, points: Array) -> int:
    x, y, half_width, half_height = box
    return int(((np.abs(points[:, 0] - x) < half_width) & (np.abs(points[:, 1] - y) < half_height)).sum())


def _overlap(a: Box, b: Box) -> bool:
    return abs(a[0] - b[0]) < a[2] + b[2] and abs(a[1] - b[1]) < a[3] + b[3]


def _middle(corner: Corner) -> Box:
    x0, x1, y0, y1 = corner
    return ((x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 2, (y1 - y0) / 2)


# --- next to dots -----------------------------------------------------------------------------------------------------


def beside_dots(
    anchors: Array, texts: Sequence[str], crowd: Array, *, size: tuple[float, float], leader: float = 0
) -> list[Offset]:
    """Choose for every label, greedily, the offset from its dot that hides least and stays within the plot.

    See ``unhidden`` for labels that still overlap.

    Args:
        anchors: Dots [labels, 2] in pixels.
        texts: Escaped labels [labels].
        crowd: Points [n, 2] that labels should not hide, in pixels.
        size: Width and height of the plot in pixels.
        leader: Length of the line from a dot to its label, 0 for none.

    Returns:
        The offset of each label's centre from its dot.
    """
    taken: list[Box] = [(float(x), float(y), 5.0, 5.0) for x, y in anchors]
    chosen = []
    for (x, y), text in zip(anchors, texts, strict=True):
        best, best_cost = (0.0, 0.0), (True, np.inf)
        for order, (dx, dy) in enumerate(_around(wide(text), leader)):
            box = (float(x) + dx, float(y) + dy, wide(text) / 2, LINE / 2)
            outside = (
                box[0] - box[2] < 0 or box[0] + box[2] > size[0] or box[1] - box[3] < 0 or box[1] + box[3] > size[1]
            )
            cost = order + 10 * min(_inside(box, crowd), 40) + 500 * sum(_overlap(box, other) for other in taken)
            if (outside, cost) < best_cost:
                best, best_cost = (dx, dy), (outside, cost)
        taken.append((float(x) + best[0], float(y) + best[1], wide(text) / 2, LINE / 2))
        chosen.append(best)
    return chosen


def unhidden(anchors: Array, texts: Sequence[str], offsets: Sequence[Offset]) -> list[int]:
    """Return the labels that do not overlap an earlier one, so that no label hides another.

    Args:
        anchors: Dots [labels, 2] in pixels.
        texts: Escaped labels [labels], the most important first.
        offsets: Offset of each label's centre from its dot.

    Examples:
        >>> unhidden(np.zeros((3, 2)), ["king", "queen", "lord"], [(0, 0), (20, 0), (0, 20)])
        [0, 2]
    """
    kept: dict[int, Box] = {}
    for place, ((x, y), text, (dx, dy)) in enumerate(zip(anchors, texts, offsets, strict=True)):
        box = (float(x) + dx, float(y) + dy, wide(text) / 2, LINE / 2)
        if not any(_overlap(box, other) for other in kept.values()):
            kept[place] = box
    return list(kept)


def _around(width: float, leader: float) -> list[Offset]:
    """Return offsets of a label from its dot, best first: at the dot, or with a leader also at twice its length."""
    found = []
    for length in (leader, 2 * leader, 3 * leader) if leader else (0.0,):
        side, slant, above = width / 2 + 9 + length, width / 2 + 5 + length / 2, 12 + 0.7 * length
        found += [
            (side, 0), (-side, 0), (0, 15 + length), (0, -15 - length),
            (slant, above), (-slant, above), (slant, -above), (-slant, -above),
            (slant + 8, above + 12), (-slant - 8, above + 12), (slant + 8, -above - 12), (-slant - 8, -above - 12),
        ]  # fmt: skip
    return found


def on_screen(
    points: Array,
    *,
    eye: Sequence[float] | Array,
    size: tuple[float, float],
    center: Sequence[float] | Array = (0.0, 0.0, 0.0),
) -> Array:
    """Return the pixels [n, 2] at which plotly's camera shows points [n, 3] of the unit cube centred at 0.

    Args:
        points: Points in the unit cube.
        eye: Position of the camera.
        size: Width and height of the plot in pixels.
        center: What the camera looks at.
    """
    camera = np.asarray(eye, np.float64)
    forward = np.asarray(center, np.float64) - camera
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    seen = np.asarray(points, np.float64) - camera
    flat: Array = np.stack([seen @ right, seen @ up], axis=1) / (seen @ forward)[:, None]
    flat *= size[1] / (2 * np.tan(np.pi / 8))
    return flat + np.asarray(size) / 2


def dense(points: Array) -> Array:
    """Return the points with three more inserted on every segment, for placing labels next to a line."""
    shares = np.linspace(0, 1, 4, endpoint=False)[:, None, None]
    between = points[:-1] + shares * (points[1:] - points[:-1])
    return np.concatenate([between.reshape(-1, points.shape[1]), points[-1:]])


def pointer(text: str, *, at: Array, edge: Array, crowd: Array, room: Array, inset: Corner) -> Offset:
    """Return the offset of a label with a leader line: outside of a frame, where the plot is emptiest.

    Args:
        text: Escaped label.
        at: Centre of the frame [2] in pixels.
        edge: Half width and half height of the frame [2] in pixels.
        crowd: Points [n, 2] that the label should not hide.
        room: Width and height of the plot [2] in pixels.
        inset: Region that is kept free, as fractions of the plot.
    """
    half = wide(text) / 2
    best, fewest = (0.0, 0.0), np.inf
    x0, x1, y0, y1 = (share * side for share, side in zip(inset, np.repeat(room, 2), strict=True))
    kept_free = _middle((x0, x1, y0, y1))
    for dx, dy in ((-1, 1), (1, 1), (-1, -1), (1, -1), (0, 1), (0, -1), (-1, 0), (1, 0)):
        end = (dx * (edge[0] + 26 + half * abs(dx) / 2), dy * (edge[1] + 26))
        box: Box = (float(at[0] + end[0]), float(at[1] + end[1]), half + 4, LINE / 2 + 2)
        outside = not (half < box[0] < room[0] - half and LINE < box[1] < room[1] - LINE)
        count = _inside(box, crowd) + 10_000 * (outside + _overlap(box, kept_free))
        if count < fewest:
            best, fewest = (float(end[0]), float(end[1])), count
    return best


# --- on lines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Mapping of values to pixels in a plot of ``size`` pixels.

    ``spans`` are the ranges of the axes in their own coordinates: powers of ten for a ``log`` axis.
    """

    log: tuple[bool, bool]
    spans: tuple[tuple[float, float], tuple[float, float]]
    size: tuple[float, float]

    def own(self, values: Array, which: int) -> Array:
        """Return values in the coordinates of axis ``which``, 0 for x."""
        values = np.asarray(values, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values) if self.log[which] else values

    def pixels(self, x: Array, y: Array) -> Array:
        """Return pixels [n, 2]."""
        parts = []
        for which, values in enumerate((x, y)):
            low, high = self.spans[which]
            parts.append((self.own(values, which) - low) / (high - low) * self.size[which])
        return np.stack(parts, axis=1)

    def at(self, pixels: Array) -> list[float]:
        """Return a pixel [2] in the axes' own coordinates."""
        return [
            low + pixel / size * (high - low)
            for pixel, size, (low, high) in zip(pixels, self.size, self.spans, strict=True)
        ]

    def trail(self, x: Array, y: Array) -> Array:
        """Return a line as pixels [n, 2], sampled so densely that no label fits between samples."""
        points = self.pixels(x, y)
        points = points[np.isfinite(points).all(axis=1)]
        if len(points) < 2:
            return points
        fine = np.arange(points[0, 0], points[-1, 0], 1.0)
        between = np.stack([fine, np.interp(fine, points[:, 0], points[:, 1])], axis=1)
        return np.concatenate([points, between])


@dataclass(frozen=True, eq=False)
class Place:
    """A point [2] and the offset of a label from it."""

    point: Array
    offset: Offset

    def box(self, text: str) -> Box:
        """Return the box that the label occupies."""
        x, y = self.point
        return float(x) + self.offset[0], float(y) + self.offset[1], wide(text) / 2, LINE / 2


def on_lines(
    texts: Sequence[str], trails: Sequence[Array], *, size: tuple[float, float], taken: Sequence[Box]
) -> list[Place] | None:
    """Place a name next to each line where nothing else is; ``None`` if one of them does not fit.

    Args:
        texts: Escaped names [lines].
        trails: Pixels [n, 2] of each line.
        size: Width and height of the plot in pixels.
        taken: Boxes that are already occupied.
    """
    boxes, places = list(taken), []
    for text, trail in zip(texts, trails, strict=True):
        others = np.concatenate([np.empty((0, 2)), *(other for other in trails if other is not trail)])
        place = _beside_line(trail, others, wide(text) / 2, size, boxes)
        if place is None:
            return None
        boxes.append(place.box(text))
        places.append(place)
    return places


def _beside_line(
    trail: Array, others: Array, half: float, size: tuple[float, float], taken: Sequence[Box]
) -> Place | None:
    found, cost = None, (np.inf, 0)
    crowd, near = (points[np.argsort(points[:, 0])] for points in (np.concatenate([trail, others]), others))
    # Cheapest first: once a place is found, stop at places whose base cost alone is higher.
    for price, order, place, box in sorted(_beside(trail, half, size), key=lambda one: one[:2]):
        if price > cost[0]:
            break
        if _inside(box, _about(box, crowd)) or any(_overlap(box, other) for other in taken):
            continue
        around: Box = (box[0], box[1], half + 14, LINE / 2 + 18)  # another line nearby would make the label ambiguous
        price += 3 * _inside(around, _about(around, near))
        if (price, order) < cost:
            found, cost = place, (price, order)
    return found


def _beside(trail: Array, half: float, size: tuple[float, float]) -> Iterator[tuple[float, int, Place, Box]]:
    """Yield places next to a line within the plot: base cost, order, place, and box."""
    order = 0
    for index in range(0, len(trail), max(1, len(trail) // 120)):
        x, y = trail[index]
        for dx, dy in ((0, 14), (0, -14), (half + 8, 0), (half + 6, 10), (half + 6, -10), (-half - 8, 0)):
            box: Box = (float(x) + dx, float(y) + dy, half + 3, LINE / 2 + 1)
            if box[0] - half < 0 or box[0] + half > size[0] or not LINE / 2 <= box[1] <= size[1] - LINE / 2:
                continue
            # Readers look for a line's name right of the centre.
            price = 0.5 * abs(box[0] - 0.6 * size[0]) + (0 if dx == 0 else 10)
            order += 1
            yield price, order, Place(trail[index], (float(dx), float(dy))), box


def _about(box: Box, points: Array) -> Array:
    """Return the points, sorted by x, that may lie in a box."""
    first, last = np.searchsorted(points[:, 0], (box[0] - box[2] - 1, box[0] + box[2] + 1))
    return points[first:last]


def apart(heights: Array) -> Array:
    """Move heights [n] to be a line of text apart in their order, with the least sum of squared shifts."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(heights, kind="stable")
    target = heights[order] - LINE * np.arange(len(heights))
    # Neighbours that collide are pooled at their mean.
    moved = isotonic_regression(target).x + LINE * np.arange(len(heights))
    result: Array = np.empty_like(moved)
    result[order] = moved
    return result


# --- on maps ----------------------------------------------------------------------------------------------------------


CELLS = 40
"""Cells of a map in each direction, of which islands are made."""


def islands(unit: Array) -> Array:
    """Return the island of each point of the unit square [n], a connected set of occupied cells; 0 is the largest."""
    from scipy.ndimage import label

    x, y = np.clip((unit * CELLS).astype(int), 0, CELLS - 1).T
    land = np.zeros((CELLS, CELLS), bool)
    land[x, y] = True
    island, _ = label(land, np.ones((3, 3)))
    _, of, sizes = np.unique(island[x, y], return_inverse=True, return_counts=True)
    rank: Array = np.argsort(np.argsort(-sizes, kind="stable"))
    return np.asarray(rank[of])


def beside_island(
    text: str, here: Array, *, unit: Array, size: tuple[float, float], inset: Corner | None
) -> Array | None:
    """Return where to name an island [2]: below its points, otherwise above, otherwise ``None``.

    Args:
        text: Escaped name.
        here: Points of the island [n, 2] in the unit square.
        unit: All points of the map [n, 2] in the unit square.
        size: Width and height of the map in pixels.
        inset: Region that is kept free, if any.
    """
    kept_free = _middle(inset or (0.0, 0.0, 0.0, 0.0))
    half = (wide(text) / 2 / size[0], LINE / 2 / size[1])
    x = float(np.clip(np.median(here[:, 0]), half[0], 1 - half[0]))
    bottom, top = here[:, 1].min(), here[:, 1].max()
    for y in (float(bottom) - 20 / size[1], float(top) + 20 / size[1]):
        box: Box = (x, y, *half)
        if 2 * half[1] < y < 1 - 2 * half[1] and not _overlap(box, kept_free) and not _inside(box, unit):
            return np.asarray([x, y])
    return None


def corner_box(corner: Corner, size: tuple[float, float]) -> Box:
    """Return a corner of a plot as a box in pixels."""
    x, y, half_width, half_height = _middle(corner)
    return x * size[0], y * size[1], half_width * size[0], half_height * size[1]


def on_regions(
    anchors: Array, texts: Sequence[str], crowd: Array, *, size: tuple[float, float], taken: Sequence[Box]
) -> list[Offset | None]:
    """Choose an offset for the name of each region, the first ones first; ``None`` where it would cover another label.

    Args:
        anchors: Middles of the regions [regions, 2] in pixels.
        texts: Escaped names [regions].
        crowd: Points [n, 2] that names should hide few of, in pixels.
        size: Width and height of the plot in pixels.
        taken: Boxes that are already occupied.
    """
    boxes, offsets = list(taken), []
    for (x, y), text in zip(anchors, texts, strict=True):
        half, best, fewest = wide(text) / 2 + 3, None, np.inf
        for distance in (0, 22, 40):
            for dx, dy in ((0, -1), (0, 1), (-1, 0), (1, 0)) if distance else ((0, 0),):
                offset = (dx * (distance + half * abs(dx)), float(dy * distance))
                box: Box = (float(x) + offset[0], float(y) + offset[1], half, LINE / 2 + 1)
                inside = half < box[0] < size[0] - half and LINE < box[1] < size[1] - LINE
                if not inside or any(_overlap(box, other) for other in boxes):
                    continue
                cost = _inside(box, crowd) + 2 * distance
                if cost < fewest:
                    best, fewest = offset, cost
        offsets.append(best)
        if best is not None:
            boxes.append((float(x) + best[0], float(y) + best[1], half, LINE / 2 + 1))
    return offsets


def empty_corner(unit: Array) -> Corner | None:
    """Return the largest nearly empty corner of the unit square with points [n, 2]; ``None`` if there is none."""
    for width, height in ((0.46, 0.4), (0.4, 0.34), (0.34, 0.28), (0.3, 0.24)):
        counts = {}
        for x, y in ((0.0, 1 - height), (1 - width, 1 - height), (0.0, 0.0), (1 - width, 0.0)):
            box = (x + width / 2, y + height / 2, width / 2 + 0.01, height / 2 + 0.01)
            counts[x, x + width, y, y + height] = _inside(box, unit)
        corner = min(counts, key=lambda box: counts[box])
        if counts[corner] <= 0.0005 * len(unit):
            return corner
    return None
