"""An opened source: its tensors and configuration, before its tables are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checkpoints.adapters.adapted import whole_modules
from ..checkpoints.formats import ReadTensors
from ..checkpoints.quantised.decoded import Decoded
from ..checkpoints.safetensors.checkpoint import TensorInfo
from ..checkpoints.tokenizers.small_files import TextReader
from ..errors import CheckpointError, InputError
from ..lazy_attributes import lazy_attribute
from ..tables.encodings import Grid
from ..tables.table import TOKEN_CLASSES, EmbeddingTable, Labels, Provenance, row_labels, rows_in_memory
from .architectures.config_values import (
    CONTINUED,
    first_whole,
    has_own_code,
    in_gguf,
    part_config,
    vocabularies,
    whole_number,
)
from .architectures.families import DEFAULT, Family, family_of
from .architectures.type_defaults import completed

if TYPE_CHECKING:
    from ..checkpoints.tokenizers.vocabulary import Vocabulary
    from ..tables.token_marks import TokenMarks

T = TypeVar("T")

_MOST_PADDING = 1024
"""Fewer rows than this beyond the tokens are padding of a vocabulary's size."""


def can_reopen(tensors: ReadTensors) -> bool:
    """Return whether tensors are pickled as a reference to their file or repository, which another process can read."""
    stored = tensors.stored if isinstance(tensors, Decoded) else tensors
    return not {"__getstate__", "__reduce__"}.isdisjoint(vars(type(stored)))


def itself(value: T) -> T:
    """Identity, where a factory is expected."""
    return value


def _none() -> None:
    return None


def not_missing() -> bool:
    """Return false: somebody states the tokens, or nobody knows whether."""
    return False


def always(name: str) -> bool:
    """Return true for any tensor: its header is on this machine."""
    return True


def nothing(name: str) -> None:
    """Return ``None`` for any file, where a reader of files is expected."""


@dataclass(frozen=True)
class Absent:
    """Placeholder for tensors that were not pickled; any access raises ``InputError``."""

    name: str

    def __getattr__(self, asked: str) -> Any:
        if asked.startswith("__"):
            raise AttributeError(asked)
        raise InputError(
            f"{self.name} was pickled without its other tensors; "
            "call inputs() and logits() before pickling, or open it again"
        )


