"""Layouts of quantised tables: which one a table has, and why others are not decoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..safetensors.checkpoint import TensorInfo
from ..strict_json import parse_json, shortened
from .code_values import CodeValues, Precision, float4, float8, integers, signed_bytes
from .parts import FLOAT8, FLOATS, QuantisedParts
from .scaled_codes import BlockNumbers, ScaledCodes

# --- MLX --------------------------------------------------------------------------------------------------------------
# Integers with a scale and a bias per group, and floating-point codes with a scale per group. The reference is
# ``mlx.core.dequantize``, which computes in the dtype of the scales, and in bfloat16 if they are bytes.

_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)
_AFFINE_GROUPS = (32, 64, 128)


class _Mode(NamedTuple):
    """A mode of quantisation: its defaults, and how scales are stored in bytes."""

    group: int
    bits: int
    scale: str = ""


_MODES = {
    "affine": _Mode(64, 4),
    "mxfp4": _Mode(32, 4, "F8_E8M0"),
    "mxfp8": _Mode(32, 8, "F8_E8M0"),
    "nvfp4": _Mode(16, 4, "F8_E4M3"),
}


class _Settings(NamedTuple):
    mode: str
    group: int
    bits: int


def mlx_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table that MLX quantised is decoded.

    Raises:
        CheckpointError: If configuration and tensors do not fit together.
    """
    codes = parts.part("weight", ("U32",))
    mode, group, bits = settings = _settings(parts)
    rows, words = codes.shape
    width, rest = divmod(32 * words, bits)
    if rest:
        raise parts.fault(f"{shortened(codes.name)} has rows of {words} words, which {bits} bits do not divide")
    shape = (rows, width)
    floating = _MODES[mode].scale
    scales = parts.part("scales", ("U8",) if floating else tuple(FLOATS))
    precision = "BF16" if floating else FLOATS[scales.dtype]
    numbers = parts.per_group(scales, shape, group, precision="F32")
    _check_width(parts, settings, width)
    if floating:
        if "biases" in parts.tensors:
            raise parts.fault(f"{shortened(codes.name)} has biases, but config.json states {mode}, which has none")
        values: CodeValues = float4() if bits == 4 else float8("F8_E4M3")
        label = f"{mode}, groups of {group} (MLX)"
        return ScaledCodes(label, codes, shape, values, replace(numbers, dtype=floating), precision=precision)
    bias = _biases(parts, scales, numbers)
    label = f"{bits} bit{'s' * (bits > 1)}, groups of {group} (MLX)"
    return ScaledCodes(label, codes, shape, integers(bits), numbers, bias=bias, precision=precision)


def _biases(parts: QuantisedParts, scales: TensorInfo, numbers: BlockNumbers) -> BlockNumbers:
    biases = parts.part("biases", (scales.dtype,))
    if biases.shape != scales.shape:
        found = f"{shortened(biases.name)} has the shape {list(biases.shape)}"
        raise parts.fault(f"{found}, but its scales {list(scales.shape)}; download the checkpoint again")
    return replace(numbers, tensor=biases)


def _settings(parts: QuantisedParts) -> _Settings:
    """Return mode, group size and bits of a table: its own in the configuration, or those of the whole model."""
    stated = next(
        (one for key in ("quantization", "quantization_config") if _is_mlx(one := parts.config.get(key))), None
    )
    if stated is None:
        raise parts.fault(
            f"{shortened(parts.codes.name)} is quantised by MLX, but config.json does not state group_size and bits "
            "under quantization; they cannot be told from the shapes"
        )
    own = stated.get(parts.module, True)
    if own is False:
        raise parts.fault(
            f"config.json says that {shortened(parts.module)} is not quantised, but it is stored with scales"
        )
    chosen = own if isinstance(own, Mapping) else stated
    mode = chosen.get("mode", "affine")
    if not isinstance(mode, str) or mode not in _MODES:
        raise parts.fault(f"config.json states the mode {shortened(str(mode))}; expected one of {', '.join(_MODES)}")
    known = _MODES[mode]
    group, bits = (chosen.get(key, default) for key, default in (("group_size", known.group), ("bits", known.bits)))
    fits = (group in _AFFINE_GROUPS and bits in _AFFINE_BITS) if mode == "affine" else (group, bits) == known[:2]
    if not fits or isinstance(group, bool) or isinstance(bits, bool):
        stated_text = f"{shortened(str(bits))} bits in groups of {shortened(str(group))}"
        raise parts.fault(f"config.json states {stated_text} for {shortened(parts.module)}, which {mode} does not have")
    return _Settings(mode, int(group), int(bits))


