"""Single rows of tables on the Hub: which bytes are fetched, and of tables that are too large to be read whole."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.checkpoints.limits import Limits
from hfposemb.errors import CheckpointError, InputError
from tests.hub.server import FakeHub
from tests.support.checkpoints.repository import asked

WIDTH, ROWS = 4096, 131_072
ROW_BYTES = 2 * WIDTH


@pytest.fixture
def large(hub: FakeHub, tmp_path: Path) -> FakeHub:
    """Serve a table of 1 GB, nearly all of it a hole in the file."""
    shape, nbytes = [ROWS, WIDTH], ROWS * ROW_BYTES
    head = json.dumps({"wte.weight": {"dtype": "F16", "shape": shape, "data_offsets": [0, nbytes]}}).encode()
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        start = file.tell()
        file.truncate(start + nbytes)
        for row in range(0, ROWS, 1000):
            file.seek(start + row * ROW_BYTES)
            file.write(np.full(WIDTH, row % 1024, np.float16).tobytes())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": ROWS}))
    hub.add("a/large", {path.name: path, "config.json": tmp_path / "config.json"})
    return hub


def test_64_rows_of_a_gigabyte(large: FakeHub) -> None:
    table = hpe.extract("a/large").token
    before = len(large.requests)
    rows = np.random.default_rng(0).permutation(np.arange(0, ROWS, 1000))[:64]
    found = table.rows(rows)
    assert np.array_equal(found[:, 0], rows % 1024)
    fetched = sum(one.body_bytes for one in large.requests[before:])
    assert fetched <= 1_000_000
    assert fetched <= 1.5 * len(rows) * ROW_BYTES
    assert sum(asked(large, "cdn")) <= 1_000_000


def test_neighbouring_rows_are_one_request(large: FakeHub) -> None:
    table = hpe.extract("a/large").token
    before = len(large.requests)
    table.rows([7000, 7001, 7003, 7002, 7000])
    assert len(large.requests) - before <= 2, "a redirect and one range"


def test_a_table_beyond_the_limit_is_good_for_rows(large: FakeHub) -> None:
    table = hpe.extract("a/large", limits=Limits(table_bytes=10_000_000, rows=5000)).token
    assert table.rows([3000, 5000])[:, 0].tolist() == [3000 % 1024, 5000 % 1024]
    with pytest.raises(CheckpointError, match="read fewer rows at a time"):
        _ = table.vectors


def test_rows_of_extract(large: FakeHub) -> None:
    found = hpe.extract("a/large", rows=[9000, 3000])
    assert found.token.shape == (2, WIDTH)
    assert found.token.vectors[:, 0].tolist() == [9000 % 1024, 3000 % 1024]
    assert sum(asked(large, "cdn")) <= 200_000 + 2 * ROW_BYTES


def test_rows_are_labelled_and_keep_the_head() -> None:
    found = hpe.extract("sample:bert", rows=["king", "queen", 3])
    whole = hpe.extract("sample:bert")
    assert [label.strip() for label in found.token.labels[:2]] == ["king", "queen"]
    assert np.array_equal(found.token, whole.token[["king", "queen", 3]])
    assert np.array_equal(found.head, found.token)
    assert found.head.tied_by_bytes
    assert np.array_equal(found.inputs([5, 6]).sum, whole.inputs([5, 6]).sum)
    with pytest.raises(InputError, match="no row named"):
        hpe.extract("sample:bert", rows=["there is no such word"])


@pytest.mark.parametrize("given", [(3,), ([1, 2], 5)])
def test_rows_by_list_or_by_range(given: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match="a first row and an end"):
        hpe.extract("sample:gpt2").token.rows(*given)
