"""Kinds of sources that tables can come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

LOCAL_PREFIXES = ("./", "../", "/", "~")


@dataclass(frozen=True)
class HubSource:
    """A repository on the Hub at a revision: ``owner/name``, or a bare name that the Hub redirects."""

    repo: str
    revision: str | None = None


@dataclass(frozen=True)
class LocalSource:
    """A folder or a ``.safetensors`` file on this machine."""

    path: Path


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
