"""Selected positions or tokens of several sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..comparison.matched_rows import by_text
from ..errors import InputError
from ..figures.encoded_rows import decoded, encoded
from ..guesses import several
from ..lazy_attributes import lazy_attribute
from ..tables.table import EmbeddingTable
from ..tables.tabular import frame

if TYPE_CHECKING:
    import pandas


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
        return np.asarray(np.flatnonzero(np.isin(self.numbers[place], numbers)))


def same_positions(lengths: Sequence[int]) -> LinkedRows:
    """Link the rows of position tables by their number.

    Args:
        lengths: Number of rows of each table.

    Examples:
        >>> from hfposemb.widget.selection import same_positions
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
        >>> from hfposemb.widget.selection import same_tokens
        >>> tables = [hpe.extract(name).token for name in ("sample:bert", "sample:gpt2")]
        >>> bert, gpt2 = same_tokens(tables).numbers
        >>> bert[tables[0].row("king")] == gpt2[tables[1].row("king")]
        np.True_
    """
    first = tables[0]
    if all(not table.has_names or table.labels.texts == first.labels.texts for table in tables):
        return same_positions([table.shape[0] for table in tables])
    known: dict[str, int] = {}
    count, numbers = 0, []
    for table in tables:
        found = np.full(table.shape[0], -1, np.int64)
        texts = by_text(table) if table.has_names else {}
        for text, row in texts.items():
            found[row] = known.get(text, -1)
        new = np.flatnonzero(found < 0)
        found[new] = count + np.arange(len(new))
        count += len(new)
        known |= {text: int(found[row]) for text, row in texts.items()}
        numbers.append(found)
    return LinkedRows(tuple(numbers))


Role: TypeAlias = Literal["position", "token"]
Chosen: TypeAlias = "Selection | Mapping[str, Iterable[int | str]] | Iterable[int | str] | None"
"""What can be selected: rows by number, by label or as a mask, of the first source or by the name of theirs."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected rows of every source that is shown.

    Two selections are equal if they select the same rows.

    Attributes:
        role: Whether the rows are positions or tokens.
        rows: Selected rows by the name of the source [m]; a source without any has an empty array.
        text: The selection as the page and Python share it.
    """

    role: Role
    rows: Mapping[str, Rows]
    text: str = ""
    _tables: Mapping[str, EmbeddingTable | None] = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and (self.role, self.text) == (other.role, other.text)

    def __hash__(self) -> int:
        return hash((self.role, self.text))

    def __len__(self) -> int:
        """Return the number of selected rows, all sources together."""
        return sum(map(len, self.rows.values()))

    def __getitem__(self, source: str) -> Rows:
        """Return the selected rows [m] of a source. Raises ``InputError`` if it is not shown."""
        if source not in self.rows:
            raise InputError(f"no source {source!r} is shown; the sources are {', '.join(self.rows)}")
        return self.rows[source]

    def __repr__(self) -> str:
        counts = [f"{len(rows):,} of {name}" for name, rows in self.rows.items() if len(rows)]
        return f"Selection({self.role}s: {', '.join(counts) or 'none'})"

    @property
    def labels(self) -> dict[str, list[str]]:
        """Labels of the selected rows by the name of the source."""
        found = {}
        for name, rows in self.rows.items():
            table = self._tables.get(name)
            texts = map(str, rows.tolist()) if table is None else (table.labels[int(row)] for row in rows)
            found[name] = list(texts)
        return found

    @property
    def vectors(self) -> dict[str, NDArray[Any]]:
        """Vectors of the selected rows [m, width] by the name of the source, for the sources that have vectors."""
        return {name: table.take(self.rows[name]) for name, table in self._tables.items() if table is not None}

    def to_frame(self) -> pandas.DataFrame:
        """Return a data frame with source, row and label of each selected row.

        Raises:
            MissingExtraError: If pandas is not installed.
        """
        pairs = [(name, int(row)) for name, rows in self.rows.items() for row in rows]
        labels = [label for texts in self.labels.values() for label in texts]
        return frame({"source": [name for name, _ in pairs], "row": [row for _, row in pairs], "label": labels})


@dataclass(frozen=True, eq=False)
class Selectable:
    """The sources whose rows can be selected.

    Attributes:
        role: Whether the rows are positions or tokens.
        tables: Table of each source by its name, in order; ``None`` for mechanisms without rows.
        linked: Common numbers of their rows.
    """

    role: Role
    tables: Mapping[str, EmbeddingTable | None]
    linked: LinkedRows

    def of_text(self, text: str) -> Selection:
        """Return the selection that a page has sent; what names no rows selects nothing."""
        return self._of_numbers(decoded(text, self.linked.count))

    def of(self, chosen: Chosen) -> Selection:
        """Return the selection of rows that are given by number or label.

        Args:
            chosen: A selection, rows by the name of their source, rows of the first source, or ``None``. Rows of other
                sources that correspond to them are selected as well.

        Raises:
            InputError: If there is no such source or row.
        """
        if isinstance(chosen, Selection):
            return self.of({name: rows.tolist() for name, rows in chosen.rows.items()})
        names = list(self.tables)
        if chosen is None or isinstance(chosen, (str, int, np.integer)):
            chosen = [] if chosen is None else [chosen]
        given = chosen if isinstance(chosen, Mapping) else {names[0]: chosen}
        found = [np.empty(0, np.int64)]
        for name, rows in given.items():
            if name not in self.tables:
                raise InputError(f"no source {name!r} is shown; the sources are {', '.join(names)}")
            place = names.index(name)
            found.append(self.linked.numbers[place][self._rows(name, place, rows)])
        return self._of_numbers(np.unique(np.concatenate(found)))

    def _rows(self, name: str, place: int, rows: Iterable[int | str]) -> Rows:
        """Return the rows that are given by number, label or as a mask."""
        given = several(rows)  # a generator can be read only once
        mask = np.asarray(given)
        if mask.dtype == bool:
            count = len(self.linked.numbers[place])
            if mask.shape != (count,):
                raise InputError(f"the mask has the shape {list(mask.shape)}, but {name} has {count:,} {self.role}s")
            return np.flatnonzero(mask)
        return np.array([self._row(name, place, row) for row in given], np.int64)

    def _row(self, name: str, place: int, row: int | str) -> int:
        table, count = self.tables[name], len(self.linked.numbers[place])
        if isinstance(row, str):
            if table is None:
                raise InputError(f"{name} has no labels; select its positions by number, 0 to {count - 1:,}")
            return table.row(row)
        if not 0 <= int(row) < count:
            raise InputError(f"{name} has the {self.role}s 0 to {count - 1:,}; got {row}")
        return int(row)

    def _of_numbers(self, numbers: Rows) -> Selection:
        rows = {name: self.linked.rows(place, numbers) for place, name in enumerate(self.tables)}
        return Selection(self.role, rows, encoded(numbers), self.tables)
