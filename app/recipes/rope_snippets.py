"""Code snippets for what a scaling does to rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..components.recipe import Recipe
from .writing import command_line, dict_lines, extracted, is_first, pinned, quoted, recipe_of

if TYPE_CHECKING:
    from ..session.opened import Opened

IMPORTS = ("from hfposemb.checks.rope_report import rope_report",)


def _report(source: Opened, search: int | None) -> str:
    part = "" if is_first(source) else f", part={quoted(source.part)}"
    return f"found = rope_report({extracted(source)}{part}{'' if search is None else f', search={search}'})"


def kernels(source: Opened, multiple: int, search: int | None, *, groups: int) -> Recipe:
    """Return the recipe of the kernel of each scaling for an input of some trained lengths, averaged in groups."""
    body = [
        _report(source, search),
        f"effects = [one for one in found.effects if one.multiple == {multiple}]",
        "count = len(effects[0].kernel)",
        f"starts = np.unique(np.geomspace(1, count, {groups}).astype(int)) - 1",
        "sizes = np.diff([*starts, count])",
        "shown = {one.scaling: np.add.reduceat(one.kernel, starts) / sizes for one in effects}",
    ]
    return recipe_of(body, [source], imports=IMPORTS)


def agreement(source: Opened, search: int | None, *, base: bool) -> Recipe:
    """Return the recipe of the cosine of declared and plain rotations, and of the numbers of the base."""
    values = {"agreement": "list(found.agreement.values())", "never turned": "found.never_turned"}
    if base:
        values |= {"base": "found.theta", "smallest": "found.base.bound", "lowest": "found.base.lowest"}
    part = () if is_first(source) else ("--part", source.part)
    command = command_line("rope", pinned(source), *part, "--json")
    return recipe_of([_report(source, search), *dict_lines(values)], [source], imports=IMPORTS, command=[command])
