"""Code snippets for panels about positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..components.recipe import Recipe
from .writing import (
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


def shape(shown: Positions, *, stripes: int) -> Recipe:
    """Return the recipe of a table's PCA in three dimensions, and of its first numbers."""
    several = f"hpe.project(table, dims=3).coordinates, table.vectors[:{stripes}, :{stripes}]"
    return _of_tables([shown], f"[{several}]")


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


def mechanism(source: Opened, at: np.ndarray, length: int) -> Recipe:
    """Return the recipe of the profile and the matrix of a mechanism without rows."""
    body = [
        f"encoding = {position(source)}",
        *dict_lines({"profile": f"encoding.profile({_distances(at)})", "matrix": f"encoding.matrix({length})"}),
    ]
    return recipe_of(body, [source])


def _distances(at: np.ndarray) -> str:
    return f"np.arange({int(at.min())}, {int(at.max()) + 1})"


def _of_tables(found: Sequence[Positions], value: str, *, figure: str = "") -> Recipe:
    """Return the recipe of a ``value`` of several tables, with a command that exports the same ``figure``."""
    body = [
        *dict_lines({pinned(shown.source): rows(shown) for shown in found}, "tables"),
        f"shown = {{name: {value} for name, table in tables.items()}}",
    ]
    sources = [shown.source for shown in found]
    plain = all(is_first(shown.source) and shown.complete for shown in found)
    command = [command_line("export", *map(pinned, sources), "--figure", figure, "--out", f"{figure}.json")]
    return recipe_of(body, sources, command=command if figure and plain else ())


def profiles(found: Sequence[Positions], others: Mapping[Opened, np.ndarray]) -> Recipe:
    """Return the recipe of similarity by distance, for tables and for mechanisms at the drawn distances."""
    if not others:
        return _of_tables(found, "hpe.mean_cosine_by_distance(table)", figure="distance")
    values = {pinned(shown.source): f"hpe.mean_cosine_by_distance({rows(shown)})" for shown in found}
    values |= {pinned(source): f"{position(source)}.profile({_distances(at)})" for source, at in others.items()}
    return recipe_of(dict_lines(values), [*(shown.source for shown in found), *others])


def lengths(found: Sequence[Positions]) -> Recipe:
    """Return the recipe of the norms of some tables."""
    return _of_tables(found, "hpe.positive_norms(table)", figure="norms")


def variance(found: Sequence[Positions]) -> Recipe:
    """Return the recipe of the cumulative explained variance of some tables."""
    return _of_tables(found, "hpe.spectrum(table).cumulative", figure="variance")


def waves(found: Sequence[Positions]) -> Recipe:
    """Return the recipe of the strength of the waves of some tables, shortest first."""
    return _of_tables(found, "hpe.strength_by_period(table).strength[::-1]")


def runs(found: Sequence[Positions], first: int, count: int) -> Recipe:
    """Return the recipe of the mean cosine within a range of positions, and within all ranges of its length."""
    body = [
        *dict_lines({pinned(shown.source): rows(shown) for shown in found}, "tables"),
        "shown = {}",
        "for name, table in tables.items():",
        f"    runs = mean_cosine_of_runs(table, {count})",
        f'    shown[name] = {{"range": runs[{first}], "all": np.nanmean(runs)}}',
    ]
    imports = ["from hfposemb.analysis.rows import mean_cosine_of_runs"]
    return recipe_of(body, [shown.source for shown in found], imports=imports)


def wavelengths(source: Opened) -> Recipe:
    """Return the recipe of the wavelengths of a rotary source, before and after scaling."""
    body = [f"found = {position(source)}.scaled", *dict_lines({"before": "found.before", "after": "found.after"})]
    return recipe_of(body, [source])


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


def patch_tiles(source: Opened, part: str) -> Recipe:
    """Return the recipe of the maps of a source's patches."""
    body = [f"shown = hpe.patch_maps({_of_part(source, part)}).maps"]
    return recipe_of(body, [source], roles=(_role(part),))


def patch_map(source: Opened, part: str, patch: int) -> Recipe:
    """Return the recipe of the map of one patch."""
    body = [f"shown = hpe.patch_map({_of_part(source, part)}, {patch})"]
    return recipe_of(body, [source], roles=(_role(part),))


def _of_part(source: Opened, part: str) -> str:
    return f"{extracted(source)}.positions[{quoted(part)}]"


def _role(part: str) -> str:
    return "position" if part == "position" else f"{part}.position"


def shifts(found: Sequence[Positions], which: str, split: str) -> Recipe:
    """Return the recipe of the held-out R² of shifts by every distance, clipped at 0 as drawn."""
    value = f"hpe.shift_by_distance(table).{which}[{quoted(split)}].clip(0)"
    return _of_tables(found, value)


def planes(found: Sequence[Positions], step: int) -> Recipe:
    """Return the recipe of the expected and actual turning angles of each plane, in degrees."""
    value = f"np.rad2deg([hpe.plane_rotation(table, {step}).expected, hpe.plane_rotation(table, {step}).turned])"
    return _of_tables(found, value)


def rotation(step: int, width: int) -> Recipe:
    """Return the recipe of the matrix of a shift, for positions as rows and as columns."""
    body = [
        f"found = hpe.shift_rotation({step}, {width})",
        *dict_lines({"for rows": "found.for_rows", "for columns": "found.for_columns"}),
    ]
    return recipe_of(body, [])


def buildup(length: int, width: int, pairs: Sequence[int], position: int) -> Recipe:
    """Return the recipe of the maps of a sinusoid's first pairs, and of the hands of all pairs at a position."""
    body = [
        f"rows = hpe.sinusoidal({length}, {width}).position.table.vectors",
        f"tables = {{m: hpe.from_arrays(position=rows[:, : 2 * m]).position for m in ({comma_separated(pairs)})}}",
        "shown = {m: hpe.project(table, dims=2).coordinates for m, table in tables.items()}",
        "# Hands of the clock: sine and cosine of these pairs at one position",
        f'shown["clock"] = rows[{position}].reshape(-1, 2)[[{comma_separated([m - 1 for m in pairs])}]]',
    ]
    return recipe_of(body, [])


def probes(sources: Sequence[Opened]) -> Recipe:
    """Return the recipe of the mean errors of all probes of some position tables."""
    body = [
        *dict_lines({pinned(source): f"{position(source)}.table" for source in sources}, "tables"),
        "found = {name: hpe.position_probes(table) for name, table in tables.items()}",
        "shown = {name: {probe: one.mean for probe, one in each.items()} for name, each in found.items()}",
    ]
    return recipe_of(body, sources)


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
