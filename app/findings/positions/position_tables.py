"""The position tables themselves: each as an image, and a few dimensions as waves."""

from __future__ import annotations

from collections.abc import Sequence

import hfposemb as hpe
from hfposemb.errors import InputError
from hfposemb.figures import matrix_figures, wave_figures
from hfposemb.figures.palette import SIMILARITY
from hfposemb.figures.style import listed
from hfposemb.reports.position_findings import sentence, widest_title

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels, ScaleBar
from ...recipes import position_snippets
from ...session.opened import Opened
from ...session.shown_positions import Positions, scale_end, tables_of
from ...session.state import Session

WAVES = (8, 9, 24, 48)
MOST_WAVES = 6
ENDS = 4  # positions at either end that are often outliers


def read_dimensions(text: str) -> tuple[int, ...]:
    """Parse typed dimensions: whole numbers with any separators.

    Raises ``InputError`` if there are none, or more than can be drawn.
    """
    words = "".join(character if character.isdecimal() and character.isascii() else " " for character in text).split()
    found = tuple(dict.fromkeys(int(word) for word in words if len(word) < 8))
    if not 1 <= len(found) <= MOST_WAVES:
        raise InputError(f"enter 1 to {MOST_WAVES} dimensions, such as {', '.join(map(str, WAVES))}")
    return found


def images(opened: Sequence[Opened], length: int, dimensions: str, session: Session) -> Panels:
    """Draw every table as an image above a few of its dimensions as waves."""
    found = tables_of(opened, length, session, turning=True)
    try:
        wanted, problem = read_dimensions(dimensions), ""
    except hpe.HfposembError as error:
        wanted, problem = WAVES, f"{sentence(error)}. Showing {', '.join(map(str, WAVES))}."
    panels = tuple(image_panel(source, positions, wanted) for source, positions in found.items())
    about = "Top: every number of a table, positions downwards, dimensions across. Bottom: single dimensions as waves."
    return Panels(
        panels,
        heading="Position tables" if panels else "",
        subheading=(problem or about) if panels else "",
        columns=min(max(len(panels), 1), 4),
    )


def image_panel(source: Opened, positions: Positions, wanted: Sequence[int]) -> Panel:
    """Draw one table and its waves."""
    table = positions.table
    rows, width = table.shape
    image = matrix_figures.table_image(table.vectors)
    low, high = image.data[0].meta["range"]
    drawings = [Drawing(image)]
    inside = [dimension for dimension in wanted if dimension < width]
    # Outliers at the start, such as position 0 of a BERT, would flatten every wave after them.
    skip = next((row for row in range(ENDS + 1) if row not in positions.facts.outliers), 0) if rows > 4 * ENDS else 0
    if inside:
        figure = wave_figures.waves(table.vectors[skip:], inside, first=skip)
        figure.update_traces(line_color=source.color)
        drawings.append(Drawing(figure))
    said = [f"{rows:,} × {width:,}"]
    if beyond := [f"{dimension:,}" for dimension in wanted if dimension >= width]:
        said.append(f"no dimension {listed(beyond)}")
    if skip:
        left = {1: "position 0", 2: "positions 0 and 1"}.get(skip, f"positions 0 to {skip - 1}")
        said.append(f"waves without {left}, with outlying norms" if inside else "")
    return Panel(
        key=source.text,
        title=widest_title(table),
        source=(source.name, ""),
        color=source.color,
        drawings=tuple(drawings),
        help=HELP["position table"],
        foot=" · ".join(filter(None, said)),
        scale_bars=(ScaleBar(scale_end(low), scale_end(high), SIMILARITY.light),),
        recipe=position_snippets.image(positions, inside, skip=skip),
    )
