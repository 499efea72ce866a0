"""Tables and token labels that the caller names for a torch module."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ..checkpoints.safetensors import TensorInfo
from ..checkpoints.torch_module import LiveTensors
from ..errors import InputError
from ..tables.table import Labels
from .opened_model import table_axes
from .table_names import Candidate, Role

if TYPE_CHECKING:
    import tokenizers
    import transformers

    Tokenizer: TypeAlias = (
        transformers.PreTrainedTokenizerBase
        | tokenizers.Tokenizer
        | Sequence[str]
        | Mapping[str, int]
        | Mapping[int, str]
    )
    """What names tokens: a tokenizer, the tokens in order, or a dictionary between tokens and their numbers."""

PLACES: dict[str, tuple[Role, str]] = {
    "token": ("token", ""),
    "token_type": ("token_type", ""),
    "position": ("position", ""),
    "encoder.position": ("position", "encoder"),
    "decoder.position": ("position", "decoder"),
}
"""Tables that a caller can name, with role and part of the model."""

_SHAPES = "[rows, width], [1, rows, width] or [rows, 1, width]"
_LISTED = 5


def named_tables(live: LiveTensors, tables: Mapping[str, str]) -> dict[Role, tuple[Candidate, ...]]:
    """Return the tensors named by ``tables``, by role.

    Args:
        live: The module.
        tables: Maps roles to names, such as ``{"position": "encoder.pe"}``. A name is that of a parameter, a buffer,
            another tensor that is an attribute, or a module with a single table.

    Raises:
        InputError: For unknown roles and names, and for shapes that are not those of a table.
    """
    found: dict[Role, tuple[Candidate, ...]] = {}
    for place, name in tables.items():
        if place not in PLACES:
            raise InputError(f"unknown role {place!r} in tables; the roles are {', '.join(PLACES)}")
        if not isinstance(name, str):
            raise InputError(f"tables[{place!r}] must be the name of a tensor or module; got {type(name).__name__}")
        role, part = PLACES[place]
        found[role] = (*found.get(role, ()), Candidate(_tensor_named(live, name), part))
    return found


def _tensor_named(live: LiveTensors, name: str) -> str:
    """Return the name of the tensor that the name of a tensor or module refers to."""
    if live.has(name):
        info = live.info(name)
        if not _one_table(info):
            raise InputError(
                f"{name} of {live.name} has the shape {list(info.shape)}; a table needs {_SHAPES}; "
                "reshape it and use hpe.from_arrays"
            )
        return name
    inside = [one for one in live.tensors() if one.startswith(f"{name}.")]
    fitting = [one for one in inside if _one_table(live.info(one))]
    if f"{name}.weight" in fitting:
        return f"{name}.weight"
    if len(fitting) == 1:
        return fitting[0]
    if inside:
        held = f"several tables, {_listed(fitting)}; name one of them" if fitting else f"no tensor of shape {_SHAPES}"
        raise InputError(f"{name} of {live.name} is a module with {held}")
    raise InputError(f"{live.name} has no parameter, buffer or module {name!r}; {_nearest(live, name)}")


def _one_table(info: TensorInfo) -> bool:
    return len(info.shape) >= 2 and len(table_axes(info)) == 2


def _nearest(live: LiveTensors, name: str) -> str:
    """Suggest tables with names similar to a missing one, or else list the tables."""
    tables = [one for one in live.tensors() if _one_table(live.info(one))]
    ends = [one for one in tables if one.rpartition(".")[2] == name.rpartition(".")[2]]
    known = {one.removesuffix(".weight"): one for one in tables} | {one: one for one in tables}
    close = [known[one] for one in difflib.get_close_matches(name, known, n=_LISTED, cutoff=0.5)]
    if nearest := list(dict.fromkeys([*ends, *close])):
        return f"similar names: {_listed(nearest)}"
    return f"its tables are {_listed(tables)}" if tables else "it has no tables"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


@dataclass(frozen=True, eq=False)
class SavedTokenizer:
    """Tokenizer that is saved to a temporary folder on first use; the folder exists as long as this object."""

    tokenizer: Any
    _folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list, repr=False)

    def __call__(self) -> Path:
        """Return the folder, saving the tokenizer if necessary."""
        if not self._folders:
            folder = tempfile.TemporaryDirectory(prefix="hfposemb-")
            if hasattr(self.tokenizer, "save_pretrained"):
                self.tokenizer.save_pretrained(folder.name)
            else:
                self.tokenizer.save(str(Path(folder.name) / "tokenizer.json"))
            self._folders.append(folder)
        return Path(self._folders[0].name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tokenizer without the folder."""
        return SavedTokenizer, (self.tokenizer,)


@dataclass(frozen=True)
class GivenLabels:
    """Labels from the caller's list or dictionary."""

    tokens: tuple[str, ...]

    def __call__(self, rows: int) -> Labels:
        """Return labels for ``rows`` rows. Raises ``InputError`` if their number differs."""
        if len(self.tokens) != rows:
            raise InputError(
                f"{len(self.tokens):,} labels were given for {rows:,} token vectors; give one label per vector"
            )
        return Labels(self.tokens, self.tokens, np.zeros(rows, np.uint8))


def names_of(tokenizer: Tokenizer) -> SavedTokenizer | Callable[[int], Labels]:
    """Return a callable that saves a tokenizer, or one that makes labels from a list or dictionary of tokens.

    Raises ``InputError`` for anything else.
    """
    if hasattr(tokenizer, "save_pretrained") or (hasattr(tokenizer, "save") and hasattr(tokenizer, "get_vocab")):
        return SavedTokenizer(tokenizer)
    if isinstance(tokenizer, Mapping):
        return GivenLabels(_ordered(cast("Mapping[Any, Any]", tokenizer)))
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, (str, bytes)):
        if wrong := next((one for one in tokenizer if not isinstance(one, str)), None):
            raise InputError(f"labels must be strings; got {wrong!r:.60}")
        return GivenLabels(tuple(tokenizer))
    raise InputError(
        "tokenizer must be a transformers tokenizer, a tokenizers.Tokenizer, a list of labels, or a dictionary "
        f"between labels and row numbers; got {type(tokenizer).__name__}"
    )


def _ordered(numbers: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the tokens of a dictionary, in either direction between tokens and numbers, ordered by number."""
    pairs = [(one, other) if isinstance(one, str) else (other, one) for one, other in numbers.items()]
    if wrong := [pair for pair in pairs if not isinstance(pair[0], str) or not isinstance(pair[1], int)]:
        raise InputError(
            f"a dictionary of labels must map strings to row numbers or the reverse; found {wrong[0]!r:.60}"
        )
    tokens = {number: token for token, number in pairs}
    if len(tokens) != len(pairs) or sorted(tokens) != list(range(len(tokens))):
        raise InputError(
            f"a dictionary of labels must number the rows from 0 to {len(pairs) - 1:,}, each once; "
            f"found {len(tokens):,} numbers from {min(tokens, default=0):,} to {max(tokens, default=0):,}"
        )
    return tuple(tokens[number] for number in range(len(tokens)))
