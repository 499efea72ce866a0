"""Pickled checkpoints of a Hub repository, which are read only if that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...errors import HubError
from ..deadline import Deadline
from ..file_choice import PICKLE_INDEX
from ..pickles.checkpoint import PickledCheckpoint, PickledFile, check_start, copied, one_file, shards
from ..pickles.joined_parts import JoinedParts, parts_of
from ..strict_json import parse_json
from .cache import in_hub_cache
from .files import RepositoryFiles
from .refs import with_safetensors

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
        if not found.endswith(PICKLE_INDEX):
            return one_file(path, name=files.name, open_file=self._open_file)
        limit = files.access.limits.header_bytes
        raw = files.small(found, self.folder, limit=limit) or b""
        index = parse_json(raw, size=len(raw), name=path, limit=limit, kind=dict, unique=True)
        return shards(index, name=files.name, file=path, open_file=lambda file: self._open_file(self.folder + file))

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
