"""Shift analysis, computed when opened: is a shift of the position a rotation?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import gradio as gr
import numpy as np

from hfposemb.analysis.positions.shift_curves import (
    SPLITS,
    SURROGATES,
    PlaneRotation,
    ShiftCurve,
    plane_rotation,
    shift_by_distance,
    shift_null,
    sinusoid_shift_accuracy,
)
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures
from hfposemb.figures.style import Series, listed
from hfposemb.reports.position_findings import winding
from hfposemb.tables.rotary import Rotary
from hfposemb.text import one_line, percent

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, PanelRow, Panels
from ...recipes.position_snippets import of_tables
from ...recipes.writing import quoted
from ...session.opened import Opened
from ...session.shown_positions import Positions, tables_of
from ...session.state import Session
from .sinusoid_claims import rotation_panel

if TYPE_CHECKING:
    from hfposemb.analysis.positions.shift_operator import Split

Map = Literal["linear", "orthogonal"]

QUESTION = "Why sine and cosine? Is a shift of the position a rotation?"
MAPS: tuple[tuple[str, Map], ...] = (("Any linear map", "linear"), ("Rotation", "orthogonal"))
STEPS = (1, 4, 16, 64)
STEP = 4  # initial shift of the plane plot
MOSTLY = 0.99  # a fit that explains less than this is told beside the closed form
FAR = 16  # the shift stated in the title for positions beyond the fitted ones


@dataclass(frozen=True, eq=False)
class Measured:
    """The shift curve of a table, and the lowest and highest of its surrogates."""

    curve: ShiftCurve
    low: ShiftCurve
    high: ShiftCurve


def measured(positions: Positions, session: Session) -> Measured:
    """Measure the shown positions, once for all visitors. Raises ``HfposembError`` if there are too few."""

    def make() -> Measured:
        curve = shift_by_distance(positions.table)
        return Measured(curve, *shift_null(positions.table, distances=curve.distances.tolist()))

    return session.library.result(positions.whole, ("shifts", positions.length), make)


def turned(positions: Positions, step: int, session: Session) -> PlaneRotation:
    """Measure the planes turned by a shift of ``step``, once for all visitors.

    Raises ``HfposembError`` if there are too few positions.
    """
    key = ("turning", positions.length, step)
    return session.library.result(positions.whole, key, lambda: plane_rotation(positions.table, step))


def shift_panels(opened: Sequence[Opened], length: int, which: Map, step: int, session: Session) -> Panels:
    """Draw the fit of shifts by a linear map or rotation, for both kinds of held-out rows, and the turned planes."""
    found, said = {}, []
    tables = tables_of(opened, length, session)
    for source, positions in tables.items():
        try:
            found[source] = measured(positions, session)
        except HfposembError as error:
            said.append(f"{source.name}: {one_line(str(error))}.")
    by_rule = [source.name for source in opened if not source.error and isinstance(source.encoding, Rotary)]
    said += (
        [f"{listed(by_rule)}: rotary, so a shift rotates queries and keys by ω k by construction."] if by_rule else []
    )
    if not found:
        message = " ".join(said) or "None of the sources has position vectors. Try sample:gpt2."
        return Panels((Panel("shifts", "No position table to shift", message=message),))
    tables = {source: tables[source] for source in found}
    drawn = [
        replace(
            curve_panel(split, found, which, said),
            recipe=of_tables(list(tables.values()), f"hpe.shift_by_distance(table).{which}[{quoted(split)}].clip(0)"),
        )
        for split in SPLITS
    ]
    drawn += [plane_panel(tables, step, session), rotation_panel(step)]
    facts = {source.name: positions.facts for source, positions in tables.items()}
    about = "Fitted on three quarters of the positions, tested on the rest. The first and last rows are left out."
    return Panels(tuple(drawn), heading=winding(facts), subheading=about, columns=2)


def curve_panel(split: Split, found: Mapping[Opened, Measured], which: Map, said: Sequence[str]) -> Panel:
    """Draw R² by the distance of the shift for all sources, with the bands of their surrogates."""
    series = []
    for source, one in found.items():
        at, values, low, high = (
            np.asarray(part, np.float32)
            for part in (one.curve.distances, *(getattr(c, which)[split] for c in (one.curve, one.low, one.high)))
        )
        series.append(Series(source.name, values, source.color, source.dash, at=at, band=(low, high)))
    if any(source.position.kind == "sinusoidal" for source in found):
        longest = max(found, key=lambda source: len(found[source].curve.distances))
        distances = found[longest].curve.distances
        table = longest.position.table
        ones = sinusoid_shift_accuracy(*table.shape, distances=distances)
        series.append(Series("closed form", ones.astype(np.float32), at=distances.astype(np.float32)))
    random = split == "random"
    distance = 1 if random else max(k for k in found[next(iter(found))].curve.distances.tolist() if k <= FAR)
    exact = [source.name for source in found if source.position.kind == "sinusoidal"]
    title = curve_title({source.name: one.curve for source, one in found.items()}, which, split, distance, exact=exact)
    held = "A random quarter held out" if random else "The last quarter held out"
    foot = f"{held} · band: range of {SURROGATES} surrogates · values below 0 drawn as 0"
    return Panel(
        key=f"shift {split}",
        title=title,
        drawings=(Drawing(line_figures.shift_by_distance(series)),),
        help=HELP["shifts"],
        foot=" · ".join([foot, *said]) if random else foot,
    )


def curve_title(
    curves: Mapping[str, ShiftCurve], which: Map, split: Split, distance: int, *, exact: Sequence[str] = ()
) -> str:
    """State how well a fitted map by some distance predicts each source; ``exact`` have a closed form for it."""
    shares = []
    for name, curve in curves.items():
        at = np.flatnonzero(curve.distances == distance)
        if len(at):
            value = float(getattr(curve, which)[split][at[0]])
            known = " (the closed form: all)" if name in exact and value < MOSTLY else ""
            shares.append(
                f"{percent(value)} in {name}{known}" if value > 0 else f"no more than the mean{known} in {name}"
            )
    one = {"linear": "a fitted linear map", "orthogonal": "a fitted rotation"}[which]
    where = "one position" if distance == 1 else f"{distance} positions"
    beyond = "" if split == "random" else ", beyond the fitted positions"
    return f"Of a shift by {where}{beyond}, {one} explains {listed(shares)}"


def plane_panel(found: Mapping[Opened, Positions], step: int, session: Session) -> Panel:
    """Draw the angle by which each plane turns against the expected one."""
    series, shares, problem = [], [], ""
    measured = []
    for source, positions in found.items():
        try:
            plane = turned(positions, step, session)
        except HfposembError as error:
            problem = one_line(str(error))
            continue
        at, values = (np.rad2deg(part).astype(np.float32) for part in (plane.expected, plane.turned))
        series.append(Series(source.name, values, source.color, source.dash, at=at))
        measured.append(positions)
        shares.append(f"{int(plane.alike.sum())} of {len(plane.alike)} in {source.name}")
    if not series:
        return Panel("planes", "This shift is too large to be fitted", message=f"{problem}. Choose a smaller shift.")
    distance = "one position" if step == 1 else f"{step} positions"
    turns = f"hpe.plane_rotation(table, {step})"
    return Panel(
        key="planes",
        title=f"Planes rotated by ω k in a shift by {distance}: {listed(shares)}",
        drawings=(Drawing(line_figures.turned_planes(series)),),
        help=HELP["planes"],
        foot="Planes of the 16 leading components · " + (problem or "on the diagonal: a rotation"),
        recipe=of_tables(measured, f"np.rad2deg([{turns}.expected, {turns}.turned])"),
    )


def accordion(session: Session, length: gr.Radio) -> None:
    """Create the accordion, closed; it is computed when opened, and again when the sources change."""
    box, unfolded = session.fold("shifts", QUESTION)
    with box:
        with gr.Row(elem_classes="controls"):
            with gr.Column(scale=0, min_width=260):
                which = gr.Radio(list(MAPS), value="linear", label="Map", elem_classes="segmented")
            with gr.Column(scale=0, min_width=240):
                steps = [str(k) for k in STEPS]
                step = gr.Radio(steps, value=str(STEP), label="Shift of the planes", elem_classes="segmented")
        row = PanelRow((), scope=session.scope)

    def draw(opened: Sequence[Opened], length: int, which: Map, step: str) -> Any:
        return shift_panels(opened, length, which, int(step), session)

    inputs = [length, which, step]
    session.redraw(draw, [row], inputs=inputs, on=[one.input for one in inputs], within=unfolded)
    session.keep("map-of-shift", which)
    session.keep("shifted-by", step)
