"""Vocabularies of bytes by rank: tiktoken's files, and tekken.json of Mistral.

Their pieces are written as tokenizer.json has them, with a character for each byte, as transformers converts them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import SourceError
from .declared import completed, read_declared
from .small_files import expect, given, read_lines, read_tokenizer_json, token_id
from .vocabulary import Style, Vocabulary, as_characters

RANKED = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,9}\r?(?:\n|\Z)")
"""The first line of a tiktoken file: bytes in base64 and their rank."""

_EXTRAS = tuple(f"<|extra_{number}|>" for number in range(205))
_RESERVED, _LLAMA_RESERVED = "<|reserved_token_{}|>", 256
_MOST_RESERVED = 1_000_000
_PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "qwen.tiktoken": ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *_EXTRAS),
    "hy.tiktoken": ("<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>", *_EXTRAS),
}
"""Special tokens by file, which follow the ranks and are stated only in the code that is published with the models."""

_LLAMA3, _LLAMA3_RANKS = {0: "<|begin_of_text|>", 1: "<|end_of_text|>"}, 128_000
_LLAMA3 |= {6: "<|start_header_id|>", 7: "<|end_header_id|>", 9: "<|eot_id|>"}
"""Special tokens of Llama 3 after the ranks, where its versions agree; they differ in the reserved ones between."""

_TEKKEN = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
)
"""Special tokens of the first files named tekken.json, which do not list them."""


def read_tiktoken(folder: Path, file: str) -> Vocabulary:
    """Return the vocabulary of a tiktoken file and of the files beside it.

    Ids between the last rank and the last added token are reserved, as in transformers' ``TikTokenConverter``.

    Args:
        folder: Folder of the tokenizer's files.
        file: Name of the file.

    Raises:
        SourceError: If a file violates its format.
    """
    pieces: dict[int, str] = {}
    for number, line in enumerate(read_lines(folder / file)):
        text, _, rank = line.partition(" ")
        if not line.strip():
            continue
        if not re.fullmatch(r"[0-9]{1,9}", rank.strip()):
            raise SourceError(f"line {number + 1} of {file} must hold bytes in base64 and a rank; found {line!r:.60}")
        pieces[int(rank)] = _piece(text, f"line {number + 1} of {file}")
    declared = read_declared(folder)
    first = max(pieces, default=-1) + 1
    literal = dict(enumerate(_PUBLISHED.get(file, ()), first))
    if first == _LLAMA3_RANKS and not declared.literal:
        literal |= {first + place: _RESERVED.format(first + place) for place in range(_LLAMA_RESERVED)}
        literal |= {first + place: token for place, token in _LLAMA3.items()}
    last = max((row for row in declared.literal if row < first + _MOST_RESERVED), default=-1)
    literal |= {row: _RESERVED.format(row) for row in range(first, last) if row not in literal}
    stated = {*literal.values(), *declared.literal.values()}
    literal |= enumerate((one for one in declared.more if one not in stated), max((*literal, last, first - 1)) + 1)
    found = Vocabulary(file, pieces, Style(byte_level=True), literal, frozenset(literal.values()))
    return completed(found, declared)


def read_tekken(folder: Path, file: str) -> Vocabulary:
    """Return the vocabulary of Mistral's tekken.json.

    Args:
        folder: Folder of the tokenizer's files.
        file: Name of the file.

    Raises:
        SourceError: If the file violates its format.
    """
    data = read_tokenizer_json(folder / file)
    config = expect(given(data, "config", {}), dict, f"config in {file}")
    listed: Any = data.get("special_tokens")
    if listed is None:
        literal = dict(enumerate(_TEKKEN.split()))
    else:
        literal = {}
        for one in expect(listed, list, f"special_tokens in {file}"):
            named = f"a special token in {file}"
            token = expect(expect(one, dict, named).get("token_str"), str, f"token_str of {named}")
            literal[token_id(one.get("rank"), f"{token:.20} in {file}")] = token
    room = token_id(given(config, "default_num_special_tokens", len(literal)), "the last special token")
    if room > _MOST_RESERVED:
        raise SourceError(f"{file} states {room:,} special tokens; download it again")
    literal |= {row: f"<SPECIAL_{row}>" for row in range(room) if row not in literal}
    ranked = expect(data.get("vocab"), list, f"vocab in {file}")
    size = config.get("default_vocab_size")
    most = len(ranked) if size is None else max(token_id(size, "the last token") - room, 0)
    pieces = {}
    for rank, one in enumerate(ranked[:most]):
        named = f"token {rank} in {file}"
        pieces[room + rank] = _piece(expect(expect(one, dict, named).get("token_bytes"), str, named), named)
    return Vocabulary(file, pieces, Style(byte_level=True), literal, frozenset(literal.values()))


def _piece(text: str, what: str) -> str:
    try:
        return as_characters(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise SourceError(f"{what} must hold bytes in base64; found {json.dumps(text)[:60]}") from error
