"""Disk cache for tables and results: content-addressed, bounded and atomic, with memory as fallback.

Each entry is one file, ``KIND/ab/cdef….entry``, named by the SHA-256 of its key. It starts with one line of JSON
(format, key, size and SHA-256 of the payload), padded to a multiple of 64 bytes so that the payload that follows can be
mapped as rows of numbers.

Processes share a folder without locks. An entry is written under a temporary name and renamed once it is on disk, so a
final name always refers to a complete entry. Entries are never modified, only replaced or removed, and remain readable
for processes that have them open.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, FileIO
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import HfposembError, InputError
from .memory_maps import mapped

Key: TypeAlias = tuple[str, ...]
"""Identifies an entry; its first element is one of ``KINDS``."""

KINDS = ("table", "header", "file", "commit", "projection", "null")

DEFAULT_LIMIT = 10_000_000_000

STALE_SECONDS = 3600
"""Age of the last write after which a temporary file counts as left by a dead process."""

_FORMAT = 1
_ALIGNMENT = 64
_HEAD_BYTES = 2**16
_CHUNK = 2**20
_ENTRY = re.compile(r"[0-9a-f]{62}\.entry")
_SHARD = re.compile(r"[0-9a-f]{2}")
_PREFIX, _SUFFIX = ".hfposemb-", ".partial"

_SETTLED_NS = 100_000_000
"""File systems record times in milliseconds: a younger file could change again without a change of its mtime."""

_SHARE = 16
"""A folder is scanned again once 1/``_SHARE`` as many entries were written as it holds."""

_intact: set[tuple[int, int, int, int]] = set()
"""Device, inode, size and mtime of files whose digest this process has verified."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A payload of ``size`` bytes; it stays readable after its file is removed."""

    size: int
    _payload: NDArray[np.uint8] = field(repr=False)

    def view(self) -> NDArray[np.uint8]:
        """Return the payload [size], read-only: a copy-on-write map of the file, or memory if no file was written.

        All callers share it; ``memory_maps.lent`` returns a private copy.
        """
        return self._payload

    def bytes(self) -> builtins.bytes:
        """Return a copy of the payload."""
        return self._payload.tobytes()


@dataclass(frozen=True)
class Listed:
    """Description of an entry: payload ``size`` in bytes, ``used`` in seconds since the epoch."""

    key: Key
    size: int
    used: float


@dataclass(frozen=True)
class _Head:
    """Header of an entry's file."""

    key: Key
    size: int
    sha256: str

    @property
    def text(self) -> bytes:
        """The serialised header; its length depends only on key and size."""
        fields = {"format": _FORMAT, "key": self.key, "size": self.size, "sha256": self.sha256}
        line = json.dumps(fields, separators=(",", ":")).encode()
        return line + b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n"

    @classmethod
    def read(cls, file: BufferedReader) -> _Head | None:
        """Read the header of a file; ``None`` if it is missing or not exactly as this version writes it."""
        line = file.readline(_HEAD_BYTES)
        try:
            found = json.loads(line)
            head = cls(tuple(found["key"]), found["size"], found["sha256"])
        except (ValueError, RecursionError, LookupError, TypeError):
            return None
        return head if type(head.size) is int and head.text == line else None


@dataclass(frozen=True)
class _Found:
    """A file of the cache with its status at the time of the scan."""

    path: str  # scans of many files would spend most of their time on Path objects
    status: os.stat_result

    @property
    def partial(self) -> bool:
        """Whether it is a temporary file rather than an entry."""
        return self.path.endswith(_SUFFIX)


@dataclass(frozen=True)
class _Seen:
    """What a folder held when this process last scanned it, and what the process has written since."""

    entries: int
    size: int
    puts: int = 0
    added: int = 0


_seen: dict[Path, _Seen] = {}


