"""Finds the checkpoint among the files of a Hub repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ...errors import MissingFileError, OfflineError
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
from ..folder_layouts import EXPORTS, source_inside
from ..formats import FormatCheckpoint, StoredTensors, open_format
from ..strict_json import fault, parse_json, shortened
from .cache import in_hub_cache
from .files import RepositoryFiles
from .pickles import RepositoryPickles
from .ranges import HubRanges
from .tensors import RepositoryTensors


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
