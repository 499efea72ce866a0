"""Search for tokens that contain a text or match a pattern."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeVar
from weakref import ref

import gradio as gr
import numpy as np
from numpy.typing import NDArray

from hfposemb.analysis.rows import norms
from hfposemb.errors import HfposembError
from hfposemb.figures.style import listed
from hfposemb.tables.table import EmbeddingTable, Labels
from hfposemb.text import one_line

from ...components.plot import NeighbourList, NeighbourRow, Panel
from ...limits import LONGEST_QUERY
from ...recipes import token_snippets
from ...session.kept import Kept
from ...session.opened import Opened
from ..chosen_word import Word, shown, with_tokens
from . import patterns

T = TypeVar("T")
MATCHES = 8
KEPT = Kept(2**28)
"""What searches need of labels, and what they found."""
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


def picked_word(source: Opened | None, row: object) -> list[Any]:
    """Return what a click on a token sets: the word, the search field and the search; nothing if there is no token."""
    if source is None or not isinstance(row, int) or not 0 <= row < source.tokens.shape[0]:
        return [gr.skip()] * 3
    text = source.tokens.labels[row]
    return [Word(text, source.text, row), one_line(text.strip(), width=60), list(NOT_SEARCHED)]


def _once(labels: Labels, what: Hashable, maker: Callable[[], T]) -> T:
    """Return what is computed once of labels, which are not kept for it."""
    return KEPT.make((ref(labels), what), maker)


def _folded(labels: Labels) -> tuple[str, ...]:
    return _once(labels, "folded", lambda: tuple(text.casefold() for text in labels))


def containing(labels: Labels, text: str) -> list[int]:
    """Return the rows whose label contains a text, ignoring case, shortest first."""
    wanted = text.casefold()
    return _shortest(labels, [row for row, label in enumerate(_folded(labels)) if wanted in label])


def matching(labels: Labels, pattern: str) -> list[int]:
    """Return the rows whose label matches a regular expression: see ``patterns``."""
    return _shortest(labels, patterns.search(pattern, _blocks(labels)))


def _blocks(labels: Labels) -> tuple[patterns.Block, ...]:
    return _once(labels, "blocks", lambda: tuple(patterns.blocks(labels)))


def _shortest(labels: Labels, rows: list[int]) -> list[int]:
    found = np.asarray(rows, dtype=np.int64)  # ascending, which a stable sort keeps
    ordered: list[int] = found[np.argsort(_lengths(labels)[found], kind="stable")].tolist()
    return ordered


def _lengths(labels: Labels) -> NDArray[np.int64]:
    return _once(labels, "lengths", lambda: np.fromiter((len(text.strip()) for text in labels), np.int64, len(labels)))


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


def matched(table: EmbeddingTable, query: str, *, regex: bool) -> list[int]:
    """Return the rows that a search finds, shortest first; an id comes before the labels that contain it."""
    search, labels = matching if regex else containing, table.labels
    rows = _once(labels, (query, regex), lambda: np.array(search(labels, query), np.int64)).tolist()
    named = None if regex else id_of(query)
    return list(dict.fromkeys((named, *rows))) if named is not None and named < table.shape[0] else rows


def id_of(query: str) -> int | None:
    """Return the id that a text is, if it is one."""
    return int(query) if query.isascii() and query.isdecimal() and len(query) < 9 else None


def named_in_each(opened: Sequence[Opened], row: int) -> str:
    """State which token an id is in every source."""
    said = []
    for source in with_tokens(opened):
        table = source.tokens
        token = f"“{shown(table.labels[row])}”" if row < table.shape[0] else "none"
        said.append(f"{token} in {source.name}")
    return f"Token {row} is {', '.join(said)}" if said else ""


def match_panels(
    opened: Sequence[Opened], text: str, regex: bool, *, actions: tuple[str, ...] = ()
) -> tuple[Panel, ...]:
    """Return the panel of search results in every source."""
    query = text.strip()[:LONGEST_QUERY]
    lists, counts = [], []
    for source in with_tokens(opened):
        table = source.tokens
        try:
            rows = matched(table, query, regex=regex)
        except HfposembError as error:
            return (
                Panel(
                    "matches",
                    one_line(str(error)),
                    tone="error",
                    message="Correct the pattern, or search for plain text.",
                ),
            )
        lengths = norms(table)
        entries = tuple(
            NeighbourRow(shown(table.labels[row]), float(lengths[row]), False, row) for row in rows[:MATCHES]
        )
        counts.append(f"{len(rows):,} of {source.vocabulary}")
        lists.append(NeighbourList(f"{source.vocabulary}, {len(rows):,}", source.color, entries))
    quoted = one_line(query, width=40)
    title = (
        f"{listed(counts)} {'match' if regex else 'contain'} {quoted}" if counts else "None of the sources has tokens"
    )
    more = f"The {MATCHES} shortest of each. " if any(len(one.rows) == MATCHES for one in lists) else ""
    named = None if regex else id_of(query)
    return (
        Panel(
            "matches",
            title,
            subtitle=named_in_each(opened, named) if named is not None else "",
            lists=tuple(lists),
            emphasis=quoted,
            foot=f"{more}Number: norm. Enter: the word itself.",
            actions=actions,
            recipe=token_snippets.matches(with_tokens(opened), query, regex=regex, most=MATCHES)
            if any(counts)
            else None,
        ),
    )
