"""Rotary frequencies of every part of a model, those of images and sound included, from its configuration alone.

Axial positions (Heo et al. 2024, arXiv 2403.13298) rotate half of the dimensions by the row of a patch and half by its
column, with the same frequencies. Derived from the modules of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tables.rotary import Rotary
from ..architectures.config_values import first_whole, patches_of, real_number, whole_number
from .rope import layout_of, rotary_encodings

_WIDTHS = ("embed_dim", "hidden_size", "d_model", "dim", "encoder_hidden_size")
"""Fields with the width of a part; that of images in Qwen2-VL states the text's as ``hidden_size``, too."""

_HEADS = ("num_attention_heads", "num_heads", "encoder_attention_heads", "heads")
TOWERS_APART = ("vision", "audio", "video")
"""Parts of a model with positions of their own, beside those of the text."""

_THREE_AXES = ("minimax_m3_vl_vision",)
"""Model types that rotate by time, row and column, with a third of the dimensions for each."""

_TWO_SETS = ("pixtral",)
"""Model types whose rows and columns have frequencies of their own, alternating from one sequence."""

_PATCHES = ("dinov3_vit", "eomt_dinov3", "sapiens2")
"""Model types of images that rotate by row and column without stating so."""

_MEMORY = ("memory_attention_hidden_size", "memory_attention_downsample_rate", "memory_attention_num_attention_heads")
"""Fields of the attention to earlier frames of a video in SAM 2, which rotates by row and column."""

_LENGTHS = ("max_position_embeddings", "max_source_positions")
_DRAWN, _PATCHES_DRAWN = 2048, 64
"""Positions, and patches along a side, if the configuration does not state them."""


@dataclass(frozen=True, eq=False)
class PartFrequencies:
    """Rotary frequencies of one part of a model.

    Attributes:
        part: Path of its configuration, such as ``vision_config``; "" for the whole.
        kind: Rope type, ``axial`` for patches of images.
        axes: What the positions count: ``position``, or the axes of a patch.
        frequencies: Frequencies [pairs] in radians per position, of one axis, or of all axes if they differ.
        relative: Whether positions are places in the image from −1 to 1, turned by 2π each, whatever its size.
        encoding: The encoding that they are of, for a part with one axis.
    """

    _document = ("part", "kind", "axes", "frequencies")
    part: str
    kind: str
    axes: tuple[str, ...]
    frequencies: NDArray[np.float64]
    relative: bool = False
    encoding: Rotary | None = None


def part_frequencies(config: Mapping[str, Any]) -> tuple[PartFrequencies, ...]:
    """Return the rotary frequencies of every part whose configuration states rotary parameters.

    Args:
        config: Configuration of a model.

    Returns:
        One entry for each part, and for each kind of layer if they differ; parts that cannot be computed are left out.

    Examples:
        >>> vision = {"hidden_size": 64, "num_heads": 4, "rope_parameters": {"rope_type": "axial"}}
        >>> [(one.part, one.axes, len(one.frequencies)) for one in part_frequencies({"vision_config": vision})]
        [('vision_config', ('row', 'column'), 4)]
    """
    return tuple(one for path, part in _parts(config) for one in of_part(path, part))


