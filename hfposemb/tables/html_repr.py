"""What a notebook shows of a value: a title and facts, as HTML that fits a light and a dark page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

LONGEST = 300
"""Characters of a cell. Names and notes are other people's text."""

_CELL = "text-align: left; vertical-align: top; padding: 2px 16px 2px 0; font-variant-numeric: tabular-nums"


def plain(text: str) -> str:
    """Return a text as HTML: on one line, no markup, what cannot be seen replaced, cut where it is long."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[: LONGEST + 1])
    return html.escape(shown if len(shown) <= LONGEST else shown[:LONGEST] + "…")


def card(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a title above facts, each a name and what it is."""
    return grid(title, (), [(name, value) for name, value in facts])


def grid(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a title above a table; the first cell of every row names it, and a row of one cell heads what follows."""
    columns = "".join(f'<th scope="col" style="{_CELL}">{plain(head)}</th>' for head in heads)
    lines = []
    for first, *cells in rows:
        span = "" if cells else f' colspan="{max(len(heads), 1)}"'
        named = f'<th scope="row"{span} style="{_CELL}; font-weight: {500 if cells else 700}">{plain(first)}</th>'
        lines.append(f"<tr>{named}{''.join(f'<td style={_CELL!r}>{plain(cell)}</td>' for cell in cells)}</tr>")
    head = f"<thead><tr>{columns}</tr></thead>" if heads else ""
    return (
        f'<div style="overflow-x: auto"><strong>{plain(title)}</strong>'
        f'<table style="border-collapse: collapse; color: inherit">{head}<tbody>{"".join(lines)}</tbody></table></div>'
    )
