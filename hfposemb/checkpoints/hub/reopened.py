"""Unpickled Hub checkpoint: opened at the same commit when the other process first uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from ...lazy_attributes import lazy_attribute
from ...tables.sources import HubSource
from ..access import STRANGER, Access, Visitor
from ..safetensors.checkpoint import TensorInfo
from ..stated_roles import StatedRoles

if TYPE_CHECKING:
    from ...tables.table import Labels
    from ...tables.token_marks import TokenMarks


class Repository(Protocol):
    """Interface of ``HubCheckpoint``."""

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names."""
        ...

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location."""
        ...

    def at_hand(self, name: str) -> bool:
        """Return whether ``info`` needs no request for a tensor."""
        ...

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers."""
        ...

    def config(self) -> dict[str, Any] | None:
        """Return config.json."""
        ...

    def file_bytes(self, name: str) -> int | None:
        """Return the size of the file that holds a tensor."""
        ...

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor."""
        ...

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as they are stored."""
        ...

    def tokenizer_folder(self) -> Path | None:
        """Return a folder with the tokenizer's files."""
        ...

    def without_tokens(self) -> bool:
        """Return whether no file states the vocabulary, as far as is known without a request."""
        ...

    def json(self, file: str) -> dict[str, Any] | None:
        """Return a small JSON file next to the checkpoint."""
        ...

    def text(self, file: str) -> str | None:
        """Return a small text file next to the checkpoint."""
        ...

    def roles(self) -> StatedRoles:
        """Return the tables of each role that the checkpoint itself states."""
        ...

    def labels(self, rows: int) -> Labels | None:
        """Return labels for token rows that the checkpoint itself states."""
        ...

    def marks(self, labels: Labels) -> TokenMarks | None:
        """Return the token marks that the checkpoint itself states."""
        ...


def _picklable(token: str | bool | Visitor | None) -> bool | Visitor | None:
    """Return what another process may use in place of a token: none for a visitor, else its user's own."""
    if isinstance(token, Visitor):
        return STRANGER
    return None if isinstance(token, str) else token


@dataclass(frozen=True)
class Reopened:
    """Lazily opened source at a commit, with the interface of ``HubCheckpoint``.

    A token passed by the caller is a secret and is not pickled; the other process uses its user's own.
    """

    source: HubSource
    access: Access
    open: Callable[[HubSource, Access], Repository]
    """``open_hub``; not imported here, since ``HubCheckpoint`` imports this module."""

    def without_token(self) -> Reopened:
        """Return a copy without anything that must not be pickled."""
        token = _picklable(self.access.token)
        return replace(self, access=replace(self.access, token=token, cache=None, traffic=None))

    @property
    def name(self) -> str:
        """Repository, path and commit."""
        return str(self.source)

    @lazy_attribute
    def opened(self) -> Repository:
        """The opened repository. Raises ``SourceError`` or a subclass."""
        return self.open(self.source, self.access)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location, without what was opened."""
        return {"source": self.source, "access": self.access, "open": self.open}

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names."""
        return self.opened.names()

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's dtype, shape and location."""
        return self.opened.info(name)

    def at_hand(self, name: str) -> bool:
        """Return whether ``info`` needs no request for a tensor."""
        return self.opened.at_hand(name)

    def metadata(self) -> Mapping[str, str]:
        """Return the metadata of the headers."""
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

    def codes(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor as they are stored."""
        return self.opened.codes(name, start, stop)

    def tokenizer_folder(self) -> Path | None:
        """Return a folder with the tokenizer's files."""
        return self.opened.tokenizer_folder()

    def without_tokens(self) -> bool:
        """Return whether no file states the vocabulary, as far as is known without a request."""
        return self.opened.without_tokens()

    def json(self, file: str) -> dict[str, Any] | None:
        """Return a small JSON file next to the checkpoint."""
        return self.opened.json(file)

    def text(self, file: str) -> str | None:
        """Return a small text file next to the checkpoint."""
        return self.opened.text(file)

    def roles(self) -> StatedRoles:
        """Return the tables of each role that the checkpoint itself states."""
        return self.opened.roles()

    def labels(self, rows: int) -> Labels | None:
        """Return labels for token rows that the checkpoint itself states."""
        return self.opened.labels(rows)

    def marks(self, labels: Labels) -> TokenMarks | None:
        """Return the token marks that the checkpoint itself states."""
        return self.opened.marks(labels)
