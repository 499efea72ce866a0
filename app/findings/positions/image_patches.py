"""Position tables over an image: the similarity of each patch's position to all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

import hfposemb as hpe
from hfposemb.analysis.positions import patches as image_patches
from hfposemb.figures import matrix_figures
from hfposemb.figures.palette import SIMILARITY
from hfposemb.figures.style import listed
from hfposemb.reports.position_findings import sentence
from hfposemb.tables import null_comparison
from hfposemb.tables.encodings import Absolute, Grid
from hfposemb.text import number, percent

from ...components.happened import Happened
from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels, ScaleBar
from ...recipes.writing import Code, extracted, quoted, recipe
from ...session.opened import Opened
from ...session.shown_positions import MOST
from ...session.state import Session


def image_of(source: Opened) -> tuple[str, Absolute] | None:
    """Return the part of a source whose positions lie on an image grid: the shown one, or the first such part."""
    for part in dict.fromkeys([source.part, *source.parts]):
        encoding = replace(source, wanted=part).encoding
        if isinstance(encoding, Absolute) and encoding.grid is not None:
            return part, encoding
    return None


def patches(opened: Sequence[Opened], picked: Mapping[str, int], session: Session) -> Panels:
    """Draw patch maps for every source with an image grid, and the picked patch enlarged."""
    drawn: list[Panel] = []
    for source in opened:
        if (found := image_of(source)) is not None:
            drawn += patch_panels(source, found[0], found[1], picked, session)
    return Panels(
        tuple(drawn),
        heading="Positions in the image" if drawn else "",
        subheading="Each tile shows how similar one patch's position is to all. Click a tile to enlarge it."
        if drawn
        else "",
        scale_bars=(ScaleBar("cosine −1", "+1", SIMILARITY.light),) if drawn else (),
        columns=2,
    )


def patch_panels(
    source: Opened, part: str, encoding: Absolute, picked: Mapping[str, int], session: Session
) -> list[Panel]:
    """Draw the tiles of one source, and the map of one patch."""
    grid = encoding.grid
    assert grid is not None
    name = " · ".join(filter(None, [f"{grid.rows} × {grid.columns} patches", part if len(source.parts) > 1 else ""]))
    empty = Panel(key=f"{source.text} tiles", title="", source=(source.name, name), color=source.color)
    patch = picked.get(source.text, -1)
    if not 0 <= patch < grid.rows * grid.columns:
        patch = grid.rows // 2 * grid.columns + grid.columns // 2
    if grid.rows * grid.columns > MOST:
        return [replace(empty, message=f"Too many patches to draw: {grid.rows * grid.columns:,}, at most {MOST:,}.")]
    try:
        maps = image_patches.patch_maps(encoding)
        code = {"position": Code(f"{extracted(source)}.positions[{quoted(part)}]")}
        tiles = replace(
            empty,
            title=patch_finding(encoding, session),
            drawings=(Drawing(matrix_figures.patch_tiles(maps, chosen=patch), tile_caption(maps)),),
            help=HELP["patches"],
            foot=first_rows(grid),
            recipe=recipe("patches", [source], **code),
        )
        large = replace(
            empty,
            key=f"{source.text} map",
            title=patch_nearest(encoding, patch),
            drawings=(
                Drawing(
                    matrix_figures.patch_map(image_patches.patch_map(encoding, patch), patch), place_of(grid, patch)
                ),
            ),
            emphasis=place_of(grid, patch),
            recipe=recipe("patch", [source], **code, patch=patch),
        )
    except hpe.HfposembError as error:
        return [replace(empty, message=sentence(error), tone="error")]
    return [tiles, large]


def place_of(grid: Grid, patch: int) -> str:
    """Return the row and column of a patch as text."""
    row, column = divmod(patch, grid.columns)
    return f"row\u00a0{row}, column\u00a0{column}"


def first_rows(grid: Grid) -> str:
    """State which rows of the table are not patches."""
    if not grid.first:
        return "Every row is a patch"
    return "Row 0 is not a patch" if grid.first == 1 else f"Rows 0 to {grid.first - 1} are not patches"


def tile_caption(maps: image_patches.PatchMaps) -> str:
    """State which patches have a tile."""
    rows, columns = maps.grid.rows, maps.grid.columns
    if (len(maps.rows), len(maps.columns)) == (rows, columns):
        return "one tile per patch"
    return f"tiles of {len(maps.rows)} of {rows} rows and {len(maps.columns)} of {columns} columns, evenly spaced"


def patch_finding(encoding: Absolute, session: Session) -> str:
    """State the share of variance explained by rows and columns, and the same for shuffled patches."""
    try:
        found = session.library.result(
            encoding.table, ("grid variance", encoding.grid), lambda: image_patches.grid_variance(encoding)
        )
    except hpe.HfposembError as error:
        return sentence(error)
    nulls = [spread(found.nulls[name]) for name in ("row", "column")]
    chance = f"{nulls[0]} each" if nulls[0] == nulls[1] else " and ".join(nulls)
    shares = f"Rows explain {percent(found.row)}, columns {percent(found.column)} of the variance"
    return f"{shares}; shuffled patches: {chance}"


def spread(null: null_comparison.Null) -> str:
    """Format a null as its mean ± half of its interval."""
    return f"{percent(null.mean)}\u00a0±\u00a0{max(1, round(50 * (null.high - null.low)))}"


def patch_nearest(encoding: Absolute, patch: int) -> str:
    """State which patches are most similar to the picked one."""
    grid = encoding.grid
    assert grid is not None
    patches = encoding.table.part(grid.first, grid.first + grid.rows * grid.columns)
    try:
        found = hpe.neighbours(patches, patch, k=min(2, grid.rows * grid.columns - 1))
    except hpe.HfposembError as error:
        return sentence(error)
    others = [
        f"{place_of(grid, int(row))} ({number(value, digits=2)})"
        for row, value in zip(found.rows, found.values, strict=True)
    ]
    return f"The patch in {place_of(grid, patch)} is most similar to {listed(others)}"


def pick(event: Happened, picked: dict[str, int]) -> Any:
    """Pick the patch that was clicked, for the source it belongs to."""
    found = event.told
    index, panel = found.get("index"), found.get("panel")
    if found.get("group") != "patch" or not isinstance(index, int) or index < 0 or not isinstance(panel, str):
        return gr.skip()
    return {**picked, panel.rpartition(" ")[0]: index}