def part_of(config: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return the configuration of a part by its path; a kind of layer after a blank does not count."""
    for name in filter(None, part.partition(" ")[0].split(".")):
        config = config[name]
    return config


def tower_encodings(one: PartFrequencies, part: Mapping[str, Any]) -> dict[str, Rotary]:
    """Return the rotary encodings of a part of images or sound, by axis; "" for plain positions.

    Args:
        one: Frequencies of the part.
        part: Its configuration.

    Returns:
        An encoding for each axis of patches, whose length is their number along it in the configured image, or 64. None
        for places relative to the image if its size is not stated.
    """
    if one.encoding is not None:
        return {"": one.encoding}
    if len(one.axes) == 1:
        return {"": Rotary(one.frequencies, first_whole(part, _LENGTHS) or _DRAWN, layout=layout_of(part))}
    patches = patches_of(part)
    if one.relative and patches is None:
        return {}
    down, across = patches or (_PATCHES_DRAWN, _PATCHES_DRAWN)
    sides = {"row": max(down, 1), "column": max(across, 1)}
    sets = np.split(one.frequencies, 2) if str(part.get("model_type")) in _TWO_SETS else [one.frequencies]
    found: dict[str, Rotary] = {}
    for axis, frequencies in zip(one.axes, sets * (len(one.axes) // len(sets)), strict=True):
        count = sides.get(axis, max(sides.values()))
        turned = frequencies * (4 * np.pi / count if one.relative else 1.0)
        found[axis] = Rotary(turned, count, layout=layout_of(part))
    return found


def _parts(config: Mapping[str, Any], path: str = "", depth: int = 3) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, config
    for name, value in config.items():
        if isinstance(value, dict) and depth and ("model_type" in value or str(name).endswith("config")):
            yield from _parts(value, f"{path}.{name}".strip("."), depth - 1)


def of_part(path: str, part: Mapping[str, Any]) -> Iterator[PartFrequencies]:
    """Yield the rotary frequencies of one part, given its path and its configuration."""
    stated = part.get("rope_parameters")
    if part.get("position_embedding_type") == "rotary" and stated is None:
        stated = {"rope_theta": 10_000.0}
        part = {**part, "rope_parameters": stated}
    if part.get("use_rotary_embedding") is True:
        yield from _projected(path, part)
    axial = str(part.get("model_type")) in _PATCHES
    stated = {} if axial and stated is None else stated
    if not isinstance(stated, dict):
        return
    if stated.get("rope_type") == "axial" or axial:
        yield from _axial(path, part, stated)
        return
    for layers, one in rotary_encodings({"max_position_embeddings": _DRAWN, **part}, name=path or "it").items():
        if isinstance(one, Rotary):
            where = path if layers == "position" else f"{path} {layers}".strip()
            yield PartFrequencies(where, one.scaling or "default", ("position",), one.at(1).inv_freq, encoding=one)


def _axial(path: str, part: Mapping[str, Any], stated: Mapping[str, Any]) -> Iterator[PartFrequencies]:
    theta = real_number({**part, **stated}, "rope_theta", low=1.0, high=1e12) or 10_000.0
    head = _head(part)
    if head is None or head < 4:
        return
    kind = str(part.get("model_type"))
    if kind in _TWO_SETS:
        whole = theta ** -(np.arange(0, head, 2) / head)
        yield PartFrequencies(path, "axial", ("row", "column"), np.concatenate([whole[0::2], whole[1::2]]))
        return
    several = kind in _THREE_AXES
    axis = 2 * ((head // 2) // 3) if several else head // 2
    axes = ("time", "row", "column") if several else ("row", "column")
    relative = kind in _PATCHES
    yield PartFrequencies(path, "axial", axes, theta ** -(np.arange(0, axis, 2) / axis), relative)


def _projected(path: str, part: Mapping[str, Any]) -> Iterator[PartFrequencies]:
    """Yield the frequencies of CLVP, which rotates half of the projected width of a head, at least 32 dimensions."""
    width, heads = whole_number(part, "projection_dim", low=1), first_whole(part, _HEADS)
    if width and heads:
        rotated = max(width // (2 * heads), 32)
        yield PartFrequencies(path, "default", ("position",), 10_000.0 ** -(np.arange(0, rotated, 2) / rotated))


def _head(part: Mapping[str, Any]) -> int | None:
    """Return the number of dimensions of a head, for SAM 2 of its attention to earlier frames."""
    width, rate, heads = (whole_number(part, name, low=1) for name in _MEMORY)
    if width and rate and heads:
        return width // rate // heads
    width, heads = first_whole(part, _WIDTHS), first_whole(part, _HEADS)
    return whole_number(part, "head_dim", low=4) or (width // heads if width and heads else None)
