"""What the small files beside a vocabulary declare: added and special tokens, and the class of the tokenizer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .small_files import expect, given, read_tokenizer_json, token_id
from .vocabulary import SPECIAL_NAME, Vocabulary

ADDED = ("tokenizer_config.json", "added_tokens.json")
"""Files that may declare added tokens, with their ids."""

SETTINGS = (*ADDED, "special_tokens_map.json")
"""Files that are read beside a vocabulary that does not state its special tokens itself."""

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Roles of special tokens, in the order in which transformers adds those that the vocabulary lacks."""

_LISTS = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True)
class Declared:
    """Special and added tokens declared beside a bare vocabulary.

    Attributes:
        literal: Added tokens by id.
        special: Special tokens.
        parts: Special tokens by role, such as ``bos_token``.
        more: Further special tokens, in order.
        settings: The content of tokenizer_config.json.
    """

    literal: Mapping[int, str]
    special: frozenset[str]
    parts: Mapping[str, str]
    more: tuple[str, ...]
    settings: Mapping[str, Any]

    def by_role(self, defaults: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield the tokens that are declared without an id, in the order in which transformers adds them.

        Args:
            defaults: Special tokens by role of the tokenizer's class, which the files may replace.
        """
        parts = {**(defaults or {}), **self.parts}
        yield from (parts[role] for role in ROLES if role in parts)
        yield from (token for role, token in parts.items() if role not in ROLES)
        yield from self.more


def read_declared(folder: Path, *, listed_alone: bool = False) -> Declared:
    """Read the files that stand beside a vocabulary.

    Args:
        folder: Folder of the tokenizer's files.
        listed_alone: Whether the other files count only if the settings list no added tokens, as transformers reads
            them.

    Raises:
        SourceError: If one violates its format.
    """
    settings = read_tokenizer_json(folder / "tokenizer_config.json")
    listed = "added_tokens_decoder" in settings
    added_later, roles = (
        {} if listed and listed_alone else read_tokenizer_json(folder / name)
        for name in ("added_tokens.json", "special_tokens_map.json")
    )
    added = {token_id(row, token, file="added_tokens.json"): token for token, row in added_later.items()}
    special: set[str] = set()
    for key, token in expect(given(settings, "added_tokens_decoder", {}), dict, "added_tokens_decoder").items():
        if re.fullmatch(r"\d{1,9}", key) and (content := content_of(token)) is not None:
            added[int(key)] = content
            special |= {content} if isinstance(token, dict) and token.get("special") is True else set()
    parts: dict[str, str] = {}
    more: dict[str, None] = {}
    # transformers reads the map only if the settings do not list the added tokens.
    for stated in (roles, settings) if listed else (settings, roles):
        for part, value in stated.items():
            if part.endswith("_token") and (content := content_of(value)) is not None:
                parts[part] = content
                special.add(content)
            elif part.endswith("_tokens") and isinstance(value, list | dict):
                tokens = value.values() if isinstance(value, dict) else value
                found = [content for token in tokens if (content := content_of(token)) is not None]
                special.update(found)
                more |= dict.fromkeys(found) if part in _LISTS else {}
    return Declared(added, frozenset(special), parts, tuple(more), settings)


def listed_tokens(settings: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens that tokenizer_config.json lists by their ids; empty if it lists none."""
    listed = settings.get("added_tokens_decoder")
    items = listed.items() if isinstance(listed, dict) else ()
    found = {int(key): content_of(token) for key, token in items if re.fullmatch(r"\d{1,9}", key)}
    return {row: token for row, token in found.items() if token is not None}


def numbered(tokens: Iterable[str], vocabulary: Mapping[str, int], size: int) -> dict[int, str]:
    """Return added tokens by id as the tokenizers library numbers them, whatever ids a file states.

    Args:
        tokens: The tokens, in the order in which they are added. One of the vocabulary keeps its id, any other follows.
        vocabulary: Ids of the pieces that are among them, or of all.
        size: Number of pieces of the vocabulary.

    >>> from hfposemb.checkpoints.tokenizers.declared import numbered
    >>> numbered(["<s>", "<x>", "<y>"], {"<s>": 0, "a": 1}, 2)
    {0: '<s>', 2: '<x>', 3: '<y>'}
    """
    ids: dict[str, int] = {}
    last = size - 1
    for token in filter(None, tokens):
        row = ids.get(token, vocabulary.get(token))
        ids[token] = last + 1 if row is None else row
        last = max(last, ids[token])
    return {row: token for token, row in ids.items()}


def content_of(token: Any) -> str | None:
    """Return a token that is written as text or as an object with a ``content``; ``None`` if it is neither."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def tokenizer_class(folder: Path, declared: Declared, of_types: Mapping[str, str]) -> str:
    """Return the class of the tokenizer, without ``Fast``; "" if no file says it.

    Args:
        folder: Folder of the tokenizer's files.
        declared: What they declare.
        of_types: Classes by model type, for folders that state no class.
    """
    stated = declared.settings.get("tokenizer_class")
    if not isinstance(stated, str):
        config = read_tokenizer_json(folder / "config.json")
        kind = config.get("model_type")
        stated = config.get("tokenizer_class") or (of_types.get(kind) if isinstance(kind, str) else None)
    return stated.removesuffix("Fast") if isinstance(stated, str) else ""


def completed(
    found: Vocabulary,
    declared: Declared,
    defaults: Mapping[str, str] | None = None,
    *,
    anew: bool = False,
    ordinary: bool = False,
) -> Vocabulary:
    """Return a bare vocabulary with its declared tokens; those without an id follow the last one, as in transformers.

    Args:
        found: The vocabulary.
        declared: What the files beside it declare.
        defaults: Special tokens by role of the tokenizer's class, which the files may replace.
        anew: Whether the class numbers all added tokens anew, as the tokenizers library does.
        ordinary: Whether no piece is special by its name, since the file lists what texts are cut into, as tiktoken's.
    """
    # The control tokens of a vocabulary are special, those that its files declare, and others by their names.
    parts = {**(defaults or {}), **declared.parts}
    by_name = frozenset() if ordinary else special_by_name(found.pieces)
    special = found.special | declared.special | by_name | {*parts.values()}
    stated = dict(sorted(declared.literal.items()))
    if anew:
        stated = numbered(stated.values(), {piece: row for row, piece in found.pieces.items()}, len(found.pieces))
    literal = {**found.literal, **stated}
    known = {*found.pieces.values(), *literal.values()}
    row = max((*found.pieces, *literal), default=-1) + 1
    for token in declared.by_role(defaults):
        if token and token not in known:
            literal[row] = token
            known.add(token)
            row += 1
    return replace(found, literal=literal, special=special, declared=parts)


def special_by_name(pieces: Mapping[int, str]) -> frozenset[str]:
    """Return the pieces that are special by their names, which cover the tokens that only a class defines."""
    return frozenset(piece for piece in pieces.values() if SPECIAL_NAME.fullmatch(piece))
