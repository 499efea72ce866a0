"""Finds the checkpoint among the files of a Hub repository: safetensors, pickles, or a file that is read by ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ...errors import HubError, MissingFileError, OfflineError
from ..deadline import Deadline
from ..file_choice import (
    INDEX,
    KINDS,
    MODEL,
    MODULES,
    TRANSFORMER,
    choose,
    foreign_file,
    has_format,
    is_checkpoint,
    is_index,
    is_pickled,
    module_folder,
    no_checkpoint,
    weight_map,
)
from ..folder_layouts import EXPORTS, source_inside
from ..formats import ReadTensors, open_format
from ..pickles.checkpoint import PickledCheckpoint, PickledFile, check_start, copied, one_file
from ..pickles.joined_parts import JoinedParts, parts_of
from ..safetensors.checkpoint import Checkpoint
from ..strict_json import fault, parse_json, shortened
from .files import RepositoryFiles, in_hub_cache, with_safetensors
from .ranges import HubRanges, HubShards

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
            files.wire.pin(path)
        if parts := parts_of(found, self._beside()):
            opened = tuple(self._open_file(self.folder + part) for part in parts)
            return JoinedParts(files.name, opened, files.access.limits, files.json("params.json", self.folder))
        if not found.endswith(".json"):
            return one_file(path, name=files.name, open_file=self._open_file, limits=files.access.limits)
        limit = files.access.limits.header_bytes
        raw = files.small(found, self.folder, limit=limit) or b""
        index = parse_json(raw, size=len(raw), name=path, limit=limit, kind=dict, unique=True)
        stored = weight_map(index, name=path, suffix=".bin")
        open_file: Callable[[str], PickledFile] = lambda file: self._open_file(self.folder + file)  # noqa: E731
        return PickledCheckpoint(files.name, stored, open_file, limits=files.access.limits)

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


Located: TypeAlias = tuple[str, ReadTensors]
"""A checkpoint and before it its folder in the repository, with a trailing slash; "" for the repository itself."""


@dataclass(eq=False)
class Locator:
    """Finds the checkpoint of one repository, and reads its first header or its index.

    Attributes:
        files: Files of the repository.
        shards: Opens its safetensors files.
        name: Name of the checkpoint in messages.
    """

    files: RepositoryFiles
    shards: HubShards
    name: str

    def locate(self, path: str = "") -> Located:
        """Find the checkpoint's files and read the first header or the index.

        Args:
            path: Folder or file of the repository to open; "" for the repository itself.
        """
        if path:
            return self._at(path)
        files, wire = self.files, self.files.wire
        if files.listed and not {MODEL, INDEX} & set(files.listing):
            return self._listed()
        index_first = wire.commit is not None and (
            files.kept(files.key("file", INDEX)) is not None or in_hub_cache(wire.repo, INDEX, wire.commit) is not None
        )
        if not index_first:
            try:
                return "", self._in_file(MODEL)
            except MissingFileError:
                pass
        indexed = self._in_index(INDEX, "")
        return self._listed() if indexed is None else ("", indexed)

    def of_shards(self, files: Mapping[str, str]) -> Checkpoint:
        """Return the checkpoint in safetensors files, given the file of each tensor."""
        self.shards.expect(files)
        return Checkpoint(self.name, files, self.shards.open, limits=self.files.access.limits)

    def _at(self, path: str) -> Located:
        """Open the checkpoint in one folder or file of the repository."""
        folder, slash, file = path.rpartition("/")
        if is_checkpoint(file):
            return self._chosen(folder + slash, file)
        inside = f"{path}/"
        try:
            return inside, self._in_file(inside + MODEL)
        except MissingFileError:
            pass
        if path in self.files.listing:
            raise fault(f"{self.files.name}/{path}", foreign_file(path))
        if not any(one.startswith(inside) for one in self.files.listing):
            listed = sorted({one.rpartition("/")[0] for one in self.files.listing if "/" in one})
            known = f"its folders are {shortened(', '.join(listed))}" if listed else "it has no folders"
            raise MissingFileError(f"{self.files.name} has no folder or checkpoint file {path!r:.80}; {known}")
        return self._listed(inside)

    def _chosen(self, folder: str, file: str) -> Located:
        """Open one file of a folder, which ends with a slash unless it is the repository itself."""
        if is_pickled(file):
            return folder, RepositoryPickles(self.files, folder).open(file)
        if is_index(file):
            return folder, self._in_index(file, folder) or self.of_shards({})
        if has_format(file):
            return folder, open_format(HubRanges.open(self.files, folder + file), self.files.access.limits)
        return folder, self._in_file(folder + file)

    def _in_file(self, file: str) -> Checkpoint:
        shard = self.shards.open(file)
        limits = self.files.access.limits
        return Checkpoint.of_one(self.name, file, shard.header.tensors, shard, self.shards.open, limits=limits)

    def _in_index(self, file: str, folder: str) -> Checkpoint | None:
        """Return the checkpoint whose tensors are listed in an index, or ``None`` if there is no index."""
        limit = self.files.access.limits.header_bytes
        raw = self.files.small(file, folder, limit=limit)
        if raw is None:
            return None
        index = parse_json(raw, size=len(raw), name=file, limit=limit, kind=dict, unique=True)
        return self.of_shards({tensor: folder + shard for tensor, shard in weight_map(index, name=file).items()})

    def _listed(self, within: str = "") -> Located:
        """Find the only checkpoint in a folder of the repository, whatever its name, or in its first module's."""
        files, name, listing = self.files, self.files.name, self.files.listing
        folders = [within, *self._first_module(within)]
        for kind in KINDS:
            for folder in folders:
                inside = [file.removeprefix(folder) for file in listing if file.startswith(folder)]
                shown = source_inside(name, folder.rstrip("/"), hub=True) if folder else name
                source = partial(source_inside, shown, hub=True)
                found = choose(kind, [file for file in inside if "/" not in file], name=shown, source=source)
                if found is not None:
                    return self._chosen(folder, found)
            if kind == "pickle":
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
