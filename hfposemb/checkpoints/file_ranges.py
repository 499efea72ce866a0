"""Files that are read by ranges of bytes, whatever their format and wherever they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..memory_maps import mapped
from .strict_json import SHOWN, fault, open_regular, shortened


class FileRanges(Protocol):
    """A file that is read by ranges of bytes, on this machine or on the Hub."""

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        ...

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        ...

    def read(self, span: range, *, whole: range | None = None, name: str = "", own: bool = False) -> NDArray[np.uint8]:
        """Return bytes of the file, read-only.

        Args:
            span: Range of bytes within the file.
            whole: Range of the tensor that the bytes belong to. From the Hub, a large part of it is read from a copy of
                the whole tensor, which is fetched once and cached; a small part is fetched alone.
            name: Name of that tensor, by which the copy is kept; without one, it is kept by its place.
            own: Whether they may be given away, since nothing else uses their memory; see ``memory_maps``.

        Raises:
            SourceError: If the file cannot be read or has changed since it was opened.
        """
        ...

    def beside(self, name: str) -> FileRanges:
        """Return another file of the same folder. Raises ``SourceError`` if there is none."""
        ...

    def listing(self) -> tuple[str, ...]:
        """Return the names of the files in the same folder."""
        ...


@dataclass(frozen=True)
class LocalRanges:
    """File on this machine; ranges are mapped, not copied, if they are large.

    Attributes:
        path: Absolute path of the file.
        size: Its size in bytes.
        modified: Time of its last modification in nanoseconds, which ``read`` verifies.
    """

    path: Path
    size: int
    modified: int

    @classmethod
    def open(cls, path: Path) -> LocalRanges:
        """Open a regular file. Raises ``CheckpointError`` if there is none."""
        path = Path(path).absolute()  # the working directory may change before later reads
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
        return cls(path, status.st_size, status.st_mtime_ns)

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.path.name

    def read(self, span: range, *, whole: range | None = None, name: str = "", own: bool = False) -> NDArray[np.uint8]:
        """Return bytes of the file, read-only; see ``FileRanges.read``."""
        check_span(span, self)
        with open_regular(self.path) as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (self.size, self.modified):
                raise fault(self.name, "the file changed since it was opened; open it again")
            return mapped(file.fileno(), span.start, len(span), private=own)

    def beside(self, name: str) -> LocalRanges:
        """Return another file of the same folder; see ``FileRanges.beside``."""
        check_plain(name, of=self.name)
        return LocalRanges.open(self.path.parent / name)

    def listing(self) -> tuple[str, ...]:
        """Return the names of the files in the same folder."""
        return tuple(files_in(self.path.parent))


def files_in(folder: Path) -> list[str]:
    """Return the names of a folder's files, in order. Raises ``CheckpointError`` if it cannot be listed."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if not os.path.isdir(entry))  # also of a looping link
    except OSError as error:
        raise fault(folder.name, f"cannot be listed: {shortened(str(error))}") from None


def check_span(span: range, file: FileRanges) -> None:
    """Raise ``CheckpointError`` unless a range of bytes lies within a file."""
    if span.step != 1 or not 0 <= span.start <= span.stop <= file.size:
        found = f"bytes {span.start} to {span.stop} were asked for"
        raise fault(file.name, f"{found}, but the file has {file.size}; download it again")


def is_plain(name: object) -> TypeGuard[str]:
    """Return whether ``name`` names an entry directly inside a folder, on every operating system."""
    return isinstance(name, str) and name.isprintable() and name not in ("", ".", "..") and not set(name) & set("/\\:")


def check_plain(name: str, *, of: str) -> None:
    """Raise ``CheckpointError`` unless a name that a file states is that of a file in the same folder."""
    if not is_plain(name):
        raise fault(of, f"must name files of its own folder; found {shortened(name[:SHOWN])}")
