"""Tables that torchao quantised, in its safetensors layout, which the header's metadata describes.

The reference is the ``dequantize`` of torchao's ``IntxUnpackedToInt8Tensor``, ``Int8Tensor`` and ``Float8Tensor``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..safetensors.checkpoint import TensorInfo
from ..strict_json import parse_json, shortened
from .code_values import Precision, float8, signed_bytes
from .parts import FLOATS, QuantisedParts
from .scaled_codes import BlockNumbers, ScaledCodes

_KINDS: Mapping[str, tuple[str, ...]] = {
    "IntxUnpackedToInt8Tensor": ("I8",),
    "Int8Tensor": ("I8",),
    "Float8Tensor": ("F8_E4M3", "F8_E5M2"),
}
"""Classes that are decoded, with the dtypes of their codes."""

_DTYPES: Mapping[str, Precision] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_MOST_BYTES = 10_000


def torchao_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table that torchao quantised is decoded.

    Raises:
        CheckpointError: If the metadata does not describe it, or its class is not decoded.
    """
    kind, data = _described(parts)
    if kind not in _KINDS:
        raise parts.refused(f"torchao's {kind[:40]}" if kind.isidentifier() else "torchao")
    codes = parts.part("_weight_qdata", _KINDS[kind])
    scales = parts.part("_weight_scale", tuple(FLOATS), rank=(0, 1, 2))
    precision = _precision(parts, data)
    shape = (codes.shape[0], codes.shape[1])
    block = _block(parts, data, shape)
    zero = None
    if kind.startswith("Intx") or (kind == "Int8Tensor" and "_weight_zero_point" in parts.tensors):
        zero = _numbers(parts, parts.part("_weight_zero_point", ("I8", "I32"), rank=(0, 1, 2)), block, shape)
    bits = _named(data.get("target_dtype")).removeprefix("int") if kind.startswith("Intx") else "8"
    numbers = _numbers(parts, scales, block, shape)
    what = "one scale" if block[0] > 1 else "one scale per row" if block[1] == shape[1] else f"groups of {block[1]}"
    stored = codes.dtype if kind == "Float8Tensor" else f"{bits} bits"
    values = float8(codes.dtype) if kind == "Float8Tensor" else signed_bytes()
    return ScaledCodes(f"{stored}, {what} (torchao)", codes, shape, values, numbers, zero=zero, precision=precision)


def _described(parts: QuantisedParts) -> tuple[str, Mapping[str, Any]]:
    """Return the class of a table and what the metadata says of it."""
    text = parts.metadata.get(parts.name)
    if text is None or len(text) > _MOST_BYTES:
        raise parts.fault(
            f"the header's metadata does not describe {shortened(parts.name)}; save it again with torchao"
        )
    raw = text.encode()
    found = parse_json(raw, size=len(raw), name=parts.codes.file, limit=_MOST_BYTES, kind=dict)
    kind, data = found.get("_type"), found.get("_data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise parts.fault(f"the header's metadata of {shortened(parts.name)} must state _type and _data")
    return kind, data


def _named(value: object) -> str:
    """Return the name of a torch dtype in the metadata, "" for anything else."""
    inner = value.get("_data") if isinstance(value, Mapping) else None
    return inner[:20] if isinstance(inner, str) and inner.isidentifier() else ""


def _precision(parts: QuantisedParts, data: Mapping[str, Any]) -> Precision:
    named = _named(data.get("dtype"))
    if named not in _DTYPES:
        raise parts.fault(f"the metadata of {shortened(parts.name)} must state a dtype, one of {', '.join(_DTYPES)}")
    return _DTYPES[named]


def _block(parts: QuantisedParts, data: Mapping[str, Any], shape: tuple[int, int]) -> tuple[int, int]:
    """Return rows and columns of a block: a group of one row, or the whole table."""
    stated = data.get("block_size")
    if isinstance(stated, list) and len(stated) == 2 and all(type(one) is int for one in stated):
        rows, columns = stated
        if columns > 0 and shape[1] % columns == 0 and (rows == 1 or (rows, columns) == shape):
            return rows, columns
    raise parts.fault(f"the metadata of {shortened(parts.name)} states blocks that do not divide {list(shape)}")


def _numbers(parts: QuantisedParts, info: TensorInfo, block: tuple[int, int], shape: tuple[int, int]) -> BlockNumbers:
    """Return the numbers of the blocks of a table."""
    if block[0] > 1 or (math.prod(info.shape) == 1 and shape[0] == 1):
        return parts.single(info, shape)
    return parts.per_group(info, shape, block[1], precision="F32")
