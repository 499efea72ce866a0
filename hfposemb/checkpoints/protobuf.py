"""Reader of protobuf messages in untrusted files; fetches what it reads and seeks over the rest.

The encoding: https://protobuf.dev/programming-guides/encoding/. A message is a list of fields, each with a number and a
wire type; nothing states where a message's small fields are, so they are walked in order, and long ones are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from .file_ranges import FileRanges
from .limits import DEFAULT_LIMITS, Limits
from .strict_json import fault, shortened

FIRST_BYTES, NEXT_BYTES, MOST_BYTES = 2**18, 2**15, 2**21
"""Sizes of the first read, of one after a long field was skipped, and of the longest; consecutive reads double."""

MOST_READS = 2_000
MOST_FIELDS = 400_000
TEXT_BYTES = 1024
"""Largest size of a name."""

Nested: TypeAlias = Mapping[int, "Nested"]
"""Fields of a message that are messages, with theirs."""

_MOST_NESTED = 32
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_WIRE_TYPES = {_NUMBER: "a number", _EIGHT: "8 bytes", _BYTES: "a length", _FOUR: "4 bytes"}
_VARINT_BYTES = 10
_LARGEST = 2**64


class Span(NamedTuple):
    """A field of a message: its number, its wire type, and its value or place in the file.

    ``start`` and ``stop`` are the byte offsets of the contents; ``value`` is the integer of a field of wire type 0.
    """

    number: int
    wire: int
    value: int
    start: int
    stop: int


_span = partial(tuple.__new__, Span)  # a third of the time of a call of the class


class MessageReader:
    """Walks the messages of a file forwards, within limits.

    Attributes:
        file: The file.
        reads: Number of ranges read so far.
    """

    def __init__(self, file: FileRanges, limits: Limits = DEFAULT_LIMITS, *, most_fields: int = MOST_FIELDS) -> None:
        self.file, self.limits, self.reads, self._most = file, limits, 0, most_fields
        self._buffer, self._base = b"", 0
        self._size, self._head, self._fields = FIRST_BYTES, 0, 0

    def fields(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the fields of the message in the bytes ``[start, stop)``.

        The caller may read any contents before it asks for the next field.

        Raises:
            CheckpointError: If a field violates the encoding or a limit.
        """
        at = start
        while at < stop:
            self._fields += 1
            if self._fields > self._most:
                raise self.fault(f"has more than {self._most} fields")
            key, begin = self._varint(at, stop)
            number, wire = key >> 3, key & 7
            if not 0 < number < 2**29 or wire not in _WIRE_TYPES:
                raise self.fault(f"byte {at} begins no field: its number is {number} and its type {wire}")
            value = 0
            if wire == _NUMBER:
                value, at = self._varint(begin, stop)
            elif wire == _BYTES:
                length, begin = self._varint(begin, stop)
                at = begin + length
            else:
                at = begin + (8 if wire == _EIGHT else 4)
            if at > stop:
                raise self.fault(f"field {number} ends at byte {at}, after its message, which ends at byte {stop}")
            yield _span((number, wire, value, begin, at))

    def bytes(self, span: Span, *, most: int = TEXT_BYTES) -> bytes:
        """Return the contents of a field of at most ``most`` bytes."""
        size = span.stop - span.start
        if span.wire != _BYTES or size > most:
            found = f"{size} bytes" if span.wire == _BYTES else _WIRE_TYPES[span.wire]
            raise self.fault(f"field {span.number} at byte {span.start} must have at most {most} bytes; found {found}")
        begin = self._window(span.start, size) if size else 0
        return self._buffer[begin : begin + size]

    def text(self, span: Span) -> str:
        """Return the printable text of a field."""
        raw = self.bytes(span)
        try:
            found = raw.decode("utf-8")
        except UnicodeDecodeError:
            found = "\0"
        if not found.isprintable():
            raise self.fault(f"text at byte {span.start} must be printable UTF-8; found {shortened(raw)}")
        return found

    def integer(self, span: Span) -> int:
        """Return the signed 64-bit integer of a field."""
        if span.wire != _NUMBER:
            raise self.fault(f"field {span.number} at byte {span.start} must be a number; it is {_kind(span)}")
        return _signed(span.value)

    def integers(self, span: Span, *, most: int) -> tuple[int, ...]:
        """Return the signed integers of a repeated field, packed or one of several."""
        if span.wire != _BYTES:
            return (self.integer(span),)
        if span.stop - span.start > _VARINT_BYTES * most:
            raise self.fault(f"field {span.number} at byte {span.start} must list at most {most} numbers")
        found, at = [], span.start
        while at < span.stop:
            value, at = self._varint(at, span.stop)
            found.append(_signed(value))
        return tuple(found)

    def floating(self, span: Span) -> float:
        """Return the 32-bit floating-point number of a field."""
        if span.wire != _FOUR:
            raise self.fault(f"field {span.number} at byte {span.start} must have 4 bytes; it is {_kind(span)}")
        begin = self._window(span.start, 4)
        return float(np.frombuffer(self._buffer, "<f4", 1, begin)[0])

    def message(self, span: Span) -> tuple[int, int]:
        """Return the start and stop of a field that is a message."""
        if span.wire != _BYTES:
            raise self.fault(f"field {span.number} at byte {span.start} must be a message; it is {_kind(span)}")
        return span.start, span.stop

    def check(self, span: Span, nested: Nested | None, *, depth: int = 0) -> None:
        """Require that a field and the messages in it are well-formed.

        Args:
            span: The field.
            nested: Which fields of the message are messages; ``None`` if the field is none itself.
            depth: Number of messages around it.
        """
        if nested is None or span.wire != _BYTES:
            return
        if depth > _MOST_NESTED:
            raise self.fault(f"nests messages more than {_MOST_NESTED} deep")
        for one in self.fields(span.start, span.stop):
            self.check(one, nested.get(one.number), depth=depth + 1)

    def fault(self, rule: str) -> CheckpointError:
        """Return the error for a rule that the file violates."""
        return fault(self.file.name, rule)

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        """Return the number at byte ``at`` and the byte after it."""
        index = at - self._base
        if index < 0 or index + _VARINT_BYTES > len(self._buffer):
            if at >= stop:
                raise self.fault(f"ends within a number at byte {at}")
            index = self._window(at, min(_VARINT_BYTES, stop - at))
        buffer = self._buffer
        if (byte := buffer[index]) < 128 and at < stop:
            return byte, at + 1
        value, shift = 0, 0
        for byte in buffer[index : index + min(_VARINT_BYTES, stop - at)]:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                if value >= _LARGEST:
                    break
                return value, at + shift // 7
        raise self.fault(f"the number at byte {at} does not end within its message or 64 bits")

    def _window(self, at: int, size: int) -> int:
        """Read the bytes ``[at, at + size)`` if they are not there, and return their place in the buffer."""
        index = at - self._base
        if index >= 0 and index + size <= len(self._buffer):
            return index
        if at < 0 or at + size > self.file.size:
            raise self.fault(f"states contents up to byte {at + size}, but has {self.file.size}; download it again")
        self.reads += 1
        if self.reads > MOST_READS:
            raise self.fault(f"its fields are in more than {MOST_READS} places; save its tensors as external data")
        if 0 <= index <= len(self._buffer):
            self._size = min(2 * self._size, MOST_BYTES) if self.reads > 1 else self._size
            self._head += len(self._buffer)
            if self._head > self.limits.header_bytes:
                raise self.fault(f"has more than {self.limits.header_bytes} bytes beside its tensors")
        else:
            self._size = NEXT_BYTES
        span = range(at, min(at + max(size, self._size), self.file.size))
        self._buffer, self._base = self.file.read(span).tobytes(), at
        return 0


def _signed(value: int) -> int:
    return value - _LARGEST if value >= _LARGEST // 2 else value


def _kind(span: Span) -> str:
    return _WIRE_TYPES[span.wire]


def unpacked(raw: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """Return the signed integers of a packed field; ``None`` if the bytes are not whole numbers of 64 bits.

    Args:
        raw: The bytes of the field.
    """
    ends = np.flatnonzero(raw < 128)
    if not len(raw):
        return np.empty(0, np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        return None
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > _VARINT_BYTES or (raw[ends[lengths == _VARINT_BYTES]] > 1).any():
        return None
    places = np.arange(len(raw)) - np.repeat(starts, lengths)
    parts = (raw & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.asarray(np.add.reduceat(parts, starts).view(np.int64))
