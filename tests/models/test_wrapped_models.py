"""Models of transformers inside other modules: live, and as their state is saved."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import hfposemb as hpe
from hfposemb.errors import SourceError
from tests.conftest import Build


class Holder(torch.nn.Module):
    """A module of one's own, with models as attributes."""

    def __init__(self, **models: torch.nn.Module) -> None:
        super().__init__()
        for name, model in models.items():
            setattr(self, name, model)


def wrapped(way: str, model: torch.nn.Module) -> torch.nn.Module:
    return {
        "an attribute": lambda: Holder(backbone=model, score=torch.nn.Linear(16, 2)),
        "a sequence": lambda: torch.nn.Sequential(model, torch.nn.Linear(16, 2)),
        "late in a sequence": lambda: torch.nn.Sequential(torch.nn.Identity(), model),
        "sentence-transformers": lambda: torch.nn.Sequential(Holder(auto_model=model), torch.nn.Linear(16, 2)),
        "sentence-transformers in Lightning": lambda: Holder(model=torch.nn.Sequential(Holder(auto_model=model))),
        "data parallel": lambda: torch.nn.DataParallel(model),
        "compiled": lambda: torch.compile(model),
    }[way]()


WAYS = (
    *("an attribute", "a sequence", "late in a sequence", "sentence-transformers"),
    *("sentence-transformers in Lightning", "data parallel", "compiled"),
)


@pytest.mark.parametrize(
    ("kind", "way"), [*(("roberta", way) for way in WAYS), *((kind, WAYS[4]) for kind in ("gpt2", "llama"))]
)
def test_a_model_inside_another_module_is_read_as_itself(build: Build, tmp_path: Path, kind: str, way: str) -> None:
    """With its configuration, so that RoBERTa's positions do not begin with the two rows of its padding."""
    model = build(kind)
    outer, bare = wrapped(way, model), hpe.extract(model)
    model.config.save_pretrained(tmp_path)  # type: ignore[operator, union-attr]
    state = {name: tensor.clone() for name, tensor in outer.state_dict().items()}
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    for found in (hpe.extract(outer), hpe.extract(tmp_path)):
        np.testing.assert_array_equal(found.token.vectors, bare.token.vectors)
        assert found.position.kind == bare.position.kind
        if kind != "llama":
            np.testing.assert_array_equal(found.position.table.vectors, bare.position.table.vectors)
        ids = [3, 2, 4, 2, 5]
        np.testing.assert_allclose(found.inputs(ids).normed, bare.inputs(ids).normed, atol=1e-6)


def test_several_models_in_one_module(build: Build) -> None:
    model = build("roberta")
    alike = hpe.extract(Holder(query=model, passage=copy.deepcopy(model)))
    np.testing.assert_array_equal(alike.position.table.vectors, hpe.extract(model).position.table.vectors)
    other = hpe.extract(Holder(query=model, passage=build("gpt2")))
    said = "the module has no configuration, or models with different ones: positions start at row 0"
    assert said in other.notes
    assert said not in alike.notes
    assert any('tables={"token": TENSOR} names another' in note for note in other.notes)


def test_a_sentence_transformer_has_its_tokens(minilm_folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    found, stored = hpe.extract(SentenceTransformer(str(minilm_folder), device="cpu")), hpe.extract(minilm_folder)
    np.testing.assert_array_equal(found.token.vectors, stored.token.vectors)
    np.testing.assert_array_equal(found.position.table.vectors, stored.position.table.vectors)
    assert found.token.labels.texts == stored.token.labels.texts
    ids = [101, 2332, 102]
    np.testing.assert_allclose(found.inputs(ids).normed, stored.inputs(ids).normed, atol=1e-6)


def test_what_holds_a_model_or_makes_one_is_told(build: Build) -> None:
    class Pipeline:
        model = build("bert")

    with pytest.raises(SourceError, match=r"got Pipeline; give its \.model"):
        hpe.extract(Pipeline())  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="Holder is a class: give a model"):
        hpe.extract(Holder)  # type: ignore[arg-type]
