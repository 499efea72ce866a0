"""The report's last section: where every number comes from."""

from __future__ import annotations

import html
import platform
import shlex

from .. import __version__
from ..analysis.nulls.surrogates import DRAWS
from ..analysis.projection.cached_results import library_version
from ..figures.style import listed
from ..tables.embeddings import Embeddings
from ..tables.table import EmbeddingTable
from . import html_tables
from .report_page import SEED, Page

LIBRARIES = ("numpy", "scipy", "scikit-learn", "plotly")


def provenance(page: Page) -> str:
    """Return every table's origin and hash, the versions, the seeds, and the command that reproduces the page."""
    rows = "".join(
        _origin(page, place, role, table)
        for place, source in enumerate(page.sources)
        for role, table in source.tables.items()
    )
    heads = ("Source", "Table", "Rows × width", "Stored as", "Tensor, file, commit", "SHA-256 of the values")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
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
    table = (
        f'<div class="sheet" role="region" aria-label="Tables" tabindex="0"><table class="moves">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return (
        f'{table if rows else ""}<ul class="notes">{kinds}</ul><p class="about">{said} '
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
