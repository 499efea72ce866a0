"""Kinds of sources that tables can come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

LOCAL_PREFIXES = ("./", "../", "/", "~")


@dataclass(frozen=True)
class HubSource:
    """A repository on the Hub, ``owner/name[/path][@revision][?option=value]``, or a bare name that the Hub redirects.

    Attributes:
        repo: Name of the repository.
        revision: Branch, tag or commit.
        path: Folder or file in the repository; "" for the repository itself.
        tables: Names of tensors by role, which replace those that would be found.
        base: Name of the source that an adapter is applied to; "" for none.
    """

    repo: str
    revision: str | None = None
    path: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    base: str = ""

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
    """A folder or a checkpoint file on this machine.

    Attributes:
        path: The folder or file.
        tables: Names of tensors by role, which replace those that would be found.
        base: Name of the source that an adapter is applied to; "" for none.
    """

    path: Path
    tables: Mapping[str, str] = field(default_factory=dict)
    base: str = ""


@dataclass(frozen=True)
class BuiltinSource:
    """A closed form of ``closed_forms``, written ``name:ROWSxWIDTH?option=value``."""

    name: str
    rows: int
    width: int
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleSource:
    """A checkpoint shipped with this package, at the end of its training or at one step of it."""

    name: str
    step: int | None = None


Source: TypeAlias = HubSource | LocalSource | BuiltinSource | SampleSource


def _query(source: HubSource) -> str:
    options = {**source.tables, **({"base": source.base} if source.base else {})}
    return "?" + "&".join(f"{name}={value}" for name, value in options.items()) if options else ""
