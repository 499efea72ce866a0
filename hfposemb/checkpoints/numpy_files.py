"""Arrays that NumPy saved: a ``.npy`` file, or the stored members of an ``.npz`` archive, read by ranges of bytes.

Nothing is unpickled and nothing decompressed: rows are read where they lie in the file.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tables.saved.writing import FACTS, LABEL_BYTES
from ..tables.table import Labels
from .file_ranges import FileRanges
from .limits import DEFAULT_LIMITS, Limits
from .safetensors.checkpoint import TensorInfo, as_rows, check_read, stays
from .strict_json import fault, parse_json, shortened

VECTORS = "vectors"
"""Name of the array of a ``.npy`` file, and of the vectors of a table that this package exported."""

DTYPES = {"<f2": "F16", "<f4": "F32", "<f8": "F64"}
_HEAD = 2**16
"""Maximum size of a header; NumPy itself refuses more than 10,000 characters."""

MOST_MEMBERS = 10_000


@dataclass(frozen=True, eq=False)
class SavedTables:
    """A file of tables that were saved by themselves: without a configuration, and with labels in its metadata only.

    Attributes:
        file: The file.
    """

    file: FileRanges

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.file.name

    def labels(self, rows: int) -> Labels | None:
        """Return ``None``: labels are in ``metadata``."""
        return None

    def file_bytes(self, name: str) -> int:
        """Return the size of the file."""
        return self.file.size


@dataclass(frozen=True, eq=False)
class NumpyCheckpoint(SavedTables):
    """Arrays of a ``.npy`` or ``.npz`` file. All errors are ``SourceError``, except for rows that do not exist.

    Attributes:
        arrays: Where each array lies; its dtype is NumPy's if it is none of ``DTYPES``.
        limits: Limits of what is read.
    """

    arrays: Mapping[str, TensorInfo]
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the file; the other process reads its headers again."""
        return open_numpy, (self.file, self.limits)

    def names(self) -> tuple[str, ...]:
        """Return the names of the arrays that are tables of floating-point numbers."""
        return tuple(name for name, info in self.arrays.items() if info.readable and len(info.shape) == 2)

    def info(self, name: str) -> TensorInfo:
        """Return an array's dtype, shape and location."""
        if name not in self.arrays:
            raise fault(self.name, f"has no array {shortened(name)} among its {len(self.arrays)} arrays")
        return self.arrays[name]

    def metadata(self) -> Mapping[str, str]:
        """Return the ``labels`` of a table that this package exported, as a safetensors file states them."""
        if (facts := self.arrays.get(FACTS)) is not None:
            raw = self.file.read(range(facts.start, facts.stop)).tobytes()
            found_facts = parse_json(raw, size=len(raw), name=f"{FACTS} of {self.name}", limit=LABEL_BYTES, kind=dict)
            return {key: value for key, value in found_facts.items() if isinstance(value, str)}
        found = self.arrays.get("labels")
        if found is None or len(found.shape) != 1 or not found.dtype.startswith("<U") or found.nbytes > LABEL_BYTES:
            return {}
        raw = self.file.read(range(found.start, found.stop)).tobytes()
        if (np.frombuffer(raw, "<u4") > sys.maxunicode).any():
            return {}
        return {"labels": json.dumps(np.frombuffer(raw, found.dtype).tolist())}

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of an array, read-only, F16 as float32.

        Raises:
            CheckpointError: If the array is no table or exceeds a limit.
            InputError: If the rows do not exist.
        """
        info = self.info(name)
        span = check_read(info, start, stop, limits=self.limits)
        raw = self.file.read(span, whole=range(info.start, info.stop), own=stays(info))
        return as_rows(raw, info, start, stop)


def open_numpy(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> NumpyCheckpoint:
    """Open a ``.npy`` or ``.npz`` file; reads headers and no array.

    Args:
        file: The file.
        limits: Limits of what is read.

    Raises:
        CheckpointError: If the file violates its format, or holds objects, compressed arrays, or no table.
    """
    arrays = _members(file) if file.name.endswith(".npz") else {VECTORS: _array(file, VECTORS, 0, file.size)}
    found = NumpyCheckpoint(file, arrays, limits)
    if not found.names():
        said = "; ".join(f"{shortened(one.name)} {one.dtype} {list(one.shape)}" for one in list(arrays.values())[:4])
        rule = "a table is an array [rows, width] of float16, float32 or float64 in little-endian C order"
        raise fault(file.name, f"holds no table: {said or 'it has no arrays'}; {rule}")
    return found


def _members(file: FileRanges) -> dict[str, TensorInfo]:
    """Return the arrays of an archive."""
    try:
        with zipfile.ZipFile(_Bytes(file)) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error, OverflowError) as error:
        raise fault(file.name, f"is not a complete .npz archive ({error!s:.80}); save it again") from error
    if len(listed) > MOST_MEMBERS:
        raise fault(file.name, f"has {len(listed)} members; the limit is {MOST_MEMBERS}")
    found = {}
    for one in listed:
        if one.filename != FACTS and not one.filename.endswith(".npy"):
            continue
        if one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1:
            rule = "is compressed, so that its rows cannot be read alone; save it with numpy.savez"
            raise fault(file.name, f"{shortened(one.filename)} {rule}")
        head = _read(file, one.header_offset, 30)
        if head[:4] != b"PK\x03\x04":
            raise fault(file.name, f"{shortened(one.filename)} does not begin where the archive says")
        start = one.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        if one.filename == FACTS:
            if start + one.file_size > file.size:
                raise fault(file.name, f"{FACTS} ends after the file; it is incomplete")
            found[FACTS] = TensorInfo(FACTS, "JSON", (one.file_size,), start, start + one.file_size, file.name)
            continue
        name = one.filename.removesuffix(".npy")
        found[name] = _array(file, name, start, start + one.file_size)
    return found


def _array(file: FileRanges, name: str, start: int, stop: int) -> TensorInfo:
    """Return where the numbers of an array lie, by its header at a place of a file."""
    if not 0 <= start <= stop <= file.size:
        raise fault(file.name, f"{shortened(name)} ends at byte {stop}, and the file at {file.size}; it is incomplete")
    head = io.BytesIO(_read(file, start, min(_HEAD, stop - start)))
    try:
        version = np.lib.format.read_magic(head)
        reads = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = reads[version](head)
    except (ValueError, KeyError, SyntaxError, TypeError, RecursionError, MemoryError, TokenError) as error:
        raise fault(file.name, f"{shortened(name)} has no header that NumPy writes; save it with numpy.save") from error
    if dtype.hasobject:
        rule = "would have to be unpickled, which runs code; save it as numbers"
        raise fault(file.name, f"{shortened(name)} holds Python objects and {rule}")
    if any(not 0 <= one < 2**40 for one in shape):
        raise fault(file.name, f"{shortened(name)} states the shape {shape!s:.60}")
    begin = start + head.tell()
    end = begin + prod(shape) * dtype.itemsize
    if end > stop:
        rule = f"{end - begin} bytes, of which {stop - begin} are there; the file is incomplete"
        raise fault(file.name, f"{shortened(name)} needs {rule}")
    plain = DTYPES.get(dtype.str) if not fortran or len(shape) < 2 else None
    stored = plain or (f"{dtype.str} in Fortran order" if fortran and len(shape) > 1 else dtype.str)
    return TensorInfo(name, stored, tuple(map(int, shape)), begin, end, file.name)


def _read(file: FileRanges, start: int, count: int) -> bytes:
    if not 0 <= start <= start + count <= file.size:
        raise fault(file.name, f"ends at byte {file.size}, before byte {start + count}; it is incomplete")
    return file.read(range(start, start + count)).tobytes()


class _Bytes(io.RawIOBase):
    """A file of ranges as a file object, for ``zipfile``, which reads the list of members at its end."""

    def __init__(self, file: FileRanges) -> None:
        self._file, self._at = file, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._file.size}[whence]
        if self._at < 0:
            raise OSError("a place before the file's beginning")
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        stop = self._file.size if size is None or size < 0 else min(self._file.size, self._at + size)
        start, self._at = min(self._at, stop), max(self._at, stop)
        return self._file.read(range(start, stop)).tobytes() if start < stop else b""
