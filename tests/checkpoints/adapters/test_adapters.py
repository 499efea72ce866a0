"""PEFT adapters: the tables they hold are given, the rest is one line that names the base model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.errors import MissingTableError, SourceError
from tests.hub import FakeHub

BASE = "meta-llama/Llama-3.2-1B"
RANDOM = np.random.default_rng(2)
LAYERS = {
    f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{side}.weight": RANDOM.normal(size=shape).astype("f4")
    for layer in (0, 1)
    for name in ("q_proj", "v_proj")
    for side, shape in (("A", (4, 16)), ("B", (16, 4)))
}
TABLE = RANDOM.normal(size=(61, 16)).astype("f4")
PAIR = {
    "base_model.model.model.embed_tokens.lora_embedding_A": RANDOM.normal(size=(4, 61)).astype("f4"),
    "base_model.model.model.embed_tokens.lora_embedding_B": RANDOM.normal(size=(16, 4)).astype("f4"),
}
BASE_LAYER = {"base_model.model.model.embed_tokens.base_layer.weight": TABLE}
DELTA = {"base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta": TABLE[:3]}


def write(folder: Path, tensors: dict[str, NDArray[Any]], **stated: object) -> Path:
    """Write an adapter as save_pretrained of PEFT does."""
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {"peft_type": "LORA", "base_model_name_or_path": BASE, "r": 4, "target_modules": ["q_proj"]} | stated
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def refused(source: object) -> str:
    with pytest.raises(SourceError) as caught:
        hpe.extract(source)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    return str(caught.value)


def test_of_a_file_without_tables_the_base_model_is_named(tmp_path: Path) -> None:
    said = refused(write(tmp_path / "adapter", LAYERS) / "adapter_model.safetensors")
    assert f"a PEFT adapter (LORA) of “{BASE}” and contains no complete table; open “{BASE}” instead" in said


@pytest.mark.parametrize(
    ("tensors", "changes"),
    [
        (PAIR, "lora_embedding_A and lora_embedding_B"),
        (PAIR | BASE_LAYER, "lora_embedding_A and lora_embedding_B"),
        (DELTA, "trainable_tokens_delta"),
        (DELTA | BASE_LAYER, "trainable_tokens_delta"),
    ],
)
def test_what_only_changes_a_table_is_not_read_alone(
    tmp_path: Path, tensors: dict[str, NDArray[Any]], changes: str
) -> None:
    said = refused(write(tmp_path, LAYERS | tensors))
    assert "cannot be read alone" in said
    assert changes in said
    assert f"apply the adapter to it: ?base={BASE}" in said


@pytest.mark.parametrize("saved", ["", ".modules_to_save.default", ".modules_to_save.my_adapter"])
@pytest.mark.parametrize("place", ["model.embed_tokens", "transformer.wte", "bert.embeddings.word_embeddings"])
@pytest.mark.parametrize("where", ["folder", "hub"])
def test_modules_to_save_are_given(hub: FakeHub, tmp_path: Path, saved: str, place: str, where: str) -> None:
    whole = {f"base_model.model.{place}{saved}.weight": TABLE, "base_model.model.lm_head.weight": -TABLE}
    folder = write(tmp_path / "adapter", LAYERS | whole, modules_to_save=["embed_tokens", "lm_head"])
    hub.add("a/adapter", {path.name: path for path in folder.iterdir()})
    found = hpe.extract(folder if where == "folder" else "a/adapter")
    np.testing.assert_array_equal(found.token.vectors, TABLE)
    assert list(found.tables) == ["token"]
    assert any("its tables replace those of the base model" in note and BASE in note for note in found.notes)
    with pytest.raises(MissingTableError, match=f"adapter .* of “{BASE}”; open “{BASE}” instead"):
        found.inputs([1, 2])
    with pytest.raises(MissingTableError, match=BASE):
        _ = found.position


def test_position_tables_too(tmp_path: Path) -> None:
    tensors = {"base_model.model.transformer.wpe.modules_to_save.default.weight": TABLE}
    found = hpe.extract(write(tmp_path, LAYERS | tensors))
    np.testing.assert_array_equal(found.position.table.vectors, TABLE)
    with pytest.raises(MissingTableError, match=BASE):
        _ = found.token


HOSTILE = ["x\ny" * 500, "\u202egnp.exe", "<script>alert(1)</script>", "", None, 3, ["a"], {"a": 1}, "\x1b[31m"]


@pytest.mark.parametrize("base", HOSTILE)
@pytest.mark.parametrize("kind", ["LORA", *HOSTILE])
def test_hostile_names(tmp_path: Path, base: object, kind: object) -> None:
    said = refused(write(tmp_path, LAYERS, base_model_name_or_path=base, peft_type=kind))
    if not isinstance(base, str) or not base:
        assert "an unnamed base model" in said


def test_prompts_are_an_adapter_too(tmp_path: Path) -> None:
    assert "(PROMPT_TUNING)" in refused(write(tmp_path, {"prompt_embeddings": TABLE}, peft_type="PROMPT_TUNING"))


def test_models_are_not_asked_for_an_adapter(hub: FakeHub, tmp_path: Path) -> None:
    save_file({"wte.weight": TABLE}, tmp_path / "model.safetensors")
    hub.add("a/model", {"model.safetensors": tmp_path / "model.safetensors"})
    _ = hpe.extract("a/model").token
    assert not any("adapter_config" in one.path for one in hub.requests)
