"""Kinds of sources that tables can come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TypeAlias
from urllib.parse import urlencode

LOCAL_PREFIXES = (".", "/", "\\", "~")
"""What the name of a folder or file begins with; no name on the Hub does."""


@dataclass(frozen=True)
class HubSource:
    """A repository on the Hub, ``owner/name[/path][@revision][?option=value]``, or a bare name that the Hub redirects.

    Attributes:
        repo: Name of the repository.
        revision: Branch, tag or commit.
        path: Folder or file in the repository; "" for the repository itself.
        tables: Names of tensors by role, which replace those that would be found.
        base: Source that an adapter is applied to.
    """

    repo: str
    revision: str | None = None
    path: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    base: Source | None = None

    def __str__(self) -> str:
        """Return the name that is parsed to this source."""
        inside = f"/{self.path}" if self.path else ""
        at = f"@{self.revision}" if self.revision else ""
        return f"{self.repo}{inside}{at}{_query(self)}"

    def at(self, revision: str) -> HubSource:
        """Return the same source at another revision."""
        return replace(self, revision=revision)


@dataclass(frozen=True)
class LocalSource:
    """A folder or a checkpoint file on this machine, which only ``access.local_path`` can open.

    Attributes:
        path: The folder or file as it was written.
        tables: Names of tensors by role, which replace those that would be found.
        base: Source that an adapter is applied to.
        in_home: Whether a ``~`` at its beginning stands for a home folder, which nobody has looked up yet.
    """

    path: PurePath
    tables: Mapping[str, str] = field(default_factory=dict)
    base: Source | None = None
    in_home: bool = False

    def __str__(self) -> str:
        """Return a name that is parsed to this source."""
        path = str(self.path)
        marked = self.in_home if path.startswith("~") else path.startswith(LOCAL_PREFIXES)
        kept = "/" * path[-1:].isspace()  # else the white space at its end would be stripped
        return f"{path if marked else f'./{path}'}{kept}{_query(self)}"


@dataclass(frozen=True)
class BuiltinSource:
    """A closed form of ``closed_forms``, written ``name:ROWSxWIDTH?option=value``."""

    name: str
    rows: int
    width: int
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a name that is parsed to this source."""
        return f"{self.name}:{self.rows}x{self.width}{'?' if self.options else ''}{urlencode(self.options)}"


@dataclass(frozen=True)
class SampleSource:
    """A checkpoint shipped with this package, at the end of its training or at one step of it."""

    name: str
    step: int | None = None

    def __str__(self) -> str:
        """Return the name that is parsed to this source."""
        return f"sample:{self.name}" + ("" if self.step is None else f"@step-{self.step}")


Source: TypeAlias = HubSource | LocalSource | BuiltinSource | SampleSource


def with_bases(source: Source) -> Iterator[Source]:
    """Yield a source and every source that it names."""
    yield source
    if isinstance(source, HubSource | LocalSource) and source.base is not None:
        yield from with_bases(source.base)


def _query(source: HubSource | LocalSource) -> str:
    options = {**source.tables, **({"base": str(source.base)} if source.base else {})}
    return "?" + "&".join(f"{name}={value}" for name, value in options.items()) if options else ""
