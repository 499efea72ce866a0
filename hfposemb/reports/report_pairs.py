"""The report's sections of every two sources: measures, maps beside each other, and words that moved."""

from __future__ import annotations

from itertools import combinations

from ..comparison.aligned_maps import AlignedMaps, align_maps
from ..comparison.table_side import rows_of
from ..errors import HfposembError
from ..figures.map_pairs import beside
from . import html_tables
from .report_page import Page

PAIRED = 1_000
"""Maximum number of points of each of two maps side by side."""


def pair_measures(page: Page) -> str:
    """Return the tables of pairs, and how to read them."""
    how = (
        "Each dot is a measure from 0 (nothing in common) to 1 (equal up to rotation, translation and scale). The bar "
        f"is the middle 90 % of the values by chance: {html_tables.KEY}. Positions are compared with curves as smooth "
        "in the same places, tokens with the same rows in random order."
    )
    if said := html_tables.correction(page.comparison):
        how += f" {said}."
    return f'<p class="about">{how}</p>{html_tables.pairs_tables(page.comparison, page.named)}'


def add_maps(page: Page) -> None:
    """Draw side by side what every two sources share, in a common frame."""
    body = ""
    for left, right in combinations(range(len(page.sources)), 2):
        for role in ("position", "token"):
            try:
                found = align_maps(page.sources[left], page.sources[right], role)
            except HfposembError:
                continue  # the section of pairs gives the reason
            body += _maps_row(page, found, left, right)
    about = (
        "The second map is aligned to the first and scaled to the same spread. Hover over a point to mark it in both."
    )
    page.add("Aligned maps", about, body)


def _maps_row(page: Page, found: AlignedMaps, left: int, right: int) -> str:
    """Draw two maps in one row."""
    link = f"{found.role} {left} {right}"
    drawn = beside(found, page.comparison.moves, link=link, most=PAIRED)
    panels = [
        page.panel(
            f"{link} {place}",
            "",
            (figure, ""),
            foot=f"{found.method.upper()} · {drawn.drawn}",
            **page.owner(place, rows_of(found.role, (part, ""))),
        )
        for place, figure, part in ((left, drawn.left, found.parts[0]), (right, drawn.right, found.parts[1]))
    ]
    what = rows_of(found.role, found.parts).capitalize()
    heading = f"{what}. {found.sentence(page.names[left], page.names[right])}"
    return page.row(panels, columns=2, heading=heading, subheading="; ".join(found.notes))


def add_moved_words(page: Page) -> None:
    """List the words that moved most between every two vocabularies."""
    body = ""
    for moves in page.comparison.moves:
        pair = " and ".join(html_tables.text(page.named.get(name, name)) for name in (moves.left, moves.right))
        null = moves.null
        notes = "".join(f" {html_tables.text(note, width=300)}." for note in moves.notes)
        body += (
            f'<h3>{pair}</h3><p class="about">{moves.shared:,} shared words; the mean distance is '
            f"{html_tables.figure(moves.mean)}, with rows in random order {html_tables.figure(null.low)} to "
            f"{html_tables.figure(null.high)}.{notes}</p>{html_tables.moves_table(moves, page.named)}"
        )
    about = (
        "One vocabulary is aligned to the other. Moved: distance of a word's two vectors, relative to their lengths; 0 "
        "if equal, 1 if they have nothing in common, up to 1.41 if they are opposite. Kept: share of common neighbours."
    )
    page.add("Words that moved", about, body)
