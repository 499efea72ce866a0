"""Safe display of untrusted text."""

from __future__ import annotations

import re
import reprlib
import unicodedata


def display(text: str, *, width: int = 40) -> str:
    """Return ``text`` on one line of at most ``width`` characters, truncated with ``…``, invisible characters named."""
    # Names are longer than their characters, so later text cannot be visible.
    shown = named(text[: width + 1])
    return shown if len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def named(text: str) -> str:
    r"""Replace every control, format, bidi and surrogate character by its name.

    Line breaks become ``\n``, others for example ``⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩``. The function is idempotent.
    """
    return text if text.isprintable() else text.translate(_NAMES)


class _Names(dict[int, str | int]):
    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        found: str | int = code
        if (category := unicodedata.category(character)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            kind = "SURROGATE" if category == "Cs" else "CONTROL"
            found = f"⟨U+{code:04X} {unicodedata.name(character, kind)}⟩"
        if code < _KEPT:
            self[code] = found
        return found


_KEPT = 0x20000
"""Characters of which it is kept what they are shown as: all but rare Chinese ones."""

_NAMES = _Names({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})


def one_line(text: str, *, width: int = 400) -> str:
    """Return a message on one line, with control and bidi characters named."""
    return display(" ".join(text.split()), width=width)


def written(value: object) -> str:
    """Return the start of a value that was received, however large or deep it is, as one line."""
    return one_line(reprlib.repr(value)[:60], width=60)


def sentence_case(text: str) -> str:
    """Return a text with a capital first letter, unless it starts with an id, such as gpt2 or google-bert/bert-base."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+(?:-[a-z]+)?[,:;]?(?:\s|$)", text) else text
