"""A survey as a dataset that can be uploaded to the Hub: two parquet files, a data card and hashes."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..comparison.metric_meanings import UNITS, meaning
from ..comparison.model_table import measures_in, model_table, versions_in
from ..errors import HfposembError, InputError
from ..files import complete_file
from ..text import display
from .survey_folder import COLUMNS, MEANINGS, _arrow

if TYPE_CHECKING:
    import pandas

FIGURES, MODELS, CARD, HASHES = "figures.parquet", "models.parquet", "README.md", "SHA256SUMS"

LICENSE = "apache-2.0"
"""Licence in the card, that of this package; models keep their own."""

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_OF_POSITIONS = {"rows": "number of positions", "width": "number of columns of the position table"}
_PART = "part that its positions belong to, such as encoder; empty for a model with a single part"


def write_dataset(rows: pandas.DataFrame, folder: str | Path, *, name: str = "Atlas of embedding tables") -> Path:
    """Write a survey as a dataset for the Hub, readable by datasets, pandas and polars.

    The folder gets ``figures.parquet`` with a row for each figure, ``models.parquet`` with a row for each model and a
    column for each figure, the data card ``README.md``, and ``SHA256SUMS``. Existing ones are replaced. The same rows
    and versions give the same bytes.

    Args:
        rows: Rows of a survey, from ``hpe.survey`` or ``survey_folder.rows_of``.
        folder: Folder to write to; created if necessary.
        name: Title of the card.

    Returns:
        The folder.

    Raises:
        InputError: If the folder holds anything else, or no source of the survey could be measured.
        HfposembError: If it cannot be written.

    Examples:
        >>> import tempfile
        >>> import hfposemb as hpe
        >>> from hfposemb.surveys.survey_dataset import write_dataset
        >>> rows = hpe.survey(["sample:bert"], metrics=["mean norm"], draws=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in write_dataset(rows, folder).iterdir())
        ['README.md', 'SHA256SUMS', 'figures.parquet', 'models.parquet']
    """
    root = Path(folder)
    if rows["value"].notna().sum() == 0:
        raise InputError("no source of this survey could be measured; its rows have the reasons")
    _prepare(root)
    figures = rows[[column for column in COLUMNS if column != "seconds"]]  # which no other run repeats
    contents = {FIGURES: _parquet(figures, figure_columns()), MODELS: _parquet(model_table(rows), model_columns(rows))}
    contents[CARD] = _card(rows, contents, name).encode()
    hashes = "".join(f"{hashlib.sha256(content).hexdigest()}  {file}\n" for file, content in contents.items())
    for file, content in {**contents, HASHES: hashes.encode()}.items():
        with complete_file(root / file) as target:
            target.write(content)
    return root


def figure_columns() -> dict[str, str]:
    """Return what each column of ``figures.parquet`` holds."""
    return {name: MEANINGS[name] for name in COLUMNS if name != "seconds"}


def model_columns(rows: pandas.DataFrame) -> dict[str, str]:
    """Return what each column of ``models.parquet`` holds, with its unit."""
    facts = {name: MEANINGS[name] for name in ("source", "commit", "kind", "architecture")}
    found = {"source": facts.pop("source"), "part": _PART, **facts, **_OF_POSITIONS}
    return found | {one.name.strip(): f"{meaning(one)} Unit: {UNITS[one.unit]}." for one in measures_in(rows)}


def _prepare(root: Path) -> None:
    known = {FIGURES, MODELS, CARD, HASHES}
    try:
        if root.is_dir() and (other := sorted({path.name for path in root.iterdir() if path.name[0] != "."} - known)):
            raise InputError(f"{root} has {other[0]!r:.80} but no dataset of a survey; choose a new folder")
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HfposembError(f"cannot write into {root}: {error.strerror}; choose another folder") from error


def _parquet(frame: pandas.DataFrame, columns: Mapping[str, str]) -> bytes:
    """Return a data frame as parquet, with the meaning of each column in its field."""
    arrow = _arrow()
    kinds = {name: getattr(arrow, kind)() for name, kind in COLUMNS.items()} | {"part": arrow.string()}
    fields = [
        arrow.field(name, kinds.get(name, arrow.float64()), metadata={"description": about})
        for name, about in columns.items()
    ]
    table = arrow.Table.from_pandas(frame, schema=arrow.schema(fields), preserve_index=False)
    packed = io.BytesIO()
    arrow.parquet.write_table(table.replace_schema_metadata(None), packed, compression="zstd")
    return packed.getvalue()


# --- the card ---------------------------------------------------------------------------------------------------------


def _card(rows: pandas.DataFrame, contents: Mapping[str, bytes], name: str) -> str:
    """Return the data card: front matter of the Hub, schema, hashes and how to compute the rows again."""
    measured = rows[rows["metric"].notna()]
    models, failed = measured["source"].nunique(), rows[rows["metric"].isna()]["source"].nunique()
    versions = " and ".join(dict.fromkeys(map(versions_in, rows["versions"].dropna())))
    draws = ", ".join(f"{int(one):,}" for one in sorted(rows["draws"].dropna().unique())) or "0"
    hashes = "\n".join(f"{hashlib.sha256(content).hexdigest()}  {file}" for file, content in contents.items())
    text = files(__package__).joinpath("dataset_card.txt").read_text(encoding="utf-8")
    return text.format(
        front=_front_matter(len(rows), name),
        name=display(name, width=120),
        models=f"{models:,} {'model' if models == 1 else 'models'}",
        figures=f"{measured['metric'].nunique():,}",
        failed=f" {failed:,} further sources could not be measured; their rows have the reason." if failed else "",
        draws=draws,
        versions=versions,
        version=__version__,
        schema_figures=_schema_lines(figure_columns()),
        schema_models=_schema_lines(model_columns(rows)),
        hashes=hashes,
    )


def _front_matter(count: int, name: str) -> str:
    """Return the card's metadata. JSON strings are YAML as well, whatever the name holds."""
    size = next((size for most, size in _SIZES if count < most), "n>1M")
    lines = [
        f"pretty_name: {json.dumps(display(name, width=120), ensure_ascii=False)}",
        f"license: {LICENSE}",
        "tags:",
        *(f"- {tag}" for tag in ("hfposemb", "embeddings", "positional-encoding", "interpretability")),
        f"size_categories:\n- {size}",
        "configs:",
        f"- config_name: figures\n  data_files: {FIGURES}\n  default: true",
        f"- config_name: models\n  data_files: {MODELS}",
    ]
    return "---\n" + "\n".join(lines) + "\n---\n"


def _schema_lines(columns: Mapping[str, str]) -> str:
    def kind(name: str) -> str:
        return "string" if name == "part" else COLUMNS.get(name, "float64")

    return "\n".join(f"| `{name}` | {kind(name)} | {about.replace('|', '/')} |" for name, about in columns.items())
