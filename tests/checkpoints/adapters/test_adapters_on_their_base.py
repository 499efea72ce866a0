"""PEFT adapters applied to the rows of their base model: equal to what PEFT merges, and what cannot be applied."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
from safetensors.numpy import load_file, save_file

import hfposemb as hpe
from hfposemb.errors import CheckpointError, HfposembError, InputError, SourceError
from tests.hub.server import FakeHub
from tests.support.checkpoints.peft_adapters import write

LORA: dict[str, dict[str, Any]] = {
    "LoRA": {"target_modules": ["embed_tokens", "lm_head", "q_proj"], "alpha_pattern": {"lm_head": 3}},
    "rsLoRA": {"target_modules": ["embed_tokens", "k_proj"], "use_rslora": True, "rank_pattern": {"k_proj": 2}},
    "DoRA": {"target_modules": ["embed_tokens", "lm_head", "q_proj"], "use_dora": True},
    "tokens beside LoRA": {"target_modules": ["q_proj"], "trainable_token_indices": [3, 50, 7]},
    "saved whole": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    "LoRA by patterns": {"target_modules": ["embed_tokens", "lm_head"], "rank_pattern": {".*embed_tokens": 2}}
    | {"alpha_pattern": {"[a-z]*_head": 3, ".*embed.*": 5}},
    "LoRA of a model of images": {"target_modules": ["embed_tokens", "lm_head"]},
    "saved whole, of a model of images": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    "LoRA of GPT-2": {"target_modules": ["wte", "wpe", "c_attn"], "fan_in_fan_out": True},
    "LoRA of a tied model": {"target_modules": ["embed_tokens"]},
    "both saved whole, of a tied model": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    "tokens of a tied model": {"target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [1, 2]}},
}
Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a function that writes the models of a kind, once."""
    folders: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp("adapter")
            tokens = peft.TrainableTokensConfig(token_indices=[1, 2, 9])
            write(
                folders[kind], kind, tokens if kind == "tokens" else peft.LoraConfig(r=4, lora_alpha=16, **LORA[kind])
            )
        return folders[kind]

    return folder


@pytest.mark.parametrize("kind", [*LORA, "tokens"])
def test_rows_are_those_that_peft_merges(made: Made, kind: str) -> None:
    folder = made(kind)
    found, merged = hpe.extract(folder / "adapter", base=folder / "base"), hpe.extract(folder / "merged")
    plain = hpe.extract(folder / "base")
    close = {"rtol": 0, "atol": 3e-7 if "DoRA" in kind else 0}
    np.testing.assert_allclose(found.token, merged.token, **close)
    np.testing.assert_allclose(found.head, merged.head, **close)
    np.testing.assert_allclose(found.token.rows([50, 3, 9]), merged.token.rows([50, 3, 9]), **close)
    np.testing.assert_allclose(found.logits([1, 2, 3]).total, merged.logits([1, 2, 3]).total, rtol=1e-5, atol=1e-7)
    assert not np.array_equal(found.token, plain.token)
    if "GPT-2" in kind:
        np.testing.assert_array_equal(found.position.table, merged.position.table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).token, found.token)
    assert any("applied to" in note and "without merging" in note for note in found.notes)


def test_from_the_hub_the_base_is_fetched_only_when_named(made: Made, hub: FakeHub, tmp_path: Path) -> None:
    folder = made("tokens beside LoRA")
    (tmp_path / "adapter").mkdir()
    adapter = changed(made, tmp_path / "adapter", kind="tokens beside LoRA", base_model_name_or_path="a/base")
    hub.add("a/adapter", {path.name: path for path in adapter.iterdir()})
    hub.add("a/base", {path.name: path for path in (folder / "base").iterdir()})
    with pytest.raises(SourceError, match=r"\?base=a/base"):
        hpe.extract("a/adapter")
    assert not any(one.path.startswith("/a/base") for one in hub.requests)
    merged = hpe.extract(folder / "merged")
    for found in (hpe.extract("a/adapter?base=a/base"), hpe.extract("a/adapter", base=True)):
        np.testing.assert_array_equal(found.token, merged.token)
        assert found.traffic is not None
        assert found.traffic.requests >= 2, "those of both repositories"
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).token, merged.token)


