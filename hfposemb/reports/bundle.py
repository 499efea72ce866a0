"""A comparison as a zip archive: its page, its numbers, and a manifest that states the origin of every number."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..analysis.projection.cached_results import library_version
from ..comparison.alignment import Alignment
from ..comparison.results import Comparison
from ..errors import InputError
from ..files import complete_file
from ..models.summary import table_facts
from ..progress import Report
from ..tables.tabular import Columns, columns_of
from .export import safe_cell
from .json_schema import SCHEMAS, document
from .report import report
from .report_sections import LIBRARIES, SEED

if TYPE_CHECKING:
    from ..tables.embeddings import Embeddings

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the manifest; incremented when something in it changes its meaning."""

_OF_PAIR = ("role", "left", "right", "rows", "shared")
_DATE = (1980, 1, 1, 0, 0, 0)  # constant, so that the same inputs give the same bytes


def write_bundle(
    comparison: Comparison, sources: Sequence[Embeddings], path: Path, *, progress: Report | None = None
) -> None:
    """Write a comparison to a ``.zip`` archive, atomically.

    It holds ``report.html``, which opens offline; ``comparison.json`` with its ``schema.json``; ``metrics.csv`` and
    ``pairs.csv``, with one number per line and its chance interval; and ``manifest.json``: sources, commits, tensors,
    hashes of every table, seeds, versions, and size and hash of every file.

    Args:
        comparison: The comparison.
        sources: Its sources in order, each reduced to the part that was compared.
        path: File that ends in ``.zip``; an existing one is replaced.
        progress: Callback for the fraction done, 0 to 1, and the current step.

    Raises:
        InputError: If the path has another ending, or the sources are not those of the comparison.
        MissingExtraError: If plotly is not installed.
        HfposembError: If the file cannot be written.
    """
    if path.suffix != ".zip":
        raise InputError(f"a comparison is written as an archive; {path.name} must end in .zip")
    members = {
        "report.html": report(*sources, comparison=comparison, progress=progress).encode(),
        "comparison.json": _json(document(comparison)),
        "schema.json": _json(SCHEMAS["compare"]),
        "metrics.csv": _csv(comparison.columns()),
        "pairs.csv": _csv(_pairs(comparison)),
    }
    members[MANIFEST] = _json(manifest(comparison, sources, members))
    with complete_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)


def manifest(comparison: Comparison, sources: Sequence[Embeddings], members: dict[str, bytes]) -> dict[str, Any]:
    """Return the origin of every number in an archive as JSON-compatible values.

    Args:
        comparison: The comparison.
        sources: Its sources in order.
        members: Content of the archive's other files by name.
    """
    nulls = comparison.nulls
    return {
        "format": FORMAT,
        "sources": [
            {
                "name": source.name,
                "tables": {
                    role: {"sha256": table.digest, **table_facts(table)} for role, table in source.tables.items()
                },
                "positions": {part: one.kind for part, one in source.positions.items()},
                "notes": list(source.notes),
            }
            for source in sources
        ],
        "words": list(comparison.words),
        "seeds": sorted({SEED, *(null.seed for null in nulls)}),
        "draws": sorted({null.draws for null in nulls}),
        "versions": {
            "hfposemb": __version__,
            "python": platform.python_version(),
            **{name: library_version(name) for name in LIBRARIES},
        },
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in members.items()
        },
    }


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _pairs(comparison: Comparison) -> Columns:
    """Return one row per pair and measure; without pairs, the names of the columns alone."""
    pairs = (Alignment("", "", "", {}, 0, 0, 0), *comparison.pairs)
    found = [columns_of([pair] * len(pair.observed), *_OF_PAIR) | pair.columns() for pair in pairs]
    return {name: [value for one in found for value in one[name]] for name in found[0]}


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(columns)
    rows = zip(*columns.values(), strict=True)
    lines.writerows([safe_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")
