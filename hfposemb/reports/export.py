"""Export of tables, projections and figures to files, written atomically."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.projection.projecting import Projection
from ..analysis.row_values import usable
from ..analysis.similarity.nearest_rows import all_neighbours
from ..errors import HfposembError, InputError, MissingExtraError
from ..files import complete_file
from ..guesses import did_you_mean
from ..tables.table import TOKEN_CLASSES, EmbeddingTable, all_rows, table_of, walk
from ..text import display

if TYPE_CHECKING:
    import plotly.graph_objects as go

AXES = ("x", "y", "z")

NEIGHBOURS = 15
"""Number of nearest rows stored for each row in a parquet file of a projection."""

LABEL_BYTES = 2**28
"""Maximum size of the array of labels in an .npz file, where every label takes the space of the longest."""

PROJECTOR = "projector_config.pbtxt"
_OURS = "# Written by hfposemb for the TensorBoard Embedding Projector: every pair of files in this folder.\n"

_RISKY = ("=", "+", "-", "@", "\t", "\r", "'")


def write_table(table: EmbeddingTable, path: str | Path) -> None:
    """Write a table in the format given by the file's ending, so that ``hpe.extract`` opens it again where it is said.

    - ``.safetensors``: one tensor, ``vectors``, with labels and provenance in the metadata; ``hpe.extract`` opens it.
    - ``.npy``, ``.npz``: the vectors; in the latter also ``labels`` and ``provenance``, as JSON; ``hpe.extract`` opens
      both.
    - ``.parquet``: columns ``row``, ``text``, ``class`` and ``vector``, provenance in the metadata.
    - ``.csv``: a column ``label`` and one for each dimension.
    - ``.tsv``: the vectors only, plus ``NAME.metadata.tsv`` with ``label``, ``row`` and ``class``, and a
      ``projector_config.pbtxt``, for ``tensorboard --logdir FOLDER`` and for the Embedding Projector.

    Files are written atomically; an existing file is replaced.

    Args:
        table: Table [n, d].
        path: File to write.

    Raises:
        InputError: If the path has another ending, or the format cannot hold the table.
        MissingExtraError: If the format needs a package that is not installed.
        HfposembError: If the file cannot be written.

    Examples:
        >>> import hfposemb as hpe
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hpe.write_table(hpe.extract("sample:bert").token, f"{folder}/bert.npz")
        ...     print(hpe.extract(f"{folder}/bert.npz").token.row("king"))
        198
    """
    path = Path(path)
    _write(table, path, tuple(map(str, range(table.shape[1]))))


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
    if path.suffix == ".parquet":
        with complete_file(path) as file:
            _write_atlas(projection, table, file)
        return
    provenance = {**asdict(table.provenance), "notes": [repr(projection)]}
    points = table_of(
        projection.coordinates,
        name=f"{table.name} by {projection.method}",
        provenance=type(table.provenance)(**provenance),
        named=lambda: table.labels.take(projection.rows),
    )
    _write(points, path, AXES[: projection.dims])


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


def check_ending(path: Path, endings: Collection[str]) -> None:
    """Raise ``InputError`` unless a path has one of some endings.

    Examples:
        >>> from pathlib import Path
        >>> from hfposemb.reports.export import ENDINGS, check_ending
        >>> check_ending(Path("table.npy"), ENDINGS)
    """
    if path.suffix not in endings:
        near = did_you_mean(path.suffix, endings)
        raise InputError(f"{path.name} must end in {', '.join(endings)}; the suffix sets the format{near}")


def safe_cell(text: str) -> str:
    """Return a text that a spreadsheet does not execute as a formula.

    Texts that begin with ``= + - @``, tab or carriage return get a leading ``'``, and so do texts that begin with
    ``'``, so that removing one leading ``'`` restores the original.

    Examples:
        >>> from hfposemb.reports.export import safe_cell
        >>> safe_cell("=1+1"), safe_cell("king")
        ("'=1+1", 'king')
    """
    return f"'{text}" if text.startswith(_RISKY) else text


def _write(table: EmbeddingTable, path: Path, columns: tuple[str, ...]) -> None:
    if path.suffix == ".tsv":
        _write_projector(table, path)
        return
    check_ending(path, ENDINGS)
    with complete_file(path) as file:
        WRITERS[path.suffix](table, file, columns)


def _metadata(table: EmbeddingTable) -> dict[str, str]:
    return {"provenance": json.dumps(asdict(table.provenance)), "writer": "hfposemb"}


def _classes(table: EmbeddingTable) -> list[str]:
    """Return the token class of each row; empty strings if rows have no names."""
    if table.named is None:
        return [""] * table.shape[0]
    return [TOKEN_CLASSES[value] for value in table.labels.classes.tolist()]


def _write_safetensors(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...]) -> None:
    rows, width = table.shape
    kind = "F64" if table.dtype == np.float64 else "F32"
    metadata = {"labels": json.dumps(list(table.labels), ensure_ascii=True), **_metadata(table)}
    end = rows * width * table.dtype.itemsize
    tensor = {"dtype": kind, "shape": [rows, width], "data_offsets": [0, end]}
    header = json.dumps({"__metadata__": metadata, "vectors": tensor}).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little") + header)
    for _, vectors in walk(table):
        file.write(np.ascontiguousarray(vectors).data)


def _write_npy(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...] = ()) -> None:
    description = {"descr": table.dtype.str, "fortran_order": False, "shape": table.shape}
    np.lib.format.write_array_header_1_0(file, description)
    for _, vectors in walk(table):
        file.write(np.ascontiguousarray(vectors).data)


def _write_npz(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...]) -> None:
    longest = max(map(len, table.labels), default=0)
    if 4 * longest * len(table.labels) > LABEL_BYTES:
        raise InputError(
            f"the longest label of {table.name} has {longest:,} characters, too many for an array; "
            "write .safetensors or .parquet"
        )
    provenance = np.array(json.dumps(asdict(table.provenance)))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as members:
        for name, array in (("labels", np.array(list(table.labels), dtype=np.str_)), ("provenance", provenance)):
            with members.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        with members.open("vectors.npy", "w", force_zip64=True) as member:
            _write_npy(table, member)


def _write_parquet(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...]) -> None:
    arrow = _arrow()
    kind = arrow.float64() if table.dtype == np.float64 else arrow.float32()
    fields = [("row", arrow.int64()), ("text", arrow.string()), ("class", arrow.string())]
    schema = arrow.schema([*fields, ("vector", arrow.list_(kind, table.shape[1]))], metadata=_metadata(table))
    texts, classes = _utf8(table), _classes(table)
    with arrow.parquet.ParquetWriter(file, schema) as writer:
        for start, vectors in walk(table):
            stop = start + len(vectors)
            flat = arrow.array(np.ascontiguousarray(vectors).reshape(-1), kind)
            columns = [
                arrow.array(np.arange(start, stop)),
                arrow.array(texts[start:stop], arrow.string()),
                arrow.array(classes[start:stop], arrow.string()),
                arrow.FixedSizeListArray.from_arrays(flat, table.shape[1]),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _write_atlas(projection: Projection, table: EmbeddingTable, file: IO[bytes]) -> None:
    arrow = _arrow()
    labels, classes, rows = _utf8(table), _classes(table), projection.rows
    ids, distances = _nearest(table, rows)
    columns = {
        "row": arrow.array(rows),
        "text": arrow.array([labels[row] for row in rows], arrow.string()),
        "class": arrow.array([classes[row] for row in rows], arrow.string()),
        **{name: arrow.array(projection.coordinates[:, at]) for at, name in enumerate(AXES[: projection.dims])},
        "neighbors": arrow.StructArray.from_arrays([ids, distances], ["ids", "distances"]),
    }
    said = {**_metadata(table), "projection": repr(projection)}
    arrow.parquet.write_table(arrow.table(columns).replace_schema_metadata(said), file)


def _nearest(table: EmbeddingTable, rows: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return the nearest of some rows for each of them, and their distances, as arrow lists.

    A row without a direction has none.
    """
    arrow = _arrow()
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


