"""Panels of rotary positions: the kernel of each scaling, declared against plain rotations, and the base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hfposemb.checks.rope_report import MULTIPLES, ScalingEffect, rope_report
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures
from hfposemb.figures.palette import CLASSES, SOURCES
from hfposemb.figures.style import ACCENT, Axis, Series, listed
from hfposemb.reports.position_findings import sentence
from hfposemb.tables.rotary import Rotary
from hfposemb.text import number, sentence_case

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels
from ...recipes.position_snippets import REPORTED, agreement, report_code
from ...recipes.writing import recipe
from ...session.library import source_key
from ...session.opened import Opened
from ...session.state import Session
from .position_clouds import series_of

if TYPE_CHECKING:
    from hfposemb.checks.rope_report import BaseCheck, RopeReport

MOST_PAIRS = 128
"""Pairs up to which the scalings are compared while the page waits; heads are at most 256 wide."""

SEARCHED = 2**21
"""Positions times pairs up to which the smallest base is searched, about a second."""

HEIGHT = 260

GROUPS = 96
"""Groups of neighbouring distances whose kernel is averaged; single values would hide each other far away."""

STYLES = {
    "linear": (SOURCES[0].colour.light, "dash"),
    "dynamic": (SOURCES[1].colour.light, "dashdot"),
    "yarn": (SOURCES[3].colour.light, "solid"),
    "longrope": (CLASSES["unused"].light, "dot"),
    "llama3": (SOURCES[2].colour.light, "dash"),
}
NAMES = {"longrope": "LongRoPE", "yarn": "YaRN", "llama3": "Llama 3"}
"""Names of scalings that do not begin like other words."""

ABOUT = (
    "Scaling slows the rotation for texts longer than those of training. The plots show the kernel by distance, in "
    "inputs of 1, 2, 4 and 8 trained lengths."
)


def scaling_panels(opened: Sequence[Opened], session: Session) -> Panels:
    """Draw the kernels of all scalings at four lengths, and declared against plain, for every rotary source."""
    panels: list[Panel] = []
    for source in opened:
        if not isinstance(source.encoding, Rotary):
            continue
        try:
            panels += _of_source(source, session)
        except HfposembError as error:
            panels.append(Panel(f"rope {source.text}", "", source=(source.name, ""), message=sentence(error)))
    if not panels:
        return Panels(())
    return Panels(tuple(panels), heading="Rotary positions: what scaling changes", subheading=ABOUT, columns=2)


def _of_source(source: Opened, session: Session) -> list[Panel]:
    encoding, embeddings = source.position, source.embeddings
    assert isinstance(encoding, Rotary)
    assert embeddings is not None  # otherwise it has no position
    pairs, trained = len(encoding.inv_freq), encoding.trained_length or encoding.length
    if pairs > MOST_PAIRS:
        said = f"It has {pairs:,} pairs, too many to compare here. Run: hfposemb rope {source.text}"
        return [Panel(f"rope {source.text}", "", source=(source.name, ""), color=source.color, message=said, span=2)]
    search = None if pairs * trained <= SEARCHED else 0
    bounds = {} if search is None else {"search": search}
    key = ("rope", source_key(source.text, public=session.public), source.part)
    report = session.library.results.make(key, lambda: rope_report(embeddings, part=source.part, **bounds))
    kernels = [_kernel_panel(source, report, multiple, search) for multiple in MULTIPLES if report.effects]
    return [*kernels, _agreement_panel(source, report, search)]


def _kernel_panel(source: Opened, report: RopeReport, multiple: int, search: int | None) -> Panel:
    found = {one.scaling: one for one in report.effects if one.multiple == multiple}
    lines = [_line(one) for one in found.values()]
    low = min(float(_in_groups(one.kernel).min()) for one in report.effects)
    x = Axis("distance, log scale", log=True)
    code: dict[str, Any] = {"report": report_code(source, search), "multiple": multiple, "groups": GROUPS}
    figure = line_figures.curves(lines, x=x, y=Axis("kernel", span=(low - 0.05, 1.05)), height=HEIGHT)
    return Panel(
        f"rope {multiple} {source.text}",
        kernel_title(found, report.pairs),
        source=(source.name, f"{multiple} × the length"),
        color=source.color,
        drawings=(Drawing(figure),),
        help=HELP["scaled kernel"],
        foot=f"{next(iter(found.values())).length:,} positions, factor 8, mean of near distances",
        recipe=recipe("kernels", [source], imports=REPORTED, **code),
    )


def _line(one: ScalingEffect) -> Series:
    at, values = (_in_groups(part).astype(np.float32) for part in (one.distances, one.kernel))
    if one.scaling == "declared":
        return Series(one.scaling, values, ACCENT, "solid", at=at, chosen=True)
    if one.scaling == "none":
        return Series(one.scaling, values, at=at)
    colour, dash = STYLES[one.scaling]
    return Series(one.scaling, values, colour, dash, at=at)


def _in_groups(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return means over groups of neighbouring values, longer and longer ones."""
    starts = np.unique(np.geomspace(1, len(values), GROUPS).astype(int)) - 1
    return np.asarray(np.add.reduceat(values, starts) / np.diff([*starts, len(values)]), np.float64)


