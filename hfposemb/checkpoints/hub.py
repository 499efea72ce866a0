"""Checkpoints on the Hugging Face Hub: reads the header, then exactly the requested tensors."""

from __future__ import annotations

import re
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..cache import Cache, Entry, Key
from ..errors import ChangedFileError, CheckpointError, HubError, MissingFileError, OfflineError
from ..tables.sources import HubSource
from ..transfers import Traffic
from .deadline import Deadline, one_read
from .http import Version, Wire
from .hub_access import Access
from .hub_cache import commit_here, in_hub_cache
from .limits import Limits
from .locate import (
    INDEX,
    MODEL,
    MODULES,
    PICKLE_INDEX,
    TRANSFORMER,
    choose_file,
    choose_pickle,
    is_index,
    module_folder,
    no_checkpoint,
    weight_map,
)
from .pickled import PickledCheckpoint, PickledFile, check_start, copied, one_file, shards
from .reopened import Reopened
from .safetensors import Checkpoint, Header, TensorInfo, as_rows, check_read, header_length, parse_header
from .strict_json import parse_json

_T = TypeVar("_T")


FIRST_BYTES = 100_000
"""Size of the first request for a file, which nearly always covers the whole header."""


ROWS_BYTES = 2**20
"""Smaller ranges of rows are fetched alone if the table is larger; otherwise the whole table is fetched and cached."""


TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "bpe.codes",
)


_LISTING_BYTES = 20_000_000


_LOOK_SECONDS = 5.0


_REFS = 5  # number of revisions searched for safetensors


_REF = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}"


_PULL = r"refs/pr/(\d{1,9})"


@dataclass(frozen=True)
class _File:
    """One safetensors file of the repository: its header, and the version that its bytes must have."""

    header: Header
    version: Version


