"""The positions of a learned table next to those of the sinusoid or an untrained table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hfposemb.errors import HfposembError
from hfposemb.figures import position_figures
from hfposemb.figures.palette import POSITION
from hfposemb.figures.style import number
from hfposemb.reports.position_findings import axes_caption
from hfposemb.text import one_line

from ..components.plot import Drawing, Panel, ScaleBar
from ..recipes import position_snippets
from ..session.opened import Opened
from ..session.shown_positions import FILES, Positions, positions_of, tables_of
from ..session.state import Session

LEARNED, SINUSOID, UNTRAINED = "Learned", "Sinusoid", "Untrained"


CLOUD_HELP = """
A position vector has many numbers. The picture shows the three directions in which the positions differ most (PCA), so
dots that are close in the picture mostly have similar vectors. Drag it to rotate it.

The model is not given the order of the positions: it learned a vector for each of them from text alone. The untrained
table has random vectors of the same size, drawn in the same way.
"""


def best(opened: Sequence[Opened], session: Session) -> tuple[Opened, Positions] | None:
    """Return the source for a first look: the one whose learned positions depend most on distance alone."""
    found = tables_of([_at_learned_part(source) for source in opened], 0, session)
    learned = {source: positions for source, positions in found.items() if _is_learned(source)}
    ranked = sorted((learned or found).items(), key=lambda item: -(item[1].facts.invariance or 0))
    return ranked[0] if ranked else None


def _is_learned(source: Opened) -> bool:
    """Return whether the shown positions of a source were trained."""
    return source.position.kind == "learned" and not source.text.startswith("random:")


def _at_learned_part(source: Opened) -> Opened:
    """Return a source at the first part whose positions were trained, such as the decoder of Whisper."""
    parts = {} if source.embeddings is None else source.embeddings.positions
    learned = next((part for part, encoding in parts.items() if encoding.kind == "learned"), None)
    return source if learned is None else replace(source, wanted=learned)


def picture_panel(opened: Sequence[Opened], kind: str, session: Session) -> Panel:
    """Draw learned, computed or untrained positions in 3-D, next to untrained ones of the same size."""
    empty = Panel(key="picture", title="Positions in 3-D", help=CLOUD_HELP)
    chosen = best(opened, session)
    if chosen is None:
        return replace(empty, message="None of the sources has position vectors. Choose one that does, such as GPT-2.")
    learned, positions = chosen
    rows, width = positions.table.shape
    try:
        random = _built_in("random", rows, width, session)
        large = {
            LEARNED: (learned.name, positions),
            SINUSOID: ("Sinusoid", _built_in("sinusoidal", rows, width + width % 2, session)),
            UNTRAINED: ("Untrained", random),
        }[kind if kind in (SINUSOID, UNTRAINED) else LEARNED]
        small = (learned.name, positions) if kind == UNTRAINED else ("Untrained", random)
        return _picture(empty, learned, large, small)
    except HfposembError as error:
        return replace(empty, message=one_line(str(error)))


def _built_in(name: str, rows: int, width: int, session: Session) -> Positions:
    text = f"{name}:{rows}x{width}"
    opened = Opened(text, "", "", "", session.library.open(text))
    found = positions_of(opened, 0, session)
    assert found is not None
    return found


def _picture(empty: Panel, learned: Opened, large: tuple[str, Positions], small: tuple[str, Positions]) -> Panel:
    (name, shown), (other, beside) = large, small
    rows = shown.table.shape[0]
    projection = shown.pca(3)
    named = sorted({0, *(rows * quarter // 4 for quarter in (1, 2, 3)), rows - 1} & set(projection.rows.tolist()))
    stack = "" if learned.part in ("", "position") else f", {learned.part}"
    origin = "trained" if _is_learned(learned) else "computed"
    about = {learned.name: f"{stack}, {origin}"}
    pictures = [
        Drawing(position_figures.projection(projection, named=named, height=440), f"{name}{about.get(name, '')}"),
        Drawing(position_figures.projection(beside.pca(3), height=250), "Untrained (random vectors)")
        if other == "Untrained"
        else Drawing(position_figures.projection(beside.pca(3), height=250), f"{other}{about.get(other, '')}"),
    ]
    return replace(
        empty,
        title=picture_title(name, shown, other, beside),
        subtitle="Each dot is a position, connected to the next. Close dots mostly have similar vectors.",
        drawings=tuple(pictures),
        scale_bars=(ScaleBar("position 0", f"{rows - 1:,}", POSITION.light),),
        foot=f"PCA of {_spoken(name)} · {axes_caption(projection)}",
        actions=FILES,
        recipe=position_snippets.projections([shown, beside], dims=3),
    )


def picture_title(name: str, shown: Positions, other: str, beside: Positions) -> str:
    """State how similar neighbouring positions are in both tables."""
    near, far = shown.facts.next, beside.facts.next
    if near is None or far is None:
        return f"The positions of {name}"
    return (
        f"Neighbouring positions have cosine {number(near, digits=2)} in {_spoken(name)}, "
        f"{number(far, digits=2)} in {_spoken(other)}"
    )


def _spoken(name: str) -> str:
    return {"Sinusoid": "the sinusoid", "Untrained": "an untrained table"}.get(name, name)
