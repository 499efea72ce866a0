"""What is drawn of one source: a map and a matrix of its positions, and a map of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..analysis.projection.projecting import Projection
from ..analysis.similarity.similarity_matrix import similarity
from ..errors import InputError
from ..figures import line_figures, matrix_figures, style, token_figures
from ..figures.figure_packing import Packer, sendable
from ..figures.named_figures import kernel_length
from ..tables.encodings import PositionEncoding
from ..tables.table import EmbeddingTable
from ..text import percent

Panel: TypeAlias = dict[str, Any]


def packed_panel(packer: Packer, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
    """Return a panel; ``drawings`` are figures with their captions, whose numbers go to the packer."""
    none: dict[str, Any] = dict.fromkeys(("color", "subtitle", "help", "foot", "message", "emphasis"), "")
    none |= {"source": [], "numbers": [], "legend": [], "scale_bars": [], "lists": [], "span": 1, "tone": "normal"}
    actions = ["PNG", "SVG"] if drawings else []
    packed = [{"caption": sendable(caption), **packer.figure(figure)} for figure, caption in drawings]
    shown = sendable({**none, "key": key, "title": title, "actions": actions, **words})
    return {**shown, "drawings": packed}


def row_of(panels: Sequence[Panel], *, columns: int = 0, **more: Any) -> dict[str, Any]:
    """Return a row of panels, by default with at most four beside each other."""
    words = {"heading": "", "subheading": "", "scale_bars": [], "marked": {}, "swipe": False, **more}
    return {**sendable(words), "columns": columns or min(len(panels), 4), "panels": list(panels)}


def scale_bar(low: str, high: str, colors: Sequence[str]) -> dict[str, Any]:
    """Return a colour scale with the meaning of both ends."""
    return {"low": low, "high": high, "colors": list(colors), "title": ""}


def owner(name: str, place: int, about: str = "") -> dict[str, Any]:
    """Return the properties of a panel that identify its source, by its display name and index."""
    return {"source": [name, about], "color": style.source_style(place)[0]}


CELLS = 512
"""Maximum number of cells of a drawn matrix per direction; larger ones are drawn by blocks."""

NO_CLOUD = "Positions are not vectors that are added to words, so there is no cloud"

Drawing: TypeAlias = tuple[Any, str]
"""A figure and its caption."""


def map_foot(found: Projection, width: int) -> str:
    """State the method of a map, its dimensions, and how many neighbours it keeps."""
    kept = f"{percent(found.quality.neighbours_kept)} of {found.quality.k} neighbours kept"
    return f"{found.method.upper()} · {found.dims} of {width:,} dimensions · {kept}"


def cosine_matrix(table: EmbeddingTable) -> tuple[Drawing, str]:
    """Draw the cosines of all positions, and state how many are averaged in a cell, if several are."""
    count = table.shape[0]
    figure = matrix_figures.similarity_matrix(similarity(table).astype(np.float32), most=CELLS)
    blocks = f"matrix averaged in blocks of {-(-count // CELLS)}" if count > CELLS else ""
    return (figure, "cosine of each pair of positions"), blocks


def mechanism(encoding: PositionEncoding, name: str, place: int) -> tuple[Drawing, Drawing, str]:
    """Draw the effect of distance in a mechanism without rows, as a line and as a matrix, in its own unit.

    Args:
        encoding: The mechanism.
        name: Display name of its source.
        place: Index of its source.

    Returns:
        Both drawings, and a text that states which positions they show.

    Raises:
        InputError: If the mechanism has no effect that can be drawn.
    """
    unit, count = encoding.unit, kernel_length(encoding)
    if unit == "none":
        raise InputError(no_rows(encoding))
    back = encoding.profile(-np.arange(count)).astype(np.float32)
    line = style.Series(name, back, *style.source_style(place))
    matrix = encoding.matrix(count).astype(np.float32)
    return (
        (line_figures.similarity_by_distance([line], unit=unit, height=340), f"{unit} by distance back"),
        (matrix_figures.similarity_matrix(matrix, unit=unit, most=CELLS), f"{unit} of each pair of positions"),
        f"first {count:,} positions",
    )


def no_rows(encoding: PositionEncoding) -> str:
    """State why a mechanism has neither rows nor an effect that can be drawn."""
    return str(getattr(encoding, "reason", f"{encoding.kind} positions have no rows"))


def sampled(found: Projection, most: int, seed: int) -> tuple[Projection, str]:
    """Return at most ``most`` points of a map of tokens, and a text that states which they are."""
    count = len(found.rows)
    if count <= most:
        return found, f"all {count:,} tokens"
    chosen = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    return found.take(chosen), f"{most:,} of {count:,} tokens, sampled with seed {seed}"


def class_legend(table: EmbeddingTable, found: Projection) -> list[dict[str, Any]]:
    """Return the legend of a map of tokens, their classes and how many are drawn of each; none of numbered rows."""
    counts = token_figures.class_counts(table.labels, rows=found.rows) if table.has_names else {}
    return [{"name": name, "color": style.CLASS_COLOURS[name], "note": f"{many:,}"} for name, many in counts.items()]
