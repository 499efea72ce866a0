"""Tables written to files that ``extract`` opens again, atomically."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...errors import InputError, require
from ...files import complete_file
from ...guesses import did_you_mean
from ...text import display
from ..table import TOKEN_CLASSES, EmbeddingTable, Labels, Provenance, walk

METADATA_BYTES = 10_000_000
"""Maximum size of the metadata of a file, as JSON."""

_LONGEST = 4096
_MOST_NOTES = 100


def stated_facts(table: EmbeddingTable) -> dict[str, str]:
    """Return labels and provenance of a table as texts by key, all in ASCII; ``read_labels`` and others read them.

    Args:
        table: Table [n, d].
    """
    labels = table.labels
    facts = {"labels": _json(labels.texts)}
    if labels.pieces != labels.texts:
        facts["pieces"] = _json(labels.pieces)
    if labels.classes.any():
        facts["classes"] = "".join(map(str, labels.classes.tolist()))
    if labels.note:
        facts["note"] = labels.note
    kept = asdict(table.provenance.saved or table.provenance)
    del kept["saved"]
    return {**facts, "provenance": json.dumps(kept), "writer": "hfposemb"}


def _json(texts: tuple[str, ...]) -> str:
    return json.dumps(texts, separators=(",", ":"))


def read_labels(facts: Mapping[str, str], rows: int) -> Labels | None:
    """Return the labels of a table; ``None`` if there are none that fit its rows.

    Args:
        facts: Texts by key, as ``stated_facts`` returns them; they come from a file and may be anything.
        rows: Number of rows.
    """
    texts = _texts(facts.get("labels"), rows)
    if texts is None:
        return None
    said = facts.get("classes", "")
    known = len(said) == rows and set(said) <= {str(one) for one in range(len(TOKEN_CLASSES))}
    classes = np.frombuffer(said.encode(), np.uint8) - ord("0") if known else np.zeros(rows, np.uint8)
    return Labels(texts, _texts(facts.get("pieces"), rows) or texts, classes, facts.get("note", "")[:_LONGEST])


def _texts(said: str | None, rows: int) -> tuple[str, ...] | None:
    found = _parsed(said)
    if not isinstance(found, list) or len(found) != rows or not all(isinstance(one, str) for one in found):
        return None
    return tuple(found)


def read_provenance(facts: Mapping[str, str]) -> Provenance | None:
    """Return the provenance of a table when it was saved; ``None`` if the file states none that is well-formed.

    Args:
        facts: Texts by key, as for ``read_labels``.
    """
    found = _parsed(facts.get("provenance"))
    if not isinstance(found, dict) or not set(found) <= {one.name for one in fields(Provenance)} - {"saved"}:
        return None
    notes = found.pop("notes", [])
    texts = {"source": str, "commit": str, "file": str, "tensor": str, "stored_dtype": str}
    kinds: dict[str, Any] = {**texts, **dict.fromkeys(("nbytes", "file_bytes", "row_offset"), int)}
    optional = ("commit", "file", "tensor", "file_bytes")
    if not isinstance(notes, list) or len(notes) > _MOST_NOTES or not isinstance(found.get("source"), str):
        return None
    for name, value in found.items():
        if value is None and name in optional:
            continue
        if type(value) is not kinds[name] or (kinds[name] is int and not 0 <= value < 2**63):
            return None
    words = [*notes, *(value for value in found.values() if isinstance(value, str))]
    if not all(isinstance(one, str) and len(one) <= _LONGEST and one.isprintable() for one in words):
        return None
    return Provenance(**found, notes=tuple(notes))


def _parsed(said: str | None) -> object:
    try:
        return None if said is None else json.loads(said, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> object:
    raise ValueError(constant)


FACTS = "facts.json"
"""Member of an .npz archive with what ``stated_facts`` returns."""

LABEL_BYTES = 2**28
"""Maximum size of the array of labels in an .npz file, where every label takes the space of the longest."""

PROJECTOR = "projector_config.pbtxt"
NO_LABEL = "(empty)"
"""What the Embedding Projector shows for an empty label."""

_OURS = "# Written by hfposemb for the TensorBoard Embedding Projector: every pair of files in this folder.\n"

_RISKY = ("=", "+", "-", "@", "\t", "\r", "'")


def write_table(table: EmbeddingTable, path: str | Path) -> None:
    """Write a table in the format given by the file's ending, from which ``hpe.extract`` opens it again.

    All numbers are the same then, to the last bit, and so are the labels that a format can hold.

    - ``.safetensors``: one tensor, ``vectors``, with labels and provenance in the metadata.
    - ``.npz``: arrays ``vectors``, ``labels`` and ``provenance``, as JSON, and all facts in ``facts.json``.
    - ``.parquet``: columns ``row``, ``text``, ``class`` and ``vector``; all facts in the metadata.
    - ``.npy``: the vectors only.
    - ``.csv``: a column ``label`` and one for each dimension; no provenance.
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
    write_columns(table, path, tuple(map(str, range(table.shape[1]))))


