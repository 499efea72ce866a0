"""Numbers that codes of 1 to 8 bits stand for: integers, and floating-point numbers of 4 and 8 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Precision: TypeAlias = Literal["F32", "F16", "BF16"]
"""Precision to which a reference implementation rounds the result of each step."""


@dataclass(frozen=True, eq=False)
class CodeValues:
    """The numbers that the codes of a table stand for.

    Rows of codes are streams of bits, the lowest bit of the first byte first.

    Attributes:
        bits: Bits of a code, 1 to 8.
        values: The number of each code, float32 [2**bits].
    """

    bits: int
    values: NDArray[np.float32]

    def expand(self, raw: NDArray[np.uint8], out: NDArray[np.float32]) -> None:
        """Write the numbers of rows of codes to ``out``.

        Args:
            raw: The codes, [rows, bytes].
            out: The numbers, contiguous [rows, width]; a row of ``raw`` may have up to seven unused codes at its end.
        """
        if 8 % self.bits:
            np.take(self.values, _unpacked(raw, self.bits)[:, : out.shape[1]], out=out, mode="clip")
            return
        tuples = _tuples_of_bytes(self)
        each = tuples.dtype.itemsize // 4
        if raw.shape[1] * each == out.shape[1]:
            np.take(tuples, raw, out=out.view(tuples.dtype), mode="clip")
        else:
            out[:] = np.take(tuples, raw).view(np.float32)[:, : out.shape[1]]


@cache
def _tuples_of_bytes(values: CodeValues) -> NDArray[np.void]:
    """Return the numbers of the codes in each byte, as items of 4 bytes for each code [256]."""
    each = 8 // values.bits
    shifts = np.arange(each) * values.bits
    codes = np.arange(256)[:, None] >> shifts & (1 << values.bits) - 1
    kind: np.dtype[np.void] = np.dtype((np.void, 4 * each))
    return np.ascontiguousarray(values.values[codes]).view(kind).reshape(256)


def _unpacked(raw: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return codes of 3, 5, 6 or 7 bits [rows, width] from rows of bytes [rows, bytes]; cut codes are left out."""
    each = 8 // math.gcd(8, bits)  # codes in the shortest whole number of bytes
    taken = bits * each // 8
    groups = -(-raw.shape[1] // taken)
    padded: NDArray[np.uint8] = np.zeros((raw.shape[0], groups * taken), np.uint8)
    padded[:, : raw.shape[1]] = raw
    source = padded.reshape(-1, taken)
    codes: NDArray[np.uint8] = np.empty((len(source), each), np.uint8)
    for at in range(each):
        byte, shift = divmod(at * bits, 8)
        part = source[:, byte] >> shift
        if shift + bits > 8:
            part |= source[:, byte + 1] << (8 - shift)
        codes[:, at] = part & (1 << bits) - 1
    return codes.reshape(raw.shape[0], -1)[:, : raw.shape[1] * 8 // bits]


@cache
def integers(bits: int, *, offset: int = 0) -> CodeValues:
    """Return codes that stand for whole numbers from ``-offset`` on."""
    return CodeValues(bits, np.arange(2**bits, dtype=np.float32) - np.float32(offset))


@cache
def signed_bytes() -> CodeValues:
    """Return codes that are integers of 8 bits in two's complement."""
    return CodeValues(8, np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32))


@cache
def float4() -> CodeValues:
    """Return E2M1: a sign, two bits of exponent and one of mantissa."""
    half = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    return CodeValues(4, np.concatenate([half, -half]))


@cache
def float8(dtype: str) -> CodeValues:
    """Return a floating-point format of 8 bits, ``F8_E4M3``, ``F8_E5M2`` or ``F8_E8M0`` (powers of two)."""
    codes = np.arange(256)
    if dtype == "F8_E5M2":
        return CodeValues(8, (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float32))
    if dtype == "F8_E8M0":
        values = np.ldexp(1.0, codes - 127)
        values[255] = np.nan
        return CodeValues(8, values.astype(np.float32))
    exponent, mantissa = codes >> 3 & 15, codes & 7
    sizes = np.ldexp(np.where(exponent == 0, mantissa, mantissa + 8.0), np.maximum(exponent, 1) - 10)
    sizes[codes & 127 == 127] = np.nan
    return CodeValues(8, np.where(codes > 127, -sizes, sizes).astype(np.float32))


def round_in_place(values: NDArray[np.float32], precision: Precision) -> None:
    """Round float32 numbers to the nearest of a lower precision, ties to even."""
    if precision == "F16":
        _round_to_half(values)
    elif precision == "BF16":
        _drop_bits(values.view(np.uint32), 16)


def _drop_bits(bits: NDArray[np.uint32], count: int) -> None:
    """Round float32 numbers, given as their bits, to a mantissa that is ``count`` bits shorter."""
    add = bits >> count
    add &= 1
    add += (1 << count - 1) - 1
    bits += add
    bits &= 2**32 - 2**count


def _round_to_half(values: NDArray[np.float32]) -> None:
    """Round to F16, three times as fast as a cast of NumPy."""
    sizes = np.abs(values)
    small = sizes < 2.0**-14  # subnormal numbers, which are multiples of 2**-24
    rounded = np.copysign((sizes + _HALF) - _HALF, values)
    large = sizes >= 65520
    _drop_bits(values.view(np.uint32), 13)
    np.copyto(values, rounded, where=small)
    if large.any():
        np.copyto(values, np.copysign(np.float32(np.inf), values), where=large)


_HALF = np.float32(0.75)  # float32 numbers of this size are multiples of 2**-24
