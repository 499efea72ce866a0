"""Learned tokens of textual inversion, and tables that authors publish under bare names."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import hfposemb as hpe
from hfposemb.errors import MissingTableError
from tests.hub import FakeHub

pytestmark = pytest.mark.usefixtures("forked")

ONE, THREE, WIDE = torch.randn(16), torch.randn(3, 16), torch.randn(3, 20)


def test_tokens_of_a_file_are_one_table_with_their_names(tmp_path: Path) -> None:
    save_file({"<cat>": THREE, "<dog>": ONE}, tmp_path / "learned_embeds-500.safetensors")
    table = hpe.extract(tmp_path).token
    np.testing.assert_array_equal(table.vectors, torch.cat([THREE, ONE[None]]))
    assert table.labels.texts == ("<cat>", "<cat>_1", "<cat>_2", "<dog>")
    np.testing.assert_array_equal(table["<dog>"], ONE)
    np.testing.assert_array_equal(table.rows(2, 4), torch.stack([THREE[2], ONE]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(table)).vectors, table.vectors)


@pytest.mark.parametrize("name", ["learned_embeds.safetensors", "learned_embeds.bin"])
def test_a_concept_of_the_library(hub: FakeHub, tmp_path: Path, name: str) -> None:
    save_file({"<cat>": ONE}, tmp_path / "learned_embeds.safetensors")
    torch.save({"<cat>": ONE}, tmp_path / "learned_embeds.bin")
    hub.add("concepts/cat", {name: (tmp_path / name).read_bytes()})
    for table in (hpe.extract(tmp_path / name).token, hpe.extract("concepts/cat", allow_full_download=True).token):
        np.testing.assert_array_equal(table.vectors, ONE[None])
        assert table.labels.texts == ("<cat>",)
        assert table.provenance.tensor == "<cat>"


def test_a_file_of_the_web_interface(tmp_path: Path) -> None:
    save_file({"emb_params": THREE}, tmp_path / "cat.safetensors")
    np.testing.assert_array_equal(hpe.extract(tmp_path / "cat.safetensors").token.vectors, THREE)


def test_both_encoders_can_be_named(tmp_path: Path) -> None:
    save_file({"clip_l": THREE, "clip_g": WIDE}, tmp_path / "cat.safetensors")
    np.testing.assert_array_equal(hpe.extract(tmp_path / "cat.safetensors").token.vectors, THREE)
    source = hpe.extract(tmp_path / "cat.safetensors", tables={"token": "clip_g"})
    np.testing.assert_array_equal(source.token.vectors, WIDE)


def test_vectors_that_are_no_learned_tokens(tmp_path: Path) -> None:
    save_file({"<cat>": THREE, "<dog>": WIDE}, tmp_path / "learned_embeds.safetensors")
    save_file({"<cat>": THREE}, tmp_path / "other.safetensors")
    for name in ("learned_embeds.safetensors", "other.safetensors"):
        with pytest.raises(MissingTableError, match="no table was found"):
            hpe.extract(tmp_path / name)


@pytest.mark.parametrize("name", ["emb.weight", "embedding_layer.weight", "backbone.embedding_layer.weight"])
def test_tables_under_bare_names(tmp_path: Path, name: str) -> None:
    table, head = torch.randn(50, 8), torch.randn(50, 8)
    tensors = {name: table, "blocks.0.att.key.weight": torch.randn(8, 8), "head.weight": head}
    path = tmp_path / ("model.pth" if name == "emb.weight" else "model.safetensors")
    (torch.save if path.suffix == ".pth" else save_file)(tensors, path)
    source = hpe.extract(path)
    np.testing.assert_array_equal(source.token.vectors, table)
    np.testing.assert_array_equal(source.head.vectors, head)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "stripedhyena", "vocab_size": 50}))
    np.testing.assert_array_equal(hpe.extract(tmp_path).token.vectors, table)


def test_a_bare_name_with_other_rows_than_the_vocabulary(tmp_path: Path) -> None:
    save_file({"emb.weight": torch.randn(50, 8)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unknown", "vocab_size": 49}))
    with pytest.raises(MissingTableError, match=r"emb\.weight \[50, 8\]"):
        hpe.extract(tmp_path)
