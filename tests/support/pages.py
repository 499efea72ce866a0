"""Pages of docs/ that have text of their own beside what is written into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def opening(page: str, first: str) -> str:
    """Return the text of a page before what is written: before the first place of ``first``."""
    text, mark, _ = (DOCS / page).read_text(encoding="utf-8").partition(first)
    assert mark, f"{page} has no {first!r}"
    return text


def row(*cells: str) -> str:
    """Return a line of a table of Markdown."""
    return "| " + " | ".join(cells) + " |\n"


def with_rows(text: str, heads: Sequence[str], rows: Iterable[str]) -> str:
    """Return a text whose table with these heads has these rows."""
    head = row(*heads) + "|" + "---|" * len(heads) + "\n"
    text, count = re.subn(re.escape(head) + r"(\|.*\n)*", lambda _: head + "".join(rows), text)
    assert count == 1, heads
    return text
