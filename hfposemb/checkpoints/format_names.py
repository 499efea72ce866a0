"""File names of checkpoint formats other than safetensors that are read by ranges of bytes; see ``formats``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from .strict_json import fault, shortened

SUFFIXES: tuple[str, ...] = ()
"""Suffixes of the files of these formats."""


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
    found = sorted(file for file in names if has_format(file))
    if len(found) > 1:
        raise fault(name, f"holds several checkpoints, {shortened(', '.join(found))}; name one: {name}/{found[0]}")
    return found[0] if found else None
