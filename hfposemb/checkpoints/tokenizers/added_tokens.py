"""Reserved and added tokens of a tokenizer, and those that its chat template writes, from its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...tables.table import TOKEN_CLASSES, Labels
from ...tables.token_marks import TokenMarks
from .declared import content_of
from .small_files import NoVocabularyError, TextReader, chat_template
from .vocabulary import Vocabulary
from .vocabulary_files import read_vocabulary

_VARIABLE = re.compile(r"\b([a-z]{2,12}_token)\b")
"""A special token that a template names by its role."""


def read_marks(
    folder: Path, labels: Labels, settings: Callable[[str], Mapping[str, Any] | None], text: TextReader
) -> TokenMarks:
    """Return the marks of the rows of a vocabulary.

    Args:
        folder: Folder with the tokenizer's files.
        labels: Labels of the rows.
        settings: Returns a JSON file next to the checkpoint by its name, or ``None``.
        text: Returns a small text file next to the checkpoint by its name, or ``None``.

    Raises:
        SourceError: If a file violates its format.
    """
    found = None
    with suppress(NoVocabularyError):
        found = read_vocabulary(folder)
    if found is None:
        return TokenMarks(_reserved(labels))
    said = settings("tokenizer_config.json") or {}
    roles = {name: content_of(value) or "" for name, value in said.items()}
    return marks_in(found, labels, chat_template(said, text), roles)


def marks_in(found: Vocabulary, labels: Labels, template: str, roles: Mapping[str, str]) -> TokenMarks:
    """Return the marks of the rows of a vocabulary.

    Args:
        found: The vocabulary.
        labels: Labels of the rows.
        template: The chat template; "" if there is none.
        roles: Special tokens by role, such as ``bos_token``; "" for none.
    """
    rows = len(labels)
    literal = {row: content for row, content in found.literal.items() if row < rows}
    added = frozenset(row for row in literal if row not in found.pieces)
    contents = {row: content for row, content in literal.items() if content.strip()}
    contents |= {row: piece for row, piece in found.pieces.items() if row < rows and piece in found.special}
    named = frozenset(content for name in _VARIABLE.findall(template) if (content := roles.get(name)))
    chat = frozenset(row for row, content in contents.items() if content in template or content in named)
    return TokenMarks(_reserved(labels), added, chat if template else frozenset(), bool(template))


def _reserved(labels: Labels) -> frozenset[int]:
    return frozenset(np.flatnonzero(labels.classes == TOKEN_CLASSES.index("unused")).tolist())
