"""On-disk cache of UMAP's compiled code, so that compilation happens once per machine, not once per process.

numba compiles umap-learn on first call, which takes half a minute of processor time for a large table, and discards the
result when the process ends. Functions marked for caching are kept by numba in $NUMBA_CACHE_DIR, next to the module or
in the user's cache folder, keyed by source file, processor and versions; this module marks the remaining ones. Where
numba can write to none of these folders, importing umap-learn fails, so numba is given a folder in our cache.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...cache import Cache
from ...errors import HfposembError, require

_ROOM = 50_000_000
"""Bytes that must be free for compiled code, which takes a fifth of it; numba fails on a full disk."""

_NO_FOLDER = "no locator available"
"""Text of numba's error when it finds no writable folder for compiled code."""


def require_umap() -> None:
    """Raise ``MissingExtraError`` if umap-learn is not installed; does not import it."""
    require("umap", package="umap-learn", extra="umap", purpose="UMAP")


@cache
def compiled_umap() -> Any:
    """Return umap-learn, with compiled code read from disk where available.

    Raises:
        MissingExtraError: If umap-learn is not installed.
        HfposembError: If no folder is writable, not even the one for temporary files.
    """
    require_umap()
    from numba.core.dispatcher import Dispatcher

    umap = _umap()
    for module in (umap.umap_, umap.layouts, *_searching()):
        for compiled in vars(module).values():
            if isinstance(compiled, Dispatcher) and not compiled.signatures:
                with suppress(RuntimeError):  # no writable folder any more: compile for this process only
                    compiled.enable_caching()
    return umap


def _searching() -> list[Any]:
    """Return the modules of pynndescent, umap-learn's search, but that whose functions numba cannot keep."""
    names = [name for name in sys.modules if name.startswith("pynndescent.") and name != "pynndescent.pynndescent_"]
    return [sys.modules[name] for name in names]


def _umap() -> Any:
    """Import umap-learn, with compiled code in numba's folder if writable, else in our cache or a temporary one."""
    from numba import config

    packages = [Path(str(find_spec(name).origin)).parent for name in ("umap", "pynndescent")]  # type: ignore[union-attr]
    folders = [Path(config.CACHE_DIR)] if config.CACHE_DIR else packages  # type: ignore[attr-defined]
    if not all(map(_has_room, folders)):
        config.CACHE_DIR = str(_writable_folder())  # type: ignore[attr-defined]
        folders = [Path(config.CACHE_DIR)]  # type: ignore[attr-defined]
    remove_damaged(folders)
    try:
        import umap
    except RuntimeError as error:
        if _NO_FOLDER not in str(error):
            raise
        config.CACHE_DIR = str(_writable_folder())  # type: ignore[attr-defined]
        import umap
    return umap


def _writable_folder() -> Path:
    """Return a writable folder for compiled code: one in our cache, else a temporary one that is removed at exit."""
    folder = Cache.default().folder / "numba"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        if _is_private(folder) and _has_room(folder):
            return folder
    rule = f"UMAP needs a writable folder with {_ROOM // 10**6} MB for its compiled code; set NUMBA_CACHE_DIR to one"
    try:
        temporary = tempfile.mkdtemp(prefix="hfposemb-numba-")
    except OSError as error:
        raise HfposembError(rule) from error
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    if not _has_room(Path(temporary)):
        raise HfposembError(rule)
    return Path(temporary)


def _has_room(folder: Path) -> bool:
    """Return whether compiled code fits on the disk of a folder, or the folder does not exist yet."""
    try:
        return shutil.disk_usage(folder).free > _ROOM
    except OSError:
        return True


def _is_private(folder: Path) -> bool:
    """Return whether nobody else can write into a folder: numba unpickles what it finds there."""
    if os.name == "nt":
        return True
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def remove_damaged(folders: Iterable[Path]) -> None:
    """Remove files of numba that were cut or emptied, as after a loss of power; numba fails on them for ever.

    Args:
        folders: Folders with compiled code, or with packages next to whose modules it is.
    """
    for folder in folders:
        for path in folder.glob("**/*.nb[ic]"):
            with suppress(OSError):
                with path.open("rb") as file:
                    file.seek(max(os.fstat(file.fileno()).st_size - 1, 0))
                    whole = file.read(1) == pickle.STOP
                if not whole:
                    path.unlink()
