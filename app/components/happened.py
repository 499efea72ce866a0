"""What a visitor did, as the page tells it: an event's data, read by the shape that each of them is declared to have.

A browser sends what the page's script says, a program whatever it likes. A handler whose parameter has the type
:class:`Happened` reads values that have the declared type, or are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

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


SHAPES: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("panel", "group", "text", "label", "legend", "action", "tab", "query", "input_value"), _is_text),
    **dict.fromkeys(("index", "id", "list", "place", "at"), _is_whole),
    "area": _is_area,
    "sources": _is_texts,
}
"""By name: whether a value has the shape. Other names are not read by anything."""


class Happened(gr.EventData):
    """An event, with those of its values that have their shapes in ``told``.

    Others are missing, without a message: a page tells the place of a click in a heatmap as a pair, which none reads.
    """

    def __init__(self, target: Any, _data: Any) -> None:
        given = _data if isinstance(_data, dict) else {}
        self.told = {name: given[name] for name, fits in SHAPES.items() if name in given and fits(given[name])}
        super().__init__(target, self.told)

    def get(self, name: str) -> Any:
        """Return a value, ``None`` if it is missing."""
        return self.told.get(name)
