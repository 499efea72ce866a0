"""Finds the checkpoint among the files of a Hub repository: safetensors, pickles, or a file that is read by ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ...cache import Entry
from ...errors import HubError, MissingFileError, OfflineError
from ..deadline import Deadline
from ..file_choice import (
    INDEX,
    MODEL,
    MODULES,
    TRANSFORMER,
    choose_file,
    choose_format,
    choose_pickle,
    foreign_file,
    has_format,
    is_checkpoint,
    is_index,
    is_pickled,
    module_folder,
    no_checkpoint,
    weight_map,
)
from ..file_ranges import LocalRanges, check_plain, check_span
from ..folder_layouts import EXPORTS, source_inside
from ..formats import FormatCheckpoint, StoredTensors, open_format
from ..pickles.checkpoint import PickledCheckpoint, PickledFile, check_start, copied, one_file
from ..pickles.joined_parts import JoinedParts, parts_of
from ..strict_json import fault, parse_json, shortened
from .files import RepositoryFiles, in_hub_cache, with_safetensors
from .http_answers import Version
from .tensors import RepositoryTensors

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


_LOOK_SECONDS = 5.0


@dataclass(frozen=True, eq=False)
class RepositoryPickles:
    """Files written by torch.save in a folder of a repository; read for this machine's user only.

    Attributes:
        files: Files of the repository.
        folder: The folder, with a trailing slash; "" for the repository itself.
    """

    files: RepositoryFiles
    folder: str

    def open(self, found: str) -> PickledCheckpoint | JoinedParts:
        """Open a file written by torch.save, or several with an index; raise for anybody but this machine's user."""
        files = self.files
        if files.access.foreign:
            raise HubError(
                f"{files.name} has no .safetensors file, only the pickle {found!r:.80}; pickles can run code and are "
                f"not read in public mode or with token=False{self._instead()}"
            )
        path = self.folder + found
        if files.wire.commit is None:  # a file that the user named is the first that is asked for
            files.wire.pin(path, files.wire.deadline())
        if parts := parts_of(found, self._beside()):
            opened = tuple(self._open_file(self.folder + part) for part in parts)
            return JoinedParts(files.name, opened, None, files.access.limits, files.json("params.json", self.folder))
        if not found.endswith(".json"):
            return one_file(path, name=files.name, open_file=self._open_file)
        limit = files.access.limits.header_bytes
        raw = files.small(found, self.folder, limit=limit) or b""
        index = parse_json(raw, size=len(raw), name=path, limit=limit, kind=dict, unique=True)
        stored = weight_map(index, name=path, suffix=".bin")
        return PickledCheckpoint(files.name, stored, lambda file: self._open_file(self.folder + file))

    def _beside(self) -> Iterator[str]:
        """Yield the names of the files of the folder, which are not listed before one is asked for."""
        yield from (path.removeprefix(self.folder) for path in self.files.listing if path.startswith(self.folder))

    def _open_file(self, path: str) -> PickledFile:
        """Return a pickled file; it is fetched only if a child has to read it, not for results that are cached."""
        files, limits = self.files, self.files.access.limits
        identity, likely = (files.wire.repo, files.commit), files.access.likely
        if (here := in_hub_cache(files.wire.repo, path, files.commit)) is not None:
            size = here.stat().st_size
            return PickledFile(path, identity, size, lambda: nullcontext(here), files.cache, limits, likely=likely)
        size = int(files.fetch_once("file", f"{path}?size", partial(self._size, path)))
        return PickledFile(path, identity, size, partial(self._fetched, path, size), files.cache, limits, likely=likely)

    def _size(self, path: str) -> bytes:
        """Return a file's size as text, after a look at its first bytes."""
        start, wire = bytearray(), self.files.wire
        version = wire.read(path, range(8), start.extend, deadline=wire.deadline())
        check_start(bytes(start), name=path)
        return str(version.size).encode()

    @contextmanager
    def _fetched(self, path: str, size: int) -> Iterator[Path]:
        """Provide a pickled file as a whole on this machine; it is fetched if that is allowed, and cached."""
        files, access = self.files, self.files.access
        key, most = files.key("file", path), access.limits.table_bytes
        entry = files.kept(key)
        if entry is None:
            found = f"{files.name}: {path} is a pickle of {size:,} bytes, which cannot be read in part"
            if size > most:
                raise HubError(f"{found}; the limit is {most:,}{self._instead()}")
            if not access.allow_full_download:
                agree = "set allow_full_download=True, or --allow-full-download, to read it whole"
                raise HubError(f"{found}; {agree}{self._instead()}")
            with files.cache.write(key, size=size) as writer:
                files.wire.read(path, None, writer.write, most=size, deadline=files.wire.deadline(size))
            entry = files.keep(key, writer.entry)
        with copied(entry, name=path) as file:
            yield file

    def _instead(self) -> str:
        """Return the end of a sentence that names a revision with safetensors; "" if none is found quickly."""
        wire = self.files.wire
        found = with_safetensors(wire, Deadline(min(_LOOK_SECONDS, wire.deadline().left)))
        return "" if found is None else f"; use {wire.repo}@{found}, which has safetensors"


@dataclass(frozen=True, eq=False)
class Located:
    """Where a repository keeps its tensors.

    Attributes:
        folder: Folder of the checkpoint in the repository, with a trailing slash; "" for the repository itself.
        shards: Safetensors file of each tensor.
        stored: The checkpoint, if it is not in safetensors files: a pickle, or one of ``formats``.
        stating: The checkpoint, if its format can state token labels.
    """

    folder: str
    shards: Mapping[str, str]
    stored: StoredTensors | None = None
    stating: FormatCheckpoint | None = None


