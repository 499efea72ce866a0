"""The files made for pages: the numbers of figures, and what visitors save.

Each is written in one place, ``put``, in the store of the visitor whose event is handled: that of an account while
``files_of`` holds, which ends with the account, and otherwise the one that all visitors share.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import gradio as gr
from gradio.data_classes import FileData
from gradio.utils import get_upload_folder

from hfposemb.errors import HfposembError
from hfposemb.lazy_attributes import lazy_attribute

from ..limits import SIGNED_IN_RESULT_BYTES, STORE_BYTES


def removed_at_exit(owner: object, prefix: str, within: Path | None = None) -> Path:
    """Create a folder that only this user can enter; it is removed when its owner is, at exit at the latest."""
    if within is not None:
        within.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within)).resolve()  # as Gradio compares paths
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


class Store:
    """A content-addressed folder; least recently used files are dropped beyond ``limit`` bytes. Thread-safe.

    Gradio copies a file into its own cache while it sends the value, so files need not be kept for longer.
    """

    def __init__(self, limit: int = STORE_BYTES) -> None:
        self._limit = limit
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()
        self._closed = False

    @lazy_attribute
    def folder(self) -> Path:
        """Where the files are."""
        return removed_at_exit(self, "hfposemb-")

    def put(self, content: bytes, name: str) -> dict[str, Any]:
        """Store ``content``, and return the entry by which Gradio serves it."""
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        path = self.folder / digest / name  # keep the name: it is the file name of a download
        with self._lock:
            if not self._closed:
                self._write(path, content)
        return FileData(path=str(path), orig_name=name).model_dump()

    def _write(self, path: Path, content: bytes) -> None:
        if path.exists():
            path.touch()
        else:
            _fill(path, content)
        self._sizes[str(path)] = len(content)
        self._sizes.move_to_end(str(path))
        while len(self._sizes) > 1 and sum(self._sizes.values()) > self._limit:
            dropped = Path(self._sizes.popitem(last=False)[0])
            dropped.unlink(missing_ok=True)
            with suppress(OSError):  # not empty if the same content has another name
                dropped.parent.rmdir()

    def keep(self, name: str, read: Callable[[], bytes]) -> dict[str, Any]:
        """Write a script or a style sheet once, never to drop it, and serve it from there.

        Copies in Gradio's own cache are only offered as downloads.
        """
        path = self.folder / name
        with self._lock:
            if not path.exists():
                _fill(path, read())
                gr.set_static_paths(path)
        return FileData(path=str(path), orig_name=name).model_dump()

    def close(self) -> None:
        """Remove the files; nothing is written from now on."""
        with self._lock:
            self._closed = True
            if "folder" in vars(self):
                shutil.rmtree(self.folder, ignore_errors=True)


def _fill(path: Path, content: bytes) -> None:
    """Write a file of this process; none is left if the disk is full."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise HfposembError(f"cannot write {path.parent}: {error.strerror}; free some space, or set TMPDIR") from error


class OwnStore(Store):
    """The store of one visitor, from which Gradio serves without a copy: within its folder, in ``own_folders``."""

    def __init__(self) -> None:
        super().__init__(SIGNED_IN_RESULT_BYTES)

    @lazy_attribute
    def folder(self) -> Path:
        """Where the files are."""
        return removed_at_exit(self, "", own_folders())


@cache
def own_folders() -> Path:
    """Return the folder for those of visitors with a store of their own."""
    return removed_at_exit(OwnStore, "hfposemb-visitors-", Path(get_upload_folder()))


_own: ContextVar[Store | None] = ContextVar("own", default=None)


@contextmanager
def files_of(store: Store | None) -> Iterator[None]:
    """Write what is made inside to a visitor's own store, if there is one."""
    before = _own.set(store)
    try:
        yield
    finally:
        _own.reset(before)


@cache
def shared() -> Store:
    """Return the store of all visitors, which also has the scripts."""
    return Store()


def put(content: bytes, name: str) -> dict[str, Any]:
    """Store a file for the visitor whose event is handled, and return the entry by which Gradio serves it."""
    return (_own.get() or shared()).put(content, name)


def kept_file(content: bytes, name: str) -> str:
    """Store a file for download, and return its path."""
    return str(put(content, name)["path"])


def served_folders() -> tuple[str, ...]:
    """Return the folders of all files that pages are given: Gradio's and that of the shared ones."""
    return str(Path(get_upload_folder()).resolve()), str(shared().folder)
