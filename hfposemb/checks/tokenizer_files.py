"""What the files of a tokenizer say: tokens by id, special tokens, and the tokens that the chat template writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..checkpoints.tokenizers.chat_templates import chat_template
from ..checkpoints.tokenizers.vocabulary import Vocabulary
from ..checkpoints.tokenizers.vocabulary_files import has_vocabulary, read_vocabulary
from ..errors import SourceError
from ..models.architectures.config_values import whole_number
from .catalogue import finding
from .checked_source import SMALL_FILES, CheckedSource
from .findings import Finding

ROLES = ("bos", "eos", "pad", "cls", "sep", "mask", "unk")
MARKED = re.compile(r"<\|[\w.-]{1,60}\|>")


@dataclass(frozen=True)
class Tokens:
    """What is known of the tokens.

    Attributes:
        added: Added tokens by id, from the small files.
        roles: Special tokens by role: ``eos`` for ``eos_token``.
        vocabulary: The whole vocabulary, ``None`` if it was not read.
        template: The chat templates, "" if there is none.
        longest: Longest text that the tokenizer allows, ``None`` if it states none.
        stated: Whether there is any file of a tokenizer.
        findings: Findings about the files themselves.
    """

    added: Mapping[int, str]
    roles: Mapping[str, str]
    vocabulary: Vocabulary | None
    template: str
    longest: int | None
    stated: bool
    findings: tuple[Finding, ...] = ()

    @property
    def by_id(self) -> dict[int, str]:
        """Every known token by id."""
        whole = self.vocabulary
        known = {**whole.pieces, **whole.literal} if whole is not None else {}
        return {**known, **self.added}

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, ``None`` if it is not known."""
        return next((row for row, one in self.by_id.items() if one == token), None)

    def in_use(self) -> dict[int, str]:
        """Return the special tokens that the chat template writes or that begin and end texts, by id."""
        ends = {self.roles[role] for role in ("bos", "eos", "cls", "sep") if role in self.roles}
        literal = {**(self.vocabulary.literal if self.vocabulary is not None else {}), **self.added}
        if ends and self.vocabulary is not None and not self.vocabulary.literal:
            literal |= {row: one for row, one in self.vocabulary.pieces.items() if one in ends}
        return {row: one for row, one in literal.items() if one in ends or (one and one in self.template)}

    def unknown_in_template(self) -> list[str]:
        """Return the tokens that the template writes and the vocabulary lacks; empty if that cannot be said."""
        if self.vocabulary is None or not self.template:
            return []
        known = set(self.by_id.values())
        return sorted({one for one in MARKED.findall(self.template) if one not in known})


def read_tokens(source: CheckedSource) -> Tokens:
    """Read the files of the tokenizer, within the budget of the source; or what the checkpoint itself states."""
    if (whole := source.stated("vocabulary")) is not None:
        return Tokens({}, {}, whole, source.stated("template") or "", None, True)
    settings = source.json(SMALL_FILES[0]) or {}
    listed = source.json("added_tokens.json") or {}
    extra = source.json("special_tokens_map.json") or {}
    added = {**_decoder(settings), **_plain(listed)}
    roles = {role: found for role in ROLES if (found := _content(settings, extra, f"{role}_token")) is not None}
    vocabulary, findings = _vocabulary(source)
    findings = [*findings, *_conflicts(_decoder(settings), _plain(listed), vocabulary)]
    longest = whole_number(settings, "model_max_length", low=1, high=10**9)
    stated = bool(settings or added or vocabulary is not None)
    return Tokens(added, roles, vocabulary, chat_template(settings, source.read_text), longest, stated, tuple(findings))


def _decoder(settings: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens of ``added_tokens_decoder`` by id."""
    found = settings.get("added_tokens_decoder")
    entries = found.items() if isinstance(found, dict) else ()
    return {
        int(row): one["content"]
        for row, one in entries
        if row.isascii() and row.isdecimal() and isinstance(one, dict) and isinstance(one.get("content"), str)
    }


def _plain(listed: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens of added_tokens.json by id."""
    return {row: token for token, row in listed.items() if isinstance(row, int) and not isinstance(row, bool)}


def _content(settings: Mapping[str, Any], extra: Mapping[str, Any], name: str) -> str | None:
    """Return a special token, which is written as text or as an object with a ``content``."""
    for stated in (settings.get(name), extra.get(name)):
        text = stated.get("content") if isinstance(stated, dict) else stated
        if isinstance(text, str) and text:
            return text
    return None


def _vocabulary(source: CheckedSource) -> tuple[Vocabulary | None, list[Finding]]:
    if source.remote and not source.full:
        source.skipped("tokenizer.json and generation_config.json are not read from the Hub; --full reads them")
        return None, []
    folder = source.folder()
    if folder is None or not has_vocabulary(folder):
        source.skipped("no file states the vocabulary, so ids are checked by special tokens only")
        return None, []
    try:
        return read_vocabulary(folder), []
    except SourceError as error:
        return None, [finding("tokenizer-unreadable", str(error))]


def _conflicts(
    decoder: Mapping[int, str], plain: Mapping[int, str], vocabulary: Vocabulary | None
) -> Iterator[Finding]:
    """Yield a finding for ids to which two files give different tokens."""
    whole = {**vocabulary.pieces, **vocabulary.literal} if vocabulary is not None else {}
    sides = [(SMALL_FILES[0], decoder), ("added_tokens.json", plain)]
    sides += [(vocabulary.file, whole)] if vocabulary is not None else []
    for place, (file, tokens) in enumerate(sides):
        for other, theirs in sides[place + 1 :]:
            differing = sorted(row for row in tokens.keys() & theirs.keys() if tokens[row] != theirs[row])
            if differing:
                row = differing[0]
                said = f"{len(differing)} ids differ between {file} and {other}: {row} is {tokens[row]!r} and "
                said += repr(theirs[row])
                yield finding("two-tokens-one-id", said, file=file, ids=len(differing), first=row)
