"""How often the title of a table of positions says something of tables in which there is nothing to find.

Titles state measurements, not tests. What a smooth curve without further structure gets is therefore counted by kind of
title, so that a reader knows what a title does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from hfposemb import from_arrays
from hfposemb.reports.position_findings import Facts, distance_title, finding, measure, norm_title, wave_title

from .families import POSITIONS
from .varying import VARYING

Told = Callable[[str], bool]
FAMILIES = {**POSITIONS, **VARYING}


def shape_title(facts: Mapping[str, Facts]) -> str:
    """Return the title of the only table."""
    (only,) = facts.values()
    return finding(only)


KINDS: Mapping[str, tuple[Callable[[Mapping[str, Facts]], str], Told]] = {
    "“No order”": (shape_title, lambda said: said.startswith("No order")),
    "“helix”": (shape_title, lambda said: "helix" in said),
    "“One smooth curve”": (shape_title, lambda said: said.startswith("One smooth curve")),
    "“Neighbours are similar”": (shape_title, lambda said: said.startswith("Neighbours are similar")),
    "“distance alone”": (shape_title, lambda said: said.endswith("distance alone")),
    "“falls below zero”": (distance_title, lambda said: "falls below zero" in said),
    "“Strongest period”": (wave_title, lambda said: said.startswith("Strongest period")),
    "an outlying norm": (norm_title, lambda said: "times the median norm" in said or "largest norm" in said),
}
"""Kinds of titles: the function that writes it, and whether it says so."""


def shares(family: str, count: int, width: int, *, tables: int) -> dict[str, float]:
    """Return the share of made tables of a family that get each kind of title."""
    rng = np.random.default_rng((count, width))
    found: Counter[str] = Counter()
    for _ in range(tables):
        rows = FAMILIES[family](count, width, rng).astype(np.float32)
        facts = {"x": measure(from_arrays(position=rows).position.table)}
        found.update(name for name, (title, told) in KINDS.items() if told(title(facts)))
    return {name: found[name] / tables for name in KINDS}


def section(count: int, width: int, *, tables: int) -> Iterator[str]:
    """Yield the lines of a table of Markdown: a row per family, a column per kind of title."""
    yield f"\n## Titles: shares of {tables} made tables of {count} × {width}\n\n"
    yield f"{HEAD}\n\n| family | {' | '.join(KINDS)} |\n{'|---' * (len(KINDS) + 1)}|\n"
    for family in FAMILIES:
        found = shares(family, count, width, tables=tables)
        yield f"| {family} | {' | '.join(f'{100 * share:.0f} %' for share in found.values())} |\n"


HEAD = (
    "A title states what was measured, without a test. The table shows what it does not prove: a random walk is a\n"
    "smooth curve too, so “One smooth curve” says that a table is smooth, not that a model learned it."
)
