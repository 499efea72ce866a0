"""Export of tables, projections and figures to files, written atomically."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.projection.projecting import Projection
from ..analysis.row_values import usable
from ..analysis.similarity.nearest_rows import all_neighbours
from ..errors import HfposembError, require
from ..files import complete_file
from ..tables.saved.writing import ENDINGS as ENDINGS
from ..tables.saved.writing import PROJECTOR as PROJECTOR
from ..tables.saved.writing import WRITERS as WRITERS
from ..tables.saved.writing import check_ending as check_ending
from ..tables.saved.writing import classes_of, in_utf8, load_arrow, stated_facts, write_columns
from ..tables.saved.writing import safe_cell as safe_cell
from ..tables.saved.writing import write_table as write_table
from ..tables.table import EmbeddingTable, all_rows, table_of
from ..text import display

if TYPE_CHECKING:
    import plotly.graph_objects as go

AXES = ("x", "y", "z")

NEIGHBOURS = 15
"""Number of nearest rows stored for each row in a parquet file of a projection."""


def write_projection(projection: Projection, table: EmbeddingTable, path: Path) -> None:
    """Write a projection of a table like ``write_table``, with the columns ``x``, ``y`` and, in 3-D, ``z``.

    In ``.parquet`` files the columns are ``row``, ``text``, ``class``, ``x``, ``y``, ``z`` and ``neighbors``, a struct
    of ``ids`` and ``distances``: the 15 nearest rows by cosine in the table itself, as row indices of the file. Apple's
    Embedding Atlas expects these names.

    Args:
        projection: The projection.
        table: The table that was projected.
        path: File to write.
    """
    points = table_of(
        projection.coordinates,
        name=f"{table.name} by {projection.method}",
        provenance=replace(table.provenance.saved or table.provenance, notes=(repr(projection),)),
        named=lambda: table.labels.take(projection.rows),
    )
    if path.suffix != ".parquet":
        write_columns(points, path, AXES[: projection.dims])
        return
    with complete_file(path) as file:
        _write_atlas(points, projection.rows, table, file)


def write_figure(figure: go.Figure, path: Path, *, width: int = 1000, height: int = 700) -> None:
    """Write a figure as self-contained ``.html``, ``.json``, ``.png``, ``.svg`` or ``.pdf``.

    Images need the extra ``export`` and Chrome or Chromium.

    Args:
        figure: The figure.
        path: File to write.
        width: Width of an image in pixels; PNG files have twice as many, for sharp print.
        height: Height of an image in pixels, likewise.

    Raises:
        InputError: If the path has another ending.
        MissingExtraError: If the format needs a package that is not installed.
        HfposembError: If the figure cannot be drawn or the file cannot be written.
    """
    ending = path.suffix
    check_ending(path, FIGURE_ENDINGS)
    if ending == ".html":
        content = figure.to_html(include_plotlyjs=True, full_html=True, auto_play=False).encode()
    elif ending == ".json":
        content = figure.to_json().encode()
    else:
        content = _picture(figure, ending[1:], width=width, height=height)
    with complete_file(path) as file:
        file.write(content)


def _write_atlas(points: EmbeddingTable, rows: NDArray[np.int64], table: EmbeddingTable, file: IO[bytes]) -> None:
    arrow = load_arrow()
    classes = classes_of(table)
    ids, distances = _nearest(table, rows)
    columns = {
        "row": arrow.array(rows),
        "text": arrow.array(in_utf8(points), arrow.string()),
        "class": arrow.array([classes[row] for row in rows], arrow.string()),
        **{name: arrow.array(all_rows(points)[:, at]) for at, name in enumerate(AXES[: points.shape[1]])},
        "neighbors": arrow.StructArray.from_arrays([ids, distances], ["ids", "distances"]),
    }
    arrow.parquet.write_table(arrow.table(columns).replace_schema_metadata(stated_facts(points)), file)


def _nearest(table: EmbeddingTable, rows: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the nearest of some rows for each of them, and their distances, as arrow lists.

    A row without a direction has none.
    """
    arrow = load_arrow()
    kept = table_of(all_rows(table)[rows], name=table.name, provenance=table.provenance)
    counts = np.zeros(len(rows), np.int32)
    ids, distances = np.empty(0, np.int64), np.empty(0, np.float32)
    if usable(kept, "cosine").sum() > 1:
        near = all_neighbours(kept, k=NEIGHBOURS)
        counts[near.rows] = near.indices.shape[1]
        ids, distances = near.indices.reshape(-1), (1 - near.values).astype(np.float32).reshape(-1)
    ends = arrow.array(np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)]))
    return (
        arrow.ListArray.from_arrays(ends, arrow.array(ids)),
        arrow.ListArray.from_arrays(ends, arrow.array(distances)),
    )


PICTURE_SECONDS = 90.0
"""Time in which a browser draws a figure: a few seconds are usual, but now and then one never answers."""

# Without MathJax, which kaleido fetches from a network: no label is mathematics, and a token may well be "$x$".
_DRAW = """
import json, sys, kaleido
try:
    drawn = kaleido.calc_fig_sync(**json.load(sys.stdin), kopts={"mathjax": False})
except Exception as error:
    sys.stdout.buffer.write(str(error).encode())
    sys.exit(1)
sys.stdout.buffer.write(drawn)
"""


def _drawn(request: bytes) -> tuple[int, bytes]:
    """Return the exit code of a process that draws a figure, and the picture; if it failed, why."""
    places = os.pathsep.join(place for place in sys.path if os.path.isabs(place))
    # What a browser leaves goes with the folder. The answer is a file: who outlives its parent would hold a pipe open.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answer = Path(folder, "drawn")
        with answer.open("wb") as file:
            ended = subprocess.run(
                [sys.executable, "-P", "-c", _DRAW],
                input=request,
                stdout=file,
                stderr=subprocess.DEVNULL,
                timeout=PICTURE_SECONDS,
                env=os.environ | {"PYTHONPATH": places} | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder),
                start_new_session=True,
            )
        return ended.returncode, answer.read_bytes()


def _picture(figure: go.Figure, kind: str, *, width: int, height: int) -> bytes:
    """Draw a figure in a child process, since kaleido itself bounds neither the browser's start nor its end."""
    require("kaleido", extra="export", purpose=f"writing a figure as {kind.upper()}")
    options = {"format": kind, "width": width, "height": height, "scale": 2 if kind == "png" else 1}
    request = f'{{"fig": {figure.to_json()}, "opts": {json.dumps(options)}}}'
    try:
        code, drawn = _drawn(request.encode())
        said = drawn.decode("utf-8", "replace") or "the process that draws it ended"
    except subprocess.TimeoutExpired:
        code, said = 1, f"the browser did not answer within {PICTURE_SECONDS:.0f} s, so try again"
    except OSError as error:
        code, said = 1, str(error)
    if code != 0:
        raise HfposembError(
            f"the figure could not be written as {kind.upper()}, which needs Chrome or Chromium on PATH: "
            f"{display(said, width=200)}; write .html instead, which needs no browser"
        )
    return drawn


FIGURE_ENDINGS = (".html", ".json", ".png", ".svg", ".pdf")
"""Endings of files of figures."""
