"""What the files of a tokenizer say: tokens by id, special tokens, tokens of the chat template; findings about ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..checkpoints.tokenizers.declared import content_of, listed_tokens
from ..checkpoints.tokenizers.small_files import NoVocabularyError, chat_template
from ..checkpoints.tokenizers.vocabulary import Vocabulary
from ..checkpoints.tokenizers.vocabulary_files import has_vocabulary, read_vocabulary
from ..errors import SourceError
from ..models.architectures.config_values import name_of, vocabularies, whole_number
from ..models.architectures.families import is_known
from ..models.opened_model import are_padding
from ..text import counted
from .checked_source import SMALL_FILES, CheckedSource, as_json, text_field
from .findings import Finding, finding

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
    decoder = listed_tokens(settings)
    added = {**decoder, **_plain(listed)}
    roles = {role: found for role in ROLES if (found := _content(settings, extra, f"{role}_token")) is not None}
    vocabulary, findings = _vocabulary(source)
    findings = [*findings, *_conflicts(decoder, _plain(listed), vocabulary)]
    longest = whole_number(settings, "model_max_length", low=1, high=10**9)
    stated = bool(settings or added or vocabulary is not None)
    return Tokens(added, roles, vocabulary, chat_template(settings, source.read_text), longest, stated, tuple(findings))


def _plain(listed: Mapping[str, Any]) -> dict[int, str]:
    """Return the tokens of added_tokens.json by id."""
    return {row: token for token, row in listed.items() if isinstance(row, int) and not isinstance(row, bool)}


def _content(settings: Mapping[str, Any], extra: Mapping[str, Any], name: str) -> str | None:
    """Return a special token of a role that either file states; ``None`` if none does."""
    return next(filter(None, (content_of(stated.get(name)) for stated in (settings, extra))), None)


def _vocabulary(source: CheckedSource) -> tuple[Vocabulary | None, list[Finding]]:
    if source.remote and not source.full:
        source.skipped(
            "tokenizer.json, generation_config.json and files of chat templates beside one in the settings are not "
            "read from the Hub; --full reads them"
        )
        return None, []
    folder = source.folder()
    if folder is None or not has_vocabulary(folder):
        source.skipped("no file states the vocabulary, so ids are checked by special tokens only")
        return None, []
    try:
        return read_vocabulary(folder), []
    except NoVocabularyError as error:
        source.skipped(f"{error}, so ids are checked by special tokens only")
        return None, []
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
                said = counted(len(differing), "id", verb="differ")
                said += f" between {file} and {other}: {row} is {tokens[row]!r} and {theirs[row]!r}"
                yield finding("two-tokens-one-id", said, file=file, ids=len(differing), first=row)


_PREFERRED = 8
"""Least multiple that hardware prefers."""

_MORE_ROWS: Mapping[str, int] = {"mllama": 8, "mllama_text_model": 8, "moshi": 1, "moshi_depth": 1}
"""Model types whose table has more rows than their vocabulary: mllama has eight for images, moshi one for padding."""

_OTHER_ROWS = ("cpmant", "kyutai_speech_to_text")
"""Model types whose table continues with rows for prompts or for the codes of sound."""

_IDS = ("bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id", "decoder_start_token_id")


def check_ids(source: CheckedSource, tokens: Tokens) -> Iterator[Finding]:
    """Yield findings about the number of rows, the tokenizer's ids and the special tokens."""
    yield from tokens.findings
    table = source.table("token")
    if table is None:
        return
    rows = table.shape[0]
    yield from _vocabulary_size(source, rows, str(table.provenance.tensor))
    yield from _tokenizer(tokens, rows)
    yield from _special(source, tokens, rows)
    yield from _padding(source, tokens, rows)
    for token in tokens.unknown_in_template()[:1]:
        several = tokens.unknown_in_template()
        said = f"the chat template writes {', '.join(several[:4])}, which the vocabulary does not have"
        yield finding("template-token", said, fix={"token": token}, tokens=len(several), first=token)


def _vocabulary_size(source: CheckedSource, rows: int, tensor: str) -> Iterator[Finding]:
    stated = whole_number(source.text, "vocab_size", low=1)
    if stated is None or rows in (stated, stated + _MORE_ROWS.get(text_field(source.text, "model_type"), 0)):
        return
    # A table may hold several vocabularies, as for the codebooks of audio models.
    kinds = {text_field(source.text, "model_type"), source.model_type}
    sizes = vocabularies(source.config)
    if kinds & set(_OTHER_ROWS) or rows % stated == 0 or rows in sizes or rows - stated in sizes:
        return
    said = f"{name_of(source.config)} states {stated:,} tokens, but {tensor} has {rows:,} rows"
    yield finding("vocabulary-size", said, sure=is_known(source.config), stated=stated, rows=rows)


