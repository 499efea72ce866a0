"""Layouts of quantised tables: which one a table has, and why others are not decoded."""

from __future__ import annotations

from collections.abc import Callable

from ..strict_json import shortened
from .float8_tables import float8_table, int8_table
from .gemma_tables import gemma_linear, gemma_table
from .mlx_tables import mlx_table
from .packed_tables import compressed_table, modelopt_table
from .parts import FLOAT8, QuantisedParts
from .scaled_codes import ScaledCodes
from .torchao_tables import torchao_table

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
