"""The panel of the tokens that are searched or selected: how many, which, and what can be done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hfposemb.analysis.rows import norms
from hfposemb.errors import HfposembError
from hfposemb.figures.encoded_rows import encoded
from hfposemb.figures.token_figures import class_counts

from ...components.plot import NeighbourRow, Panel, Panels
from ...recipes import token_snippets
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import shown
from .token_search import match_panels, matched
from .token_selection import Selection, selected_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CHIPS = 200
ACTIONS = ("Compare", "CSV", "Clear")

HELP = """
Select tokens with the lasso or the box on the map, by a class of its legend, or by a search. They stand out on the map,
also on another projection.

Compare puts the first of them into “Compare words” below. CSV saves the id, the token and the norm of all. Escape
clears the selection.
"""


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
    parts = [f"{many:,} {name}" for name, many in class_counts(table.labels, rows=rows).items()]
    more = f"{len(rows) - MOST_CHIPS:,} more are not listed" if len(rows) > MOST_CHIPS else ""
    large = "named by its outline in links" if chosen.kind == "area" else ""
    return Panel(
        "selection",
        f"{count} of {source.vocabulary} selected" + (f": {chosen.value}" if chosen.kind == "class" else ""),
        subtitle=" · ".join(parts) if chosen.kind != "class" else "",
        chips=chips,
        help=HELP,
        foot=" · ".join(filter(None, [more, large])),
        actions=ACTIONS,
        recipe=token_snippets.selection(source, rows, kind=chosen.value if chosen.kind == "class" else ""),
    )
