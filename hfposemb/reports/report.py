"""Self-contained HTML report of a comparison: it opens from disk, years later, without a network.

The file contains everything: the tables, the figures with their numbers, plotly.js, and the
script that draws the app's panels, so that hovering a position marks it in every plot. Its Content-Security-Policy
blocks all network requests and all other scripts. Text from sources is escaped in tables, and passed to plots as text.
The same sources, versions and arguments give the same bytes.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..comparison.merged_rows import merge_preview
from ..comparison.quantisation import QuantisationDamage, quantised_forms
from ..comparison.results import Comparison
from ..comparison.side_by_side import Run, compare, of_parts
from ..errors import InputError
from ..figures import style
from ..figures.graph_objects import require_plotly
from ..figures.quantisation_errors import quantisation_errors
from ..files import check_place, complete_file
from ..progress import Report, shown
from ..text import one_line
from ..vocabularies.comparing import VocabularyDifference, vocabulary_pairs
from . import html_tables
from .pair_cards import verdict_card, vocabulary_card
from .report_sections import (
    Page,
    add_maps,
    add_moved_words,
    add_positions,
    add_words,
    names_of,
    pair_measures,
    provenance,
)

if TYPE_CHECKING:
    from ..tables.embeddings import Embeddings

QUANTISATION = (
    "Relative error of a token: distance of its quantised vector from the original one, divided by the original's norm."
)

ORIGINS = (
    "At most 256 token rows of each model tell whether one was made from the other, and what averaging both would do, "
    "each figure beside its null."
)
VOCABULARIES = "Tokens are compared by the text that each id stands for. What decides an answer stands beside it."


def report(
    *sources: Embeddings,
    comparison: Comparison | None = None,
    quantisation: Sequence[QuantisationDamage] | None = None,
    vocabularies: Sequence[VocabularyDifference] | None = None,
    part: str | Sequence[str | None] | None = None,
    title: str = "",
    written: str = "",
    progress: Report | Literal[False] | None = None,
) -> str:
    """Return an HTML page that compares sources: tables, linked plots, and the origin of every number.

    Args:
        sources: The sources.
        comparison: Comparison of these sources, by default ``compare(*sources)``.
        quantisation: What quantisation did, by default ``quantised_forms(sources)``: empty unless two of the sources
            are a model in full precision and quantised.
        vocabularies: The vocabularies compared, by default ``vocabulary_pairs(sources)``.
        part: The parts that are compared, as passed to ``compare``.
        title: Title of the page, by default the names of the sources.
        written: Date shown on the page, if any; without it the page is always the same.
        progress: Callback for the fraction done, 0 to 1, and the current step; ``False`` for no progress bar.

    Returns:
        The page as HTML.

    Raises:
        InputError: If there is no source, or the comparison is of others.
        MissingExtraError: If plotly is not installed.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.reports.report import report
        >>> sources = hpe.sinusoidal(64, 16), hpe.sinusoidal(64, 8)
        >>> found = hpe.compare(*sources, words=[], draws=0)
        >>> report(*sources, comparison=found, progress=False).splitlines()[0]
        '<!doctype html>'
    """
    require_plotly("a report")
    sources = tuple(of_parts(sources, part))
    if comparison is None:
        comparison = compare(*sources, run=Run(progress=progress))
    if not sources or [source.name for source in sources] != [one.source for one in comparison.sources]:
        raise InputError(
            "the sources must be those of the comparison, in the same order: report(a, b) for compare(a, b)"
        )
    with shown("drawing the report", progress) as told:
        page = Page(sources, comparison)
        _draw(page, quantisation, told)
        told(0.93, "comparing the vocabularies")
        cards = vocabulary_pairs(sources) if vocabularies is None else vocabularies
        page.add("Vocabularies", VOCABULARIES if cards else "", "".join(map(_vocabulary, cards)))
        _add_origins(page)
        page.add("Metrics", html_tables.finding(page.comparison, page.names), _metrics(page))
        told(0.95, "hashing the tables")
        page.add("Provenance", "", provenance(page))
        told(1.0, "done")
    return page.html(title or f"{style.listed(names_of(sources))} compared", written)


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
        raise InputError(f"a report is an HTML page; {path.name} must end in .html")
    check_place(path)


def _draw(page: Page, quantisation: Sequence[QuantisationDamage] | None, told: Report) -> None:
    """Create all sections in order: pictures first, the long table of numbers last."""
    told(0.3, "drawing positions")
    add_positions(page)
    if page.comparison.pairs or page.comparison.missing:
        page.add("Pairs", "Overall similarity of the tables of each pair of sources", pair_measures(page))
    told(0.5, "drawing aligned maps")
    add_maps(page)
    told(0.7, "drawing words")
    add_words(page)
    add_moved_words(page)
    if quantisation is None:
        quantisation = quantised_forms(page.sources, progress=lambda share, doing: told(0.9 + 0.05 * share, doing))
    damage = "".join(_quantised(page, one) for one in quantisation)
    page.add("Quantisation", QUANTISATION if quantisation else "", damage)


def _vocabulary(found: VocabularyDifference) -> str:
    said = found.to_dict()
    return f"<h3>{html.escape(one_line(said['headline']))}</h3>{vocabulary_card(said, (found.a.name, found.b.name))}"


def _add_origins(page: Page) -> None:
    """Tell of every two models with tokens whether one was made from the other, and what a merge would do."""
    having = [place for place, one in enumerate(page.sources) if "token" in one.tables and one.token.has_names]
    cards = []
    for a, b in combinations(having, 2):
        merged = merge_preview(page.sources[a], page.sources[b])
        names = (page.names[a], page.names[b])
        for said, found in (("", merged.origin), ("a merge ", merged)):
            title = html.escape(one_line(f"{names[0]} and {names[1]}: {said}{found.verdict}"))
            cards.append(f"<h3>{title}</h3>{verdict_card(found.to_dict(), names)}")
    page.add("Origins", ORIGINS if cards else "", "".join(cards))


def _metrics(page: Page) -> str:
    """Return the table of metrics, and how to read it."""
    drawn = [one.null for source in page.comparison.sources for one in source.metrics.values() if one.null]
    key = f'<p class="about">{html_tables.KEY}</p>' if drawn else ""
    return key + html_tables.metrics_table(page.comparison, page.names)


def _quantised(page: Page, found: QuantisationDamage) -> str:
    """Draw the errors of the tokens of a model that is there in both forms, and list the largest."""
    place = [source.name for source in page.sources].index(found.quantised)
    stored = " against ".join(found.stored)
    panel = page.panel(
        f"quantisation-{page.sources[place].name}",
        html_tables.damage(found),
        (quantisation_errors(found, style=style.source_style(place)), ""),
        subtitle=f"{stored}, {len(found.labels):,} tokens",
        foot="; ".join(found.notes),
        **page.owner(place),
    )
    sides = (found.original, found.quantised)
    return page.row([panel]) + html_tables.moves_table(sides, {"Largest errors": found.worst}, "Error", page.named)
