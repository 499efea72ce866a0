"""What a visitor did, as the page tells it: an event's data, read by the shape that each of them is declared to have.

A browser sends what the page's script says, a program whatever it likes. A handler whose parameter has the type
:class:`Happened` reads values that have the declared type, or are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from hfposemb.errors import InputError
from hfposemb.text import written

LONGEST = 10_000
"""Characters of a text; the page's address is the longest."""

MOST = 2**31 - 1
"""Largest number of a row or a place."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= MOST


def _is_corners(value: object) -> bool:
    return isinstance(value, list) and all(type(one) in (int, float) and _is_finite(one) for one in value)


def _is_finite(value: float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= MOST


def _is_area(value: object) -> bool:
    return isinstance(value, dict) and {*value} <= {"x", "y"} and all(map(_is_corners, value.values()))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


Shape = tuple[Callable[[object], bool], str]
_TEXT: Shape = (_is_text, f"a text of at most {LONGEST:,} characters")
_WHOLE: Shape = (_is_whole, "the number of a row or a place")

SHAPES: Mapping[str, Shape] = {
    **dict.fromkeys(("panel", "group", "text", "label", "legend", "action", "tab", "query", "input_value"), _TEXT),
    **dict.fromkeys(("index", "id", "list", "place", "at"), _WHOLE),
    "area": (_is_area, "the corners x and y of a shape, as lists of numbers"),
    "sources": (_is_texts, "a list of names"),
}
"""By name: whether a value has the shape, and what it is called. Other names are not read by anything."""


class Happened(gr.EventData):
    """An event, with the values that have their shapes in ``told``; ``check`` names the first one that has not."""

    def __init__(self, target: Any, _data: Any) -> None:
        given = _data if isinstance(_data, dict) else {}
        self.told = {
            name: value for name, (fits, _) in SHAPES.items() if (value := given.get(name)) is not None and fits(value)
        }
        self._wrong = next((name for name in SHAPES if given.get(name) is not None and name not in self.told), "")
        self._found = given.get(self._wrong)
        super().__init__(target, self.told)

    def get(self, name: str) -> Any:
        """Return a value, ``None`` if it is missing."""
        return self.told.get(name)

    def check(self) -> None:
        """Raise ``InputError`` if a value had another shape than its own."""
        if self._wrong:
            raise InputError(f"{self._wrong} of an event must be {SHAPES[self._wrong][1]}; got {written(self._found)}")
