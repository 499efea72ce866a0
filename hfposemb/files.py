"""Atomic writing of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from .errors import HfposembError, InputError

unfinished: set[Path] = set()
"""Temporary files being written; removed if the process is ended."""


def check_place(path: Path) -> None:
    """Raise ``InputError`` unless ``path`` can be written; called before an expensive computation."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{path} is a folder, or its folder does not exist; choose another path")


def check_new(path: Path, *, force: bool) -> None:
    """Raise ``InputError`` as ``check_place`` does, and if something is there that nobody asked to replace."""
    check_place(path)
    if not force and (path.exists() or path.is_symlink()):
        raise InputError(f"{path} exists; add --force to replace it, or choose another path")


@contextmanager
def complete_file(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Write a temporary file and rename it to ``path`` once it is complete and on disk.

    A link at ``path`` is replaced, not followed. All files that others may read are written by this function or by
    ``cache.Writer``, so that a process that is killed leaves none of them incomplete.

    Args:
        path: The file.
        private: Whether only this user may read it.

    Raises:
        HfposembError: If the disk is full or the folder cannot be written.
    """
    unfinished.add(name := path.parent / f".{path.name[:100]}.{os.urandom(8).hex()}")
    try:  # before the file exists, so that Ctrl-C at any moment removes it
        with _created(name) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not private:
            os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        raise HfposembError(f"cannot write {path}: {error.strerror}; free some space or choose another file") from error
    finally:
        name.unlink(missing_ok=True)
        unfinished.discard(name)


def _created(path: Path) -> IO[bytes]:
    """Create a file that only this user may read, and open it."""
    try:
        return open(path, "xb", opener=partial(os.open, mode=0o600))
    except OSError as error:
        raise HfposembError(f"cannot write into {path.parent}: {error.strerror}; choose another folder") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
