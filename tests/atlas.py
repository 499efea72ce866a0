"""The atlas: measure what of it needs no network into docs/atlas.csv, `python -m tests.atlas`, and write its page.

The page is written out of that file by ``tests.reference``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas

import hfposemb as hpe
from hfposemb.analysis.surrogates import DRAWS
from hfposemb.surveys.source_lists import in_file
from hfposemb.surveys.survey_folder import rows_of
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource

DOCS = Path(__file__).parent.parent / "docs"
LIST, ROWS = DOCS / "atlas.txt", DOCS / "atlas.csv"

METRICS = (
    *("effective rank", "*IsoScore", "mean cosine at distance 1", "translation invariance", "shift R² by 1, *"),
    *("*mean norm", "token anisotropy", "token norm / position norm"),
)
"""Figures that mean the same of every table, and differ by rounding alone from one processor to another."""

_CHOSEN = " ".join(f'--metric "{name}"' for name in METRICS)
COMMAND = f"hfposemb survey --file docs/atlas.txt {_CHOSEN} --out atlas"


def offline() -> list[str]:
    """Return the sources of the list that need no network."""
    return [source for source in in_file(LIST) if not isinstance(parse_source(source), HubSource)]


def atlas() -> str:
    """Return the page."""
    rows = rows_of(str(ROWS))
    version = re.search(r"version (\d+)", LIST.read_text(encoding="utf-8"))
    assert version is not None
    sections = [_section(str(source), those) for source, those in rows.groupby("source", sort=False)]
    return OPENING.format(version=version[1], command=COMMAND, draws=DRAWS) + "".join(sections)


OPENING = """# Atlas

A survey of what the app offers and of its kin, as a recipe that gives the same figures again. Version {version}: the
sources of [atlas.txt](atlas.txt), eleven figures of each, beside {draws} draws of what chance gives with seed 0. In a
clone of the repository one command measures all of it:

```
{command}
```

Of a model of the Hub it reads the position and the token table alone; with `--dry-run` it says first how many bytes,
and how long it takes. Every row names the commit that was read, the SHA-256 of the table's numbers, the figure with the
interval that chance gives, and the versions that computed it. A model that cannot be read is a row that says why: one
that is stored as a pickle alone, for instance, is read with `--allow-full-download`.

**What is not here.** Where this page was written the Hub could not be reached. So none of its models is below, with no
commit, no hash and no figure, and the names in the list were not tried there; the command fills them in.

**What is here**, kept in [atlas.csv](atlas.csv), are the sources that need no network. `python -m tests.atlas` measures
them, and `python -m tests.reference` writes this page out of that file.

## The same again

```
hfposemb again docs/atlas.csv   # what is below
hfposemb again atlas            # what you measured
```

This measures every source again, with the figures, draws and seed of the rows, and a model of the Hub at the commit in
its rows, wherever its branch is now. What chance gives is drawn anew. It is the same where the hash of every table is
equal, and every number within 1e-6 of itself; what differs is told in a line each, with the versions, and the exit code
is 1. With other kernels of linear algebra, and without the processor's newer vector instructions, all numbers below
came out within 1e-9 of themselves.

As a file of text the rows can stand under version control, as those of this page do:

```python
import pandas

from hfposemb.surveys.remeasure import again
from hfposemb.surveys.survey_folder import rows_of

pandas.read_parquet("atlas").to_csv("atlas.csv", index=False)
found = again(rows_of("atlas.csv"), sources=["sinusoidal:256x128"])
print(found)  # found.same, and found.sources with what differs
```

## What was measured

Chance is an impostor for positions, the same spectrum with random phases, and noise of the same scale for tokens; of it
the interval from 2.5 to 97.5 %. Figures that a source does not have are left out. None of these sources has a commit:
they come with the package.
"""


def _section(source: str, rows: pandas.DataFrame) -> str:
    hashes = rows.dropna(subset="digest").drop_duplicates("table")
    lines = [f"\n### {source}\n"]
    lines += [f"- {row.table}: `{row.digest}`" for row in hashes.itertuples() if " + " not in row.digest]
    lines += ["\n| figure | measured | by chance |", "|---|---|---|", *_figures(rows)]
    return "\n".join(lines) + "\n"


def _figures(rows: pandas.DataFrame) -> Iterator[str]:
    for row in rows.dropna(subset="value").itertuples():
        chance = "" if pandas.isna(row.baseline_low) else f"{row.baseline_low:.4g} to {row.baseline_high:.4g}"
        yield f"| {row.metric.strip()} | {row.value:.4g} | {chance} |"


if __name__ == "__main__":
    found = hpe.survey(offline(), metrics=METRICS, draws=DRAWS)
    found.drop(columns="seconds").to_csv(ROWS, index=False, float_format="%.10g", lineterminator="\n")
    print(ROWS)
