"""Findings about the rows of tables: not finite, zero; of tokens equal, reserved but in use; of positions untrained."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HfposembError
from ..models.architectures.config_values import name_of, vocabularies, whole_number
from ..models.architectures.families import ROTARY_FIELDS, is_known
from ..tables.closed_forms import LAYOUTS, sine_rows
from ..tables.table import EmbeddingTable
from ..text import counted, display
from .checked_source import CheckedSource
from .findings import Finding, finding
from .tokenizer_files import Tokens

WINDOW = 1_000_000
"""Bytes of the rows that are read of a table on the Hub, in one range."""

LOCAL = 256_000_000
"""Stored bytes of a local table up to which all rows are read."""

TINY = 1e-3
"""Rows whose norm is below this share of the median look untrained."""

_BLOCK = 4_000_000

SEPARATE = ("configuration", "own tensor")
"""How a head stands to the token table, if it is a tensor of its own."""


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What was read of a table: one entry for each row that was read.

    Attributes:
        rows: Row numbers [n], ascending.
        finite: Whether all numbers of a row are finite [n].
        norms: Euclidean norms [n].
        digests: Digests of the rows; equal rows have equal ones.
        whole: Whether all rows were read.
    """

    rows: NDArray[np.int64]
    finite: NDArray[np.bool_]
    norms: NDArray[np.float64]
    digests: tuple[bytes, ...]
    whole: bool

    def groups(self) -> list[list[int]]:
        """Return the groups of two or more equal rows that are finite and not zero, the largest first."""
        seen: defaultdict[bytes, list[int]] = defaultdict(list)
        usable = self.finite & (self.norms > 0)
        for row, digest in zip(self.rows[usable].tolist(), np.flatnonzero(usable).tolist(), strict=True):
            seen[self.digests[digest]].append(row)
        return sorted((rows for rows in seen.values() if len(rows) > 1), key=lambda rows: (-len(rows), rows[0]))


