"""Rows that differ between two versions of one table, such as before and after an adapter or a fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import CHUNK_BYTES, EmbeddingTable
from ..tables.tabular import Columns, Tabular
from ..text import number, percent

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowChanges(Tabular):
    """Rows of a table that changed, and by how much.

    Attributes:
        before: Name of the first table.
        after: Name of the second table.
        lengths: Numbers of rows of the two tables, of which those that both have are compared.
        changed: Row numbers of those that are not equal, the most changed first [m].
        labels: Their labels in the first table.
        sizes: Relative changes, ‖after − before‖ / ‖before‖ [m]; infinite for rows that were zero or are not finite.
        cosines: Cosines of their two vectors [m]; NaN where one is zero or not finite.
    """

    before: str
    after: str
    lengths: tuple[int, int]
    changed: NDArray[np.int64]
    labels: tuple[str, ...]
    sizes: Floats
    cosines: Floats

    @property
    def rows(self) -> int:
        """Number of rows in both."""
        return min(self.lengths)

    def __len__(self) -> int:
        """Return the number of rows that changed."""
        return len(self.changed)

    def __str__(self) -> str:
        """List the rows that changed most."""
        return self.listed(20)

    def listed(self, count: int) -> str:
        """Return the number of changed rows and a line for each of the ``count`` most changed ones."""
        share = percent(len(self.changed) / self.rows)
        lines = [f"{len(self.changed):,} of {self.rows:,} rows ({share}) differ between {self.before} and {self.after}"]
        if self.rows < max(self.lengths):
            longer = (self.before, self.after)[int(np.argmax(self.lengths))]
            lines.append(f"rows {self.rows:,} to {max(self.lengths) - 1:,} are in {longer} alone")
        if len(self.changed):
            middle = number(float(np.median(self.sizes)))
            lines.append(f"median relative change of these rows {middle}, largest {number(float(self.sizes[0]))}")
        width = max(map(len, self.labels[:count]), default=0)
        shown = zip(self.changed.tolist(), self.labels, self.sizes, self.cosines, strict=True)
        for row, label, size, cosine in islice(shown, count):
            lines.append(f"  {row:>7,}  {label:<{width}}  change {number(size)}  cosine {number(cosine)}")
        if len(self.changed) > count:
            lines.append(f"  and {len(self.changed) - count:,} more")
        return "\n".join(lines)

    def to_dict(self, count: int | None = None) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON, of the ``count`` most changed rows."""
        head = {"before": self.before, "after": self.after, "rows": self.rows, "lengths": list(self.lengths)}
        return {**head, "changed": len(self), "listed": self.records(count)}

    def columns(self) -> Columns:
        """Return one row per changed row, the largest change first: ``row``, ``label``, ``change`` and ``cosine``."""
        return {"row": self.changed, "label": self.labels, "change": self.sizes, "cosine": self.cosines}


def row_changes(before: EmbeddingTable | PositionEncoding, after: EmbeddingTable | PositionEncoding) -> RowChanges:
    """Find the rows that differ between two tables of the same model, by row number, and sort them by their change.

    Tables of different lengths are compared over the rows that both have. Nothing is aligned: for models that were
    trained apart, use ``find_moved_words``.

    Args:
        before: Table or position encoding [n, d].
        after: The same after training, or with an adapter [m, d].

    Raises:
        InputError: If the vectors have different widths.

    >>> import hfposemb as hpe
    >>> whole = hpe.extract("sample:gpt2").token
    >>> moved = whole.vectors.copy()
    >>> moved[7] *= 2
    >>> hpe.row_changes(whole, hpe.from_arrays(token=moved).token).to_dict()["listed"][0]["change"]
    1.0
    """
    first, second = table_in(before), table_in(after)
    if first.shape[1] != second.shape[1]:
        found = f"{first.name} has vectors of {first.shape[1]:,} numbers and {second.name} of {second.shape[1]:,}"
        raise InputError(f"{found}; rows are compared between versions of one table")
    lengths = len(first), len(second)
    rows = min(lengths)
    step = max(1, CHUNK_BYTES // (8 * first.shape[1]))
    parts = [_changed(first, second, start, min(start + step, rows)) for start in range(0, rows, step)]
    places, sizes, cosines = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(-sizes, kind="stable")
    changed = places[order]
    labels = tuple(first.labels[int(row)] for row in changed)
    return RowChanges(first.name, second.name, lengths, changed, labels, sizes[order], cosines[order])


def _changed(
    first: EmbeddingTable, second: EmbeddingTable, start: int, stop: int
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return the rows in ``[start, stop)`` that differ, their relative changes and their cosines."""
    ours, theirs = first.rows(start, stop), second.rows(start, stop)
    apart = np.flatnonzero(((ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))).any(axis=1))
    x, y = (np.asarray(rows[apart], np.float64) for rows in (ours, theirs))
    length, other = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.linalg.norm(y - x, axis=1) / length
        cosines = np.einsum("ij,ij->i", x, y) / (length * other)
    return start + apart, np.where(np.isnan(sizes), np.inf, sizes), cosines
