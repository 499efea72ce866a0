"""Rows of several tables under common numbers, by which a widget links and selects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..comparison.matched_rows import by_text
from ..lazy_attributes import lazy_attribute
from ..tables.table import EmbeddingTable

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """The number of every row of several tables; rows with the same number correspond.

    Attributes:
        numbers: Numbers of the rows of each table [rows].
    """

    numbers: tuple[Rows, ...]

    @lazy_attribute
    def count(self) -> int:
        """Number of different numbers, all below it."""
        return max((int(one.max()) + 1 for one in self.numbers if len(one)), default=0)

    def is_own(self, place: int) -> bool:
        """Return whether the rows of a table have their own numbers."""
        return bool(np.array_equal(self.numbers[place], np.arange(len(self.numbers[place]))))

    def rows(self, place: int, numbers: Rows) -> Rows:
        """Return the rows of a table that have one of some numbers, in their order in the table."""
        found: Rows = np.flatnonzero(np.isin(self.numbers[place], numbers))
        return found


def same_positions(lengths: Sequence[int]) -> LinkedRows:
    """Link the rows of position tables by their number.

    Args:
        lengths: Number of rows of each table.

    Examples:
        >>> from hfposemb.widget.linked_rows import same_positions
        >>> [rows.tolist() for rows in same_positions([3, 2]).numbers]
        [[0, 1, 2], [0, 1]]
    """
    return LinkedRows(tuple(np.arange(length) for length in lengths))


def same_tokens(tables: Sequence[EmbeddingTable]) -> LinkedRows:
    """Link the rows of vocabularies by the text of their tokens, without the marks of their tokenizers.

    A token of several rows is linked by its first one. Tables without labels are linked by their row numbers.

    Args:
        tables: Token tables.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.widget.linked_rows import same_tokens
        >>> tables = [hpe.extract(name).token for name in ("sample:bert", "sample:gpt2")]
        >>> bert, gpt2 = same_tokens(tables).numbers
        >>> bert[tables[0].row("king")] == gpt2[tables[1].row("king")]
        np.True_
    """
    first = tables[0]
    if all(table.named is None or table.labels.texts == first.labels.texts for table in tables):
        return same_positions([table.shape[0] for table in tables])
    known: dict[str, int] = {}
    count, numbers = 0, []
    for table in tables:
        found = np.full(table.shape[0], -1, np.int64)
        texts = by_text(table)
        for text, row in texts.items():
            found[row] = known.get(text, -1)
        new = np.flatnonzero(found < 0)
        found[new] = count + np.arange(len(new))
        count += len(new)
        known |= {text: int(found[row]) for text, row in texts.items()}
        numbers.append(found)
    return LinkedRows(tuple(numbers))
