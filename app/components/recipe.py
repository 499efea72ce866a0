"""The code, commands and citation that reproduce what a panel shows."""

from __future__ import annotations

import html
from dataclasses import dataclass
from datetime import date

import hfposemb as hpe
from hfposemb.text import named

from .page_script import on_load

_SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "{}%&$#_"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    }
)
"""Escapes of the characters that are special in BibTeX and LaTeX."""


@dataclass(frozen=True)
class Recipe:
    """A Python snippet, the command lines that print the same, and the sources to cite.

    ``local`` means that a source is a path on this machine, so no link can reproduce the view.
    """

    python: str
    command: str = ""
    sources: tuple[str, ...] = ()
    local: bool = False

    def citation(self, title: str, *, today: date | None = None) -> str:
        """Return a BibTeX entry for a view with this title; the page adds its URL."""
        day = today or date.today()
        fields = {
            "title": "{" + title.translate(_SPECIAL) + "}",
            "author": "{The hfposemb developers}",
            "year": str(day.year),
            "howpublished": f"hfposemb {hpe.__version__}",
            "note": f"Drawn on {day.isoformat()} from {'; '.join(self.sources).translate(_SPECIAL)}",
        }
        lines = [f"  {name} = {{{named(' '.join(value.split()))}}}" for name, value in fields.items()]
        return "@misc{hfposemb,\n" + ",\n".join(lines) + "\n}"


def folded_code(recipe: Recipe, title: str) -> str:
    """Return a recipe as HTML for a view that no panel draws: collapsed, with a copy button for each text.

    Needs ``COPY_JS`` for the buttons.
    """
    texts = {"Python": recipe.python, "Command line": recipe.command, "Cite": recipe.citation(title)}
    parts = [
        f'<div><p><strong>{name}</strong><button type="button" aria-label="Copy {name}">Copy</button></p>'
        f'<pre tabindex="0" aria-label="{name}" role="group">{html.escape(text)}</pre></div>'
        for name, text in texts.items()
        if text
    ]
    return f'<details class="recipe"><summary>Python</summary>{"".join(parts)}</details>'


COPY_JS = on_load("copyRecipe")
"""Copies the text beside the clicked button."""
