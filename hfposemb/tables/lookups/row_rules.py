"""Rules that turn token ids into row numbers of tables beside the word table: hashes of n-grams, and ids themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

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
        >>> from hfposemb.tables.lookups.row_rules import Head, NgramHash
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
        >>> from hfposemb.tables.lookups.row_rules import TokenRows
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
