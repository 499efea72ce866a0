"""Tables that a model looks rows up in beside its word table, and what a text looks up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from ...lazy_attributes import lazy_attribute
from ..inputs import LONGEST_TEXT, Pieces
from ..table import EmbeddingTable, Labels, RowReader, Vectors
from ..tabular import Columns, Tabular
from .row_rules import NOTHING, RowRule

UNKNOWN = "not known"
MOST_IDS = 1_000_000
"""Most ids of a text."""


class _Numbers(Sequence[str]):
    """The numbers from 0 to below ``count`` as texts, none of them in memory: there may be hundreds of millions."""

    def __init__(self, count: int) -> None:
        self.total = count

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, at: Any) -> Any:
        return [*map(str, range(self.total)[at])] if isinstance(at, slice) else str(range(self.total)[at])

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.total))


class _Numbered(Labels):
    """Labels that are row numbers."""

    def exact(self, label: str) -> int | None:
        """Return the row that a number names."""
        said = label.isascii() and label.isdecimal() and len(label) < 12 and str(int(label)) == label
        return int(label) if said and int(label) < len(self) else None


def numbered(rows: int) -> Labels:
    """Return labels that are row numbers, for any number of rows."""
    texts: Any = _Numbers(rows)
    return _Numbered(texts, texts, np.broadcast_to(np.uint8(0), (rows,)))


@dataclass(frozen=True)
class RowLookup:
    """How the rows of a table are looked up.

    Attributes:
        by: What looks a row up, in a sentence; "" if it is not known.
        facts: The same as values.
        unknown: Why it is not known.
        make: Makes the rule; it may read small tensors or the tokenizer.
    """

    by: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    unknown: str = ""
    make: Callable[[], RowRule] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Say what a row is looked up by."""
        return self.by or f"{UNKNOWN}{f': {self.unknown}' if self.unknown else ''}"


@dataclass(frozen=True, eq=False)
class LookupTable(EmbeddingTable):
    """Table that is looked up beside the word table: by n-grams of tokens, or by tokens for every layer.

    Attributes:
        lookup: How its rows are looked up.
        layers: Number of layers whose vectors lie side by side in each row; 1 for other tables.
    """

    lookup: RowLookup = field(default_factory=RowLookup)
    layers: int = 1

    def __repr__(self) -> str:
        """Describe the table by name, size, origin and lookup, without reading it."""
        return f"LookupTable({self.name!r}, {self.size}, {self.origin}, looked up by {self.lookup})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to read the table, as for every table."""
        return LookupTable, (*super().__reduce__()[1], self.lookup, self.layers)

    @lazy_attribute
    def rule(self) -> RowRule:
        """Rule that turns token ids into rows. Raises ``InputError`` if it is not known."""
        if self.lookup.make is None:
            raise InputError(f"which rows of {self.name} a text looks up is {self.lookup}; give row numbers")
        return self.lookup.make()

    def looked_up(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return the rows that a text looks up.

        Args:
            ids: Token ids of the text [length].

        Returns:
            Row numbers [length, columns], −1 where nothing is looked up; ``rule.columns()`` names the columns.

        Raises:
            InputError: If the rule is not known, and for ids that have no row.
        """
        given = np.asarray(ids)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu" or given.size > MOST_IDS:
            raise InputError(f"token ids must be a list of 1 to {MOST_IDS:,} whole numbers; got {ids!r:.80}")
        if given.dtype == np.uint64 and given.max() >= 2**63:
            raise InputError(f"token id {given.max()} has more than 63 bits")
        found = self.rule.rows(given.astype(np.int64))
        if (most := int(found.max())) >= self.shape[0]:
            raise InputError(f"the text looks up row {most:,} of {self.name}, which has {self.shape[0]:,} rows")
        return found

    def layer(self, number: int) -> EmbeddingTable:
        """Return the part of each row that belongs to a layer, counted from 0. Raises ``InputError`` for others."""
        if not 0 <= number < self.layers:
            raise InputError(f"{self.name} has no layer {number}; its layers are 0 to {self.layers - 1}")
        width = self.shape[1] // self.layers
        read: RowReader = partial(_columns, self, number * width, (number + 1) * width)
        name = f"{self.name} of layer {number}"
        return EmbeddingTable(name, (self.shape[0], width), self.dtype, self.provenance, read, self.named)


def _columns(table: EmbeddingTable, first: int, end: int, start: int, stop: int) -> Vectors:
    return np.ascontiguousarray(table.rows(start, stop)[:, first:end])


@dataclass(frozen=True, eq=False)
class LookedUp(Tabular):
    """Rows of a table that a text looks up.

    Attributes:
        table: Name of the table.
        pieces: Tokens of the text, or their ids.
        ids: Their ids [length].
        heads: What each column of ``rows`` is, such as ``2-gram 0``.
        rows: Row numbers [length, heads], −1 where nothing is looked up.
    """

    table: str
    pieces: tuple[str, ...]
    ids: NDArray[np.int64]
    heads: tuple[str, ...]
    rows: NDArray[np.int64]

    def columns(self) -> Columns:
        """Return ``piece``, ``id``, and the rows of each head."""
        rows = {head: self.rows[:, column] for column, head in enumerate(self.heads)}
        return {"piece": list(self.pieces), "id": self.ids, **rows}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for JSON."""
        return {**asdict(self), "ids": self.ids.tolist(), "rows": self.rows.tolist()}

    def __str__(self) -> str:
        """Return a line for each token."""
        wide = max(len(repr(piece)) for piece in self.pieces)
        lines = [f"rows of {self.table} that {len(self.ids):,} tokens look up ({', '.join(self.heads)}; − for none)"]
        for piece, one, rows in zip(self.pieces, self.ids, self.rows, strict=True):
            said = " ".join("−" if row == NOTHING else str(row) for row in rows)
            lines.append(f"  {piece!r:<{wide}} {one:>7}  {said}")
        return "\n".join(lines)


def read_rows(table: LookupTable, given: str | Sequence[int], cut: Callable[[str], Pieces] | None = None) -> LookedUp:
    """Return the rows of a table that a text looks up.

    Args:
        table: The table.
        given: A text or its token ids.
        cut: Cuts a text into tokens.

    Raises:
        InputError: As ``LookupTable.looked_up``, and for a text without a tokenizer.
    """
    if isinstance(given, str):
        if cut is None:
            raise InputError(f"{table.name} have no tokenizer; give token ids instead of a text")
        if len(given) > LONGEST_TEXT:
            raise InputError(f"the text has {len(given):,} characters; the limit is {LONGEST_TEXT:,}")
        pieces = cut(given)
        if not pieces.ids:
            raise InputError("the text is empty; give at least one word")
        texts, ids = pieces.texts, np.array(pieces.ids, np.int64)
    else:
        texts, ids = (), np.asarray(given)
    rows = table.looked_up(ids)
    names = texts or tuple(map(str, ids.tolist()))
    return LookedUp(table.name, names, ids.astype(np.int64), table.rule.columns(), rows)