@dataclass(eq=False)
class HubCheckpoint:
    """Checkpoint of a Hub repository at one commit; nothing is fetched twice, thanks to the disk cache.

    ``notes`` are remarks for the user about how it was found. All errors are ``SourceError`` or its subclasses.
    """

    name: str
    wire: Wire
    cache: Cache
    access: Access
    notes: list[str] = field(default_factory=list)
    _files: dict[str, str] = field(default_factory=dict, repr=False)
    _headers: dict[str, _File] = field(default_factory=dict, repr=False)
    _entries: dict[Key, Entry] = field(default_factory=dict, repr=False)
    _local: dict[str, Checkpoint] = field(default_factory=dict, repr=False)
    _absent: set[str] = field(default_factory=set, repr=False)
    _fetching: Lock = field(default_factory=Lock, repr=False)
    _versions: Lock = field(default_factory=Lock, repr=False)
    _shown: set[str] = field(default_factory=set, repr=False)
    """Files of which rows were returned, so that their version can no longer change."""
    _pickled: PickledCheckpoint | None = field(default=None, repr=False)
    _folder: str = ""
    """Folder of the checkpoint in the repository, with a trailing slash."""

    @property
    def commit(self) -> str:
        """Commit at which everything is read."""
        assert self.wire.commit is not None
        return self.wire.commit

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes so far."""
        return self.wire.traffic

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle repository and commit, without a token; another process opens it when needed."""
        found = Reopened(self.wire.repo, self.commit, self.access, open_hub).without_token()
        return Reopened, (found.repo, found.commit, found.access, found.open)

    # --- as any other checkpoint --------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, without a request."""
        return tuple(self._files) if self._pickled is None else self._pickled.names()

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; fetches the header of its file if necessary."""
        if self._pickled is not None:
            return self._pickled.info(name)
        file = self._files.get(name)
        if file is None:
            raise CheckpointError(f"{self.name} has no tensor {name!r:.80} among its {len(self._files)}")
        found = self._file(file).header.tensors
        if name not in found:
            raise CheckpointError(f"{file}: the index puts {name!r:.80} into this shard, its header does not list it")
        return found[name]

    def metadata(self) -> Mapping[str, str]:
        """Return ``__metadata__``, merged over the headers read so far."""
        if self._pickled is not None:
            return self._pickled.metadata()
        return MappingProxyType({k: v for file in self._headers.values() for k, v in file.header.metadata.items()})

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        if self._pickled is not None:
            return self._pickled.file_bytes(name)
        return self._file(self._files[name]).header.file_bytes

    def config(self) -> dict[str, Any] | None:
        """Return config.json, or ``None`` if there is none."""
        return self.json("config.json")

    def json(self, file: str) -> dict[str, Any] | None:
        """Return a small JSON file next to the checkpoint, or ``None`` if there is none."""
        limit = self.access.limits.config_bytes
        raw = self._small(file, limit=limit)
        return None if raw is None else parse_json(raw, size=len(raw), name=file, limit=limit, kind=dict)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; see ``Checkpoint.read``.

        A few rows of a large table are fetched alone; otherwise the whole tensor is fetched once and cached.
        """
        if self._pickled is not None:
            return self._pickled.read(name, start, stop)
        with one_read(self.access.limits.seconds):
            info = self.info(name)
            if (local := self._local.get(info.file)) is not None:
                return local.read(name, start, stop)
            span = check_read(info, start, stop, limits=self.access.limits)
            return as_rows(self._bytes(info, span), info, start, stop)

    def _bytes(self, info: TensorInfo, span: range) -> NDArray[np.uint8]:
        """Return bytes of a tensor, from the same version of its file as all others."""
        known = self._headers[info.file]
        entry = self._kept(self._table_key(info, known))
        if entry is not None:
            self._settle(info.file, known)
        elif len(span) < ROWS_BYTES and 2 * len(span) < info.nbytes:
            return np.frombuffer(self._of_one_version(info.file, partial(self._fetch_rows, info.file, span)), np.uint8)
        else:
            entry = self._fetch_table(info)
        return entry.view()[span.start - info.start : span.stop - info.start]

    def _table_key(self, info: TensorInfo, file: _File) -> Key:
        return ("table", self.wire.repo, self.commit, info.file, info.name, file.version.etag)

    def tokenizer_folder(self) -> Path | None:
        """Return a local folder with the tokenizer's files, fetched on the first call; ``None`` if there are none."""
        with one_read(self.access.limits.seconds):
            return self._tokenizer

    # --- files --------------------------------------------------------------------------------------------------------

    @cached_property
    def listing(self) -> tuple[str, ...]:
        """Names of all files of the repository at this commit."""
        raw = self._keep("file", "?listing", partial(_list_files, self.wire))
        return tuple(raw.decode().split("\n"))

    @cached_property
    def _tokenizer(self) -> Path | None:
        there = [file for file in TOKENIZER_FILES if self._folder + file in self.listing]
        if "tokenizer.json" in there:
            there = ["tokenizer.json"]  # no other file is needed then
        if not there:
            return None
        folder = tempfile.TemporaryDirectory(prefix="hfposemb-")
        weakref.finalize(self, folder.cleanup)
        for file in there:
            most = self.access.limits.tokenizer_bytes
            raw = self._small(file, limit=most, deadline=self.wire.deadline(most))
            if raw is not None:
                (Path(folder.name) / file).write_bytes(raw)
        return Path(folder.name)

    def _small(self, file: str, *, limit: int, deadline: Deadline | None = None) -> bytes | None:
        """Return a whole file, from this machine if it is there; ``None`` if the repository does not have it."""
        path = self._folder + file
        if path in self._absent:
            return None
        if (here := in_hub_cache(self.wire.repo, path, self.wire.commit)) is not None:
            raw = here.read_bytes()[: limit + 1]
            if len(raw) > limit:
                raise HubError(f"{self.name} {file} has more than {limit:,} bytes, which is the limit")
            return raw
        get = partial(self.wire.get, path, most=limit, deadline=deadline or self.wire.deadline())
        try:
            return self._keep("file", path, get)
        except MissingFileError:
            self._absent.add(path)
            return None

    def _keep(self, kind: str, path: str, get: Callable[[], bytes]) -> bytes:
        raw = None
        if self.wire.commit is None:
            raw = get()  # pins the commit
        key = (kind, self.wire.repo, self.commit, path)
        if raw is None and (entry := self._kept(key)) is not None:
            return entry.bytes()
        raw = get() if raw is None else raw
        self._entries[key] = self.cache.put(key, raw)
        return raw

    def _kept(self, key: Key) -> Entry | None:
        if key not in self._entries and (found := self.cache.find(key)) is not None:
            self._entries[key] = found
        return self._entries.get(key)

    def _file(self, file: str, deadline: Deadline | None = None) -> _File:
        if file not in self._headers:
            self._headers[file] = self._open_file(file, deadline or self.wire.deadline())
        return self._headers[file]

    def _open_file(self, file: str, deadline: Deadline) -> _File:
        """Return a file's header: from a local copy, from the cache, or fetched."""
        limits = self.access.limits
        if (here := in_hub_cache(self.wire.repo, file, self.wire.commit)) is not None:
            try:
                local = Checkpoint.open(here, limits=limits)
                header = local.header(here.name)
            except CheckpointError:
                pass  # incomplete download: read the file from the Hub instead
            else:
                self._local[file] = local
                return _File(_placed(header, file), Version(header.file_bytes, ""))
        if self.wire.commit is not None:
            entry = self._kept(("header", self.wire.repo, self.commit, file))
            if entry is not None:
                return _unpack(entry.bytes(), file, limits)
        return self._fetch_header(file, deadline)

    def _fetch_header(self, file: str, deadline: Deadline) -> _File:
        """Fetch and cache a file's header in one ranged read, or two if it is long."""
        limits = self.access.limits
        start = bytearray()
        version = self.wire.read(file, range(FIRST_BYTES), start.extend, deadline=deadline)
        length = header_length(bytes(start[:8]), file_bytes=version.size, name=file, limits=limits)
        if len(start) < 8 + length:
            rest = range(len(start), 8 + length)
            self.wire.read(file, rest, start.extend, deadline=deadline, same=version)
        text = bytes(start[8 : 8 + length])
        header = parse_header(text, file_bytes=version.size, name=file, limits=limits)
        key = ("header", self.wire.repo, self.commit, file)
        self._entries[key] = self.cache.put(key, f"{version.size} {version.etag}\n".encode() + text)
        return _File(header, version)

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

    def _fetch_rows(self, file: str, span: range, of: _File) -> bytes:
        part = bytearray()
        self.wire.read(file, span, part.extend, deadline=self.wire.deadline(len(span)), same=of.version)
        return bytes(part)

    def _fetch_entry(self, info: TensorInfo, span: range, of: _File) -> Entry:
        key = self._table_key(info, of)
        if (entry := self._kept(key)) is not None:
            return entry  # another thread fetched it in the meantime
        with self.cache.write(key, size=len(span)) as writer:
            self.wire.read(info.file, span, writer.write, deadline=self.wire.deadline(len(span)), same=of.version)
        self._entries[key] = writer.entry
        return writer.entry

    def _fetch_table(self, info: TensorInfo) -> Entry:
        """Return a whole tensor, fetched and cached; concurrent callers wait for the first one."""
        span = check_read(info, limits=self.access.limits)
        asked = time.monotonic()
        with self._fetching:
            self.wire.deadline().paused(time.monotonic() - asked)
            return self._of_one_version(info.file, partial(self._fetch_entry, info, span))

    def _renewed(self, file: str, known: _File) -> _File:
        """Fetch a file's header again, since a proxy may have answered the first request; raise if that is unsafe.

        It must equal the header known so far, and no rows of the other version may have been returned.
        """
        with self._versions:
            if self._headers[file] is not known:
                return self._headers[file]  # another thread renewed it
            if file in self._shown:
                raise ChangedFileError(f"{self.name} {file} changed between two reads; open it again")
            fresh = self._fetch_header(file, self.wire.deadline())
            same_tensors = dict(fresh.header.tensors.rows) == dict(known.header.tensors.rows)
            if not same_tensors or fresh.header.metadata != known.header.metadata:
                raise ChangedFileError(f"{self.name} {file} changed between two reads; open it again")
            self._headers[file] = fresh
            return fresh

    def _settle(self, file: str, of: _File) -> None:
        """Record that rows of a version were returned; raise if another version was settled on in the meantime."""
        with self._versions:
            if self._headers[file].version != of.version:
                raise ChangedFileError(f"{self.name} {file} changed between two reads; open it again")
            self._shown.add(file)

    # --- opening ------------------------------------------------------------------------------------------------------

    def open(self, deadline: Deadline) -> None:
        """Find the checkpoint's files and read the first header or the index."""
        listed = self.wire.commit is not None and self._kept(("file", self.wire.repo, self.commit, "?listing"))
        if listed and not {MODEL, INDEX} & set(self.listing):
            return self._use_listed(deadline)
        index_first = self.wire.commit is not None and (
            self._kept(("file", self.wire.repo, self.commit, INDEX)) is not None
            or in_hub_cache(self.wire.repo, INDEX, self.wire.commit) is not None
        )
        if not index_first:
            try:
                return self._use_file(MODEL, deadline)
            except MissingFileError:
                pass
        if not self._use_index(INDEX, deadline):
            self._use_listed(deadline)
        return None

    def _use_file(self, file: str, deadline: Deadline) -> None:
        self._files.update(dict.fromkeys(self._file(file, deadline).header.tensors, file))

    def _use_index(self, file: str, deadline: Deadline) -> bool:
        """Use the tensors listed in an index; return whether there is one."""
        limit = self.access.limits.header_bytes
        raw = self._small(file, limit=limit, deadline=deadline)
        if raw is None:
            return False
        index = parse_json(raw, size=len(raw), name=file, limit=limit, kind=dict, unique=True)
        files = weight_map(index, name=file)
        self._files.update({tensor: self._folder + shard for tensor, shard in files.items()})
        return True

    def _use_listed(self, deadline: Deadline) -> None:
        """Use the only checkpoint among the repository's files, whatever its name, or among its first module's."""
        for choose in (choose_file, choose_pickle):
            for folder in self._folders():
                inside = [file.removeprefix(folder) for file in self.listing if file.startswith(folder)]
                if (found := choose([file for file in inside if "/" not in file], name=self.name)) is None:
                    continue
                self._folder = folder
                if choose is choose_pickle:
                    self._use_pickled(found)
                elif is_index(found):
                    self._use_index(found, deadline)
                else:
                    self._use_file(folder + found, deadline)
                return
        raise no_checkpoint(self.listing, name=self.name, path=self.name, hub=True)

    def _folders(self) -> Iterator[str]:
        yield ""
        if self._first_module is not None:
            yield self._first_module

    # --- pickles ------------------------------------------------------------------------------------------------------

    def _use_pickled(self, found: str) -> None:
        """Use the tensors of a file written by torch.save, or of several with an index; never for anonymous access."""
        if self.access.anonymous:
            raise HubError(
                f"{self.name} holds no .safetensors file, but {found!r:.80}, a pickle, which can run code when it is "
                f"loaded: not read in public mode or with token=False{self._instead()}"
            )
        path = self._folder + found
        if not found.endswith(PICKLE_INDEX):
            self._pickled = one_file(path, name=self.name, open_file=self._open_pickled)
            return
        limit = self.access.limits.header_bytes
        raw = self._small(found, limit=limit) or b""
        index = parse_json(raw, size=len(raw), name=path, limit=limit, kind=dict, unique=True)
        beside = self._folder
        self._pickled = shards(
            index, name=self.name, file=path, open_file=lambda file: self._open_pickled(beside + file)
        )

    def _open_pickled(self, path: str) -> PickledFile:
        """Return a pickled file; it is fetched only if a child has to read it, not for results that are cached."""
        identity, limits = (self.wire.repo, self.commit), self.access.limits
        likely = self.access.likely
        if (here := in_hub_cache(self.wire.repo, path, self.commit)) is not None:
            size = here.stat().st_size
            return PickledFile(path, identity, size, lambda: nullcontext(here), self.cache, limits, likely=likely)
        size = int(self._keep("file", f"{path}?size", partial(self._size_of_pickle, path)))
        return PickledFile(path, identity, size, partial(self._fetched, path, size), self.cache, limits, likely=likely)

    def _size_of_pickle(self, path: str) -> bytes:
        start = bytearray()
        version = self.wire.read(path, range(8), start.extend, deadline=self.wire.deadline())
        check_start(bytes(start), name=path)
        return str(version.size).encode()

    @contextmanager
    def _fetched(self, path: str, size: int) -> Iterator[Path]:
        """Provide a pickled file as a whole on this machine; it is fetched if that is allowed, and cached."""
        key, most = ("file", self.wire.repo, self.commit, path), self.access.limits.table_bytes
        entry = self._kept(key)
        if entry is None:
            found = f"{self.name}: {path} is a pickle of {size:,} bytes, which cannot be read in part"
            if size > most:
                raise HubError(f"{found}; the limit is {most:,}{self._instead()}")
            if not self.access.allow_full_download:
                agree = "allow_full_download=True, or --allow-full-download, reads it all"
                raise HubError(f"{found}; {agree}{self._instead()}")
            with self.cache.write(key, size=size) as writer:
                self.wire.read(path, None, writer.write, most=size, deadline=self.wire.deadline(size))
            entry = self._entries[key] = writer.entry
        with copied(entry, name=path) as file:
            yield file

    def _instead(self) -> str:
        """Return the end of a sentence that names a revision with safetensors; "" if none is found quickly."""
        left = self.wire.deadline().left
        found = _with_safetensors(self.wire, Deadline(min(_LOOK_SECONDS, left)))
        return "" if found is None else f"; use {self.wire.repo}@{found}, which has safetensors"

    # --- opening, otherwise -------------------------------------------------------------------------------------------

    @cached_property
    def _first_module(self) -> str | None:
        """Folder of the model, with a trailing slash, if this is a sentence-transformers repository."""
        limit = self.access.limits.config_bytes
        raw = self._small(MODULES, limit=limit) if MODULES in self.listing else None
        if raw is None:
            return f"{TRANSFORMER}/" if any(file.startswith(f"{TRANSFORMER}/") for file in self.listing) else None
        path = module_folder(parse_json(raw, size=len(raw), name=MODULES, limit=limit, kind=list))
        return None if path is None else f"{path}/"


