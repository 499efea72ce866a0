"""One panel per source: the point cloud of its positions above the matrix of their similarities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.figures import line_figures, matrix_figures, position_figures
from hfposemb.figures.palette import POSITION, SIMILARITY
from hfposemb.figures.style import Series
from hfposemb.reports.position_findings import alias_of, axes_caption, finding, heading, nearest, sentence
from hfposemb.tables.encodings import PositionEncoding
from hfposemb.tables.rotary import Rotary
from hfposemb.text import number, one_line, percent, sentence_case

from ...components.help_texts import HELP
from ...components.plot import Drawing, Panel, Panels, ScaleBar
from ...recipes.position_snippets import cloud, distances
from ...recipes.writing import position, recipe
from ...session.opened import Opened
from ...session.shown_positions import (
    GROUP,
    KERNEL,
    NEIGHBOURS,
    Positions,
    View,
    drawn_length,
    rows_of,
    scale_end,
    shown_part,
    tables_of,
)
from ...session.state import Session

if TYPE_CHECKING:
    import plotly.graph_objects as go

CLOUD_HEIGHT, MATRIX_HEIGHT = 220, 255
HALF = 0.5  # threshold of the rotary kernel


def clouds(opened: Sequence[Opened], view: View, session: Session) -> Panels:
    """Draw one panel per source: its point cloud above its matrix."""
    facts = {source.name: positions.facts for source, positions in tables_of(opened, view.length, session).items()}
    units = units_of(opened)
    kernel, alone = "expected rotary kernel" in units, units <= {"cosine"}
    return Panels(
        tuple(source_panel(source, view, session) for source in opened),
        heading=heading(facts) if opened else "Choose two sources to compare their positions",
        subheading=(
            "Top: every position as a dot, connected in order. Bottom: "
            + (
                "the cosine of every pair of positions."
                if alone
                else "every pair of positions, in each encoding's unit."
            )
        )
        if opened
        else "For example: BERT, GPT-2 and the sinusoid.",
        scale_bars=(
            ScaleBar("first position", "last", POSITION.light),
            ScaleBar("cosine or kernel −1" if kernel else "cosine −1", "+1", SIMILARITY.light),
        ),
        marked={GROUP: view.marked},
        columns=min(max(len(opened), 1), 4),
    )


def units_of(opened: Sequence[Opened]) -> set[str]:
    """Return the units of the sources' encodings, except "none"."""
    units: set[str] = {encoding.unit for source in opened if (encoding := source.encoding) is not None}
    return units - {"none"}


def source_panel(source: Opened, view: View, session: Session) -> Panel:
    """Draw one source, or state in its panel why it cannot be drawn."""
    empty = Panel(key=source.text, title="", source=(source.name, ""), color=source.color)
    if source.embeddings is None:
        return replace(empty, message=source.error, tone="error")
    try:
        if not source.embeddings.positions:
            reason = source.embeddings.absent.get("position", "no position table was found")
            said = f"No positions to draw: {reason}. See its words in Tokens."
            return replace(empty, message=one_line(said))
        positions, encoding = rows_of(source, view.length, session), source.position
        if positions is None:
            return kernel_panel(replace(empty, source=(source.name, shown_part(source))), source, encoding, view)
        return cloud_panel(replace(empty, source=(source.name, note(source, encoding, positions))), positions, view)
    except hpe.HfposembError as error:
        return replace(empty, message=sentence(error), tone="error")


def note(source: Opened, encoding: PositionEncoding, positions: Positions) -> str:
    """Return the note next to the source's name, such as "256 learned positions"."""
    kind = "learned" if encoding.kind == "learned" and not source.text.startswith("random:") else "computed"
    kind = "rotary" if positions.turning else kind
    whole = encoding.length if isinstance(encoding, Rotary) else positions.whole.shape[0]
    count = positions.length
    said = f"{count:,} of {whole:,} {kind} positions" if count < whole else f"{whole:,} {kind} positions"
    if whole == 1:
        said = said.removesuffix("s")
    return " · ".join(filter(None, [said, shown_part(source)]))


def cloud_panel(empty: Panel, positions: Positions, view: View) -> Panel:
    """Draw the cloud above the matrix, or state what is missing for either."""
    table, encoding = positions.table, positions.encoding
    title = finding(positions.facts) if encoding is None else kernel_finding(encoding)
    if table.finite.sum() < 2:
        found = f"found {table.finite.sum()} in {table.shape[0]:,}"
        return replace(empty, title=title, message=f"A picture needs at least two finite rows; {found}.")
    drawings, foot, message, code = [], "", "", None
    told = HELP["positions"] if encoding is None else HELP["rotary kernel"]
    try:
        projection = (positions.umap(view.dims) if view.method == "umap" else None) or positions.pca(view.dims)
        drawings.append(
            Drawing(position_figures.projection(projection, trust=True, height=CLOUD_HEIGHT), axes_caption(projection))
        )
        foot = " · ".join(filter(None, [quality_foot(projection, positions), alias_of(positions.facts)]))
        told = f"{told}\n\n{quality_help(projection, positions)}"
        code = cloud(positions, method=projection.method, dims=projection.dims)
        if view.method == "umap" and projection.method != "umap":
            why = "UMAP needs vectors" if positions.turning else f"UMAP needs more than {NEIGHBOURS} positions"
            foot = f"{why}. {foot}"
    except hpe.HfposembError as error:
        message = sentence(error)
    if positions.drawn(view.dims) < 2:
        message = "A table with one dimension has no cloud; the dimension is drawn below."
    if encoding is None:
        drawings.append(Drawing(_low(matrix_figures.similarity_matrix(positions.cosines)), nearest(table, view.marked)))
    else:
        drawings.append(matrix_drawing(encoding, positions.length))
    return replace(
        empty,
        title=title,
        recipe=code or cloud(positions, method="pca", dims=1),
        drawings=tuple(drawings),
        help=told,
        foot=foot,
        message=message,
        selects=True,
        emphasis=f"Position {view.marked:,}",
    )


