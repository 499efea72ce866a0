"""Tables of floating-point numbers of 8 bits, and integers of 8 bits, with a scale for all, per row or per block.

The references are ``FP8Embedding`` and ``Fp8Dequantize`` of transformers (``integrations.finegrained_fp8``), which
compute in the dtype of the scales.
"""

from __future__ import annotations

import math
from typing import Any

from ..safetensors.checkpoint import TensorInfo
from ..strict_json import shortened
from .code_values import Precision, float8, signed_bytes
from .parts import FLOAT8, FLOATS, QuantisedParts
from .scaled_codes import BlockNumbers, ScaledCodes


def float8_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table of 8-bit floating-point numbers is decoded.

    Raises:
        CheckpointError: If the scales do not fit the table.
    """
    codes = parts.part("weight", FLOAT8)
    shape = (codes.shape[0], codes.shape[1])
    values = float8(codes.dtype)
    last = next((one for one in ("weight_scale", "weight_scale_inv") if one in parts.tensors), None)  # never both
    if last is None:
        if parts.method or len(parts.tensors) > 1:
            raise parts.refused()
        return ScaledCodes(codes.dtype, codes, shape, values)
    scales = parts.part(last, (*FLOATS, "F8_E8M0"), rank=(0, 1, 2))
    blocks = _blocks(parts, scales, shape)
    precision: Precision = FLOATS.get(scales.dtype, "BF16")
    return ScaledCodes(
        f"{codes.dtype}, {_arrangement(blocks, shape)}", codes, shape, values, blocks, precision=precision
    )


def int8_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table of 8-bit integers with a scale per row, per group or for all is decoded.

    The product of an integer of 8 bits and a scale in F16 or BF16 is exact in float32. compressed-tensors rounds it to
    the dtype of the scales.

    Raises:
        CheckpointError: If the scales do not fit the table.
    """
    codes = parts.part("weight", ("I8",))
    shape = (codes.shape[0], codes.shape[1])
    scales = parts.part("weight_scale", tuple(FLOATS), rank=(0, 1, 2))
    blocks = _row_blocks(parts, scales, shape)
    parts.check_stated(blocks, shape[1])
    zero = None
    if "weight_zero_point" in parts.tensors:
        points = parts.part("weight_zero_point", ("I8",), rank=(0, 1, 2))
        if points.shape != scales.shape:
            found = f"{shortened(points.name)} has the shape {list(points.shape)}"
            raise parts.fault(f"{found}, but its scales {list(scales.shape)}")
        zero = BlockNumbers(points, blocks.rows, blocks.columns)
    theirs = parts.method == "compressed-tensors"
    label = f"I8, {_arrangement(blocks, shape)}{' (compressed-tensors)' if theirs else ''}"
    precision = FLOATS[scales.dtype] if theirs else "F32"
    return ScaledCodes(label, codes, shape, signed_bytes(), blocks, zero=zero, precision=precision)


def _row_blocks(parts: QuantisedParts, scales: TensorInfo, shape: tuple[int, int]) -> BlockNumbers:
    """Return scales of the whole table, of its rows, or of groups of its rows."""
    if math.prod(scales.shape) == 1:
        return parts.single(scales, shape)
    groups = scales.shape[1] if len(scales.shape) == 2 else 1
    return parts.per_group(scales, shape, max(shape[1] // groups, 1), precision="F32")


def _blocks(parts: QuantisedParts, scales: TensorInfo, shape: tuple[int, int]) -> BlockNumbers:
    """Return scales of the whole table, of its rows, or of the blocks that the configuration states."""
    stated = parts.settings.get("weight_block_size")
    if stated is None:
        return _row_blocks(parts, scales, shape)
    if not isinstance(stated, list) or not _is_pair(stated):
        raise parts.fault(
            f"config.json states a weight_block_size of {shortened(str(stated))}; expected two whole numbers above 0"
        )
    rows, columns = stated
    need = (-(-shape[0] // rows), -(-shape[1] // columns))
    if scales.shape != need:
        found = f"{shortened(scales.name)} has the shape {list(scales.shape)}"
        raise parts.fault(f"{found}, but {list(shape)} in blocks of {rows} × {columns} need {list(need)}")
    return BlockNumbers(scales, rows, columns)


def _is_pair(stated: list[Any]) -> bool:
    return len(stated) == 2 and all(type(one) is int and one > 0 for one in stated)


def _arrangement(blocks: BlockNumbers, shape: tuple[int, int]) -> str:
    """Return in a few words what has a scale."""
    if math.prod(blocks.tensor.shape) == 1:
        return "one scale"
    if blocks.rows > 1:
        return f"blocks of {blocks.rows} × {blocks.columns}"
    return "one scale per row" if blocks.columns == shape[1] else f"groups of {blocks.columns}"
