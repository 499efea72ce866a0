"""Meta's own checkpoints in parts: joined by rows and columns, or refused, one part alone too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import hfposemb as hpe
from hfposemb.errors import CheckpointError

ROWS, WIDTH = 40, 8
TOKENS, HEAD = (np.random.default_rng(seed).normal(size=(ROWS, WIDTH)).astype("f4") for seed in (0, 1))
QUERIES, OUT = (np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)).astype("f4") for seed in (2, 3))


pytestmark = pytest.mark.usefixtures("forked")


def write(
    folder: Path, *, axis: int, parts: int = 4, kept: Sequence[int] | None = None, vocabulary: int = ROWS
) -> Path:
    """Write a checkpoint as Meta does, or some of its parts; Llama 2 splits tokens by columns, Llama 3 by rows."""
    folder.mkdir()
    settings = {"dim": WIDTH, "n_heads": 2, "n_layers": 1, "vocab_size": vocabulary, "norm_eps": 1e-5}
    (folder / "params.json").write_text(json.dumps(settings), encoding="utf-8")
    for place in range(parts) if kept is None else kept:
        split = {
            "tok_embeddings.weight": np.split(TOKENS, parts, axis)[place],
            "output.weight": np.split(HEAD, parts, 0)[place],
            "norm.weight": np.ones(WIDTH, "f4"),
            "layers.0.attention.wq.weight": np.split(QUERIES, parts, 0)[place],
            "layers.0.attention.wo.weight": np.split(OUT, parts, 1)[place],
        }
        tensors = {name: torch.tensor(np.ascontiguousarray(value)) for name, value in split.items()}
        torch.save(tensors, folder / f"consolidated.{place:02d}.pth")
    return folder


@pytest.mark.parametrize(("axis", "said"), [(1, "columns"), (0, "rows")])
@pytest.mark.parametrize("inside", ["", "consolidated.00.pth", "consolidated.02.pth"])
def test_parts_are_joined(axis: int, said: str, inside: str, tmp_path: Path) -> None:
    found = hpe.extract(write(tmp_path / "llama", axis=axis, vocabulary=-1) / inside)
    np.testing.assert_array_equal(found.token.vectors, TOKENS)
    np.testing.assert_array_equal(found.token.rows(9, 31), TOKENS[9:31])
    np.testing.assert_array_equal(found.heads["head"].vectors, HEAD)
    assert f"joined from 4 parts, consolidated.00.pth and on, which split the token table by {said}" in found.notes
    assert found.position.kind == "rotary"


@pytest.mark.parametrize("axis", [0, 1])
def test_layers_are_joined_by_the_axis_of_their_projection(axis: int, tmp_path: Path) -> None:
    found = hpe.extract(write(tmp_path / "llama", axis=axis), tables={"tensor": "layers.0.attention.wo.weight"})
    np.testing.assert_array_equal(found.tables["tensor"].vectors, OUT)
    found = hpe.extract(tmp_path / "llama", tables={"tensor": "layers.0.attention.wq.weight"})
    np.testing.assert_array_equal(found.tables["tensor"].vectors, QUERIES)


def test_a_whole_checkpoint_in_one_part_is_read(tmp_path: Path) -> None:
    found = hpe.extract(write(tmp_path / "llama", axis=1, parts=1))
    np.testing.assert_array_equal(found.token.vectors, TOKENS)
    assert not any("joined" in note for note in found.notes)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("kept", "error"),
    [
        ([0], r"this part has \[.*each part has a slice of every table; put all parts"),
        ([0, 1], r"the 2 parts here have \[.*each part has a slice of every table"),
        ([3], r"is one of at least 4 parts, but consolidated.00.pth is missing; put all parts"),
        ([0, 1, 3], r"is one of at least 4 parts, but consolidated.02.pth is missing"),
    ],
)
@pytest.mark.parametrize("vocabulary", [ROWS, -1])
def test_some_of_the_parts_are_refused(axis: int, kept: list[int], error: str, vocabulary: int, tmp_path: Path) -> None:
    folder = write(tmp_path / "llama", axis=axis, kept=kept, vocabulary=vocabulary)
    for path in (folder, folder / f"consolidated.{kept[0]:02d}.pth"):
        with pytest.raises(CheckpointError, match=error):
            hpe.extract(path)


def test_parts_of_different_checkpoints_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "llama", axis=1)
    torch.save({"tok_embeddings.weight": torch.ones(3, 3)}, folder / "consolidated.01.pth")
    with pytest.raises(CheckpointError, match="not of one checkpoint"):
        hpe.extract(folder)
    write(tmp_path / "other", axis=0)
    (tmp_path / "other" / "consolidated.01.pth").rename(folder / "consolidated.01.pth")
    with pytest.raises(CheckpointError, match="do not fit together"):
        hpe.extract(folder)
