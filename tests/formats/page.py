"""The page ``docs/formats.md``, written from the formats that the tests open."""

from __future__ import annotations

from tests.formats.adapters import ADAPTERS
from tests.formats.plain import PLAIN
from tests.formats.quantised import QUANTISED
from tests.formats.refusals import REFUSED

READ = (*PLAIN, *QUANTISED, *ADAPTERS)
FORMATS = (*READ, *REFUSED)

INTRODUCTION = """# Formats

Written by `python -m tests.formats` from the formats that its tests make and open; every cell is tested.

A source is named as `owner/name` or `owner/name@revision` on the Hub, as `./folder` or `./file` on this machine, and as
`owner/name/folder` or `owner/name/folder/file` within a repository. `?token=TENSOR&position=TENSOR&head=TENSOR` names
the tables where their names are not known. Nothing in a file is executed, and no base model is fetched unless it is
named.

- *This machine*: read from a folder or file.
- *Hub*: read from the Hub; only the bytes of the tables are fetched.
- *Single rows*: `table.rows(ids)` and `extract(…, rows=…)` fetch these rows only, besides the header.
"""

NOT_READ = """
## Refused

These raise the line given here, on this machine and from the Hub; SOURCE is the name of the source.
"""

NOTES = """
## Notes

- Codes are decoded as their rows are read; no reader uses more than twice the memory of the rows that it returns, but
  those of tables in columns.
- Tables in columns open from this machine only and are read whole: `./table.parquet` (a column of lists of floats, or
  columns `x`, `y` and `z`; read by a child process, with pyarrow), `./table.csv` and `./table.tsv`.
- What `table.save`, `hpe.write_table`, `extract`, `export` and `project` write opens again with the same numbers, to
  the last bit. `.safetensors`, `.npz` and `.parquet` hold labels with their classes and stored pieces, and the
  provenance, which is then `table.provenance.saved`; `.csv` holds labels, `.tsv` labels as the projector shows them and
  classes, in the file beside it, and `.npy` numbers alone. A table that was saved is `token`;
  `./file?position=vectors` opens it as positions.
- GGUF files have [a page of their own](gguf.md), with all block types and what is read besides the tables.
- Pickles from the Hub are fetched whole, and only if that is allowed: `--allow-full-download`, or
  `allow_full_download=True`.
- Quantised tables of bitsandbytes, GPTQ, AWQ, HQQ and AQLM are not decoded. These methods leave the token table as it
  is; where one of them replaced it or the head, the error names the tensor and how it is stored.
- A source without a known table raises an error that lists its largest tensors with two axes and how to name one.
"""


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION, "| format | source | what is read | this machine | Hub | single rows |", "|" + "---|" * 6]
    parts += [_row(one.name, one.source, one.read, one.here, one.hub, one.rows) for one in READ]
    parts += [NOT_READ, "| format | source | this machine | Hub |", "|" + "---|" * 4]
    parts += [_row(one.name, one.source, *(f"refused: `{line}`" for line in (one.here, one.hub))) for one in REFUSED]
    return "\n".join(parts) + "\n" + NOTES


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