def check_ending(path: Path, endings: Collection[str]) -> None:
    """Raise ``InputError`` unless a path has one of some endings.

    Examples:
        >>> from pathlib import Path
        >>> from hfposemb.tables.saved.writing import ENDINGS, check_ending
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
        >>> from hfposemb.tables.saved.writing import safe_cell
        >>> safe_cell("=1+1"), safe_cell("king")
        ("'=1+1", 'king')
    """
    return f"'{text}" if text.startswith(_RISKY) else text


def cell_text(cell: str) -> str:
    """Return the text that ``safe_cell`` made a cell of.

    Examples:
        >>> from hfposemb.tables.saved.writing import cell_text, safe_cell
        >>> cell_text(safe_cell("=1+1")), cell_text("'tis")
        ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_RISKY) else cell


def write_columns(table: EmbeddingTable, path: Path, columns: tuple[str, ...]) -> None:
    """Write a table whose dimensions have names, for formats with a header; see ``write_table``.

    Args:
        table: Table [n, d].
        path: File to write.
        columns: A name for each of the d dimensions.
    """
    if path.suffix == ".tsv":
        _write_projector(table, path)
        return
    check_ending(path, ENDINGS)
    with complete_file(path) as file:
        WRITERS[path.suffix](table, file, columns)


def classes_of(table: EmbeddingTable) -> list[str]:
    """Return the token class of each row; empty strings if rows have no names."""
    if table.named is None:
        return [""] * table.shape[0]
    return [TOKEN_CLASSES[value] for value in table.labels.classes.tolist()]


def _write_safetensors(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...]) -> None:
    rows, width = table.shape
    kind = "F64" if table.dtype == np.float64 else "F32"
    metadata = stated_facts(table)
    if len(json.dumps(metadata)) > METADATA_BYTES:
        metadata.pop("pieces", None)  # the labels are worth more, and of large vocabularies both do not fit
    if (size := len(json.dumps(metadata))) > METADATA_BYTES:
        raise InputError(
            f"the labels of {table.name} take {size:,} bytes; metadata may have {METADATA_BYTES:,}; write .parquet"
        )
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
    import zipfile  # this module also reads what files state, in processes that write none

    longest = max(map(len, table.labels), default=0)
    if 4 * longest * len(table.labels) > LABEL_BYTES:
        raise InputError(
            f"the longest label of {table.name} has {longest:,} characters, too many for an array; "
            "write .safetensors or .parquet"
        )
    facts = stated_facts(table)
    provenance = np.array(facts["provenance"])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as members:
        for name, array in (("labels", np.array(list(table.labels), dtype=np.str_)), ("provenance", provenance)):
            with members.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        with members.open(FACTS, "w") as member:
            member.write(json.dumps(facts).encode())
        with members.open("vectors.npy", "w", force_zip64=True) as member:
            _write_npy(table, member)


def _write_parquet(table: EmbeddingTable, file: IO[bytes], _columns: tuple[str, ...]) -> None:
    arrow = load_arrow()
    kind = arrow.float64() if table.dtype == np.float64 else arrow.float32()
    fields = [("row", arrow.int64()), ("text", arrow.string()), ("class", arrow.string())]
    schema = arrow.schema([*fields, ("vector", arrow.list_(kind, table.shape[1]))], metadata=stated_facts(table))
    texts, classes = in_utf8(table), classes_of(table)
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


def in_utf8(table: EmbeddingTable) -> list[str]:
    """Return the labels with lone surrogates of broken vocabularies replaced, as they cannot be encoded in UTF-8."""
    return [text.encode("utf-8", "replace").decode() for text in table.labels]


def load_arrow(purpose: str = "writing a parquet file") -> Any:
    """Import pyarrow for a purpose. Raises ``MissingExtraError`` if it is not installed."""
    require("pyarrow", extra="export", purpose=purpose)
    import pyarrow
    import pyarrow.parquet

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
        for row, (label, of) in enumerate(zip(table.labels, classes_of(table), strict=True)):
            text.write(f"{display(label, width=200) or NO_LABEL}\t{row}\t{of}\n")
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


def _write_csv(table: EmbeddingTable, file: IO[bytes], columns: tuple[str, ...]) -> None:
    # A lone surrogate, which broken vocabularies have, cannot be encoded.
    text = io.TextIOWrapper(file, "utf-8", "replace", newline="", write_through=True)
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