def open_hub(source: HubSource, access: Access) -> HubCheckpoint:
    """Open a repository on the Hub; fetches its first header and its configuration in parallel, but no tensor.

    Files that Hugging Face's own cache has at the same commit are read from there.

    Args:
        source: Repository and revision.
        access: Credentials and limits.

    Raises:
        SourceError: If the repository cannot be read, including all subclasses.
    """
    revision = source.revision or "main"
    wire = Wire(source.repo, revision, access.token, access.limits, access.allow_full_download)
    cache = access.cache or Cache.default(limit=access.limits.cache_bytes)
    opened = HubCheckpoint(f"{source.repo}@{revision}" if source.revision else source.repo, wire, cache, access)
    deadline = wire.deadline()
    branch = ("commit", source.repo, revision, "anybody" if access.anonymous else "user")
    _pin(opened, branch, deadline)
    with ThreadPoolExecutor(1) as beside:
        config = beside.submit(copy_context().run, opened.config)
        opened.open(deadline)
        config.result()
    cache.put(branch, opened.commit.encode())
    return opened


def _pin(opened: HubCheckpoint, branch: Key, deadline: Deadline) -> None:
    """Resolve the revision to a commit if this machine may have read it before; otherwise the first response does.

    Offline, use the commit that the revision referred to when it was last read, and add a note about it.
    """
    wire, anonymous = opened.wire, opened.access.anonymous
    if re.fullmatch(r"[0-9a-f]{40}", wire.revision) and not anonymous:
        wire.commit = wire.revision
        return
    kept = opened.cache.find(branch)
    known = kept.bytes().decode("ascii", "replace") if kept is not None else None
    here = commit_here(wire.repo, wire.revision)
    if known is None and here is None:
        return
    try:
        wire.pin("config.json", deadline)
    except OfflineError:
        # Without a token, show only what was previously read without one.
        commit = known or (None if anonymous else here)
        if commit is None or not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise
        wire.commit = commit
        opened.notes.append(
            f"the Hub cannot be reached: this is commit {commit[:8]}, which {wire.revision} was when it was last read"
        )


