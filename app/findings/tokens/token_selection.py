"""The selected tokens of the map: by class, a drawn shape or their ids, how a link names them, and their panel."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hfposemb.analysis.rows import norms
from hfposemb.errors import HfposembError
from hfposemb.figures.encoded_rows import RUN, base36, decoded, encoded
from hfposemb.figures.token_figures import class_counts
from hfposemb.tables.table import TOKEN_CLASSES, EmbeddingTable
from hfposemb.text import display, one_line

from ...components.help_texts import HELP
from ...components.plot import NeighbourRow, Panel, Panels
from ...limits import LONGEST_SOURCE
from ...recipes import token_snippets
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import shown
from .token_search import match_panels, matched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hfposemb.analysis.projection.projecting import Projection

LONGEST_IDS = 2_000
"""Characters of a selection's ids in a link; a larger selection is named by its outline."""

MOST_CORNERS = 120
"""Corners of an outline that are kept."""

STEPS = 36**3 - 1
"""Steps of a corner's coordinates along each side of the map."""

_KINDS = ("class", "ids", "area")
_AREA = re.compile(rf"(pca|umap)\.((?:[0-9a-z]{{6}}){{3,{MOST_CORNERS}}})")


@dataclass(frozen=True)
class Selection:
    """Selected tokens: those of a class, of ids, or within an outline on a map of one source."""

    kind: str = ""
    value: str = ""
    source: str = ""

    def __bool__(self) -> bool:
        return self.kind in _KINDS


def write_selection(chosen: Selection) -> str:
    """Serialise a selection for the URL."""
    return f"{chosen.kind}:{chosen.value}" + (f"@{chosen.source}" if chosen.source else "")


def read_selection(text: str) -> Selection:
    """Parse the output of ``write_selection``."""
    kind, _, rest = text.partition(":")
    value, _, source = rest.partition("@")
    fits = {
        "class": value in TOKEN_CLASSES and not source,
        "ids": len(value) <= LONGEST_IDS and all(map(RUN.fullmatch, value.split("."))) and bool(source),
        "area": _AREA.fullmatch(value) is not None and bool(source),
    }
    if len(source) > LONGEST_SOURCE or not fits.get(kind, False):
        raise ValueError(text[:40])
    return Selection(kind, value, source)


# --- outlines ---------------------------------------------------------------------------------------------------------


def outlined(corners: Any, projection: Projection, source: Opened) -> Selection | None:
    """Return the tokens within a shape that was drawn on a map; ``None`` if there are none, or it is no shape.

    They are named by their ids, so that they stay selected on another map, or by the outline if they are many.
    """
    points = _corners(corners)
    if points is None or projection.dims != 2:
        return None
    text = _as_text(points, projection.coordinates)
    rows = _within(text, projection)
    if not len(rows):
        return None
    if len(ids := encoded(rows)) <= LONGEST_IDS:
        return Selection("ids", ids, source.text)
    return Selection("area", f"{projection.method}.{text}", source.text)