def _utf8(table: EmbeddingTable) -> list[str]:
    """Return the labels with lone surrogates of broken vocabularies replaced, as they cannot be encoded in UTF-8."""
    return [text.encode("utf-8", "replace").decode() for text in table.labels]


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="export", purpose="writing a parquet file") from error
    return pyarrow


def _write_projector(table: EmbeddingTable, path: Path) -> None:
    """Write a pair of files for the Embedding Projector, and the list of all such pairs in the folder."""
    config = path.with_name(PROJECTOR)
    if config.exists() and not config.read_bytes().startswith(_OURS.encode()):
        raise InputError(f"{config} was written by another program and would be overwritten; choose another folder")
    beside = path.with_name(f"{path.stem}.metadata.tsv")
    with complete_file(beside) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        text.write("label\trow\tclass\n")
        for row, (label, of) in enumerate(zip(table.labels, _classes(table), strict=True)):
            text.write(f"{display(label, width=200) or '(empty)'}\t{row}\t{of}\n")
        text.detach()
    with complete_file(path) as file:
        for _, vectors in walk(table):
            np.savetxt(file, vectors, fmt=_digits(table), delimiter="\t")
    pairs = [one for one in sorted(path.parent.glob("*.tsv")) if one.with_name(f"{one.stem}.metadata.tsv").exists()]
    with complete_file(config) as file:
        file.write(_OURS.encode())
        for one in pairs:
            name, metadata = (json.dumps(text) for text in (one.name, f"{one.stem}.metadata.tsv"))
            entry = f"tensor_name: {json.dumps(one.stem)} tensor_path: {name} metadata_path: {metadata}"
            file.write(f"embeddings {{ {entry} }}\n".encode())


