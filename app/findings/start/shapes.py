"""The first look at all sources: the shape of their positions in three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hfposemb.analysis.projection.projecting import Projection
from hfposemb.errors import HfposembError
from hfposemb.figures import matrix_figures, position_figures
from hfposemb.figures.palette import POSITION
from hfposemb.reports.position_findings import Facts, alias_of, finding, sentence, shapes
from hfposemb.text import percent

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels, ScaleBar
from ...recipes.position_snippets import of_tables
from ...session.opened import Opened
from ...session.shown_positions import Positions, View, rows_of, tables_of
from ...session.state import Session
from ..positions.position_clouds import kernel_finding, kernel_panel, note

HEIGHT = 200
STRIPES, STRIPES_HEIGHT = 64, 170
ANGLES = "Angles of the rotation, not vectors that are added"
ABOUT = (
    "A model adds a vector for each position in the text. Here are all of them: each dot is a position, connected to "
    "the next; close dots mostly have similar vectors."
)


def is_learned(source: Opened) -> bool:
    """Return whether the shown positions of a source were trained."""
    return source.position.kind == "learned" and not source.text.startswith("random:")


def at_learned_part(source: Opened) -> Opened:
    """Return a source at the first part whose positions were trained, such as the decoder of Whisper."""
    parts = {} if source.embeddings is None else source.embeddings.positions
    learned = next((part for part, encoding in parts.items() if encoding.kind == "learned"), None)
    return source if learned is None else replace(source, wanted=learned)


def facts_of(opened: Sequence[Opened], session: Session) -> Mapping[Opened, Facts]:
    """Return the measurements of all sources that have a vector for each position."""
    found = tables_of([at_learned_part(source) for source in opened], 0, session)
    return {source: positions.facts for source, positions in found.items()}


def headline(facts: Mapping[Opened, Facts]) -> str:
    """State the shape of each source's positions."""
    learned = {source.name: one for source, one in facts.items() if is_learned(source)}
    computed = {source.name: one for source, one in facts.items() if not is_learned(source)}
    sinusoid = next((source.name for source in facts if source.position.kind == "sinusoidal"), None)
    return shapes(learned, computed, sinusoid)


def shape_panels(opened: Sequence[Opened], session: Session) -> Panels:
    """Draw the positions of every source in three dimensions, under a headline that names their shapes."""
    if not opened:
        message = "Add a model above, such as sample:gpt2."
        return Panels((Panel("empty", "No model selected", message=message),))
    opened = [at_learned_part(source) for source in opened]
    return Panels(
        tuple(shape_panel(source, session) for source in opened),
        heading=headline(facts_of(opened, session)),
        subheading=ABOUT,
        scale_bars=(ScaleBar("first position", "last", POSITION.light),),
        columns=min(len(opened), 4),
    )


def shape_panel(source: Opened, session: Session) -> Panel:
    """Draw the positions of one source, or state in its panel why there is no picture."""
    empty = Panel(f"shape {source.text}", "", source=(source.name, ""), color=source.color, help=HELP["shape"])
    if source.embeddings is None:
        return replace(empty, message=source.error, tone="error")
    try:
        if not source.embeddings.positions:
            reason = source.embeddings.absent.get("position", "no position table was found")
            return replace(empty, message=f"No positions to draw: {reason}.")
        positions, encoding = rows_of(source, 0, session), source.position
        if positions is None:
            panel = kernel_panel(empty, source, encoding, View())
            return replace(panel, drawings=panel.drawings[:1], scale_bars=())
        empty = replace(empty, source=(source.name, note(source, encoding, positions)))
        if positions.table.finite.sum() < 2 or positions.drawn(3) < 2:
            return replace(empty, message="A picture needs at least two finite rows of two numbers.")
        return _cloud(empty, positions)
    except HfposembError as error:
        return replace(empty, message=sentence(error), tone="error")


def _cloud(empty: Panel, positions: Positions) -> Panel:
    projection, rows = positions.picture(3), positions.table.shape[0]
    ends = sorted({0, rows - 1} & set(projection.rows.tolist()))
    figure = position_figures.projection(projection, named=ends, height=HEIGHT)
    figure.layout.meta = {**(figure.layout.meta or {}), "unrolls": True}
    encoding = positions.encoding
    stripes = matrix_figures.table_image(positions.table.vectors[:STRIPES, :STRIPES], height=STRIPES_HEIGHT)
    return replace(
        empty,
        title=finding(positions.facts) if encoding is None else kernel_finding(encoding),
        drawings=(Drawing(figure), Drawing(stripes)),
        foot=ANGLES if positions.turning else _shown_by(projection, alias_of(positions.facts)),
        recipe=of_tables(
            [positions], f"[hpe.project(table, dims=3).coordinates, table.vectors[:{STRIPES}, :{STRIPES}]]"
        ),
    )


def _shown_by(projection: Projection, more: str) -> str:
    ratio = projection.explained_variance_ratio
    assert ratio is not None  # of a PCA
    return f"{len(ratio)} axes: {percent(float(sum(ratio)))} of the variance{more and ' · '}{more}"
