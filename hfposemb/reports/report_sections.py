"""The report's page and its sections: positions, every two sources side by side, words, and provenance."""

from __future__ import annotations

import base64
import html
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..analysis.geometry import spectrum
from ..analysis.nulls.surrogates import DRAWS
from ..analysis.projection.cached_results import library_version
from ..analysis.projection.projecting import project
from ..comparison.aligned_maps import AlignedMaps, align_maps
from ..comparison.results import Comparison
from ..comparison.table_side import rows_of
from ..errors import HfposembError
from ..figures import line_figures, position_figures, style, token_figures
from ..figures.assets import BUNDLE, script
from ..figures.figure_packing import Packer
from ..figures.named_figures import is_mechanism, mean_cosine_by_distance, positive_norms
from ..figures.palette import POSITION, SIMILARITY, dark_map
from ..figures.position_figures import beside
from ..figures.style import listed
from ..tables.embeddings import Embeddings, stack
from ..tables.encodings import PositionEncoding
from ..tables.source_names import short_names
from ..tables.table import EmbeddingTable
from ..text import display, percent
from . import html_tables
from .html_page import about, document, page_style
from .position_findings import axes_caption
from .source_drawings import (
    NO_CLOUD,
    Panel,
    class_legend,
    cosine_matrix,
    map_foot,
    mechanism,
    no_rows,
    owner,
    packed_panel,
    row_of,
    sampled,
    scale_bar,
)

SEED = 0
"""Random seed of what the page samples."""


def names_of(sources: Sequence[Embeddings]) -> list[str]:
    """Return the display names of sources, as the app shows them."""
    return short_names([source.name for source in sources])


