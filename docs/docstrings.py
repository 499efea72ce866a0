"""Docstrings as the site shows them: an example that has no heading is a block of code, not a quotation."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = r"(?:\A|(?<=\n))>>> (?:.+(?:\n|\Z))+"
"""An example at the left edge: up to the next empty line. Those below "Examples:" are indented."""


class BareExamples(Extension):
    """Fence the examples of a docstring that stand outside a section."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of whatever is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(EXAMPLE, fenced, obj.docstring.value)


def fenced(found: re.Match[str]) -> str:
    """Return an example as a block of code."""
    return f"```pycon\n{found[0].rstrip()}\n```\n"
