"""The atlas: measure what of it needs no network into docs/atlas.csv, `python -m tests.atlas`, and write its page.

The page is written out of that file by ``tests.reference``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas

import hfposemb as hpe
from hfposemb.analysis.nulls.surrogates import DRAWS
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

A reproducible survey of the sources that the app offers, and of similar ones. Version {version}: eleven metrics of each
source in [atlas.txt](atlas.txt), with chance levels from {draws} draws with seed 0. In a clone of the repository, one
command measures everything:

```
{command}
```

It reads only the position and token tables of a Hub model; `--dry-run` first estimates bytes and time. Every row holds
the commit, the SHA-256 of the table's values, the metric with its chance interval, and the versions that computed it. A
model that cannot be read gets a row with the reason; one stored as a pickle only, for example, needs
`--allow-full-download`.

**Not included.** The Hub could not be reached where this page was written. Its models are therefore missing below, and
the names in the list were not tried there; the command adds them.

**Included**, in [atlas.csv](atlas.csv), are the sources that need no network. `python -m tests.atlas` measures them,
and `python -m tests.reference` writes this page from that file.

## Browsing and publishing

```
hfposemb atlas atlas                     # writes atlas/_atlas.html; --open opens it
hfposemb atlas atlas --dataset dataset   # also a dataset for the Hub
```

The page has every model in a table that can be sorted and filtered, and any two metrics as a scatter plot, coloured by
kind of positions or architecture. Models chosen in either are compared by the command that the page shows, or in the
app. It is one file, which opens without a network. `hfposemb atlas docs/atlas.csv` writes that of the rows below.

The dataset has `figures.parquet`, a row for each metric of each table, `models.parquet`, a row for each model, the data
card `README.md` with the meaning, type and unit of every column, and the SHA-256 of each file in `SHA256SUMS`. To
publish it, and to read it from anywhere:

```
hf upload OWNER/NAME dataset --repo-type dataset
```

```text
pandas.read_parquet("hf://datasets/OWNER/NAME/models.parquet")
polars.read_parquet("hf://datasets/OWNER/NAME/models.parquet")
datasets.load_dataset("OWNER/NAME", "models", split="train")
```

So a survey of other models takes three steps: list them in a text file, one per line (or let `--author` and `--filter`
find them), run `hfposemb survey --file models.txt --out survey`, and `hfposemb atlas survey --dataset dataset`. An
interrupted survey continues where it was, and one of a longer list measures only the new models.

## Repeating the measurements

```
hfposemb survey --again docs/atlas.csv   # the rows of this page
hfposemb survey --again atlas            # your own survey
```

A published dataset is repeated from its file: `hfposemb survey --again figures.parquet`.

This measures every source again, with the metrics, draws and seed of the rows; a Hub model is read at the commit in its
rows, wherever its branch is now. Chance levels are drawn again. A source is the same if the hash of every table is
equal and every number agrees within 1e-6; each difference is reported on a line, with the versions, and the exit code
is 1. With other linear algebra kernels, and without the processor's newer vector instructions, all numbers below agreed
within 1e-9.

As a text file, the rows can be kept under version control, like those of this page:

```python
import pandas

from hfposemb.surveys.remeasure import again
from hfposemb.surveys.survey_folder import rows_of

pandas.read_parquet("atlas").to_csv("atlas.csv", index=False)
found = again(rows_of("atlas.csv"), sources=["sinusoidal:256x128"])
print(found)  # found.same, and found.sources with what differs
```

## What was measured

A metric of positions is given with its values for an untrained table and for a sinusoid of the same shape, one of
tokens with the interval from 2.5 to 97.5 % of noise of the same shape and scale. Metrics that a source does not have
are left out. These sources have no commit, since they are included in the package.
"""


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
