"""Tables that are written and opened again: the same numbers, labels and provenance; hostile files in one line."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import hfposemb as hpe
from hfposemb.checkpoints.limits import Limits
from hfposemb.errors import InputError
from hfposemb.reports.export import ENDINGS, write_projection, write_table

WORDS = ("=1", "+x", "'", "''", "a\x00", "x\ny", "", '"q"', "\ttab", "king", " king", "7", "(empty", "é", "\u202e", "w")


def _wild(kind: str) -> hpe.EmbeddingTable:
    """Numbers of every size, those that are none, and labels that a spreadsheet or shell would take for something."""
    rng, most = np.random.default_rng(0), {"f2": 3, "f4": 36, "f8": 300}[kind]
    made = (rng.standard_normal((16, 7)) * 10.0 ** rng.integers(-most, most, (16, 7))).astype(kind)
    made[0, :5] = [np.nan, np.inf, -np.inf, -0.0, 0]
    made[1, :3] = [np.finfo(kind).max, np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal]
    return hpe.from_arrays(token=made, labels=WORDS).token


TABLES: dict[str, Callable[[], hpe.EmbeddingTable]] = {
    "words": lambda: hpe.extract("sample:bert").token,
    "pieces that differ from their labels": lambda: hpe.extract("sample:gpt2").token,
    "positions": lambda: hpe.extract("sample:bert").position.table,
    "closed form": lambda: hpe.sinusoidal(64, 16).position.table,
    "some rows": lambda: hpe.extract("sample:gpt2").token.pick(["queen", 7, "king"]),
    "short float64": lambda: hpe.from_arrays(token=np.array([[1.0, 123456789.0], [0.1, 2.0]])).token,
    **{kind: lambda kind=kind: _wild(kind) for kind in ("f2", "f4", "f8")},
}
EXACT = (".npz", ".safetensors", ".parquet")
"""Formats that hold everything."""


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_opens_again(tmp_path: Path, name: str, ending: str) -> None:
    table, path = TABLES[name](), tmp_path / f"saved{ending}"
    table.save(path)
    found = hpe.extract(str(path)).token
    assert found.dtype == table.dtype
    bits = {4: np.uint32, 8: np.uint64}[table.dtype.itemsize]
    assert np.array_equal(np.asarray(found).view(bits), np.asarray(table).view(bits))
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.rows(1, 2), table.rows(1, 2), equal_nan=True)
    assert list(again.labels) == list(found.labels)
    if ending in (*EXACT, ".csv"):
        assert found.labels.texts == table.labels.texts
    if ending in EXACT:
        assert found.labels.pieces == table.labels.pieces
        assert found.labels.classes.tolist() == table.labels.classes.tolist()
        assert found.labels.note == table.labels.note
        assert found.provenance.saved == table.provenance
        found.save(path.with_stem("second"))
        second = hpe.extract(path.with_stem("second")).token
        assert second.provenance.saved == table.provenance, "it came from there, however often it was saved"
    if ending == ".tsv" and name == "words":
        assert list(found.labels) == list(table.labels)
        assert found.labels.classes.tolist() == table.labels.classes.tolist()


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_map_opens_again(tmp_path: Path, ending: str) -> None:
    words = hpe.extract("sample:bert").token.pick(range(300, 400))
    points = hpe.project(words, dims=3)
    write_projection(points, words, tmp_path / f"map{ending}")
    found = hpe.extract(tmp_path / f"map{ending}").token
    assert np.array_equal(found, points.coordinates)
    assert ending == ".npy" or list(found.labels) == [words.labels[row] for row in points.rows]
    if ending in EXACT:
        assert found.provenance.saved is not None
        assert found.provenance.saved.source == "sample:bert"
        assert "pca" in found.provenance.saved.notes[0]


@pytest.mark.parametrize(
    "lines", ["0.5,1\n2,3\n", "word,a,b\nx,0.5,1\ny,2,3\n", ",0,1\nx,0.5,1\ny,2,3\n", "x,0.5,1\ny,2,3"]
)
def test_columns_of_others_open(tmp_path: Path, lines: str) -> None:
    for name, text in (("t.csv", lines), ("t.tsv", lines.replace(",", "\t"))):
        (tmp_path / name).write_text(text)
        found = hpe.extract(tmp_path / name).token
        assert found.vectors.tolist() == [[0.5, 1], [2, 3]]
        assert list(found.labels) == (["x", "y"] if "x" in lines else ["0", "1"])


def test_lists_of_others_open(tmp_path: Path) -> None:
    columns = {"id": [1, 2], "token": ["yes", "no"], "embedding": [[0.5, 1.0], [2.0, 3.0]]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = hpe.extract(tmp_path / "t.parquet").token
    assert (found["no"].tolist(), found.dtype) == ([2, 3], np.float64)


@pytest.mark.usefixtures("forked")
def test_labels_that_metadata_cannot_hold_are_refused(tmp_path: Path) -> None:
    long = hpe.from_arrays(token=np.eye(11, 2), labels=["x" * 1_000_000] * 11).token
    with pytest.raises(InputError, match=r"metadata may have 10,000,000; write \.parquet"):
        write_table(long, tmp_path / "t.safetensors")
    write_table(long, tmp_path / "t.parquet")
    assert hpe.extract(tmp_path / "t.parquet").token.labels[10] == "x" * 1_000_000


def _parquet(**columns: Any) -> Callable[[Path], object]:
    return lambda path: pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _repeated(path: Path) -> None:
    """Write a small file whose labels take 40 GB, one long text for every row."""
    text = pyarrow.DictionaryArray.from_arrays(np.zeros(40_000, np.int32), ["x" * 1_000_000])
    vectors = pyarrow.FixedSizeListArray.from_arrays(np.zeros(80_000, np.float32), 2)
    pyarrow.parquet.write_table(pyarrow.table({"text": text, "vector": vectors}), path)


HOSTILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no vectors": ("t.parquet", _parquet(a=[1, 2], b=["x", "y"])),
    "several columns of vectors": ("t.parquet", _parquet(a=[[1.0]], b=[[2.0]])),
    "vectors of one length": ("t.parquet", _parquet(vector=[[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]])),
    "without a vector": ("t.parquet", _parquet(vector=[[1.0, 2.0], None])),
    "without missing numbers": ("t.parquet", _parquet(vector=[[1.0, None], [1.0, 2.0]])),
    "not a parquet file": ("t.parquet", lambda path: path.write_bytes(b"PAR1" + bytes(40) + b"PAR1")),
    "the limit is 1,000 of them": ("t.parquet", _parquet(vector=[[1.0]] * 1001)),
    "labels of 40,000,000,000 characters": ("t.parquet", _repeated),
    "row 2 must hold numbers": ("t.csv", lambda path: path.write_text("1,2\n3,=cmd()\n")),
    "has 1 numbers in row 2": ("t.csv", lambda path: path.write_text("1,2\n3\n")),
    "not a text in UTF-8": ("t.csv", lambda path: path.write_bytes(b"1,2\n\xff\xfe,3\n")),
    "holds no table": ("t.csv", lambda path: path.write_text("")),
    "rows of 2 numbers; the limit": ("t.tsv", lambda path: path.write_text("1\t2\n" * 1001)),
    "and 50 numbers each": ("t.csv", lambda path: path.write_text(",".join("1" * 51))),
    "bytes; the limit is 1,000,000": ("t.csv", lambda path: path.write_text("1,2\n" * 300_000)),
}


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("said", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, said: str) -> None:
    name, make = HOSTILE[said]
    make(tmp_path / name)
    large = said.startswith("labels")
    limits = Limits() if large else Limits(rows=1000, columns=50, table_bytes=1_000_000)
    with pytest.raises(hpe.HfposembError) as error:
        hpe.extract(tmp_path / name, limits=limits)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


LIES: dict[str, dict[str, object]] = {
    "labels of other rows": {"labels": '["only one"]'},
    "labels that are no texts": {"labels": "[1, 2, 3, 4]"},
    "classes that do not exist": {"labels": '["a", "b", "c", "d"]', "classes": "0129"},
    "provenance with a field of its own": {"provenance": json.dumps({"source": "x", "reader": "os.system"})},
    "provenance on several lines": {"provenance": json.dumps({"source": "x\n\x1b[31m"})},
    "a number that is none": {"provenance": '{"source": "x", "nbytes": NaN}'},
    "no text": {"provenance": 7, "labels": [1]},
    "nested": {"provenance": "[" * 100_000, "labels": "[" * 100_000},
}


@pytest.mark.parametrize("name", LIES)
def test_facts_that_are_wrong_are_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, vectors=np.eye(4))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("facts.json", json.dumps(LIES[name]))
    found = hpe.extract(path)
    assert found.token.provenance.saved is None
    assert found.token.labels.classes.tolist() == [0] * 4
    assert len(found.token.labels) == 4


@pytest.mark.usefixtures("forked")
def test_random_damage_never_fails_otherwise(tmp_path: Path) -> None:
    table = hpe.from_arrays(token=np.eye(6, 4), labels=list("abcdef")).token
    rng = np.random.default_rng(0)
    for ending in (".parquet", ".csv", ".tsv", ".npz", ".npy"):
        table.save(tmp_path / f"t{ending}")
        whole = (tmp_path / f"t{ending}").read_bytes()
        for turn in range(25 if ending == ".parquet" else 200):  # each in a process of its own
            damaged = bytearray(whole)
            for place in rng.integers(0, len(whole), 3):
                damaged[place] = rng.integers(256)
            path = tmp_path / f"{turn}{ending}"
            path.write_bytes(damaged[: rng.integers(1, len(whole))] if turn % 3 == 0 else damaged)
            said = ""
            try:
                found = hpe.extract(path).token
                _ = found.vectors, found.labels
            except hpe.HfposembError as error:
                said = str(error)
            assert "\n" not in said
