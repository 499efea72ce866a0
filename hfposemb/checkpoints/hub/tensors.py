"""Safetensors files of a Hub repository: headers, and rows that belong to the same version as their header."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...cache import Entry, Key
from ...errors import ChangedFileError, CheckpointError
from ...logs import LOG
from ..deadline import Deadline
from ..limits import Limits
from ..safetensors.checkpoint import Checkpoint, Header, TensorInfo, as_rows, check_read, header_length, parse_header
from .files import RepositoryFiles, in_hub_cache
from .http_answers import Version

_T = TypeVar("_T")


FIRST_BYTES = 100_000
"""Size of the first request for a file, which nearly always covers the whole header."""

_BYTES_A_FILE, _BYTES_A_TENSOR = 1024, 160
"""Bytes of a header beside the names of its tensors, at most."""


ROWS_BYTES = 2**20
"""Smaller ranges of rows are fetched alone if the table is larger; otherwise the whole table is fetched and cached."""


@dataclass(frozen=True)
class _File:
    """One safetensors file of the repository: its header, and the version that its bytes must have."""

    header: Header
    version: Version


@dataclass(eq=False)
class RepositoryTensors:
    """Headers and rows of the safetensors files of one repository, each file in one version."""

    files: RepositoryFiles
    likely: dict[str, int] = field(default_factory=dict, repr=False)
    """Bytes that the header of a file takes at most, judged by the tensors that an index lists in it."""

    _headers: dict[str, _File] = field(default_factory=dict, repr=False)
    _reading: dict[str, Lock] = field(default_factory=dict, repr=False)
    _local: dict[str, Checkpoint] = field(default_factory=dict, repr=False)
    _fetching: Lock = field(default_factory=Lock, repr=False)
    _versions: Lock = field(default_factory=Lock, repr=False)
    _shown: set[str] = field(default_factory=set, repr=False)
    """Files of which rows were returned, so that their version can no longer change."""

    def header(self, file: str, deadline: Deadline | None = None) -> Header:
        """Return a file's header, read on the first call."""
        if file not in self._headers:
            with self._reading.setdefault(file, Lock()):  # of several threads, one asks
                if file not in self._headers:
                    self._headers[file] = self._open_file(file, deadline or self.files.wire.deadline())
        return self._headers[file].header

    def expect(self, shards: Mapping[str, str]) -> None:
        """Learn from an index, which maps tensors to files, how long the headers of files with several are."""
        several = len(set(shards.values())) > 1
        for name, file in shards.items() if several else ():
            self.likely[file] = self.likely.get(file, _BYTES_A_FILE) + _BYTES_A_TENSOR + len(name.encode())

    def at_hand(self, file: str) -> bool:
        """Return whether a file's header was read or is cached, so that reading it needs no request."""
        if file in self._headers:
            return True
        wire, key = self.files.wire, self.files.key("header", file)
        return in_hub_cache(wire.repo, file, wire.commit) is not None or self.files.kept(key) is not None

    def metadata(self) -> dict[str, str]:
        """Return ``__metadata__``, merged over the headers read so far."""
        return {k: v for file in self._headers.values() for k, v in file.header.metadata.items()}

    def read(self, info: TensorInfo, start: int, stop: int | None, *, codes: bool = False) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor whose header was read, read-only; see ``Checkpoint.read``.

        A few rows of a large table are fetched alone; otherwise the whole tensor is fetched once and cached. With
        ``codes`` the numbers are returned as they are stored, as ``Checkpoint.codes`` does.
        """
        if (local := self._local.get(info.file)) is not None:
            return (local.codes if codes else local.read)(info.name, start, stop)
        span = check_read(info, start, stop, limits=self.files.access.limits, codes=codes)
        return as_rows(self._bytes(info, span), info, start, stop, codes=codes)

    # --- headers ------------------------------------------------------------------------------------------------------

    def _open_file(self, file: str, deadline: Deadline) -> _File:
        """Return a file's header: from a local copy, from the cache, or fetched."""
        wire, limits = self.files.wire, self.files.access.limits
        if (here := in_hub_cache(wire.repo, file, wire.commit)) is not None:
            try:
                local = Checkpoint.open(here, limits=limits)
                header = local.header(here.name)
            except CheckpointError as error:
                LOG.info("%s %s: incomplete in the cache of huggingface_hub: %s", wire.repo, file, error)
            else:
                self._local[file] = local
                # By its path in the repository.
                placed = {name: replace(info, file=file) for name, info in header.tensors.items()}
                return _File(replace(header, tensors=placed), Version(header.file_bytes, ""))
        if wire.commit is not None:
            entry = self.files.kept(self.files.key("header", file))
            if entry is not None:
                return _unpack(entry.bytes(), file, limits)
        return self._fetch_header(file, deadline)

    def _fetch_header(self, file: str, deadline: Deadline) -> _File:
        """Fetch and cache a file's header in one ranged read, or two if it is long."""
        files, limits = self.files, self.files.access.limits
        start = bytearray()
        first = range(min(self.likely.get(file, FIRST_BYTES), FIRST_BYTES))
        version = files.wire.read(file, first, start.extend, deadline=deadline)
        length = header_length(bytes(start[:8]), file_bytes=version.size, name=file, limits=limits)
        if len(start) < 8 + length:
            rest = range(len(start), 8 + length)
            files.wire.read(file, rest, start.extend, deadline=deadline, same=version)
        text = bytes(start[8 : 8 + length])
        header = parse_header(text, file_bytes=version.size, name=file, limits=limits)
        key = files.key("header", file)
        files.keep(key, files.cache.put(key, f"{version.size} {version.etag}\n".encode() + text))
        return _File(header, version)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _bytes(self, info: TensorInfo, span: range) -> NDArray[np.uint8]:
        """Return bytes of a tensor, from the same version of its file as all others."""
        known = self._headers[info.file]
        entry = self.files.kept(self._table_key(info, known))
        if entry is not None:
            self._settle(info.file, known)
        elif self._alone(info, span):
            return np.frombuffer(self._of_one_version(info.file, partial(self._fetch_rows, info.file, span)), np.uint8)
        else:
            entry = self._fetch_table(info)
        return entry.view()[span.start - info.start : span.stop - info.start]

    def _alone(self, info: TensorInfo, span: range) -> bool:
        """Return whether bytes are fetched alone: a few rows, or a part of a table too large to keep."""
        access = self.files.access
        few = len(span) < ROWS_BYTES and 2 * len(span) < info.nbytes
        return few or (info.nbytes > access.limits.table_bytes and not access.foreign)

    def _table_key(self, info: TensorInfo, file: _File) -> Key:
        return self.files.key("table", info.file, info.name, file.version.etag)

    def _fetch_rows(self, file: str, span: range, of: _File) -> bytes:
        part = bytearray()
        wire = self.files.wire
        wire.read(file, span, part.extend, deadline=wire.deadline(len(span)), same=of.version)
        return bytes(part)

    def _fetch_table(self, info: TensorInfo) -> Entry:
        """Return a whole tensor, fetched and cached; concurrent callers wait for the first one."""
        span = check_read(info, limits=self.files.access.limits, codes=True)
        asked = time.monotonic()
        with self._fetching:
            self.files.wire.deadline().paused(time.monotonic() - asked)
            return self._of_one_version(info.file, partial(self._fetch_entry, info, span))

    def _fetch_entry(self, info: TensorInfo, span: range, of: _File) -> Entry:
        key, wire = self._table_key(info, of), self.files.wire
        if (entry := self.files.kept(key)) is not None:
            return entry  # another thread fetched it in the meantime
        with self.files.cache.write(key, size=len(span)) as writer:
            wire.read(info.file, span, writer.write, deadline=wire.deadline(len(span)), same=of.version)
        return self.files.keep(key, writer.entry)

    # --- versions -----------------------------------------------------------------------------------------------------

    def _of_one_version(self, file: str, fetch: Callable[[_File], _T]) -> _T:
        """Call ``fetch`` with a file's header, once more with a renewed header if the file's version has changed."""
        known = self._headers[file]
        try:
            made = fetch(known)
        except ChangedFileError:
            known = self._renewed(file, known)
            made = fetch(known)
        self._settle(file, known)
        return made

    def _renewed(self, file: str, known: _File) -> _File:
        """Fetch a file's header again, since a proxy may have answered the first request; raise if that is unsafe.

        It must equal the header known so far, and no rows of the other version may have been returned.
        """
        with self._versions:
            if self._headers[file] is not known:
                return self._headers[file]  # another thread renewed it
            if file in self._shown:
                raise self._changed(file)
            LOG.info("%s %s: another version than before; reading its header again", self.files.name, file)
            fresh = self._fetch_header(file, self.files.wire.deadline())
            if fresh.header != known.header:
                raise self._changed(file)
            self._headers[file] = fresh
            return fresh

    def _settle(self, file: str, of: _File) -> None:
        """Record that rows of a version were returned; raise if another version was settled on in the meantime."""
        with self._versions:
            if self._headers[file].version != of.version:
                raise self._changed(file)
            self._shown.add(file)

    def _changed(self, file: str) -> ChangedFileError:
        return ChangedFileError(f"{self.files.name} {file} changed between two reads; open it again")


def _unpack(packed: bytes, file: str, limits: Limits) -> _File:
    """Parse a header as ``_fetch_header`` caches it: size and ETag of the file, then the header's text."""
    first, _, text = packed.partition(b"\n")
    size, _, etag = first.decode().partition(" ")
    return _File(parse_header(text, file_bytes=int(size), name=file, limits=limits), Version(int(size), etag))
