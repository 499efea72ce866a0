"""Files of a Hub repository that are read by ranges of bytes, in one version each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ...cache import Entry
from ..file_ranges import LocalRanges, check_plain, check_span
from .cache import in_hub_cache
from .files import RepositoryFiles
from .http_answers import Version

FIRST_BYTES = 2**18
"""Size of the first request for a file, which covers most heads."""

ROWS_BYTES = 2**20
"""Smaller ranges of a larger tensor are fetched alone; otherwise the whole tensor is fetched and cached."""

_HEADS_BYTES = 2**24
"""Largest range without a tensor that is cached: parts of a head."""


@dataclass(eq=False)
class HubRanges:
    """File of a repository; nothing is fetched twice, thanks to the disk cache.

    Attributes:
        files: Files of the repository.
        path: Path of the file in the repository.
        version: Version that all bytes must have.
    """

    files: RepositoryFiles
    path: str
    version: Version
    _start: bytes = field(default=b"", repr=False)
    _fetching: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def open(cls, files: RepositoryFiles, path: str) -> HubRanges | LocalRanges:
        """Open a file of a repository: a copy on this machine, or by a request for its first bytes.

        Raises ``MissingFileError`` if there is no such file.
        """
        if (here := in_hub_cache(files.wire.repo, path, files.wire.commit)) is not None:
            return LocalRanges.open(here)
        if files.wire.commit is not None and (entry := files.kept(files.key("header", path))) is not None:
            first, _, start = entry.bytes().partition(b"\n")
            size, _, etag = first.decode().partition(" ")
            return cls(files, path, Version(int(size), etag), start)
        part = bytearray()
        version = files.wire.read(path, range(FIRST_BYTES), part.extend, deadline=files.wire.deadline())
        start = bytes(part)
        key = files.key("header", path)
        files.keep(key, files.cache.put(key, f"{version.size} {version.etag}\n".encode() + start))
        return cls(files, path, version, start)

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.path.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.version.size

    def read(self, span: range, *, whole: range | None = None) -> NDArray[np.uint8]:
        """Return bytes of the file, read-only; see ``FileRanges.read``."""
        check_span(span, self)
        if span.stop <= len(self._start):
            return np.frombuffer(self._start[span.start : span.stop], np.uint8)
        if whole is not None:
            check_span(whole, self)
        elif len(span) <= _HEADS_BYTES:
            whole = span
        if whole is None or (entry := self._kept(whole)) is None:
            if whole is None or (whole != span and len(span) < ROWS_BYTES and 2 * len(span) < len(whole)):
                return self._fetched(span)
            entry = self._fetch(whole)
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

    def _kept(self, whole: range) -> Entry | None:
        return self.files.kept(self.files.key("table", *self._identity(whole)))

    def _identity(self, whole: range) -> tuple[str, str, str]:
        return self.path, f"{whole.start}-{whole.stop}", self.version.etag

    def _fetched(self, span: range) -> NDArray[np.uint8]:
        part, wire = bytearray(), self.files.wire
        wire.read(self.path, span, part.extend, deadline=wire.deadline(len(span)), same=self.version)
        return np.frombuffer(bytes(part), np.uint8)

    def _fetch(self, whole: range) -> Entry:
        """Return a range fetched and cached; concurrent callers wait for the first one."""
        asked, wire = time.monotonic(), self.files.wire
        with self._fetching:
            wire.deadline().paused(time.monotonic() - asked)
            if (entry := self._kept(whole)) is not None:
                return entry
            key = self.files.key("table", *self._identity(whole))
            with self.files.cache.write(key, size=len(whole)) as writer:
                wire.read(self.path, whole, writer.write, deadline=wire.deadline(len(whole)), same=self.version)
            return self.files.keep(key, writer.entry)
