"""Results whose numbers form a table: a data frame for analysis, and HTML in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import require
from .documents import Document, plain

if TYPE_CHECKING:
    import pandas


LONGEST = 300
"""Most characters of a cell; names and notes are untrusted text."""

_CELL = "text-align: left; vertical-align: top; padding: 2px 16px 2px 0; font-variant-numeric: tabular-nums"


def in_html(text: str) -> str:
    """Escape text for HTML: one line, no markup, unprintable characters replaced, truncated to ``LONGEST``."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[: LONGEST + 1])
    import html

    return html.escape(shown if len(shown) <= LONGEST else shown[:LONGEST] + "…")


def card(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return HTML with a title above (name, value) pairs."""
    return grid(title, (), facts)


def grid(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return HTML with a title above a table.

    The first cell of every row is its header; a row of one cell is a heading for the rows below it.
    """
    columns = "".join(f'<th scope="col" style="{_CELL}">{in_html(head)}</th>' for head in heads)
    lines = []
    for first, *cells in rows:
        span = "" if cells else f' colspan="{max(len(heads), 1)}"'
        named = f'<th scope="row"{span} style="{_CELL}; font-weight: {500 if cells else 700}">{in_html(first)}</th>'
        lines.append(f"<tr>{named}{''.join(f'<td style={_CELL!r}>{in_html(cell)}</td>' for cell in cells)}</tr>")
    head = f"<thead><tr>{columns}</tr></thead>" if heads else ""
    return (
        f'<div style="overflow-x: auto"><strong>{in_html(title)}</strong>'
        f'<table style="border-collapse: collapse; color: inherit">{head}<tbody>{"".join(lines)}</tbody></table></div>'
    )


Columns: TypeAlias = dict[str, Any]
"""Columns of a table by name: lists, tuples or arrays, all of the same length."""

SHOWN = 10
"""Rows of a table that a notebook shows."""


class Facts(Document):
    """Result that a notebook shows by its fields; nothing is computed for it."""

    def _repr_html_(self) -> str:
        return card(type(self).__name__, ((name, _described(value)) for name, value in _stored(self)))


class Tabular(Document):
    """Result whose numbers form a table; ``columns`` of each class documents what it has."""

    def columns(self) -> Columns:
        """Return the columns of the table by name, all of the same length."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # type checkers know that there are none

        def __getitem__(self, key: object) -> Any:
            """Raise ``TypeError``, which names the columns; what is a sequence of results has rows."""
            said = f"{type(self).__name__!r} is no sequence; its columns are {', '.join(self.columns())}"
            raise TypeError(f"{said}: write .to_frame() or .columns()")

    def to_frame(self) -> pandas.DataFrame:
        """Return the ``columns`` as a pandas DataFrame; ``polars.from_pandas`` accepts it.

        Raises:
            MissingExtraError: If pandas is not installed; it is part of the extra ``export``.

        Examples:
            >>> import hfposemb as hpe
            >>> hpe.neighbours(hpe.sinusoidal(9, 8).position, 4, k=2).to_frame()[["rank", "row"]].values.tolist()
            [[1, 3], [2, 5]]
        """
        return frame(self.columns())

    def records(self, count: int | None = None) -> list[dict[str, Any]]:
        """Return the rows of the table, or the first ``count``, as plain values by column, for JSON."""
        shown = {name: plain(values[:count]) for name, values in self.columns().items()}
        return [dict(zip(shown, line, strict=True)) for line in zip(*shown.values(), strict=True)]

    def _repr_html_(self) -> str:
        columns = self.columns()
        count = len(next(iter(columns.values())))
        shown = (f"{name} {_described(value)}" for name, value in _stored(self) if isinstance(value, (str, int, float)))
        title = f"{type(self).__name__}: {count:,} {'row' if count == 1 else 'rows'}"
        rows = [[_described(value) for value in line] for line in islice(zip(*columns.values(), strict=True), SHOWN)]
        if count > SHOWN:
            rows.append([f"and {count - SHOWN:,} more"])
        return grid(" · ".join([title, *shown]), list(columns), rows)


def columns_of(rows: Sequence[object], *names: str) -> Columns:
    """Return attributes of some objects as the columns of a table with a row for each."""
    return {name: [getattr(one, name) for one in rows] for name in names}


def over_axes(axes: Mapping[str, Any], **values: NDArray[Any]) -> Columns:
    """Return arrays over some axes as the columns of a table with a row for each place on these axes.

    Args:
        axes: Values along each axis, by its name.
        values: Arrays, by their names; one without some of the axes is repeated along them, as NumPy broadcasts.
    """
    shape = tuple(map(len, axes.values()))
    places = np.indices(shape).reshape(len(shape), -1)
    along = {name: np.asarray(axis)[at] for (name, axis), at in zip(axes.items(), places, strict=True)}
    return along | {name: np.broadcast_to(array, shape).ravel() for name, array in values.items()}


def frame(columns: Columns) -> pandas.DataFrame:
    """Return columns as a data frame. Raises ``MissingExtraError`` without pandas."""
    require("pandas", extra="export", purpose="to_frame()")
    import pandas

    return pandas.DataFrame(columns)


def _stored(result: object) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a result that are stored already, so that lazy ones stay unread."""
    held = vars(result)
    for part in fields(result):  # type: ignore[arg-type]
        if part.name in held:
            yield part.name, held[part.name]


def _described(value: Any) -> str:
    """Return a value in a few characters: numbers with four digits, arrays by their shape."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case str():
            return value
        case np.ndarray():
            return f"{' × '.join(f'{size:,}' for size in value.shape)} {value.dtype.name}"
        case tuple() if len(value) <= SHOWN and all(isinstance(one, (str, int, float)) for one in value):
            return ", ".join(map(_described, value))
        case tuple() | list() | dict():
            return f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"
    return type(value).__name__