def _tokenizer(tokens: Tokens, rows: int) -> Iterator[Finding]:
    known = tokens.by_id
    if not known:
        return
    largest = max(known)
    if largest >= rows:
        beyond = [row for row in known if row >= rows]
        said = counted(len(beyond), "token", verb="have")
        said += f" ids from {min(beyond):,} to {largest:,}, but the table ends at row {rows - 1:,}"
        said += f"; the first is {known[min(beyond)]!r}"
        yield finding("token-beyond-table", said, fix={"needed": largest + 1}, tokens=len(beyond), rows=rows)
    if tokens.vocabulary is None:
        return
    missing = largest + 1 - len(known)
    if missing > 0:
        first = next(row for row in range(largest) if row not in known)
        said = f"{counted(missing, 'id', f'below {largest:,}', 'belong')} to no token; the first is {first:,}"
        yield finding("missing-ids", said, missing=missing, first=first)
    surplus = rows - largest - 1
    if surplus <= 0:
        return
    multiple = rows & -rows
    belong = counted(surplus, "row", verb="belong")
    said = f"the table has {rows:,} rows, the tokenizer {largest + 1:,} ids: {belong} to no token"
    if are_padding(rows, largest + 1):
        said += f"; {rows:,} is a multiple of {multiple}" if multiple >= _PREFERRED else ""
        yield finding("padded-rows", said, rows=rows, tokens=largest + 1, surplus=surplus, multiple=multiple)
    else:
        yield finding("surplus-rows", said, rows=rows, tokens=largest + 1, surplus=surplus)


def _ids(stated: Any) -> list[int]:
    listed = stated if isinstance(stated, list) else [stated]
    return [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]


def _stated(source: CheckedSource, name: str) -> list[int]:
    return _ids(source.text.get(name, source.config.get(name)))


def _special(source: CheckedSource, tokens: Tokens, rows: int) -> Iterator[Finding]:
    for name in _IDS:
        token = tokens.roles.get(name.removesuffix("_token_id"))
        expected = tokens.id_of(token) if token is not None else None
        wrong = [one for one in _stated(source, name) if not 0 <= one < rows]
        if wrong:
            said = f"{name} is {wrong[0]:,}, but the token table has the rows 0 to {rows - 1:,}"
            # A configuration class has default ids, which nothing uses where there is no tokenizer.
            sure = tokens.stated and max(wrong) >= 0
            fix = {"field": name, "expected": as_json(expected)}
            yield finding("special-id", said, sure=sure, fix=fix, id=wrong[0], rows=rows)
            continue
        if name in ("bos_token_id", "eos_token_id"):
            yield from _differing(source, tokens, name)


def _differing(source: CheckedSource, tokens: Tokens, name: str) -> Iterator[Finding]:
    token = tokens.roles.get(name.removesuffix("_token_id"))
    expected = tokens.id_of(token) if token is not None else None
    generation = None if source.remote and not source.full else source.json("generation_config.json")
    stated = [*_stated(source, name), *_ids((generation or {}).get(name))]
    if expected is None or not stated or expected in stated:
        return
    said = f"config.json states {name} {stated[0]:,} ({tokens.by_id.get(stated[0], 'not known')!r}), the tokenizer "
    said += f"{token!r}, which is {expected:,}"
    yield finding("special-ids-differ", said, fix={"field": name}, stated=stated[0], expected=expected)


def _padding(source: CheckedSource, tokens: Tokens, rows: int) -> Iterator[Finding]:
    token = tokens.roles.get("pad")
    expected = tokens.id_of(token) if token is not None else None
    for one in _stated(source, "pad_token_id"):
        if one >= rows:
            said = f"pad_token_id is {one:,}, but the token table has the rows 0 to {rows - 1:,}"
            yield finding("padding-id", said, fix={"expected": as_json(expected)}, id=one, rows=rows)
        elif one < 0:
            said = f"pad_token_id is {one}, which torch takes for row {rows + one:,}, the last but {-one - 1}"
            fix = {"expected": as_json(expected)}
            yield finding("padding-id", said, sure=False, fix=fix, id=one, rows=rows)
        elif expected is not None and expected != one:
            yield from _differing(source, tokens, "pad_token_id")
    if token is not None and token == tokens.roles.get("eos"):
        said = f"the padding token {token!r} is the token that ends a text"
        yield finding("padding-ends-text", said, token=token)
