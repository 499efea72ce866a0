"""Selection of the checkpoint among the files of a folder or repository."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from ..errors import CheckpointError
from ..text import counted
from .file_ranges import files_in, is_plain
from .folder_layouts import EXPORTS, PIPELINE, advice, source_inside
from .limits import DEFAULT_LIMITS
from .strict_json import CONVERT_ADVICE, FASTTEXT_ADVICE, MOST_NAMES, MOST_NESTED, SHOWN, fault, read_json, shortened

_TRANSFORMERS_4 = "convert it with transformers 4: AutoModel.from_pretrained(folder, from_{}=True).save_pretrained(out)"
_ARRAYS = "read its arrays with {} and pass them to hfposemb.from_arrays"
_MATRIX = "if it holds a table, read that with the library that wrote the file, and save it with numpy.save as .npy"

FOREIGN_FORMATS = {
    **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt"), CONVERT_ADVICE),
    ".h5": _TRANSFORMERS_4.format("tf"),
    ".msgpack": _TRANSFORMERS_4.format("flax"),
    **dict.fromkeys(
        (".parquet", ".csv", ".tsv"), "a table in columns is opened by its path on this machine, ./table.csv"
    ),
    **dict.fromkeys((".pb", ".meta"), _ARRAYS.format("tensorflow")),
    ".vec": _ARRAYS.format("gensim"),
    ".ftz": FASTTEXT_ADVICE,
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dat"), _MATRIX),
    **dict.fromkeys((".jit", ".ptl"), "save it with torch.save(torch.jit.load(path).state_dict(), 'model.pt')"),
    ".pt2": "save it with torch.save(torch.export.load(path).state_dict, 'model.pt')",
    ".distcp": "gather it with 'python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt', and "
    "open that file",
    **dict.fromkeys((".tflite", ".mlmodel", ".engine"), "open the checkpoint that it was exported from"),
    **dict.fromkeys((".gz", ".tgz", ".tar", ".zip", ".xz", ".zst", ".7z"), "unpack it and open what is in it"),
}
"""What to do with files that are not read, by their suffix."""


SUFFIXES: tuple[str, ...] = (".gguf", ".onnx", ".npy", ".npz")
"""Suffixes of formats other than safetensors that are read by ranges of bytes; see ``formats``."""

WHOLE = (".parquet", ".csv", ".tsv")
"""Suffixes of tables in columns, which are read whole and only from this machine; see ``whole_tables``."""

_SPLIT = r"-(\d{5})-of-\d{5}\.gguf$"
_NO_MODEL = r"^mmproj|[-_.]mmproj|imatrix"
"""Names of GGUF files without a model: the image encoders beside it, and statistics for its quantisation."""

_MOST_SHOWN = 8

MODEL = "model.safetensors"
INDEX = "model.safetensors.index.json"
_INDEX = r"\.safetensors\.index(\.\w+)?\.json$"
_PICKLE_INDEX = r"\.bin\.index(\.\w+)?\.json$"
MODULES = "modules.json"
"""List of modules in a sentence-transformers folder; each module, possibly the model too, has its own folder."""


TRANSFORMER = "0_Transformer"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_PART = r"consolidated\.\d\d\.pth"
"""Name of a part of one of Meta's Llama checkpoints; see ``pickles.joined_parts``."""

_RANK = r"(?:.*[-_.])?rank[-_]?(\d{1,5})(?:[-_.].*)?|model(\d{1,5})-mp\d+\.safetensors"
"""Name of the file of one process, of those of tensor parallelism."""

_SHARD = r"([^.]+)((?:\.\w+)?)-\d{5}-of-(\d{5})(\.\w+)"
"""Name of a shard: its stem, the variant if there is one, the number of shards, and the suffix."""

SourceOf: TypeAlias = Callable[[str], str]

_LEFTOVERS = ("optimizer", "scheduler", "training_args", "rng_state", "random_states", "scaler", "events.out")


def weight_map(index: Mapping[str, Any], *, name: str, suffix: str = ".safetensors") -> dict[str, str]:
    """Return the file of each tensor from the parsed JSON of an index.

    Args:
        index: The parsed index.
        name: Name of the index in messages.
        suffix: Required suffix of the files.

    Raises:
        CheckpointError: If the map is missing or names anything but files of the same folder.
    """
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        raise fault(name, "must have a weight_map that names the file of each tensor")
    for tensor, file in files.items():
        if not tensor.isprintable() or not is_plain(file) or not file.endswith(suffix):
            found = f"{shortened(tensor)} in {shortened(str(file)[:SHOWN])}"
            raise fault(name, f"weight_map must name {suffix} files of this folder; found {found}")
    return files


class _Kind(NamedTuple):
    """A kind of checkpoint: what it is called, its usual file and index, and how the names of others end."""

    what: str
    usual: tuple[str, str]
    suffixes: tuple[str, ...]
    indexes: str


