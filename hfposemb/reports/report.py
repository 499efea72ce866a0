"""Self-contained HTML report of a comparison: it opens from disk, years later, without a network.

The file contains everything: the tables, the figures with their numbers, the plotly.js of the installed plotly, and the
script that draws the app's panels, so that hovering a position marks it in every plot. Its Content-Security-Policy
blocks all network requests and all other scripts. Text from sources is escaped in tables, and passed to plots as text.
The same sources, versions and arguments give the same bytes.
"""

from __future__ import annotations

import base64
import html
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..analysis.cached_results import library_version
from ..analysis.geometry import spectrum
from ..analysis.projection import project
from ..analysis.similarity_matrix import similarity
from ..comparison.aligned_maps import AlignedMaps, align_maps
from ..comparison.alignment import rows_of
from ..comparison.results import Comparison
from ..comparison.side_by_side import Run, compare, of_parts
from ..errors import HfposembError, InputError
from ..figures import line_figures, matrix_figures, position_figures, style, token_figures
from ..figures.figure_packing import Packer, sendable
from ..figures.map_pairs import beside
from ..figures.named_figures import is_mechanism, kernel_length, mean_cosine_by_distance, positive_norms
from ..figures.palette import POSITION, SIMILARITY, dark_map
from ..figures.style import listed
from ..files import check_place, complete_file
from ..progress import Report, shown
from ..tables.embeddings import stack
from ..tables.encodings import PositionEncoding
from ..tables.source_names import names
from ..tables.table import EmbeddingTable
from ..text import display
from . import html_tables
from .html_page import as_data, csp_hash, page_script, page_style, plotly_script

if TYPE_CHECKING:
    from ..tables.embeddings import Embeddings


POSITIONS = 2_000
"""Maximum number of positions drawn of a table."""


CELLS = 512
"""Maximum number of cells of a drawn matrix per direction; larger ones are drawn by blocks."""


TOKENS = 20_000
"""Maximum number of tokens drawn of a vocabulary; larger ones are sampled with a seed."""


PAIRED = 1_000
"""Maximum number of points of each of two maps side by side."""


DEEP = 3
"""Maximum number of sources drawn in three dimensions: a browser has about 16 WebGL contexts, and a map takes three."""


MAPS = 4
"""Maximum number of vocabularies drawn, for the same reason."""


SEED = 0
LIBRARIES = ("numpy", "scipy", "scikit-learn", "plotly")


Panel = dict[str, Any]


def report(
    *sources: Embeddings,
    comparison: Comparison | None = None,
    part: str | Sequence[str | None] | None = None,
    title: str = "",
    written: str = "",
    progress: Report | Literal[False] | None = None,
) -> str:
    """Return an HTML page that compares sources: tables, linked plots, and the origin of every number.

    Args:
        sources: The sources.
        comparison: Comparison of these sources, by default ``compare(*sources)``.
        part: The parts that are compared, as passed to ``compare``.
        title: Title of the page, by default the names of the sources.
        written: Date shown on the page, if any; without it the page is always the same.
        progress: Callback for the fraction done, 0 to 1, and the current step; ``False`` for no progress bar.

    Returns:
        The page as HTML.

    Raises:
        InputError: If there is no source, or the comparison is of others.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.report import report
        >>> sources = hpe.sinusoidal(64, 16), hpe.sinusoidal(64, 8)
        >>> found = hpe.compare(*sources, words=[], draws=0)
        >>> report(*sources, comparison=found, progress=False).splitlines()[0]
        '<!doctype html>'
    """
    sources = tuple(of_parts(sources, part))
    if comparison is None:
        comparison = compare(*sources, run=Run(progress=progress))
    if not sources or [source.name for source in sources] != [one.source for one in comparison.sources]:
        raise InputError("a report needs the sources of its comparison, in their order: report(a, b) of compare(a, b)")
    with shown("drawing the report", progress) as told:
        page = _Page(sources, comparison, told)
        page.draw()
    return page.html(title or f"{listed(_names(sources))} compared", written)


def write_report(page: str, path: Path) -> None:
    """Write a report to a file, atomically; an existing one is replaced.

    Args:
        page: The HTML page.
        path: File that ends in ``.html``.

    Raises:
        InputError: If the path has another ending.
        HfposembError: If the file cannot be written.
    """
    check_path(path)
    with complete_file(path) as file:
        file.write(page.encode())