def _list_files(wire: Wire) -> bytes:
    path = f"/api/models/{wire.repo}/revision/{wire.commit}"
    raw = wire.api(path, most=_LISTING_BYTES, deadline=wire.deadline())
    found = parse_json(raw, size=len(raw), name="the Hub's answer", limit=_LISTING_BYTES, kind=dict)
    if found.get("sha", wire.commit) != wire.commit:
        raise HubError(f"{wire.repo}: the Hub lists the files of another commit than was asked for; try again")
    siblings = found.get("siblings")
    names = [one.get("rfilename") for one in siblings if isinstance(one, dict)] if isinstance(siblings, list) else []
    return "\n".join(name for name in names if isinstance(name, str) and name.isprintable()).encode()


def list_refs(wire: Wire, deadline: Deadline) -> list[str]:
    """Return the names of a repository's revisions: branches, tags and pull requests. Raises ``SourceError``."""
    raw = wire.api(f"/api/models/{wire.repo}/refs?include_prs=1", most=_LISTING_BYTES, deadline=deadline)
    refs = parse_json(raw, size=len(raw), name="the Hub's answer", limit=_LISTING_BYTES, kind=dict)
    listed = [
        one.get("ref") for kind in refs.values() if isinstance(kind, list) for one in kind if isinstance(one, dict)
    ]
    return [ref.removeprefix("refs/heads/") for ref in listed if isinstance(ref, str) and re.fullmatch(_REF, ref)]


