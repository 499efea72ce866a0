"""The help of the panels, from ``help.md``: how a picture was made, how to read it, and whose idea it was."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path


def _read() -> dict[str, str]:
    """Return the sections of ``help.md`` by their headings."""
    _, *sections = Path(__file__).with_name("help.md").read_text(encoding="utf-8").split("\n## ")
    return {name: text.strip("\n") for name, _, text in (section.partition("\n") for section in sections)}


HELP: Mapping[str, str] = _read()
"""Help by name of its section."""


def folded_help(name: str) -> str:
    """Return a section of the help as HTML, folded."""
    paragraphs = "".join(f"<p>{html.escape(' '.join(part.split()))}</p>" for part in HELP[name].split("\n\n"))
    return f"<details><summary>How to read this</summary>{paragraphs}</details>"