def _is_mlx(stated: Any) -> bool:
    return isinstance(stated, Mapping) and ("group_size" in stated or "mode" in stated) and "quant_method" not in stated


def _check_width(parts: QuantisedParts, settings: _Settings, width: int) -> None:
    """Raise if another number of bits fits the shapes as well, and gives the width that the configuration states."""
    if settings.mode != "affine" or not parts.widths or width in parts.widths:
        return
    product = settings.bits * settings.group
    for bits in _AFFINE_BITS:
        if product % bits == 0 and product // bits in _AFFINE_GROUPS and width * settings.bits // bits in parts.widths:
            raise parts.fault(
                f"config.json states {settings.bits} bits, which makes {shortened(parts.codes.name)} {width} wide, "
                f"but a width of {width * settings.bits // bits}, which needs {bits} bits; correct one of them"
            )


# --- 8 bits -----------------------------------------------------------------------------------------------------------
# Floating-point numbers or integers, with a scale for all, per row or per block. References: ``FP8Embedding`` and
# ``Fp8Dequantize`` of transformers (``integrations.finegrained_fp8``), which compute in the dtype of the scales.


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


# --- torchao ----------------------------------------------------------------------------------------------------------
# The header's metadata describes its tables. The reference is the ``dequantize`` of torchao's
# ``IntxUnpackedToInt8Tensor``, ``Int8Tensor`` and ``Float8Tensor``.

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
        zero = _torchao_numbers(parts, parts.part("_weight_zero_point", ("I8", "I32"), rank=(0, 1, 2)), block, shape)
    bits = _named(data.get("target_dtype")).removeprefix("int") if kind.startswith("Intx") else "8"
    numbers = _torchao_numbers(parts, scales, block, shape)
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


def _torchao_numbers(
    parts: QuantisedParts, info: TensorInfo, block: tuple[int, int], shape: tuple[int, int]
) -> BlockNumbers:
    """Return the numbers of the blocks of a table."""
    if block[0] > 1 or (math.prod(info.shape) == 1 and shape[0] == 1):
        return parts.single(info, shape)
    return parts.per_group(info, shape, block[1], precision="F32")


# --- compressed-tensors and ModelOpt ----------------------------------------------------------------------------------
# Codes of fewer than 8 bits are packed. The reference for compressed-tensors are its compressors ``pack-quantized``,
# ``nvfp4-pack-quantized`` and ``mxfp4-pack-quantized``; ModelOpt documents NVFP4 as the product of code, scale of the
# group and scale of the table.

_SINGLE = (0, 1, 2)


def compressed_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a table that compressed-tensors packed is decoded.

    Raises:
        CheckpointError: If its parts do not fit together, or it has packed zero points or permuted columns.
    """
    codes = parts.part("weight_packed", ("I32", "U8"))
    if "weight_zero_point" in parts.tensors or "weight_g_idx" in parts.tensors:
        raise parts.refused("compressed-tensors, asymmetric or with permuted columns")
    return _packed_integers(parts) if codes.dtype == "I32" else _packed_floats(parts)


def _packed_integers(parts: QuantisedParts) -> ScaledCodes:
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


def _packed_floats(parts: QuantisedParts) -> ScaledCodes:
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


# --- Gemma ------------------------------------------------------------------------------------------------------------
# The reference is ``transformers.integrations.gemma_quant``, which computes in the dtype of the model. The factor by
# which a Gemma model multiplies token vectors is no part of the table.


def gemma_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a token table that was quantised as Gemma's is decoded.

    Raises:
        CheckpointError: If configuration and tensors do not fit together.
    """
    return _gemma(parts, parts.part("embedding_quantized", ("U8", "I8")), "embedding_scale")


def gemma_linear(parts: QuantisedParts) -> ScaledCodes:
    """Return how a linear layer of a quantised Gemma, such as an output head, is decoded; see ``gemma_table``."""
    return _gemma(parts, parts.part("weight", ("U8", "I8")), "weight_scale")


