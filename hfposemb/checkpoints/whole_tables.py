"""Tables in columns: ``.parquet``, ``.csv`` and ``.tsv`` files, which cannot be read by rows and are read whole."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..lazy_attributes import lazy_attribute
from ..tables.saved.writing import LABEL_BYTES, NO_LABEL, cell_text, load_arrow
from ..tables.table import TOKEN_CLASSES, Labels, Vectors
from ..text import one_line
from .file_ranges import FileRanges
from .limits import DEFAULT_LIMITS, Limits
from .numpy_files import VECTORS
from .safetensors.checkpoint import TensorInfo, check_read
from .strict_json import fault, shortened

_KINDS = {"float32": "F32", "float64": "F64"}
_AXES = ("x", "y", "z")
_LABEL_COLUMNS = ("label", "text", "token", "word")
_CHUNK = 4096  # rows parsed at a time
_NINE_DIGITS = len("-1.23456789e-05") + 1
"""Longest text of a number with nine digits, which restore every float32."""


@dataclass(frozen=True, eq=False)
class WholeTable:
    """The table of a file that is read whole. All errors are ``SourceError``, except for rows that do not exist.

    Attributes:
        file: The file.
        vectors: Its rows [n, d], read-only.
        facts: What it states about them; see ``tables.saved.facts``.
        limits: Limits of what is read.
    """

    file: FileRanges
    vectors: Vectors
    facts: Mapping[str, str]
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the file; the other process reads it again."""
        return open_whole, (self.file, self.limits)

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.file.name

    def names(self) -> tuple[str, ...]:
        """Return the name of the table."""
        return (VECTORS,)

    @lazy_attribute
    def _info(self) -> TensorInfo:
        kind, size = _KINDS[self.vectors.dtype.name], self.vectors.nbytes
        return TensorInfo(VECTORS, kind, self.vectors.shape, 0, size, self.file.name)

    def info(self, name: str) -> TensorInfo:
        """Return the table's dtype and shape."""
        if name != VECTORS:
            raise fault(self.name, f"has no table {shortened(name)}; its table is called {VECTORS}")
        return self._info

    def metadata(self) -> Mapping[str, str]:
        """Return what the file states about the table."""
        return self.facts

    def config(self) -> dict[str, Any] | None:
        """Return ``None``: a table states no configuration."""
        return None

    def labels(self, rows: int) -> Labels | None:
        """Return ``None``: labels are in ``metadata``."""
        return None

    def file_bytes(self, name: str) -> int:
        """Return the size of the file."""
        return self.file.size

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return a copy of rows ``[start, stop)``. Raises ``InputError`` if they do not exist."""
        check_read(self.info(name), start, stop, limits=self.limits)
        return self.vectors[start:stop].copy()


def open_whole(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> WholeTable:
    """Read a ``.parquet``, ``.csv`` or ``.tsv`` file.

    Args:
        file: The file.
        limits: Limits of what is read; the whole file counts as a table.

    Raises:
        CheckpointError: If the file violates its format, exceeds a limit, or holds no table of numbers.
        MissingExtraError: If it is a parquet file and pyarrow is not installed.
    """
    if file.size > limits.table_bytes:
        raise fault(file.name, f"has {file.size:,} bytes; the limit is {limits.table_bytes:,}")
    read = _parquet if file.name.endswith(".parquet") else _text
    vectors, facts = read(file, limits)
    vectors.flags.writeable = False
    return WholeTable(file, vectors, facts, limits)


def _check_size(file: FileRanges, rows: int, width: int, limits: Limits) -> None:
    if rows < 1 or width < 1:
        raise fault(file.name, f"holds no table: {rows:,} rows of {width:,} numbers")
    if rows > limits.rows or width > limits.columns or rows * width * 8 > 2 * limits.table_bytes:
        raise fault(
            file.name,
            f"has {rows:,} rows of {width:,} numbers; the limit is {limits.rows:,} of them, and "
            f"{limits.columns:,} numbers each",
        )


def _parquet(file: FileRanges, limits: Limits) -> tuple[Vectors, dict[str, str]]:
    arrow = load_arrow()
    try:
        stored = arrow.BufferReader(arrow.py_buffer(file.read(range(file.size))))
        schema = arrow.parquet.read_schema(stored)
        columns = _vector_columns(file, schema)
        kinds = (arrow.string(), arrow.large_string())
        texts = [name for name in _LABEL_COLUMNS if name in schema.names and schema.field(name).type in kinds]
        opened = arrow.parquet.ParquetFile(stored, read_dictionary=texts)
        _check_size(file, opened.metadata.num_rows, len(columns), limits)
        _check_unpacked(file, opened.metadata, limits)
        parts = []
        for batch in opened.iter_batches(_CHUNK, columns=columns, use_threads=False):
            parts.append(_rows_of(file, batch))
            _check_size(file, sum(map(len, parts)), parts[-1].shape[1], limits)
        if not parts or len({part.shape[1] for part in parts}) != 1:
            raise fault(file.name, "must have vectors of one length")
        vectors = np.concatenate(parts)
        facts = _facts_of(schema, len(vectors))
        if "labels" not in facts and texts:
            facts["labels"] = _as_labels(file, list(_texts_of(opened, texts[0])))
    except (arrow.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise fault(file.name, f"is not a parquet file that can be read: {one_line(str(error), width=120)}") from error
    return vectors, facts


def _vector_columns(file: FileRanges, schema: Any) -> list[str]:
    """Return the column of vectors, or the columns of coordinates."""
    arrow = load_arrow()
    kinds = (arrow.float16(), arrow.float32(), arrow.float64())

    def holds(kind: Any) -> bool:
        lists = arrow.types.is_fixed_size_list(kind) or arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
        return bool(lists and kind.value_type in kinds)

    found = [one.name for one in schema if holds(one.type)]
    if "vector" in found or len(found) == 1:
        return ["vector"] if "vector" in found else found
    axes = [name for name in _AXES if name in schema.names and schema.field(name).type in kinds]
    if not found and len(axes) > 1:
        return axes
    listed = ", ".join(f"{shortened(one.name)} {one.type!s:.40}" for one in list(schema)[:6])
    rule = f"several columns of vectors, {', '.join(map(shortened, found[:6]))}" if found else f"no vectors: {listed}"
    raise fault(file.name, f"has {rule}; a table is one column of lists of floats, or columns x, y and z")


def _check_unpacked(file: FileRanges, metadata: Any, limits: Limits) -> None:
    """Raise ``CheckpointError`` if the columns unpack to more than a table may have."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    sizes = [max(0, one.total_uncompressed_size, 4 * one.num_values) for one in columns]
    if sum(sizes) > 2 * limits.table_bytes:
        raise fault(file.name, f"unpacks to {sum(sizes):,} bytes; the limit is {2 * limits.table_bytes:,}")


