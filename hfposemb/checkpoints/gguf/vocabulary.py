"""Vocabulary in the head of a GGUF file, with the notation that its tokenizer had before it was converted."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ...tables.table import Labels
from ...tables.token_marks import TokenMarks
from ..tokenizers.added_tokens import marks_in
from ..tokenizers.vocabulary import Style, Vocabulary, style_by_share
from .header import TOKEN_TYPES, TOKENS, GgufHeader, Texts

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
    instead of continuations with ``##``.
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
        elif model == "bert":
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


def read_marks(header: GgufHeader, found: Vocabulary, labels: Labels) -> TokenMarks:
    """Return the reserved, added and chat tokens of a head.

    Args:
        header: The head.
        found: Its vocabulary.
        labels: Labels of the rows.
    """
    whole = {**found.pieces, **found.literal}
    roles = {f"{role}_token": whole[row] for role, row in role_ids(header).items() if row in whole}
    return marks_in(found, labels, read_template(header), roles)


def role_ids(header: GgufHeader) -> dict[str, int]:
    """Return the ids of the special tokens that a head declares, by role such as ``eos``."""
    ids = {role: header.whole(f"tokenizer.ggml.{key}_token_id") for key, role in _ROLES.items()}
    return {role: row for role, row in ids.items() if row is not None}


def read_template(header: GgufHeader) -> str:
    """Return the chat template of a head, or several joined; "" if there is none."""
    templates = [value for key, value in header.values.items() if key.startswith("tokenizer.chat_template")]
    return "\n".join(text for text in templates if isinstance(text, str))
