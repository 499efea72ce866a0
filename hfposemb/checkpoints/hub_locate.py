"""Finds the checkpoint among the files of a Hub repository."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..errors import MissingFileError
from .deadline import Deadline
from .hub_cache import in_hub_cache
from .hub_files import RepositoryFiles
from .hub_pickles import RepositoryPickles
from .hub_tensors import RepositoryTensors
from .locate import (
    INDEX,
    MODEL,
    MODULES,
    TRANSFORMER,
    choose_file,
    choose_pickle,
    is_index,
    module_folder,
    no_checkpoint,
    weight_map,
)
from .pickled import PickledCheckpoint
from .strict_json import parse_json


@dataclass(frozen=True, eq=False)
class Located:
    """Where a repository keeps its tensors.

    Attributes:
        folder: Folder of the checkpoint in the repository, with a trailing slash; "" for the repository itself.
        shards: Safetensors file of each tensor.
        pickled: The checkpoint, if it is a pickle.
    """

    folder: str
    shards: Mapping[str, str]
    pickled: PickledCheckpoint | None = None


@dataclass(eq=False)
class Locator:
    """Finds the checkpoint of one repository, and reads its first header or its index."""

    files: RepositoryFiles
    tensors: RepositoryTensors

    def locate(self, deadline: Deadline) -> Located:
        """Find the checkpoint's files and read the first header or the index."""
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

    def _listed(self, deadline: Deadline) -> Located:
        """Find the only checkpoint among the repository's files, whatever its name, or among its first module's."""
        name, listing = self.files.name, self.files.listing
        for choose in (choose_file, choose_pickle):
            for folder in self._folders():
                inside = [file.removeprefix(folder) for file in listing if file.startswith(folder)]
                if (found := choose([file for file in inside if "/" not in file], name=name)) is None:
                    continue
                if choose is choose_pickle:
                    return Located(folder, {}, RepositoryPickles(self.files, folder).open(found))
                if is_index(found):
                    return Located(folder, self._in_index(found, folder, deadline) or {})
                return Located(folder, self._in_file(folder + found, deadline))
        raise no_checkpoint(listing, name=name, path=name, hub=True)

    def _folders(self) -> Iterator[str]:
        yield ""
        if self._first_module is not None:
            yield self._first_module

    @cached_property
    def _first_module(self) -> str | None:
        """Folder of the model, with a trailing slash, if this is a sentence-transformers repository."""
        limit, listing = self.files.access.limits.config_bytes, self.files.listing
        raw = self.files.small(MODULES, limit=limit) if MODULES in listing else None
        if raw is None:
            return f"{TRANSFORMER}/" if any(file.startswith(f"{TRANSFORMER}/") for file in listing) else None
        path = module_folder(parse_json(raw, size=len(raw), name=MODULES, limit=limit, kind=list))
        return None if path is None else f"{path}/"
