"""GGUF checkpoints of llama.cpp, with the vocabulary that they state: one file or several splits, here or on the Hub.

Rows are whole blocks, so any rows can be read alone. They are decoded exactly, to float32. Names and values of tensors
are those of the file: llama.cpp stores some modules under other names than transformers, and permutes the rows of the
query and key projections of models with rotary positions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...lazy_attributes import lazy_attribute
from ...tables.table import Labels
from ...tables.token_marks import TokenMarks
from ..file_ranges import FileRanges
from ..limits import DEFAULT_LIMITS, Limits
from ..safetensors.checkpoint import PLAIN, TensorInfo, as_rows, check_read, stays
from ..strict_json import fault, shortened
from ..tokenizers.added_tokens import marks_in
from ..tokenizers.small_files import Merges
from ..tokenizers.vocabulary import Style, Vocabulary, style_by_share
from .blocks import DECODERS, decoded
from .config import configuration
from .header import MERGES, TOKEN_TYPES, TOKENS, GgufHeader, Texts, read_header

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5
"""Types of tokens other than the normal ones and the bytes, which their notation shows."""

_STYLES: Mapping[str, Style] = {
    "gpt2": Style(byte_level=True),
    "llama": Style(space="▁"),
    "t5": Style(space="▁"),
    "gemma4": Style(space="▁"),
    "bert": Style(prefix="##"),
}
_FILLED = re.compile(r"▁?\[PAD\d+\]")
"""Names that converters give to rows to which no token belongs."""

_BRACKETED = re.compile(r"\[.+\]", re.DOTALL)

_ROLES: Mapping[str, str] = {
    "bos": "bos",
    "eos": "eos",
    "padding": "pad",
    "unknown": "unk",
    "seperator": "sep",
    "mask": "mask",
    "cls": "cls",
}


def read_vocabulary(header: GgufHeader) -> Vocabulary | None:
    """Return the vocabulary of a head, ``None`` if it has none.

    WordPiece vocabularies are returned as their tokenizers write them: converters mark starts of words with ``▁``
    instead of continuations with ``##``; names in brackets, which continue no word, have neither in older files.
    """
    tokens = header.values.get(TOKENS)
    if not isinstance(tokens, Texts) or not len(tokens):
        return None
    types = header.values.get(TOKEN_TYPES)
    kinds = types.tolist() if isinstance(types, np.ndarray) and len(types) == len(tokens) else [1] * len(tokens)
    model, texts = header.text("tokenizer.ggml.model"), tokens.decoded()
    pieces: dict[int, str] = {}
    literal: dict[int, str] = {}
    unused: set[int] = set()
    special: set[str] = set()
    for row, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        if kind == _UNUSED and _FILLED.fullmatch(text):
            continue
        if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN):
            literal[row] = text
        elif model == "bert" and not _BRACKETED.fullmatch(text):
            text = text[1:] if text.startswith("▁") else f"##{text}"
        if kind in (_CONTROL, _UNKNOWN):
            special.add(text)
        elif kind == _UNUSED:
            unused.add(row)
        # In a BPE vocabulary, tokens that users define are added to those that were trained.
        if kind != _USER_DEFINED or model != "gpt2":
            pieces[row] = text
    style = _STYLES.get(model) or style_by_share(pieces.values())
    return Vocabulary(TOKENS, pieces, style, literal, frozenset(special), unused=frozenset(unused))


_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
_MOST_SPLITS = 1000
_TYPES = ", ".join(sorted((*DECODERS, *PLAIN)))


@dataclass(frozen=True, eq=False)
class GgufCheckpoint:
    """A model in GGUF files. All errors are ``SourceError`` or its subclasses, except for rows that do not exist.

    Attributes:
        files: The splits in order, or the only file.
        headers: Their heads.
        limits: Limits of what is read.
    """

    files: tuple[FileRanges, ...]
    headers: tuple[GgufHeader, ...]
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location of the files; the other process reads their heads again."""
        return open_gguf, (self.files[0], self.limits)

    @property
    def name(self) -> str:
        """Name in messages."""
        return self.files[0].name

    @lazy_attribute
    def _split_of(self) -> Mapping[str, int]:
        return {name: place for place, header in enumerate(self.headers) for name in header.tensors}

    def names(self) -> tuple[str, ...]:
        """Return the tensors' names, as they are stored."""
        return tuple(self._split_of)

    def info(self, name: str) -> TensorInfo:
        """Return a tensor's block type, shape [rows, width] and location."""
        return self.headers[self._place(name)].tensors[name]

    def metadata(self) -> Mapping[str, str]:
        """Return {}: the keys of a head are those of ``config``, and none of them names a tensor."""
        return {}

    def config(self) -> dict[str, Any] | None:
        """Return the configuration in the terms of transformers, ``None`` if the file states no architecture."""
        return configuration(self.headers[0], frozenset(self._split_of), self.read)

    def file_bytes(self, name: str) -> int:
        """Return the size of the file that holds a tensor."""
        return self.headers[self._place(name)].file_bytes

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return rows ``[start, stop)`` of a tensor, read-only, as float32; F64 stays.

        Raises:
            CheckpointError: If the tensor cannot be decoded or exceeds a limit.
            InputError: If the rows do not exist.
        """
        info, file = self.info(name), self.files[self._place(name)]
        whole = range(info.start, info.stop)
        if info.dtype in PLAIN:
            span = check_read(info, start, stop, limits=self.limits)
            return as_rows(file.read(span, whole=whole, own=stays(info)), info, start, stop)
        if info.dtype not in DECODERS or len(info.shape) < 2:
            what = f"is stored as {info.dtype}" if info.dtype not in DECODERS else f"is a vector stored as {info.dtype}"
            raise fault(file.name, f"{shortened(name)} {what}, which cannot be read; types of tables are {_TYPES}")
        each = info.nbytes // max(info.shape[0], 1)
        span = check_read(info, start, stop, limits=self.limits, row_bytes=each)
        shape = (len(range(info.shape[0])[start:stop]), *info.shape[1:])
        # As large as a table in F16 may be.
        if 2 * math.prod(shape) > self.limits.table_bytes:
            rule = f"the limit is {self.limits.table_bytes // 2}; read fewer rows at a time"
            raise fault(
                file.name, f"rows {start} to {stop} of {shortened(name)} have {math.prod(shape)} numbers; {rule}"
            )
        made = decoded(info.dtype, file.read(span, whole=whole), shape)
        made.flags.writeable = False
        return made

    def labels(self, rows: int) -> Labels | None:
        """Return the labels of a token table from the head, ``None`` if it has no tokens."""
        return None if self.vocabulary is None else self.vocabulary.labels(rows)

    def marks(self, labels: Labels) -> TokenMarks | None:
        """Return the reserved, added and chat tokens according to the head, ``None`` if it has no tokens."""
        if (found := self.vocabulary) is None:
            return None
        whole = {**found.pieces, **found.literal}
        roles = {f"{role}_token": whole[row] for role, row in self.role_ids.items() if row in whole}
        return marks_in(found, labels, self.template, roles)

    @property
    def template(self) -> str:
        """The chat template of the head, or several joined; "" if it has none."""
        stated = self.headers[0].values.items()
        templates = [value for key, value in stated if key.startswith("tokenizer.chat_template")]
        return "\n".join(text for text in templates if isinstance(text, str))

    @property
    def role_ids(self) -> dict[str, int]:
        """The ids of the special tokens that the head declares, by role such as ``eos``."""
        ids = {role: self.headers[0].whole(f"tokenizer.ggml.{key}_token_id") for key, role in _ROLES.items()}
        return {role: row for role, row in ids.items() if row is not None}

    @property
    def tokenizer_kind(self) -> tuple[str, str]:
        """The names that llama.cpp has for the tokenizer's model and for what cuts a text before it."""
        return self.headers[0].text("tokenizer.ggml.model"), self.headers[0].text("tokenizer.ggml.pre")

    @property
    def merges(self) -> Merges | None:
        """The merges of a BPE in the head, ``None`` if it states none."""
        stated = self.headers[0].values.get(MERGES)
        if not isinstance(stated, Texts) or not len(stated):
            return None
        return Merges(MERGES, json.dumps(stated.decoded()).encode())

    @lazy_attribute
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of the head, ``None`` if it has no tokens."""
        return read_vocabulary(self.headers[0])

    def _place(self, name: str) -> int:
        if name not in self._split_of:
            raise fault(self.name, f"has no tensor {shortened(name)} among its {len(self._split_of)} tensors")
        return self._split_of[name]


def open_gguf(file: FileRanges, limits: Limits = DEFAULT_LIMITS) -> GgufCheckpoint:
    """Open a GGUF model by any of its files; reads their heads and no tensor.

    Args:
        file: The file, or one of the splits.
        limits: Limits of what is read.

    Raises:
        CheckpointError: If a file violates its format, or a split is missing.
    """
    header = read_header(file, limits)
    count = header.whole("split.count", high=_MOST_SPLITS) or 1
    if count == 1:
        return GgufCheckpoint((file,), (header,), limits)
    named = _SPLIT.fullmatch(file.name)
    if named is None or int(named[3]) != count:
        rule = f"is one of {count} splits, so its name must end in -00001-of-{count:05}.gguf; rename the splits"
        raise fault(file.name, rule)
    names = [f"{named[1]}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    if missing := sorted(set(names) - set(file.listing())):
        raise fault(file.name, f"{len(missing)} of {count} splits are missing; download {shortened(missing[0])} too")
    files = tuple(file if name == file.name else file.beside(name) for name in names)
    headers = tuple(header if one is file else read_header(one, limits) for one in files)
    _check_splits(files, headers)
    return GgufCheckpoint(files, headers, limits)


def _check_splits(files: Sequence[FileRanges], headers: Sequence[GgufHeader]) -> None:
    """Require that splits are those of one model, in order, and that none of their tensors is stored twice."""
    count, seen = len(files), set[str]()
    for place, (file, header) in enumerate(zip(files, headers, strict=True)):
        at, of = header.whole("split.no"), header.whole("split.count")
        if (at, of) != (place, count):
            said = "no number" if at is None else f"split {at + 1} of {of}"
            raise fault(file.name, f"must be split {place + 1} of {count}; it states {said}; download it again")
        if twice := seen.intersection(header.tensors):
            raise fault(file.name, f"{shortened(min(twice))} is in another split too; download the splits again")
        seen.update(header.tensors)
    stated = headers[0].whole("split.tensors.count")
    if stated is not None and stated != len(seen):
        raise fault(files[0].name, f"states {stated} tensors, but the splits have {len(seen)}; download them again")