def facts_of(table: EmbeddingTable, spans: list[range]) -> RowFacts:
    """Read the given spans of rows and return what is needed of each."""
    finite, norms, digests, rows = [], [], [], []
    step = max(1, _BLOCK // max(table.shape[1], 1))
    for span in spans:
        for start in range(span.start, span.stop, step):
            stop = min(start + step, span.stop)
            vectors = np.ascontiguousarray(table.rows(start, stop))
            with np.errstate(over="ignore"):
                good = np.asarray(np.isfinite(np.asarray(vectors, np.float32)).all(axis=1))
            safe = np.where(good[:, None], vectors, 0).astype(np.float64)
            finite.append(good)
            norms.append(np.sqrt(np.einsum("ij,ij->i", safe, safe)))
            digests += [hashlib.blake2b(vector.data, digest_size=16).digest() for vector in vectors]
            rows.append(np.arange(start, stop))
    empty: NDArray[np.int64] = np.zeros(0, np.int64)
    return RowFacts(
        np.concatenate([empty, *rows]),
        np.concatenate([np.zeros(0, bool), *finite]),
        np.concatenate([np.zeros(0), *norms]),
        tuple(digests),
        sum(map(len, spans)) == table.shape[0],
    )


def chosen_spans(source: CheckedSource, table: EmbeddingTable, wanted: list[int]) -> list[range]:
    """Return the spans of rows to read: all, a sample of a large local table, or one range on the Hub."""
    rows = table.shape[0]
    per_row = max(table.row_bytes, 1)
    if source.full or rows * per_row <= (WINDOW if source.remote else LOCAL):
        return [range(rows)]
    count = max(1, min(rows, (WINDOW if source.remote else 8 * WINDOW) // per_row))
    wanted = sorted(row for row in wanted if row < rows) or [rows - 1]
    last = [row for row in wanted if row < wanted[-1] + 1 and wanted[-1] - row < count // 2]
    begin = max(0, min(rows - count, last[0] - (count - (wanted[-1] - last[0]) - 1) // 2))
    window = range(begin, begin + count)
    if source.remote:
        return [window]
    # Blocks spread over the whole table as well, since reading them costs little on a disk.
    blocks = [range(at, min(at + 16, rows)) for at in range(0, rows, max(16, rows // 256))]
    return [window, *(block for block in blocks if block.stop <= window.start or block.start >= window.stop)]


def check_rows(source: CheckedSource, tokens: Tokens) -> Iterator[Finding]:
    """Yield findings about the rows of the token table that are read."""
    table = source.table("token")
    if table is None:
        return
    used = tokens.in_use()
    spans = partial(chosen_spans, source, table, sorted(used))
    if (facts := source.readable("rows of the token table", lambda: facts_of(table, spans()))) is None:
        return
    _say_if_partly(source, facts, table, "the token table")
    padding = source.text.get("pad_token_id", source.config.get("pad_token_id"))
    padding = padding if isinstance(padding, int) else None
    where = table.provenance.file
    yield from _not_finite(facts, where, str(table.provenance.tensor))
    yield from _one_table(facts, where, str(table.provenance.tensor))
    yield from _in_use(facts, used, padding, where)
    yield from _zero(facts, set(used), tokens, padding, where)
    yield from _equal(facts, set(used), tokens, source.name, where)


def check_further_rows(source: CheckedSource, tokens: Tokens) -> Iterator[Finding]:
    """Yield findings about output heads, token types, relative positions, and the tables of other parts."""
    first = ("token", "position") if vocabularies(source.config) else ("token",)
    tables = [table for role in source.embeddings.tables if role not in first and (table := source.table(role))]
    own = {
        role: tie.tensor
        for role, tie in source.embeddings.ties.items()
        if tie.how in SEPARATE and tie.tensor in source.names
    }
    if source.remote and not source.full:
        for name in (*(table.provenance.tensor for table in tables), *own.values()):
            source.skipped(f"rows of {name}; --full reads them")
        return
    for table in tables:
        yield from _further(source, table, None)
    for role in source.embeddings.heads:
        head = source.readable(f"the output head {role}", partial(source.embeddings.heads.__getitem__, role))
        if head is None:
            continue
        yield from _further(source, head, tokens) if role in own else ()
        bias = source.readable(f"the bias of {role}", partial(getattr, head, "bias"))
        yield from _numbers(bias, str(head.bias_tensor), head.provenance.file)
    for part in source.embeddings.positions:
        found = source.readable(part, partial(source.embeddings.positions.__getitem__, part))
        for numbers in (getattr(found, "bias", None), getattr(found, "rows", None)):
            if found is not None and isinstance(numbers, np.ndarray):
                yield from _numbers(numbers, f"the {found.kind} of {part}", None)


def _further(source: CheckedSource, table: EmbeddingTable, tokens: Tokens | None) -> Iterator[Finding]:
    """Yield findings about rows that are not finite or zero; rows of a head beyond its ``tokens`` only pad it."""
    tensor, file = table.provenance.tensor, table.provenance.file
    facts = source.readable(f"rows of {tensor}", lambda: facts_of(table, chosen_spans(source, table, [])))
    if facts is None:
        return
    _say_if_partly(source, facts, table, str(tensor))
    yield from _not_finite(facts, file, str(tensor))
    zero = facts.rows[facts.finite & (facts.norms == 0)].tolist()
    if tokens is not None and tokens.vocabulary is not None:
        zero = [row for row in zero if row in tokens.by_id]
    if 0 < len(zero) < len(facts.rows):
        said = counted(len(zero), "", f"of {len(facts.rows):,} rows of {tensor}", "are")
        said += f" zero; the first is row {zero[0]:,}"
        yield finding("rows-zero", said, file=file, rows=len(zero), row=zero[0])


def _say_if_partly(source: CheckedSource, facts: RowFacts, table: EmbeddingTable, name: str) -> None:
    """Record which rows of a table were read, unless all were."""
    if not facts.whole:
        source.skipped(
            f"{len(facts.rows):,} of {table.shape[0]:,} rows of {name} are read, from row "
            f"{int(facts.rows[0]):,} to {int(facts.rows[-1]):,}; --full reads all"
        )


def _numbers(values: NDArray[Any] | None, name: str, file: str | None) -> Iterator[Finding]:
    """Yield a finding for an array with numbers that are not finite."""
    wrong = 0 if values is None else int((~np.isfinite(values)).sum())
    if wrong:
        assert values is not None
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        said = f"{counted(wrong, 'number', f'of {name}', 'are')} NaN or infinite; the first is in row {row:,}"
        yield finding("not-finite", said, file=file, rows=wrong, row=row)


def _not_finite(facts: RowFacts, file: str | None, tensor: str) -> Iterator[Finding]:
    wrong = facts.rows[~facts.finite]
    if len(wrong):
        said = counted(len(wrong), "row", f"of {tensor}", "hold")
        said += f" NaN or infinite numbers; the first is row {wrong[0]:,}"
        yield finding("not-finite", said, file=file, rows=len(wrong), row=int(wrong[0]))


def _one_table(facts: RowFacts, file: str | None, tensor: str, *, sure: bool = True) -> Iterator[Finding]:
    if len(facts.rows) > 2 and len(set(facts.digests)) == 1 and facts.finite.all():
        said = f"all {len(facts.rows):,} rows of {tensor} that were read are equal, with the norm {facts.norms[0]:.4g}"
        yield finding("one-table", said, sure=sure, file=file, rows=len(facts.rows))


def _in_use(facts: RowFacts, used: dict[int, str], padding: int | None, file: str | None) -> Iterator[Finding]:
    """Yield a finding for tokens in use whose row is zero, tiny, or equal to that of a token not in use."""
    directed = facts.norms[facts.finite & (facts.norms > 0)]
    median, counts = float(np.median(directed)) if len(directed) else 0.0, Counter(facts.digests)
    for place, row in enumerate(facts.rows.tolist()):
        if row not in used or row == padding or not facts.finite[place]:
            continue
        norm, token = float(facts.norms[place]), display(used[row])
        if norm == 0.0:
            said = f"{token} (row {row:,}) is in use, but its row is zero"
            yield finding("reserved-row-in-use", said, file=file, row=row, norm=0.0, median=median)
        elif norm < TINY * median or counts[facts.digests[place]] > 1:
            others = counts[facts.digests[place]] - 1
            said = f"{token} (row {row:,}) is in use, but its row looks untrained: its norm is {norm:.4g}, the median "
            said += f"{median:.4g}" + (f", and {counted(others, 'other row', verb='equal')} it" if others else "")
            values: dict[str, Any] = {"row": row, "norm": norm, "median": median, "equal": others}
            yield finding("reserved-row-in-use", said, sure=False, file=file, **values)


def _zero(facts: RowFacts, used: set[int], tokens: Tokens, padding: int | None, file: str | None) -> Iterator[Finding]:
    zero = facts.rows[facts.finite & (facts.norms == 0)].tolist()
    if padding in zero:
        assert padding is not None
        yield finding("padding-row-zero", f"row {padding:,}, the padding row, is zero", file=file, row=padding)
    known = tokens.by_id if tokens.vocabulary is not None else None
    others = [row for row in zero if row != padding and row not in used]
    beyond = [row for row in others if known is not None and row not in known]
    others = [row for row in others if row not in set(beyond)]
    if others and len(others) < len(facts.rows):
        said = f"{counted(len(others), 'row', 'of the token table', 'are')} zero; the first is row {others[0]:,}"
        if known is not None:
            said += f", {known[others[0]]!r}"
        yield finding("zero-rows", said, file=file, rows=len(others), row=others[0])


def _equal(facts: RowFacts, used: set[int], tokens: Tokens, name: str, file: str | None) -> Iterator[Finding]:
    groups = facts.groups()
    if not groups or (len(groups) == 1 and len(groups[0]) == len(facts.rows)):
        return
    known = tokens.by_id
    never = set() if tokens.vocabulary is None else {row for rows in groups for row in rows if row not in known}
    reserved = {row for rows in groups for row in rows if row in tokens.added and row not in used} | never
    trained = [rows for rows in groups if len(set(rows) - reserved) > 1]
    rest = [rows for rows in groups if rows not in trained]
    for kind, found in (("equal-rows", trained), ("unused-rows-equal", rest)):
        if found:
            shown = ", ".join(display(known.get(row, str(row)), width=24) for row in found[0][:4])
            said = f"{sum(map(len, found)):,} rows in {counted(len(found), 'group')} equal another row; "
            said += f"the largest group has {len(found[0]):,}: {shown}"
            values: dict[str, Any] = {"rows": sum(map(len, found)), "groups": len(found), "row": found[0][0]}
            yield finding(kind, said, file=file, fix={"source": name}, **values)


_LENGTHS = ("max_position_embeddings", "n_positions")
_FARTHEST = 4
"""Largest shift that is looked for."""


def check_positions(source: CheckedSource, tokens: Tokens) -> Iterator[Finding]:
    """Yield findings about the table of positions of the text."""
    table = source.table("position")
    if table is None or not vocabularies(source.config):
        return
    yield from _length(source, table)
    yield from _longest(table, tokens)
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
    yield finding("position-rows", said, sure=is_known(source.config), stated=stated, rows=rows)


def _longest(table: EmbeddingTable, tokens: Tokens) -> Iterator[Finding]:
    positions = table.shape[0]
    if tokens.longest is not None and positions < tokens.longest < 10**7:
        said = f"the tokenizer allows {tokens.longest:,} tokens, but there are {positions:,} positions"
        yield finding("longest-text", said, longest=tokens.longest, positions=positions)


def _rows(table: EmbeddingTable) -> Iterator[Finding]:
    rows, file = table.shape[0], table.provenance.file
    facts = facts_of(table, [range(rows)])
    tensor = str(table.provenance.tensor)
    if not facts.finite.all():
        yield from _not_finite(facts, file, tensor)
        return
    if len(set(facts.digests)) == 1:
        yield from _one_table(facts, file, tensor, sure=False)  # some models are trained without an order
        return
    zero = facts.rows[facts.norms == 0]
    if len(zero):
        said = (
            counted(len(zero), "", f"of {rows:,} rows of {tensor}", "are") + f" zero; the first is position {zero[0]:,}"
        )
        yield finding("positions-zero", said, file=file, rows=len(zero), first=int(zero[0]))
    groups = facts.groups()
    if groups:
        count, first = sum(len(one) - 1 for one in groups), min(one[1] for one in groups)
        same = next(one[0] for one in groups if one[1] == first)
        said = counted(count, "", f"of {rows:,} rows of {tensor}", "equal")
        said += f" an earlier one; position {first:,} equals position {same:,}"
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
    for layout in LAYOUTS:
        for shift in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
            expected = sine_rows(start, stop, width, layout=layout, offset=offset + shift)
            if np.abs(stored - expected).max() < 1e-2:
                return shift
    return None
