"""Write tables and projections to files: complete or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from .errors import HfposembError, InputError
from .table import EmbeddingTable

_RISKY = ("=", "+", "-", "@", "\t", "\r", "'")


def write_table(table: EmbeddingTable, path: Path) -> None:
    """Write a table as ``.safetensors``, ``.npy`` or ``.csv``, told by the file's ending.

    A safetensors file holds one tensor, ``vectors``, with labels and provenance in its metadata; a CSV a column
    ``label`` and one for each dimension. The file appears complete or not at all; one that exists is replaced.
    Raises ``InputError`` for another ending and ``HfposembError`` where the file cannot be written.
    """
    if (write := WRITERS.get(path.suffix)) is None:
        raise InputError(f"{path.name} must end in {', '.join(WRITERS)}, which says the format")
    with complete_file(path) as file:
        write(table, file)


def safe_cell(text: str) -> str:
    """Return a text that a spreadsheet will not run as a formula.

    Texts that begin with ``= + - @``, tab or return get a leading ``'``; so does one that begins with ``'``, so that
    taking off one leading ``'`` gives back every text.
    """
    return f"'{text}" if text.startswith(_RISKY) else text


@contextmanager
def complete_file(path: Path) -> Iterator[IO[bytes]]:
    """Write beside ``path`` and put the file in its place once it is whole and on disk."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    except OSError as error:
        raise HfposembError(f"cannot write into {path.parent}: {error.strerror}; choose another folder") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        raise HfposembError(f"cannot write {path}: {error.strerror}; free some space or choose another file") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_safetensors(table: EmbeddingTable, file: IO[bytes]) -> None:
    rows, width = table.shape
    kind = "F64" if table.dtype == np.float64 else "F32"
    metadata = {
        "labels": json.dumps(list(table.labels), ensure_ascii=True),
        "provenance": json.dumps(asdict(table.provenance)),
        "writer": "hfposemb",
    }
    end = rows * width * table.dtype.itemsize
    tensor = {"dtype": kind, "shape": [rows, width], "data_offsets": [0, end]}
    header = json.dumps({"__metadata__": metadata, "vectors": tensor}).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little") + header)
    for _, vectors in table.chunks():
        file.write(np.ascontiguousarray(vectors).data)


def _write_npy(table: EmbeddingTable, file: IO[bytes]) -> None:
    description = {"descr": table.dtype.str, "fortran_order": False, "shape": table.shape}
    np.lib.format.write_array_header_1_0(file, description)
    for _, vectors in table.chunks():
        file.write(np.ascontiguousarray(vectors).data)


def _write_csv(table: EmbeddingTable, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(["label", *map(str, range(table.shape[1]))])
    # The fewest digits that give the number back exactly.
    digits = "%.17g" if table.dtype == np.float64 else "%.9g"
    for start, vectors in table.chunks():
        for row, vector in enumerate(vectors, start):
            writer.writerow([safe_cell(table.labels[row]), *(digits % value for value in vector.tolist())])
    text.detach()


WRITERS: Mapping[str, Callable[[EmbeddingTable, IO[bytes]], Any]] = {
    ".safetensors": _write_safetensors,
    ".npy": _write_npy,
    ".csv": _write_csv,
}
"""How a table is written, by the ending of the file."""
