"""Small files of a tokenizer, read within bounds: bytes, lines and JSON from anyone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...errors import SourceError
from ...lazy_attributes import lazy_attribute
from ..limits import DEFAULT_LIMITS
from ..strict_json import foreign, open_regular, parse_json

TEMPLATE, TEMPLATE_JSON, TEMPLATES = "chat_template.jinja", "chat_template.json", "additional_chat_templates/"

TextReader = Callable[[str], str | None]
"""Returns a small text file next to a checkpoint by its name, ``None`` if there is none; of a folder, whose name ends
in a slash, its templates joined by line breaks."""


def chat_template(settings: Mapping[str, Any], text: TextReader) -> str:
    """Return the chat template of a checkpoint, or several joined by line breaks; "" if there is none.

    Files of templates precede the settings, as in transformers 5; the JSON file is that of a processor.

    Args:
        settings: Contents of tokenizer_config.json.
        text: Reads the files.
    """
    if stated := "\n".join(one for file in (TEMPLATE, TEMPLATES) if (one := text(file))):
        return stated
    raw = (text(TEMPLATE_JSON) or "").encode()
    with suppress(SourceError):  # a file that is not JSON holds no template
        limit = DEFAULT_LIMITS.config_bytes
        found = parse_json(raw, size=len(raw), name=TEMPLATE_JSON, limit=limit, kind=dict)
        if stated := _joined(found.get("chat_template")):
            return stated
    return _joined(settings.get("chat_template"))


def _joined(stated: object) -> str:
    """Return a template, or named templates in the order of their files, as one text."""
    if isinstance(stated, dict):
        stated = [{"name": name, "template": one} for name, one in stated.items()]
    if isinstance(stated, list):
        named = [one for one in stated if isinstance(one, dict) and isinstance(one.get("template"), str)]
        named.sort(key=lambda one: (one.get("name") != "default", str(one.get("name"))))
        return "\n".join(one["template"] for one in named)
    return stated if isinstance(stated, str) else ""


def of_templates(names: Iterable[str]) -> list[str]:
    """Return those names of a folder's files that are of templates, in order."""
    return sorted(name for name in names if name.endswith(".jinja") and "/" not in name)[:MOST_TEMPLATES]


MOST_TEMPLATES = 32
"""Limit for the templates of a folder that are read."""


def local_text(folder: Path | None, limit: int, file: str) -> str | None:
    """Return a small text file of a folder, ``None`` if there is none.

    Raises ``SourceError`` if it is not a regular file, or larger than ``limit`` bytes.
    """
    path = None if folder is None else folder / file
    if path is not None and file.endswith("/"):
        names = of_templates(one.name for one in path.iterdir()) if path.is_dir() else []
        return "\n".join(filter(None, (local_text(path, limit, name) for name in names))) or None
    if path is None or not path.is_file():
        return None
    with open_regular(path) as opened:
        raw = opened.read(limit + 1)
    if len(raw) > limit:
        raise SourceError(f"{file} exceeds the limit of {limit:,} bytes; shorten or remove it")
    return raw.decode(errors="replace")


LARGEST_FILE = 40 * 2**20
"""Size limit of a tokenizer file in bytes; Gemma's has 33 MB."""

MOST_VALUES = 1_000_000
"""Limit for the values in a JSON file, merges excluded: 40 MB of short ones would take gigabytes. mT5's has 760,000."""

LARGEST_TEXT = 48 * 2**20
"""Limit for the bytes of a file's text in memory, without merges and indentation.

Each character takes four bytes if the text has an emoji.
"""

LARGEST_ID = 2**31 - 1
"""Largest token id; the Rust tokenizer's ids are 32 bits wide."""


def is_regular_file(path: Path) -> bool:
    """Return whether ``path`` is a regular file. Raises ``SourceError`` if it cannot be accessed."""
    try:
        return path.is_file()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}; check the folder") from error


def read_bounded(path: Path) -> bytes:
    """Return a file's bytes. Raises ``SourceError`` if it cannot be read or exceeds ``LARGEST_FILE``."""
    try:
        with path.open("rb") as file:
            # A link to a file of the system that states no size, such as /proc/kmsg, could be waited for forever.
            raw = file.read(min(os.fstat(file.fileno()).st_size, LARGEST_FILE + 1))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read: {error.strerror}; check the file in {path.parent}") from error
    if len(raw) > LARGEST_FILE:
        raise SourceError(f"{path.name} exceeds the limit of {LARGEST_FILE >> 20} MB for a tokenizer file")
    if raw.startswith((b"version https://git-lfs", b"<!DOCTYPE", b"<html")):
        raise SourceError(f"{path.name} {foreign(raw[:8])}")
    return raw


def read_lines(path: Path) -> list[str]:
    """Return a UTF-8 file's lines, split at LF, CR and CRLF only. Raises ``SourceError`` if invalid or too long."""
    try:
        text = read_bounded(path).decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"{path.name} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    if text.count("\n") + text.count("\r") > MOST_VALUES:
        raise SourceError(f"{path.name} exceeds the limit of {MOST_VALUES:,} lines for a tokenizer file")
    # str.splitlines would also break at U+2028, which is a token in several vocabularies.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, {} if the file is absent. Merges, half of some files, are skipped: they label no row."""
    if not is_regular_file(path):
        return {}
    return _parsed(_without_merges(read_bounded(path)), path)


