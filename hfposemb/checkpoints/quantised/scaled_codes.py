"""Tables that are stored as codes with scales: which rows of which tensor to read, and how to compute vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..limits import Limits
from ..safetensors.checkpoint import TensorInfo, widen
from ..strict_json import fault, shortened
from .code_values import CodeValues, Precision, float8, round_in_place

_CHUNK = 2**17
"""Numbers decoded at a time, so that they stay in the CPU cache."""

ReadStored: TypeAlias = Callable[[str, int, int], NDArray[Any]]
"""Reads rows of a tensor by name as they are stored, such as ``Checkpoint.codes``."""


@dataclass(frozen=True)
class BlockNumbers:
    """Stored numbers, each of which belongs to a block of a table: scales, biases or zero points.

    Attributes:
        tensor: The tensor that holds them, row by row of blocks.
        rows: Rows of a block.
        columns: Columns of a block.
        dtype: How they are stored, if the tensor's dtype does not say: ``F8_E4M3`` or ``F8_E8M0`` in U8.
        precision: Precision to which they are rounded before they are used.
    """

    tensor: TensorInfo
    rows: int
    columns: int
    dtype: str = ""
    precision: Precision = "F32"

    def span(self, start: int, stop: int) -> range:
        """Return the rows of the tensor that belong to rows ``[start, stop)`` of the table."""
        if math.prod(self.tensor.shape) == 1:
            return range(min(1, stop - start))
        return range(start // self.rows, -(-stop // self.rows) if stop > start else start // self.rows)

    def decoded(self, raw: NDArray[Any]) -> NDArray[np.float32]:
        """Return stored numbers as float32 [rows of blocks, blocks in a row]."""
        kind = self.dtype or self.tensor.dtype
        if kind.startswith("F8"):
            values: NDArray[np.float32] = np.take(float8(kind).values, raw)
        else:
            values = widen(raw, kind).astype(np.float32)
        round_in_place(values, self.precision)
        return values.reshape(len(raw), -1)


@dataclass(frozen=True)
class ScaledCodes:
    """A table stored as codes: ``(code - zero) * scale + bias``, rounded after each step.

    Attributes:
        label: How it is stored, in a few words.
        codes: The tensor with the codes.
        shape: Shape of the table, [rows, width].
        values: The numbers that the codes stand for.
        scale: The scales; ``None`` if the codes are the numbers themselves.
        zero: What is subtracted from codes.
        bias: What is added.
        overall: A scale of all scales.
        divided: Whether scales are divided by ``overall`` rather than multiplied.
        precision: Precision to which the product and the sum are rounded.
    """

    label: str
    codes: TensorInfo
    shape: tuple[int, int]
    values: CodeValues
    scale: BlockNumbers | None = None
    zero: BlockNumbers | None = None
    bias: BlockNumbers | None = None
    overall: BlockNumbers | None = None
    divided: bool = False
    precision: Precision = "F32"

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensors that hold the table."""
        numbers = (self.scale, self.zero, self.bias, self.overall)
        return (self.codes, *(one.tensor for one in numbers if one is not None))

    def info(self, name: str) -> TensorInfo:
        """Return the table as a tensor of the given name, whose dtype is the label."""
        codes = self.codes
        return TensorInfo(name, self.label, self.shape, codes.start, codes.stop, codes.file, True, self.parts)

    def read(self, read: ReadStored, start: int, stop: int, *, limits: Limits) -> NDArray[np.float32]:
        """Return rows ``[start, stop)``, which exist, as float32; reads only these rows of every part.

        Raises:
            CheckpointError: If scales are not finite, or the rows exceed a limit.
        """
        rows, width = stop - start, self.shape[1]
        if 2 * rows * width > limits.table_bytes:
            rule = f"decoded, they count as {2 * rows * width} bytes; the limit is {limits.table_bytes}"
            raise fault(self.codes.file, f"rows {start} to {stop} of {shortened(self.codes.name)}: {rule}; read fewer")
        raw = _as_bytes(read(self.codes.name, start, stop), rows)
        blocks = {
            key: _Blocks.read(numbers, read, start, stop)
            for key, numbers in (("scale", self.scale), ("zero", self.zero), ("bias", self.bias))
            if numbers is not None
        }
        overall = 1.0 if self.overall is None else self._overall(self.overall, read)
        out: NDArray[np.float32] = np.empty((rows, width), np.float32)
        step = max(1, _CHUNK // max(width, 1))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for at in range(0, rows, step):
                part = out[at : at + step]
                self.values.expand(raw[at : at + step], part)
                self._apply(part, start + at, blocks, np.float32(overall))
        return out

    def _apply(self, part: NDArray[np.float32], start: int, blocks: dict[str, _Blocks], overall: np.float32) -> None:
        """Compute vectors from codes in place."""
        if (zero := blocks.get("zero")) is not None:
            zero.combine(np.subtract, part, zero.of(start, len(part)))
        if (scale := blocks.get("scale")) is not None:
            numbers = scale.of(start, len(part))
            if self.overall is not None:
                numbers = numbers / overall if self.divided else numbers * overall
            scale.combine(np.multiply, part, numbers)
        round_in_place(part, self.precision)
        if (bias := blocks.get("bias")) is not None:
            bias.combine(np.add, part, bias.of(start, len(part)))
            round_in_place(part, self.precision)

    def _overall(self, numbers: BlockNumbers, read: ReadStored) -> float:
        found = numbers.decoded(read(numbers.tensor.name, 0, 1)).item()
        if not math.isfinite(found) or found == 0:
            raise fault(
                numbers.tensor.file, f"{shortened(numbers.tensor.name)} is {found:g}; a scale must be finite and not 0"
            )
        return found


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Stored numbers of the blocks of some rows."""

    numbers: BlockNumbers
    raw: NDArray[Any]
    span: range

    @classmethod
    def read(cls, numbers: BlockNumbers, read: ReadStored, start: int, stop: int) -> _Blocks:
        span = numbers.span(start, stop)
        return cls(numbers, read(numbers.tensor.name, span.start, span.stop), span)

    def of(self, start: int, count: int) -> NDArray[np.float32]:
        """Return the numbers of ``count`` rows of the table from row ``start`` on, [1 or count, blocks in a row]."""
        wanted = self.numbers.span(start, start + count)
        raw = self.raw[wanted.start - self.span.start : wanted.stop - self.span.start]
        found = self.numbers.decoded(raw)
        if not np.isfinite(found).all():
            row = wanted[int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])]
            tensor = self.numbers.tensor
            rule = "it must be finite; download the checkpoint again"
            raise fault(tensor.file, f"row {row} of {shortened(tensor.name)} has a number that is not finite; {rule}")
        if len(found) == 1 or self.numbers.rows == 1:
            return found
        return found[np.arange(start, start + count) // self.numbers.rows - wanted.start]

    def combine(self, operation: np.ufunc, part: NDArray[np.float32], numbers: NDArray[np.float32]) -> None:
        """Apply an operation to every number of ``part`` and the number of its block, in place."""
        columns, width = self.numbers.columns, part.shape[1]
        if width % columns:
            operation(part, np.repeat(numbers, columns, axis=1)[:, :width], out=part)
        else:
            grouped = part.reshape(len(part), -1, columns)
            operation(grouped, numbers[:, :, None], out=grouped)


def _as_bytes(raw: NDArray[Any], rows: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(raw).reshape(rows, -1).view(np.uint8) if raw.size else np.zeros((rows, 0), np.uint8)
