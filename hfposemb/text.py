"""What readers see: untrusted text, made safe to show, and numbers, as .27, 1,024, −.5 and 84 %."""

from __future__ import annotations

import math
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


ALL = 0.9995
"""Shares from here on are written as 100 %."""


def number(value: float, *, digits: int = 3) -> str:
    """Format a number with a true minus sign and no leading zero; from 1,000 on without decimals, from 10¹² as 1e+12.

    Args:
        value: The number.
        digits: Digits after the decimal point.

    Examples:
        >>> [number(value) for value in (0.69, -0.5, 1024.2, 0.0, 2.0, -3e38)]
        ['.690', '−.500', '1,024', '.000', '2.000', '−3e+38']
    """
    size = abs(value)
    text = f"{value:,.{digits}f}" if size < 1000 else f"{value:,.0f}" if size < 1e12 else f"{value:.3g}"
    sign, text = ("−", text[1:]) if text.startswith("-") else ("", text)
    if not text.strip("0."):
        sign = ""
    return sign + (text[1:] if text.startswith("0.") else text)


def counted(count: int, noun: str, of: str = "", verb: str = "") -> str:
    """Return a number, its noun, what follows it, and a verb, given in the plural, that agrees with the number.

    >>> from hfposemb.text import counted
    >>> counted(1_000, "row"), counted(1, "row", verb="are"), counted(1, "", "of 9 rows", "equal")
    ('1,000 rows', '1 row is', '1 of 9 rows equals')
    """
    if count == 1:
        verb = {"are": "is", "have": "has"}.get(verb, f"{verb}s" if verb else "")
    elif noun:
        noun = f"{noun}s"
    return " ".join(filter(None, (f"{count:,}", noun, of, verb)))


def percent(share: float, *, digits: int = 0) -> str:
    r"""Format a share with a non-breaking space; in whole percent, 100 % and 0 % are used only for all and nothing.

    Args:
        share: The share, 1 for all; below 0 for what is taken away.
        digits: Digits after the decimal point.

    Examples:
        >>> [percent(share).replace("\u00a0", " ") for share in (0.84, 0.994, 1.0, 0.001, 0.0, -0.2)]
        ['84 %', '99 %', '100 %', 'under 1 %', '0 %', '−20 %']
        >>> percent(0.0213, digits=1).replace("\u00a0", " ")
        '2.1 %'
    """
    if digits or share < 0 or share > 1:
        return f"{number(100 * share, digits=digits)}\u00a0%"
    if share >= ALL:
        return "100\u00a0%"
    if share < 0.005:
        return "under 1\u00a0%" if share > 0 else "0\u00a0%"
    return f"{min(99, max(1, round(100 * share)))}\u00a0%"


def small_percent(share: float) -> str:
    """Format a share with more digits if it is small: 2.3 %, .03 %."""
    return percent(share, digits=0 if share >= 0.1 else 1 if share >= 0.01 else 2)


def tick(value: float, *, share: bool = False) -> str:
    r"""Format a tick of an axis: at most four significant digits, and percent for a ``share``.

    Examples:
        >>> [tick(value) for value in (0.25, -1.5, 0.0, 20000.0)]
        ['.25', '−1.5', '0', '20,000']
        >>> tick(0.5, share=True).replace("\u00a0", " ")
        '50 %'
    """
    size = abs(100 * value if share else value)
    text = f"{size:,.0f}" if size >= 1000 else f"{size:.4g}"
    text = text[1:] if text.startswith("0.") else text
    sign = "−" if value < 0 and text.strip("0.") else ""
    return f"{sign}{text}{chr(0xA0) + '%' if share else ''}"


def standing(percentile: float) -> str:
    """Return the percentile of a value, from 0 to 100, as text: above 98.2 %.

    It is rounded down, and never exceeds 99.9 %, which is as far as a sample can be trusted.
    """
    if percentile < 0.1:
        return "below 99.9\u00a0%"
    return f"above {min(99.9, math.floor(10 * percentile + 1e-9) / 10):g}\u00a0%"
