"""Selected positions or tokens of several sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingExtraError
from ..figures.encoded_rows import decoded, encoded
from ..tables.table import EmbeddingTable

if TYPE_CHECKING:
    import pandas

    from .linked_rows import LinkedRows, Rows

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
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", extra="export", purpose="to_frame()") from error
        labels = self.labels
        lines = [
            (name, int(row), label)
            for name, rows in self.rows.items()
            for row, label in zip(rows, labels[name], strict=True)
        ]
        return pandas.DataFrame(lines, columns=["source", "row", "label"])


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
        if isinstance(rows, np.ndarray) and rows.dtype == bool:
            count = len(self.linked.numbers[place])
            if rows.shape != (count,):
                raise InputError(f"the mask has the shape {list(rows.shape)}, but {name} has {count:,} {self.role}s")
            return np.flatnonzero(rows)
        return np.array([self._row(name, place, row) for row in rows], np.int64)

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
