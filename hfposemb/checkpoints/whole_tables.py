"""Tables in columns: ``.parquet``, ``.csv`` and ``.tsv`` files, which cannot be read by rows and are read whole."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from ..tables.saved.writing import NO_LABEL, cell_text, load_arrow
from ..tables.table import TOKEN_CLASSES, Vectors
from ..text import one_line
from . import parquet_child
from .children import Child, start_child
from .file_ranges import FileRanges
from .limits import DEFAULT_LIMITS, Limits
from .numpy_files import VECTORS, SavedTables
from .parquet_child import CHUNK, LABEL_COLUMNS, as_labels, check_size
from .safetensors.checkpoint import TensorInfo, check_read
from .strict_json import fault, shortened

_BYTES_PER_SECOND = 10**7
_KINDS = {"float32": "F32", "float64": "F64"}
_NINE_DIGITS = len("-1.23456789e-05") + 1
"""Longest text of a number with nine digits, which restore every float32."""


@dataclass(frozen=True, eq=False)
class WholeTable(SavedTables):
    """The table of a file that is read whole. All errors are ``SourceError``, except for rows that do not exist.

    Attributes:
        vectors: Its rows [n, d], read-only.
        facts: What it states about them; see ``tables.saved.writing``.
        limits: Limits of what is read.
    """

    vectors: Vectors
    facts: Mapping[str, str]
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the file; the other process reads it again."""
        return open_whole, (self.file, self.limits)

    def names(self) -> tuple[str, ...]:
        """Return the name of the table."""
        return (VECTORS,)

    def info(self, name: str) -> TensorInfo:
        """Return the table's dtype and shape."""
        if name != VECTORS:
            raise fault(self.name, f"has no table {shortened(name)}; its table is called {VECTORS}")
        kind, size = _KINDS[self.vectors.dtype.name], self.vectors.nbytes
        return TensorInfo(VECTORS, kind, self.vectors.shape, 0, size, self.file.name)

    def metadata(self) -> Mapping[str, str]:
        """Return what the file states about the table."""
        return self.facts

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
    vectors.flags.writeable = False  # those of a child already are
    return WholeTable(file, vectors, facts, limits)


def _parquet(file: FileRanges, limits: Limits) -> tuple[Vectors, dict[str, str]]:
    """Read a parquet file in a child process: pyarrow crashes on some that are damaged."""
    load_arrow("reading a parquet file")
    child = Child(start_child(parquet_child.__name__, parquet_child.serve_parquet.__name__))
    with child, child.within(limits.seconds + file.size / _BYTES_PER_SECOND):
        child.say({"name": file.name, "limits": asdict(limits)})
        child.give(file.read(range(file.size)).data)
        head, content = child.line(), child.answers.read()
    if child.late:
        raise fault(file.name, "takes too long to read; save it again, uncompressed")
    if head is None:
        raise fault(file.name, "is not a parquet file that can be read: its reader crashed; save it again")
    answer = json.loads(head)
    if "refused" in answer:
        raise CheckpointError(answer["refused"])
    return np.frombuffer(content, answer["dtype"]).reshape(answer["shape"]), answer["facts"]


def _text(file: FileRanges, limits: Limits) -> tuple[Vectors, dict[str, str]]:
    tabs = file.name.endswith(".tsv")
    try:
        rows = _fields(file, tabs=tabs)
        first = next(rows, [])
        start = next(rows, []) if first and _is_head(first) else first
        labelled = bool(start) and (
            (start is not first and first[0] in ("", *LABEL_COLUMNS)) or not _is_number(start[0])
        )
        vectors, labels = _parsed(file, chain([start] if start else [], rows), labelled=labelled, limits=limits)
    except (csv.Error, UnicodeDecodeError) as error:
        raise fault(file.name, f"is not a text in UTF-8 with columns: {one_line(str(error), width=120)}") from error
    if labelled and start is not first and first[0] == "label":
        labels = list(map(cell_text, labels))
    facts = {"labels": as_labels(file.name, labels)} if labelled else {}
    return vectors, facts or (_beside(file, len(vectors)) if tabs else {})


def _is_head(row: list[str]) -> bool:
    """Return whether a row names the columns: by words, or from 0 on."""
    if row[0] in LABEL_COLUMNS or not any(map(_is_number, row)):
        return True
    return len(row) > 2 and not _is_number(row[0]) and row[1:] == list(map(str, range(len(row) - 1)))


def _fields(file: FileRanges, *, tabs: bool) -> Iterator[list[str]]:
    text = io.TextIOWrapper(io.BytesIO(file.read(range(file.size)).tobytes()), "utf-8-sig", newline="")
    quoting: Any = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    return (row for row in csv.reader(text, delimiter="\t" if tabs else ",", quoting=quoting) if row)


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
        if len(held) == CHUNK:
            check_size(file.name, count, width, limits)
            parts.append(np.array(held))
            held = []
    check_size(file.name, count, width, limits)
    vectors = np.concatenate([*parts, np.array(held, np.float64).reshape(-1, width)])
    with np.errstate(over="ignore"):
        single = vectors.astype(np.float32)
    return (single if short and _is_rounded(vectors, single) else vectors), labels


def _is_rounded(given: Vectors, single: Vectors) -> bool:
    """Return whether numbers are those of float32 rounded to nine significant digits."""
    for start in range(0, len(given), CHUNK):
        one, other = given[start : start + CHUNK], single[start : start + CHUNK].astype(np.float64)
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
    facts = {"labels": as_labels(file.name, ["" if one[0] == NO_LABEL else one[0] for one in listed])}
    if head[2:3] == ["class"] and {one[2] for one in listed} <= set(TOKEN_CLASSES):
        facts["classes"] = "".join(str(TOKEN_CLASSES.index(one[2])) for one in listed)
    return facts
