"""Files that are written: read back by the real readers, complete or absent."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import hfposemb as hpe
from hfposemb.errors import HfposembError, InputError
from hfposemb.export import WRITERS, safe_cell, write_table

HOSTILE = ("=1+2", "+x", "-x", "@x", "\tx", "\rx", "'x", '"quoted", "text"\n', "<b>", "plain")


@pytest.fixture(params=[np.float32, np.float64])
def table(request: pytest.FixtureRequest) -> hpe.EmbeddingTable:
    vectors = np.random.default_rng(0).normal(size=(len(HOSTILE), 3)).astype(request.param)
    vectors[1, 1] = np.nan
    return hpe.from_arrays(token=vectors, labels=HOSTILE).token


def test_safetensors(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write_table(table, path)
    np.testing.assert_array_equal(load_file(path)["vectors"], table.vectors)
    from safetensors import safe_open

    with safe_open(path, "numpy") as opened:
        assert json.loads(opened.metadata()["labels"]) == list(HOSTILE)
    # What was written can be a source again.
    assert hpe.extract(path).name == str(path)


def test_npy(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    write_table(table, tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), table.vectors)


def test_csv(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    write_table(table, tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["label", "0", "1", "2"]
    assert [row[0].removeprefix("'") for row in rows] == list(HOSTILE)
    assert not [row[0] for row in rows if row[0].startswith(("=", "+", "-", "@", "\t", "\r"))]
    read = np.array([row[1:] for row in rows]).astype(table.dtype)
    np.testing.assert_array_equal(read, table.vectors)


@given(st.text())
def test_safe_cells_can_be_undone(text: str) -> None:
    cell = safe_cell(text)
    assert cell.removeprefix("'") == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("ending", WRITERS)
def test_a_failure_leaves_what_was_there(
    table: hpe.EmbeddingTable, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"t{ending}"
    path.write_text("what was there")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(HfposembError, match="No space left on device; free some space"):
        write_table(table, path)
    assert path.read_text() == "what was there"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_refusals(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.safetensors, \.npy, \.csv"):
        write_table(table, tmp_path / "t.xlsx")
    with pytest.raises(HfposembError, match="cannot write into"):
        write_table(table, tmp_path / "no" / "t.npy")