@dataclass(frozen=True)
class Cache:
    """Payloads by key in ``folder``, limited to ``limit`` bytes; the least recently used are evicted first.

    Disk errors are not raised: what cannot be stored is served from memory, and what cannot be read counts as missing.
    The time of last use is the file's atime, which this class sets itself. The mtime stays unchanged, since it shows
    whether a file changed after its digest was verified. ``noatime`` mounts do not interfere: they suppress only the
    updates made by the system.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from hfposemb.cache import Cache
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = Cache(Path(folder))
    ...     entry = cache.put(("file", "greeting"), b"hello")
    ...     cache.find(("file", "greeting")).bytes()
    b'hello'
    """

    folder: Path
    limit: int = DEFAULT_LIMIT

    @classmethod
    def default(cls, *, limit: int = DEFAULT_LIMIT) -> Cache:
        """Return the cache in $HFPOSEMB_CACHE, else $XDG_CACHE_HOME/hfposemb, else ~/.cache/hfposemb.

        Args:
            limit: Size limit in bytes. $HFPOSEMB_CACHE_BYTES takes precedence, since whoever operates the process knows
                its disk.

        Raises:
            InputError: If $HFPOSEMB_CACHE_BYTES is not a whole number.
        """
        if given := os.environ.get("HFPOSEMB_CACHE_BYTES"):
            if not re.fullmatch(r"[0-9]{1,18}", given):
                raise InputError(f"HFPOSEMB_CACHE_BYTES must be a whole number of bytes; found {given[:40]!r}")
            limit = int(given)
        if given := os.environ.get("HFPOSEMB_CACHE"):
            return cls(Path(os.path.abspath(os.path.expanduser(given))), limit)
        # The XDG specification: a relative path is ignored.
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
        # No home folder, as in some containers: use an impossible folder, so that memory is used.
        return cls(Path(base if os.path.isabs(base) else os.devnull) / "hfposemb", limit)

    def find(self, key: Key) -> Entry | None:
        """Return a key's entry, marked as used; ``None`` if missing. Truncated or altered entries are removed."""
        path = self._path(key)
        if path.parent.is_symlink() or path.parent.parent.is_symlink():
            return None
        try:
            with _opened(path) as file:
                status = os.fstat(file.fileno())
                head = _Head.read(file)
                if head is None or head.key != key or not _is_intact(file, head, status):
                    _remove(_Found(str(path), status))
                    return None
                payload = mapped(file.fileno(), len(head.text), head.size)
                _mark(file.fileno(), status)
                return Entry(head.size, payload)
        except _NotAFileError:
            # A link, pipe or similar, not written by this class, occupies the entry's name.
            with suppress(OSError):
                path.unlink()
        except OSError:
            pass
        return None

    def put(self, key: Key, payload: bytes) -> Entry:
        """Store a payload, replacing an earlier one of the same key."""
        with self.write(key, size=len(payload)) as writer:
            writer.write(payload)
        return writer.entry

    def write(self, key: Key, *, size: int) -> Writer:
        """Return a context manager that receives a payload of ``size`` bytes in chunks; see ``Writer``."""
        return Writer(self, key, size)

    def entries(self) -> tuple[Listed, ...]:
        """List the entries, the most recently used first; digests are not verified."""
        listed = []
        for found in self._walk():
            if found.partial:
                continue
            with suppress(OSError), _opened(Path(found.path)) as file:
                if (head := _Head.read(file)) is not None:
                    listed.append(Listed(head.key, head.size, found.status.st_atime_ns / 1e9))
        return tuple(sorted(listed, key=lambda entry: -entry.used))

    def clear(self) -> int:
        """Remove the cache's own files and no others; return the number of bytes freed."""
        freed, emptied = 0, set()
        for found in self._walk():
            if _remove(found):
                freed += found.status.st_size
                emptied.add(Path(found.path).parent)
        for folder in [*emptied, *{shard.parent for shard in emptied}]:
            with suppress(OSError):  # folders with other files stay
                folder.rmdir()
        return freed

    def _path(self, key: Key) -> Path:
        if not key or key[0] not in KINDS:
            raise InputError(f"a key must begin with its kind, one of {', '.join(KINDS)}; found {str(key)[:80]}")
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        return self.folder / key[0] / name[:2] / f"{name[2:]}.entry"

    def _walk(self) -> Iterator[_Found]:
        """Yield the cache's own files, both entries and temporary files, without following links."""
        for kind in KINDS:
            for shard in _listed(os.path.join(self.folder, kind)):
                if not _SHARD.fullmatch(shard.name):
                    continue
                for file in _listed(shard.path):
                    name = file.name
                    ours = _ENTRY.fullmatch(name) or (name.startswith(_PREFIX) and name.endswith(_SUFFIX))
                    with suppress(OSError):
                        if ours and file.is_file(follow_symlinks=False):
                            yield _Found(file.path, file.stat(follow_symlinks=False))

    def _trim(self, *, keep: Path, added: int) -> None:
        """Evict the least recently used entries beyond the limit, and remove files left by dead processes.

        The time of a scan grows with the number of entries. It runs only when 1/``_SHARE`` of the entries are new, or
        when this process's writes since the last scan, times ``_SHARE`` to allow for other processes, could exceed the
        limit.
        """
        seen = _seen.get(self.folder)
        if seen is not None:
            seen = _Seen(seen.entries, seen.size, seen.puts + 1, seen.added + added)
            if seen.puts < seen.entries // _SHARE and seen.size + _SHARE * seen.added <= self.limit:
                _seen[self.folder] = seen
                return
        entries = size = 0
        full = seen is not None and seen.size + seen.added > self.limit
        if not full:
            for found in self._entries():  # nothing is kept of an entry unless some have to go
                entries, size = entries + 1, size + found.status.st_size
        if full or size > self.limit:
            entries, size = self._evict(keep)
        _seen[self.folder] = _Seen(entries, size)

    def _entries(self) -> Iterator[_Found]:
        """Yield the entries, and remove files left by dead processes."""
        for found in self._walk():
            if not found.partial:
                yield found
            elif found.status.st_mtime < time.time() - STALE_SECONDS:
                _remove(found)

    def _evict(self, keep: Path) -> tuple[int, int]:
        """Remove the least recently used entries beyond the limit; return their number and the bytes that are left."""
        files = sorted(self._entries(), key=lambda found: found.status.st_atime_ns)
        size = sum(found.status.st_size for found in files)
        for found in files:
            if size <= self.limit:
                break
            if found.path != str(keep):
                _remove(found)
                size -= found.status.st_size
        return len(files), size


