"""Checkpoints on the Hugging Face Hub: reads the header, then exactly the requested tensors."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from numpy.typing import NDArray

from ...errors import HubError, OfflineError
from ...lazy_attributes import lazy_attribute
from ...progress import Traffic
from ...tables.sources import HubSource
from ..access import STRANGER, Access, Visitor
from ..deadline import one_read
from ..file_choice import INDEX, is_checkpoint
from ..folder_layouts import settings_folders, tokenizer_folders
from ..formats import ReadTensors
from ..pickles.checkpoint import PickledCheckpoint
from ..safetensors.checkpoint import Checkpoint, TensorInfo
from ..stated_roles import StatedRoles, stated_roles
from ..tokenizers.small_files import of_templates
from ..tokenizers.vocabulary_files import needed_files
from .files import RepositoryFiles, pin
from .http import Wire
from .locate import Located, Locator
from .ranges import HubShards

if TYPE_CHECKING:
    from ...tables.table import Labels
    from ...tables.token_marks import TokenMarks


@dataclass(eq=False)
class HubCheckpoint:
    """Checkpoint of a Hub repository at one commit; nothing is fetched twice, thanks to the disk cache.

    All errors are ``SourceError`` or its subclasses.

    Attributes:
        source: Repository and path, as asked for.
        files: Whole files of the repository.
        shards: Opens its safetensors files.
        folder: Folder of the checkpoint in the repository, with a trailing slash; "" for the repository itself.
        stored: The checkpoint there.
        notes: Remarks for the user about how it was found.
    """

    source: HubSource
    files: RepositoryFiles
    shards: HubShards
    folder: str
    stored: ReadTensors
    notes: list[str] = field(default_factory=list)
    _sent: Access = field(init=False, repr=False)
    """What an unpickled checkpoint is opened with, when another process first uses it."""

    @property
    def name(self) -> str:
        """Name in messages."""
        return str(replace(self.source, tables={}))

    @property
    def file(self) -> str:
        """Name of its file, of the first of several; "" if it has no tensors."""
        name = next(iter(self.names()), None)
        if name is None:
            return ""
        path = self.stored.files[name] if _is_in_shards(self.stored) else self.info(name).file
        return path.rpartition("/")[2]

    @property
    def commit(self) -> str:
        """Commit at which everything is read."""
        return self.files.commit

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes so far."""
        return self.files.wire.traffic

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle repository and commit, without a token; another process opens it when it first uses it."""
        if "_sent" in vars(self):
            return _unopened, (self.source, self._sent)
        token: str | bool | Visitor | None = self.files.access.token
        if isinstance(token, str | Visitor):
            token = STRANGER if isinstance(token, Visitor) else None
        access = replace(self.files.access, token=token, cache=None, traffic=None)
        return _unopened, (self.source.at(self.commit), access)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Open a checkpoint that was unpickled. Raises ``SourceError`` or a subclass."""
            if name not in ("files", "shards", "folder", "stored", "notes") or "_sent" not in vars(self):
                raise AttributeError(name)
            return getattr(self._reopened, name)

    @lazy_attribute
    def _reopened(self) -> HubCheckpoint:
        return open_hub(self.source, self._sent)

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, without a request."""
        return self.stored.names()

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location; fetches the header of its file if necessary."""
        return self.stored.info(name)

    def at_hand(self, name: str) -> bool:
        """Return whether ``info`` needs no request for a tensor."""
        stored = self.stored
        return not _is_in_shards(stored) or stored.is_open(name) or self.shards.at_hand(stored.files[name])

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers, merged over those read so far."""
        return self.stored.metadata()

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        return self.stored.file_bytes(name)

    def config(self) -> dict[str, Any] | None:
        """Return the configuration that the checkpoint states itself, else config.json, else ``None``."""
        stated: dict[str, Any] | None = self._says("config")
        return stated or self.json("config.json")

    def json(self, file: str) -> dict[str, Any] | None:
        """Return a small JSON file next to the checkpoint, or ``None`` if there is none."""
        found = (self.files.json(file, folder) for folder in settings_folders(self.folder))
        return next((one for one in found if one is not None), None)

    def text(self, file: str) -> str | None:
        """Return a small text file next to the checkpoint, or ``None`` if the listing of the repository has none."""
        inside, limit = self.folder, self.files.access.limits.config_bytes
        if file.endswith("/"):
            there = (one.removeprefix(inside + file) for one in self.files.listing if one.startswith(inside + file))
            return "\n".join(filter(None, (self.text(file + one) for one in of_templates(there)))) or None
        if inside + file not in self.files.listing:
            return None
        raw = self.files.small(file, inside, limit=limit)
        return None if raw is None else raw.decode(errors="replace")

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only; see ``Checkpoint.read``.

        A few rows of a large table are fetched alone; otherwise the whole tensor is fetched once and cached.
        """
        if not _is_in_shards(self.stored):
            return self.stored.read(name, start, stop)
        with one_read(self.files.access.limits.seconds):
            return self.stored.read(name, start, stop)

    def roles(self) -> StatedRoles:
        """Return the tables of each role that the checkpoint itself states."""
        return stated_roles(self.stored)

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as they are stored, fetched as by ``read``."""
        assert isinstance(self.stored, Checkpoint)
        with one_read(self.files.access.limits.seconds):
            return self.stored.codes(name, start, stop)

    @property
    def stores_codes(self) -> bool:
        """Whether quantised tables are several tensors, rather than decoded by the reader of their format."""
        return isinstance(self.stored, Checkpoint)

    def labels(self, rows: int) -> Labels | None:
        """Return labels for ``rows`` token rows that the checkpoint itself states; ``None`` if it states none."""
        stated: Labels | None = self._says("labels", rows)
        return stated

    def marks(self, labels: Labels) -> TokenMarks | None:
        """Return the token marks that the checkpoint itself states; ``None`` if it states none."""
        stated: TokenMarks | None = self._says("marks", labels)
        return stated

    def stated(self, name: str) -> Any:
        """Return an attribute that only some formats have, such as ``vocabulary``; ``None`` if this one has not."""
        return getattr(self.stored, name, None)

    def _says(self, name: str, *given: Any) -> Any:
        """Call a method that only some formats have; ``None`` if this one has not."""
        method = self.stated(name)
        return None if method is None else method(*given)

    def tokenizer_folder(self) -> Path | None:
        """Return a local folder with the tokenizer's files, fetched on the first call; ``None`` if there are none."""
        with one_read(self.files.access.limits.seconds):
            return self._tokenizer

    def without_tokens(self) -> bool:
        """Return whether no file states the vocabulary, as far as is known without a request."""
        return self.stated("labels") is None and self.files.listed and next(self._stating(), None) is None

    def _stating(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each folder with a vocabulary, the most likely first, and the files that are needed of it."""
        for inside in tokenizer_folders(self.folder):
            names = [file.removeprefix(inside) for file in self.files.listing if file.startswith(inside)]
            if needed := needed_files(names):
                yield inside, needed

    @lazy_attribute
    def _tokenizer(self) -> Path | None:
        files = self.files
        inside, there = next(self._stating(), ("", ()))
        if not there:
            return None
        folder = tempfile.TemporaryDirectory(prefix="hfposemb-")
        weakref.finalize(self, folder.cleanup)
        for file in there:
            most = files.access.limits.tokenizer_bytes
            files.wire.deadline(most)  # as long as the file may take
            raw = files.small(file, inside, limit=most)
            if raw is not None:
                (Path(folder.name) / file).write_bytes(raw)
        return Path(folder.name)


def open_hub(source: HubSource, access: Access, *, index_first: bool = False, tensors: bool = True) -> HubCheckpoint:
    """Open a repository on the Hub; fetches its first header and its configuration in parallel, but no tensor.

    Files that Hugging Face's own cache has at the same commit are read from there.

    Args:
        source: Repository and revision.
        access: Credentials and limits.
        index_first: Whether to ask for an index before model.safetensors, which saves a request if there is one.
        tensors: Whether to look for tensors; without, only the small files beside them can be read.

    Raises:
        SourceError: If the repository cannot be read, including all subclasses.
    """
    try:
        with one_read(access.limits.seconds):
            return _opened(source, access, index_first=index_first, with_tensors=tensors)
    except HubError as error:
        error.args = (f"{error}{_folder_here(source, access)}", *error.args[1:])
        raise


def _unopened(source: HubSource, sent: Access) -> HubCheckpoint:
    """Return an unpickled checkpoint, whose user's own token is used: one that the caller passed is a secret."""
    found = HubCheckpoint.__new__(HubCheckpoint)
    found.source, found._sent = source, sent
    return found


def _opened(source: HubSource, access: Access, *, index_first: bool, with_tensors: bool) -> HubCheckpoint:
    revision = source.revision or "main"
    wire = Wire(source.repo, revision, access.sent, access.limits, access.allow_full_download, traffic=access.traffic)
    cache = access.own_cache
    files = RepositoryFiles(str(replace(source, path="", tables={})), wire, cache, access)
    shards = HubShards(files)
    locator = Locator(files, shards, str(replace(source, tables={})))
    branch = ("commit", source.repo, revision, "anybody" if access.foreign else "user")
    notes = pin(files, branch)
    if index_first:
        files.small(INDEX, folder_of(source.path), limit=access.limits.header_bytes)
    with ThreadPoolExecutor(1) as beside:
        config = beside.submit(copy_context().run, files.json, "config.json", folder_of(source.path))
        bare = folder_of(source.path), locator.of_shards({})
        folder, stored = _located(locator, source.path) if with_tensors else bare
        config.result()
    cache.put(branch, files.commit.encode())
    return HubCheckpoint(source, files, shards, folder, stored, notes)


def _located(locator: Locator, path: str) -> Located:
    """Return where a repository keeps its tensors, among the files of this machine if the Hub cannot be reached."""
    offline = locator.files.offline
    try:
        return locator.locate(path)
    except OfflineError:
        if offline or not locator.files.go_offline():
            raise
    return locator.locate(path)


def _is_in_shards(stored: ReadTensors) -> TypeGuard[Checkpoint]:
    """Return whether a checkpoint is in safetensors files, whose headers are read one by one."""
    return isinstance(stored, Checkpoint) and not isinstance(stored, PickledCheckpoint)


def _folder_here(source: HubSource, access: Access) -> str:
    """Return what to write if a folder or file of the working directory has this name; "" if none, or for others."""
    name = "/".join(filter(None, (source.repo, source.path)))
    if access.foreign or source.revision not in (None, "main") or not os.path.exists(name):
        return ""
    return f"; {'a folder' if os.path.isdir(name) else 'a file'} of this name is here: write ./{name}"


def folder_of(path: str) -> str:
    """Return the folder of a path in a repository, with a trailing slash unless it is the repository itself."""
    if path and not is_checkpoint(path.rpartition("/")[2]):
        return f"{path}/"
    folder, slash, _ = path.rpartition("/")
    return folder + slash