def kernel_title(found: dict[str, ScalingEffect], pairs: int) -> str:
    """State how many pairs reach new angles unscaled and scaled, or within the trained length what changes most."""
    plain, others = found.get("none"), {name: one for name, one in found.items() if name != "none"}
    if plain is None or not plain.unseen:
        name, most = max(others.items(), key=lambda item: item[1].near, default=("none", plain))
        if most is None or not most.near:
            return "No scaling changes the kernel of near words"
        how = "the declared scaling" if name == "declared" else name
        return f"Near words change most by {how}: {number(most.near)}"
    said = f"Unscaled, {plain.unseen} of {pairs} pairs reach new angles"
    if "declared" in found:
        return f"{said}; as declared, {found['declared'].unseen or 'none'}"
    free = [name for name, one in others.items() if not one.unseen]
    return f"{said}; scaled, none" if len(free) == len(others) else f"{said}; none with {listed(free or ['any'])}"


def _agreement_panel(source: Opened, report: RopeReport, search: int | None) -> Panel:
    drawings: tuple[Drawing, ...] = ()
    if report.scaling:
        at = np.array(list(report.agreement), np.float32) + 1
        line = series_of(source, np.array(list(report.agreement.values())), at=at)
        x = Axis("position, counted from 1, log scale", log=True)
        drawings = (Drawing(line_figures.curves([line], x=x, y=Axis("cosine"), height=HEIGHT - 60)),)
    numbers = [(f"{report.never_turned:,}", f"of {report.pairs:,} pairs never made a full turn in training")]
    if report.base is not None:
        numbers += _base_numbers(report.base)
    absent = [
        f"{NAMES.get(name, sentence_case(name))} is not compared: {reason}." for name, reason in report.absent.items()
    ]
    return Panel(
        f"rope {source.text}",
        agreement_title(report),
        source=(source.name, "declared and plain" if report.scaling else "the base"),
        color=source.color,
        drawings=drawings,
        numbers=tuple(numbers),
        message=" ".join(absent),
        help=HELP["declared and plain"],
        recipe=agreement(source, search, base=report.base is not None),
        span=2,
    )


def _base_numbers(base: BaseCheck) -> list[tuple[str, str]]:
    lowest = (number(base.lowest, digits=2), "lowest sum of cosines; below 0 a similar word scores lower")
    smallest = (
        ("–", "smallest base without a negative sum: not searched, or above 10¹²")
        if base.bound is None or not np.isfinite(base.bound)
        else (number(base.bound, digits=0), f"smallest base without a negative sum for {base.length:,} positions")
    )
    return [(number(base.theta, digits=0), "base"), smallest, lowest]


def agreement_title(report: RopeReport) -> str:
    """State the cosine of declared and plain rotations at the last position, or the lowest sum of cosines."""
    if report.scaling:
        last, cosine = list(report.agreement.items())[-1]
        return f"Declared and plain have cosine {number(cosine)} at position {last:,}"
    if report.base is None:
        return "Its frequencies are no geometric sequence with one base"
    base, where = number(report.base.theta, digits=0), f"within {report.base.length:,} positions"
    verdict = "stays above 0" if report.base.holds else f"falls to {number(report.base.lowest, digits=2)}"
    return f"With base {base}, the sum of cosines {verdict} {where}"