class Writer:
    """Receives a payload in chunks.

    Used as ``with cache.write(key, size=…) as writer: writer.write(part)``, then ``writer.entry``. If the block raises,
    nothing is stored. If the disk fails, the writer continues in memory with the data so far.
    """

    def __init__(self, cache: Cache, key: Key, size: int) -> None:
        self._cache, self._key, self._size = cache, key, size
        self._path = cache._path(key)
        # The digest is not known yet, but its length is.
        self._start = len(_Head(key, size, "0" * 64).text)
        if size < 0 or self._start > _HEAD_BYTES:
            raise InputError(
                f"an entry needs a size of at least 0 bytes and a key below {_HEAD_BYTES} bytes; found {size} bytes"
            )
        self._done = 0
        self._sha = hashlib.sha256()
        self._file: FileIO | None = None
        self._temporary = Path()
        self._memory: NDArray[np.uint8] | None = None
        self._entry: Entry | None = None

    @property
    def entry(self) -> Entry:
        """The entry, available after the block has ended without an error."""
        if self._entry is None:
            raise InputError("the entry is available only after the with block has ended without an error")
        return self._entry

    def __enter__(self) -> Writer:
        if self._start + self._size <= self._cache.limit:
            with suppress(OSError):
                self._open()
                return self
        self._to_memory()
        return self

    def write(self, chunk: bytes | memoryview) -> None:
        """Append a chunk. Raises ``InputError`` if the announced size is exceeded."""
        part = np.frombuffer(chunk, np.uint8)
        if self._done + len(part) > self._size:
            raise InputError(f"{self._size:,} bytes were expected; {self._done + len(part):,} were written")
        if self._file is not None:
            try:
                _write_all(self._file, part.data)
            except OSError:
                self._to_memory()
        if self._memory is not None:
            self._memory[self._done : self._done + len(part)] = part
        elif self._file is None:
            raise InputError("use the writer in a with statement")
        self._done += len(part)
        self._sha.update(part.data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                return
            if self._done != self._size:
                raise InputError(f"{self._size:,} bytes were expected; {self._done:,} were written")
            self._entry = self._finish()
        finally:
            self._discard()

    def _open(self) -> None:
        """Create the temporary file. Raises ``OSError``."""
        cache, shard = self._cache, self._path.parent
        for attempt in (1, 2, 3):
            cache.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (shard.parent, shard):
                with suppress(FileExistsError, FileNotFoundError):
                    folder.mkdir(mode=0o700)
                if folder.is_symlink():
                    raise _NotAFileError(f"{folder} is a symbolic link")
            try:
                handle, name = tempfile.mkstemp(dir=shard, prefix=_PREFIX, suffix=_SUFFIX)
                break
            except FileNotFoundError:
                # Another process may have cleared the cache between the two steps.
                if attempt == 3:
                    raise
        self._file, self._temporary = FileIO(handle, "w+"), Path(name)
        # Placeholder: the header contains the digest, so it is written last.
        _write_all(self._file, memoryview(bytes(self._start)))

    def _finish(self) -> Entry:
        """Rename the temporary file to its final name and return its entry."""
        head = _Head(self._key, self._size, self._sha.hexdigest()).text
        payload = None
        if self._file is not None:
            try:
                self._file.seek(0)
                _write_all(self._file, memoryview(head))
                os.fsync(self._file.fileno())
                payload = mapped(self._file.fileno(), len(head), self._size)
                _mark(self._file.fileno(), os.fstat(self._file.fileno()))
            except OSError:
                self._to_memory()
        if self._memory is not None:
            self._memory.flags.writeable = False
            self._forget()
            return Entry(self._size, self._memory)
        assert payload is not None
        try:
            os.replace(self._temporary, self._path)
        except OSError:
            # The file could not be renamed, but its payload is mapped and readable.
            self._forget()
            return Entry(self._size, payload)
        _sync_folder(self._path.parent)
        self._cache._trim(keep=self._path, added=len(head) + self._size)
        return Entry(self._size, payload)

    def _to_memory(self) -> None:
        """Continue in memory with the data written so far."""
        memory = np.empty(self._size, np.uint8)
        if self._file is not None:
            try:
                self._file.seek(self._start)
                read = 0
                while read < self._done and (count := self._file.readinto(memory[read : self._done].data)):
                    read += count
                # After a failed fsync the system may return other data than was written.
                lost = hashlib.sha256(memory[: self._done].data).digest() != self._sha.digest()
            except OSError:
                lost = True
            self._discard()
            if lost:
                raise HfposembError(
                    f"data written to {self._cache.folder} was lost; set HFPOSEMB_CACHE to a folder on another disk"
                )
        self._memory = memory

    def _forget(self) -> None:
        """Remove the earlier entry of the key, which this one would have replaced."""
        if not (self._path.parent.is_symlink() or self._path.parent.parent.is_symlink()):
            with suppress(OSError):
                self._path.unlink()

    def _discard(self) -> None:
        """Close the temporary file and remove it, unless it was renamed."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._temporary.unlink()
            self._file = None


class _NotAFileError(OSError):
    """Something other than a regular file was found."""


def _opened(path: Path) -> BufferedReader:
    """Open a regular file only; links are not followed and pipes do not block."""
    if path.is_symlink():
        raise _NotAFileError(f"{path} is a symbolic link")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        # Leave the atime alone: listing entries must not change the order of eviction.
        handle = os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:
        handle = os.open(path, flags)  # O_NOATIME is for the owner only
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _NotAFileError(f"{path} is not a regular file")
    return os.fdopen(handle, "rb")


def _is_intact(file: BufferedReader, head: _Head, status: os.stat_result) -> bool:
    """Return whether the payload is complete and matches its header; ``file`` is positioned after the header."""
    if status.st_size != len(head.text) + head.size:
        return False
    mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if mark in _intact:
        return True
    # Read in chunks: every page touched in a map would count as memory in use.
    sha, part = hashlib.sha256(), bytearray(min(_CHUNK, head.size))
    while count := file.readinto(part):
        sha.update(memoryview(part)[:count])
    if sha.hexdigest() != head.sha256:
        return False
    if time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
        _intact.add(mark)
    return True


def _mark(handle: int, status: os.stat_result) -> None:
    """Mark an open file as just used, if permitted."""
    with suppress(OSError):
        os.utime(handle, ns=(time.time_ns(), status.st_mtime_ns))


def _listed(folder: str) -> list[os.DirEntry[str]]:
    """List a folder; empty if it does not exist or is a link."""
    try:
        if os.path.islink(folder):
            return []
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _remove(found: _Found) -> bool:
    """Remove a file, unless another file has taken its name since; return whether it was removed."""
    with suppress(OSError):
        if os.path.samestat(os.lstat(found.path), found.status):
            os.unlink(found.path)
            return True
    return False


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, where the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(file: FileIO, data: memoryview) -> None:
    """Write all data; a single call may write less."""
    while data:
        data = data[file.write(data) or 0 :]
