"""Search for tokens that contain a text or match a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from hfposemb.analysis.rows import norms
from hfposemb.errors import HfposembError
from hfposemb.tables.table import Labels
from hfposemb.text import one_line

from ..components.plot import NeighbourList, NeighbourRow, Panel
from ..jobs import children
from ..limits import LONGEST_QUERY
from ..recipes import token_snippets
from ..session.opened import Opened
from .chosen_word import shown, with_tokens

MATCHES = 24
SEARCH_SECONDS = 3.0
NOT_SEARCHED = ("", False)
"""Search text, and whether it is a pattern, when there is no search."""


def write_sought(sought: Sequence[Any]) -> str:
    """Serialise a search for the URL."""
    text, pattern = sought
    return f"{'regex' if pattern else 'text'}:{text}"


def read_search(text: str) -> list[Any]:
    """Parse the output of ``write_sought``."""
    kind, _, wanted = text.partition(":")
    if kind not in ("text", "regex") or not 0 < len(wanted) <= LONGEST_QUERY:
        raise ValueError(text[:40])
    return [wanted, kind == "regex"]


@lru_cache(maxsize=16)
def _folded(labels: Labels) -> tuple[str, ...]:
    return tuple(text.casefold() for text in labels)


def containing(labels: Labels, text: str) -> list[int]:
    """Return the rows whose label contains a text, ignoring case, shortest first."""
    wanted = text.casefold()
    return _shortest(labels, [row for row, label in enumerate(_folded(labels)) if wanted in label])


def matching(labels: Labels, pattern: str) -> list[int]:
    """Return the rows whose label matches a regular expression, within ``SEARCH_SECONDS``."""
    return _shortest(labels, children.run(children.search, pattern, labels.texts, deadline=SEARCH_SECONDS))


def _shortest(labels: Labels, rows: list[int]) -> list[int]:
    return sorted(rows, key=lambda row: (len(labels[row].strip()), row))


def nearest_spelling(labels: Labels, text: str) -> str | None:
    """Return the label spelt most like a text, among those with the same first character and similar length."""
    wanted = text.strip().casefold()[:40]
    if not wanted:
        return None
    near: tuple[float, str] = (0.0, "")
    for row, label in enumerate(_folded(labels)):
        bare = label.strip().removeprefix("##")
        if bare[:1] == wanted[0] and abs(len(bare) - len(wanted)) <= 4:
            near = max(near, (SequenceMatcher(None, wanted, bare).ratio(), labels[row]))
    return near[1] if near[0] >= 0.6 else None


def match_panels(opened: Sequence[Opened], text: str, regex: bool) -> tuple[Panel, ...]:
    """Return the panel of search results in every source."""
    query = text.strip()[:LONGEST_QUERY]
    lists, counts = [], []
    for source in with_tokens(opened):
        table = source.embeddings.token  # type: ignore[union-attr]
        try:
            rows = matching(table.labels, query) if regex else containing(table.labels, query)
        except HfposembError as error:
            return (
                Panel(
                    "matches",
                    one_line(str(error)),
                    tone="error",
                    message="Correct the pattern, or search for plain text.",
                ),
            )
        if not regex and query.isascii() and query.isdecimal() and len(query) < 9 and int(query) < table.shape[0]:
            rows = list(dict.fromkeys((int(query), *rows)))
        lengths = norms(table)
        entries = tuple(
            NeighbourRow(shown(table.labels[row]), float(lengths[row]), False, row) for row in rows[:MATCHES]
        )
        counts.append(f"{len(rows):,} of {source.name}")
        lists.append(NeighbourList(f"{source.name}, {len(rows):,}", source.color, entries))
    quoted = one_line(query, width=40)
    title = (
        f"{' and '.join(counts)} {'match' if regex else 'contain'} {quoted}"
        if counts
        else "None of the sources has tokens"
    )
    more = f"Showing the {MATCHES} shortest of each. " if any(len(one.rows) == MATCHES for one in lists) else ""
    return (
        Panel(
            "matches",
            title,
            lists=tuple(lists),
            emphasis=quoted,
            foot=f"{more}Number: norm. Click a token to select it, or press Enter for the word itself.",
            recipe=token_snippets.matches(with_tokens(opened), query, regex=regex, most=MATCHES)
            if any(counts)
            else None,
        ),
    )