@dataclass(eq=False)
class Locator:
    """Finds the checkpoint of one repository, and reads its first header or its index."""

    files: RepositoryFiles
    tensors: RepositoryTensors

    def locate(self, deadline: Deadline, path: str = "") -> Located:
        """Find the checkpoint's files and read the first header or the index.

        Args:
            deadline: Deadline of the read.
            path: Folder or file of the repository to open; "" for the repository itself.
        """
        if path:
            return self._at(path, deadline)
        files, wire = self.files, self.files.wire
        if files.listed and not {MODEL, INDEX} & set(files.listing):
            return self._listed(deadline)
        index_first = wire.commit is not None and (
            files.kept(files.key("file", INDEX)) is not None or in_hub_cache(wire.repo, INDEX, wire.commit) is not None
        )
        if not index_first:
            try:
                return Located("", self._in_file(MODEL, deadline))
            except MissingFileError:
                pass
        indexed = self._in_index(INDEX, "", deadline)
        return self._listed(deadline) if indexed is None else Located("", indexed)

    def _at(self, path: str, deadline: Deadline) -> Located:
        """Open the checkpoint in one folder or file of the repository."""
        folder, slash, file = path.rpartition("/")
        if is_checkpoint(file):
            return self._chosen(folder + slash, file, deadline)
        inside = f"{path}/"
        try:
            return Located(inside, self._in_file(inside + MODEL, deadline))
        except MissingFileError:
            pass
        if path in self.files.listing:
            raise fault(f"{self.files.name}/{path}", foreign_file(path))
        if not any(one.startswith(inside) for one in self.files.listing):
            listed = sorted({one.rpartition("/")[0] for one in self.files.listing if "/" in one})
            known = f"its folders are {shortened(', '.join(listed))}" if listed else "it has no folders"
            raise MissingFileError(f"{self.files.name} has no folder or checkpoint file {path!r:.80}; {known}")
        return self._listed(deadline, inside)

    def _chosen(self, folder: str, file: str, deadline: Deadline) -> Located:
        """Open one file of a folder, which ends with a slash unless it is the repository itself."""
        if is_pickled(file):
            return Located(folder, {}, RepositoryPickles(self.files, folder).open(file))
        if is_index(file):
            return Located(folder, self._in_index(file, folder, deadline) or {})
        if has_format(file):
            ranges = HubRanges.open(self.files, folder + file)
            opened = open_format(ranges, self.files.access.limits)
            return Located(folder, {}, opened, opened)
        return Located(folder, self._in_file(folder + file, deadline))

    def _in_file(self, file: str, deadline: Deadline) -> dict[str, str]:
        return dict.fromkeys(self.tensors.header(file, deadline).tensors, file)

    def _in_index(self, file: str, folder: str, deadline: Deadline) -> dict[str, str] | None:
        """Return the file of each tensor listed in an index, or ``None`` if there is no index."""
        limit = self.files.access.limits.header_bytes
        raw = self.files.small(file, folder, limit=limit, deadline=deadline)
        if raw is None:
            return None
        index = parse_json(raw, size=len(raw), name=file, limit=limit, kind=dict, unique=True)
        return {tensor: folder + shard for tensor, shard in weight_map(index, name=file).items()}

    def _listed(self, deadline: Deadline, within: str = "") -> Located:
        """Find the only checkpoint in a folder of the repository, whatever its name, or in its first module's."""
        files, name, listing = self.files, self.files.name, self.files.listing
        folders = [within, *self._first_module(within)]
        for choose in (choose_file, choose_pickle, choose_format):
            for folder in folders:
                inside = [file.removeprefix(folder) for file in listing if file.startswith(folder)]
                shown = source_inside(name, folder.rstrip("/"), hub=True) if folder else name
                source = partial(source_inside, shown, hub=True)
                found = choose([file for file in inside if "/" not in file], name=shown, source=source)
                if found is not None:
                    return self._chosen(folder, found, deadline)
            if choose is choose_pickle:
                folders.append(f"{within}{EXPORTS}/")  # a folder of other formats only
        if files.offline:
            here = shortened(", ".join(file for file in listing if file.startswith(within)) or "nothing")
            raise OfflineError(
                f"{f'{name}/{within}'.rstrip('/')}: the Hub cannot be reached, and the cache of huggingface_hub has no "
                f"checkpoint of it, only {here}; read it once online"
            )
        below = [file.removeprefix(within) for file in listing if file.startswith(within)]
        path = source_inside(name, within, hub=True).rstrip("/") if within else name
        raise no_checkpoint(below, name=f"{name}/{within}".rstrip("/"), path=path, hub=True)

    def _first_module(self, within: str) -> tuple[str, ...]:
        """Return the folder of the model, with a trailing slash, if a folder is that of sentence-transformers."""
        limit, listing = self.files.access.limits.config_bytes, self.files.listing
        raw = self.files.small(MODULES, within, limit=limit) if within + MODULES in listing else None
        if raw is None:
            folder = f"{within}{TRANSFORMER}/"
            return (folder,) if any(file.startswith(folder) for file in listing) else ()
        path = module_folder(parse_json(raw, size=len(raw), name=MODULES, limit=limit, kind=list))
        return () if path is None else (f"{within}{path}/",)
