"""The map of a source's whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np

from hfposemb.analysis.projection.map_regions import named_regions
from hfposemb.analysis.projection.quality import WRONG, PointTrust, Quality, point_trust
from hfposemb.analysis.rows import norms
from hfposemb.errors import HfposembError
from hfposemb.figures import style, token_figures
from hfposemb.figures.map_names import region_name
from hfposemb.figures.palette import POSITION, SHARE
from hfposemb.figures.style import listed
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import number, one_line, percent, sentence_case, small_percent

from ... import limits
from ...components.help_texts import HELP
from ...components.plot import Drawing, LegendItem, Panel, ScaleBar
from ...jobs import measuring
from ...jobs.first_pictures import is_draft
from ...recipes import token_snippets
from ...session.background_jobs import BackgroundJob, Request
from ...session.opened import Opened
from ...session.state import Session
from ..chosen_word import Word, empty_panel, row_of, shown, source_of, why_no_tokens
from .token_neighbours import neighbours_of

if TYPE_CHECKING:
    from hfposemb.analysis.projection.map_regions import Region
    from hfposemb.analysis.projection.projecting import Projection


MAP_HEIGHT = 580
METHODS = ("PCA", "UMAP")
AUTOMATIC = ""
"""The projection that nobody has chosen: see ``automatic``."""

LEAST_ROWS = 200
"""Rows of a table from which UMAP is computed without being asked; fewer are seen well enough by PCA."""

MEASURED = 2_000  # tokens whose trust is measured when the map is coloured by it


def map_panels(
    session: Session,
    source: Opened | None,
    projection: Projection,
    color: str,
    word: Word,
    *,
    centred: bool = False,
) -> tuple[Panel, ...]:
    """Return the panel with the whole vocabulary of one source."""
    assert source is not None
    table = source.tokens
    labels, rows = table.labels, projection.rows
    row = row_of(table, word, source.text)
    near: list[int] = []
    if row is not None and np.isin(row, rows):
        try:
            near = [
                int(other) for other in neighbours_of(session, table, row, centred=centred).rows if np.isin(other, rows)
            ]
        except HfposembError:
            near = []  # the list of neighbours shows the reason
    else:
        row = None
    if color == "Trust":
        found = measured(session, table, projection)
        projection = replace(projection, trust=found, quality=found.quality)
    kept = kept_here(session, table, projection, row) if projection.measured else []
    values: Any = {"Class": "class", "Id": "id", "Trust": "trust"}.get(color)
    paint = norms(table) if values is None else values
    regions = regions_of(session, table, projection)
    figure = token_figures.token_map(
        projection, labels, color=paint, selected=row, neighbours=near, regions=regions, height=MAP_HEIGHT
    )
    legend: tuple[LegendItem, ...] = ()
    bars: tuple[ScaleBar, ...] = ()
    if color == "Class":
        counts = token_figures.class_counts(labels, rows=rows) if table.has_names else {}
        legend = tuple(
            LegendItem(name, style.CLASS_COLOURS[name], f"{count:,}", pick=True) for name, count in counts.items()
        )
    elif color == "Id":
        bars = (ScaleBar("id 0", f"{table.shape[0] - 1:,}", POSITION.light),)
    else:
        marker = next(trace.marker for trace in figure.data if trace.marker.cmin is not None)
        digits, what = (2, "norm") if color == "Norm" else (1, "of its 10 nearest, nearby")
        low, high = (number(end if color == "Norm" else 10 * end, digits=digits) for end in (marker.cmin, marker.cmax))
        bars = (ScaleBar(low, high, SHARE.light, what),)
    return (
        Panel(
            "map",
            trust_title(source, projection) if color == "Trust" else _map_title(source, projection, regions),
            (Drawing(figure),),
            subtitle=" ".join([_map_subtitle(source, projection), *kept]),
            tools=("Lasso", "Box"),
            emphasis=shown(labels[row]) if row is not None else "",
            legend=legend,
            scale_bars=bars,
            help="\n\n".join([HELP["tokens"], _map_help(projection, table)]),
            foot=_map_foot(projection) + ("" if table.has_names else " · rows are numbered: no file states the tokens"),
            recipe=token_snippets.token_map(source, method=projection.method, dims=projection.dims, values=color),
        ),
    )


@dataclass(frozen=True)
class MapControls:
    """The values of the map's controls: source, projection, "2-D" or "3-D", colour, word, and centring.

    The projection is "PCA", "UMAP", or ``AUTOMATIC``: UMAP where it is known, or may be computed without being asked.
    """

    which: str | None
    method: str
    dims: str
    color: str
    word: Word
    centred: bool = False


def asked_map(
    session: Session, opened: Sequence[Opened], controls: MapControls, done: dict[str, Any] | None = None
) -> list[Any]:
    """Return updates of the chosen projection, the map, the work needed first, the colour, and the projection's field.

    While UMAP is computed, PCA is drawn, and then the layouts on the way to UMAP's.
    """
    source, kept = source_of(opened, controls.which), gr.skip()
    if source is None:
        reasons = " ".join(why_no_tokens(one) for one in opened) or "Choose a source above, such as sample:bert."
        return [kept, empty_panel("map", "None of the sources has tokens", reasons), [], kept, kept]
    table, size = source.tokens, int(controls.dims[0])
    method = controls.method if controls.method in METHODS else automatic(session, table, size)
    asked, color, back, paint = method, controls.color, kept, kept
    draft = None
    try:
        wanted = _before_map(session, source, table, method, size, color)
        if BackgroundJob.failed(done, wanted):
            kind = wanted[0][3] if len(wanted[0]) > 3 else "UMAP"
            if kind == "PCA":
                message = "PCA of this table was stopped. Change a control, such as the colour, to start it again."
                panels = empty_panel("map", f"No map of {source.name}", message)
                return [kept, panels, [], kept, gr.update(value=method)]
            if kind == "Trust":
                color, paint = "Class", gr.update(value="Class")
            else:
                method = asked = back = "PCA"
            wanted = []
        elif wanted:
            method, color = "PCA", "Class" if color == "Trust" else color
            draft = session.jobs.draft(table, size) if len(wanted[0]) == 3 else None
            if draft is None and (len(wanted[0]) > 3 or _before_map(session, source, table, method, size, color)):
                return [kept, kept, wanted, kept, gr.update(value=asked)]  # the last picture stays
        projection = draft or session.projection(table, method.lower(), size)
        assert projection is not None
        panels = map_panels(session, source, projection, color, controls.word, centred=controls.centred)
    except HfposembError as error:
        wanted = []
        panels = (Panel("map", f"{source.name} cannot be drawn", message=one_line(str(error)), tone="error"),)
    return [back, panels, wanted, paint, gr.update(value=asked)]


def automatic(session: Session, table: EmbeddingTable, dims: int) -> str:
    """Return the projection of a map for which none was chosen."""
    rows, width = table.shape
    if session.projection(table, "umap", dims) is not None:
        return "UMAP"
    small = rows >= LEAST_ROWS and rows * width <= limits.UMAP_UNASKED
    return "UMAP" if small and not session.public and find_spec("umap") is not None else "PCA"


def _before_map(
    session: Session, source: Opened, table: EmbeddingTable, method: str, dims: int, color: str
) -> list[list[Any]]:
    """Return the work to do before the map can be drawn, for ``map_request``; empty if there is none."""
    rows, width = table.shape
    if method == "UMAP" and session.projection(table, "umap", dims) is None:
        return [[source.text, source.words, dims]]
    heavy = rows * width * min(rows, width) > limits.PCA_FLOPS
    if method == "PCA" and heavy and session.library.results.get(_pca_key(session, table, dims)) is None:
        return [[source.text, source.words, dims, "PCA"]]
    costly = min(MEASURED, rows) * rows * width > limits.QUICK_FLOPS
    key = session.library.result_key(table, trust_key(method.lower(), dims))
    if color == "Trust" and costly and session.library.results.get(key) is None:
        return [[source.text, source.words, dims, "Trust", method.lower()]]
    return []


def _pca_key(session: Session, table: EmbeddingTable, dims: int) -> Any:
    return session.library.result_key(table, ("pca", dims))


def map_request(session: Session, one: Sequence[Any]) -> Request:
    """Return the work of ``_before_map``: UMAP for ``[source, role, dims]``, else the fourth item names it."""
    text, role, dims, *more = one
    if not more:
        return session.jobs.layout(one)
    table = session.table(text, role)
    if more[0] == "PCA":
        return Request(_pca_key(session, table, dims), measuring.pca, (text, role, dims))
    projection = session.projection(table, more[1], dims)
    if projection is None:
        raise HfposembError(f"the map of {session.open([text])[0].name} has gone; draw it again")
    drawn = measuring.DrawnRows(projection.coordinates, projection.rows, metric_of(projection))
    key = session.library.result_key(table, trust_key(more[1], dims))
    return Request(key, measuring.trust, (text, role, drawn, MEASURED))


def regions_of(session: Session, table: EmbeddingTable, projection: Projection) -> tuple[Region, ...]:
    """Return the named regions of a map by UMAP in two dimensions, found once for all visitors."""
    if projection.method != "umap" or projection.dims != 2 or is_draft(projection):
        return ()
    return session.library.result(table, ("regions", projection.method), lambda: named_regions(projection, table))


def _map_title(source: Opened, projection: Projection, regions: Sequence[Region]) -> str:
    if projection.explained_variance_ratio is not None:
        share = float(projection.explained_variance_ratio.sum())
        rest = ". For neighbourhoods, use UMAP" if share < 0.5 else ""
        return f"PCA shows {percent(share)} of the variance of {_owned(source)}{rest}"
    if is_draft(projection):
        return f"UMAP of {_owned(source)}, not finished yet"
    islands = [region_name(region) for region in regions if region.kind]
    if not islands:
        return f"UMAP of {_owned(source)}"
    return f"{sentence_case(listed(islands))} form islands in {source.vocabulary}"


def _owned(source: Opened) -> str:
    return f"{source.name}’s tokens" if source.words == "token" else source.vocabulary


def _map_subtitle(source: Opened, projection: Projection) -> str:
    count = f"All {len(projection.rows):,} tokens of {source.vocabulary}"
    if projection.left_out:
        count = (
            f"{len(projection.rows):,} of {len(projection.rows) + projection.left_out:,} tokens of {source.vocabulary}"
        )
    return f"{count}. Click a dot."


def measured(session: Session, table: EmbeddingTable, projection: Projection) -> PointTrust:
    """Measure more points of a map than its own sample has, once for all visitors."""
    key = trust_key(projection.method, projection.dims)
    return session.library.result(table, key, lambda: _trust(table, projection, MEASURED))


def trust_key(method: str, dims: int) -> tuple[Any, ...]:
    """Return the key of a map's trust among the results of its table."""
    return ("trust", method, dims)


