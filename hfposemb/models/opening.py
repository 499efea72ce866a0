"""Opening of sources: tensors, configuration, tokenizer and notes, before the tables are found."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.chat_templates import local_text
from ..checkpoints.decoded import at_hand, decoded
from ..checkpoints.file_ranges import LocalRanges
from ..checkpoints.folder_layouts import settings_folders, tokenizer_folders
from ..checkpoints.format_names import has_format
from ..checkpoints.formats import StoredTensors, open_format
from ..checkpoints.learned_tokens import LearnedTokens, are_learned_tokens
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..checkpoints.locate import is_pickled, locate
from ..checkpoints.peft_adapters import ADAPTER_CONFIG
from ..checkpoints.safetensors import Checkpoint
from ..checkpoints.static_embeddings import StaticEmbeddings, is_static
from ..checkpoints.strict_json import read_json
from ..checkpoints.vocabulary import has_vocabulary
from ..errors import SourceError
from ..tables.sources import HubSource
from ..transfers import Traffic
from .families import likely_tables
from .opened_model import Opened

if TYPE_CHECKING:
    from ..checkpoints.hub import HubCheckpoint
    from ..checkpoints.hub_access import Access


def open_tensors(path: Path, limits: Limits) -> StoredTensors:
    """Open the checkpoint of a folder or file on this machine, whatever its format."""
    file = locate(path)
    if file.exists() and has_format(file.name):
        return open_format(LocalRanges.open(file), limits)
    if not (file.exists() and is_pickled(file.name)):
        found = Checkpoint.open(path, limits=limits)
        return StaticEmbeddings(found) if is_static(found.names()) else _learned(found, file.name)
    from ..checkpoints.pickled import open_pickled

    return _learned(open_pickled(file, limits=limits, likely=likely_tables), file.name)


def _learned(tensors: StoredTensors, file: str) -> StoredTensors:
    return LearnedTokens(tensors) if are_learned_tokens(tensors, file) else tensors


def open_folder(path: Path, *, name: str, limits: Limits = DEFAULT_LIMITS, ours: bool = False) -> Opened:
    """Open a folder or file on this machine.

    Args:
        path: The folder or file.
        name: Name of the source.
        limits: Limits of what is read.
        ours: Whether it is shipped with this package, so that its tokenizer may run in this process.

    Raises:
        SourceError: If it cannot be opened.
    """
    if not path.exists():
        raise SourceError(f"{path} does not exist; give a folder with a checkpoint or a checkpoint file")
    checkpoint = open_tensors(path, limits)
    home = locate(path).absolute().parent
    files = partial(small_file, home, limits)
    config = checkpoint.config() or files("config.json") or {}
    tensors = decoded(checkpoint, limits)
    opened = Opened(tensors, name, partial(tokenizer_folder, home), config, ours=ours, settings=files)
    opened = replace(
        opened, adapter=partial(files, ADAPTER_CONFIG), text=partial(local_text, home, limits.config_bytes)
    )
    labels, marks = (getattr(checkpoint, stated, None) for stated in ("labels", "marks"))
    return replace(opened, labels=labels, marks=marks)


def open_repository(source: HubSource, access: Access) -> tuple[Opened, Traffic]:
    """Open a repository on the Hub; return it with its requests and bytes, which are counted on.

    Raises ``SourceError`` if it cannot be opened.
    """
    from ..checkpoints.hub import open_hub

    found = open_hub(source, access)
    return of_repository(found), found.traffic


def of_repository(found: HubCheckpoint) -> Opened:
    """Return an open repository on the Hub as an opened source."""
    tensors = decoded(found, found.files.access.limits)
    opened = Opened(tensors, found.name, found.tokenizer_folder, found.config() or {}, found.notes, found.commit)
    opened = replace(opened, adapter=partial(found.json, ADAPTER_CONFIG), settings=found.json, text=found.text)
    opened = replace(opened, labels=found.labels)
    if is_static(found.names()):
        opened = replace(opened, tensors=StaticEmbeddings(found))
    elif are_learned_tokens(found, found.file):
        learned = LearnedTokens(found)
        opened = replace(opened, tensors=learned, labels=learned.labels)
    return replace(opened, at_hand=partial(at_hand, opened.tensors), marks=found.marks)


def small_file(home: Path, limits: Limits, name: str) -> dict[str, Any] | None:
    """Return a small JSON file of a checkpoint in the folder ``home`` by its name, if there is one."""
    for folder in settings_folders(f"{home.name}/"):
        path = home.parent / folder / name
        if path.exists():
            found: dict[str, Any] = read_json(path, limit=limits.config_bytes, kind=dict)
            return found
    return None


def tokenizer_folder(home: Path) -> Path:
    """Return the folder with the tokenizer of a checkpoint: its own, or the one beside it in a pipeline."""
    inside = f"{home.name}/"
    folders = (*(folder for folder in tokenizer_folders(inside) if folder), *settings_folders(inside))
    beside = [home.parent / folder for folder in folders]
    return next((folder for folder in beside if folder.is_dir() and has_vocabulary(folder)), home)