def changed(made: Made, tmp_path: Path, *, kind: str = "LoRA", **options: object) -> Path:
    """Write an adapter with other options."""
    adapter = made(kind) / "adapter"
    config = json.loads((adapter / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | options))
    (tmp_path / "adapter_model.safetensors").write_bytes((adapter / "adapter_model.safetensors").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peft_type": "LOHA"}, "is changed by LOHA, whose formula is not applied here; merge it"),
        ({"use_qalora": True}, "is changed with use_qalora, which is not applied here"),
        ({"r": 0}, "must state r as a number above 0; found 0"),
        ({"lora_alpha": "x"}, "must state lora_alpha as a number above 0"),
        ({"r": True}, "must state r as a number above 0"),
    ],
)
def test_what_cannot_be_applied_is_said(made: Made, tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        np.asarray(hpe.extract(changed(made, tmp_path, **options), base=made("LoRA") / "base").token)
    assert "\n" not in str(caught.value)


def test_an_initialisation_that_changes_the_base_is_refused_for_layers_alone(made: Made, tmp_path: Path) -> None:
    found = hpe.extract(changed(made, tmp_path, init_lora_weights="pissa"), base=made("LoRA") / "base")
    np.testing.assert_array_equal(found.token, hpe.extract(made("LoRA") / "merged").token)
    with pytest.raises(CheckpointError, match="was started by pissa, which changes the base model"):
        np.asarray(found.head)


def test_an_adapter_for_another_model(made: Made, tmp_path: Path) -> None:
    adapter = changed(made, tmp_path)
    tensors = load_file(adapter / "adapter_model.safetensors")
    name = "base_model.model.model.embed_tokens.lora_embedding_A"
    tensors = {key: rows for key, rows in tensors.items() if "base_layer" not in key} | {name: tensors[name][:, :-1]}
    save_file(tensors, adapter / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"do not fit the base model's \[60, 16\]"):
        np.asarray(hpe.extract(adapter, base=made("LoRA") / "base").token)
    with pytest.raises(CheckpointError, match="has none of the modules that the adapter changes"):
        hpe.extract(adapter, base="sample:bert")
    config = json.loads((adapter / "adapter_config.json").read_text()) | {"peft_type": "IA3"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="adapters of type IA3 cannot be applied, only those of LORA and"):
        hpe.extract(adapter, base="sample:bert")
    for base in ("sinusoidal:8x16", "sample:gpt2@step-0", "./nobody"):
        with pytest.raises(HfposembError):
            hpe.extract(adapter, base=base)


@pytest.mark.parametrize("ids", [None, [], [1, "x"], [-1], {"embed_tokens": "x"}, 3])
def test_ids_of_trained_tokens_are_numbers(made: Made, tmp_path: Path, ids: object) -> None:
    adapter = changed(made, tmp_path, kind="tokens beside LoRA", trainable_token_indices=ids)
    with pytest.raises(CheckpointError, match="must list the ids of the trained tokens"):
        hpe.extract(adapter, base=made("LoRA") / "base")


def test_a_tied_table_that_is_saved_alone_says_what_peft_does_with_the_head(tmp_path: Path) -> None:
    write(
        tmp_path,
        "saved alone, of a tied model",
        peft.LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"]),
    )
    found, merged = hpe.extract(tmp_path / "adapter", base=tmp_path / "base"), hpe.extract(tmp_path / "merged")
    np.testing.assert_array_equal(found.token, merged.token)
    assert any("PEFT keeps the base model's rows there" in note for note in found.notes)


def test_trained_tokens_beyond_the_base_are_not_left_out(made: Made, tmp_path: Path) -> None:
    adapter = changed(made, tmp_path, kind="tokens beside LoRA", trainable_token_indices=[3, 60, 7])
    with pytest.raises(CheckpointError, match="is for the token 60, but the base model has 60 rows"):
        _ = hpe.extract(adapter, base=made("LoRA") / "base").token.vectors


@pytest.mark.parametrize("key", ["(a+)+", "(.*)*embed", ".*.*.*.*.*x", "(", "(?=embed_tokens)", "[a-z]{1,9" * 50])
def test_a_pattern_that_may_take_long_is_only_a_name(made: Made, tmp_path: Path, key: str) -> None:
    adapter = changed(made, tmp_path, kind="LoRA", rank_pattern={key: 7})
    expected = hpe.extract(made("LoRA") / "adapter", base=made("LoRA") / "base").token
    np.testing.assert_array_equal(hpe.extract(adapter, base=made("LoRA") / "base").token, expected)


@pytest.mark.parametrize(("modules", "matched"), [(31, True), (32, False)])
def test_a_long_list_of_ranks_has_names(made: Made, tmp_path: Path, modules: int, matched: bool) -> None:
    ranks = {f"layers.{number}.mlp": 3 for number in range(modules)} | {".*embed_tokens": 7}
    found = hpe.extract(changed(made, tmp_path, kind="LoRA", rank_pattern=ranks), base=made("LoRA") / "base").token
    plain = hpe.extract(made("LoRA") / "adapter", base=made("LoRA") / "base").token
    assert np.array_equal(found.vectors, plain.vectors) is not matched


def test_only_adapters_have_a_base(made: Made) -> None:
    with pytest.raises(InputError, match="is not a PEFT adapter"):
        hpe.extract(made("LoRA") / "merged", base=made("LoRA") / "base")
    with pytest.raises(InputError, match="does not name its base model"):
        hpe.extract(made("LoRA") / "adapter", base=True)


@pytest.mark.parametrize(
    ("front", "base"),
    [
        ("base_model: owner/base", "owner/base"),
        ("base_model:\n- owner/base\n- owner/other", "owner/base"),
        ("license: !!timestamp x\nbase_model: owner/base", "owner/base"),
        ("base_model: null", None),
        ("base_model: [" * 9_000, None),
        (
            "".join(f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 8 * (i > 0))}]\n  y{i}: 1\n" for i in range(12)),
            None,
        ),
        ("a: &a [*a]\nbase_model: owner/base", "owner/base"),
        ("base_model: &a [*a]", None),
        ("base_model: !owner owner/base", None),
    ],
    ids=["one", "several", "tag", "null", "depth", "merge keys", "cycle", "own cycle", "own tag"],
)
def test_the_front_matter_of_a_readme_is_hostile(tmp_path: Path, front: str, base: str | None) -> None:
    save_file({"embed_tokens.weight": np.ones((4, 2), "f4")}, tmp_path / "model.safetensors")
    (tmp_path / "README.md").write_text(f"---\n{front}\n---\n")
    made_from = hpe.extract(tmp_path).made_from
    assert made_from is not None
    assert made_from() == base
