"""Checkpoint formats other than safetensors that are read by ranges of bytes, by the suffix of their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from .safetensors.checkpoint import TensorInfo

if TYPE_CHECKING:
    from .file_ranges import FileRanges
    from .limits import Limits


class ReadTensors(Protocol):
    """Named tensors that can be read, stored in any format or changed as they are read.

    Those that state the configuration or the labels of token rows themselves have methods ``config`` and ``labels``
    beside, which return ``None`` if there is none, or none for a number of rows.
    """

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

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor, ``None`` if there is no file."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only."""
        ...


@dataclass(frozen=True, eq=False)
class WrappedTensors:
    """A checkpoint whose tensors are changed as they are read; what it states is that of the stored one.

    Attributes:
        stored: The checkpoint as it is stored.
    """

    stored: ReadTensors

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.stored.name

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers."""
        return self.stored.metadata()


def open_format(file: FileRanges, limits: Limits) -> ReadTensors:
    """Open a checkpoint of one of ``file_choice.SUFFIXES``. Raises ``CheckpointError`` if it violates its format."""
    # Imports the reader of this format alone.
    match PurePosixPath(file.name).suffix:
        case ".gguf":
            from .gguf.checkpoint import open_gguf

            return open_gguf(file, limits)
        case ".onnx":
            from .onnx.checkpoint import open_onnx

            return open_onnx(file, limits)
    from .numpy_files import open_numpy

    return open_numpy(file, limits)
