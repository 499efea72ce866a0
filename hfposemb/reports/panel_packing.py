"""Panels and rows of panels in the format of the page's script, for pages that have no Gradio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ..figures import style
from ..figures.figure_packing import Packer, sendable

Panel: TypeAlias = dict[str, Any]


def packed_panel(packer: Packer, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
    """Return a panel; ``drawings`` are figures with their captions, whose numbers go to the packer."""
    none: dict[str, Any] = dict.fromkeys(("color", "subtitle", "help", "foot", "message", "emphasis"), "")
    none |= {"source": [], "numbers": [], "legend": [], "scale_bars": [], "lists": [], "span": 1, "tone": "normal"}
    actions = ["PNG", "SVG"] if drawings else []
    packed = [{"caption": sendable(caption), **packer.figure(figure)} for figure, caption in drawings]
    shown = sendable({**none, "key": key, "title": title, "actions": actions, **words})
    return {**shown, "drawings": packed}


def row_of(panels: Sequence[Panel], *, columns: int = 0, **more: Any) -> dict[str, Any]:
    """Return a row of panels, by default with at most four beside each other."""
    words = {"heading": "", "subheading": "", "scale_bars": [], "marked": {}, "swipe": False, **more}
    return {**sendable(words), "columns": columns or min(len(panels), 4), "panels": list(panels)}


def scale_bar(low: str, high: str, colors: Sequence[str]) -> dict[str, Any]:
    """Return a colour scale with the meaning of both ends."""
    return {"low": low, "high": high, "colors": list(colors), "title": ""}


def owner(name: str, place: int, about: str = "") -> dict[str, Any]:
    """Return the properties of a panel that identify its source, by its display name and index."""
    return {"source": [name, about], "color": style.source_style(place)[0]}