def _corners(sent: Any) -> np.ndarray[Any, Any] | None:
    """Return the corners [n, 2] that a page sent, at most ``MOST_CORNERS`` of them."""
    try:
        points = np.asarray([sent["x"], sent["y"]], np.float64).T
    except (TypeError, ValueError, KeyError):
        return None
    if points.ndim != 2 or len(points) < 3 or not np.isfinite(points).all():
        return None
    step = -(-len(points) // MOST_CORNERS)
    return points[::step] if len(points[::step]) >= 3 else None


def _span(coordinates: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    low = coordinates.min(axis=0).astype(np.float64)
    extent = coordinates.max(axis=0) - low
    return low - 0.05 * extent, np.where(extent > 0, 1.1 * extent, 1.0)  # a shape may reach beyond the dots


def _as_text(points: np.ndarray[Any, Any], coordinates: np.ndarray[Any, Any]) -> str:
    low, extent = _span(coordinates)
    steps = np.clip(np.rint((points - low) / extent * STEPS), 0, STEPS).astype(int)
    return "".join(base36(int(step), 3) for step in steps.ravel())


def _within(text: str, projection: Projection) -> np.ndarray[Any, Any]:
    """Return the rows within an outline, by the parity of its edges to the right of each point."""
    low, extent = _span(projection.coordinates)
    numbers = np.asarray([int(text[at : at + 3], 36) for at in range(0, len(text), 3)], np.float64)
    corners = numbers.reshape(-1, 2) / STEPS * extent + low
    x, y = projection.coordinates.T.astype(np.float64)
    inside = np.zeros(len(x), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 != y1:
            inside ^= ((y0 > y) != (y1 > y)) & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    rows: np.ndarray[Any, Any] = projection.rows[inside]
    return rows


def selected_rows(session: Session, source: Opened, chosen: Selection) -> np.ndarray[Any, Any]:
    """Return the rows of a source that are selected; none if the selection is of another source."""
    table, none = source.table("token"), np.empty(0, np.int64)
    if table is None or (chosen.source and chosen.source != source.text):
        return none
    if chosen.kind == "class" and chosen.value in TOKEN_CLASSES:
        return np.flatnonzero(table.labels.classes == TOKEN_CLASSES.index(chosen.value))
    if chosen.kind == "ids":
        return decoded(chosen.value, table.shape[0])
    if (found := _AREA.fullmatch(chosen.value)) and (projection := session.projection(table, found[1], 2)) is not None:
        return _within(found[2], projection)
    return none


# --- what can be done with them ---------------------------------------------------------------------------------------


def table_of(table: EmbeddingTable, rows: Sequence[int] | np.ndarray[Any, Any]) -> bytes:
    """Return the selected tokens as CSV: id, token and norm, where no spreadsheet runs a token as a formula."""
    text, lengths = io.StringIO(), norms(table)
    writer = csv.writer(text)
    writer.writerow(("id", "token", "norm"))
    for row in rows:
        label = display(table.labels[int(row)], width=200)
        guarded = f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else label
        writer.writerow((int(row), guarded, f"{float(lengths[int(row)]):.7g}"))
    return text.getvalue().encode("utf-8", "replace")


def words_of(table: EmbeddingTable, rows: Sequence[int] | np.ndarray[Any, Any], most: int) -> str:
    """Return the first of some tokens as the words to compare, separated by commas."""
    out: dict[str, None] = {}
    for row in rows:
        word = table.labels[int(row)].strip()
        if word and "," not in word and len(word) <= 40:
            out[one_line(word, width=40)] = None
        if len(out) == most:
            break
    return ", ".join(out)


MOST_CHIPS = 200
ACTIONS = ("Compare", "CSV", "Clear")


def rows_of(session: Session, source: Opened, sought: Sequence[Any], chosen: Selection) -> NDArray[np.int64]:
    """Return the rows of a source that are searched, shortest first, or else selected."""
    text, regex = str(sought[0]).strip(), bool(sought[1])
    table = source.table("token")
    if not text or table is None:
        return selected_rows(session, source, chosen)
    try:
        return np.asarray(matched(table, text, regex=regex), np.int64)
    except HfposembError:
        return np.empty(0, np.int64)


def found_tokens(
    session: Session, opened: Sequence[Opened], source: Opened | None, sought: Sequence[Any], chosen: Selection
) -> Panels | None:
    """Return the row of the panel of a search in all sources, or of a selection in one; ``None`` without either."""
    if source is None:
        return None
    rows = rows_of(session, source, sought, chosen)
    if str(sought[0]).strip():
        panels = match_panels(opened, str(sought[0]), bool(sought[1]), actions=ACTIONS if len(rows) else ("Clear",))
    elif chosen and len(rows):
        panels = (selected_panel(source, rows, chosen),)
    else:
        return None
    return Panels(panels, selected={"token": encoded(rows)})


def selected_panel(source: Opened, rows: NDArray[np.int64], chosen: Selection) -> Panel:
    """Return the panel of the selected tokens of a source."""
    table = source.tokens
    lengths = norms(table)
    chips = tuple(
        NeighbourRow(shown(table.labels[int(row)]), float(lengths[row]), id=int(row)) for row in rows[:MOST_CHIPS]
    )
    count = f"{len(rows):,} {'token' if len(rows) == 1 else 'tokens'}"
    counts = class_counts(table.labels, rows=rows) if table.has_names else {}
    parts = [f"{many:,} {name}" for name, many in counts.items()]
    more = f"{len(rows) - MOST_CHIPS:,} more are not listed" if len(rows) > MOST_CHIPS else ""
    large = "named by its outline in links" if chosen.kind == "area" else ""
    return Panel(
        "selection",
        f"{count} of {source.vocabulary} selected" + (f": {chosen.value}" if chosen.kind == "class" else ""),
        subtitle=" · ".join(parts) if chosen.kind != "class" else "",
        chips=chips,
        help=HELP["selected tokens"],
        foot=" · ".join(filter(None, [more, large])),
        actions=ACTIONS,
        recipe=token_snippets.selection(source, rows, kind=chosen.value if chosen.kind == "class" else ""),
    )
