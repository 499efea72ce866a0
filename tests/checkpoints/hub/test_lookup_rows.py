"""Rows of tables beside the word table on the Hub: few bytes and requests of files of 95 GB."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import CheckpointError
from tests.hub.server import FakeHub

BASE, WIDTH, PARTS = 20_000_000, 2560, 512
CONFIG = {
    **{"model_type": "qwen4_exp_text", "hidden_size": WIDTH, "vocab_size": 248_320, "ple_layer_ids": [2]},
    **{"ngram_vocab_size_base": BASE, "ngram_size": 3, "heads_per_ngram": 8, "eos_token_id": 248_044},
}
ROWS = 320_001_536  # what sixteen primes from 20,000,003 add up to, in steps of 128
MODULE = "model.layers.1.ple.ple_embedding.ngram_embedding"


def sparse(folder: Path, shapes: dict[str, list[int]], files: int) -> dict[str, bytes | str | Path]:
    """Write tensors of BF16 into files that are nearly nothing but holes; row ``r`` of a table begins with ``r``."""
    made: dict[str, bytes | str | Path] = {"config.json": json.dumps(CONFIG)}
    where: dict[str, str] = {}
    names = list(shapes)
    each = -(-len(names) // files)
    for place in range(files):
        file = f"model-{place + 1:05}-of-{files:05}.safetensors" if files > 1 else "model.safetensors"
        header, at = {}, 0
        for name in names[each * place : each * (place + 1)]:
            size = 2 * int(np.prod(shapes[name]))
            header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [at, at + size]}
            where[name], at = file, at + size
        text = json.dumps(header).encode()
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + at)
        made[file] = folder / file
    if files > 1:
        made["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": where})
    return made


def mark(path: Path, name: str, row: int, width: int, value: float) -> None:
    """Write a row of BF16 into a tensor of a file."""
    with path.open("r+b") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        start = json.loads(file.read(length))[name]["data_offsets"][0]
        file.seek(8 + length + start + 2 * row * width)
        file.write((np.full(width, value, "<f4").view("<u4") >> 16).astype("<u2").tobytes())


def written(folder: Path, files: int, rows: list[int]) -> dict[str, bytes | str | Path]:
    """Write a checkpoint with a table of 102 GB, as a whole in one file or in 512 parts in several; mark some rows."""
    parts = 1 if files == 1 else PARTS
    each = ROWS // parts
    tensors = [f"{MODULE}.weight" if files == 1 else f"{MODULE}.shard_{at}.weight" for at in range(parts)]
    shapes = {"model.embed_tokens.weight": [248_320, WIDTH], **{name: [each, WIDTH // 16] for name in tensors}}
    made = sparse(folder, shapes, files)
    index = json.loads(str(made.get("model.safetensors.index.json", '{"weight_map": {}}')))["weight_map"]
    for number, row in enumerate(rows):
        name = tensors[row // each]
        mark(folder / index.get(name, "model.safetensors"), name, row % each, WIDTH // 16, number + 1)
    return made


@pytest.mark.parametrize(("files", "redirects"), [(1, True), (4, True), (20, False)])
def test_20_rows_of_95_gigabytes(hub: FakeHub, tmp_path: Path, files: int, redirects: bool) -> None:
    rows = np.random.default_rng(0).integers(0, ROWS, 20)
    hub.add("a/qwen4", written(tmp_path, files, rows.tolist()))
    table = hpe.extract("a/qwen4").lookup("ngram")
    assert table.shape == (ROWS, WIDTH // 16)
    assert table.provenance.nbytes > 95 * 2**30
    assert np.array_equal(table.rows(rows), np.repeat(np.arange(1.0, 21.0)[:, None], WIDTH // 16, 1))
    # Each file of many is a redirect, a header and its rows.
    counted = [one for one in hub.requests if redirects or not 300 <= (one.status or 0) < 400]
    assert len(counted) <= 40
    assert sum(one.body_bytes for one in hub.requests) <= 1_000_000


def test_which_rows_a_text_looks_up_is_known_from_one_header(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("a/qwen4", written(tmp_path, 20, []))
    found = hpe.extract("a/qwen4").looked_up(range(20, 40))
    assert found.rows.shape == (20, 16)
    assert len(hub.requests) <= 9
    assert sum(one.body_bytes for one in hub.requests) <= 250_000


def test_a_command_writes_rows_under_their_numbers(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("a/qwen4", written(tmp_path, 4, [ROWS - 1, 7]))
    out = tmp_path / "rows.csv"
    main(["extract", "a/qwen4", "--table", "ngram", "--rows", str(ROWS - 1), "7", "--out", str(out)])
    assert [line.split(",")[:2] for line in out.read_text().splitlines()[1:]] == [[str(ROWS - 1), "1"], ["7", "2"]]


def test_many_far_rows_are_not_read_together(hub: FakeHub, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(0, ROWS, 320)
    hub.add("a/qwen4", written(tmp_path, 1, rows.tolist()[:1]))
    assert hpe.extract("a/qwen4").lookup("ngram").rows(rows)[0, 0] == 1
    assert sum(one.body_bytes for one in hub.requests) <= 1_000_000


def test_parts_in_many_files_are_not_counted(hub: FakeHub, tmp_path: Path) -> None:
    shapes = {f"m.ngram_embeddings.embedders.{at}.weight": [5, 4] for at in range(130)}
    hub.add("a/many", sparse(tmp_path, {"m.embed_tokens.weight": [20, 4], **shapes}, 131))
    with pytest.raises(CheckpointError, match="lies in more than 100 files, and"):
        hpe.extract("a/many").lookup("ngram")
    assert len(hub.requests) <= 220
