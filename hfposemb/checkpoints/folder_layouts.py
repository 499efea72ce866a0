"""Layouts of folders that contain a model deeper inside, with advice on what to open or convert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..errors import SourceError
from ..tables.source_parser import parse_source
from ..tables.sources import LOCAL_PREFIXES

PIPELINE = "model_index.json"
"""File that diffusers writes next to the folders of a pipeline's models."""

EXPORTS = "onnx"
"""Folder of ONNX files in the repository of a model, whose configuration and tokenizer are one level up."""

_MEGATRON = r"(?:.*/)?mp_rank_\d\d(?:_\d{3})?/(?:model_optim_rng|model_rng|model_weights)\.(?:pt|ckpt)"
_DEEPSPEED = r"(?:.*/)?(?:zero_to_fp32\.py|global_step\d+/.*_model_states\.pt)"
_SHOWN = 3


def advice(names: Sequence[str], *, name: str, endings: tuple[str, ...], hub: bool = False) -> str | None:
    """Identify a folder's layout and say what to do about it.

    Args:
        names: Paths of all files below the folder.
        name: Path of the folder, or with ``hub`` the repository's name.
        endings: Suffixes of model files.
        hub: Whether the folder is a repository on the Hub.

    Returns:
        The end of a sentence about the folder; ``None`` for an unknown layout.
    """
    if ranks := sorted(file for file in names if re.fullmatch(_MEGATRON, file)):
        if len(ranks) == 1:
            return f"is a Megatron-LM checkpoint; {_open(ranks[0], name=name, hub=hub)}"
        return (
            f"is a Megatron-LM checkpoint in {len(ranks)} parts, each with a slice of all tables; convert it to the "
            "Hugging Face layout first, for example with export_ckpt of Megatron Bridge"
        )
    if any(re.fullmatch(_DEEPSPEED, file) for file in names):
        return "is a DeepSpeed checkpoint; run 'python zero_to_fp32.py . gathered' in it, then open the folder gathered"
    inside = _folders(names, endings)
    if PIPELINE in names:
        encoders = [folder for folder in inside if folder.startswith("text_encoder")]
        if not encoders:
            return "is a diffusers pipeline without a text encoder, so it has no token table"
        them = "encoders are in " + " and ".join(encoders) if len(encoders) > 1 else f"encoder is in {encoders[0]}"
        return f"is a diffusers pipeline, whose text {them}; {_open(encoders[0], name=name, hub=hub)}"
    if inside:
        more = f" and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
        listed = ", ".join(inside[:_SHOWN]) + more
        return f"has no checkpoint at its top level, but in {listed}; {_open(inside[-1], name=name, hub=hub)}"
    return None


def tokenizer_folders(folder: str) -> tuple[str, ...]:
    """Return the folders of a repository that can hold the tokenizer of a checkpoint, the most likely first.

    Args:
        folder: Folder of the checkpoint, with a trailing slash; "" for the repository itself.

    >>> from hfposemb.checkpoints.folder_layouts import tokenizer_folders
    >>> tokenizer_folders("text_encoder_2/")
    ('text_encoder_2/', 'tokenizer_2/', '')
    """
    parts = folder.rstrip("/").split("/") if folder else []
    found = [folder]
    if parts and parts[-1].startswith("text_encoder"):
        found.append("/".join([*parts[:-1], parts[-1].replace("text_encoder", "tokenizer", 1)]) + "/")
    found += ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]
    return tuple(found)


def settings_folders(folder: str) -> tuple[str, ...]:
    """Return the folders that can hold the configuration of a checkpoint, the most likely first.

    Args:
        folder: Folder of the checkpoint, with a trailing slash; "" for the repository itself.

    >>> from hfposemb.checkpoints.folder_layouts import settings_folders
    >>> settings_folders("onnx/")
    ('onnx/', '')
    """
    parts = folder.rstrip("/").split("/")
    return (folder, "".join(f"{part}/" for part in parts[:-1])) if parts[-1] == EXPORTS else (folder,)


def other_ranks(path: str, beside: Iterable[str]) -> int:
    """Return the number of parts of a Megatron-LM checkpoint; 1 if ``path`` is not one of its files.

    Args:
        path: One of its files, with the name of its folder.
        beside: Names of the entries next to that folder.
    """
    if re.fullmatch(_MEGATRON, path) is None:
        return 1
    return sum(re.fullmatch(r"mp_rank_\d\d(?:_\d{3})?", folder) is not None for folder in beside)


def _folders(names: Iterable[str], endings: tuple[str, ...]) -> list[str]:
    """Return the folders that directly contain a model file, in natural order: checkpoint-500, checkpoint-1000."""
    found = {file.rpartition("/")[0] for file in names if "/" in file and file.endswith(endings)}
    return sorted(found, key=lambda folder: [(len(part), part) for part in re.split(r"(\d+)", folder)])


def source_inside(name: str, inside: str, *, hub: bool) -> str:
    """Return the source that a folder or file inside of another source is.

    Args:
        name: Path of a folder on this machine, or name of a repository on the Hub or of a folder in it.
        inside: Path below it.
        hub: Whether it is on the Hub.

    >>> from hfposemb.checkpoints.folder_layouts import source_inside
    >>> source_inside("owner/name@v1.0", "checkpoint-500", hub=True)
    'owner/name/checkpoint-500@v1.0'
    >>> source_inside("runs/mine", "checkpoint-500", hub=False)
    './runs/mine/checkpoint-500'
    """
    if not hub:
        return f"{'' if name.startswith(LOCAL_PREFIXES) else './'}{name.rstrip('/')}/{inside}"
    whole, at, revision = name.partition("@")
    return f"{whole.rstrip('/')}/{inside}{at}{revision}"


def _open(inside: str, *, name: str, hub: bool) -> str:
    found = source_inside(name, inside, hub=hub)
    try:
        parse_source(found)
    except SourceError:
        repo, _, revision = name.partition("@")
        at = f" --revision {revision}" if revision else ""
        local = f"./{repo.rpartition('/')[2]}"
        return f"run 'hf download {repo}{at} --include \"{inside}/*\" --local-dir {local}' and open {local}/{inside}"
    return f"open {found}"
