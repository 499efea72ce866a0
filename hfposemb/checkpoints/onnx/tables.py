"""Rows of tables in ONNX files: plain, turned, or codes with scales and zero points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import CheckpointError, InputError
from ..file_ranges import FileRanges
from ..limits import DEFAULT_LIMITS, Limits
from ..protobuf import unpacked
from ..quantised.code_values import integers, signed_bytes
from ..quantised.scaled_codes import BlockNumbers, ScaledCodes
from ..safetensors.checkpoint import PLAIN, TensorInfo, widen
from ..strict_json import fault, shortened
from .graph import Initialiser

CODED: dict[str, tuple[int, bool]] = {
    **{"U8": (8, False), "I8": (8, True), "U4": (4, False), "I4": (4, True), "U2": (2, False), "I2": (2, True)},
}
"""Bits and sign of the data types of codes."""

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I8": "i1"}
_MOST_VARINTS = 2**20  # bytes of a tensor whose elements have no fixed place, so that all of it is read

Scales = Literal["", "table", "row", "column", "block"]


@dataclass(frozen=True, slots=True)
class StoredTable:
    """How the rows of a table are stored.

    Attributes:
        codes: The tensor, which has the table's name.
        rows: Number of rows.
        width: Length of a row.
        turned: Whether the tensor is [width, rows].
        bits: Bits of a code, where a U8 tensor packs several in a byte, the lowest first.
        per: What has one scale: the whole table, each row, column or block of a row; "" for a table without scales.
        block: Numbers of a row in a block.
        scales: The scales.
        zeros: The zero points; packed as the codes are.
        zero: Zero point if there is no tensor of them.
    """

    codes: Initialiser
    rows: int
    width: int
    turned: bool = False
    bits: int = 0
    per: Scales = ""
    block: int = 0
    scales: Initialiser | None = None
    zeros: Initialiser | None = None
    zero: int = 0

    @property
    def dtype(self) -> str:
        """Name of the stored dtype."""
        if self.scales is None:
            return self.codes.dtype
        kind = f"U{self.bits}" if self.bits else self.codes.dtype
        per = f"{self.block} numbers" if self.per == "block" else self.per
        return f"{kind}, one scale per {per}"

    @property
    def blocks(self) -> int:
        """Number of blocks of a row."""
        return -(-self.width // self.block) if self.block else 1

    @property
    def row_codes(self) -> int:
        """Number of codes stored for a row, with those that fill its last block."""
        return math.prod(self.codes.shape) * (8 // self.bits if self.bits else 1) // max(self.rows, 1)


@dataclass(frozen=True)
class TensorFile:
    """Elements of the tensors of an ONNX file and the files next to it.

    Attributes:
        file: The ONNX file.
        limits: Limits of what is read.
    """

    file: FileRanges
    limits: Limits = DEFAULT_LIMITS
    _beside: dict[str, FileRanges] = field(default_factory=dict, repr=False)

    def opened(self, tensor: Initialiser) -> FileRanges:
        """Return the file that holds a tensor's data.

        Raises:
            CheckpointError: If there is none, or if it ends before the data.
        """
        if not tensor.file:
            return self.file
        if tensor.file not in self._beside:
            self._beside[tensor.file] = self.file.beside(tensor.file)
        beside = self._beside[tensor.file]
        if tensor.stop > beside.size:
            rule = f"{shortened(tensor.name)} ends at byte {tensor.stop} of {tensor.file}, which has {beside.size}"
            raise fault(self.file.name, f"{rule}; download it again")
        return beside

    def elements(self, tensor: Initialiser, start: int, stop: int) -> NDArray[Any]:
        """Return the elements ``[start, stop)`` of a tensor in the order of storage; integers are not widened."""
        if tensor.varints:
            return self._numbers(tensor)[start:stop]
        bits = CODED[tensor.dtype][0] if tensor.dtype in CODED else 8 * np.dtype(_NUMPY[tensor.dtype]).itemsize
        first = tensor.start + start * bits // 8
        raw = self.opened(tensor).read(
            range(first, tensor.start - (-stop * bits // 8)),
            whole=range(tensor.start, tensor.stop),
            own=tensor.dtype in PLAIN,
        )
        if bits < 8:
            skipped = start - start * bits // 8 * (8 // bits)
            return signed(split(raw, bits), tensor.dtype)[skipped : skipped + stop - start]
        return widen(raw.view(_NUMPY[tensor.dtype]), tensor.dtype)

    def _numbers(self, tensor: Initialiser) -> NDArray[Any]:
        """Return all elements of a tensor that is stored as numbers of variable length."""
        size, count = tensor.stop - tensor.start, math.prod(tensor.shape)
        if size > _MOST_VARINTS:
            rule = f"its {size} bytes are numbers of variable length, so no row has a place; save it as raw data"
            raise fault(self.file.name, f"{shortened(tensor.name)} cannot be read: {rule}")
        found = unpacked(self.file.read(range(tensor.start, tensor.stop)))
        bits, sign = CODED.get(tensor.dtype, (16, False))
        sign = sign and bits == 8
        low, high = (-128, 127) if sign else (0, 2 ** max(bits, 8) - 1)
        stored = count if bits >= 8 else -(-count * bits // 8)
        if found is None or len(found) != stored or (count and not low <= found.min() <= found.max() <= high):
            rule = f"must be {stored} numbers from {low} to {high}"
            raise fault(self.file.name, f"the data of {shortened(tensor.name)} {rule}")
        if bits < 8:
            return signed(split(found.astype(np.uint8), bits), tensor.dtype)[:count]
        if tensor.dtype in CODED:
            return found.astype(_NUMPY[tensor.dtype])
        return widen(found.astype("<u2").view(_NUMPY[tensor.dtype]), tensor.dtype)


def split(raw: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return the numbers of 2, 4 or 8 bits that are packed in the last axis of bytes, the lowest first."""
    if bits == 8:
        return raw
    count = 8 // bits
    # All numbers of a byte at once, in an integer with a byte for each.
    wide = np.ascontiguousarray(raw).astype(f"<u{count}")
    parts = wide & (2**bits - 1)
    for place in range(1, count):
        wide <<= 8 - bits
        parts |= wide & ((2**bits - 1) << 8 * place)
    return np.asarray(parts.view(np.uint8))


