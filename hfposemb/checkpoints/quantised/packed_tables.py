"""Tables of compressed-tensors and ModelOpt whose codes of fewer than 8 bits are packed.

The reference for compressed-tensors are its compressors ``pack-quantized``, ``nvfp4-pack-quantized`` and
``mxfp4-pack-quantized``; ModelOpt documents NVFP4 as the product of code, scale of the group and scale of the table.
"""

from __future__ import annotations

from dataclasses import replace

from ..strict_json import shortened
from .code_values import float4, integers
from .parts import FLOATS, QuantisedParts
from .scaled_codes import ScaledCodes

_SINGLE = (0, 1, 2)


def compressed_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table that compressed-tensors packed is decoded.

    Raises:
        CheckpointError: If its parts do not fit together, or it has packed zero points or permuted columns.
    """
    codes = parts.part("weight_packed", ("I32", "U8"))
    if "weight_zero_point" in parts.tensors or "weight_g_idx" in parts.tensors:
        raise parts.refused("compressed-tensors, asymmetric or with permuted columns")
    return _integers(parts) if codes.dtype == "I32" else _floats(parts)


def _integers(parts: QuantisedParts) -> ScaledCodes:
    codes, shape = parts.codes, _stated_shape(parts)
    rows, width = shape
    scales = parts.part("weight_scale", tuple(FLOATS), rank=_SINGLE)
    words, stated = codes.shape[1], parts.weight_settings
    fitting = [bits for bits in range(1, 9) if -(-width * bits // 32) == words and stated.get("num_bits", bits) == bits]
    if codes.shape[0] != rows or len(fitting) != 1:
        found = f"{shortened(codes.name)} has the shape {list(codes.shape)}, which does not fit {rows} rows of {width}"
        known = shortened(str(stated.get("num_bits", "1 to 8")))
        raise parts.fault(f"{found} codes of {known} bits; download the checkpoint again")
    bits = fitting[0]
    # In older versions no code crosses a word, so that 3, 5, 6 and 7 bits leave some bits of each word unused.
    if words > 1 and 32 % bits and -(-width // (32 // bits)) == words:
        found = f"{shortened(codes.name)} has rows of {words} words for {width} codes of {bits} bits"
        raise parts.fault(f"{found}, which are packed in one of two ways; use the full-precision checkpoint")
    groups = scales.shape[1] if len(scales.shape) == 2 else 1
    numbers = parts.per_group(scales, shape, max(width // groups, 1), precision="F32")
    parts.check_stated(numbers, width)
    what = "one scale per row" if groups == 1 else f"groups of {numbers.columns}"
    label = f"{bits} bits, {what} (compressed-tensors)"
    values = integers(bits, offset=2 ** (bits - 1))
    return ScaledCodes(label, codes, shape, values, numbers, precision=FLOATS[scales.dtype])


def _stated_shape(parts: QuantisedParts) -> tuple[int, int]:
    """Return the shape of a table, which is stored as two numbers."""
    info = parts.part("weight_shape", ("I64", "I32"), rank=(1,))
    if info.shape != (2,):
        raise parts.fault(f"{shortened(info.name)} has the shape {list(info.shape)}; expected [2]")
    rows, width = (int(one) for one in parts.read(info.name, 0, 2))
    if rows < 1 or width < 1:
        raise parts.fault(f"{shortened(info.name)} states {rows} rows of {width} numbers; both must be at least 1")
    return rows, width


def _floats(parts: QuantisedParts) -> ScaledCodes:
    codes = parts.codes
    shape = (codes.shape[0], 2 * codes.shape[1])
    scales = parts.part("weight_scale", ("F8_E4M3", "U8", "F8_E8M0"))
    if scales.dtype != "F8_E4M3":
        numbers = replace(parts.per_group(scales, shape, 32, precision="F32"), dtype="F8_E8M0")
        label = "MXFP4, groups of 32 (compressed-tensors)"
        return ScaledCodes(label, codes, shape, float4(), numbers, precision="BF16")
    numbers = parts.per_group(scales, shape, 16, precision="F32")
    overall = parts.single(parts.part("weight_global_scale", ("F32",), rank=_SINGLE), shape)
    label = "NVFP4, groups of 16 (compressed-tensors)"
    return ScaledCodes(label, codes, shape, float4(), numbers, overall=overall, divided=True, precision="BF16")


def modelopt_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table in ModelOpt's NVFP4 is decoded; products are not rounded.

    Raises:
        CheckpointError: If its parts do not fit together.
    """
    codes = parts.part("weight", ("U8", "F4"))
    shape = (codes.shape[0], codes.shape[1] * (2 if codes.dtype == "U8" else 1))
    numbers = parts.per_group(parts.part("weight_scale", ("F8_E4M3",)), shape, 16, precision="F32")
    overall = parts.single(parts.part("weight_scale_2", ("F32",), rank=_SINGLE), shape)
    return ScaledCodes("NVFP4, groups of 16 (ModelOpt)", codes, shape, float4(), numbers, overall=overall)
