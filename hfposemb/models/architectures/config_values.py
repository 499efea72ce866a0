"""Bounds-checked access to values of a model configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...checkpoints.gguf.config import ARCHITECTURE
from .table_names import tower_of

CONTINUED: Mapping[str, str] = {"wte.embedding": "wte.new_embedding"}
"""Endings of token tables that continue in a second tensor, with the ending of its name."""

JOINED: Mapping[str, str] = {
    "encoder-decoder": "encoder",
    "vision-encoder-decoder": "decoder",
    "speech-encoder-decoder": "decoder",
}
"""Model types that join two models, with the one whose tokens are the input: the whole says nothing of either."""


def class_of(config: Mapping[str, Any]) -> str:
    """Return the class of transformers that a checkpoint was saved from, "" if it is not stated."""
    classes = config.get("architectures")
    return classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else ""


def part_config(config: Mapping[str, Any], tower: str) -> Mapping[str, Any]:
    """Return the configuration of a part of the model: the field named after it, at any depth, else the whole.

    For the text, if no field is named after it and the whole has no vocabulary, this is the decoder's configuration,
    else the first one with a vocabulary. An encoder or decoder without a field of its own uses the configuration of the
    text. A whole that joins two models has no part of its own for the text, but one of the two.
    """
    if tower in ("", "text"):
        tower = JOINED.get(str(config.get("model_type")), tower)
    inner = [(name, value) for name, value in _inner(config) if "model_type" in value or name == tower]
    if tower not in ("", "text"):
        found = next((value for name, value in inner if tower_of(name) == tower), None)
        if found is not None or tower not in ("encoder", "decoder"):
            return config if found is None else found
    named = [value for name, value in inner if tower_of(name) == "text"]
    if "vocab_size" in config and not any("vocab_size" in value for value in named):
        return config
    named += [value for name, value in inner if tower_of(name) == "decoder"]
    named += [value for _, value in inner if "vocab_size" in value]
    return next((value for value in named if "vocab_size" in value), next(iter(named), config))


def _inner(config: Mapping[str, Any], depth: int = 3) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (field, value) pairs of nested configurations, outer ones first."""
    level = [(name, value) for name, value in config.items() if isinstance(name, str) and isinstance(value, dict)]
    yield from level
    if depth > 1:
        for _, value in level:
            yield from _inner(value, depth - 1)


def vocabularies(config: Mapping[str, Any]) -> frozenset[int]:
    """Return the sizes of all vocabularies in a configuration, at any depth, and those that it says are padded."""
    parts = [config, *(inner for _, inner in _inner(config))]
    multiple = whole_number(config, "pad_vocab_size_multiple", low=1) or 1  # Mamba's authors state it
    sizes = (
        whole_number(part, name, low=2)
        for part in parts
        for name in part
        if isinstance(name, str) and ("vocab" in name or name == "n_words")  # the latter as XLM writes it
    )
    return frozenset(full for size in sizes if size is not None for full in (size, -(-size // multiple) * multiple))


def in_gguf(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is that of a GGUF file, in the terms of transformers."""
    return ARCHITECTURE in config


def has_own_code(config: Mapping[str, Any]) -> bool:
    """Return whether a repository brings code of its own, which may read other fields than transformers does."""
    return "auto_map" in config


def name_of(config: Mapping[str, Any]) -> str:
    """Return where a configuration is stated, for messages."""
    return "the head of the file" if in_gguf(config) else "config.json"


def whole_number(config: Mapping[str, Any], name: str, *, low: int = 0, high: int = 10_000_000) -> int | None:
    """Return an integer of the configuration within bounds, else ``None``."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None


def first_whole(config: Mapping[str, Any], names: Iterable[str], *, high: int = 10_000_000) -> int | None:
    """Return the first of several fields that is an integer from 1 to ``high``, else ``None``."""
    found = (whole_number(config, name, low=1, high=high) for name in names)
    return next((number for number in found if number is not None), None)


def patches_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the rows and columns of patches of the configured image; ``None`` if sizes are not stated."""
    image, patch = (_sides(config.get(name)) for name in ("image_size", "patch_size"))
    return None if image is None or patch is None else (image[0] // patch[0], image[1] // patch[1])


def _sides(size: object) -> tuple[int, int] | None:
    """Return height and width of a stated size, ``None`` if it is none."""
    sides = tuple(size) if isinstance(size, list | tuple) else (size, size)
    whole = [side for side in sides if isinstance(side, int) and not isinstance(side, bool) and 0 < side < 2**16]
    return (whole[0], whole[1]) if len(whole) == len(sides) == 2 else None


def real_number(config: Mapping[str, Any], name: str, *, low: float, high: float) -> float | None:
    """Return a number of the configuration within bounds, else ``None``."""
    value = config.get(name)
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        else None
    )
