"""Rows that two tables share, the same positions or the same tokens, and columns that hold the same numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import directed
from ..errors import InputError
from ..guesses import unknown_choice
from ..tables.embeddings import Embeddings
from ..tables.encodings import table_in
from ..tables.table import TOKEN_CLASSES, EmbeddingTable
from .table_side import directions

FEWEST = 20
"""Minimum number of shared rows, at which the standard deviation of unbiased CKA over noise is .09."""

MOST_MATCHED = 8192
"""Most columns that are matched with each other."""

Floats = NDArray[np.float64]


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


def matched_columns(x: Floats, y: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Match the columns of two tables by the absolute correlation of their values, each the other's best.

    Args:
        x: Rows [n, d].
        y: The same rows in other columns [n, d].

    Returns:
        For each column of x the one of y [d], −1 if it has none, and the sign of their correlation [d].
    """
    sides = [directions((one - one.mean(axis=0)).T).astype(np.float32) for one in (x, y)]
    width = len(sides[0])
    best, signs = np.zeros(width, np.int64), np.ones(width)
    most, back = np.full(width, -1.0, np.float32), np.zeros(width, np.int64)
    for start in range(0, width, 1024):
        block = sides[0][start : start + 1024] @ sides[1].T
        size = np.abs(block)
        best[start : start + 1024] = size.argmax(axis=1)
        rows = np.arange(len(block))
        signs[start : start + 1024] = np.sign(block[rows, best[start : start + 1024]])
        top = size.argmax(axis=0)
        value = size[top, np.arange(width)]
        better = value > most
        most[better], back[better] = value[better], start + top[better]
    mutual = back[best] == np.arange(width)
    return np.where(mutual, best, -1), signs
