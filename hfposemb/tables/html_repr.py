"""HTML representation of values in notebooks: a title and facts, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LONGEST = 300
"""Most characters of a cell; names and notes are untrusted text."""

_CELL = "text-align: left; vertical-align: top; padding: 2px 16px 2px 0; font-variant-numeric: tabular-nums"


def plain(text: str) -> str:
    """Escape text for HTML: one line, no markup, unprintable characters replaced, truncated to ``LONGEST``."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[: LONGEST + 1])
    import html

    return html.escape(shown if len(shown) <= LONGEST else shown[:LONGEST] + "…")


def card(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return HTML with a title above (name, value) pairs."""
    return grid(title, (), [(name, value) for name, value in facts])


def grid(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return HTML with a title above a table.

    The first cell of every row is its header; a row of one cell is a heading for the rows below it.
    """
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
