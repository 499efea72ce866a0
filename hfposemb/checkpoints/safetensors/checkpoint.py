"""Safetensors checkpoints: a strict header parser and a zero-copy reader of files by ranges, here or on the Hub.

The format: https://huggingface.co/docs/safetensors#format. ``header_length`` and ``parse_header`` access no file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.saved.writing import METADATA_BYTES
from ..file_choice import foreign_file, is_index, locate_safetensors, weight_map
from ..file_ranges import FileRanges, LocalRanges
from ..limits import DEFAULT_LIMITS, Limits
from ..strict_json import fault, foreign, parse_json, read_json, shortened

BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6},
}
"""Bits of a number of each dtype."""


_STORED: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(code) for name, code in (("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2"), ("BF16", "<u2"))},
    **{name: np.dtype(code) for name, code in (("I8", "i1"), ("I32", "<i4"), ("U32", "<u4"), ("I64", "<i8"))},
    **dict.fromkeys(("U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4"), np.dtype("u1")),
}

PLAIN = frozenset(("F64", "F32", "F16", "BF16"))
"""Stored dtypes of plain, unquantised vectors."""

CODES = frozenset(_STORED)
"""Stored dtypes that ``Checkpoint.codes`` reads; an F4 number takes half a byte."""


_CHUNK = 2**19  # elements widened at a time, so that source and result stay in the CPU cache
_FIELDS = ("dtype", "shape", "data_offsets")
TEXT_LIMITS = {"name_bytes": 256, "metadata_bytes": METADATA_BYTES, "metadata_keys": 10_000}
"""Limits of a tensor's name and of the metadata of a header."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Dtype, shape and location of a tensor.

    ``start`` and ``stop`` are byte offsets in ``file``, whose path is relative to the checkpoint's folder. A tensor
    that is ``decoded`` as it is read has a description of how it is stored as its dtype; if it is stored as several
    tensors, these are its ``parts``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    file: str
    decoded: bool = False
    parts: tuple[TensorInfo, ...] = ()

    @property
    def nbytes(self) -> int:
        """Stored size in bytes, of all parts."""
        return sum(part.nbytes for part in self.parts) if self.parts else self.stop - self.start

    @property
    def readable(self) -> bool:
        """Whether it is read as vectors, as they are stored or decoded."""
        return self.dtype in PLAIN or self.decoded


@dataclass(frozen=True)
class Header:
    """Parsed safetensors header; ``data_start`` is the byte offset of the first tensor."""

    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]
    data_start: int
    file_bytes: int

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "metadata": dict(self.metadata)}


def header_length(first8: bytes, *, file_bytes: int, name: str, limits: Limits = DEFAULT_LIMITS) -> int:
    """Return the header's length in bytes.

    Args:
        first8: First eight bytes of the file.
        file_bytes: Size of the file.
        name: Name of the file in messages.
        limits: Limits of what is read.

    Raises:
        CheckpointError: If the length is out of range, or the file is of another kind.
    """
    if file_bytes == 0:
        raise fault(name, "the file is empty; download it again")
    length = int.from_bytes(first8[:8], "little")
    if file_bytes < 10 or len(first8) < 8:
        rule = f"a safetensors file has at least 10 bytes; this one has {file_bytes}; download it again"
    elif length < 2:
        rule = f"the header must have at least 2 bytes; the file states {length}"
    elif length > limits.header_bytes:
        rule = f"the header may have at most {limits.header_bytes} bytes; the file states {length}"
    elif length > file_bytes - 8:
        rule = f"the file states a header of {length} bytes, but only {file_bytes - 8} follow; download it again"
    else:
        return length
    raise fault(name, foreign(first8) or rule)


