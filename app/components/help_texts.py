"""The help of the panels, from ``help.md``: how a picture was made, how to read it, and whose idea it was."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path


def sections_of(path: Path) -> dict[str, str]:
    """Return the sections of a Markdown file by their headings."""
    _, *sections = path.read_text(encoding="utf-8").split("\n## ")
    return {name: text.strip("\n") for name, _, text in (section.partition("\n") for section in sections)}


HELP: Mapping[str, str] = sections_of(Path(__file__).with_name("help.md"))
"""Help by name of its section."""


def folded_help(name: str) -> str:
    """Return a section of the help as HTML, folded."""
    paragraphs = "".join(f"<p>{html.escape(' '.join(part.split()))}</p>" for part in HELP[name].split("\n\n"))
    return f"<details><summary>How to read this</summary>{paragraphs}</details>"
