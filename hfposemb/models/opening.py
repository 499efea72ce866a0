"""Opening of sources: tensors, configuration, tokenizer and notes, before the tables are found."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.access import Access, local_path
from ..checkpoints.adapters.adapted import ADAPTER_CONFIG
from ..checkpoints.adapters.learned_tokens import LearnedTokens, are_learned_tokens
from ..checkpoints.file_choice import WHOLE, has_format, is_pickled, locate
from ..checkpoints.file_ranges import LocalRanges
from ..checkpoints.folder_layouts import settings_folders, tokenizer_folders
from ..checkpoints.formats import ReadTensors, open_format
from ..checkpoints.limits import DEFAULT_LIMITS, Limits
from ..checkpoints.quantised.decoded import at_hand, decoded
from ..checkpoints.safetensors.checkpoint import Checkpoint
from ..checkpoints.static_embeddings import StaticEmbeddings, is_static
from ..checkpoints.strict_json import read_json
from ..checkpoints.tokenizers.small_files import local_text
from ..errors import SourceError
from ..tables.sources import HubSource, LocalSource, SampleSource
from .architectures.families import likely_tables
from .opened_model import Opened, not_missing

if TYPE_CHECKING:
    from ..checkpoints.hub.repository import HubCheckpoint
    from ..progress import Traffic


def _open_tensors(path: Path, file: Path, limits: Limits) -> ReadTensors:
    """Open the checkpoint of a folder or file on this machine, which is in the located file, whatever its format."""
    if file.suffix in WHOLE and file.exists():
        from ..checkpoints.whole_tables import open_whole

        return open_whole(LocalRanges.open(file), limits)
    if has_format(file.name) and file.exists():
        return open_format(LocalRanges.open(file), limits)
    if not (is_pickled(file.name) and file.exists()):
        found = Checkpoint.open(path, limits=limits, located=file)
        return StaticEmbeddings(found) if is_static(found.names()) else _learned(found, file.name)
    from ..checkpoints.pickles.checkpoint import open_pickled

    return _learned(open_pickled(file, limits=limits, likely=likely_tables), file.name)


def _learned(tensors: ReadTensors, file: str) -> ReadTensors:
    return LearnedTokens(tensors) if are_learned_tokens(tensors, file) else tensors


def open_here(source: LocalSource | SampleSource, access: Access) -> Opened:
    """Open a folder or file on this machine, or a sample at the end of its training.

    Args:
        source: The folder, file or sample.
        access: Who reads it, within which limits.

    Raises:
        SourceError: If it cannot be opened.
    """
    if isinstance(source, SampleSource):
        from ..samples import folder

        # Shipped with this package, so that its tokenizer may run in this process.
        return _open(folder(source.name), str(source), DEFAULT_LIMITS, ours=True)
    path = local_path(source, access)
    if not path.exists():
        raise SourceError(f"{path} does not exist; give a folder with a checkpoint or a checkpoint file")
    return _open(path, str(path), access.limits)


def _open(path: Path, name: str, limits: Limits, *, ours: bool = False) -> Opened:
    located = locate(path)
    checkpoint = _open_tensors(path, located, limits)
    home = located.absolute().parent
    files = partial(small_file, home, limits)
    labels, stated = getattr(checkpoint, "labels", None), getattr(checkpoint, "config", None)
    config = (None if stated is None else stated()) or files("config.json") or {}
    return Opened(
        decoded(checkpoint, limits, config),
        name,
        partial(tokenizer_folder, home),
        config,
        [about] if (about := getattr(checkpoint, "about", "")) else [],
        ours=ours,
        adapter=partial(files, ADAPTER_CONFIG),
        settings=files,
        text=partial(local_text, home, limits.config_bytes),
        labels=labels,
        marks=getattr(checkpoint, "marks", None),
        without_tokens=partial(without_tokens, home) if labels is None else not_missing,
    )


def open_repository(source: HubSource, access: Access) -> tuple[Opened, Traffic]:
    """Open a repository on the Hub; return it with its requests and bytes, which are counted on.

    Raises ``SourceError`` if it cannot be opened.
    """
    from ..checkpoints.hub.repository import open_hub

    found = open_hub(source, access)
    return of_repository(found), found.traffic


def of_repository(found: HubCheckpoint) -> Opened:
    """Return an open repository on the Hub as an opened source."""
    config = found.config() or {}
    tensors = decoded(found, found.files.access.limits, config)
    opened = Opened(tensors, found.name, found.tokenizer_folder, config, found.notes, found.commit)
    opened = replace(opened, adapter=partial(found.json, ADAPTER_CONFIG), settings=found.json, text=found.text)
    opened = replace(opened, labels=found.labels, without_tokens=found.without_tokens)
    if is_static(found.names()):
        opened = replace(opened, tensors=StaticEmbeddings(found))
    elif are_learned_tokens(found, found.file):
        learned = LearnedTokens(found)
        opened = replace(opened, tensors=learned, labels=learned.labels, without_tokens=not_missing)
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
    return _vocabulary_folder(home) or home


def without_tokens(home: Path) -> bool:
    """Return whether no file states the tokens of a checkpoint in the folder ``home``."""
    return _vocabulary_folder(home) is None


def _vocabulary_folder(home: Path) -> Path | None:
    from ..checkpoints.tokenizers.vocabulary_files import has_vocabulary

    inside = f"{home.name}/"
    folders = dict.fromkeys((*filter(None, tokenizer_folders(inside)), *settings_folders(inside)))
    beside = (home.parent / folder for folder in folders)
    return next((folder for folder in beside if folder.is_dir() and has_vocabulary(folder)), None)
