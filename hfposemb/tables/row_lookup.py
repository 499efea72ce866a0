"""Row lookup: the single place where user input becomes a row of a table.

Vocabularies that mark spaces contain most words twice: `` king``, which starts a word, and ``king``, a piece inside
words. A word typed without its space means the former; the latter can be selected by its row number.
"""

from __future__ import annotations

from dataclasses import dataclass

from .table import TOKEN_CLASSES, EmbeddingTable, Labels


@dataclass(frozen=True)
class Named:
    """Result of a lookup: the row, and a ``note`` if the key was ambiguous."""

    row: int
    note: str = ""


def typed(text: str) -> int | str:
    """Parse text from a command line or a request: a row number if it is one, otherwise a label."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def named(table: EmbeddingTable, key: int | str) -> Named:
    """Look up a row by number or label. Raises ``InputError`` if there is none."""
    row = table.row(key)
    return Named(row, reading(table.labels, key) if isinstance(key, str) else "")


def reading(labels: Labels, label: str) -> str:
    """Return a sentence that says which token an ambiguous label was resolved to; "" if it is unambiguous."""
    row, other = labels.find(label), labels.exact(label)
    if row is None or other is None or row == other:
        return ""
    kind = TOKEN_CLASSES[int(labels.classes[row])]
    what = f"the token “{labels[row]}” ({kind})" if kind == "word start" else f"the token “{labels[row]}”"
    return f"“{label}” refers to {what}; the piece “{labels[other]}” is row {other}"


def spellings(text: str) -> tuple[str, ...]:
    """Return possible spellings of a token in other vocabularies, the likeliest first."""
    if text.startswith("##"):
        return text, text[2:]
    bare = text.removeprefix(" ")
    written = [f" {bare}", bare]
    for other in (bare.lower(), bare.capitalize()):
        written += [f" {other}", other]
    return tuple(dict.fromkeys((*written, f"##{bare}")))


def spelt(labels: Labels, text: str) -> int | None:
    """Return the row of a word in any of its spellings; ``None`` if the vocabulary has none of them."""
    return next((row for one in spellings(text) if (row := labels.find(one)) is not None), None)