def _rows_of(file: FileRanges, batch: Any) -> Vectors:
    """Return the vectors [rows, width] of a batch, without missing ones."""
    arrow = load_arrow()
    if any(column.null_count for column in batch.columns):
        raise fault(file.name, "has rows without a vector; leave them out")
    if batch.num_columns > 1:
        return np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], 1)
    column = batch.column(0)
    if arrow.types.is_floating(column.type):
        return np.asarray(column.to_numpy())[:, None]
    flat = column.flatten()
    width, rest = divmod(len(flat), max(1, len(column)))
    lengths = column.value_lengths() if hasattr(column, "value_lengths") else None
    if rest or flat.null_count or (lengths is not None and len(lengths.unique()) > 1):
        raise fault(file.name, "must have vectors of one length, without missing numbers")
    made = np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), width)
    return made.astype(np.float32) if made.dtype == np.float16 else made


def _facts_of(schema: Any, rows: int) -> dict[str, str]:
    given = {key.decode("utf-8", "replace"): value for key, value in (schema.metadata or {}).items()}
    return {key: value.decode("utf-8", "replace") for key, value in given.items() if not key.startswith("ARROW")}


def _texts_of(opened: Any, name: str) -> Iterator[str]:
    """Yield the texts of a column, each different one held once, as a small file can repeat a long one."""
    for batch in opened.iter_batches(_CHUNK, columns=[name], use_threads=False):
        column = batch.column(0)
        known = [str(one) for one in column.dictionary.to_pylist()]
        for at in column.indices.to_pylist():
            yield "" if at is None else known[at]


