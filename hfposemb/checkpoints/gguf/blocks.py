"""Decoding of the block types of GGUF, equal to ``gguf.quants.dequantize`` to the bit.

A block holds scales and small integers, the codes. Each decoder takes blocks [blocks, size] and writes their numbers
[blocks, elements]. Derived from gguf 0.19; the formats are defined by ``ggml-common.h`` and ``ggml-quants.c``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import BY_NAME

_Bytes: TypeAlias = NDArray[np.uint8]
_Floats: TypeAlias = NDArray[np.float32]
_AT_ONCE = 2**16
"""Numbers decoded at a time, so that codes and numbers stay in the CPU cache."""

_EVERY_BIT = tuple(range(8))
_PAIRS_OF_BITS = (0, 2, 4, 6)
_E2M1 = np.array((0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), np.int8)
"""Doubled values of the codes of MXFP4 and NVFP4."""

_UNEVEN = np.array((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.int8)
"""Values of the codes of IQ4_NL and IQ4_XS."""

_SIGNS = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.float32)
"""Signs [256, 8] by a byte with a bit for each negative number."""

_EVEN = np.array([code | code.bit_count() % 2 << 7 for code in range(128)], np.uint8)
"""Bytes of signs by their first seven bits: the number of negative signs is even."""


def decoded(name: str, raw: _Bytes, shape: tuple[int, ...]) -> _Floats:
    """Return the numbers of blocks.

    Args:
        name: Name of the block type, a key of ``DECODERS``.
        raw: Bytes of all blocks, one row after the other.
        shape: Shape of the numbers.
    """
    kind, decoder = BY_NAME[name], DECODERS[name]
    blocks = raw.reshape(-1, kind.size)
    made = np.empty((len(blocks), kind.elements), np.float32)
    step = _AT_ONCE // kind.elements
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(blocks), step):
            decoder(blocks[start : start + step], made[start : start + step])
    return made.reshape(shape)


def _half(blocks: _Bytes, start: int) -> _Floats:
    """Return the F16 number at a byte of every block [blocks, 1]."""
    return blocks[:, start : start + 2].copy().view("<f2").astype(np.float32)


def _split(codes: _Bytes, group: int, shifts: tuple[int, ...], mask: int) -> _Bytes:
    """Return the codes packed in bytes [blocks, groups · shifts · group], those of the first shift first in a group."""
    grouped = codes.reshape(len(codes), -1, 1, group) >> np.array(shifts, np.uint8)[:, None]
    grouped &= np.uint8(mask)
    return grouped.reshape(len(codes), -1)


def _scaled(scales: _Floats, codes: NDArray[Any], made: _Floats) -> None:
    """Write codes [blocks, elements] times the scales [blocks, groups] of their groups."""
    groups = (*scales.shape, -1)
    np.multiply(scales[..., None], codes.reshape(groups), out=made.reshape(groups))


# --- one scale per block ---------------------------------------------------------------------------------------------


def _q4_0(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _split(blocks[:, 2:], 16, (0, 4), 15).view(np.int8) - np.int8(8), made)


def _q4_1(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _split(blocks[:, 4:], 16, (0, 4), 15), made)
    made += _half(blocks, 2)


def _fifth_bits(packed: _Bytes) -> _Bytes:
    """Return bits [blocks, 8 · bytes] as 0 or 16."""
    bits = np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")
    bits <<= 4
    return bits


def _q5_0(blocks: _Bytes, made: _Floats) -> None:
    codes = _split(blocks[:, 6:], 16, (0, 4), 15)
    codes |= _fifth_bits(blocks[:, 2:6])
    _scaled(_half(blocks, 0), codes.view(np.int8) - np.int8(16), made)


def _q5_1(blocks: _Bytes, made: _Floats) -> None:
    codes = _split(blocks[:, 8:], 16, (0, 4), 15)
    codes |= _fifth_bits(blocks[:, 4:8])
    _scaled(_half(blocks, 0), codes, made)
    made += _half(blocks, 2)


def _q8_0(blocks: _Bytes, made: _Floats) -> None:
    np.multiply(blocks[:, 2:].view(np.int8), _half(blocks, 0), out=made)


def _iq4_nl(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 0), _UNEVEN[_split(blocks[:, 2:], 16, (0, 4), 15)], made)


def _tq1_0(blocks: _Bytes, made: _Floats) -> None:
    """Three-valued codes, five in a byte as the digits of a fraction to the base 3."""
    parts = []
    for start, stop, digits in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        powers = np.array([1, 3, 9, 27, 81][:digits], np.uint8)[:, None]
        parts.append((blocks[:, None, start:stop] * powers).reshape(len(blocks), -1))
    codes = (np.concatenate(parts, axis=1).astype(np.uint16) * np.uint16(3)) >> np.uint16(8)
    _scaled(_half(blocks, 52), codes.astype(np.int8) - np.int8(1), made)


def _tq2_0(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_half(blocks, 64), _split(blocks[:, :64], 32, _PAIRS_OF_BITS, 3).view(np.int8) - np.int8(1), made)


# --- K types: a scale for each group of 16 or 32 numbers, itself in units of the block's -----------------------------


def _q2_k(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 80) * (blocks[:, :16] & 15).astype(np.float32)
    least = _half(blocks, 82) * (blocks[:, :16] >> 4).astype(np.float32)
    _scaled(scales, _split(blocks[:, 16:80], 32, _PAIRS_OF_BITS, 3), made)
    made.reshape(-1, 16, 16)[:] -= least[..., None]


def _q3_k(blocks: _Bytes, made: _Floats) -> None:
    low, high = _split(blocks[:, 96:104], 8, (0, 4), 15), _split(blocks[:, 104:108], 4, _PAIRS_OF_BITS, 3)
    scales = _half(blocks, 108) * ((low | high << 4).view(np.int8) - np.int8(32)).astype(np.float32)
    codes = _split(blocks[:, 32:96], 32, _PAIRS_OF_BITS, 3).view(np.int8)
    # A set bit of the mask means that nothing is subtracted.
    unset = _split(~blocks[:, :32], 32, _EVERY_BIT, 1)
    _scaled(scales, codes - (unset << 2).view(np.int8), made)


def _scales_and_least(blocks: _Bytes) -> tuple[_Floats, _Floats]:
    """Return the scales and least values [blocks, 8] of the groups of Q4_K and Q5_K, both packed in 6 bits."""
    scales, least, both = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    six = np.concatenate([scales & 63, (both & 15) | ((scales >> 2) & 48)], axis=1)
    other = np.concatenate([least & 63, (both >> 4) | ((least >> 2) & 48)], axis=1)
    return _half(blocks, 0) * six.astype(np.float32), _half(blocks, 2) * other.astype(np.float32)


def _q4_k(blocks: _Bytes, made: _Floats) -> None:
    scales, least = _scales_and_least(blocks)
    _scaled(scales, _split(blocks[:, 16:], 32, (0, 4), 15), made)
    made.reshape(-1, 8, 32)[:] -= least[..., None]


def _q5_k(blocks: _Bytes, made: _Floats) -> None:
    scales, least = _scales_and_least(blocks)
    codes = _split(blocks[:, 48:], 32, (0, 4), 15)
    codes |= _split(blocks[:, 16:48], 32, _EVERY_BIT, 1) << 4
    _scaled(scales, codes, made)
    made.reshape(-1, 8, 32)[:] -= least[..., None]


def _q6_k(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    codes = _split(blocks[:, :128], 64, (0, 4), 15)
    codes |= _split(blocks[:, 128:192], 32, _PAIRS_OF_BITS, 3) << 4
    codes -= np.uint8(32)
    _scaled(scales, codes.view(np.int8), made)


def _iq4_xs(blocks: _Bytes, made: _Floats) -> None:
    high = blocks[:, 2:4].copy().view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)
    low = _split(blocks[:, 4:8], 1, (0, 4), 15)
    scales = _half(blocks, 0) * ((low | high.astype(np.uint8) << 4).view(np.int8) - np.int8(32)).astype(np.float32)
    _scaled(scales, _UNEVEN[_split(blocks[:, 8:], 16, (0, 4), 15)], made)


# --- floating-point scales of 8 bits ---------------------------------------------------------------------------------


@cache
def _e8m0() -> _Floats:
    """Return 2^(code − 128) for every code: half of the scale, as the values of the codes are doubled."""
    codes = np.arange(256, dtype=np.uint32)
    small = np.uint32(0x00200000) << np.minimum(codes, 1)
    return np.where(codes < 2, small, (codes - np.uint32(1)) << np.uint32(23)).astype(np.uint32).view(np.float32)


@cache
def _e4m3() -> _Floats:
    """Return half of the positive E4M3 number of every code; the sign bit is ignored, and 127 is 0."""
    codes = np.arange(256)
    power, digits = codes >> 3 & 15, (codes & 7).astype(np.float32)
    found = np.where(power == 0, digits * 2.0**-9, (1 + digits / 8) * 2.0 ** (power - 7.0))
    found[[0, 127]] = 0
    return (found / 2).astype(np.float32)


def _mxfp4(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_e8m0()[blocks[:, :1]], _E2M1[_split(blocks[:, 1:], 16, (0, 4), 15)], made)


def _nvfp4(blocks: _Bytes, made: _Floats) -> None:
    _scaled(_e4m3()[blocks[:, :4]], _E2M1[_split(blocks[:, 4:], 8, (0, 4), 15)], made)


# --- codebooks -------------------------------------------------------------------------------------------------------


def _from_codebook(name: str, places: NDArray[Any], scales: _Floats, signs: _Bytes, made: _Floats) -> None:
    """Write vectors of a codebook [blocks, vectors], scaled [blocks, groups], with a byte of signs per 8 numbers."""
    vectors = np.take(codebook(name), places, axis=0)
    _scaled(scales, vectors.reshape(made.shape), made)
    made *= _SIGNS[signs].reshape(made.shape)


def _words(blocks: _Bytes, start: int, stop: int, dtype: str) -> NDArray[Any]:
    return blocks[:, start:stop].copy().view(dtype)


def _even_signs(words: NDArray[Any]) -> _Bytes:
    """Return the bytes of signs [blocks, 4 · words] in the lowest 28 bits of words [blocks, words]."""
    sevens = words[..., None] >> np.array((0, 7, 14, 21), np.uint32) & np.uint32(127)
    return np.asarray(_EVEN[sevens].reshape(len(words), -1))


def _nibble_scales(packed: _Bytes) -> _Bytes:
    return _split(packed, 1, (0, 4), 15)


def _iq2_xxs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 2, 66, "<u4").reshape(len(blocks), 8, 2)
    scales = _half(blocks, 0) * (np.float32(0.5) + (words[..., 1] >> 28).astype(np.float32)) * np.float32(0.25)
    places = np.ascontiguousarray(words[..., 0]).view(np.uint8)
    _from_codebook("IQ2_XXS", places, scales, _even_signs(words[..., 1]), made)


def _iq2_xs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 2, 66, "<u2")
    scales = _half(blocks, 0) * (np.float32(0.5) + _nibble_scales(blocks[:, 66:])) * np.float32(0.25)
    _from_codebook("IQ2_XS", words & np.uint16(511), scales, _EVEN[words >> 9], made)


def _iq2_s(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 0) * (np.float32(0.5) + _nibble_scales(blocks[:, 74:])) * np.float32(0.25)
    high = _split(blocks[:, 66:74], 1, _PAIRS_OF_BITS, 3).astype(np.uint16)
    _from_codebook("IQ2_S", blocks[:, 2:34] | high << 8, scales, blocks[:, 34:66], made)


def _iq3_xxs(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 66, 98, "<u4")
    scales = _half(blocks, 0) * (np.float32(0.5) + (words >> 28).astype(np.float32)) * np.float32(0.5)
    _from_codebook("IQ3_XXS", blocks[:, 2:66], scales, _even_signs(words), made)


def _iq3_s(blocks: _Bytes, made: _Floats) -> None:
    scales = _half(blocks, 0) * (np.uint8(1) + np.uint8(2) * _nibble_scales(blocks[:, 106:]))
    high = _split(blocks[:, 66:74], 1, _EVERY_BIT, 1).astype(np.uint16)
    _from_codebook("IQ3_S", blocks[:, 2:66] | high << 8, scales, blocks[:, 74:106], made)


def _shifted(places: NDArray[Any], scales: _Floats, negative: NDArray[np.bool_], made: _Floats) -> None:
    """Write vectors of the codebook of IQ1_S [blocks, vectors], shifted by ∓1/8 [blocks, shifts] and scaled."""
    vectors = np.take(codebook("IQ1_S"), places, axis=0).reshape(*negative.shape, -1)
    vectors += np.where(negative, np.float32(-0.125), np.float32(0.125))[..., None]
    _scaled(scales, vectors.reshape(made.shape), made)


def _iq1_s(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 34, 50, "<u2")
    scales = _half(blocks, 0) * (np.uint16(2) * (words >> 12 & np.uint16(7)) + np.uint16(1))
    high = (words[..., None] >> np.array((0, 3, 6, 9), np.uint16) & np.uint16(7)).reshape(len(blocks), -1)
    _shifted(blocks[:, 2:34] | high << 8, scales, words & np.uint16(0x8000) != 0, made)


def _iq1_m(blocks: _Bytes, made: _Floats) -> None:
    words = _words(blocks, 48, 56, "<u2")
    # The F16 scale of the block is spread over the highest bits of the four words of group scales.
    nibbles = (words & np.uint16(0xF000)) >> np.array((12, 8, 4, 0), np.uint16)
    scale = np.bitwise_or.reduce(nibbles, axis=1, keepdims=True).view(np.float16).astype(np.float32)
    groups = (words[..., None] >> np.array((0, 3, 6, 9), np.uint16) & np.uint16(7)).reshape(len(blocks), -1)
    nibbles_of = _split(blocks[:, 32:48], 1, (0, 4), 15)
    high = (nibbles_of & np.uint8(7)).astype(np.uint16)
    scales = scale * (np.uint16(2) * groups + np.uint16(1))
    _shifted(blocks[:, :32] | high << 8, scales, nibbles_of & np.uint8(8) != 0, made)


DECODERS: Mapping[str, Callable[[_Bytes, _Floats], None]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ1_S": _iq1_s,
    "IQ1_M": _iq1_m,
    "IQ2_XXS": _iq2_xxs,
    "IQ2_XS": _iq2_xs,
    "IQ2_S": _iq2_s,
    "IQ3_XXS": _iq3_xxs,
    "IQ3_S": _iq3_s,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
    "TQ1_0": _tq1_0,
    "TQ2_0": _tq2_0,
    "MXFP4": _mxfp4,
    "NVFP4": _nvfp4,
}
"""Decoders by the name of the block type."""


@cache
def codebook(name: str) -> NDArray[np.float32]:
    """Return the vectors [vectors, components] of a type.

    They are those of ggml (``ggml-common.h``, MIT licence), found there by quantising typical weights; no formula gives
    them.
    """
    with np.load(Path(__file__).with_name("codebooks.npz")) as vectors:
        found: NDArray[np.float32] = vectors[name].astype(np.float32)
    found.flags.writeable = False
    return found
