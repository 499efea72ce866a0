"""Tables that a model looks rows up in beside its word table, and what a text looks up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError
from ...lazy_attributes import lazy_attribute
from ..inputs import LONGEST_TEXT, Pieces
from ..table import EmbeddingTable, Labels, RowReader, Vectors
from ..tabular import Columns, Tabular

Ids = NDArray[np.int64]

NOTHING = -1
"""Row number where a model looks nothing up and takes zeros."""


class RowRule(Protocol):
    """Rule by which the ids of a text look up rows of a table."""

    def rows(self, ids: Ids) -> Ids:
        """Return row numbers [length, columns] for the ids [length] of a text."""
        ...

    def columns(self) -> tuple[str, ...]:
        """Return what each column of ``rows`` is."""
        ...


@dataclass(frozen=True)
class Head:
    """One head of an n-gram table.

    Attributes:
        order: Number of tokens whose ids are hashed.
        modulus: Number of rows of the head.
        offset: First row of the head in the table.
        factors: What the id of a token is multiplied by, and that of the token before it, and so on [order].
    """

    order: int
    modulus: int
    offset: int
    factors: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NgramHash:
    """Hash of the last n ids: products with factors, combined in 64 bits as torch computes, modulo the rows of a head.

    Attributes:
        heads: Heads of all orders.
        combine: Whether the products are combined by XOR or added.
        fill: Id that stands for tokens before the beginning.
        ends: Ids after which a text begins anew.
        ignored: Ids that count as 0.
        skips_zero: Whether id 0 ends a text too, and row 0 of a head is not looked up.
        count: Number of ids; ``None`` for any.
        renamed: What ids are mapped to before they are hashed [vocabulary]; ``None`` if they stay.
    """

    heads: tuple[Head, ...]
    combine: Literal["xor", "sum"]
    fill: int
    ends: tuple[int, ...] = ()
    ignored: tuple[int, ...] = ()
    skips_zero: bool = False
    count: int | None = None
    renamed: Ids | None = field(default=None, repr=False)

    def columns(self) -> tuple[str, ...]:
        """Return order and number of each head."""
        counts: dict[int, int] = {}
        names = []
        for head in self.heads:
            counts[head.order] = number = counts.get(head.order, -1) + 1
            names.append(f"{head.order}-gram {number}")
        return tuple(names)

    def rows(self, ids: Ids) -> Ids:
        """Return the rows that each token looks up with the tokens before it.

        Args:
            ids: Token ids of a text [length].

        Returns:
            Row numbers [length, heads], ``NOTHING`` where nothing is looked up.

        Raises:
            InputError: For ids that the model does not have.

        >>> import numpy as np
        >>> from hfposemb.tables.lookups.lookup_table import Head, NgramHash
        >>> NgramHash((Head(2, 11, 0, (1, 10)),), "sum", fill=0).rows(np.array([3, 4, 3])).tolist()
        [[3], [1], [10]]
        """
        before = self._before(self._prepared(ids))
        mixed: dict[tuple[int, ...], Ids] = {}
        out = np.empty((len(ids), len(self.heads)), np.int64)
        for column, head in enumerate(self.heads):
            if head.factors not in mixed:
                mixed[head.factors] = self._mixed(before, head.factors)
            found = mixed[head.factors] % head.modulus
            out[:, column] = (
                np.where(found == 0, NOTHING, found + head.offset) if self.skips_zero else found + head.offset
            )
        return out

    def _prepared(self, ids: Ids) -> Ids:
        if self.count is not None and len(wrong := ids[(ids < 0) | (ids >= self.count)]):
            raise InputError(f"token id {wrong[0]} is out of range; ids are 0 to {self.count - 1:,}")
        if self.renamed is not None:
            if len(wrong := ids[ids >= len(self.renamed)]):
                raise InputError(f"token id {wrong[0]} is out of range; the tokenizer has {len(self.renamed):,} tokens")
            ids = np.where(ids < 0, ids, self.renamed[ids])
        return np.where(np.isin(ids, self.ignored), 0, ids) if self.ignored else ids

    def _before(self, ids: Ids) -> list[Ids]:
        """Return the ids, those of the tokens before, and so on; ``fill`` beyond the beginning of each text."""
        places = np.arange(len(ids))
        ends = np.isin(ids, self.ends) | ((ids == 0) if self.skips_zero else False)
        last = np.maximum.accumulate(np.where(ends, places, -1))
        inside = places - (np.concatenate([[-1], last[:-1]]) + 1)
        found = [ids]
        for distance in range(1, max(head.order for head in self.heads)):
            known = np.flatnonzero(inside >= distance)
            moved = np.full(len(ids), self.fill, np.int64)
            moved[known] = ids[known - distance]
            found.append(np.where(ids == 0, 0, moved) if self.skips_zero else moved)
        return found

    def _mixed(self, before: Sequence[Ids], factors: Sequence[int]) -> Ids:
        total = before[0] * np.int64(factors[0])
        for one, factor in zip(before[1:], factors[1:], strict=False):
            product = one * np.int64(factor)
            total = total ^ product if self.combine == "xor" else total + product
        return total


@dataclass(frozen=True)
class TokenRows:
    """Rule of tables with a row for each token.

    Attributes:
        count: Number of rows that can be looked up.
        outside: Row for ids without one; ``None`` if they are an error.
        replaced: Ids that look up another row, such as those of images.
    """

    count: int
    outside: int | None = None
    replaced: Mapping[int, int] = field(default_factory=dict)

    def columns(self) -> tuple[str, ...]:
        """Return the only column."""
        return ("row",)

    def rows(self, ids: Ids) -> Ids:
        """Return the row of each id [length, 1]. Raises ``InputError`` for ids without a row.

        >>> import numpy as np
        >>> from hfposemb.tables.lookups.lookup_table import TokenRows
        >>> TokenRows(9, outside=0).rows(np.array([3, 12])).tolist()
        [[3], [0]]
        """
        found = ids.copy()
        for one, row in self.replaced.items():
            found[ids == one] = row
        wrong = (found < 0) | (found >= self.count)
        if self.outside is not None:
            found[wrong] = self.outside
        elif wrong.any():
            raise InputError(f"token id {found[wrong][0]} has no row; ids are 0 to {self.count - 1:,}")
        return found[:, None]


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
