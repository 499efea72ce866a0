"""Checkpoint formats other than safetensors that are read by ranges of bytes, by the suffix of their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from .file_ranges import FileRanges
from .limits import Limits
from .strict_json import fault

if TYPE_CHECKING:
    from ..tables.table import Labels
    from ..tables.token_marks import TokenMarks
    from .safetensors import TensorInfo
    from .vocabulary import Vocabulary


class StoredTensors(Protocol):
    """Named tensors of one checkpoint, whatever its format."""

    @property
    def name(self) -> str:
        """Name in messages."""
        ...

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names."""
        ...

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location."""
        ...

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers."""
        ...

    def config(self) -> dict[str, Any] | None:
        """Return the configuration that the checkpoint states itself, or ``None``."""
        ...

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only."""
        ...


class FormatCheckpoint(StoredTensors, Protocol):
    """Checkpoint of one of the formats of this module."""

    def labels(self, rows: int) -> Labels | None:
        """Return labels for ``rows`` token rows that the checkpoint itself states; ``None`` if it states none."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary that the checkpoint itself states, or ``None``."""
        ...

    def marks(self, labels: Labels) -> TokenMarks | None:
        """Return the reserved, added and chat tokens that the checkpoint itself states; ``None`` if it states none."""
        ...


def _gguf(file: FileRanges, limits: Limits) -> FormatCheckpoint:
    from .gguf import open_gguf

    return open_gguf(file, limits)


_LATER_SPLIT = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")
_NO_MODEL = re.compile(r"^mmproj|[-_.]mmproj|imatrix")
"""Names of GGUF files without a model: the image encoders beside it, and statistics for its quantisation."""

_SHOWN = 12
OPENERS: Mapping[str, Callable[[FileRanges, Limits], FormatCheckpoint]] = {".gguf": _gguf}
"""Opens a checkpoint, by the suffix of its file; the readers are imported on use."""


def has_format(file: str) -> bool:
    """Return whether a file name has the suffix of one of these formats."""
    return PurePosixPath(file).suffix in OPENERS


def open_format(file: FileRanges, limits: Limits) -> FormatCheckpoint:
    """Open a checkpoint of one of these formats. Raises ``CheckpointError`` if the file violates its format."""
    return OPENERS[PurePosixPath(file.name).suffix](file, limits)


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
        listed = f"{', '.join(found[:_SHOWN])}{f' and {len(found) - _SHOWN} more' if len(found) > _SHOWN else ''}"
        raise fault(name, f"holds {len(found)} models, {listed}; name one, such as {name}/{found[0]}")
    return found[0] if found else None


def models(names: Sequence[str]) -> list[str]:
    """Return the files among ``names`` that are models of these formats; of several splits, the first."""
    found = [file for file in names if has_format(file) and not _NO_MODEL.search(PurePosixPath(file).name)]
    return sorted(file for file in found if (split := _LATER_SPLIT.search(file)) is None or int(split[1]) == 1)