def _parsed(raw: bytes, path: Path) -> dict[str, Any]:
    if len(raw) * _width(raw) > LARGEST_TEXT:
        raw = _without_indentation(raw)
    if sum(map(raw.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise SourceError(f"{path.name} exceeds the limit of {MOST_VALUES:,} values for a tokenizer file")
    if len(raw) * _width(raw) > LARGEST_TEXT:
        raise SourceError(f"{path.name} exceeds the limit of {LARGEST_TEXT >> 20} MB of text for a tokenizer file")
    try:
        text = raw.decode()
        del raw  # free memory: the text and the parsed value each take as much again
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not JSON ({str(error)[:80]}); download it again") from error
    return cast(dict[str, Any], expect(found, dict, f"{path.name} as a whole"))


_MERGES = re.compile(rb'"merges"\s*+:\s*+(?=\[)')
_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_VOCAB = re.compile(rb'"vocab"\s*+:\s*+(?=\{)')
_LIST = re.compile(rb'\[(?:[^"\[\]]++|%b|\[(?:[^"\[\]]++|%b)*+\])*+\]' % (_TEXT, _TEXT), re.DOTALL)
_FLAT = re.compile(rb'\{(?:[^"{}]++|%b)*+\}' % _TEXT, re.DOTALL)


def _without_merges(raw: bytes) -> bytes:
    """Return JSON with its first list named ``merges`` emptied."""
    # Only the first, since searching for an end after every such name would take quadratic time.
    if (name := _MERGES.search(raw)) and (listed := _LIST.match(raw, name.end())):
        view = memoryview(raw)  # slices of bytes, and formatting, would hold the text once more
        return b"".join((view[: name.end()], b"[]", view[listed.end() :]))
    return raw


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of a BPE in their order, parsed when they are asked for.

    Attributes:
        file: Name of the file.
        raw: A JSON list, or a line for each.
    """

    file: str
    raw: bytes

    @lazy_attribute
    def pairs(self) -> tuple[str, ...]:
        """The merges, each as two pieces with a space between. Raises ``SourceError`` if they are not merges."""
        if not self.raw.startswith(b"["):
            lines = self.raw.decode(errors="replace").split("\n")
            return tuple(line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#version"))
        if self.raw.count(b",") > _MOST_MERGES:
            raise SourceError(f"{self.file} exceeds the limit of {_MOST_MERGES:,} values for merges")
        try:
            return tuple(_spelled(one) if isinstance(one, list) else str(one) for one in json.loads(self.raw))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise SourceError(f"merges in {self.file} are not pairs of texts; download it again") from error

    def equal(self, other: Merges) -> bool:
        """Return whether the merges and their order are the same, however they are written."""
        return self.raw == other.raw or self.pairs == other.pairs


def _spelled(pair: list[str]) -> str:
    """Return a pair as text; a space in a piece becomes what GGUF files have for it."""
    return " ".join(piece.replace(" ", "\u0120") for piece in pair)


def read_pipeline(path: Path) -> tuple[dict[str, Any], Merges | None]:
    """Read a tokenizer.json without the pieces of its vocabulary, unless they have scores; and its merges."""
    raw = read_bounded(path)
    name = _MERGES.search(raw)
    listed = _LIST.match(raw, name.end()) if name else None
    merges = None if listed is None else Merges(path.name, listed[0])
    raw = _without_merges(raw)
    if (name := _VOCAB.search(raw)) and (pieces := _FLAT.match(raw, name.end())):
        raw = b"%b{}%b" % (raw[: name.end()], raw[pieces.end() :])
    return _parsed(raw, path), merges


_MOST_MERGES = 3_000_000
"""Limit for the values of merges; Gemma's are 515,000 pairs."""


def _without_indentation(raw: bytes) -> bytes:
    """Return JSON without most spaces at line starts; JSON strings contain no line breaks."""
    for depth in (16, 8, 4, 2, 1):
        raw = raw.replace(b"\n" + b" " * depth, b"\n")
    return raw


def _width(raw: bytes) -> int:
    """Return the bytes per character that Python needs for this UTF-8 text."""
    return 1 if raw.isascii() else 4 if re.search(rb"[\xf0-\xff]", raw) else 2


def expect(value: Any, kind: type, what: str) -> Any:
    """Return a value that must be of a type. Raises ``SourceError`` if it is not."""
    if not isinstance(value, kind):
        names = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
        raise SourceError(f"{what:.80} must be {names[kind]}; found {type(value).__name__}; download the file again")
    return value


def given(stated: Mapping[str, Any], name: str, absent: Any) -> Any:
    """Return a value of an object, ``absent`` if it is missing or null."""
    return absent if stated.get(name) is None else stated[name]


class NoVocabularyError(SourceError):
    """A file that has the name of a vocabulary holds something else."""


def token_id(value: Any, what: str, *, file: str = "") -> int:
    """Return a token's id. Raises ``SourceError``, which names the file that is given, if it is none."""
    # bool is a subclass of int in Python, but not a JSON number.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        said = f"the id of {what!r:.40}{' in ' if file else ''}{file} must be a whole number from 0 to {LARGEST_ID}"
        raise SourceError(f"{said}; found {value!r:.40}; download the file again")
    return value
