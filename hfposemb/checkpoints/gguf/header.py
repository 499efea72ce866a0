"""Strict parser of the head of a GGUF file: its keys, its tokens and the places of its tensors.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The head does not state its length, so it is
read piece by piece. What a table does not need, such as the merges of a tokenizer, is passed over.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..file_ranges import FileRanges
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import TensorInfo
from ..strict_json import fault, foreign, shortened


class BlockType(NamedTuple):
    """A type of tensor: ``size`` bytes hold a block of ``elements`` numbers, which lie in one row."""

    name: str
    elements: int
    size: int


TYPES: Mapping[int, BlockType] = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    9: BlockType("Q8_1", 32, 40),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    15: BlockType("Q8_K", 256, 292),
    16: BlockType("IQ2_XXS", 256, 66),
    17: BlockType("IQ2_XS", 256, 74),
    18: BlockType("IQ3_XXS", 256, 98),
    19: BlockType("IQ1_S", 256, 50),
    20: BlockType("IQ4_NL", 32, 18),
    21: BlockType("IQ3_S", 256, 110),
    22: BlockType("IQ2_S", 256, 82),
    23: BlockType("IQ4_XS", 256, 136),
    24: BlockType("I8", 1, 1),
    25: BlockType("I16", 1, 2),
    26: BlockType("I32", 1, 4),
    27: BlockType("I64", 1, 8),
    28: BlockType("F64", 1, 8),
    29: BlockType("IQ1_M", 256, 56),
    30: BlockType("BF16", 1, 2),
    34: BlockType("TQ1_0", 256, 54),
    35: BlockType("TQ2_0", 256, 66),
    39: BlockType("MXFP4", 32, 17),
    40: BlockType("NVFP4", 64, 36),
    41: BlockType("Q1_0", 128, 18),
}
"""Types by their number in the file. The missing numbers belong to types that were withdrawn."""

DECODED = frozenset(one.name for one in TYPES.values() if one.elements > 1) - {"Q1_0", "Q8_1", "Q8_K"}
"""Names of the types that ``blocks`` decodes: all of blocks but these."""

BY_NAME: Mapping[str, BlockType] = {one.name: one for one in TYPES.values()}
"""Types by their name."""


FIRST_BYTES = 2**18
"""Size of the first read of a file, which covers the head of all but the files with a vocabulary."""

TOKENS, TOKEN_TYPES, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
_AHEAD = 2**23
_LENGTH = struct.Struct("<Q")
_KEYS = 10_000
_KEY_BYTES, _NAME_BYTES, _DIMENSIONS = 256, 64, 4
_KEPT_TEXT, _KEPT_TEXTS, _KEPT_ARRAY = 2**20, 2**22, 2**16
_LEAST_KEY, _LEAST_TENSOR = 14, 25
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_DTYPES = {kind: np.dtype(f"<{code}") for kind, code in _NUMBERS.items()}


@dataclass(frozen=True, eq=False)
class Texts:
    """An array of strings, kept as the bytes of the file.

    Attributes:
        raw: The strings, each after eight bytes.
        stops: End of each string in ``raw``.
    """

    raw: bytes
    stops: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.stops)

    def decoded(self) -> list[str]:
        """Return all strings; bytes that are not UTF-8 become U+FFFD."""
        raw, stops = self.raw, self.stops.tolist()
        return [raw[start + 8 : stop].decode(errors="replace") for start, stop in zip([0, *stops], stops, strict=False)]


Value: TypeAlias = int | float | bool | str | Texts | NDArray[Any]


@dataclass(frozen=True, eq=False)
class GgufHeader:
    """Parsed head of one GGUF file.

    Attributes:
        values: Values of the keys, without long texts; of the arrays, the tokens, their types, merges and short ones of
            numbers.
        tensors: The tensors by name; their shapes are [rows, width].
        file_bytes: Size of the file.
    """

    values: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    file_bytes: int

    def whole(self, key: str, *, low: int = 0, high: int = 2**31) -> int | None:
        """Return an integer within bounds, else ``None``."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None

    def real(self, key: str, *, low: float, high: float = 1e12) -> float | None:
        """Return a number within bounds, else ``None``."""
        value = self.values.get(key)
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        return number if low <= number <= high else None

    def text(self, key: str) -> str:
        """Return a string, "" for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""


def read_header(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> GgufHeader:
    """Read and validate the head of a GGUF file.

    At least as strict as llama.cpp. It also refuses names that cannot be printed, gaps of a size that no alignment
    explains, and anything beyond ``limits``.

    Args:
        file: The file.
        limits: Limits of what is read.

    Raises:
        CheckpointError: Names the first violated rule.
    """
    walk = _Walk(file, limits)
    tensors, keys = walk.counts()
    values = walk.values(keys)
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 2**20 or alignment & (alignment - 1):
        raise fault(file.name, f"general.alignment must be a power of two; found {shortened(str(alignment))}")
    rows = [walk.tensor() for _ in range(tensors)]
    begin = -(-walk.at // alignment) * alignment
    return GgufHeader(values, _placed(rows, begin, alignment, file), file.size)


_Row: TypeAlias = tuple[str, str, tuple[int, ...], int, int]
"""Name, type, shape, size in bytes and offset of a tensor."""


def _placed(rows: list[_Row], begin: int, alignment: int, file: FileRanges) -> Mapping[str, TensorInfo]:
    """Return the tensors, which must be aligned and inside the file, and must not overlap."""
    made: dict[str, TensorInfo] = {}
    for name, kind, shape, size, offset in rows:
        if offset % alignment:
            rule = f"begins at byte {offset} of the data, which is not a multiple of {alignment}"
            raise fault(file.name, f"{shortened(name)} {rule}")
        if begin + offset + size > file.size:
            rule = f"ends at byte {begin + offset + size}, but the file has {file.size}; download it again"
            raise fault(file.name, f"{shortened(name)} {rule}")
        if name in made:
            raise fault(file.name, f"tensor names must be unique; found {shortened(name)} twice")
        made[name] = TensorInfo(name, kind, shape, begin + offset, begin + offset + size, file.name, kind in DECODED)
    reached = begin
    for one in sorted(made.values(), key=lambda one: (one.start, one.stop)):
        if one.start < reached:
            rule = f"begins at byte {one.start}, inside another tensor, which ends at byte {reached}"
            raise fault(file.name, f"{shortened(one.name)} {rule}")
        reached = one.stop
    return made


class _Walk:
    """A walk through the head: ``at`` is the next byte; ``window`` holds the bytes of the file from ``base`` on."""

    def __init__(self, file: FileRanges, limits: Limits) -> None:
        self.file, self.limits = file, limits
        self.at = self.base = 0
        self.window = b""
        self.kept = 0

    def wrong(self, rule: str) -> NoReturn:
        raise fault(self.file.name, rule)

    def need(self, size: int, *, expected: int = 0) -> int:
        """Make the next ``size`` bytes available and return their place in the window; ``expected`` may follow."""
        stop = self.at + size
        if stop > self.file.size:
            self.wrong(f"the head needs {stop} bytes, but the file has {self.file.size}; download it again")
        if stop > self.limits.header_bytes:
            self.wrong(f"the head may have at most {self.limits.header_bytes} bytes; this one needs {stop}")
        if stop > self.base + len(self.window):
            reached = max(self.base + len(self.window), self.at)
            wanted = max(stop, self.at + min(expected, _AHEAD), reached + FIRST_BYTES)
            fresh = self.file.read(range(reached, min(wanted, self.file.size, self.limits.header_bytes)))
            self.window = self.window[self.at - self.base :] + fresh.tobytes()
            self.base = self.at
        return self.at - self.base

    def number(self, code: str) -> Any:
        """Return the next number, of a type of ``struct``."""
        found = self.ahead(code)
        self.at += struct.calcsize(f"<{code}")
        return found

    def ahead(self, code: str) -> Any:
        """Return the next number without passing over it."""
        place = self.need(struct.calcsize(f"<{code}"))
        return struct.unpack_from(f"<{code}", self.window, place)[0]

    def text(self, what: str, *, most: int = _KEPT_TEXT) -> str | None:
        """Return the next string; ``None`` for one of more than ``most`` bytes, which is passed over."""
        size = self.number("Q")
        if size > most:
            self.skip(size)
            return None
        place = self.need(size)
        raw = self.window[place : place + size]
        self.at += size
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.wrong(f"{what} must be UTF-8; found {shortened(raw)}")

    def skip(self, size: int) -> None:
        """Pass over bytes, which must exist."""
        if self.at + size > min(self.file.size, self.limits.header_bytes):
            self.need(size)
        self.at += size
        if self.at > self.base + len(self.window):
            self.window, self.base = b"", self.at

    def name(self, what: str, most: int) -> str:
        """Return the next name, which must be short and printable."""
        size = self.ahead("Q")
        if not 0 < size <= most:
            self.wrong(f"{what} must have 1 to {most} bytes; found {size} at byte {self.at}")
        found = self.text(what, most=most)
        if found is None or not found.isprintable():
            self.wrong(f"{what} must be printable; found {shortened(str(found))}")
        return found

    def counts(self) -> tuple[int, int]:
        """Return the numbers of tensors and keys."""
        size = self.file.size
        if size == 0:
            self.wrong("the file is empty; download it again")
        self.need(min(size, 8))
        start = self.window[:8]
        if start[:4] != b"GGUF":
            self.wrong(foreign(start) or f"must begin with 'GGUF'; found {shortened(start)}")
        self.at = 4
        version = self.number("I")
        if version not in (2, 3):
            self._wrong_version(version)
        tensors, keys = self.number("Q"), self.number("Q")
        if tensors > self.limits.tensors:
            self.wrong(f"a file may list at most {self.limits.tensors} tensors; this one states {tensors}")
        if keys > _KEYS:
            self.wrong(f"a file may have at most {_KEYS} keys; this one states {keys}")
        if (least := _LEAST_KEY * keys + _LEAST_TENSOR * tensors) > size - self.at:
            self.wrong(f"{keys} keys and {tensors} tensors need {least} bytes, but only {size - self.at} follow")
        return tensors, keys

    def _wrong_version(self, version: int) -> NoReturn:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3):
            self.wrong("is stored big-endian; convert the model again with --bigendian left out")
        self.wrong(f"has version {version} of GGUF; versions 2 and 3 can be read; convert the model again")

    def values(self, keys: int) -> dict[str, Value]:
        """Return the values of all keys that are kept."""
        found: dict[str, Value] = {}
        seen: set[str] = set()
        for _ in range(keys):
            key = self.name("a key", _KEY_BYTES)
            if key in seen:
                self.wrong(f"keys must be unique; found {shortened(key)} twice")
            seen.add(key)
            kind = self.number("I")
            value = self.array(key) if kind == _ARRAY else self.scalar(key, kind)
            if isinstance(value, str):
                self.kept += len(value)
                if self.kept > _KEPT_TEXTS:
                    self.wrong(f"texts of the keys may have {_KEPT_TEXTS} characters; {shortened(key)} exceeds that")
            if value is not None:
                found[key] = value
        return found

    def scalar(self, key: str, kind: int) -> int | float | bool | str | None:
        """Return the next value; ``None`` for a long string."""
        if kind == _STRING:
            return self.text(f"the value of {shortened(key)}")
        if kind not in _NUMBERS:
            self.wrong(f"{shortened(key)} has the type {kind}, which is not a type of GGUF")
        value: int | float = self.number(_NUMBERS[kind])
        if kind == _BOOL:
            if value not in (0, 1):
                self.wrong(f"{shortened(key)} must be true or false; found {value}")
            return bool(value)
        return value

    def array(self, key: str) -> Texts | NDArray[Any] | None:
        """Return the next array; ``None`` for one that is not kept."""
        kind, count = self.number("I"), self.number("Q")
        if kind != _STRING and kind not in _NUMBERS:
            what = "arrays" if kind == _ARRAY else f"the type {kind}"
            self.wrong(f"{shortened(key)} is an array of {what}; arrays hold numbers or strings")
        each = 8 if kind == _STRING else _DTYPES[kind].itemsize
        if count * each > self.file.size - self.at:
            rule = f"states {count} elements of at least {each} bytes, but only {self.file.size - self.at} bytes follow"
            self.wrong(f"{shortened(key)} {rule}; download the file again")
        if kind == _STRING:
            return self.strings(count, keep=key in (TOKENS, MERGES))
        if key != TOKEN_TYPES and count * each > _KEPT_ARRAY:
            self.skip(count * each)
            return None
        place = self.need(count * each, expected=count * each)
        self.at += count * each
        return np.frombuffer(self.window, _DTYPES[kind], count, place).copy()

    def strings(self, count: int, *, keep: bool) -> Texts | None:
        """Walk through the strings of an array and return them if they are to be kept."""
        first, done = self.at, 0
        parts, stops = list[bytes](), array("I")
        while done < count:
            begin, left = self.at, count - done
            self.need(8, expected=left * (begin - first) // done if done else 16 * left)
            size = self.ahead("Q")
            if size > self.file.size - begin - 8:
                rule = f"a string at byte {begin} states {size} bytes, but only {self.file.size - begin - 8} follow"
                self.wrong(f"{rule}; download the file again")
            place = self.need(8 + size)
            window, before = self.window, self.base - first
            while done < count and (end := place + 8) <= len(window):
                end += _LENGTH.unpack_from(window, place)[0]
                if end > len(window):
                    break
                place, done = end, done + 1
                if keep:
                    stops.append(before + end)
            self.at = self.base + place
            if keep:
                parts.append(window[begin - self.base : place])
        return Texts(b"".join(parts), np.array(stops, np.uint32)) if keep else None

    def tensor(self) -> _Row:
        """Return the next entry of the list of tensors."""
        name = self.name("a tensor's name", _NAME_BYTES)
        axes = self.number("I")
        if axes > _DIMENSIONS:
            self.wrong(f"{shortened(name)} has {axes} axes; the limit is {_DIMENSIONS}")
        dimensions = tuple(self.number("Q") for _ in range(axes))
        number, offset = self.number("I"), self.number("Q")
        kind = TYPES.get(number)
        if kind is None:
            rule = f"has the type {number}, which is not known; known are 0 to {max(TYPES)}, some withdrawn"
            self.wrong(f"{shortened(name)} {rule}")
        # Ignore axes of length zero: the others must not overflow either.
        if math.prod(filter(None, dimensions)) * kind.size >= 2**63 or offset >= 2**63:
            self.wrong(f"{shortened(name)} has a shape or offset that overflows: {list(dimensions)}, {offset}")
        width = dimensions[0] if dimensions else 1
        if width % kind.elements:
            rule = f"has rows of {width} numbers, but {kind.name} stores blocks of {kind.elements}"
            self.wrong(f"{shortened(name)} {rule}")
        size = math.prod(dimensions) // kind.elements * kind.size
        return name, kind.name, dimensions[::-1], size, offset