@dataclass(eq=False)
class Page:
    """A page under construction: sections of HTML, and the rows of panels that the script draws into them.

    Attributes:
        sources: The sources.
        comparison: Their comparison.
        sections: The sections so far.
        views: The rows of panels so far.
        names: Display names of the sources.
        named: Display name of each source by its own.
    """

    sources: tuple[Embeddings, ...]
    comparison: Comparison
    sections: list[str] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.packer = Packer(lambda content, name: {"data": base64.b64encode(content).decode()})
        self.names = names_of(self.sources)
        self.named = dict(zip((source.name for source in self.sources), self.names, strict=True))

    def add(self, heading: str, lead: str, body: str) -> None:
        """Add a section, unless it is empty."""
        if body:
            said = f'<p class="lead">{html.escape(lead)}</p>' if lead else ""
            self.sections.append(f"<section><h2>{html.escape(heading)}</h2>{said}{body}</section>")

    def row(self, panels: Sequence[Panel], *, columns: int = 0, **more: Any) -> str:
        """Store a row of panels for the script, and return its placeholder."""
        if not panels:
            return ""
        number = len(self.views)
        self.views.append(row_of(panels, columns=columns, **more))
        return f'<div class="rows" data-view="{number}"><hfposemb-row></hfposemb-row></div>'

    def panel(self, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
        """Return a panel in the format of the page's script; ``drawings`` are figures with their captions."""
        return packed_panel(self.packer, key, title, *drawings, **words)

    def absent(self, place: int, why: str) -> Panel:
        """Return a panel that states why there is nothing to draw."""
        said = display(why, width=400)
        return self.panel(f"positions-{place}", "No positions to draw", message=said, **self.owner(place))

    def owner(self, place: int, about: str = "") -> dict[str, Any]:
        """Return the properties of a panel that identify its source."""
        return owner(self.names[place], place, about)

    def html(self, title: str, written: str) -> str:
        """Return the page."""
        views = {"files": self.packer.listed, "rows": self.views, "dark": dark_map()}
        return document(
            title=html.escape(display(title, width=300)),
            header=about(display(written, width=120)),
            body="\n".join(self.sections),
            data=views,
            script=script(BUNDLE / "report.js"),
            style=page_style(),
        )


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
            whole = encoding.table.shape[0]
            table = encoding.table.part(0, POSITIONS) if whole > POSITIONS else encoding.table
            rows = _Rows(place, page.names[place], table, whole)
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


PAIRED = 1_000
"""Maximum number of points of each of two maps side by side."""


def pair_measures(page: Page) -> str:
    """Return the tables of pairs, and how to read them."""
    how = (
        "Each dot is a measure from 0 (nothing in common) to 1 (equal up to rotation, translation and scale). The bar "
        f"is the middle 90 % of the values by chance: {html_tables.KEY}. Positions are compared with curves as smooth "
        "in the same places, tokens with the same rows in random order."
    )
    if said := html_tables.correction(page.comparison):
        how += f" {said}."
    return f'<p class="about">{how}</p>{html_tables.pairs_tables(page.comparison, page.named)}'


def add_maps(page: Page) -> None:
    """Draw side by side what every two sources share, in a common frame."""
    body = ""
    for left, right in combinations(range(len(page.sources)), 2):
        for role in ("position", "token"):
            try:
                found = align_maps(page.sources[left], page.sources[right], role)
            except HfposembError:
                continue  # the section of pairs gives the reason
            body += _maps_row(page, found, left, right)
    about = (
        "The second map is aligned to the first and scaled to the same spread. Hover over a point to mark it in both."
    )
    page.add("Aligned maps", about, body)


def _maps_row(page: Page, found: AlignedMaps, left: int, right: int) -> str:
    """Draw two maps in one row."""
    link = f"{found.role} {left} {right}"
    drawn = beside(found, page.comparison.moves, link=link, most=PAIRED)
    panels = [
        page.panel(
            f"{link} {place}",
            "",
            (figure, ""),
            foot=f"{found.method.upper()} · {drawn.drawn}",
            **page.owner(place, rows_of(found.role, (part, ""))),
        )
        for place, figure, part in ((left, drawn.left, found.parts[0]), (right, drawn.right, found.parts[1]))
    ]
    what = rows_of(found.role, found.parts).capitalize()
    heading = f"{what}. {found.sentence(page.names[left], page.names[right])}"
    return page.row(panels, columns=2, heading=heading, subheading="; ".join(found.notes))


def add_moved_words(page: Page) -> None:
    """List the words that moved most between every two vocabularies."""
    body = ""
    for moves in page.comparison.moves:
        pair = " and ".join(html_tables.text(page.named.get(name, name)) for name in (moves.left, moves.right))
        null = moves.null
        notes = "".join(f" {html_tables.text(note, width=300)}." for note in moves.notes)
        groups = {"Moved most": moves.most, "Moved least": moves.least}
        table = html_tables.moves_table((moves.left, moves.right), groups, "Moved", page.named)
        body += (
            f'<h3>{pair}</h3><p class="about">{moves.shared:,} shared words; the mean distance is '
            f"{html_tables.figure(moves.mean)}, with rows in random order {html_tables.figure(null.low)} to "
            f"{html_tables.figure(null.high)}.{notes}</p>{table}"
        )
    about = (
        "One vocabulary is aligned to the other. Moved: distance of a word's two vectors, relative to their lengths; 0 "
        "if equal, 1 if they have nothing in common, up to 1.41 if they are opposite. Kept: share of common neighbours."
    )
    page.add("Words that moved", about, body)


TOKENS = 20_000
"""Maximum number of tokens drawn of a vocabulary; larger ones are sampled with a seed."""


MAPS = 4
"""Maximum number of vocabularies drawn, since a browser has about 16 WebGL contexts."""


def add_words(page: Page) -> None:
    """Draw every vocabulary, and the neighbours of the chosen words."""
    panels = []
    having = [(place, source) for place, source in enumerate(page.sources) if "token" in source.tables]
    for place, source in having[:MAPS]:
        try:
            panels.append(_vocabulary(page, place, source.token))
        except HfposembError as error:
            panels.append(page.absent(place, str(error)))
    left_out = f" Only the first {MAPS} vocabularies are drawn." if len(having) > MAPS else ""
    about = f"Each dot is a token; close dots tend to have similar vectors.{left_out}"
    near = html_tables.neighbours_table(page.comparison, page.names)
    words = f"<h3>Exact nearest neighbours by cosine, among all tokens</h3>{near}" if near else ""
    page.add("Words", about if panels else "", page.row(panels, columns=min(len(panels), 2)) + words)


def _vocabulary(page: Page, place: int, table: EmbeddingTable) -> Panel:
    """Draw a vocabulary by PCA, sampled if it is too large for a page."""
    found = project(table, method="pca", dims=2)
    ratio = found.explained_variance_ratio
    assert ratio is not None
    found, about = sampled(found, TOKENS, SEED)
    return page.panel(
        f"tokens-{place}",
        f"Two components explain {percent(float(ratio.sum()))} of the variance",
        (token_figures.token_map(found, table.labels, link=f"token {place}", height=460), ""),
        legend=class_legend(table, found),
        foot=f"PCA · {about}" + (f" · {found.left_out:,} rows left out" if found.left_out else ""),
        **page.owner(place, about),
    )


LIBRARIES = ("numpy", "scipy", "scikit-learn", "plotly")


def provenance(page: Page) -> str:
    """Return every table's origin and hash, the versions, the seeds, and the command that reproduces the page."""
    rows = "".join(
        _origin(page, place, role, table)
        for place, source in enumerate(page.sources)
        for role, table in source.tables.items()
    )
    heads = ("Source", "Table", "Rows × width", "Stored as", "Tensor, file, commit", "SHA-256 of the values")
    kinds = "".join(
        f"<li>{html_tables.disc(place)}<strong>{html.escape(page.names[place])}</strong> {_kinds(source)}</li>"
        for place, source in enumerate(page.sources)
    )
    versions = [f"hfposemb {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {library_version(name)}" for name in LIBRARIES]
    nulls = page.comparison.nulls
    seeds = sorted({SEED, *(null.seed for null in nulls)})
    draws = sorted({null.draws for null in nulls})
    said = f"Seeds: {', '.join(map(str, seeds))}."
    if draws:
        said += f" Surrogates per value: {listed([f'{count:,}' for count in draws])}."
    parts = [one.part or "-" for one in page.comparison.sources]
    named = [] if set(parts) == {"-"} else parts if len(set(parts) - {"-"}) > 1 else sorted(set(parts) - {"-"})
    options = [word for part in named for word in ("--part", part)]
    if draws and draws[-1] != DRAWS:
        options += ["--draws", str(draws[-1])]
    command = f"hfposemb compare {shlex.join([*(source.name for source in page.sources), *options])} --out report.html"
    table = html_tables.sheet("Tables", html_tables.column_heads(*heads), rows) if rows else ""
    return (
        f'{table}<ul class="notes">{kinds}</ul><p class="about">{said} '
        f"{html.escape(' · '.join(versions))}</p><pre><code>{html_tables.text(command, width=2000)}</code></pre>"
    )


def _kinds(source: Embeddings) -> str:
    """Return a source's name and the kinds of its position encodings."""
    parts = [f"{part}: {one.kind}" for part, one in source.positions.items()]
    return html_tables.text("; ".join([source.name, *(parts or ["no positions"])]), width=800)


def _origin(page: Page, place: int, role: str, table: EmbeddingTable) -> str:
    """Return the row of one table."""
    found = table.provenance
    where = [found.tensor, found.file, f"commit {found.commit}" if found.commit else None]
    where += [f"{found.row_offset} leading rows left out" if found.row_offset else None, *found.notes]
    stored = f"{found.stored_dtype}, {found.nbytes:,} bytes" if found.file else "computed"
    cells = (
        html_tables.text(role),
        f"{table.shape[0]:,} × {table.shape[1]:,}",
        html_tables.text(stored),
        html_tables.text(" · ".join(part for part in where if part) or found.source, width=400),
        f"<code>{table.digest}</code>",
    )
    name = f'<th scope="row">{html_tables.disc(place)}{html.escape(page.names[place])}</th>'
    short = ' class="unbroken"'  # the role and the size
    rest = "".join(f"<td{short if at < 2 else ''}>{cell}</td>" for at, cell in enumerate(cells))
    return f"<tr>{name}{rest}</tr>"
