"""Names on a map of tokens: those of tokens, of islands and of dense regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tables.table import TOKEN_CLASSES
from . import label_placement
from .label_placement import Corner
from .style import ACCENT_TEXT, INK, PANEL, SUBDUED, Array, add_label, escape

if TYPE_CHECKING:
    from ..analysis.projection.map_regions import Region

MAP_WIDTH = 640  # width in pixels assumed for placing labels on a map

ISLANDS = {
    "continuation": "continuations",
    "has a digit": "numbers",
    "other script": "other scripts",
    "unused": "unused slots",
    "padding": "padding",
}  # names of a map's islands; words are the mainland


def token_name(text: str, *, chosen: bool, at: tuple[float, float], **more: Any) -> dict[str, Any]:
    """Return the label of a token, in the accent colour if it is the selected one."""
    return add_label(f"<b>{text}</b>" if chosen else text, colour=ACCENT_TEXT if chosen else INK, at=at, **more)


def island_names(
    points: Array, classes: Array, low: Array, extent: Array, corner: Corner | None, height: int
) -> list[dict[str, Any]]:
    """Return labels that name the token classes of a 2-D map's islands, placed below or above them."""
    unit = (points - low) / extent
    of = label_placement.islands(unit)
    notes = []
    for island in range(1, int(of.max(initial=0)) + 1):
        here = np.flatnonzero(of == island)
        if len(here) < max(30, 0.003 * len(unit)):
            break  # islands are sorted by size
        shares = np.bincount(classes[here], minlength=len(TOKEN_CLASSES)) / len(here)
        found = [TOKEN_CLASSES[place] for place in np.argsort(-shares, kind="stable") if shares[place] >= 0.2]
        if found[0] not in ISLANDS:
            continue
        text = ", ".join(ISLANDS[name] for name in found if name in ISLANDS)
        size = (float(MAP_WIDTH), float(height))
        place = label_placement.beside_island(text, unit[here], unit=unit, size=size, inset=corner)
        if place is not None:
            at = low + place * extent
            notes.append(add_label(text, colour=SUBDUED, x=float(at[0]), y=float(at[1])))
    return notes


REGION = "region"
"""Name of the annotations of regions, which a phone has no room for."""


def region_name(region: Region) -> str:
    """Return the name of a region: its class, or its most central words."""
    return ISLANDS.get(region.kind, region.kind) if region.kind else f"{', '.join(region.words)} …"


def region_names(
    regions: Sequence[Region],
    unit: Array,
    low: Array,
    extent: Array,
    corner: Corner | None,
    height: int,
    notes: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return quiet labels of regions, beside them where there is room, and never over another label."""
    room = np.asarray([float(MAP_WIDTH), float(height)])
    taken = [_taken(note, low, extent, room) for note in notes if "xref" not in note]
    taken += [label_placement.corner_box(corner, (float(room[0]), float(room[1])))] if corner else []
    anchors = np.asarray([((region.x, region.y) - low) / extent * room for region in regions]).reshape(-1, 2)
    texts = [escape(region_name(region), width=36) for region in regions]
    places = label_placement.on_regions(anchors, texts, unit * room, size=(float(room[0]), float(room[1])), taken=taken)
    return [
        add_label(
            text,
            colour=SUBDUED,
            at=place,
            bgcolor=PANEL,
            opacity=0.85,
            name=REGION,
            x=float(region.x),
            y=float(region.y),
        )
        for region, text, place in zip(regions, texts, places, strict=True)
        if place is not None
    ]


def _taken(note: dict[str, Any], low: Array, extent: Array, room: Array) -> label_placement.Box:
    """Return the box in pixels that a label or a frame on the map occupies."""
    if "text" not in note:
        ends = (np.asarray([[note["x0"], note["y0"]], [note["x1"], note["y1"]]]) - low) / extent * room
        (x, y), (half_width, half_height) = ends.mean(axis=0), np.abs(ends[1] - ends[0]) / 2 + 4
        return float(x), float(y), float(half_width), float(half_height)
    x, y = (np.asarray([note["x"], note["y"]]) - low) / extent * room
    dx, dy = (note["ax"], -note["ay"]) if note["showarrow"] else (note["xshift"], note["yshift"])
    return float(x) + dx, float(y) + dy, label_placement.wide(note["text"]) / 2, label_placement.LINE / 2
