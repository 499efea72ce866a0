"""Detection of quantised tables, whose tensors hold codes rather than vectors, by dtype and neighbouring tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .gguf_types import DECODED
from .safetensors import PLAIN, TensorInfo

_SCALED = ", one scale per "
"""Part of the dtype of codes that are decoded as they are read."""

ROUNDED = "I8, one scale per row"
"""Dtype of a table that ``rounded.Rounded`` decodes as it is read."""


def weighted(dtype: str) -> str:
    """Return the dtype of a table of ``dtype`` whose rows are multiplied by a weight each as they are read."""
    return f"{dtype}{_SCALED}row"


_PACKED = ("qweight", "weight_packed", "W_q", "codes")
"""Names that replace ``weight`` if its codes are packed: GPTQ and AWQ, compressed-tensors, HQQ, AQLM."""

_SCALES = (
    *("weight_scale_inv", "weight_scale", "weight_zero_point", "weight.absmax", "weight.quant_map"),
    *("scales", "qzeros", "SCB", "absmax", "weight_scale_2"),
)
"""Scales stored next to a quantised weight: FP8, compressed-tensors, bitsandbytes, MLX, NVFP4."""


def packed(names: Iterable[str]) -> dict[str, str]:
    """Return the tensors that hold packed codes, by the names that their weights would have."""
    likely = [name for name in names if name.endswith(_PACKED)]
    split = ((name, *name.rpartition(".")[::2]) for name in likely)
    return {f"{module}.weight": name for name, module, last in split if last in _PACKED and module}


def coded(info: TensorInfo, names: Collection[str]) -> str:
    """Return how a tensor is quantised and what to use instead, on one line; "" if it holds plain vectors.

    Args:
        info: The tensor.
        names: Names of all tensors of the checkpoint.
    """
    module, _, last = info.name.rpartition(".")
    scales = _SCALES if module and last in ("weight", *_PACKED) else ()
    beside = next((f"{module}.{scale}" for scale in scales if f"{module}.{scale}" in names), None)
    if (info.dtype in PLAIN and beside is None) or _SCALED in info.dtype or info.dtype in DECODED:
        return ""
    stored = f"{info.name} is stored as {info.dtype}{f' with {beside}' if beside else ''}"
    return f"{stored}, not as plain vectors; use the full-precision checkpoint of this model"
