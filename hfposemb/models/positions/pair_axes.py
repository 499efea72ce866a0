"""Which pairs of a multimodal rotary encoding turn with time, height and width, by model type (M-RoPE).

Sources: Wang et al. 2024, Qwen2-VL (arXiv 2409.12191); the rotary modules of transformers 5.24, which read
``mrope_section`` but no field for the arrangement: it belongs to the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tables.rotary import Arrangement, PairAxes

_AXES = ("time", "height", "width")
_THIRDS, _TURNS, _QUARTERS = (16, 24, 24), (24, 20, 20), (8, 12, 12)

_TYPES: Mapping[str, tuple[Arrangement, tuple[int, ...]]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "paddleocr_vl"), ("contiguous", _THIRDS)),
    **dict.fromkeys(("glm4v", "glm4v_moe", "glm_image", "glm_ocr"), ("contiguous", _QUARTERS)),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe", "cohere_compass"), ("interleaved", _TURNS)),
    "cosmos3_edge": ("interleaved", _TURNS),
    "hy_v4_vl": ("interleaved", (12, 10, 10)),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen4_exp"), ("interleaved", (11, 11, 10))),
    "ernie4_5_vl_moe": ("alternating", (22, 22, 20)),
    "hunyuan_vl": ("by dimension", ()),
}
"""Arrangement and sections of every type whose module turns pairs by several positions."""

_FIELDS = ("mrope_section", "xdrope_section")
_PARTS = ("_text", "_thinker", "_talker")


def pair_axes(values: Mapping[str, Any], pairs: int) -> PairAxes | None:
    """Return which axis turns each pair, ``None`` if the configuration states no sections and its type has none.

    Args:
        values: Configuration of the part with its rotary parameters.
        pairs: Number of rotated pairs of a head.

    Examples:
        >>> str(pair_axes({"model_type": "qwen2_vl", "mrope_section": [2, 3, 3]}, 8))
        'contiguous: time 0, 1; height 2 to 4; width 5 to 7'
    """
    kind = str(values.get("model_type"))
    known = _TYPES.get(_whole(kind))
    stated = next((values[name] for name in _FIELDS if values.get(name) is not None), known[1] if known else ())
    if stated == ():
        return None
    sections = _sections(stated)
    if not sections:
        return PairAxes((), "not known", (), f"mrope_section is {str(stated)[:40]}, and must list whole numbers")
    arrangement, reason = known[0] if known else None, ""
    if arrangement is None and isinstance(flagged := values.get("mrope_interleaved"), bool):
        arrangement = "interleaved" if flagged else "contiguous"
    if arrangement is None:
        reason = f"the type {kind[:40]} is unknown, and mrope_interleaved is not stated"
    elif len(sections) < 3:
        reason = f"mrope_section {list(sections)} must list time, height and width"
    elif arrangement != "interleaved" and sum(sections) != pairs:
        reason = f"mrope_section {list(sections)} sums to {sum(sections)}, but {pairs} pairs turn"
    if arrangement is None or reason:
        return PairAxes((), "not known", sections, reason)
    return PairAxes(_names(arrangement, sections, pairs), arrangement, sections)


def _whole(kind: str) -> str:
    """Return the type of the whole model of a text part."""
    for part in (*_PARTS, *_PARTS):
        kind = kind.removesuffix(part)
    return kind


def _sections(stated: object) -> tuple[int, ...]:
    if not isinstance(stated, list | tuple) or not 0 < len(stated) <= 64:
        return ()
    numbers = [one for one in stated if isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < 2**16]
    whole = tuple(int(one) for one in numbers if one == int(one))
    return whole if len(whole) == len(stated) else ()


def _names(arrangement: Arrangement, sections: tuple[int, ...], pairs: int) -> tuple[str, ...]:
    if arrangement == "interleaved":
        # Every third pair from the second and from the third on, up to the sections of height and width.
        turns = {axis: set(range(axis, 3 * sections[axis], 3)) for axis in (1, 2)}
        return tuple(_AXES[next((axis for axis in (1, 2) if at in turns[axis]), 0)] for at in range(pairs))
    if arrangement == "alternating":
        return tuple(
            name for name, size in zip(("height", "width", "time"), sections, strict=False) for _ in range(size)
        )
    if arrangement == "by dimension":
        named = (*["position"] * (len(sections) - 3), "width", "height", "image")
        dimensions = [name for name, size in zip(named, sections, strict=True) for _ in range(2 * size)]
        halves = zip(dimensions[:pairs], dimensions[pairs:], strict=True)
        return tuple(first if first == second else f"{first}/{second}" for first, second in halves)
    return tuple(_AXES[at % 3] for at, size in enumerate(sections) for _ in range(size))