def check_path(path: Path) -> None:
    """Raise ``InputError`` unless a path is suitable for a report, so that this is known before any computation."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is a page of HTML: {path.name} must end in .html")
    check_place(path)


def _names(sources: Sequence[Embeddings]) -> list[str]:
    """Return the display names of sources: of a path the part that distinguishes it from the others."""
    return [display(name, width=html_tables.LONGEST_NAME) for name in names([source.name for source in sources])]


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


@dataclass(eq=False)
class _Page:
    """A page under construction: sections of HTML, and the rows of panels that the script draws into them."""

    sources: tuple[Embeddings, ...]
    comparison: Comparison
    told: Report
    sections: list[str] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.packer = Packer(lambda content, name: {"data": base64.b64encode(content).decode()})
        self.names = _names(self.sources)
        self.named = dict(zip((source.name for source in self.sources), self.names, strict=True))

    def draw(self) -> None:
        """Create all sections in order."""
        self.add("Figures", html_tables.finding(self.comparison, self.names), self.metrics())
        if self.comparison.pairs or self.comparison.missing:
            self.add("Pairs", "How alike the tables of every two sources are as wholes", self.pairs())
        self.told(0.3, "drawing positions")
        self.positions()
        self.told(0.5, "drawing words")
        self.tokens()
        self.told(0.8, "drawing maps beside each other")
        self.maps()
        self.words()
        self.told(0.95, "hashing the tables")
        self.add("Where every number comes from", "", self.provenance())
        self.told(1.0, "done")

    def add(self, heading: str, about: str, body: str) -> None:
        """Add a section, unless it is empty."""
        if body:
            said = f'<p class="lead">{html.escape(about)}</p>' if about else ""
            self.sections.append(f"<section><h2>{html.escape(heading)}</h2>{said}{body}</section>")

    def row(self, panels: Sequence[Panel], *, columns: int = 0, **more: Any) -> str:
        """Store a row of panels for the script, and return its placeholder."""
        if not panels:
            return ""
        number = len(self.views)
        words = {"heading": "", "subheading": "", "scale_bars": [], "marked": {}, "swipe": False, **more}
        self.views.append({**sendable(words), "columns": columns or min(len(panels), 4), "panels": list(panels)})
        return f'<div class="rows" data-view="{number}"><hfposemb-row></hfposemb-row></div>'

    def panel(self, key: str, title: str, *drawings: tuple[Any, str], **words: Any) -> Panel:
        """Return a panel in the format of ``plot.js``; ``drawings`` are figures with their captions."""
        none: dict[str, Any] = dict.fromkeys(("color", "subtitle", "help", "foot", "message", "emphasis"), "")
        none |= {"source": [], "numbers": [], "legend": [], "scale_bars": [], "lists": [], "span": 1, "tone": "normal"}
        actions = ["PNG", "SVG"] if drawings else []
        packed = [{"caption": sendable(caption), **self.packer.figure(figure)} for figure, caption in drawings]
        shown = sendable({**none, "key": key, "title": title, "actions": actions, **words})
        return {**shown, "drawings": packed}

    # --- tables -------------------------------------------------------------------------------------------------------

    def metrics(self) -> str:
        """Return the table of metrics, and how to read it."""
        drawn = [one.null for source in self.comparison.sources for one in source.metrics.values() if one.null]
        key = f'<p class="about">{html_tables.KEY}</p>' if drawn else ""
        return key + html_tables.metrics_table(self.comparison, self.names)

    def pairs(self) -> str:
        """Return the tables of pairs, and how to read them."""
        how = (
            "Each dot is a measure from 0, nothing in common, to 1, the same but for rotation, place and scale. The "
            f"bar is what chance gives, the middle 95 % of it: {html_tables.KEY}. "
            "Positions stand beside curves as smooth as "
            "themselves, tokens beside the same rows in another order. p is the larger one where either table has "
            "surrogates."
        )
        return f'<p class="about">{how}</p>{html_tables.pairs_tables(self.comparison, self.named)}'

    # --- positions ----------------------------------------------------------------------------------------------------

    def positions(self) -> None:
        """Draw every source's positions, and all of them together."""
        having, panels = [], []
        deep = len(self.sources) <= DEEP
        for place, source in enumerate(self.sources):
            try:
                encoding = source.position
                if is_mechanism(encoding):
                    panels.append(self.mechanism(place, encoding))
                    continue
                rows = self.rows_of(place, encoding.table)
                panels.append(self.cloud(rows, dims=min(3 if deep else 2, rows.table.shape[1])))
                having.append(rows)
            except HfposembError as error:
                panels.append(self.absent(place, str(error)))
        about = "Hover or touch a position: it is marked in every plot."
        parts = {stack(source) for source in self.sources if source.positions}
        bars = [_bar("position 0", "last", POSITION.light), _bar("cosine −1", "+1", SIMILARITY.light)]
        body = self.row(panels, columns={4: 2}.get(len(panels), min(len(panels), 3)), scale_bars=bars)
        heading = rows_of("position", (parts.pop(), "")).capitalize() if len(parts) == 1 else "Positions"
        self.add(heading, about, body + self.row(self.lines(having), columns=min(3, len(having) * 3)))

    def rows_of(self, place: int, table: EmbeddingTable) -> _Rows:
        """Return the rows that are drawn of a table."""
        whole = table.shape[0]
        if whole > POSITIONS:
            table = table.part(0, POSITIONS)
        return _Rows(place, self.names[place], table, whole)

    def absent(self, place: int, why: str) -> Panel:
        """Return a panel that states why there is nothing to draw."""
        said = display(why, width=400)
        return self.panel(f"positions-{place}", "No positions to draw", message=said, **self.owner(place))

    def owner(self, place: int, about: str = "") -> dict[str, Any]:
        """Return the properties of a panel that identify its source."""
        return {"source": [self.names[place], about], "color": style.source_style(place)[0]}

    def cloud(self, rows: _Rows, *, dims: int) -> Panel:
        """Draw positions as a cloud above the matrix of their cosines."""
        count = len(rows.table.vectors)
        foot, drawings = "PCA", []
        if dims > 1 and rows.table.finite.sum() > 1:
            found = project(rows.table, method="pca", dims=dims)
            ratio = found.explained_variance_ratio
            assert ratio is not None
            held = listed([f"{100 * share:.0f}" for share in ratio])
            drawings.append((position_figures.projection(found), f"axes hold {held} % of the variance"))
            kept = f"{100 * found.quality.neighbours_kept:.0f} % of {found.quality.k} neighbours kept"
            foot = f"PCA · {dims} of {rows.table.shape[1]:,} dimensions · {kept}"
        matrix = similarity(rows.table).astype(np.float32)
        drawings.append((matrix_figures.similarity_matrix(matrix, most=CELLS), "cosine of every two positions"))
        if count > CELLS:
            foot += f" · the matrix by blocks of {-(-count // CELLS)}"
        kind = rows_of("position", (stack(self.sources[rows.place]), ""))
        about = f"{count:,} of {rows.whole:,} {kind}" if count < rows.whole else f"{count:,} {kind}"
        return self.panel(f"positions-{rows.place}", "", *drawings, foot=foot, **self.owner(rows.place, about))

    def mechanism(self, place: int, encoding: PositionEncoding) -> Panel:
        """Draw the effect of distance in a mechanism without rows, in its own unit."""
        unit = encoding.unit
        if unit == "none":
            return self.absent(place, getattr(encoding, "reason", f"{encoding.kind} positions have no rows"))
        count = kernel_length(encoding)
        back = encoding.profile(-np.arange(count)).astype(np.float32)
        line = style.Series(self.names[place], back, *style.source_style(place))
        matrix = encoding.matrix(count).astype(np.float32)
        return self.panel(
            f"positions-{place}",
            "Its positions are no vectors that are added to words, so there is no cloud",
            (line_figures.similarity_by_distance([line], unit=unit, height=340), f"{unit}, so many positions back"),
            (matrix_figures.similarity_matrix(matrix, unit=unit, most=CELLS), f"{unit} of every two positions"),
            foot=f"first {count:,} positions",
            **self.owner(place, f"{encoding.kind} {rows_of('position', (stack(self.sources[place]), ''))}"),
        )

    def lines(self, having: Sequence[_Rows]) -> list[Panel]:
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
            said = self.said("mean cosine at distance 1")
            figure = line_figures.similarity_by_distance(distances)
            foot = "Mean cosine by distance, up to half of each table"
            panels.append(self.panel("distance", f"Neighbouring positions have cosine {said}", (figure, ""), foot=foot))
        if norms:
            said = self.said("mean norm")
            figure = line_figures.norms_by_position(norms)
            panels.append(self.panel("norms", f"The mean norm is {said}", (figure, ""), foot="Norm, log scale"))
        if shares:
            said = self.said("variance of 3 components", " %")
            figure = line_figures.explained_variance(shares)
            foot = "PCA of the centred table"
            panels.append(self.panel("variance", f"Three components hold {said}", (figure, ""), foot=foot))
        return panels

    def said(self, metric: str, unit: str = "") -> str:
        """Return a metric of every source that has it as text."""
        parts = []
        for name, source in zip(self.names, self.comparison.sources, strict=True):
            found = source.metrics[metric]
            if found.value is not None:
                parts.append(f"{html_tables.figure(found.value, found.unit)}{unit} in {name}")
        return listed(parts) if parts else "unknown"

    # --- words --------------------------------------------------------------------------------------------------------

    def tokens(self) -> None:
        """Draw every vocabulary, and the neighbours of the chosen words."""
        panels = []
        having = [(place, source) for place, source in enumerate(self.sources) if "token" in source.tables]
        for place, source in having[:MAPS]:
            try:
                panels.append(self.vocabulary(place, source.token))
            except HfposembError as error:
                panels.append(self.absent(place, str(error)))
        left_out = f" The first {MAPS} vocabularies are drawn." if len(having) > MAPS else ""
        about = f"Every dot is a token; close dots tend to have similar vectors.{left_out}"
        near = html_tables.neighbours_table(self.comparison, self.names)
        words = f"<h3>Nearest by cosine, exact, over every token</h3>{near}" if near else ""
        self.add("Words", about if panels else "", self.row(panels, columns=min(len(panels), 2)) + words)

    def vocabulary(self, place: int, table: EmbeddingTable) -> Panel:
        """Draw a vocabulary by PCA, sampled if it is too large for a page."""
        found = project(table, method="pca", dims=2)
        ratio = found.explained_variance_ratio
        assert ratio is not None
        count = len(found.rows)
        about = f"all {count:,} tokens"
        if count > TOKENS:
            chosen = np.sort(np.random.default_rng(SEED).choice(count, TOKENS, replace=False))
            found = found.take(chosen)
            about = f"{TOKENS:,} of {count:,} tokens, drawn with seed {SEED}"
        legend = [
            {"name": name, "color": style.CLASS_COLOURS[name], "note": f"{many:,}"}
            for name, many in token_figures.class_counts(table.labels, rows=found.rows).items()
        ]
        return self.panel(
            f"tokens-{place}",
            f"Two directions hold {100 * float(ratio.sum()):.0f} % of how these tokens differ",
            (token_figures.token_map(found, table.labels, link=f"token {place}", height=460), ""),
            legend=legend,
            foot=f"PCA · {about}" + (f" · {found.left_out:,} rows left out" if found.left_out else ""),
            **self.owner(place, about),
        )

    def maps(self) -> None:
        """Draw side by side what every two sources share, in a common frame."""
        body = ""
        for left, right in combinations(range(len(self.sources)), 2):
            for role in ("position", "token"):
                try:
                    found = align_maps(self.sources[left], self.sources[right], role)
                except HfposembError:
                    continue  # the section of pairs gives the reason
                body += self.beside(found, left, right)
        about = "The second map is turned onto the first, at the same spread. Hover a point to mark it in both."
        self.add("Maps beside each other", about, body)

    def beside(self, found: AlignedMaps, left: int, right: int) -> str:
        """Draw two maps in one row."""
        link = f"{found.role} {left} {right}"
        drawn = beside(found, self.comparison.moves, link=link, most=PAIRED)
        panels = [
            self.panel(
                f"{link} {place}",
                "",
                (figure, ""),
                foot=f"{found.method.upper()} · {drawn.drawn}",
                **self.owner(place, rows_of(found.role, (part, ""))),
            )
            for place, figure, part in ((left, drawn.left, found.parts[0]), (right, drawn.right, found.parts[1]))
        ]
        what = rows_of(found.role, found.parts).capitalize()
        fit = (
            f"{what}: the best rotation leaves {100 * found.disparity:.0f} % of the map of {self.names[right]} "
            f"unexplained by that of {self.names[left]}"
        )
        return self.row(panels, columns=2, heading=fit, subheading="; ".join(found.notes))

    def words(self) -> None:
        """List the words that moved most between every two vocabularies."""
        body = ""
        for moves in self.comparison.moves:
            pair = " and ".join(html_tables.text(self.named.get(name, name)) for name in (moves.left, moves.right))
            null = moves.null
            notes = "".join(f" {html_tables.text(note, width=300)}." for note in moves.notes)
            body += (
                f'<h3>{pair}</h3><p class="about">{moves.shared:,} shared words; the mean distance is '
                f"{html_tables.figure(moves.mean)}, with rows in another order {html_tables.figure(null.low)} to "
                f"{html_tables.figure(null.high)}.{notes}</p>{html_tables.moves_table(moves, self.named)}"
            )
        about = (
            "One vocabulary is turned onto the other; a word has moved as far as its two vectors then differ, relative "
            "to their lengths: 0 where it stayed, 1 where they have nothing in common. Kept: the share of neighbours."
        )
        self.add("Words that moved", about, body)

    # --- provenance ---------------------------------------------------------------------------------------------------

    def provenance(self) -> str:
        """Return every table's origin and hash, the versions, the seeds, and the command that reproduces the page."""
        rows = "".join(
            self.origin(place, role, table)
            for place, source in enumerate(self.sources)
            for role, table in source.tables.items()
        )
        heads = ("Source", "Table", "Rows × width", "Stored as", "Tensor, file, commit", "SHA-256 of its numbers")
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        kinds = "".join(
            f"<li>{html_tables.disc(place)}<strong>{html.escape(self.names[place])}</strong> {self.kinds(source)}</li>"
            for place, source in enumerate(self.sources)
        )
        versions = [f"hfposemb {__version__}", f"Python {platform.python_version()}"]
        versions += [f"{name} {library_version(name)}" for name in LIBRARIES]
        nulls = self.comparison.nulls
        seeds = sorted({SEED, *(null.seed for null in nulls)})
        draws = sorted({null.draws for null in nulls})
        said = f"Seeds: {', '.join(map(str, seeds))}."
        if draws:
            said += f" Surrogates drawn: {listed([f'{count:,}' for count in draws])} for each number."
        parts = [one.part or "-" for one in self.comparison.sources]
        named = [] if set(parts) == {"-"} else parts if len(set(parts) - {"-"}) > 1 else sorted(set(parts) - {"-"})
        options = [word for part in named for word in ("--part", part)]
        command = (
            f"hfposemb compare {shlex.join([*(source.name for source in self.sources), *options])} --out report.html"
        )
        table = (
            f'<div class="sheet" role="region" aria-label="Tables" tabindex="0"><table class="moves">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
        return (
            f'{table if rows else ""}<ul class="notes">{kinds}</ul><p class="about">{said} '
            f"{html.escape(' · '.join(versions))}</p><pre><code>{html_tables.text(command, width=2000)}</code></pre>"
        )

    def kinds(self, source: Embeddings) -> str:
        """Return a source's name and the kinds of its position encodings."""
        parts = [f"{part}: {one.kind}" for part, one in source.positions.items()]
        return html_tables.text("; ".join([source.name, *(parts or ["no positions"])]), width=800)

    def origin(self, place: int, role: str, table: EmbeddingTable) -> str:
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
        name = f'<th scope="row">{html_tables.disc(place)}{html.escape(self.names[place])}</th>'
        return f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"

    # --- file ---------------------------------------------------------------------------------------------------------

    def html(self, title: str, written: str) -> str:
        """Return the page."""
        script = page_script()
        policy = (
            f"default-src 'none'; script-src 'sha256-{csp_hash(script)}' 'unsafe-eval' blob:; connect-src blob:; "
            "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
        )
        views = {"files": self.packer.listed, "rows": self.views, "dark": dark_map()}
        when = f'<p class="about">{html.escape(display(written, width=120))}</p>' if written else ""
        shown = html.escape(display(title, width=300))
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="generator" content="hfposemb {__version__}">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{shown}</title>\n<style>{page_style()}</style>\n</head>\n<body>\n<main>\n"
            f"<header><h1>{shown}</h1>{when}</header>\n"
            '<noscript><p class="about">The plots need JavaScript; the tables do not.</p></noscript>\n'
            + "\n".join(self.sections)
            + f'\n</main>\n<script type="application/json" id="views">{as_data(views)}</script>\n'
            f'<script type="text/plain" id="plotly">{plotly_script()}</script>\n'
            f'<script type="module">{script}</script>\n'
            "</body>\n</html>\n"
        )


def _bar(low: str, high: str, colors: Sequence[str]) -> dict[str, Any]:
    return {"low": low, "high": high, "colors": list(colors), "title": ""}