def _with_safetensors(wire: Wire, deadline: Deadline) -> str | None:
    """Return a revision with safetensors files, such as a pull request opened by the Hub's converter, or ``None``."""
    try:
        names = list_refs(wire, deadline)
    except (HubError, CheckpointError):
        return None
    pulls = sorted((int(match[1]) for name in names if (match := re.fullmatch(_PULL, name))), reverse=True)
    wanted = [name for name in names if "safetensors" in name] + [f"refs/pr/{number}" for number in pulls]
    for name in wanted[:_REFS]:
        there = Wire(wire.repo, name, wire.token, wire.limits, traffic=wire.traffic)
        for file in (MODEL, INDEX):
            with suppress(HubError, CheckpointError):
                there.read(file, range(1), lambda _: None, deadline=deadline)
                return name
    return None


def _unpack(packed: bytes, file: str, limits: Limits) -> _File:
    """Parse a header as ``_fetch_header`` caches it: size and ETag of the file, then the header's text."""
    first, _, text = packed.partition(b"\n")
    size, _, etag = first.decode().partition(" ")
    return _File(parse_header(text, file_bytes=int(size), name=file, limits=limits), Version(int(size), etag))


def _placed(header: Header, file: str) -> Header:
    """Return a local file's header with the repository's path of the file in its tensors."""
    return Header(header.tensors.placed(file), header.metadata, header.data_start, header.file_bytes)