@dataclass(frozen=True, eq=False)
class Opened:
    """An opened source, before its tables are found.

    Attributes:
        tensors: Its tensors.
        name: Its name.
        folder: Returns the tokenizer's folder, if there is one.
        config: Its configuration.
        notes: Remarks for the user about how it was read.
        commit: Its commit on the Hub.
        ours: Whether its tokenizer is trusted and may run in this process.
    """

    tensors: ReadTensors
    name: str
    folder: Callable[[], Path | None] = _none
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    commit: str | None = None
    ours: bool = False
    adapter: Callable[[], Mapping[str, Any] | None] = _none
    """Returns adapter_config.json, if there is one."""

    settings: Callable[[str], Mapping[str, Any] | None] = nothing
    """Returns a small JSON file next to the checkpoint by its name, if there is one."""

    text: TextReader = nothing
    """Returns a small text file next to the checkpoint by its name, if there is one."""

    labels: Callable[[int], Labels | None] | None = None
    """Returns the caller's token labels for a number of rows, or those that the checkpoint states, if any."""

    marks: Callable[[Labels], TokenMarks | None] | None = None
    """Returns the token marks that the checkpoint states, if any."""

    named: Mapping[str, str] = field(default_factory=dict)
    """Names of tensors that the user assigned to roles."""

    saved: Provenance | None = None
    """Provenance, as its file states it, of the only table, which was saved by itself."""

    refused: dict[str, str] = field(default_factory=dict)
    """Why the tensor that would be the table of a role is not read, by role."""

    without_tokens: Callable[[], bool] = not_missing
    """Returns whether no file states the tokens, as far as is known without a request."""

    at_hand: Callable[[str], bool] = always
    """Returns whether the dtype and shape of a tensor are known without a request."""

    _parts: dict[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle tensors that can be read again, and a placeholder for others."""
        tensors = self.tensors if can_reopen(self.tensors) else Absent(self.name)
        return {**self.__dict__, "tensors": tensors}

    def part(self, tower: str) -> Mapping[str, Any]:
        """Return the configuration of a part of the model with its defaults; of the text, or of the whole, for ""."""
        if tower not in self._parts:
            self._parts[tower] = part_config(self.whole, tower)
        return self._parts[tower]

    @lazy_attribute
    def whole(self) -> Mapping[str, Any]:
        """Configuration with the defaults of the model type for what it leaves out."""
        return completed(self.config)

    @lazy_attribute
    def vocabularies(self) -> frozenset[int]:
        """Sizes of all vocabularies in the configuration."""
        return vocabularies(self.config)

    @lazy_attribute
    def aliases(self) -> Mapping[str, str]:
        """Further names of tensors, from the header and of what an adapter saves whole, each with the stored name."""
        stored = frozenset(self.tensors.names())
        found = {**self.tensors.metadata(), **whole_modules(self.tensors.names())}
        return {alias: kept for alias, kept in found.items() if kept in stored and alias not in stored}

    @property
    def in_gguf(self) -> bool:
        """Whether the configuration is that of a GGUF file."""
        return in_gguf(self.config)

    @property
    def has_own_code(self) -> bool:
        """Whether the repository brings code of its own, which may read other fields than transformers does."""
        return has_own_code(self.config)

    def family(self, tower: str = "text") -> Family:
        """Return the family of the part's model type, or that of the whole model."""
        found = family_of(self.part(tower))
        return family_of(self.config) if found is DEFAULT else found

    def stated(self, names: tuple[str, ...], tower: str = "text") -> int | None:
        """Return the first of several integers that is in the configuration of a part."""
        return first_whole(self.part(tower), names, high=2**24)


def table_axes(info: TensorInfo) -> tuple[int, ...]:
    """Return the lengths of a tensor's axes without those of length 1, but at least one before the last."""
    *leading, width = info.shape
    long = [length for length in leading if length != 1]
    return (*(long or [1]), width)


def is_table(info: TensorInfo) -> bool:
    """Return whether a tensor's shape is that of a table [rows, width] or a grid [rows, columns, width]."""
    return len(info.shape) >= 2 and 2 <= len(table_axes(info)) <= 3


def stored_grid(info: TensorInfo) -> Grid | None:
    """Return the grid of a tensor [rows, columns, width] or [width, rows, columns]; ``None`` for other shapes."""
    axes = table_axes(info)
    if len(axes) != 3:
        return None
    return Grid(axes[1], axes[2]) if _channels_first(axes) else Grid(axes[0], axes[1])


def _channels_first(axes: tuple[int, ...]) -> bool:
    # SAM 2 stores [width, rows, columns]; its windows are square, with fewer rows than the vectors have components.
    return axes[1] == axes[2] < axes[0]


def table_in_tensor(
    opened: Opened, role: str, tensor: str, *, offset: int = 0, plane: int | None = None
) -> EmbeddingTable:
    """Return the table in a tensor, starting at row ``offset``; a grid is read row by row.

    Args:
        opened: The opened source.
        role: Role of the table; ``token`` adds labels.
        tensor: Name of the tensor.
        offset: Number of leading rows to leave out.
        plane: Index of the table in a tensor that stacks several along its first axis.

    Raises:
        CheckpointError: If the tensor is not a table or no rows are left.
    """
    tensors = opened.tensors
    info = tensors.info(tensor)
    if role == "token" and (more := _continuation(opened, tensor)) is not None:
        return _joined(table_in_tensor(opened, "", tensor), table_in_tensor(opened, "", more), opened)
    if not is_table(info):
        raise CheckpointError(
            f"{tensor} in {opened.name} must have two axes [rows, width]; its shape is {list(info.shape)}"
        )
    axes = table_axes(info)
    turned = len(axes) == 3 and plane is None and _channels_first(axes)
    width = axes[0] if turned else axes[-1]
    stored = axes[-2] if plane is not None else math.prod(axes) // max(width, 1)
    rows = stored - offset
    if rows < 1 or width < 1:
        raise CheckpointError(
            f"{tensor} in {opened.name} has the shape [{stored}, {width}], and {offset} leading rows are not positions"
        )

    provenance = Provenance(
        source=opened.name,
        commit=opened.commit,
        file=info.file or None,
        tensor=tensor,
        stored_dtype=info.dtype,
        nbytes=info.nbytes,
        file_bytes=tensors.file_bytes(tensor),
        row_offset=offset,
        saved=opened.saved,
    )
    dtype = np.dtype(np.float64) if info.dtype == "F64" else np.dtype(np.float32)
    named = partial(labels_of, opened, rows) if role == "token" else None
    read = _Rows(tensors, info, rows, offset=offset, plane=plane, turned=turned)
    return EmbeddingTable(f"{opened.name} {role.replace('_', ' ')}s", (rows, width), dtype, provenance, read, named)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Reader of the rows of a tensor, or of one plane of it, from row ``offset`` on.

    ``turned`` marks a grid stored as [width, rows, columns].
    """

    tensors: ReadTensors
    info: TensorInfo
    rows: int
    offset: int
    plane: int | None
    turned: bool

    def __call__(self, start: int, stop: int) -> NDArray[Any]:
        start, stop = start + self.offset, stop + self.offset
        if len(self.info.shape) == 2:
            return self.tensors.read(self.info.name, start, stop)
        whole = self.tensors.read(self.info.name).reshape(table_axes(self.info))
        if self.plane is not None:
            whole = whole[self.plane]
        whole = np.moveaxis(whole, 0, -1) if self.turned else whole
        return whole.reshape(-1, whole.shape[-1])[start:stop]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the rows if another process can read them there, otherwise the rows."""
        if not can_reopen(self.tensors):
            return rows_in_memory, (self(0, self.rows),)
        return _Rows, (self.tensors, self.info, self.rows, self.offset, self.plane, self.turned)


def _continuation(opened: Opened, tensor: str) -> str | None:
    """Return the tensor in which a token table continues, or ``None``."""
    for ending, more in CONTINUED.items():
        name = tensor.removesuffix(ending) + more
        if tensor.endswith(ending) and name in opened.tensors.names():
            return name
    return None


def _joined(first: EmbeddingTable, second: EmbeddingTable, opened: Opened) -> EmbeddingTable:
    """Return the token table with the rows of two tensors, one after the other."""
    split, rows = first.shape[0], first.shape[0] + second.shape[0]

    note = f"rows from {split:,} on come from {second.provenance.tensor}"
    nbytes = first.provenance.nbytes + second.provenance.nbytes
    provenance = replace(first.provenance, nbytes=nbytes, notes=(*first.provenance.notes, note))
    named = partial(labels_of, opened, rows)
    read = partial(_read_both, first, second)
    return EmbeddingTable(f"{opened.name} tokens", (rows, first.shape[1]), first.dtype, provenance, read, named)


def _read_both(first: EmbeddingTable, second: EmbeddingTable, start: int, stop: int) -> NDArray[Any]:
    split = first.shape[0]
    parts = [first.rows(min(start, split), min(stop, split))]
    parts.append(second.rows(max(start - split, 0), max(stop - split, 0)))
    return np.concatenate(parts)


def are_padding(rows: int, tokens: int) -> bool:
    """Return whether the rows beyond the ``tokens`` are so few that they pad the table.

    They are fewer than 1,024, or, where the number of rows is a multiple of 64, at most one for 100 tokens.
    """
    surplus = rows - tokens
    return 0 < surplus <= tokens and (surplus < _MOST_PADDING or (rows % 64 == 0 and 100 * surplus <= tokens))


def padded_rows(rows: int, tokens: int) -> bool:
    """Return whether ``rows`` is the vocabulary size ``tokens`` padded to a multiple of 8, as hardware prefers."""
    return rows % 8 == 0 and are_padding(rows, tokens)


def labels_of(opened: Opened, rows: int) -> Labels:
    """Return the labels of a vocabulary's rows: the caller's, the tokenizer's, or row numbers."""
    from ..checkpoints.tokenizers.small_files import NoVocabularyError
    from ..checkpoints.tokenizers.vocabulary_files import read_labels

    if opened.labels is not None and (stated := opened.labels(rows)) is not None:
        return stated
    found, note = opened.folder(), unnamed(opened)
    try:
        named = read_labels(found, rows=rows) if found else None
    except NoVocabularyError as error:
        named, note = None, f"{error}, so rows are numbered"
    if named is not None:
        return named
    if (letters := _of_bytes(opened)) is not None:
        return letters.labels(rows)
    return _numbered(rows, whole_number(opened.part("text"), "vocab_size"), note)


def is_unnamed(opened: Opened) -> bool:
    """Return whether nothing names the rows of a token table; without any vocabulary, one small file is read."""
    return opened.without_tokens() and _of_bytes(opened) is None


def _of_bytes(opened: Opened) -> Vocabulary | None:
    """Return the vocabulary of a tokenizer whose class states its tokens, which are bytes, as ByT5's."""
    from ..checkpoints.tokenizers.vocabulary_files import of_bytes

    stated = opened.config.get("tokenizer_class")
    settings: Mapping[str, Any] = {}
    with suppress(CheckpointError):  # a file that violates its format states no class
        settings = opened.settings("tokenizer_config.json") or {}
    return of_bytes(stated or settings.get("tokenizer_class"), settings)


def labels_of_target(opened: Opened, rows: int, source: int) -> Labels:
    """Return the labels of a decoder's own tokens: of their file, else the encoder's if it has as many.

    Args:
        opened: The opened source.
        rows: Number of rows of the decoder's table.
        source: Number of rows of the encoder's.
    """
    from ..checkpoints.tokenizers.vocabulary_files import read_labels

    folder = opened.folder()
    if folder is not None and (named := read_labels(folder, rows=rows, target=True)) is not None:
        return named
    if rows == source:
        return labels_of(opened, rows)
    why = f"no file states the decoder's tokens ({rows:,}; the encoder has {source:,})"
    return row_labels(rows, f"{why}, so rows are numbered; ?token=TENSOR with tokenizer= names them")


def marks_of(opened: Opened, table: EmbeddingTable) -> TokenMarks:
    """Return the reserved, added and chat tokens of a vocabulary; none if there are no tokenizer files."""
    from ..checkpoints.tokenizers.added_tokens import read_marks
    from ..tables.token_marks import TokenMarks

    if opened.marks is not None and (stated := opened.marks(table.labels)) is not None:
        return stated
    folder = opened.folder()
    return TokenMarks() if folder is None else read_marks(folder, table.labels, opened.settings, opened.text)


def unnamed(opened: Opened) -> str:
    """Return why the rows of a token table have no names but their numbers, where no file or caller states them."""
    if opened.folder is _none:
        return "no tokenizer was given, so rows are numbered; tokenizer= names them"
    return "no tokenizer file states the tokens (tokenizer.json, tokenizer.model, vocab.txt, …), so rows are numbered"


def _numbered(rows: int, tokens: int | None, note: str) -> Labels:
    """Label rows by number, and those beyond the tokens as padding, as ``read_labels`` does."""
    labels = row_labels(rows, note)
    if tokens is None or not padded_rows(rows, tokens):
        return labels
    texts = labels.texts[:tokens] + tuple(f"(padding {row})" for row in range(tokens, rows))
    classes = labels.classes.copy()
    classes[tokens:] = TOKEN_CLASSES.index("padding")
    return Labels(texts, texts, classes, note)
