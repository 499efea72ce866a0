"""Rows that two tables share: the same positions, or the same tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import directed
from ..errors import InputError
from ..guesses import unknown_choice
from ..tables.embeddings import Embeddings
from ..tables.encodings import table_in
from ..tables.table import TOKEN_CLASSES, EmbeddingTable

FEWEST = 20
"""Minimum number of shared rows, at which the standard deviation of unbiased CKA over noise is .09."""


def tables_of(left: Embeddings, right: Embeddings, role: str) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return the position or token tables of two sources.

    Raises:
        InputError: If ``role`` is neither "position" nor "token".
        MissingTableError: If a source has no such table.
    """
    if role not in ("position", "token"):
        raise unknown_choice("role", role, ("position", "token"))
    if role == "position":
        return table_in(left.position), table_in(right.position)
    return left.token, right.token


def shared_rows(left: Embeddings, right: Embeddings, role: str, *, fold_case: bool = False) -> NDArray[np.int64]:
    """Return the pairs of rows [shared, 2] that correspond in two sources and have a direction in both.

    Args:
        left: First source.
        right: Second source.
        role: ``"position"`` to match by number, ``"token"`` to match by text without tokenizer marks.
        fold_case: Whether tokens are matched regardless of case.

    Raises:
        InputError: If there are fewer than 20 shared rows, or ``role`` is unknown.
        MissingTableError: If a source has no such table.
    """
    tables = tables_of(left, right, role)
    rows = _same_positions(*tables) if role == "position" else _same_tokens(*tables, fold_case=fold_case)
    if len(rows) < FEWEST:
        raise InputError(f"{left.name} and {right.name} share {len(rows)} {role}s; at least {FEWEST} are needed")
    return rows


def _same_positions(left: EmbeddingTable, right: EmbeddingTable) -> NDArray[np.int64]:
    count = min(left.shape[0], right.shape[0])
    both = np.flatnonzero(directed(left)[:count] & directed(right)[:count])
    return np.stack([both, both], axis=1)


def with_names(table: EmbeddingTable) -> EmbeddingTable:
    """Return a table. Raises ``InputError`` if its rows have no names but their numbers."""
    if not table.has_names:
        raise InputError(
            f"{table.name} has no tokens, only numbers of rows; open it with its tokenizer, or give labels"
        )
    return table


def _same_tokens(left: EmbeddingTable, right: EmbeddingTable, *, fold_case: bool) -> NDArray[np.int64]:
    """Return the pairs of rows [shared, 2] of tokens with the same text, in the order of the left table.

    Where neither has names, rows of one number; a number is no text that the other's tokens could be matched with.
    """
    if not left.has_names and not right.has_names:
        return _same_positions(left, right)
    left, right = map(with_names, (left, right))
    rows = [by_text(table, fold_case=fold_case) for table in (left, right)]
    usable = [directed(table) for table in (left, right)]
    pairs = [
        (row, rows[1][text])
        for text, row in rows[0].items()
        if text in rows[1] and usable[0][row] and usable[1][rows[1][text]]
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def by_text(table: EmbeddingTable, *, fold_case: bool = False) -> dict[str, int]:
    """Return the first row of each token text without tokenizer marks; continuations of words keep a "##" prefix."""
    found: dict[str, int] = {}
    continued = table.labels.classes == TOKEN_CLASSES.index("continuation")
    for row, text in enumerate(table.labels):
        plain = text.strip().removeprefix("##")
        if plain:
            plain = plain.casefold() if fold_case else plain
            found.setdefault(f"##{plain}" if continued[row] else plain, row)
    return found
