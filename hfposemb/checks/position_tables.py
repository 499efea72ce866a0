"""Findings about stored tables of positions: their length, shifted sinusoids, rows that were never trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ..errors import HfposembError
from ..models.architectures.config_values import name_of, vocabularies, whole_number
from ..models.architectures.families import ROTARY_FIELDS, is_known
from ..tables.closed_forms import sine_rows
from ..tables.encodings import Absolute
from ..tables.table import EmbeddingTable
from .catalogue import finding
from .checked_source import CheckedSource
from .findings import Finding, Severity
from .table_rows import LOCAL, facts_of
from .tokenizer_files import Tokens

_LENGTHS = ("max_position_embeddings", "n_positions")
_LAYOUTS: tuple[Literal["interleaved", "concatenated", "tensor2tensor"], ...] = (
    "interleaved",
    "concatenated",
    "tensor2tensor",
)
_FARTHEST = 4
"""Largest shift that is looked for."""


def check_positions(source: CheckedSource, tokens: Tokens) -> Iterator[Finding]:
    """Yield findings about the table of positions of the text."""
    table = source.table("position")
    if table is None or not vocabularies(source.config):
        return
    yield from _length(source, table)
    yield from _longest(source, table, tokens)
    if source.remote and not source.full:
        source.skipped("rows of the table of positions; --full reads them")
    elif source.full or (table.provenance.nbytes or 0) <= LOCAL:
        try:
            yield from _rows(table)
        except HfposembError as error:
            source.skipped(f"rows of the table of positions: {error}")


def _length(source: CheckedSource, table: EmbeddingTable) -> Iterator[Finding]:
    info = source.infos.get(str(table.provenance.tensor))
    stated = next((found for name in _LENGTHS if (found := whole_number(source.text, name, low=1)) is not None), None)
    # Where the text turns by its positions, the table belongs to patches or frames.
    turning = any(source.text.get(field) is not None for field in ROTARY_FIELDS)
    if info is None or len(info.shape) != 2 or stated is None or turning:
        return
    rows, offset = info.shape[0], table.provenance.row_offset
    if rows in (stated, stated + offset):
        return
    said = f"{name_of(source.config)} states {stated:,} positions, but {info.name} has {rows:,} rows"
    severity: Severity | None = None if is_known(source.config) else "suspicious"
    yield finding(
        "position-rows",
        said,
        severity=severity,
        stated=stated,
        rows=rows,
    )


def _longest(source: CheckedSource, table: EmbeddingTable, tokens: Tokens) -> Iterator[Finding]:
    positions = table.shape[0]
    if tokens.longest is not None and positions < tokens.longest < 10**7:
        said = f"the tokenizer allows {tokens.longest:,} tokens, but there are {positions:,} positions"
        yield finding("longest-text", said, longest=tokens.longest, positions=positions)


def _rows(table: EmbeddingTable) -> Iterator[Finding]:
    rows, file = table.shape[0], table.provenance.file
    facts = facts_of(table, [range(rows)])
    tensor = str(table.provenance.tensor)
    wrong = facts.rows[~facts.finite]
    if len(wrong):
        said = f"{len(wrong):,} rows of {tensor} hold NaN or infinite numbers; the first is row {wrong[0]:,}"
        yield finding("not-finite", said, file=file, rows=len(wrong), row=int(wrong[0]))
        return
    zero = facts.rows[facts.norms == 0]
    if 0 < len(zero) < rows:
        said = f"{len(zero):,} of {rows:,} rows of {tensor} are zero; the first is position {zero[0]:,}"
        yield finding("positions-zero", said, file=file, rows=len(zero), first=int(zero[0]))
    groups = facts.groups()
    if groups:
        count, first = sum(len(one) - 1 for one in groups), min(one[1] for one in groups)
        same = next(one[0] for one in groups if one[1] == first)
        said = (
            f"{count:,} of {rows:,} rows of {tensor} equal an earlier one; position {first:,} equals position {same:,}"
        )
        yield finding("positions-repeated", said, file=file, rows=count, first=first)
    shift = _shift(table)
    if shift:
        said = f"row k of {tensor} holds the sinusoid of position k {'+' if shift > 0 else '−'} {abs(shift)}"
        yield finding("positions-shifted", said, file=file, shift=shift)


def _shift(table: EmbeddingTable) -> int | None:
    """Return by how many positions stored sinusoids are shifted; ``None`` if they are not sinusoids, 0 if not at all.

    Rows before the first position count, since tables with such rows are filled from their first row on.
    """
    rows, width = table.shape
    start, stop = min(8, rows // 2), min(40, rows)
    if stop - start < 4 or width < 4:
        return None
    offset = table.provenance.row_offset
    stored = np.asarray(table.rows(start, stop), np.float64)
    for layout in _LAYOUTS:
        for shift in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
            expected = sine_rows(start, stop, width, layout=layout, offset=offset + shift)
            if np.abs(stored - expected).max() < 1e-2:
                return shift
    return None


def absolute(source: CheckedSource) -> Absolute | None:
    """Return the stored positions of the text, ``None`` if they are of another kind."""
    found = source.embeddings.positions.get(next(iter(source.embeddings.positions), ""))
    return found if isinstance(found, Absolute) else None