def quality_of(session: Session, table: EmbeddingTable, projection: Projection) -> Quality:
    """Return the quality of a projection, measured if necessary."""
    if projection.measured:
        return projection.quality
    key = ("quality", projection.method, projection.dims)
    return session.library.result(table, key, lambda: _trust(table, projection, None).quality)


def metric_of(projection: Projection) -> Any:
    """Return the metric by which a projection is evaluated: Euclidean for PCA, its own parameter for UMAP."""
    return projection.parameters.get("metric", "euclidean")


def _trust(table: EmbeddingTable, projection: Projection, points: int | list[int] | None) -> PointTrust:
    metric = metric_of(projection)
    return point_trust(table, projection.coordinates, rows=projection.rows, metric=metric, points=points)


def trust_title(source: Opened, projection: Projection) -> str:
    """State how many of the measured tokens are misplaced."""
    found = projection.trust
    assert found is not None
    wrong, of = int(found.wrong.sum()), len(found.points)
    least = math.ceil(WRONG * found.k)
    drawn = "tokens" if of == len(projection.rows) else "tokens measured"
    lie = f"{wrong:,} are misplaced: fewer than {least} of their {found.k} nearest neighbours are near them"
    return f"Of {of:,} {drawn} of {source.vocabulary}, {lie}"


