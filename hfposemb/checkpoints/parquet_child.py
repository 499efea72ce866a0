"""Child process that reads a parquet file, in which a crash of its library or a lack of memory ends only the child."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import CheckpointError
from ..tables.saved.writing import LABEL_BYTES, load_arrow
from ..tables.table import Vectors
from ..text import one_line
from .limits import Limits
from .pickles.child import bound
from .strict_json import fault, shortened

LABEL_COLUMNS = ("label", "text", "token", "word")
"""Names of columns of labels."""

CHUNK = 4096
"""Rows read at a time."""

_AXES = ("x", "y", "z")
_MEMORY = 4 * 2**30


def serve_parquet() -> None:
    """Read a task and a file from stdin, and write shape, dtype and facts of its table, and then its numbers.

    Runs in the child.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep library output out of the answers
    task = json.loads(sys.stdin.buffer.readline())
    content = sys.stdin.buffer.read()
    limits = Limits(**task["limits"])
    load_arrow()
    bound(_MEMORY + 4 * limits.table_bytes)
    try:
        vectors, facts = read_parquet(task["name"], content, limits)
    except CheckpointError as error:
        answers.write(json.dumps({"refused": str(error)}).encode() + b"\n")
    else:
        said = {"shape": vectors.shape, "dtype": vectors.dtype.str, "facts": facts}
        answers.write(json.dumps(said).encode() + b"\n")
        answers.write(np.ascontiguousarray(vectors).data)
    answers.flush()


def read_parquet(file: str, content: bytes, limits: Limits) -> tuple[Vectors, dict[str, str]]:
    """Return the vectors of a parquet file, and what it states about them.

    Args:
        file: Its name in messages.
        content: All of its bytes.
        limits: Limits of what is read.

    Raises:
        CheckpointError: If it violates its format, exceeds a limit, or holds no table.
    """
    arrow = load_arrow()
    try:
        stored = arrow.BufferReader(content)
        schema = arrow.parquet.read_schema(stored)
        columns = _vector_columns(file, schema)
        texts = [name for name in LABEL_COLUMNS if name in schema.names and _holds_texts(schema.field(name).type)]
        opened = arrow.parquet.ParquetFile(stored, read_dictionary=texts)
        check_size(file, opened.metadata.num_rows, len(columns), limits)
        _check_unpacked(file, opened.metadata, limits)
        parts = []
        for batch in opened.iter_batches(CHUNK, columns=columns, use_threads=False):
            parts.append(_rows_of(file, batch))
            check_size(file, sum(map(len, parts)), parts[-1].shape[1], limits)
        if not parts or len({part.shape[1] for part in parts}) != 1:
            raise fault(file, "must have vectors of one length")
        vectors = np.concatenate(parts)
        facts = _facts_of(schema)
        if "labels" not in facts and texts:
            facts["labels"] = as_labels(file, list(_texts_of(opened, texts[0])))
    except (arrow.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise fault(file, f"is not a parquet file that can be read: {one_line(str(error), width=120)}") from error
    return vectors, facts


def _holds_texts(kind: Any) -> bool:
    arrow = load_arrow()
    kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
    return kind in (arrow.string(), arrow.large_string())


def _vector_columns(file: str, schema: Any) -> list[str]:
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
    raise fault(file, f"has {rule}; a table is one column of lists of floats, or columns x, y and z")


def _check_unpacked(file: str, metadata: Any, limits: Limits) -> None:
    """Raise ``CheckpointError`` if the columns unpack to more than a table may have."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    sizes = [max(0, one.total_uncompressed_size, 4 * one.num_values) for one in columns]
    if sum(sizes) > 2 * limits.table_bytes:
        raise fault(file, f"unpacks to {sum(sizes):,} bytes; the limit is {2 * limits.table_bytes:,}")


def _rows_of(file: str, batch: Any) -> Vectors:
    """Return the vectors [rows, width] of a batch, without missing ones."""
    arrow = load_arrow()
    if any(column.null_count for column in batch.columns):
        raise fault(file, "has rows without a vector; leave them out")
    if batch.num_columns > 1:
        return np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], 1)
    column = batch.column(0)
    if arrow.types.is_floating(column.type):
        return np.asarray(column.to_numpy())[:, None]
    flat = column.flatten()
    width, rest = divmod(len(flat), max(1, len(column)))
    lengths = column.value_lengths() if hasattr(column, "value_lengths") else None
    if rest or flat.null_count or (lengths is not None and len(lengths.unique()) > 1):
        raise fault(file, "must have vectors of one length, without missing numbers")
    made = np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), width)
    return made.astype(np.float32) if made.dtype == np.float16 else made


def _facts_of(schema: Any) -> dict[str, str]:
    given = {key.decode("utf-8", "replace"): value for key, value in (schema.metadata or {}).items()}
    return {key: value.decode("utf-8", "replace") for key, value in given.items() if not key.startswith("ARROW")}


def _texts_of(opened: Any, name: str) -> Iterator[str]:
    """Yield the texts of a column, each different one held once, as a small file can repeat a long one."""
    for batch in opened.iter_batches(CHUNK, columns=[name], use_threads=False):
        column = batch.column(0)
        known = [str(one) for one in column.dictionary.to_pylist()]
        for at in column.indices.to_pylist():
            yield "" if at is None else known[at]


def check_size(file: str, rows: int, width: int, limits: Limits) -> None:
    """Raise ``CheckpointError`` if the file of this name holds no row or number, or more than a table may have."""
    if rows < 1 or width < 1:
        raise fault(file, f"holds no table: {rows:,} rows of {width:,} numbers")
    if rows > limits.rows or width > limits.columns or rows * width * 8 > 2 * limits.table_bytes:
        raise fault(
            file,
            f"has {rows:,} rows of {width:,} numbers; the limit is {limits.rows:,} of them, and "
            f"{limits.columns:,} numbers each",
        )


def as_labels(file: str, texts: list[str]) -> str:
    """Return labels as a fact. Raises ``CheckpointError`` if they are longer than those of any vocabulary."""
    if (size := sum(map(len, texts))) > LABEL_BYTES:
        raise fault(file, f"has labels of {size:,} characters; the limit is {LABEL_BYTES:,}")
    return json.dumps(texts)