KINDS = ("safetensors", "pickle", "format")
"""Kinds of checkpoints, the first of which that a folder has is read."""

_KINDS: Mapping[str, _Kind] = {
    "safetensors": _Kind("checkpoints", (MODEL, INDEX), (".safetensors",), _INDEX),
    "pickle": _Kind("pickled checkpoints", (PICKLE, PICKLE_INDEX), PICKLES, _PICKLE_INDEX),
}


def choose(kind: str, names: Sequence[str], *, name: str, source: SourceOf) -> str | None:
    """Choose a folder's checkpoint of one kind.

    Args:
        kind: ``safetensors`` or ``pickle``, as written by torch.save: a file, or the index of several. ``format``: a
            file of one of the formats of ``SUFFIXES``.
        names: Names of the folder's files.
        name: Name of the folder in messages.
        source: Returns the source that a file of the folder is, for the advice to name one.

    Returns:
        The chosen name; ``None`` if there is none.

    Raises:
        CheckpointError: If the choice is ambiguous, or shards have no index.
    """
    if kind == "format":
        return _only_model(models(names), name=name, source=source)
    what, usual, suffixes, indexed = _KINDS[kind]
    for wanted in usual:
        if wanted in names:
            return wanted
    if kind == "safetensors" and PIPELINE in names:
        return None  # no other file here is a model by itself
    stored = [file for file in names if file.endswith(suffixes) and not file.startswith(_LEFTOVERS)]
    if kind == "pickle" and len(stored) > 1 and all(re.fullmatch(_PART, file) for file in stored):
        return min(stored)  # its reader joins the parts
    return _only(stored, [file for file in names if re.search(indexed, file)], what, name=name, source=source)


def _only(stored: Sequence[str], indexes: Sequence[str], kind: str, *, name: str, source: SourceOf) -> str | None:
    """Return the only index, else the only file; raise ``CheckpointError`` if there are several, or parts of one."""
    if len(indexes) == 1:
        return indexes[0]
    if not indexes:
        check_parts(stored, name=name)
    if len(stored) > 1 or indexes:
        shown, one = shortened(", ".join(indexes or stored)), source((indexes or stored)[0])
        raise fault(name, f"holds several {kind}, {shown}; name one file, such as {one}")
    return stored[0] if stored else None


def check_parts(files: Sequence[str], *, name: str) -> None:
    """Raise ``CheckpointError`` if files are those of processes, numbered from 0, or shards without their index.

    None of them may be whole, not even one that is there alone.
    """
    found, shown = [re.fullmatch(_RANK, file) for file in files], shortened(", ".join(files))
    ranks = {int(one[1] or one[2]) for one in found if one is not None}
    if None not in found and len(ranks) > 1 and ranks == set(range(len(ranks))):
        raise fault(
            name,
            f"holds the files of {len(ranks)} processes, {shown}, each of which may have a slice of the tables; save "
            "the model gathered, with save_pretrained, and open that",
        )
    split = [one for file in files if (one := re.fullmatch(_SHARD, file)) is not None and int(one[3]) > 1]
    if files and len(split) == len(files):
        stem, variant, _, suffix = split[0].groups()
        index = shortened(f"{stem}{suffix}.index{variant}.json")
        raise fault(name, f"holds shards, {shown}, but not their index; download {index} too")


def has_format(file: str) -> bool:
    """Return whether a file name has the suffix of one of the formats of ``SUFFIXES``."""
    return PurePosixPath(file).suffix in SUFFIXES


def _only_model(found: Sequence[str], *, name: str, source: SourceOf) -> str | None:
    """Return the only model; raise ``CheckpointError`` if there are several."""
    if len(found) > 1:
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        listed = ", ".join(map(shortened, found[:_MOST_SHOWN]))
        raise fault(name, f"holds {len(found)} models, {listed}{more}; name one, such as {source(found[0])}")
    return found[0] if found else None


def models(names: Sequence[str]) -> list[str]:
    """Return the files among ``names`` that are models of these formats; of several splits, the first."""
    found = [file for file in names if has_format(file) and not re.search(_NO_MODEL, PurePosixPath(file).name)]
    return sorted(file for file in found if (split := re.search(_SPLIT, file)) is None or int(split[1]) == 1)


def is_pickled(file: str) -> bool:
    """Return whether a file name is that of a pickle written by torch.save, or of the index of several."""
    return file.endswith(PICKLES) or re.search(_PICKLE_INDEX, file) is not None


def is_checkpoint(file: str) -> bool:
    """Return whether a file name is that of a checkpoint, or of the index of several files."""
    return file.endswith(".safetensors") or is_index(file) or is_pickled(file) or has_format(file)