def kept_here(session: Session, table: EmbeddingTable, projection: Projection, row: int | None) -> list[str]:
    """State how many of the chosen word's nearest neighbours are near it on the map."""
    if row is None:
        return []
    place = int(np.searchsorted(projection.rows, row))
    key = ("trust at", projection.method, projection.dims, place)
    found = session.library.result(table, key, lambda: _trust(table, projection, [place]))
    count = int(found.counts[0])
    many = f"{count:,}" if count else "None"
    return [
        f"{many} of {shown(table.labels[row])}’s {found.k} nearest neighbours {'is' if count == 1 else 'are'} close."
    ]


def _map_foot(projection: Projection) -> str:
    """State how many neighbours the map keeps, and which rows it leaves out."""
    left_out = f" · {projection.left_out:,} rows left out" if projection.left_out else ""
    method = projection.method.upper()
    if is_draft(projection):
        return f"{method} of all tokens, being computed{left_out}"
    if not projection.measured:
        return f"{method} of all tokens; colour by trust to measure it{left_out}"
    quality = projection.quality
    chance = small_percent(quality.kept_by_chance)
    return f"{method} keeps {small_percent(quality.neighbours_kept)} of the neighbours (chance: {chance}){left_out}"


def _map_help(projection: Projection, table: EmbeddingTable) -> str:
    """Describe how the map was made and how faithful it is, for its help."""
    said = [f"PCA: {projection.dims} of {table.shape[1]:,} directions."]
    if projection.method == "umap":
        settings = f"{projection.parameters['n_neighbors']} neighbours, {projection.parameters['metric']}"
        if "vectors" in projection.parameters:
            settings = f"{settings}, vectors {projection.parameters['vectors']}"
        said = [f"UMAP: {settings}, seed {projection.seed}."]
    if projection.left_out:
        said.append(f"Rows left out: {projection.left_out:,} with NaN or Inf, or zero.")
    if projection.measured:
        quality = projection.quality
        trusted, whole = (number(value, digits=2) for value in (quality.trustworthiness, quality.continuity))
        measured = f", measured on {quality.points:,} tokens" if quality.points < quality.rows else ""
        said.append(
            f"Of each token’s {quality.k} nearest neighbours in the table, {small_percent(quality.neighbours_kept)} "
            f"are among its {quality.k} nearest on the map; trust {trusted}, continuity {whole}, by chance "
            f"{number(quality.trust_by_chance, digits=2)}{measured}. Trust is 1 unless the map brings together what is "
            "apart in the table, continuity is 1 unless it separates what is close (Venna & Kaski 2001, 2006)."
        )
    return " ".join(said)
