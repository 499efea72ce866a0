r"""Search by regular expressions in time that grows only linearly with what is searched, by Google's RE2.

The syntax is that of ``re`` without what no engine can match in linear time: look-around, back-references, conditions,
atomic groups and possessive quantifiers. Case is ignored, and ``\w``, ``\d`` and ``\s`` are those of Unicode, but
``\b`` knows only ASCII letters. RE2 runs without Python's lock, its memory is bounded, and a pattern that becomes too
large in it is refused.
"""

from __future__ import annotations

import re
import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import re2

from hfposemb.errors import InputError
from hfposemb.text import one_line

SECONDS = 1.0
"""Seconds of computing after which a search ends without a result. Few patterns over many labels need a tenth of it."""

MEMORY = 2**23
"""Bytes that RE2 may use for a pattern, beyond which it is refused or matched more slowly."""

BLOCK = 2**14
"""Bytes that are searched at a time, at whose ends the clock is read."""

REFUSED = (
    "not a valid regular expression: {}; the syntax is that of RE2, without look-around such as (?=…) and "
    "back-references such as \\1"
)
LATE = f"this pattern took longer than {SECONDS:g} s and was stopped; use a simpler one"

_NEWLINE = "\x1c"
"""Stands for a line break in a text, which ends a text here; Unicode has it as white space too."""

_OUTSIDE = {
    "w": r"[\p{L}\p{N}_]",
    "W": r"[^\p{L}\p{N}_]",
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r"[\s\v\x1c-\x1f\x85\p{Z}]",
    "S": r"[^\s\v\x1c-\x1f\x85\p{Z}]",
    "A": "^",
    "Z": "$",
    "z": "$",
    "n": r"\x1c",
}
"""What an escape is in RE2, for texts on lines of their own."""

_PLAIN = {".": r"[^\x1c]", "$": r"(?:\x1c?$)"}
"""What other signs are: in ``re`` the end may be before a last line break."""

_IN_CLASS = {
    "w": r"\p{L}\p{N}_",
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r"\s\v\x1c-\x1f\x85\p{Z}",
    "b": r"\x08",
    "n": r"\x1c",
}
"""The same between brackets; see ``_complement`` for the others."""

_PIECE = re.compile(r"\\[uU]([0-9a-fA-F]{4}(?:(?<=U....)[0-9a-fA-F]{4})?)|\\(.)|(\[\^?\]?)|(.)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Some texts as bytes, each on a line of its own, and where each begins."""

    first: int
    content: bytes
    starts: tuple[int, ...]


def blocks(texts: Iterable[str]) -> Iterator[Block]:
    """Cut texts into blocks that ``search`` takes."""
    lines: list[bytes] = []
    starts: list[int] = []
    first, size = 0, 0
    for place, text in enumerate(texts):
        if size >= BLOCK:
            yield Block(first, b"\n".join(lines), tuple(starts))
            lines, starts, first, size = [], [], place, 0
        line = text.replace("\n", _NEWLINE).encode("utf-8", "replace")
        starts.append(size)
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield Block(first, b"\n".join(lines), tuple(starts))


def search(pattern: str, where: Iterable[Block]) -> list[int]:
    """Return the indices of the texts that a regular expression matches, ignoring case.

    Raises ``InputError`` if it is invalid or too large, or takes longer than ``SECONDS``.
    """
    options = re2.Options()
    options.case_sensitive, options.never_nl, options.never_capture = False, True, True
    options.log_errors, options.max_mem = False, MEMORY
    translated = _translated(pattern).encode("utf-8", "surrogatepass")
    try:
        re2.compile(translated, options)  # alone, since it may close the group around it
        # One match for each line, however often the pattern occurs in it.
        lines = re2.compile(b"(?m)^.*?(?:%b).*$" % translated, options)
    except re2.error as error:
        raise InputError(REFUSED.format(one_line(error.args[0].decode("utf-8", "replace"), width=80))) from error
    finally:
        re2.purge()
    found, until = [], time.thread_time() + SECONDS
    for block in where:
        places = (bisect_right(block.starts, one.start()) - 1 for one in lines.finditer(block.content))
        found += [block.first + place for place in dict.fromkeys(places)]  # an empty match may come twice
        if time.thread_time() > until:
            raise InputError(LATE)
    return found


def _translated(pattern: str) -> str:
    """Write a pattern of ``re`` in RE2's syntax."""
    inside, out = False, []
    for code, escaped, opening, plain in _PIECE.findall(pattern):
        if code:
            out.append(f"\\x{{{code}}}")
        elif escaped:
            out.append(_escape(escaped, inside=inside))
        elif opening and not inside:
            out.append(opening)
            inside = True
        elif opening:
            out.append(f"\\[{opening[1:]}")  # in RE2 a bracket may name a class: [[:alpha:]]
            inside = not opening.endswith("]")
        else:
            out.append(_NEWLINE if plain == "\n" else plain if inside else _PLAIN.get(plain, plain))
            inside = inside and plain != "]"
    return "".join(out)


def _escape(letter: str, *, inside: bool) -> str:
    if inside and letter in ("W", "S"):
        return _complement(letter)
    return (_IN_CLASS if inside else _OUTSIDE).get(letter, f"\\{letter}")


@cache
def _complement(letter: str) -> str:
    r"""Write out what ``\W`` or ``\S`` matches, as ranges: in RE2 a class cannot hold the complement of another."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        # Without a diacritic that becomes a letter, iota, when case is ignored.
        if one.isspace() if letter == "S" else one.isalnum() or one in "_\u0345":
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)
