"""Gemma's own quantised tables: integers of 2, 4 or 8 bits with a scale per row or per group of a row.

The reference is ``transformers.integrations.gemma_quant``, which computes in the dtype of the model. The factor by
which a Gemma model multiplies token vectors is no part of the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..safetensors.checkpoint import TensorInfo
from ..strict_json import shortened
from .code_values import CodeValues, integers, signed_bytes
from .parts import QuantisedParts
from .scaled_codes import ScaledCodes


def gemma_table(parts: QuantisedParts) -> ScaledCodes:
    """Return how a token table that was quantised as Gemma's is decoded.

    Raises:
        CheckpointError: If configuration and tensors do not fit together.
    """
    return _scaled(parts, parts.part("embedding_quantized", ("U8", "I8")), "embedding_scale")


def gemma_linear(parts: QuantisedParts) -> ScaledCodes:
    """Return how a linear layer of a quantised Gemma, such as an output head, is decoded; see ``gemma_table``."""
    return _scaled(parts, parts.part("weight", ("U8", "I8")), "weight_scale")


def _scaled(parts: QuantisedParts, codes: TensorInfo, last: str) -> ScaledCodes:
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
