"""The report's section of words: every vocabulary as a map, and the neighbours of the chosen words."""

from __future__ import annotations

from ..analysis.projection.projecting import project
from ..errors import HfposembError
from ..figures import token_figures
from ..numbers import percent
from ..tables.table import EmbeddingTable
from . import html_tables
from .panel_packing import Panel
from .report_page import SEED, Page
from .source_drawings import class_legend, sampled

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
        legend=class_legend(table.labels, found),
        foot=f"PCA · {about}" + (f" · {found.left_out:,} rows left out" if found.left_out else ""),
        **page.owner(place, about),
    )
