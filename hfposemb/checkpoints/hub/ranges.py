"""Files of a Hub repository that are read by ranges of bytes, each in one version, and safetensors files among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...cache import Entry, Key
from ...errors import ChangedFileError, CheckpointError
from ...logs import LOG
from ...memory_maps import lent
from ..file_ranges import LocalRanges, check_plain, check_span
from ..safetensors.checkpoint import Header, Shard, header_length, open_shard, parse_header
from ..strict_json import fault, shortened
from .files import RepositoryFiles, in_hub_cache
from .http_answers import Version

_T = TypeVar("_T")

FIRST_BYTES = 2**18
"""Size of the first request for a file, which covers most heads."""

ROWS_BYTES = 2**20
"""Smaller ranges of a larger tensor are fetched alone; otherwise the whole tensor is fetched and cached."""

_HEADS_BYTES = 2**24
"""Largest range without a tensor that is cached: parts of a head."""


@dataclass(frozen=True)
class _Head:
    """What is kept of the first bytes of a file, from byte ``begin`` on, and the version that all others must have.

    Of a safetensors file, this is its header, ``parsed`` when it is fetched.
    """

    version: Version
    start: bytes
    begin: int = 0
    parsed: Header | None = None


def _kept_head(files: RepositoryFiles, path: str, begin: int = 0) -> _Head | None:
    """Return the head of a file from the cache; ``None`` if it has none."""
    entry = files.kept(files.key("header", path)) if files.wire.commit is not None else None
    if entry is None:
        return None
    first, _, start = entry.bytes().partition(b"\n")
    size, _, etag = first.decode().partition(" ")
    return _Head(Version(int(size), etag), start, begin)


def _keep_head(files: RepositoryFiles, path: str, head: _Head) -> _Head:
    key, version = files.key("header", path), head.version
    files.keep(key, files.cache.put(key, f"{version.size} {version.etag}\n".encode() + head.start))
    return head


def _first_bytes(files: RepositoryFiles, path: str) -> _Head:
    """Fetch and cache the first bytes of a file."""
    part, wire = bytearray(), files.wire
    version = wire.read(path, range(FIRST_BYTES), part.extend, deadline=wire.deadline())
    return _keep_head(files, path, _Head(version, bytes(part)))


@dataclass(eq=False)
class HubRanges:
    """File of a repository; nothing is fetched twice, thanks to the disk cache, and all bytes are of one version.

    Attributes:
        files: Files of the repository.
        path: Path of the file in the repository.
        head: Its first bytes, and its version.
        fetch_head: Fetches them again, as a proxy may have answered the first request.
    """

    files: RepositoryFiles
    path: str
    head: _Head
    fetch_head: Callable[[], _Head] = field(repr=False)
    _fetching: Lock = field(default_factory=Lock, repr=False)
    _versions: Lock = field(default_factory=Lock, repr=False)
    _shown: bool = field(default=False, repr=False)
    """Whether bytes beyond the head were returned, so that the version can no longer change."""

    @classmethod
    def open(cls, files: RepositoryFiles, path: str) -> HubRanges | LocalRanges:
        """Open a file of a repository: a copy on this machine, or by a request for its first bytes.

        Raises ``MissingFileError`` if there is no such file.
        """
        if (here := in_hub_cache(files.wire.repo, path, files.wire.commit)) is not None:
            return LocalRanges.open(here)
        fetch = partial(_first_bytes, files, path)
        return cls(files, path, _kept_head(files, path) or fetch(), fetch)

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.path.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.head.version.size

    def read(self, span: range, *, whole: range | None = None, name: str = "", own: bool = False) -> NDArray[np.uint8]:
        """Return bytes of the file, read-only; see ``FileRanges.read``."""
        found = self._read(span, whole, name)
        return lent(found) if own else found

    def _read(self, span: range, whole: range | None, name: str) -> NDArray[np.uint8]:
        check_span(span, self)
        head = self.head
        if head.begin <= span.start and span.stop <= head.begin + len(head.start):
            return np.frombuffer(head.start[span.start - head.begin : span.stop - head.begin], np.uint8)
        if whole is not None:
            check_span(whole, self)
        elif len(span) <= _HEADS_BYTES:
            whole = span
        if whole is None:
            return self._fetched(span)
        entry = self.files.kept(self._key(whole, name, head))
        if entry is not None:
            self._settle(head)
        elif self._alone(span, whole):
            return self._fetched(span)
        else:
            entry = self._fetch(whole, name)
        return entry.view()[span.start - whole.start : span.stop - whole.start]

    def beside(self, name: str) -> HubRanges | LocalRanges:
        """Return another file of the same folder; see ``FileRanges.beside``."""
        check_plain(name, of=self.name)
        return HubRanges.open(self.files, self._folder + name)

    def listing(self) -> tuple[str, ...]:
        """Return the names of the files in the same folder."""
        inside = [file.removeprefix(self._folder) for file in self.files.listing if file.startswith(self._folder)]
        return tuple(sorted(file for file in inside if "/" not in file))

    @property
    def _folder(self) -> str:
        folder, slash, _ = self.path.rpartition("/")
        return folder + slash

    # --- ranges -------------------------------------------------------------------------------------------------------

    def _alone(self, span: range, whole: range) -> bool:
        """Return whether bytes are fetched alone: a few rows, or a part of a tensor too large to keep."""
        access = self.files.access
        few = len(span) < ROWS_BYTES and 2 * len(span) < len(whole)
        return few or (len(whole) > access.limits.table_bytes and not access.foreign)

    def _key(self, whole: range, name: str, head: _Head) -> Key:
        return self.files.key("table", self.path, name or f"{whole.start}-{whole.stop}", head.version.etag)

    def _fetched(self, span: range) -> NDArray[np.uint8]:
        return np.frombuffer(self._of_one_version(partial(self._fetch_alone, span)), np.uint8)

    def _fetch_alone(self, span: range, of: _Head) -> bytes:
        part, wire = bytearray(), self.files.wire
        wire.read(self.path, span, part.extend, deadline=wire.deadline(len(span)), same=of.version)
        return bytes(part)

    def _fetch(self, whole: range, name: str) -> Entry:
        """Return a range fetched and cached; concurrent callers wait for the first one."""
        if len(whole) > (most := self.files.access.limits.table_bytes):
            rule = f"has {len(whole)} bytes; the limit is {most}; read fewer rows at a time"
            raise fault(self.path, f"{shortened(name) if name else 'a tensor'} {rule}")
        asked = time.monotonic()
        with self._fetching:
            self.files.wire.deadline().paused(time.monotonic() - asked)
            return self._of_one_version(partial(self._fetch_entry, whole, name))

    def _fetch_entry(self, whole: range, name: str, of: _Head) -> Entry:
        key, wire = self._key(whole, name, of), self.files.wire
        if (entry := self.files.kept(key)) is not None:
            return entry  # another thread fetched it in the meantime
        with self.files.cache.write(key, size=len(whole)) as writer:
            wire.read(self.path, whole, writer.write, deadline=wire.deadline(len(whole)), same=of.version)
        return self.files.keep(key, writer.entry)

    # --- versions -----------------------------------------------------------------------------------------------------

    def _of_one_version(self, fetch: Callable[[_Head], _T]) -> _T:
        """Call ``fetch`` with the file's head, once more with a renewed one if the file's version has changed."""
        known = self.head
        try:
            made = fetch(known)
        except ChangedFileError:
            known = self._renewed(known)
            made = fetch(known)
        self._settle(known)
        return made

    def _renewed(self, known: _Head) -> _Head:
        """Fetch the head again, since a proxy may have answered the first request; raise if that is unsafe.

        It must equal the head known so far, and no bytes of the other version may have been returned.
        """
        with self._versions:
            if self.head is not known:
                return self.head  # another thread renewed it
            if self._shown:
                raise self._changed()
            LOG.info("%s %s: another version than before; reading its header again", self.files.name, self.path)
            fresh = self.fetch_head()
            if (fresh.version.size, fresh.start) != (known.version.size, known.start):
                raise self._changed()
            self.head = fresh
            return fresh

    def _settle(self, of: _Head) -> None:
        """Record that bytes of a version were returned; raise if another version was settled on in the meantime."""
        with self._versions:
            if self.head.version != of.version:
                raise self._changed()
            self._shown = True

    def _changed(self) -> ChangedFileError:
        return ChangedFileError(f"{self.files.name} {self.path} changed between two reads; open it again")


SHARD_BYTES = 100_000
"""Size of the first request for a safetensors file, which nearly always covers the whole header."""

_BYTES_A_FILE, _BYTES_A_TENSOR = 1024, 160
"""Bytes of a header beside the names of its tensors, at most."""


@dataclass(eq=False)
class HubShards:
    """Opens the safetensors files of one repository; of a file, only the header is fetched, by itself.

    Attributes:
        files: Files of the repository.
        likely: Bytes that the header of a file takes at most, judged by the tensors that an index lists in it.
    """

    files: RepositoryFiles
    likely: dict[str, int] = field(default_factory=dict, repr=False)
    _reading: dict[str, Lock] = field(default_factory=dict, repr=False)

    def expect(self, shards: Mapping[str, str]) -> None:
        """Learn from an index, which maps tensors to files, how long the headers of files with several are."""
        several = len(set(shards.values())) > 1
        for name, file in shards.items() if several else ():
            self.likely[file] = self.likely.get(file, _BYTES_A_FILE) + _BYTES_A_TENSOR + len(name.encode())

    def at_hand(self, file: str) -> bool:
        """Return whether a file's header is on this machine, so that opening it needs no request."""
        wire, key = self.files.wire, self.files.key("header", file)
        return in_hub_cache(wire.repo, file, wire.commit) is not None or self.files.kept(key) is not None

    def open(self, file: str) -> Shard:
        """Open a file: a local copy, or by its header from the cache, or fetched."""
        files, wire, limits = self.files, self.files.wire, self.files.access.limits
        with self._reading.setdefault(file, Lock()):  # of several threads, one asks
            if (here := in_hub_cache(wire.repo, file, wire.commit)) is not None:
                try:
                    return open_shard(LocalRanges.open(here), file, limits)
                except CheckpointError as error:
                    LOG.info("%s %s: incomplete in the cache of huggingface_hub: %s", wire.repo, file, error)
            fetch = partial(self._fetch_header, file)
            head = _kept_head(files, file, begin=8) or fetch()
        header = head.parsed or parse_header(head.start, file_bytes=head.version.size, name=file, limits=limits)
        return Shard(file, header, HubRanges(files, file, head, fetch), limits)

    def _fetch_header(self, file: str) -> _Head:
        """Fetch and cache a file's header in one ranged read, or two if it is long."""
        files, wire, limits = self.files, self.files.wire, self.files.access.limits
        part = bytearray()
        first = range(min(self.likely.get(file, SHARD_BYTES), SHARD_BYTES))
        version = wire.read(file, first, part.extend, deadline=wire.deadline())
        length = header_length(bytes(part[:8]), file_bytes=version.size, name=file, limits=limits)
        if len(part) < 8 + length:
            wire.read(file, range(len(part), 8 + length), part.extend, deadline=wire.deadline(), same=version)
        text = bytes(part[8 : 8 + length])
        header = parse_header(text, file_bytes=version.size, name=file, limits=limits)  # what is wrong is not kept
        return _keep_head(files, file, _Head(version, text, 8, header))
