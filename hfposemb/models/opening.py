"""Opening of sources: tensors, configuration, tokenizer and notes, before the tables are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.chat_templates import local_text
from ..checkpoints.file_ranges import LocalRanges
from ..checkpoints.folder_layouts import tokenizer_folders
from ..checkpoints.format_names import has_format
from ..checkpoints.formats import FormatCheckpoint, open_format
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..checkpoints.locate import is_pickled, locate
from ..checkpoints.peft_adapters import ADAPTER_CONFIG
from ..checkpoints.rounded import Rounded
from ..checkpoints.safetensors import Checkpoint
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
    from ..checkpoints.pickled import PickledCheckpoint


def open_tensors(path: Path, limits: Limits) -> Checkpoint | PickledCheckpoint | FormatCheckpoint:
    """Open the checkpoint of a folder or file on this machine, whatever its format."""
    file = locate(path)
    if not file.exists():
        return Checkpoint.open(path, limits=limits)
    if has_format(file.name):
        return open_format(LocalRanges.open(file), limits)
    if not is_pickled(file.name):
        return Checkpoint.open(path, limits=limits)
    from ..checkpoints.pickled import open_pickled

    return open_pickled(file, limits=limits, likely=likely_tables)


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
    checkpoint: Checkpoint | PickledCheckpoint | FormatCheckpoint | Rounded = open_tensors(path, limits)
    home = locate(path).absolute().parent
    notes: list[str] = []
    if ours and isinstance(checkpoint, Checkpoint) and Rounded(checkpoint).rounded:
        checkpoint = Rounded(checkpoint)
        notes.append("words are rounded to 8 bits with one scale per row")
    files = partial(_small_file, home, limits)
    config = checkpoint.config() or files("config.json") or {}
    opened = Opened(checkpoint, name, partial(_tokenizer_folder, home), config, notes, ours=ours, settings=files)
    stated = getattr(checkpoint, "labels", None)
    text = partial(local_text, home, limits.config_bytes)
    return replace(opened, adapter=partial(files, ADAPTER_CONFIG), labels=stated, text=text)


def open_repository(source: HubSource, access: Access) -> tuple[Opened, Traffic]:
    """Open a repository on the Hub; return it with its requests and bytes, which are counted on.

    Raises ``SourceError`` if it cannot be opened.
    """
    from ..checkpoints.hub import open_hub

    found = open_hub(source, access)
    return of_repository(found), found.traffic


def of_repository(found: HubCheckpoint) -> Opened:
    """Return an open repository on the Hub as an opened source."""
    opened = Opened(found, found.name, found.tokenizer_folder, found.config() or {}, found.notes, found.commit)
    opened = replace(opened, adapter=partial(found.json, ADAPTER_CONFIG), settings=found.json, text=found.text)
    return replace(opened, labels=found.labels, at_hand=found.at_hand)


def _small_file(home: Path, limits: Limits, name: str) -> Mapping[str, Any] | None:
    path = home / name
    found: dict[str, Any] | None = read_json(path, limit=limits.config_bytes, kind=dict) if path.exists() else None
    return found


def _tokenizer_folder(home: Path) -> Path:
    """Return the folder with the tokenizer of a checkpoint: its own, or the one beside it in a pipeline."""
    beside = [home.parent / folder for folder in tokenizer_folders(f"{home.name}/") if folder]
    return next((folder for folder in beside if folder.is_dir() and has_vocabulary(folder)), home)