def foreign_file(file: str) -> str:
    """Return what to say of a file that is no checkpoint of a format that is read."""
    suffix = Path(file).suffix.replace(".txt", ".vec")  # GloVe's vectors; among others, .txt is a vocabulary
    return f"is not a .safetensors file; {FOREIGN_FORMATS.get(suffix, _MATRIX)}"


def no_checkpoint(names: Sequence[str], *, name: str, path: str = "", hub: bool = False) -> CheckpointError:
    """Return the error for a folder without a checkpoint, with what it contains and what to do.

    Args:
        names: Paths of all files below the folder.
        name: Name of the folder in messages.
        path: Path of the folder, or with ``hub`` the repository's name.
        hub: Whether the folder is a repository on the Hub.
    """
    if known := advice(names, name=path or name, endings=(".safetensors", *PICKLES), hub=hub):
        return fault(name, known)
    if inside := models(names):
        shown = source_inside(path or name, inside[0], hub=hub)
        return fault(
            name, f"has its models in other folders, {shortened(', '.join(inside))}; name one, such as {shown}"
        )
    foreign = [file for file in names if Path(file).suffix in FOREIGN_FORMATS and not file.startswith(_LEFTOVERS)]
    if foreign:
        first = next(suffix for suffix in FOREIGN_FORMATS if any(Path(file).suffix == suffix for file in foreign))
        said = f"has no .safetensors file, only {shortened(', '.join(foreign))}; {FOREIGN_FORMATS[first]}"
        return fault(name, said)
    return fault(name, f"has no .safetensors file among {counted(len(names), 'file')}; give the folder of a model")


def is_index(file: str) -> bool:
    """Return whether a file name is that of a sharded checkpoint's index."""
    return re.search(_INDEX, file) is not None


def locate(path: Path) -> Path:
    """Return the file or index of a folder's checkpoint: safetensors, else a pickle, else another format.

    A file is returned unchanged.
    """
    if not os.path.isdir(path):
        return path
    for kind in KINDS:
        if (found := _search(path, kind)) is not None:
            return found
    if (exports := path / EXPORTS).is_dir() and (found := _search(exports, "format")) is not None:
        return found
    return locate_safetensors(path)


def locate_safetensors(folder: Path) -> Path:
    """Return the .safetensors file, or the index of several, of a folder's model.

    Raises ``CheckpointError`` if there is none.
    """
    if (found := _search(folder, "safetensors")) is None:
        raise no_checkpoint(_names_below(folder), name=folder.name, path=str(folder))
    return found


def _search(folder: Path, kind: str) -> Path | None:
    """Return a folder's checkpoint of one kind, else that of its first module."""
    source = partial(source_inside, str(folder), hub=False)
    if (found := choose(kind, files_in(folder), name=folder.name, source=source)) is not None:
        return folder / found
    module = _first_module(folder)
    return None if module is None else _search(module, kind)


def _names_below(folder: Path) -> list[str]:
    """Return the relative paths of files below a folder, limited in depth and number so as not to scan a whole disk."""
    found: list[str] = []
    for at, folders, files in os.walk(folder):
        inside = os.path.relpath(at, folder)
        if inside.count(os.sep) >= MOST_NESTED - 1:
            folders.clear()
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        found += [file if inside == "." else f"{inside}/{file}".replace(os.sep, "/") for file in sorted(files)]
        if len(found) > MOST_NAMES:
            break
    return found


def _first_module(folder: Path) -> Path | None:
    """Return the model's folder if ``folder`` is a sentence-transformers folder, else ``None``."""
    listing = folder / MODULES
    if not os.path.exists(listing):
        return folder / TRANSFORMER if os.path.isdir(folder / TRANSFORMER) else None
    path = module_folder(read_json(listing, limit=DEFAULT_LIMITS.config_bytes, kind=list))
    if path is not None and not os.path.isdir(folder / path):
        raise fault(
            MODULES, f"says that the model is in the folder {shortened(path)}, which does not exist; download it too"
        )
    return None if path is None else folder / path


def module_folder(modules: Sequence[Any]) -> str | None:
    """Return the model's folder according to modules.json of sentence-transformers.

    The model is the first module whose type is a Transformer, else the first module.

    Returns:
        Name of the folder; ``None`` if the model is in the folder of modules.json itself.

    Raises:
        CheckpointError: If the path is anything but the name of a folder next to modules.json.
    """
    listed = [one for one in modules if isinstance(one, dict)]
    if not listed:
        raise fault(
            MODULES, f"must list modules, each an object with a path; found {len(modules)} entries and no object"
        )
    kinds = [one.get("type") for one in listed]
    first = next((at for at, kind in enumerate(kinds) if isinstance(kind, str) and kind.endswith(".Transformer")), 0)
    path = listed[first].get("path")
    if path == "":
        return None
    if not is_plain(path):
        found = shortened(path) if isinstance(path, str) else f"a path that is {type(path).__name__}"
        raise fault(MODULES, f"must name a folder next to it as the path of the model; found {found}")
    return path
