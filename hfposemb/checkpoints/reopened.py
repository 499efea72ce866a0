"""A checkpoint of the Hub that was pickled: opened again, at the same commit, by the process that first asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from ..tables.sources import HubSource
from .hub_access import Access
from .safetensors import TensorInfo


class Repository(Protocol):
    """What ``HubCheckpoint`` offers."""

    def names(self) -> tuple[str, ...]: ...
    def info(self, name: str) -> TensorInfo: ...
    def metadata(self) -> Mapping[str, str]: ...
    def config(self) -> dict[str, Any] | None: ...
    def file_bytes(self, name: str) -> int | None: ...
    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]: ...
    def tokenizer_folder(self) -> Path | None: ...
    def json(self, file: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True)
class Reopened:
    """Read a repository at a commit as ``HubCheckpoint`` does.

    A token that was given for it is a secret and not pickled; the other process reads with its user's own.
    """

    repo: str
    commit: str
    access: Access
    open: Callable[[HubSource, Access], Repository]
    """``open_hub``, which this module does not import, since ``HubCheckpoint`` is pickled as one of these."""

    def without_token(self) -> Reopened:
        """Return the same without what must not be pickled."""
        token = None if isinstance(self.access.token, str) else self.access.token
        return replace(self, access=replace(self.access, token=token, cache=None))

    @property
    def name(self) -> str:
        """The repository at its commit."""
        return f"{self.repo}@{self.commit}"

    @cached_property
    def opened(self) -> Repository:
        """The repository. Raises ``SourceError`` and its children."""
        return self.open(HubSource(self.repo, self.commit), self.access)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle where it is, and nothing that was opened."""
        return {"repo": self.repo, "commit": self.commit, "access": self.access, "open": self.open}

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names."""
        return self.opened.names()

    def info(self, name: str) -> TensorInfo:
        """Return where a tensor lies."""
        return self.opened.info(name)

    def metadata(self) -> Mapping[str, str]:
        """Return what the headers say of the whole file."""
        return self.opened.metadata()

    def config(self) -> dict[str, Any] | None:
        """Return config.json."""
        return self.opened.config()

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        return self.opened.file_bytes(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor."""
        return self.opened.read(name, start, stop)

    def tokenizer_folder(self) -> Path | None:
        """Return a folder with the tokenizer's files."""
        return self.opened.tokenizer_folder()

    def json(self, file: str) -> dict[str, Any] | None:
        """Return a small JSON file beside the checkpoint."""
        return self.opened.json(file)
