"""Arrays that callers may modify without affecting anyone else's copy.

The ``writeable`` flag stops NumPy from writing, but not torch, whose tensors share an array's memory and ignore the
flag. Large arrays are therefore lent as private copy-on-write maps, either of the checkpoint file or of an anonymous
in-memory file. Maps of one file share its pages until one is written to; a write copies the page for that map only.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 2**18
"""Arrays of fewer bytes are copied, which costs no more than mapping them."""

_PART = 2**24
_ALIGNED = 64  # bytes of a cache line; arrays that are read are aligned to it, as maps are


class _File:
    """Open file that stays open while anything is mapped from it, even if it is renamed or removed."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, os.close, handle).atexit = False

    def map(self, start: int, size: int, *, private: bool = True) -> NDArray[np.uint8]:
        """Map ``size`` > 0 bytes starting at ``start``. Raises ``OSError``."""
        before = start % mmap.ALLOCATIONGRANULARITY
        return np.asarray(_Map(self, start - before, size + before, private=private))[before:]


class _Map:
    """Map of a file that NumPy accepts as a read-only array.

    It calls the C library: before Python 3.13 every ``mmap.mmap`` holds a file descriptor, and a list of a thousand
    rows, each a view of a map, would exhaust the descriptors of a process.
    """

    def __init__(self, file: _File, start: int, size: int, *, private: bool) -> None:
        self.file, self.start = file, start
        self.address = _map(self, file.handle, start, size, private)
        self.__array_interface__ = {"data": (self.address, True), "shape": (size,), "typestr": "|u1", "version": 3}


if sys.platform == "win32":

    def _map(owner: Any, handle: int, start: int, size: int, private: bool) -> int:
        owner.pages = mmap.mmap(handle, size, access=mmap.ACCESS_COPY, offset=start)
        return ctypes.addressof(ctypes.c_char.from_buffer(owner.pages))

else:
    _LIBC = ctypes.CDLL(None, use_errno=True)
    _LIBC.mmap.restype = ctypes.c_void_p
    _LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    _LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def _map(owner: Any, handle: int, start: int, size: int, private: bool) -> int:
        access = mmap.PROT_READ | mmap.PROT_WRITE if private else mmap.PROT_READ
        address = _LIBC.mmap(None, size, access, mmap.MAP_PRIVATE if private else mmap.MAP_SHARED, handle, start)
        if address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        # Not at exit, when other threads may still read the map.
        weakref.finalize(owner, _LIBC.munmap, address, size).atexit = False
        return int(address)


def mapped(handle: int, start: int, size: int, *, private: bool = True) -> NDArray[np.uint8]:
    """Return bytes of an open file as a read-only array [size]; small ranges are read, others mapped.

    Args:
        handle: File descriptor; it may be closed afterwards.
        start: Offset of the first byte.
        size: Number of bytes.
        private: Whether to map copy-on-write. A shared map counts less towards memory limits, but writing to it, as
            torch would, kills the process: use it for reading only and never lend it.

    Raises:
        OSError: If the file is too short or cannot be mapped.
    """
    if size >= SMALL:
        return _File(os.dup(handle)).map(start, size, private=private)
    spare = np.empty(size + _ALIGNED - 1, np.uint8)
    found = spare[-spare.ctypes.data % _ALIGNED :][:size]
    read = 0
    os.lseek(handle, start, os.SEEK_SET)
    while read < size:
        part = os.read(handle, size - read)
        if not part:
            raise OSError(f"the file ends before byte {start + size}")
        found[read : read + len(part)] = np.frombuffer(part, np.uint8)
        read += len(part)
    found.flags.writeable = spare.flags.writeable = False
    return found


def _map_of(array: NDArray[Any]) -> _Map | None:
    """Return the map that contains a whole C-contiguous array; ``None`` if there is none."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, _Map) and array.flags.c_contiguous else None


def lendable(array: NDArray[Any]) -> bool:
    """Return whether ``lent`` makes no copy of an array, or only a small one."""
    return array.nbytes < SMALL or _map_of(array) is not None


def made_lendable(array: NDArray[Any]) -> NDArray[Any]:
    """Return an equal array that can be lent without a copy; the array itself if it already can be.

    The data is copied once to an anonymous in-memory file. If that fails, the array is returned unchanged.
    """
    if lendable(array):
        return array
    try:
        file = _File(_anonymous())
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        while data:
            data = data[os.write(file.handle, data[:_PART]) :]
        return _shaped(file.map(0, array.nbytes), array)
    except OSError:
        return array


def _anonymous() -> int:
    """Return the descriptor of an unnamed file: in memory on Linux, otherwise in the temporary folder."""
    if sys.platform == "linux":
        return os.memfd_create("hfposemb")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def lent(array: NDArray[Any]) -> NDArray[Any]:
    """Return an equal read-only array in separate memory: a new map of the same pages, or a copy."""
    owner = _map_of(array)
    if owner is not None and array.nbytes >= SMALL:
        try:
            start = owner.start + array.ctypes.data - owner.address
            return _shaped(owner.file.map(start, array.nbytes), array)
        except OSError:  # the process has too many maps
            pass
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def mapped_again(array: NDArray[Any]) -> Callable[[], NDArray[Any]] | None:
    """Return a function that maps the same bytes of the same file once more; ``None`` if an array is not mapped.

    The file stays open until then, so that it can be renamed or removed. The function raises ``OSError`` if the process
    has too many maps.
    """
    owner = _map_of(array)
    if owner is None or array.nbytes < SMALL:
        return None
    file, start = owner.file, owner.start + array.ctypes.data - owner.address
    dtype, shape, size = array.dtype, array.shape, array.nbytes
    return lambda: file.map(start, size).view(dtype).reshape(shape)


def _shaped(raw: NDArray[np.uint8], like: NDArray[Any]) -> NDArray[Any]:
    return raw.view(like.dtype).reshape(like.shape)
