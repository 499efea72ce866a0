"""Code snippets for panels about positions whose code or command depends on what is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..components.recipe import Recipe
from .writing import (
    Code,
    comma_separated,
    command_line,
    dict_lines,
    extracted,
    is_first,
    pinned,
    position,
    quoted,
    recipe_of,
    role_of,
    rows,
)

if TYPE_CHECKING:
    from ..session.opened import Opened
    from ..session.shown_positions import Positions


def cloud(shown: Positions, *, method: str, dims: int) -> Recipe:
    """Return the recipe of the projection of positions and their similarity matrix."""
    source, values = shown.source, {}
    body = [f"table = {rows(shown)}"]
    if dims > 1:
        project = f'hpe.project(table, method="{method}", dims={dims})'
        values["cloud"] = f"{project}.coordinates"
        if method == "umap" and not shown.complete:  # UMAP is computed on all positions
            project = f'hpe.project({position(source)}.table, method="umap", dims={dims})'
            body.append(f"found = {project}")
            values["cloud"] = f"found.coordinates[found.rows < {shown.length}]"
    values["matrix"] = f"{position(source)}.matrix({shown.length})" if shown.turning else "hpe.similarity(table)"
    body += dict_lines(values)
    command = []
    if shown.complete and dims > 1:
        options = ("--table", role_of(source), "--method", method, "--dims", dims)
        command = [command_line("project", pinned(source), *options)]
    return recipe_of(body, [source], command=command)


def distances(at: np.ndarray) -> Code:
    """Return the expression for the distances of a profile."""
    return Code(f"np.arange({int(at.min())}, {int(at.max()) + 1})")


def tables(found: Sequence[Positions]) -> dict[str, str]:
    """Return the expressions for some tables by name."""
    return {pinned(shown.source): rows(shown) for shown in found}


def of_tables(found: Sequence[Positions], value: str, *, figure: str = "") -> Recipe:
    """Return the recipe of a ``value`` of several tables, with a command that exports the same ``figure``."""
    body = [*dict_lines(tables(found), "tables"), f"shown = {{name: {value} for name, table in tables.items()}}"]
    sources = [shown.source for shown in found]
    plain = all(is_first(shown.source) and shown.complete for shown in found)
    command = [command_line("export", *map(pinned, sources), "--figure", figure, "--out", f"{figure}.json")]
    return recipe_of(body, sources, command=command if figure and plain else ())


def profiles(found: Sequence[Positions], others: Mapping[Opened, np.ndarray]) -> Recipe:
    """Return the recipe of similarity by distance, for tables and for mechanisms at the drawn distances."""
    if not others:
        return of_tables(found, "hpe.mean_cosine_by_distance(table)", figure="distance")
    values = {pinned(shown.source): f"hpe.mean_cosine_by_distance({rows(shown)})" for shown in found}
    values |= {pinned(source): f"{position(source)}.profile({distances(at)})" for source, at in others.items()}
    return recipe_of(dict_lines(values), [*(shown.source for shown in found), *others])


def image(shown: Positions, dimensions: Sequence[int], *, skip: int) -> Recipe:
    """Return the recipe of a table and some of its dimensions."""
    values = {"table": "vectors"}
    if dimensions:
        start = str(skip) if skip else ""
        values["waves"] = f"vectors[{start}:, [{comma_separated(dimensions)}]]"
    source, command = shown.source, []
    body = [f"vectors = {rows(shown)}.vectors", *dict_lines(values)]
    if shown.complete and not shown.turning:
        command = [command_line("extract", pinned(source), "--table", role_of(source), "--out", "positions.npz")]
    return recipe_of(body, [source], command=command)


def requirements(source: Opened, *, drawn: bool) -> Recipe:
    """Return the recipe of the requirement values and, if ``drawn``, of decoding from slow and fast waves."""
    part = "" if is_first(source) else f", part={quoted(source.part)}"
    body = [
        f"source = {extracted(source)}",
        f"found = hpe.encoding_requirements(source{part})",
        "shown = {item.name: item.value for item in found.items}",
    ]
    if drawn:
        of = "source.position" if is_first(source) else f"source.positions[{quoted(source.part)}]"
        body += [f"waves = hpe.frequency_resolution({of})", 'shown |= {"slow": waves.slow, "fast": waves.fast}']
    options = ("--requirements", *(["--resolution"] if drawn else []), "--json")
    command = [command_line("info", pinned(source), *options)] if is_first(source) else []
    return recipe_of(body, [source], command=command)


REPORTED = ("from hfposemb.checks.rope_report import rope_report",)


def report_code(source: Opened, search: int | None) -> Code:
    """Return the line that reports on the rotary scaling of a source."""
    part = "" if is_first(source) else f", part={quoted(source.part)}"
    return Code(f"found = rope_report({extracted(source)}{part}{'' if search is None else f', search={search}'})")


def agreement(source: Opened, search: int | None, *, base: bool) -> Recipe:
    """Return the recipe of the cosine of declared and plain rotations, and of the numbers of the base."""
    values = {"agreement": "list(found.agreement.values())", "never turned": "found.never_turned"}
    if base:
        values |= {"base": "found.theta", "smallest": "found.base.bound", "lowest": "found.base.lowest"}
    part = () if is_first(source) else ("--part", source.part)
    command = command_line("rope", pinned(source), *part, "--json")
    return recipe_of([report_code(source, search), *dict_lines(values)], [source], imports=REPORTED, command=[command])
