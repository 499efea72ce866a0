"""Quantised tables of MLX: integers with a scale and a bias per group, and floating-point codes with a scale per group.

The reference is ``mlx.core.dequantize``, which computes in the dtype of the scales, and in bfloat16 if they are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..safetensors.checkpoint import TensorInfo
from ..strict_json import shortened
from .code_values import CodeValues, float4, float8, integers
from .parts import FLOATS, QuantisedParts
from .scaled_codes import BlockNumbers, ScaledCodes

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
