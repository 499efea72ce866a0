"""FEWEST Rows that two tables share: the same positions, or the same tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import directed
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.encodings import table_in
from ..tables.table import TOKEN_CLASSES, EmbeddingTable

FEWEST = 20
"""Shared rows below which nothing is compared: the spread of unbiased CKA over noise is .09 there."""


def tables_of(left: Embeddings, right: Embeddings, role: str) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return the tables of both sources that ``role``, ``position`` or ``token``, names.

    Raises ``InputError`` for another role, ``MissingTableError`` without a table.
    """
    if role not in ("position", "token"):
        raise InputError(f'two sources are compared by "position" or "token"; got {role!r}')
    if role == "position":
        return table_in(left.position), table_in(right.position)
    return left.token, right.token


def shared_rows(left: Embeddings, right: Embeddings, role: str, *, fold_case: bool = False) -> NDArray[np.int64]:
    """Return the pairs of rows [shared, 2] that stand for the same in both and have a direction.

    Positions are matched by their number; tokens by their text without the marks of their tokenizer, ``fold_case``
    without case too. Raises ``InputError`` for fewer than 20.
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


def _same_tokens(left: EmbeddingTable, right: EmbeddingTable, *, fold_case: bool) -> NDArray[np.int64]:
    """Return pairs of rows [shared, 2] of tokens that read the same, in the order of the left table."""
    rows = [by_text(table, fold_case=fold_case) for table in (left, right)]
    usable = [directed(table) for table in (left, right)]
    pairs = [
        (row, rows[1][text])
        for text, row in rows[0].items()
        if text in rows[1] and usable[0][row] and usable[1][rows[1][text]]
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def by_text(table: EmbeddingTable, *, fold_case: bool = False) -> dict[str, int]:
    """Return the row of every text without its marks, continuations of a word apart; of several rows the first."""
    found: dict[str, int] = {}
    continued = table.labels.classes == TOKEN_CLASSES.index("continuation")
    for row, text in enumerate(table.labels):
        plain = text.strip().removeprefix("##")
        if plain:
            plain = plain.casefold() if fold_case else plain
            found.setdefault(f"##{plain}" if continued[row] else plain, row)
    return found
