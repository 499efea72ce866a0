"""Rows of tables beside the word table on the Hub: few bytes and requests of files of 95 GB."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import CheckpointError
from tests.hub.server import FakeHub
from tests.support.checkpoints.sparse_files import sparse, write_rows

BASE, WIDTH, PARTS = 20_000_000, 2560, 512
CONFIG = {
    **{"model_type": "qwen4_exp_text", "hidden_size": WIDTH, "vocab_size": 248_320, "ple_layer_ids": [2]},
    **{"ngram_vocab_size_base": BASE, "ngram_size": 3, "heads_per_ngram": 8, "eos_token_id": 248_044},
}
ROWS = 320_001_536  # what sixteen primes from 20,000,003 add up to, in steps of 128
MODULE = "model.layers.1.ple.ple_embedding.ngram_embedding"


def written(folder: Path, files: int, rows: list[int]) -> dict[str, bytes | str | Path]:
    """Write a checkpoint with a table of 102 GB, as a whole in one file or in 512 parts in several; mark some rows."""
    parts = 1 if files == 1 else PARTS
    each = ROWS // parts
    tensors = [f"{MODULE}.weight" if files == 1 else f"{MODULE}.shard_{at}.weight" for at in range(parts)]
    shapes = {"model.embed_tokens.weight": [248_320, WIDTH], **{name: [each, WIDTH // 16] for name in tensors}}
    made = sparse(folder, shapes, files, CONFIG)
    index = json.loads(str(made.get("model.safetensors.index.json", '{"weight_map": {}}')))["weight_map"]
    for number, row in enumerate(rows):
        name = tensors[row // each]
        write_rows(
            folder / index.get(name, "model.safetensors"), name, row % each, np.full((1, WIDTH // 16), number + 1.0)
        )
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
    hub.add("a/many", sparse(tmp_path, {"m.embed_tokens.weight": [20, 4], **shapes}, 131, CONFIG))
    with pytest.raises(CheckpointError, match="lies in more than 100 files, and"):
        hpe.extract("a/many").lookup("ngram")
    assert len(hub.requests) <= 220
