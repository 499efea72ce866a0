"""File names of checkpoint formats other than safetensors that are read by ranges of bytes; see ``formats``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from .strict_json import fault, shortened

SUFFIXES: tuple[str, ...] = (".gguf", ".onnx")
"""Suffixes of the files of these formats."""


_SPLIT = r"-(\d{5})-of-\d{5}\.gguf$"
_NO_MODEL = r"^mmproj|[-_.]mmproj|imatrix"
"""Names of GGUF files without a model: the image encoders beside it, and statistics for its quantisation."""

_SHOWN = 8


def has_format(file: str) -> bool:
    """Return whether a file name has the suffix of one of these formats."""
    return PurePosixPath(file).suffix in SUFFIXES


def choose_format(names: Sequence[str], *, name: str) -> str | None:
    """Choose a folder's checkpoint among the files of these formats.

    Args:
        names: Names of the folder's files.
        name: Name of the folder in messages.

    Returns:
        The chosen name; ``None`` if there is none.

    Raises:
        CheckpointError: If the choice is ambiguous.
    """
    found = models(names)
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = ", ".join(map(shortened, found[:_SHOWN]))
        raise fault(name, f"holds {len(found)} models, {listed}{more}; name one, such as {name}/{found[0]}")
    return found[0] if found else None


def models(names: Sequence[str]) -> list[str]:
    """Return the files among ``names`` that are models of these formats; of several splits, the first."""
    found = [file for file in names if has_format(file) and not re.search(_NO_MODEL, PurePosixPath(file).name)]
    return sorted(file for file in found if (split := re.search(_SPLIT, file)) is None or int(split[1]) == 1)