def parse_header(header_json: bytes, *, file_bytes: int, name: str, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Validate and parse a header.

    At least as strict as ``safetensors.safe_open``. It also rejects duplicate keys, unknown fields, escapes in field
    names, and anything beyond ``limits``.

    Args:
        header_json: The header without the eight bytes of its length.
        file_bytes: Size of the file.
        name: Name of the file in messages.
        limits: Limits of what is read.

    Raises:
        CheckpointError: Names the first violated rule.
    """
    first8 = len(header_json).to_bytes(8, "little")
    length = header_length(first8, file_bytes=file_bytes, name=name, limits=limits)
    if not header_json.startswith(b"{"):
        raise fault(name, foreign(first8) or f"the header must begin with '{{'; found {shortened(header_json[:40])}")
    if not header_json.rstrip(b" ").endswith(b"}"):
        raise fault(name, f"the header must end with '}}'; found {shortened(header_json[-40:])}")
    # A string takes more memory than any other value; a tensor has five, a pair of the metadata two. While a text with
    # escapes is decoded, it takes many times its bytes.
    strings = 5 * limits.tensors + 2 * TEXT_LIMITS["metadata_keys"]
    if header_json.count(b'"') - header_json.count(b'\\"') > 2 * strings:
        raise fault(name, f"the header may have at most {strings} strings")
    limit = limits.header_bytes // (2 if b"\\" in header_json else 1)
    values = 8 * limits.tensors + TEXT_LIMITS["metadata_keys"]
    found: dict[str, Any] = parse_json(
        header_json, size=length, name=name, limit=limit, kind=dict, unique=True, values=values, whole=_whole
    )
    metadata = _checked_metadata(found.pop("__metadata__", None), name=name)
    if len(found) > limits.tensors:
        raise fault(name, f"a file may list at most {limits.tensors} tensors")
    start, tensors = 8 + length, dict[str, TensorInfo]()
    for tensor, entry in found.items():
        if rule := _broken(tensor, entry, limits):
            place = header_json.find(json.dumps(tensor).encode())
            where = f"; byte {8 + place} reads {shortened(header_json[place : place + 30])}" if place >= 0 else ""
            raise fault(name, f"{shortened(tensor)} {rule}{where}")
        begin, end = entry["data_offsets"]
        tensors[tensor] = TensorInfo(tensor, entry["dtype"], tuple(entry["shape"]), start + begin, start + end, name)
    if any(header_json.count(f'"{field}"'.encode()) < len(found) for field in _FIELDS):
        raise fault(name, "dtype, shape and data_offsets must be written without escapes")
    _check_cover(tensors, start, file_bytes, name=name)
    return Header(tensors, metadata, start, file_bytes)


def _whole(digits: str) -> int:
    if not digits.isdecimal() or len(digits) > 19:
        raise ValueError(f"{digits[:20]} is negative, or has more than 19 digits")
    return int(digits)


def check_read(
    info: TensorInfo,
    start: int = 0,
    stop: int | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    codes: bool = False,
    row_bytes: int | None = None,
) -> range:
    """Return the byte range of rows ``[start, stop)`` in the file.

    Rows are entries of the first axis; those of a vector are its elements, and a single code is one row.

    Args:
        info: The tensor.
        start: First row.
        stop: End of the rows, exclusive; ``None`` for all.
        limits: Limits of what is read.
        codes: Whether the numbers are read as they are stored, in any of ``CODES``.
        row_bytes: Stored bytes of a row of a format with other dtypes, which the caller has checked.

    Raises:
        CheckpointError: If the tensor cannot be read as vectors or exceeds a limit.
        InputError: If the rows do not exist.
    """
    if row_bytes is None and info.dtype not in (CODES if codes else PLAIN):
        rule = "only F64, F32, F16 and BF16 can be read; use a full-precision checkpoint of this model"
        raise fault(info.file, f"{shortened(info.name)} is stored as {info.dtype}; {rule}")
    if not info.shape and not codes:
        raise fault(info.file, f"{shortened(info.name)} is a single number, not a table")
    shape = info.shape or (1,)
    rows = shape[0]
    vectors, width = math.prod(shape[:-1]), shape[-1]
    stop = rows if stop is None else stop
    if not 0 <= start <= stop <= rows:
        raise InputError(f"rows {start} to {stop} of {shortened(info.name)} do not exist; it has rows 0 to {rows}")
    wanted = stop - start if len(shape) == 2 else vectors
    if len(shape) > 1 and (wanted > limits.rows or width > limits.columns):
        rule = f"the limit is {limits.rows} rows of {limits.columns}; read fewer rows at a time"
        raise fault(info.file, f"{wanted} rows of {width} numbers were asked of {shortened(info.name)}; {rule}")
    if row_bytes is None:
        row_bytes = _row_bytes(info, shape)
    span = range(info.start + start * row_bytes, info.start + stop * row_bytes)
    if len(span) > limits.table_bytes:
        rule = f"the limit is {limits.table_bytes}; read fewer rows at a time"
        raise fault(info.file, f"rows {start} to {stop} of {shortened(info.name)} have {len(span)} bytes; {rule}")
    return span


def _row_bytes(info: TensorInfo, shape: tuple[int, ...]) -> int:
    """Return the stored bytes of a row; raise if rows end within a byte."""
    bits = math.prod(shape[1:]) * BITS[info.dtype]
    if bits % 8:
        raise fault(info.file, f"{shortened(info.name)} has rows of {bits} bits, which end within a byte")
    return bits // 8


def widen(raw: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Widen stored numbers exactly: F16 and BF16 (as uint16) to float32; F32 and F64 stay.

    Copies only if the values must change or are unaligned in memory.
    """
    if dtype == "F16":
        return raw.astype(np.float32)
    if dtype != "BF16":
        return raw if raw.flags.aligned else raw.copy()
    source = raw.reshape(-1)
    bits = np.empty(source.size, np.uint32)
    for start in range(0, source.size, _CHUNK):
        part = bits[start : start + _CHUNK]
        np.copyto(part, source[start : start + _CHUNK])
        part <<= 16
    return bits.view(np.float32).reshape(raw.shape)


def as_rows(
    raw: NDArray[np.uint8],
    info: TensorInfo,
    start: int,
    stop: int | None,
    *,
    codes: bool = False,
) -> NDArray[Any]:
    """Return the stored bytes of rows ``[start, stop)`` as read-only rows, widened by ``widen`` unless they are codes.

    Args:
        raw: The bytes of these rows, which has no other users if ``stays``.
        info: The tensor.
        start: First row.
        stop: End of the rows, exclusive; ``None`` for all.
        codes: Whether to return the numbers as they are stored, in the memory of ``raw``: BF16 as uint16, 8-bit floats
            as bytes, F4 as bytes of two numbers each.
    """
    stored: np.dtype[Any] = _STORED[info.dtype]
    whole = info.shape or (1,)
    halves = 2 if info.dtype == "F4" else 1
    shape = ((whole[0] if stop is None else stop) - start, *whole[1:-1], *(size // halves for size in whole[1:][-1:]))
    rows = raw.view(stored).reshape(shape)
    if codes:
        rows.flags.writeable = False
        return rows
    rows = widen(rows, info.dtype)
    rows.flags.writeable = False
    return rows


class CheckpointFile(Protocol):
    """One file of a checkpoint, a ``Shard`` or a ``PickledFile``."""

    @property
    def header(self) -> Header:
        """Its tensors, as a safetensors file states them."""
        ...

    @property
    def file_bytes(self) -> int:
        """Size of the file in bytes."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file states beside its tensors: further names of tensors, among others."""
        ...

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location. Raises ``CheckpointError`` if there is none."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None, *, codes: bool = False) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; with ``codes`` as they are stored."""
        ...


def stays(info: TensorInfo, codes: bool = False) -> bool:
    """Return whether ``as_rows`` returns the bytes of rows as they are, for the caller to keep and to change."""
    return not codes and info.dtype in ("F64", "F32")


@dataclass(frozen=True, eq=False)
class Shard:
    """A safetensors file that is read by ranges of bytes, on this machine or on the Hub.

    Attributes:
        name: Name of the file in messages.
        header: Its header.
        file: Its bytes.
        limits: Limits of what is read.
    """

    name: str
    header: Header
    file: FileRanges
    limits: Limits = DEFAULT_LIMITS

    @property
    def file_bytes(self) -> int:
        """Size of the file in bytes."""
        return self.header.file_bytes

    @property
    def metadata(self) -> Mapping[str, str]:
        """The header's ``__metadata__``."""
        return self.header.metadata

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location."""
        if name not in self.header.tensors:
            rule = f"the index says that {shortened(name)} is in this shard, but its header does not list it"
            raise fault(self.name, rule)
        return self.header.tensors[name]

    def read(self, name: str, start: int = 0, stop: int | None = None, *, codes: bool = False) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; see ``as_rows``."""
        info = self.info(name)
        span = check_read(info, start, stop, limits=self.limits, codes=codes)
        raw = self.file.read(span, whole=range(info.start, info.stop), name=name, own=stays(info, codes))
        return as_rows(raw, info, start, stop, codes=codes)


def open_shard(file: FileRanges, name: str, limits: Limits) -> Shard:
    """Open a safetensors file; reads its header and nothing else.

    Args:
        file: The file.
        name: Its name in messages.
        limits: Limits of what is read.
    """
    start = file.read(range(min(8, file.size))).tobytes()
    length = header_length(start, file_bytes=file.size, name=name, limits=limits)
    text = file.read(range(8, 8 + length)).tobytes()
    parse = _parsed_before if length <= _KEPT_BYTES else parse_header
    return Shard(name, parse(text, file_bytes=file.size, name=name, limits=limits), file, limits)


_KEPT_BYTES = 2**18
"""Maximum size of a header that is kept with what was parsed from it."""

# A header depends on nothing but its bytes and the file's size, both of which are read each time.
_parsed_before = lru_cache(maxsize=16)(parse_header)


def _open_local(folder: Path, limits: Limits, file: str) -> Shard:
    return open_shard(LocalRanges.open(folder / file), file, limits)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Checkpoint of one or several files; a file is opened when one of its tensors is first used.

    All errors are ``CheckpointError``, except ``InputError`` for rows that do not exist; of files on the Hub they are
    ``SourceError``.

    Attributes:
        name: Name in messages.
        files: File of each tensor.
        open_file: Opens a file by its name.
        limits: Limits of what is read.
    """

    name: str
    files: Mapping[str, str]
    open_file: Callable[[str], CheckpointFile]
    limits: Limits = DEFAULT_LIMITS
    _opened: dict[str, CheckpointFile] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, path: Path, *, limits: Limits = DEFAULT_LIMITS, located: Path | None = None) -> Checkpoint:
        """Open a .safetensors file or a folder (one file, an index with its shards, a sentence-transformers folder).

        Args:
            path: The file or folder.
            limits: Limits of what is read.
            located: The file or index of the folder's checkpoint, if the caller has located it.
        """
        name = os.path.basename(os.path.abspath(path))
        if located is None:
            located = locate_safetensors(Path(path)) if os.path.isdir(path) else Path(path)
        path = located.absolute()  # the working directory may change before later reads
        open_file = partial(_open_local, path.parent, limits)
        if is_index(path.name):
            index: dict[str, Any] = read_json(path, limit=limits.header_bytes, kind=dict, unique=True)
            files = MappingProxyType(weight_map(index, name=path.name))
            return cls(name, files, open_file, limits)
        if path.suffix != ".safetensors" and os.path.exists(path):
            raise fault(path.name, foreign_file(path.name))
        shard = open_file(path.name)
        return cls.of_one(name, path.name, shard.header.tensors, shard, open_file, limits)

    @classmethod
    def of_one(
        cls,
        name: str,
        file: str,
        tensors: Iterable[str],
        opened: CheckpointFile,
        open_file: Callable[[str], CheckpointFile],
        limits: Limits = DEFAULT_LIMITS,
    ) -> Self:
        """Return the checkpoint in a single file, which is open."""
        return cls(name, MappingProxyType(dict.fromkeys(tensors, file)), open_file, limits, {file: opened})

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location of the files and their modification times, which ``read`` verifies, but no tensor."""
        return {**self.__dict__, "files": dict(self.files)}

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name; reads every shard's header."""
        return MappingProxyType({name: self.info(name) for name in self.files})

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, without reading a file."""
        return tuple(self.files)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; opens its file if necessary."""
        file, name = self._held(name)
        return file.info(name)

    def metadata(self) -> Mapping[str, str]:
        """Return what the files state beside their tensors, merged over those opened so far."""
        return MappingProxyType({k: v for file in self._opened.values() for k, v in file.metadata.items()})

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        return self._held(name)[0].file_bytes

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only and exact.

        F64 is returned as float64; F32, F16 and BF16 as float32. F32 and F64 are copy-on-write maps of the file if
        aligned, so modifying the array changes neither the file nor later reads. The file must not be truncated while
        the array is in use.
        """
        file, name = self._held(name)
        return file.read(name, start, stop)

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as they are stored, read-only; see ``as_rows``."""
        file, name = self._held(name)
        return file.read(name, start, stop, codes=True)

    def is_open(self, name: str) -> bool:
        """Return whether the file of a tensor is open, so that ``info`` reads nothing; also of an unknown tensor."""
        file = self.files.get(name)
        return file is None or file in self._opened

    def _held(self, name: str) -> tuple[CheckpointFile, str]:
        """Return the file that holds a tensor, and its name there if it has several."""
        stored = name if name in self.files else self.metadata().get(name, "")
        if stored not in self.files:
            raise fault(self.name, f"has no tensor {shortened(name)} among its {len(self.files)} tensors")
        file = self.files[stored]
        if file not in self._opened:
            self._opened.setdefault(file, self.open_file(file))  # of two threads, the first
        return self._opened[file], stored


def _broken(tensor: str, entry: Any, limits: Limits) -> str:
    """Return the rule that what a header says of a tensor violates; "" if there is none."""
    if not tensor or not tensor.isprintable():
        return "is not a valid tensor name; it must be printable and not empty"
    if len(tensor.encode()) > TEXT_LIMITS["name_bytes"]:
        return f"is too long; a tensor's name may have at most {TEXT_LIMITS['name_bytes']} bytes"
    if not isinstance(entry, dict) or sorted(entry) != sorted(_FIELDS):
        return "must have dtype, shape and data_offsets, and nothing else"
    kind, shape, offsets = (entry[field] for field in _FIELDS)
    if not all(isinstance(one, list) and all(type(number) is int for number in one) for one in (shape, offsets)):
        return "must have lists of whole numbers as shape and data_offsets"
    if not isinstance(kind, str) or kind not in BITS:
        return f"has the dtype {shortened(str(kind)[:40])}, which is not a safetensors dtype"
    if len(shape) > limits.rank:
        return f"has {len(shape)} axes, the limit is {limits.rank}"
    # Ignore axes of length zero: NumPy cannot hold (0, 2**62, 2**62) either.
    if math.prod(filter(None, shape)) * BITS[kind] >= 2**63:
        return f"has a shape that overflows: {shortened(str(shape)[:40])}"
    bits = math.prod(shape) * BITS[kind]
    if len(offsets) != 2 or bits != 8 * (offsets[1] - offsets[0]):
        return f"needs {bits / 8:.16g} bytes, but has the data_offsets {shortened(str(offsets)[:40])}"
    return ""


def _checked_metadata(found: Any, *, name: str) -> Mapping[str, str]:
    """Return ``__metadata__``, for which MLX writes null if there is none."""
    found = {} if found is None else found
    wrong = [found] if not isinstance(found, dict) else [one for one in found.values() if not isinstance(one, str)]
    if wrong:
        raise fault(name, f"__metadata__ must map strings to strings; found a {type(wrong[0]).__name__}")
    size = sum(len(text.encode()) for pair in found.items() for text in pair)
    if size > TEXT_LIMITS["metadata_bytes"] or len(found) > TEXT_LIMITS["metadata_keys"]:
        rule = "__metadata__ may have at most {metadata_bytes} bytes and {metadata_keys} keys".format_map(TEXT_LIMITS)
        raise fault(name, f"{rule}; found {size} and {len(found)}")
    return MappingProxyType(found)


def _check_cover(tensors: Mapping[str, TensorInfo], start: int, stop: int, *, name: str) -> None:
    """Require that the tensors cover a file from byte ``start`` to ``stop`` without gaps or overlaps."""
    reached = start
    for info in sorted(tensors.values(), key=lambda info: (info.start, info.stop)):
        if info.start != reached:
            kind = "overlaps another tensor" if info.start < reached else "leaves a gap before it"
            where = f"it begins at byte {info.start - start} of the data, not at {reached - start}"
            raise fault(name, f"{shortened(info.name)} {kind}: {where}")
        reached = info.stop
    if reached != stop:
        rule = f"the tensors take {reached - start} bytes, but the file has {stop - start} for them; download it again"
        raise fault(name, rule)