def _digits(table: EmbeddingTable) -> str:
    """Return the format with the fewest digits that restores every number exactly."""
    return "%.17g" if table.dtype == np.float64 else "%.9g"


def _picture(figure: go.Figure, kind: str, *, width: int, height: int) -> bytes:
    try:
        import kaleido  # noqa: F401 - gives our own error message instead of plotly's
    except ImportError as error:
        raise MissingExtraError("kaleido", extra="export", purpose=f"writing a figure as {kind.upper()}") from error
    try:
        made: bytes = figure.to_image(format=kind, width=width, height=height, scale=2 if kind == "png" else 1)
    except (RuntimeError, OSError, ValueError) as error:
        raise HfposembError(
            f"the figure could not be written as {kind.upper()}, which needs Chrome or Chromium on PATH: "
            f"{display(str(error), width=200)}; write .html instead, which needs no browser"
        ) from error
    return made


def _write_csv(table: EmbeddingTable, file: IO[bytes], columns: tuple[str, ...]) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(["label", *columns])
    digits = _digits(table)
    for start, vectors in walk(table):
        for row, vector in enumerate(vectors, start):
            writer.writerow([safe_cell(table.labels[row]), *(digits % value for value in vector.tolist())])
    text.detach()


WRITERS: Mapping[str, Callable[[EmbeddingTable, IO[bytes], tuple[str, ...]], Any]] = {
    ".safetensors": _write_safetensors,
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".parquet": _write_parquet,
    ".csv": _write_csv,
}
"""Functions that write a table, with its columns' names, to one file, by ending."""

ENDINGS = (*WRITERS, ".tsv")
"""Endings of files of tables and projections."""

FIGURE_ENDINGS = (".html", ".json", ".png", ".svg", ".pdf")
"""Endings of files of figures."""
