"""The selected range of positions: how similar its positions are, and where a range is as similar in the same table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfposemb.analysis.rows import mean_cosine_of_runs
from hfposemb.figures.encoded_rows import encoded
from hfposemb.figures.style import listed
from hfposemb.text import number

from ...components.help_texts import HELP
from ...components.plot import Panel, Panels
from ...recipes.position_snippets import tables
from ...recipes.writing import listed_as, recipe
from ...session.opened import Opened
from ...session.shown_positions import GROUP, Positions, tables_of
from ...session.state import Session

LONGEST = 40
"""Characters of a range in the address."""

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-–:]|to)\s*(\d{1,9})\s*")


@dataclass(frozen=True)
class Range:
    """Positions from ``first`` to ``last``, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.last - self.first + 1


def read_range(text: str) -> Range | None:
    """Parse a range such as 100-163; ``None`` if the text is no range of two positions or more."""
    found = _RANGE.fullmatch(text)
    ends = sorted(map(int, found.groups())) if found else (0, 0)
    return Range(*ends) if ends[0] < ends[1] else None


def dragged(area: Any) -> str:
    """Return the range between the ends of a shape drawn over a plot of positions as text, empty if there is none."""
    places = area.get("x") if isinstance(area, dict) else None
    if not isinstance(places, list) or not all(isinstance(place, int | float) for place in places) or not places:
        return ""
    if not np.isfinite(places).all():
        return ""
    first, last = max(0, int(np.ceil(min(places)))), int(np.floor(max(places)))
    return f"{first}-{last}" if first < last <= 10**8 else ""


def range_panels(opened: Sequence[Opened], length: int, text: str, session: Session) -> Panels:
    """Return the row that selects a range of positions: its panel, or nothing without a range."""
    chosen = read_range(text)
    if chosen is None:
        said = f"Found “{text.strip()[:LONGEST]}”; write the first and the last position, such as 100-163."
        wrong = (Panel("range", "No range", message=said, tone="error", actions=("Clear",)),)
        return Panels(wrong if text.strip() else ())
    found = {
        source: positions
        for source, positions in tables_of(opened, length, session).items()
        if chosen.last < positions.table.shape[0]
    }
    if not found:
        tables = tables_of(opened, length, session)
        ends = [f"{source.name} ends at {shown.table.shape[0] - 1:,}" for source, shown in tables.items()]
        said = f"No source has position {chosen.last:,}" + (f": {listed(ends)}." if ends else ".")
        missing = Panel("range", f"Positions {chosen.first:,} to {chosen.last:,}", message=said, actions=("Clear",))
        return Panels((missing,))
    rows = encoded(np.arange(chosen.first, chosen.last + 1))
    return Panels((range_panel(chosen, found),), selected={GROUP: rows})


def range_panel(chosen: Range, found: dict[Opened, Positions]) -> Panel:
    """State how similar the positions of a range are in each source, and those of other ranges of its length."""
    runs = {source.name: mean_cosine_of_runs(shown.table, chosen.count) for source, shown in found.items()}
    said = [f"{_cosine(all_runs[chosen.first])} in {name}" for name, all_runs in runs.items()]
    return Panel(
        "range",
        f"Positions {chosen.first:,} to {chosen.last:,} have a mean cosine of {listed(said)}",
        subtitle=f"Any {chosen.count:,} neighbouring positions: {'; '.join(_usual(*item) for item in runs.items())}",
        help=HELP["range"],
        actions=("Clear",),
        recipe=recipe(
            "runs",
            list(found),
            imports=["from hfposemb.analysis.rows import mean_cosine_of_runs"],
            tables=listed_as("tables", tables(list(found.values()))),
            first=chosen.first,
            count=chosen.count,
        ),
    )


def _cosine(value: float) -> str:
    return number(value, digits=2) if np.isfinite(value) else "no cosine"


def _usual(name: str, runs: np.ndarray[Any, Any]) -> str:
    known = runs[np.isfinite(runs)]
    if not len(known):
        return f"no cosine in {name}"
    low, high = np.percentile(known, [5, 95])
    return f"{_cosine(known.mean())} in {name} (90 %: {_cosine(low)} to {_cosine(high)})".replace("90 %", "90\u00a0%")
