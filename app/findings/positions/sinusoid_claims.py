"""What texts claim of the sinusoid, drawn: positions come apart as frequencies are added, and a shift is a rotation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hfposemb as hpe
from hfposemb.analysis.positions.sinusoid_forms import (
    FrequencyBuildup,
    ShiftRotation,
    frequency_buildup,
    shift_rotation,
)
from hfposemb.analysis.row_values import Floats
from hfposemb.figures import line_figures, matrix_figures, position_figures
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource
from hfposemb.text import number, percent

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel
from ...recipes.writing import comma_separated, recipe
from ...session.opened import Opened
from ...session.state import Session

BUILT = (1, 2, 8, 64)
LENGTH, WIDTH = 256, 128
PAIRED = 4  # columns of the matrices
NAMES = ("sin ω₀", "cos ω₀", "sin ω₁", "cos ω₁")
COINCIDING = 44  # positions that the fastest hand needs for seven turns, all but one degree
MAP_HEIGHT, MATRIX_HEIGHT, CLOCK_HEIGHT = 170, 230, 130


def buildup_panel(opened: Sequence[Opened], session: Session) -> tuple[Panel, ...]:
    """Draw the map of positions as pairs of sine and cosine are added; nothing without a sinusoid."""
    shape = next((source.position.table.shape for source in opened if _is_sinusoid(source)), None)
    if shape is None or shape[1] < 2 * BUILT[1]:
        return ()
    length, width = min(shape[0], LENGTH), shape[1]
    counts = tuple(count for count in BUILT if count <= width // 2)
    found = frequency_buildup(length, width, pairs=counts)
    rows = hpe.sinusoidal(length, width).position.table.vectors
    drawings = []
    for place, count in enumerate(counts):
        table = hpe.from_arrays(position=rows[:, : 2 * count]).position.table
        projection = session.picture(table, 2)
        said = f"{count} {'pair' if count == 1 else 'pairs'}, up to {number(float(found.periods[place]), digits=1)} "
        said += f"positions a turn: {percent(float(found.neighbours[place]))} next to a neighbour"
        drawings.append(Drawing(position_figures.projection(projection, height=MAP_HEIGHT), said))
    position = min(COINCIDING, length - 1)
    drawings.append(clocks(position, rows[position], counts))
    pairs: dict[str, Any] = {"pairs": comma_separated(counts), "clock": [count - 1 for count in counts]}
    return (
        Panel(
            key="buildup",
            title=buildup_title(found),
            drawings=tuple(drawings),
            help=HELP["build-up"],
            foot=f"The first {length:,} positions of a sinusoid of width {width:,}, fastest pairs first",
            recipe=recipe("sinusoid", [], length=length, width=width, **pairs, position=position),
        ),
    )


def clocks(position: int, row: Floats, counts: Sequence[int]) -> Drawing:
    """Draw position 0 and another one as hands of a clock, one for the last pair of each map."""
    hands = row.reshape(-1, 2)[np.array(counts) - 1]
    apart = [number(float(abs(np.degrees(np.arctan2(*hand)))), digits=0) for hand in hands]
    named = [f"pair {count}: {angle}°" for count, angle in zip(counts, apart, strict=True)]
    said = f"Position 0 points up; at position {position} these hands are turned from it by so many degrees"
    return Drawing(line_figures.clock(hands, named=named, height=CLOCK_HEIGHT), said)


def buildup_title(found: FrequencyBuildup) -> str:
    """State how many positions are nearest to a neighbour with one pair, and with as many pairs as it takes."""
    enough = int(np.argmax(found.neighbours >= found.neighbours[-1]))
    first, most = percent(float(found.neighbours[0])), percent(float(found.neighbours[enough]))
    pairs = "one pair" if found.pairs[0] == 1 else f"{found.pairs[0]} pairs"
    said = f"With {pairs} of sine and cosine, {first} of positions are nearest to a neighbour"
    return f"{said}; with {found.pairs[enough]}, {most}"


def _is_sinusoid(source: Opened) -> bool:
    """Return whether a source is the closed form with sines and cosines side by side, as the panel builds it."""
    try:
        named = parse_source(source.text)
        return isinstance(named, BuiltinSource) and named.name == "sinusoidal" and source.position.kind == "sinusoidal"
    except hpe.HfposembError:
        return False


def rotation_panel(step: int) -> Panel:
    """Draw the rotation of a shift by ``step``, for positions as rows and as columns."""
    found = shift_rotation(step, PAIRED)
    forms = {"Rows, as here: p R": found.for_rows, "Columns, as in the paper: M p": found.for_columns}
    drawings = [Drawing(_matrix(form), said) for said, form in forms.items()]
    return Panel(
        key="rotation",
        title=rotation_title(found),
        drawings=tuple(drawings),
        help=HELP["rotation"],
        foot=f"A closed form: on 1,024 positions both are exact to {found.error:.0e}",
        recipe=recipe("rotation", [], step=step, width=PAIRED),
    )


def _matrix(form: Floats) -> Any:
    figure = matrix_figures.similarity_matrix(form.astype(np.float32), labels=NAMES, unit="cosine")
    return figure.update_layout(height=MATRIX_HEIGHT)


def rotation_title(found: ShiftRotation) -> str:
    """State by how much a shift turns the first pair, and what the two forms are to each other."""
    degrees = number(float(np.rad2deg(found.angles[0]) % 360), digits=0)
    where = "one position" if found.distance == 1 else f"{found.distance} positions"
    return f"A shift by {where} turns the sinusoid’s first pair by {degrees}°; written for columns it is the transpose"
