"""The report's section of positions: a picture of every source, and the lines of all sources together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import spectrum
from ..analysis.projection.projecting import project
from ..comparison.table_side import rows_of
from ..errors import HfposembError
from ..figures import line_figures, position_figures, style
from ..figures.named_figures import is_mechanism, mean_cosine_by_distance, positive_norms
from ..figures.palette import POSITION, SIMILARITY
from ..figures.style import listed
from ..tables.embeddings import stack
from ..tables.encodings import PositionEncoding
from ..tables.table import EmbeddingTable
from . import html_tables
from .panel_packing import Panel, scale_bar
from .position_findings import axes_caption
from .report_page import Page
from .source_drawings import NO_CLOUD, cosine_matrix, map_foot, mechanism, no_rows

POSITIONS = 2_000
"""Maximum number of positions drawn of a table."""


DEEP = 3
"""Maximum number of sources drawn in three dimensions: a browser has about 16 WebGL contexts, and a map takes three."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of positions that are drawn of a source, and the source's index."""

    place: int
    name: str
    table: EmbeddingTable
    whole: int

    def series(self, values: NDArray[Any], **more: Any) -> style.Series:
        """Return numbers as a line in the source's colour and dash."""
        return style.Series(self.name, values.astype(np.float32), *style.source_style(self.place), **more)


def add_positions(page: Page) -> None:
    """Draw every source's positions, and all of them together."""
    having, panels = [], []
    deep = len(page.sources) <= DEEP
    for place, source in enumerate(page.sources):
        try:
            encoding = source.position
            if is_mechanism(encoding):
                panels.append(_mechanism(page, place, encoding))
                continue
            rows = _drawn_rows(page, place, encoding.table)
            panels.append(_cloud(page, rows, dims=min(3 if deep else 2, rows.table.shape[1])))
            having.append(rows)
        except HfposembError as error:
            panels.append(page.absent(place, str(error)))
    about = "Hover over or tap a position to mark it in all plots."
    parts = {stack(source) for source in page.sources if source.positions}
    bars = [scale_bar("position 0", "last", POSITION.light), scale_bar("cosine −1", "+1", SIMILARITY.light)]
    body = page.row(panels, columns={4: 2}.get(len(panels), min(len(panels), 3)), scale_bars=bars)
    heading = rows_of("position", (parts.pop(), "")).capitalize() if len(parts) == 1 else "Positions"
    page.add(heading, about, body + page.row(_lines(page, having), columns=min(3, len(having) * 3)))


def _drawn_rows(page: Page, place: int, table: EmbeddingTable) -> _Rows:
    """Return the rows that are drawn of a table."""
    whole = table.shape[0]
    if whole > POSITIONS:
        table = table.part(0, POSITIONS)
    return _Rows(place, page.names[place], table, whole)


def _cloud(page: Page, rows: _Rows, *, dims: int) -> Panel:
    """Draw positions as a cloud above the matrix of their cosines."""
    count = rows.table.shape[0]
    foot, drawings = "PCA", []
    if dims > 1 and rows.table.finite.sum() > 1:
        found = project(rows.table, method="pca", dims=dims)
        drawings.append((position_figures.projection(found), axes_caption(found)))
        foot = map_foot(found, rows.table.shape[1])
    matrix, blocks = cosine_matrix(rows.table)
    drawings.append(matrix)
    kind = rows_of("position", (stack(page.sources[rows.place]), ""))
    about = f"{count:,} of {rows.whole:,} {kind}" if count < rows.whole else f"{count:,} {kind}"
    shown = " · ".join(filter(None, (foot, blocks)))
    return page.panel(f"positions-{rows.place}", "", *drawings, foot=shown, **page.owner(rows.place, about))


def _mechanism(page: Page, place: int, encoding: PositionEncoding) -> Panel:
    """Draw the effect of distance in a mechanism without rows, in its own unit."""
    if encoding.unit == "none":
        return page.absent(place, no_rows(encoding))
    *drawings, foot = mechanism(encoding, page.names[place], place)
    about = f"{encoding.kind} {rows_of('position', (stack(page.sources[place]), ''))}"
    return page.panel(f"positions-{place}", NO_CLOUD, *drawings, foot=foot, **page.owner(place, about))


def _lines(page: Page, having: Sequence[_Rows]) -> list[Panel]:
    """Draw similarity by distance, norms and explained variance of all sources, one plot each."""
    distances, norms, shares = [], [], []
    for rows in having:
        try:
            distances.append(rows.series(mean_cosine_by_distance(rows.table)))
            norms.append(rows.series(positive_norms(rows.table)))
            held = spectrum(rows.table).cumulative
            shares.append(rows.series(held, marks=(min(3, len(held)) - 1,)))
        except HfposembError:
            continue  # the notes of its metrics give the reason
    panels = []
    if distances:
        said = _said(page, "mean cosine at distance 1")
        figure = line_figures.similarity_by_distance(distances)
        foot = "Mean cosine by distance, up to half of each table"
        panels.append(page.panel("distance", f"Cosine of neighbouring positions: {said}", (figure, ""), foot=foot))
    if norms:
        said = _said(page, "mean norm")
        figure = line_figures.norms_by_position(norms)
        panels.append(page.panel("norms", f"Mean norm: {said}", (figure, ""), foot="Norm, log scale"))
    if shares:
        said = _said(page, "variance of 3 components", " %")
        figure = line_figures.explained_variance(shares)
        foot = "PCA of the centred table"
        panels.append(
            page.panel("variance", f"Variance explained by three components: {said}", (figure, ""), foot=foot)
        )
    return panels


def _said(page: Page, metric: str, unit: str = "") -> str:
    """Return a metric of every source that has it as text."""
    parts = []
    for name, source in zip(page.names, page.comparison.sources, strict=True):
        found = source.metrics[metric]
        if found.value is not None:
            parts.append(f"{html_tables.figure(found.value, found.unit)}{unit} in {name}")
    return listed(parts) if parts else "unknown"