def _gemma(parts: QuantisedParts, codes: TensorInfo, last: str) -> ScaledCodes:
    scales = parts.part(last, ("F32", "F16", "BF16"))
    bits, width = (8, codes.shape[1]) if codes.dtype == "I8" else _bits_and_width(parts, codes)
    if (stated := _stated_bits(parts)) and bits not in stated:
        known = ", ".join(map(str, sorted(stated)))
        raise parts.fault(
            f"config.json states {known} bits, but {shortened(codes.name)} has {bits}; correct one of them"
        )
    shape = (codes.shape[0], width)
    groups = scales.shape[1]
    numbers = parts.per_group(scales, shape, max(width // groups, 1), precision=parts.precision)
    values: CodeValues = signed_bytes() if bits == 8 else integers(bits, offset=2 ** (bits - 1))
    what = "one scale per row" if groups == 1 else f"groups of {numbers.columns}"
    return ScaledCodes(f"{bits} bits, {what} (Gemma)", codes, shape, values, numbers, precision=parts.precision)


def _bits_and_width(parts: QuantisedParts, codes: TensorInfo) -> tuple[int, int]:
    """Return bits and width of packed codes, whose last byte may be used in part.

    The settings name modules by patterns, which are not trusted and so not matched: the width decides.
    """
    nbytes = codes.shape[1]
    fitting = {
        (bits, width)
        for bits in (2, 4)
        for width in parts.widths
        if (nbytes - 1) * 8 // bits < width <= nbytes * 8 // bits
    }
    stated = _stated_bits(parts) - {8}
    if len(fitting) > 1:
        fitting = {(bits, width) for bits, width in fitting if bits in stated}
    if not fitting and not parts.widths and len(stated) == 1:
        bits = next(iter(stated))
        fitting = {(bits, nbytes * 8 // bits)}
    if len(fitting) != 1:
        widths = ", ".join(map(str, sorted(parts.widths))) or "no width"
        raise parts.fault(
            f"{shortened(codes.name)} has rows of {nbytes} bytes, which are {nbytes * 2} codes of 4 bits or "
            f"{nbytes * 4} of 2, but config.json states {widths}"
        )
    return fitting.pop()


def _stated_bits(parts: QuantisedParts) -> set[int]:
    """Return the numbers of bits in the settings."""
    own = parts.settings.get("module_quant_configs")
    options = [parts.settings, *(own.values() if isinstance(own, Mapping) else ())]
    return {bits for one in options if isinstance(one, Mapping) and type(bits := one.get("num_bits")) is int}


_UNREAD = (
    ("qweight", "GPTQ or AWQ"),
    ("W_q", "HQQ"),
    ("codes", "AQLM"),
    ("SCB", "bitsandbytes, 8 bits"),
    ("absmax", "bitsandbytes, 4 bits"),
)
"""Parts that name a method whose codes are not decoded."""


def layout_of(parts: QuantisedParts) -> ScaledCodes:
    """Return how a quantised table is decoded.

    Raises:
        CheckpointError: If it is stored in a way that is not decoded, its parts do not fit together, or one of them is
            not needed and could change what the others mean.
    """
    unread = next((how for last, how in _UNREAD if last in parts.tensors), None)
    if unread is not None:
        raise parts.refused(unread)
    planner = _planner(parts)
    if planner is None:
        raise parts.refused()
    layout = planner(parts)
    used = {part.name for part in layout.parts}
    for last, part in parts.tensors.items():
        if part.name not in used and (last, "weight_packed" in parts.tensors) != ("weight_shape", True):
            rule = f"is stored with {shortened(part.name)}, which {layout.label} does not have"
            raise parts.fault(f"{shortened(parts.codes.name)} {rule}; use the full-precision checkpoint of this model")
    return layout


def _planner(parts: QuantisedParts) -> Callable[[QuantisedParts], ScaledCodes] | None:
    tensors, dtype = parts.tensors, parts.codes.dtype
    if "embedding_quantized" in tensors:
        return gemma_table
    if "_weight_qdata" in tensors:
        return torchao_table
    if "weight_packed" in tensors:
        return compressed_table
    if dtype == "U32":
        return mlx_table
    if dtype in FLOAT8:
        return None if "scale_weight" in tensors else float8_table
    if dtype in ("U8", "F4") and "weight_scale_2" in tensors:
        return modelopt_table
    if dtype in ("U8", "I8") and "weight_scale" in tensors:
        return gemma_linear if parts.method == "gemma" else int8_table if dtype == "I8" else None
    return None
