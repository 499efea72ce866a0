"""Quantised checkpoints have nothing wrong because they are quantised, and what is wrong is still found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import hfposemb as hpe
from tests.checks.planted import change
from tests.conftest import Build
from tests.hub import FakeHub
from tests.support.checkpoints.quantised import MLX, affine, llama, saved


def quantised(build: Build, folder: Path, *, tied: bool) -> Path:
    """Write a llama in bfloat16 of which every matrix is quantised as MLX does."""
    model: Any = build("llama", "AutoModelForCausalLM", hidden_size=64, intermediate_size=128, tie_word_embeddings=tied)
    model.to(torch.bfloat16).save_pretrained(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for name in [name for name, tensor in tensors.items() if tensor.ndim == 2]:
        for key, part in affine(tensors.pop(name).float().numpy()).items():
            tensors[name.replace("weight", key)] = part if key == "weight" else part.bfloat16()
    return saved(folder, tensors, json.loads((folder / "config.json").read_text()) | MLX)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_nothing_is_wrong(build: Build, hub: FakeHub, tmp_path: Path, *, tied: bool, where: str) -> None:
    folder = quantised(build, tmp_path / "model", tied=tied)
    hub.add("a/model", {path.name: path for path in folder.iterdir()})
    for full in (True, False):
        found = hpe.check(folder if where == "folder" else "a/model", full=full)
        assert [one.name for one in found.findings] == []
        assert "token table 61 × 64" in str(found)


def test_tables_that_are_quantised_differently_are_not_compared(build: Build, tmp_path: Path) -> None:
    folder, _, _ = llama(build, tmp_path / "model")
    change(folder, tie_word_embeddings=True)
    found = hpe.check(folder, full=True)
    assert [one.name for one in found.findings] == []
    said = (
        "lm_head.weight, stored as 8 bits, groups of 32 (MLX), equals the token table, stored as 4 bits, groups of 64"
    )
    assert said in str(found)


def test_an_equal_head_is_found_among_quantised_tables(build: Build, tmp_path: Path) -> None:
    folder = quantised(build, tmp_path / "model", tied=False)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    copies = {f"lm_head.{key}": tensors[f"model.embed_tokens.{key}"] for key in ("weight", "scales", "biases")}
    config = json.loads((folder / "config.json").read_text())
    found = hpe.check(saved(folder, tensors | copies, config), full=True)
    assert [one.name for one in found.findings] == ["head-equal-untied"]


def test_a_width_that_is_wrong_is_found(build: Build, tmp_path: Path) -> None:
    folder = quantised(build, tmp_path / "model", tied=True)
    change(folder, hidden_size=100)
    assert "width" in [one.name for one in hpe.check(folder).findings]
