"""Panels of the requirements of a position encoding, and of what its slow and fast waves encode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np

from hfposemb.analysis.positions.encoding_properties import Requirement, Requirements, encoding_requirements
from hfposemb.analysis.positions.resolution import Resolution, frequency_resolution
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures
from hfposemb.figures.style import Axis, Series
from hfposemb.tables.encodings import Absolute
from hfposemb.text import number, one_line, percent, sentence_case

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, PanelRow, Panels
from ...limits import MEASURED_AT_ONCE
from ...recipes.position_snippets import requirements
from ...session.opened import Opened
from ...session.state import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_READ = 2**26  # numbers of a table that may be read for this

FAILS = {
    "bounded": "grows without bound",
    "independent of length": "rows depend on the length",
    "unique": "positions repeat",
    "neighbours apart": "neighbours are hardly apart",
    "extrapolates": "does not extrapolate",
}
NUMBERS = {
    "bounded": "largest number",
    "independent of length": "change in a longer text",
    "unique": "of a typical norm between the closest two",
    "neighbours apart": "of a typical norm for the smallest step",
    "extrapolates": "{reads}s of error in the second half",
}


def requirement_panel(source: Opened, session: Session) -> Panel:
    """Return the panel of one source: requirements met, and position decoding from slow and fast waves."""
    empty = Panel(f"{source.text} requirements", "", source=(source.name, ""), color=source.color)
    try:
        encoding = source.position
        table = encoding.table if isinstance(encoding, Absolute) else None
        if table is not None and min(table.shape[0], 2048) * table.shape[1] > MEASURED_AT_ONCE:
            return replace(
                empty, message=f"Its rows are too wide to measure here. Run: hfposemb info {source.text} --requirements"
            )
        if table is not None and table.shape[0] * table.shape[1] > MOST_READ:
            return replace(
                empty, message=f"It is too large to measure here. Run: hfposemb info {source.text} --requirements"
            )
        assert source.embeddings is not None  # otherwise it has no position
        embeddings, part = source.embeddings, source.part
        if table is None:
            return _drawn(empty, source, encoding_requirements(embeddings, part=part), _waves(encoding))
        result = session.library.result
        met = result(table, ("requirements", source.text, part), lambda: encoding_requirements(embeddings, part=part))
        return _drawn(empty, source, met, result(table, ("resolution",), lambda: (_waves(encoding),))[0])
    except HfposembError as error:
        return replace(empty, message=sentence_case(one_line(str(error))))


def _waves(encoding: Any) -> Resolution | None:
    try:
        return frequency_resolution(encoding)
    except HfposembError:
        return None  # it has no rows, so there is nothing to decode


def _drawn(empty: Panel, source: Opened, found: Requirements, waves: Resolution | None) -> Panel:
    if not found.reads:
        return replace(empty, message=sentence_case(one_line(found.notes[0])))
    drawings: tuple[Drawing, ...] = ()
    message = ""
    if waves is None:
        message = "It has no position vectors, so there are no waves to decode."
    elif len(waves.counts) < 2:
        message = "It has only one wave, so slow and fast cannot be compared."
    else:
        drawings = (Drawing(_curves(waves, empty.color), _caption(waves)),)
    return replace(
        empty,
        title=_title(found),
        numbers=tuple((_figure(item), _said(item, found.reads)) for item in found.items),
        drawings=drawings,
        message=message,
        help=HELP["requirements"],
        foot=" · ".join(found.notes),
        recipe=requirements(source, drawn=bool(drawings)),
    )


def _title(found: Requirements) -> str:
    said = [FAILS[item.name] for item in found.items if item.verdict == "not met"]
    others = len(found.items) - found.measured
    met = f"Meets {found.met} of {found.measured}{' that apply' if others else ''}"
    return f"{met}: {', '.join(said)}" if said else met


def _figure(item: Requirement) -> str:
    if item.value is None:
        return "–"
    if item.name in ("unique", "neighbours apart", "independent of length"):
        share = 100 * item.value
        return percent(item.value, digits=0 if share >= 10 or share == 0 else 2 if share >= 0.01 else 4)
    return number(item.value, digits=0 if item.value >= 100 or item.name == "extrapolates" else 2)


def _said(item: Requirement, reads: str) -> str:
    """Return the requirement's name, verdict, and what its number means."""
    if item.verdict != "not measured":
        return f"{item.name}: {item.verdict} · {NUMBERS[item.name].format(reads=reads)}"
    return f"{item.name}: {'not applicable, fixed length' if item.name == 'independent of length' else 'not measured'}"


def _curves(waves: Resolution, color: str) -> Any:
    at = np.array(waves.counts, np.float32)
    lines = [
        Series("slow", waves.slow.astype(np.float32), color, "solid", at=at),
        Series("fast", waves.fast.astype(np.float32), color, "dash", at=at),
        Series("guess", np.full(len(at), waves.guess, np.float32), at=at),
    ]
    top = float(max(waves.guess, waves.slow.max(), waves.fast.max()))
    last = max(waves.counts[-1], 2)
    ticks = tuple(float(tick) for tick in (1, 4, 16, 64, 256) if tick <= last)
    x = Axis(f"{waves.unit} kept, log scale", log=True, ticks=ticks, span=(1, last))
    return line_figures.curves(lines, x=x, y=Axis("error in positions", span=(-0.03 * top, 1.08 * top)), height=300)


def _caption(waves: Resolution) -> str:
    slow, fast = (percent(float(share)) for share in (waves.slow_next[0], waves.fast_next[0]))
    one = "pair" if waves.unit == "frequency pairs" else "component"
    return f"The slowest {one} distinguishes neighbours {slow} of the time, the fastest {fast}, guessing 50\u00a0%"


def requirement_row(session: Session, unfolded: gr.State) -> None:
    """Create and bind the row of panels, one per source, which is drawn while its fold is open."""

    def draw(opened: Sequence[Opened]) -> Panels:
        panels = tuple(requirement_panel(source, session) for source in opened)
        return Panels(
            panels,
            subheading="Five tests, each with a number. Below: how well slow or fast waves alone identify a position."
            if panels
            else "",
            columns=min(max(len(panels), 1), 4),
        )

    row = PanelRow((), scope=session.scope, swipe=True)
    session.redraw(draw, [row], within=unfolded)