def _text(file: FileRanges, limits: Limits) -> tuple[Vectors, dict[str, str]]:
    tabs = file.name.endswith(".tsv")
    try:
        rows = _fields(file, tabs=tabs)
        first = next(rows, [])
        start = next(rows, []) if first and _is_head(first) else first
        labelled = bool(start) and (
            (start is not first and first[0] in ("", *_LABEL_COLUMNS)) or not _is_number(start[0])
        )
        vectors, labels = _parsed(file, _after(start, rows), labelled=labelled, limits=limits)
    except (csv.Error, UnicodeDecodeError) as error:
        raise fault(file.name, f"is not a text in UTF-8 with columns: {one_line(str(error), width=120)}") from error
    if labelled and start is not first and first[0] == "label":
        labels = list(map(cell_text, labels))
    facts = {"labels": _as_labels(file, labels)} if labelled else {}
    return vectors, facts or (_beside(file, len(vectors)) if tabs else {})


def _is_head(row: list[str]) -> bool:
    """Return whether a row names the columns: by words, or from 0 on."""
    if row[0] in _LABEL_COLUMNS or not any(map(_is_number, row)):
        return True
    return len(row) > 2 and not _is_number(row[0]) and row[1:] == list(map(str, range(len(row) - 1)))


def _after(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    if first:
        yield first
    yield from rows


def _fields(file: FileRanges, *, tabs: bool) -> Iterator[list[str]]:
    text = io.TextIOWrapper(io.BytesIO(file.read(range(file.size)).tobytes()), "utf-8-sig", newline="")
    quoting: Any = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    return (row for row in csv.reader(text, delimiter="\t" if tabs else ",", quoting=quoting) if row)


def _as_labels(file: FileRanges, texts: list[str]) -> str:
    if (size := sum(map(len, texts))) > LABEL_BYTES:
        raise fault(file.name, f"has labels of {size:,} characters; the limit is {LABEL_BYTES:,}")
    return json.dumps(texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(
    file: FileRanges, rows: Iterator[list[str]], *, labelled: bool, limits: Limits
) -> tuple[Vectors, list[str]]:
    """Return the numbers of all rows, as float32 if nine digits were written that restore them, and the labels."""
    parts: list[Vectors] = []
    labels: list[str] = []
    held: list[list[float]] = []
    width, short, count = -1, True, 0
    for fields in rows:
        numbers = fields[labelled:]
        count += 1
        if len(numbers) != (width := len(numbers) if width < 0 else width):
            raise fault(file.name, f"has {len(numbers):,} numbers in row {count:,}; the first row has {width:,}")
        try:
            held.append(list(map(float, numbers)))
        except ValueError as error:
            raise fault(file.name, f"row {count:,} must hold numbers: {one_line(str(error), width=80)}") from None
        if labelled:
            labels.append(fields[0])
        short = short and max(map(len, numbers), default=0) <= _NINE_DIGITS
        if len(held) == _CHUNK:
            _check_size(file, count, width, limits)
            parts.append(np.array(held))
            held = []
    _check_size(file, count, width, limits)
    vectors = np.concatenate([*parts, np.array(held, np.float64).reshape(-1, width)])
    with np.errstate(over="ignore"):
        single = vectors.astype(np.float32)
    return (single if short and _is_rounded(vectors, single) else vectors), labels


def _is_rounded(given: Vectors, single: Vectors) -> bool:
    """Return whether numbers are those of float32 rounded to nine significant digits."""
    for start in range(0, len(given), _CHUNK):
        one, other = given[start : start + _CHUNK], single[start : start + _CHUNK].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            unit = 10 ** (np.floor(np.log10(np.abs(other))) - 8)
            close = (np.abs(one - other) <= 0.501 * unit) | (one == other) | (np.isnan(one) & np.isnan(other))
        if not close.all():
            return False
    return True


def _beside(file: FileRanges, rows: int) -> dict[str, str]:
    """Return labels and classes in the file that the Embedding Projector shows with the vectors, if it is there."""
    name = f"{PurePosixPath(file.name).stem}.metadata.tsv"
    if name not in file.listing():
        return {}
    head, *listed = _fields(file.beside(name), tabs=True)
    if head[:1] != ["label"] or len(listed) != rows or any(len(one) != len(head) for one in listed):
        return {}
    facts = {"labels": _as_labels(file, ["" if one[0] == NO_LABEL else one[0] for one in listed])}
    if head[2:3] == ["class"] and {one[2] for one in listed} <= set(TOKEN_CLASSES):
        facts["classes"] = "".join(str(TOKEN_CLASSES.index(one[2])) for one in listed)
    return facts
