"""Which row a word names: the one place where what a person types becomes a row of a table.

Vocabularies that mark spaces hold most words twice: `` king``, which starts a word, and ``king``, a piece inside
words. Typed without its space, a word means the former; the latter can be named by its row number.
"""

from __future__ import annotations

from dataclasses import dataclass

from .table import TOKEN_CLASSES, EmbeddingTable, Labels


@dataclass(frozen=True)
class Named:
    """The row that was named, and a ``note`` where the name could have meant another row too."""

    row: int
    note: str = ""


def typed(text: str) -> int | str:
    """Return what a text on a command line or in a request names: a row by its number, else a label."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text


def named(table: EmbeddingTable, key: int | str) -> Named:
    """Return the row that a row number or a label names.

    Raises ``InputError`` where no row has that number or label.
    """
    row = table.row(key)
    return Named(row, reading(table.labels, key) if isinstance(key, str) else "")


def reading(labels: Labels, label: str) -> str:
    """Return a sentence that says which token a label was read as, where two could be meant; else nothing."""
    row, other = labels.find(label), labels.exact(label)
    if row is None or other is None or row == other:
        return ""
    kind = TOKEN_CLASSES[int(labels.classes[row])]
    what = f"the token “{labels[row]}” ({kind})" if kind == "word start" else f"the token “{labels[row]}”"
    return f"“{label}” was read as {what}; the piece “{labels[other]}” is row {other}"


def spellings(text: str) -> tuple[str, ...]:
    """Return how a token may be spelt in other vocabularies, the likeliest first."""
    if text.startswith("##"):
        return text, text[2:]
    bare = text.removeprefix(" ")
    written = [f" {bare}", bare]
    for other in (bare.lower(), bare.capitalize()):
        written += [f" {other}", other]
    return tuple(dict.fromkeys((*written, f"##{bare}")))


def spelt(labels: Labels, text: str) -> int | None:
    """Return the row of a word in whatever spelling a vocabulary has it; ``None`` where it has none."""
    return next((row for one in spellings(text) if (row := labels.find(one)) is not None), None)