def quality_foot(projection: hpe.Projection, positions: Positions) -> str:
    """State how many neighbours a picture keeps, and which rows it leaves out."""
    quality, method = projection.quality, projection.method.upper()
    said = [
        f"{method} keeps {percent(quality.neighbours_kept)} of each point’s neighbours "
        f"(chance: {percent(quality.kept_by_chance)})"
    ]
    if projection.left_out:
        finite = int((~positions.table.finite).sum())
        why = "with NaN or Inf" if finite == projection.left_out else "zero, NaN or Inf"
        said.append(f"{projection.left_out:,} {'row' if projection.left_out == 1 else 'rows'} {why} left out")
    return " · ".join(said)


def quality_help(projection: hpe.Projection, positions: Positions) -> str:
    """Describe how a picture was made, its quality, and its misplaced points, for the help of its panel."""
    quality, rows = projection.quality, positions.whole.shape[0]
    pca = f"PCA of {positions.whole.shape[1]:,} dimensions"
    made = pca if projection.method == "pca" else f"UMAP with seed {projection.seed}"
    if projection.method == "umap" and len(projection.rows) + projection.left_out < rows:
        made += f", laid out with all {rows:,} positions"
    trusted, whole, chance = (
        number(value, digits=2) for value in (quality.trustworthiness, quality.continuity, quality.trust_by_chance)
    )
    said = f"This picture: {made}; trust {trusted}, continuity {whole}, by chance {chance}."
    return f"{said}{hollow(projection)}"


def hollow(projection: hpe.Projection) -> str:
    """State how many points are drawn hollow, out of how many measured."""
    found = projection.trust
    if found is None or not (wrong := int(found.wrong.sum())):
        return ""
    of = f"{len(found.points):,}" + (" measured" if len(found.points) < len(projection.rows) else "")
    return f" {wrong:,} of {of} dots {'is' if wrong == 1 else 'are'} hollow."


def matrix_drawing(encoding: PositionEncoding, length: int) -> Drawing:
    """Draw a mechanism's matrix in its own unit."""
    matrix, unit = encoding.matrix(length).astype(np.float32), encoding.unit
    assert unit != "none"
    return Drawing(_low(matrix_figures.similarity_matrix(matrix, unit=unit)), f"{unit} of every pair of positions")


def _low(matrix: go.Figure) -> go.Figure:
    """Return a matrix with a height of its own, or it would be as high as the panel is wide."""
    return matrix.update_layout(height=MATRIX_HEIGHT)


def kernel_finding(encoding: PositionEncoding) -> str:
    """State how fast the kernel of a rotary encoding falls."""
    return f"Its kernel falls below .5 {half_at(encoding)}"


def half_at(encoding: PositionEncoding) -> str:
    """State the first distance at which a kernel is below one half."""
    below = np.flatnonzero(encoding.profile(np.arange(KERNEL)) < HALF)
    return f"at distance {below[0]:,}" if len(below) else f"not within distance {KERNEL - 1:,}"


def kernel_panel(empty: Panel, source: Opened, encoding: PositionEncoding, view: View) -> Panel:
    """Draw a mechanism without rows by distance, in its own unit, and state why there is no cloud."""
    unit = encoding.unit
    if unit == "none":
        reason = one_line(getattr(encoding, "reason", f"{encoding.kind} positions have no rows"))
        return replace(empty, message=sentence_case(reason))
    length = drawn_length(encoding, view.length)
    name, part = empty.source or ("", "")
    profile = by_distance(Series(name, np.empty(0), empty.color, "solid"), encoding, length)
    why = {
        "alibi": "ALiBi subtracts a penalty that grows with distance: no vectors, so no cloud",
        "relative-table": "Its vectors encode distances, not positions: no cloud",
    }.get(encoding.kind, "It has a number for each distance: no vectors, so no cloud")
    matrix = matrix_drawing(encoding, length)
    low, high = matrix.figure.data[0].zmin, matrix.figure.data[0].zmax
    return replace(
        empty,
        source=(name, " · ".join(filter(None, [f"{encoding.kind} positions", part]))),
        title=why,
        drawings=(
            Drawing(
                line_figures.similarity_by_distance([profile], unit=unit, height=CLOUD_HEIGHT), f"{unit} by distance"
            ),
            matrix,
        ),
        help=HELP["bias"] if unit == "additive bias" else "",
        foot=f"First {length:,} positions · {unit}",
        recipe=recipe("mechanism", [source], position=position(source), distances=distances(profile.x), length=length),
        scale_bars=(ScaleBar(scale_end(low), scale_end(high), SIMILARITY.light),),
    )


def series_of(source: Opened, values: NDArray[Any], **more: Any) -> Series:
    """Return values as a line with the source's name, colour and dash style."""
    return Series(source.name, values.astype(np.float32), source.color, source.dash, **more)


def by_distance(series: Series, encoding: PositionEncoding, length: int) -> Series:
    """Return a mechanism's values by distance: both directions if they differ, backwards only if it is causal."""
    ahead = np.arange(length)
    behind = encoding.profile(-ahead)
    if not getattr(encoding, "bidirectional", True):
        at, values = -ahead[::-1], behind[::-1]
    elif np.allclose(behind, forth := encoding.profile(ahead), equal_nan=True):
        at, values = ahead, behind
    else:
        at, values = np.concatenate([-ahead[:0:-1], ahead]), np.concatenate([behind[:0:-1], forth])
    return replace(series, values=values.astype(np.float32), at=at.astype(np.float32))
