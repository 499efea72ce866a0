"""Files that are written: read back by the real readers, complete or absent."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import hfposemb as hpe
from hfposemb.errors import HfposembError, InputError
from hfposemb.figures.named_figures import view
from hfposemb.reports.export import (
    ENDINGS,
    FIGURE_ENDINGS,
    PROJECTOR,
    safe_cell,
    write_figure,
    write_projection,
    write_table,
)
from hfposemb.tables.table import Provenance
from tests.browser.chromium import WHOLE
from tests.conftest import FULL
from tests.support.processes.waiting import unused_port

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
    found = hpe.extract(path).token
    np.testing.assert_array_equal(found, table.vectors)
    assert list(found.labels) == list(HOSTILE)


def test_csv(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    write_table(table, tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["label", "0", "1", "2"]
    assert [row[0].removeprefix("'") for row in rows] == list(HOSTILE)
    assert not [row[0] for row in rows if row[0].startswith(("=", "+", "-", "@", "\t", "\r"))]
    read = np.array([row[1:] for row in rows]).astype(table.dtype)
    np.testing.assert_array_equal(read, table.vectors)


def test_npy_and_npz(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    write_table(table, tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), table.vectors)
    write_table(table, tmp_path / "t.npz")
    read = np.load(tmp_path / "t.npz")
    np.testing.assert_array_equal(read["vectors"], table.vectors)
    assert tuple(read["labels"]) == HOSTILE
    assert Provenance(**{**json.loads(str(read["provenance"])), "notes": ()}) == table.provenance


def test_parquet(table: hpe.EmbeddingTable, tmp_path: Path) -> None:
    import pandas

    write_table(table, tmp_path / "t.parquet")
    frame = pandas.read_parquet(tmp_path / "t.parquet")
    assert list(frame.columns) == ["row", "text", "class", "vector"]
    assert tuple(frame["text"]) == HOSTILE
    np.testing.assert_array_equal(np.stack(frame["vector"].to_list()), table.vectors)
    assert frame["vector"][0].dtype == table.dtype


def test_parquet_of_a_projection_has_the_columns_of_an_atlas(tmp_path: Path) -> None:
    import pandas

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((40, 6)).astype(np.float32)
    vectors[3], vectors[5, 0] = 0, np.nan  # one has no direction, one no place
    labels = [f"word {row}" for row in range(39)] + ["half \ud800 of a character"]
    words = hpe.from_arrays(token=vectors, labels=labels).token
    found = hpe.project(words, dims=3)
    write_projection(found, words, tmp_path / "t.parquet")
    frame = pandas.read_parquet(tmp_path / "t.parquet")
    assert list(frame.columns) == ["row", "text", "class", "x", "y", "z", "neighbors"]
    np.testing.assert_array_equal(frame["row"], found.rows)
    np.testing.assert_array_equal(frame[["x", "y", "z"]], found.coordinates)
    assert frame["text"].to_list()[:-1] == [labels[row] for row in found.rows[:-1]]
    for place, row in enumerate(found.rows):
        near = frame["neighbors"][place]
        if row == 3:
            assert len(near["ids"]) == len(near["distances"]) == 0
            continue
        others = [other for other in found.rows if other not in (3, row)]
        with np.errstate(invalid="ignore"):
            unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        nearest = sorted(others, key=lambda other: -float(unit[row] @ unit[other]))[:15]
        assert [int(found.rows[other]) for other in near["ids"]] == nearest
        np.testing.assert_allclose(near["distances"], [1 - unit[row] @ unit[other] for other in nearest], atol=1e-6)


def test_tensorboard_serves_the_pair(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = ["king", "tab\tand\nbreak", "", "\u202eback", "=1+2", '"quoted"']
    words = hpe.from_arrays(token=rng.standard_normal((6, 4)).astype(np.float32), labels=labels).token
    write_table(words, tmp_path / "words.tsv")
    write_projection(hpe.project(words, dims=2), words, tmp_path / "map.tsv")
    port = unused_port()
    options = f"-m tensorboard.main --port {port} --load_fast=false --logdir".split()
    command = [sys.executable, *options, str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    projector = f"http://127.0.0.1:{port}/data/plugin/projector"

    def ask(path: str) -> bytes:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{projector}/{path}", timeout=10) as said:
                    return bytes(said.read())
            except OSError:
                assert server.poll() is None
                sleep(0.1)
        raise AssertionError("TensorBoard does not answer")

    try:
        until_runs = next(runs for _ in range(300) if (runs := json.loads(ask("runs"))) or sleep(0.1))
        run = until_runs[0]
        listed = {one["tensorName"]: one for one in json.loads(ask(f"info?run={run}"))["embeddings"]}
        assert set(listed) == {"map", "words"}
        assert listed["words"]["tensorShape"] == [6, 4]
        served = np.frombuffer(ask(f"tensor?run={run}&name=words"), np.float32).reshape(6, 4)
        np.testing.assert_array_equal(served, words.vectors)
        metadata = ask(f"metadata?run={run}&name=words").decode().splitlines()
        assert metadata[:2] == ["label\trow\tclass", "king\t0\tword start"]
        assert len(metadata) == 7
        assert all(line.count("\t") == 2 for line in metadata)
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("ending", [one for one in FIGURE_ENDINGS if FULL or one != ".svg"])
def test_figures(ending: str, tmp_path: Path) -> None:
    if ending in (".png", ".svg", ".pdf") and not any(map(shutil.which, WHOLE)):
        pytest.skip("no Chromium was found that kaleido knows; the headless shell alone is none")
    figure = view("similarity", hpe.extract("sinusoidal:16x8"))
    write_figure(figure, tmp_path / f"f{ending}", width=400, height=300)
    content = (tmp_path / f"f{ending}").read_bytes()
    assert content.startswith(
        {".html": b"<!doctype html>", ".json": b"{", ".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}[ending]
    )
    if ending == ".png":
        assert int.from_bytes(content[16:20], "big") == 800
    if ending == ".html":
        assert b'<script src="http' not in content


def test_figures_without_a_browser_or_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = view("similarity", hpe.extract("sinusoidal:16x8"))
    with pytest.raises(InputError, match=r"f\.gif must end in \.html"):
        write_figure(figure, tmp_path / "f.gif")
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(hpe.HfposembError, match=r"a figure as SVG needs the package kaleido: pip install"):
        write_figure(figure, tmp_path / "f.svg")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(hpe.HfposembError, match=r"pip install 'hfposemb\[export\]'"):
        write_table(hpe.extract("sinusoidal:16x8").position.table, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="the browser is a shell script")
def test_a_browser_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "chromium"
    silent.write_text("#!/bin/sh\nexec sleep 8\n")
    silent.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(silent))
    monkeypatch.setattr("hfposemb.reports.export.PICTURE_SECONDS", 4.0)
    figure = view("similarity", hpe.extract("sinusoidal:16x8"))
    with pytest.raises(HfposembError, match=r"did not answer within 4 s, so try again; write \.html instead"):
        write_figure(figure, tmp_path / "f.pdf")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "missing"))
    monkeypatch.setattr("hfposemb.reports.export.PICTURE_SECONDS", 60.0)
    with pytest.raises(HfposembError, match=r"No browser found at BROWSER_PATH=.*missing.*; write \.html instead"):
        write_figure(figure, tmp_path / "f.pdf")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(HfposembError, match=r"No such file.*; write \.html instead"):
        write_figure(figure, tmp_path / "f.pdf")
    assert list(tmp_path.iterdir()) == [silent]


@given(st.text())
def test_safe_cells_can_be_undone(text: str) -> None:
    cell = safe_cell(text)
    assert cell.removeprefix("'") == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("ending", ENDINGS)
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
    with pytest.raises(InputError, match=r"must end in \.safetensors, \.npy, \.npz, \.parquet, \.csv, \.tsv"):
        write_table(table, tmp_path / "t.xlsx")
    with pytest.raises(HfposembError, match="cannot write into"):
        write_table(table, tmp_path / "no" / "t.npy")
    labels = ["x" * 10_000, *map(str, range(9_999))]  # would fill the memory
    long = hpe.from_arrays(token=np.zeros((10_000, 1), np.float32), labels=labels).token
    with pytest.raises(InputError, match=r"longest label of arrays tokens has 10,000 characters.*write \.safetensors"):
        write_table(long, tmp_path / "t.npz")
    (tmp_path / PROJECTOR).write_text("embeddings { tensor_name: 'mine' }")
    with pytest.raises(InputError, match="written by another program and would be overwritten; choose another folder"):
        write_table(table, tmp_path / "t.tsv")
    assert [one.name for one in tmp_path.iterdir()] == [PROJECTOR]
