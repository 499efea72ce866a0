"""A source opened for a check: its embeddings, tensors, configuration and tokenizer, within a budget of reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..checkpoints.access import Access, Visitor, local_path
from ..checkpoints.file_choice import is_index, locate
from ..checkpoints.formats import ReadTensors
from ..checkpoints.hub.repository import HubCheckpoint, open_hub
from ..checkpoints.limits import Limits
from ..checkpoints.quantised.decoded import as_stored
from ..checkpoints.safetensors.checkpoint import TensorInfo
from ..checkpoints.tokenizers.small_files import TEMPLATE, TextReader
from ..errors import CheckpointError, HfposembError, InputError, SourceError
from ..lazy_attributes import lazy_attribute
from ..models.architectures.config_values import class_of, part_config
from ..models.architectures.families import likely_tables
from ..models.architectures.head_names import is_headed
from ..models.architectures.table_names import outside_layers
from ..models.extraction import of_opened
from ..models.opened_model import nothing
from ..models.opening import of_repository, open_here
from ..progress import Traffic
from ..tables.embeddings import Embeddings
from ..tables.source_parser import source_of
from ..tables.sources import BuiltinSource, HubSource, LocalSource, SampleSource, Source
from ..tables.table import EmbeddingTable
from ..text import display

T = TypeVar("T")

SMALL_FILES = ("tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "added_tokens.json")
"""Small files beside the weights and the configuration; from the Hub only the first is read unless all is."""


@dataclass(frozen=True, eq=False)
class CheckedSource:
    """A source opened for a check.

    Attributes:
        name: Its name.
        embeddings: Its tables and positions.
        tensors: Its tensors.
        full: Whether everything is read.
        folder: Returns the local folder of its files; on the Hub, one that holds the tokenizer.
        json: Returns a small JSON file, ``None`` if there is none.
        read_text: Returns a small text file, ``None`` if there is none.
        at_hand: Returns whether the header that lists a tensor can be read within the budget.
        remote: Whether it is read from the Hub.
        commit: Commit on the Hub.
        traffic: Requests and bytes so far.
        stated: Returns an attribute that only some formats have, such as ``vocabulary``; ``None`` for others.
        not_checked: What was not read, with the reason.
    """

    name: str
    embeddings: Embeddings
    tensors: ReadTensors
    full: bool
    folder: Callable[[], Path | None]
    json: Callable[[str], Mapping[str, Any] | None]
    read_text: TextReader
    at_hand: Callable[[str], bool]
    remote: bool = False
    commit: str | None = None
    traffic: Traffic = field(default_factory=Traffic)
    stated: Callable[[str], Any] = nothing
    not_checked: list[str] = field(default_factory=list)

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration, {} if there is none."""
        return self.embeddings.config

    @property
    def model_type(self) -> str:
        """Model type of the whole, "" if it is not stated."""
        return text_field(self.config, "model_type")

    @lazy_attribute
    def text(self) -> Mapping[str, Any]:
        """Configuration of the text part."""
        return part_config(self.config, "text")

    @lazy_attribute
    def names(self) -> frozenset[str]:
        """Names of all tensors."""
        return frozenset(self.tensors.names())

    @lazy_attribute
    def infos(self) -> Mapping[str, TensorInfo]:
        """The tensors whose headers are read, by name; those of quantised layers as they are stored."""
        found: dict[str, TensorInfo] = {}
        outside = frozenset(outside_layers(self.tensors.names()))
        for name in self.tensors.names():
            with suppress(CheckpointError):
                if self.at_hand(name):
                    found[name] = self.tensors.info(name) if name in outside else as_stored(self.tensors, name)
        return found

    def table(self, role: str) -> EmbeddingTable | None:
        """Return a stored table by role, ``None`` if there is none that can be read."""
        found = self.readable(role, lambda: self.embeddings.tables.get(role))
        return found if found is not None and found.provenance.tensor in self.names else None

    def readable(self, what: str, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns; if it fails, record why and return ``None``."""
        try:
            return read()
        except HfposembError as error:
            self.skipped(f"{what}: {error}")
            return None

    def skipped(self, reason: str) -> None:
        """Record what was not examined and why, once."""
        said = display(reason, width=300)
        if said not in self.not_checked:
            self.not_checked.append(said)


def text_field(config: Mapping[str, Any], name: str) -> str:
    """Return a field that is text, "" for anything else."""
    value = config.get(name)
    return value if isinstance(value, str) else ""


def configurations(config: Mapping[str, Any], depth: int = 3) -> Iterator[Mapping[str, Any]]:
    """Yield a configuration and those nested in it."""
    yield config
    for value in config.values():
        if isinstance(value, dict) and depth:
            yield from configurations(value, depth - 1)


def open_source(
    source: str | Path | Source, *, revision: str | None, token: str | bool | Visitor | None, limits: Limits, full: bool
) -> CheckedSource:
    """Open a source for a check; on the Hub index, configuration and one header are read, but no row.

    Raises:
        SourceError: If it cannot be read.
        InputError: If it has no files.
    """
    named = source_of(source) if isinstance(source, str | Path) else source
    access = Access(token, limits, likely=likely_tables)
    if isinstance(named, Source):
        access.check(named)
    match named:
        case HubSource():
            return _on_hub(named, revision, access, full)
        case SampleSource(step=None):
            return _on_disk(named, str(named), access, full)
        case LocalSource():
            return _on_disk(named, str(local_path(named, access)), access, full)
        case BuiltinSource() | SampleSource():
            raise InputError(
                f"{str(source)[:80]!r} has no files to check; give a folder, a .safetensors file or owner/name"
            )
    raise SourceError(f"source must be a name or a path; got {type(source).__name__}")


def _on_disk(named: LocalSource | SampleSource, name: str, access: Access, full: bool) -> CheckedSource:
    opened = open_here(named, access)
    return CheckedSource(
        name,
        of_opened(opened, named, access),
        opened.tensors,
        full,
        opened.folder,
        opened.settings,
        opened.text,
        opened.at_hand,
        stated=lambda of: getattr(opened.tensors, of, None),
    )


def _on_hub(source: HubSource, revision: str | None, access: Access, full: bool) -> CheckedSource:
    if revision is not None and source.revision is not None:
        raise SourceError(f"the revision is given twice, {source.revision!r} and {revision!r}; give it once")
    wanted = revision or source.revision or "main"
    named = replace(source, revision=wanted)
    there = open_hub(named, access, index_first=True)
    opened = of_repository(there)
    return CheckedSource(
        str(replace(source, revision=wanted if wanted != "main" else None)),
        of_opened(opened, named, replace(access, traffic=there.traffic)),
        opened.tensors,
        full,
        there.tokenizer_folder if full else lambda: None,
        lambda file: there.json(file) if full or file in ("config.json", SMALL_FILES[0]) else None,
        _texts(there, full),
        lambda name: full or opened.at_hand(name),
        remote=True,
        commit=there.commit,
        traffic=there.traffic,
        stated=there.stated,
    )


def _texts(there: HubCheckpoint, full: bool) -> TextReader:
    """Return a reader of text files that asks for a chat template without the listing, which takes a request more.

    It asks only where the settings have none: almost no chat model has both, and to look takes each a request.
    """
    config = there.config() or {}

    def text(file: str) -> str | None:
        if full or there.files.listed:
            return there.text(file)
        if file != TEMPLATE or not is_headed(class_of(config)) or (there.json(SMALL_FILES[0]) or {}).get(_STATED):
            return None
        raw = there.files.small(file, there.folder, limit=there.files.access.limits.config_bytes)
        return None if raw is None else raw.decode(errors="replace")

    return text


_STATED = "chat_template"


def index_of(path: Path) -> Path | None:
    """Return the index of a local checkpoint, ``None`` if it has none."""
    found = locate(path)
    return found if is_index(found.name) else None


def as_json(value: object) -> str:
    """Return a value as it is written in a JSON file, on one line."""
    return display(json.dumps(value, ensure_ascii=False), width=60)