def signed(codes: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    """Return unpacked codes with the sign of their dtype, in two's complement."""
    bits, sign = CODED[dtype]
    if not sign or bits == 8:
        return codes
    half = 2 ** (bits - 1)
    return np.asarray((codes ^ half).view(np.int8) - np.int8(half))


@dataclass(frozen=True)
class TableRows:
    """Reader of the rows of a table.

    Attributes:
        tensors: The tensors.
        table: The table.
    """

    tensors: TensorFile
    table: StoredTable

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows ``[start, stop)``, read-only: as stored, or (code − zero point) · scale as float32.

        Raises:
            CheckpointError: If the table cannot be read or exceeds a limit.
            InputError: If the rows do not exist.
        """
        self._check(start, stop)
        if self.table.per == "":
            found = self._plain(start, stop)
        else:
            found = self._scaled().read(self._rows, start, stop, limits=self.tensors.limits)
        found.flags.writeable = False
        return found

    def _check(self, start: int, stop: int) -> None:
        table, limits, name = self.table, self.tensors.limits, shortened(self.table.codes.name)
        if not 0 <= start <= stop <= table.rows:
            raise InputError(f"rows {start} to {stop} of {name} do not exist; it has rows 0 to {table.rows}")
        if table.per == "" and table.codes.dtype not in PLAIN:
            raise self._bad(f"is stored as {table.codes.dtype} without scales; use the full-precision model")
        if stop - start > limits.rows or table.width > limits.columns:
            rule = f"the limit is {limits.rows} rows of {limits.columns}; read fewer rows at a time"
            raise self._bad(f"has {table.width} numbers in each of the {stop - start} rows that were asked for; {rule}")
        if (size := (stop - start) * table.width * 4) > 2 * limits.table_bytes:
            raise self._bad(f"has {size} bytes in these rows; read fewer rows at a time")

    def _plain(self, start: int, stop: int) -> NDArray[Any]:
        table = self.table
        if not table.turned:
            found = self.tensors.elements(table.codes, start * table.width, stop * table.width)
            return found.reshape(stop - start, table.width)
        whole = self._stored()[:, start:stop].T
        return widen(np.array(whole, order="C"), table.codes.dtype)

    def _stored(self) -> NDArray[Any]:
        """Return the whole tensor [width, rows] of a table that is stored turned, without a copy."""
        tensor = self.table.codes
        if tensor.varints or tensor.dtype not in _NUMPY:
            raise self._bad(f"is stored as {tensor.dtype} of shape {list(tensor.shape)}, a row in each column")
        place = range(tensor.start, tensor.stop)
        raw = self.tensors.opened(tensor).read(place, whole=place)
        return np.asarray(raw.view(_NUMPY[tensor.dtype]).reshape(tensor.shape))

    def _scaled(self) -> ScaledCodes:
        """Return the table as codes with scales, whose parts ``_rows`` reads."""
        table, name = self.table, self.tensors.file.name
        shape = (table.rows, table.width)
        if table.bits:
            values = integers(table.bits, offset=0 if table.zeros is not None else table.zero)
        else:
            values = signed_bytes() if CODED[table.codes.dtype][1] else integers(8)
        blocks = {"row": (1, table.width), "column": (table.rows, 1), "block": (1, table.block)}
        rows, columns = blocks.get(table.per, shape)
        codes, scale, zero = (
            None if one is None else TensorInfo(one.name, one.dtype, one.shape, one.start, one.stop, one.file or name)
            for one in (table.codes, table.scales, table.zeros)
        )
        assert codes is not None
        numbers = [None if one is None else BlockNumbers(one, rows, columns, dtype="F32") for one in (scale, zero)]
        return ScaledCodes(table.dtype, codes, shape, values, numbers[0], zero=numbers[1])

    def _rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a part: codes, of which those that are packed in U8 stay so, or numbers of blocks."""
        table = self.table
        if name == table.codes.name and table.turned:
            return self._stored()[:, start:stop].T
        if name == table.codes.name:
            wide = table.row_codes * (table.bits or 8) // 8
            return self.tensors.elements(table.codes, start * wide, stop * wide).reshape(-1, wide)
        zeros = table.zeros if table.zeros is not None and name == table.zeros.name else None
        tensor = zeros or table.scales
        assert tensor is not None
        packed = table.bits if zeros is not None and zeros.dtype == "U8" else 0
        each = {"column": table.width, "block": table.blocks}.get(table.per, 1)
        wide = -(-each * packed // 8) if packed else each
        found = self.tensors.elements(tensor, start * wide, stop * wide).reshape(-1, wide)
        return split(found, packed)[:, :each] if packed else found

    def _bad(self, rule: str) -> CheckpointError:
        return fault(self.tensors.file.name, f"{shortened(self.table.codes.name)} {rule}")
