"""Code snippets for checks of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..components.recipe import Recipe
from .writing import command_line, dict_lines, pinned, quoted, recipe_of

if TYPE_CHECKING:
    from ..session.opened import Opened


def checks(sources: Sequence[Opened]) -> Recipe:
    """Return the recipe of the number of findings of each severity in the files of some sources."""
    body = [
        *dict_lines({pinned(source): f"hpe.check({quoted(pinned(source))})" for source in sources}, "reports"),
        'severities = ("wrong", "suspicious", "note")',
        "shown = {name: {one: len(each.of(one)) for one in severities} for name, each in reports.items()}",
        'print(*reports.values(), sep="\\n\\n")',
    ]
    return recipe_of(body, sources, command=[command_line("check", *map(pinned, sources))], roles=("token",))
