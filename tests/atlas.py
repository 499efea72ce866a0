"""The atlas: measure what of it needs no network into docs/atlas.csv, `python -m tests.atlas`, and write its page.

The page is written out of that file by ``tests.reference``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas

import hfposemb as hpe
from hfposemb.analysis.nulls.surrogates import DRAWS
from hfposemb.surveys.source_lists import in_file
from hfposemb.surveys.survey_folder import rows_of
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource
from tests.support.pages import DOCS, opening

LIST, ROWS = DOCS / "atlas.txt", DOCS / "atlas.csv"

METRICS = (
    *("effective rank", "*IsoScore", "mean cosine at distance 1", "translation invariance", "shift R² by 1, *"),
    *("*mean norm", "token anisotropy", "token norm / position norm"),
)
"""Figures that mean the same of every table, and differ by rounding alone from one processor to another."""


def offline() -> list[str]:
    """Return the sources of the list that need no network."""
    return [source for source in in_file(LIST) if not isinstance(parse_source(source), HubSource)]


def atlas() -> str:
    """Return the page: its own text, then a section for each source."""
    rows = rows_of(str(ROWS))
    sections = (_section(str(source), those) for source, those in rows.groupby("source", sort=False))
    return opening("atlas.md", "\n### ") + "".join(sections)


def _section(source: str, rows: pandas.DataFrame) -> str:
    hashes = rows.dropna(subset="digest").drop_duplicates("table")
    lines = [f"\n### {source}\n"]
    lines += [f"- {row.table}: `{row.digest}`" for row in hashes.itertuples() if " + " not in row.digest]
    lines += ["\n| metric | measured | untrained | sinusoid | chance |", "|---|---|---|---|---|", *_figures(rows)]
    return "\n".join(lines) + "\n"


def _figures(rows: pandas.DataFrame) -> Iterator[str]:
    for row in rows.dropna(subset="value").itertuples():
        chance = "" if pandas.isna(row.baseline_low) else f"{row.baseline_low:.4g} to {row.baseline_high:.4g}"
        known = " | ".join("" if pandas.isna(one) else f"{one:.4g}" for one in (row.untrained, row.sinusoid))
        yield f"| {row.metric.strip()} | {row.value:.4g} | {known} | {chance} |"


if __name__ == "__main__":
    found = hpe.survey(offline(), metrics=METRICS, draws=DRAWS)
    found.drop(columns="seconds").to_csv(ROWS, index=False, float_format="%.10g", lineterminator="\n")
    print(ROWS)
