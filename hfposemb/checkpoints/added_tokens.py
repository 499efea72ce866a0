"""Reserved and added tokens of a tokenizer, and those that its chat template writes, from its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..tables.table import TOKEN_CLASSES, Labels
from ..tables.token_marks import TokenMarks
from .chat_templates import TextReader, chat_template
from .vocabulary import read_vocabulary

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
    reserved = frozenset(np.flatnonzero(labels.classes == TOKEN_CLASSES.index("unused")).tolist())
    found = read_vocabulary(folder)
    if found is None:
        return TokenMarks(reserved)
    rows = len(labels)
    literal = {row: content for row, content in found.literal.items() if row < rows}
    added = frozenset(row for row in literal if row not in found.pieces)
    said = settings("tokenizer_config.json") or {}
    template = chat_template(said, text)
    contents = {row: content for row, content in literal.items() if content.strip()}
    contents |= {row: piece for row, piece in found.pieces.items() if row < rows and piece in found.special}
    by_role = {name: _content(said.get(name)) for name in _VARIABLE.findall(template)}
    named = frozenset(content for content in by_role.values() if content)
    chat = frozenset(row for row, content in contents.items() if content in template or content in named)
    return TokenMarks(reserved, added, chat if template else frozenset(), bool(template))


def _content(token: Any) -> str:
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else ""
