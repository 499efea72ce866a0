"""A configuration that contradicts its file: the file is shown, and a note says both numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import hfposemb as hpe
from hfposemb.tables.table import TOKEN_CLASSES
from tests.conftest import BUILT, Build
from tests.hub import FakeHub

PADDING = TOKEN_CLASSES.index("padding")


def said(folder: Path) -> list[str]:
    return [note for note in hpe.extract(folder).notes if "config.json states" in note]


def state(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def resize(folder: Path, tensor: str, rows: int) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors[tensor] = torch.randn(rows, tensors[tensor].shape[1])
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def tokenizer(folder: Path, tokens: int) -> None:
    (folder / "vocab.txt").write_text("\n".join(f"word{number}" for number in range(tokens)))


@pytest.mark.parametrize("model_type", BUILT)
def test_what_agrees_is_not_noted(build: Build, tmp_path: Path, model_type: str) -> None:
    model: Any = build(model_type)
    model.save_pretrained(tmp_path)
    assert said(tmp_path) == []
    assert not any("config.json states" in note for note in hpe.extract(model).notes)


@pytest.mark.parametrize(
    ("tokens", "part"),
    [(50257, ""), (60, ""), (3, ""), (122, "; it may be one of 2 parts of the table")],
)
def test_tokens(build: Build, tmp_path: Path, tokens: int, part: str) -> None:
    build("gpt2").save_pretrained(tmp_path)  # type: ignore[operator]
    state(tmp_path, vocab_size=tokens)
    tokenizer(tmp_path, 61)
    stated = f"config.json states {tokens:,} tokens, but wte.weight has 61 rows; all rows are used"
    assert said(tmp_path) == [f"{stated}{part}"]
    found = hpe.extract(tmp_path)
    assert found.token.shape == (61, 16)
    assert found.token.labels[60] == "word60"
    assert found.inputs([60]).sum.shape == (1, 16)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_padded_rows_are_labelled_and_noted_only_without_labels(
    build: Build, hub: FakeHub, tmp_path: Path, where: str, *, named: bool
) -> None:
    folder = tmp_path / "model"
    build("gpt2").save_pretrained(folder)  # type: ignore[operator]
    resize(folder, "wte.weight", 64)
    if named:
        tokenizer(folder, 61)
    hub.add("a/padded", {path.name: path for path in folder.iterdir()})
    found = hpe.extract(folder if where == "folder" else "a/padded")
    labels = found.token.labels
    assert [labels[row] for row in (60, 61, 63)] == ["word60" if named else "60", "(padding 61)", "(padding 63)"]
    np.testing.assert_array_equal(labels.classes == PADDING, np.arange(64) > 60)
    noted = [note for note in found.notes if "config.json states" in note]
    if named or where == "hub":
        assert noted == []
    else:
        told = "the surplus rows are treated as padding, as there is no tokenizer"
        assert noted == [f"config.json states 61 tokens, but wte.weight has 64 rows; {told}"]


@pytest.mark.parametrize(
    ("model_type", "tensor", "field", "kept", "first"),
    [
        ("gpt2", "wpe.weight", "n_positions", 20, ""),
        ("bert", "embeddings.position_embeddings.weight", "max_position_embeddings", 20, ""),
        ("roberta", "embeddings.position_embeddings.weight", "max_position_embeddings", 20, " from row 2 on"),
        ("opt", "decoder.embed_positions.weight", "max_position_embeddings", 22, " from row 2 on"),
    ],
)
def test_positions(
    build: Build, tmp_path: Path, model_type: str, tensor: str, field: str, kept: int, first: str
) -> None:
    build(model_type).save_pretrained(tmp_path)  # type: ignore[operator]
    state(tmp_path, **{field: 1024})
    assert said(tmp_path) == [
        f"config.json states 1,024 positions, but {tensor} has {kept} rows; all rows{first} are used"
    ]
    position = hpe.extract(tmp_path).position
    assert position.table.shape[0] == kept - position.offset


def test_patches_are_not_counted_in_texts(build: Build, tmp_path: Path) -> None:
    build("bert").save_pretrained(tmp_path)  # type: ignore[operator]
    config = {"model_type": "step3p5_vision", "max_position_embeddings": 40}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert said(tmp_path) == []


@pytest.mark.parametrize("absurd", [0, -1, True, "61", None, 1e9, 10**30, [61], {"a": 1}])
def test_absurd_numbers_are_passed_over(build: Build, tmp_path: Path, absurd: object) -> None:
    build("gpt2").save_pretrained(tmp_path)  # type: ignore[operator]
    state(tmp_path, vocab_size=absurd, n_positions=absurd)
    assert said(tmp_path) == []
    assert hpe.extract(tmp_path).token.shape == (61, 16)
    assert len(hpe.extract(tmp_path).token.labels) == 61
