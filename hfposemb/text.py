"""Text from untrusted sources, made safe to display."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def display(text: str, *, width: int = 40) -> str:
    """Return ``text`` on one line of at most ``width`` characters, cut with ``…``; invisible characters by name."""
    # A name is longer than its character, so no more of the text than this can show.
    shown = named(text[: width + 1])
    return shown if len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def named(text: str) -> str:
    """Return ``text`` with every control, format, bidi and surrogate character replaced by its name.

    A line break is ``\\n``, others such as ``⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩``. What is named stays as it is.
    """
    return text if text.isprintable() else text.translate(_NAMES)


class _Names(dict[int, str]):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            raise LookupError(code)
        kind = "SURROGATE" if unicodedata.category(character) == "Cs" else "CONTROL"
        self[code] = f"⟨U+{code:04X} {unicodedata.name(character, kind)}⟩"
        return self[code]


_NAMES = _Names({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})


def one_line(text: str, *, width: int = 400) -> str:
    """Return a message on one line, its control and bidi characters by name."""
    return display(" ".join(text.split()), width=width)
