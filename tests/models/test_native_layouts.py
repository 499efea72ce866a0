"""Checkpoints that other libraries and training scripts write: their tables, configurations and fixed positions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.tables.encodings import Grid
from hfposemb.tables.rotary import Rotary
from tests.hub.server import FakeHub

RANDOM = np.random.default_rng(0)


def rows(*shape: int) -> NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


WORDS, PLACES = rows(60, 32), rows(48, 32)


def write(folder: Path, tensors: Mapping[str, NDArray[Any]], **files: object) -> Path:
    save_file(dict(tensors), folder / "model.safetensors")
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("token", "position"),
    [
        ("embedding.word_embeddings.weight", "embedding.position_embeddings.weight"),
        (
            "module.language_model.embedding.word_embeddings.weight",
            "module.language_model.embedding.position_embeddings.weight",
        ),
    ],
)
def test_prefixes_of_training_scripts(tmp_path: Path, token: str, position: str) -> None:
    found = hpe.extract(write(tmp_path, {token: WORDS, position: PLACES}))
    assert np.array_equal(found.token, WORDS)
    assert np.array_equal(found.position.table, PLACES)


PARAMS = {"dim": 32, "n_layers": 1, "n_heads": 2, "vocab_size": -1, "rope_theta": 500000.0, "norm_eps": 1e-5}


@pytest.mark.parametrize("where", ["folder", "hub"])
def test_originals_of_meta_and_mistral(hub: FakeHub, tmp_path: Path, where: str) -> None:
    tensors = {"tok_embeddings.weight": WORDS, "output.weight": WORDS + 1, "norm.weight": WORDS[0]}
    write(tmp_path, tensors, params=PARAMS)
    hub.add("a/original", {path.name: path for path in tmp_path.iterdir()})
    found = hpe.extract(tmp_path if where == "folder" else "a/original")
    assert np.array_equal(found.token, WORDS)
    assert np.array_equal(found.head, WORDS + 1)
    assert not found.head.tied
    rotary = found.position
    assert isinstance(rotary, Rotary)
    assert rotary.layout == "interleaved"
    theirs = 500000.0 ** -(np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(rotary.inv_freq, theirs, rtol=1e-6)
    assert any("params.json" in note for note in found.notes)


@pytest.mark.parametrize("params", [{}, {"dim": "x", "n_heads": 2}, {"dim": 32}, [1]])
def test_a_params_file_of_something_else(tmp_path: Path, params: object) -> None:
    folder = write(tmp_path, {"tok_embeddings.weight": WORDS}, params=params)
    if isinstance(params, list):
        with pytest.raises(hpe.errors.CheckpointError, match=r"params.json: must be a JSON dict"):
            hpe.extract(folder)
        return
    found = hpe.extract(folder)
    assert np.array_equal(found.token, WORDS)
    assert not found.positions


def test_open_clip(tmp_path: Path) -> None:
    sizes = {"vision_cfg": {"image_size": 16, "patch_size": 4, "width": 32}, "text_cfg": {"context_length": 48}}
    tensors = {
        "token_embedding.weight": WORDS,
        "positional_embedding": PLACES,
        "visual.positional_embedding": rows(17, 32),
    }
    found = hpe.extract(write(tmp_path, tensors, open_clip_config={"model_cfg": sizes}))
    assert np.array_equal(found.positions["text"].table, PLACES)
    assert found.positions["vision"].grid == Grid(4, 4, 1)


@pytest.mark.parametrize(("others", "first"), [(("cls_token",), 1), (("cls_token", "dist_token"), 2), ((), 0)])
def test_timm(tmp_path: Path, others: tuple[str, ...], first: int) -> None:
    tensors = {"pos_embed": rows(1, 16 + first, 32), "patch_embed.proj.weight": rows(32, 3, 4, 4)}
    tensors |= {name: rows(1, 1, 32) for name in others}
    config = {"architecture": "vit_tiny_patch4_16", "pretrained_cfg": {"input_size": [3, 16, 16]}}
    found = hpe.extract(write(tmp_path, tensors, config=config))
    assert found.position.grid == Grid(4, 4, first)
    assert found.position.kind == "learned"
    assert not any("None" in note for note in found.notes)


def two_axes(width: int, side: int) -> NDArray[np.float64]:
    """Return the fixed positions of MAE and DiT [side², width]: half of the columns for each axis."""
    omega = 10000 ** -(np.arange(width // 4) / (width / 4))
    down, across = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    parts = [np.outer(axis.ravel(), omega) for axis in (across, down)]
    return np.concatenate([wave(part) for part in parts for wave in (np.sin, np.cos)], axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("name", "first"), [("pos_embed", 0), ("pos_embed.pos_embed", 0), ("pos_embed", 1)])
def test_fixed_positions_are_told_by_their_numbers(tmp_path: Path, name: str, first: int, dtype: type) -> None:
    fixed = np.concatenate([np.zeros((first, 64)), two_axes(64, 8)]).astype(dtype)
    found = hpe.extract(write(tmp_path, {name: fixed[None]}))
    assert (found.position.kind, found.position.grid) == ("sinusoidal", Grid(8, 8, first))


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_trained_positions_that_began_as_sinusoids_are_learned(tmp_path: Path, noise: float) -> None:
    trained = two_axes(64, 8) + noise * rows(64, 64)
    found = hpe.extract(write(tmp_path, {"pos_embed": trained.astype(np.float32)[None]}))
    assert found.position.kind == "learned"


def test_rows_of_one_length_are_no_sinusoids(tmp_path: Path) -> None:
    sphere = rows(64, 64)
    sphere *= np.sqrt(32) / np.linalg.norm(sphere, axis=1, keepdims=True)
    assert hpe.extract(write(tmp_path, {"pos_embed": sphere[None]})).position.kind == "learned"


def test_mae(tmp_path: Path) -> None:
    from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding as fixed

    theirs = {
        "vit.embeddings.position_embeddings": fixed(height=8, width=8, embed_dim=64, cls_token=True),
        "decoder.decoder_pos_embed": fixed(height=8, width=8, embed_dim=32, cls_token=True),
    }
    config = {"model_type": "vit_mae", "image_size": 32, "patch_size": 4, "hidden_size": 64}
    found = hpe.extract(write(tmp_path, {name: rows[None].numpy() for name, rows in theirs.items()}, config=config))
    assert {part: one.kind for part, one in found.positions.items()} == {
        "vision": "sinusoidal",
        "decoder": "sinusoidal",
    }
