"""What a configuration leaves out is what transformers' class of its model type fills in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.models.architectures.families import known_types
from hfposemb.models.architectures.type_defaults import completed, extended_type, type_of_class
from hfposemb.models.positions.rotary_parts import part_frequencies
from tests.architectures.defaults import DATA, entries, entry, text
from tests.architectures.removed import differences
from tests.architectures.survey import model_types
from tests.conftest import FULL
from tests.support.checkpoints.extracted import extracted

SOME = ("llama", "gemma3_text", "qwen2_vl", "gpt_neox", "roberta", "bart", "voxtral", "lfm3", "dinov3_vit")


def test_the_data_are_those_of_the_installed_transformers() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    written = json.loads(DATA.read_text(encoding="utf-8"))
    if FULL:
        assert text(entries()) == DATA.read_text(encoding="utf-8")
    assert [name for name in SOME if json.loads(json.dumps(entry(name, CONFIG_MAPPING[name]))) != written[name]] == []
    # Another test of the process may have registered a type.
    own = {name for name in model_types() if CONFIG_MAPPING[name].__module__.startswith("transformers.")}
    assert own - set(written) <= {"gemma4_assistant", "nougat"}  # no defaults of their own


@pytest.mark.parametrize("model_type", sorted(known_types()) if FULL else SOME)
def test_a_field_left_out_is_what_transformers_fills_in(model_type: str) -> None:
    assert differences(model_type) == []


_BERT = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 99}
_GPT = {"n_embd": 32, "n_head": 4, "n_layer": 1, "vocab_size": 99}
_BART = {
    **{"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99},
}

WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "2.0, no model type": (
        "bert",
        {"architectures": ["BertForMaskedLM"], **_BERT, "finetuning_task": None, "num_labels": 2, "output_past": True}
        | {"max_position_embeddings": 40, "pruned_heads": {}, "torchscript": False, "type_vocab_size": 2},
    ),
    "2.1": ("gpt2", {"architectures": ["GPT2LMHeadModel"], **_GPT, "n_ctx": 40, "n_positions": 40, "n_special": 0}),
    "2.2": (
        "roberta",
        {"architectures": ["RobertaForMaskedLM"], **_BERT, "max_position_embeddings": 42, "type_vocab_size": 1},
    ),
    "2.3": (
        "xlm",
        {"model_type": "xlm", "emb_dim": 32, "n_heads": 4, "n_layers": 1, "n_words": 99, "max_position_embeddings": 40},
    ),
    "2.8": ("t5", {"model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4, "num_layers": 1}),
    "3.0": (
        "bart",
        {"model_type": "bart", **_BART, "max_position_embeddings": 40, "extra_pos_embeddings": 2}
        | {"static_position_embeddings": False, "normalize_embedding": True, "add_bias_logits": False},
    ),
    "4.0": ("marian", {"model_type": "marian", **_BART, "static_position_embeddings": True, "pad_token_id": 98}),
    "4.11": ("gptj", {"model_type": "gptj", **_GPT, "n_positions": 40, "rotary": True, "rotary_dim": 4}),
    "4.22": ("gpt_neox", {"model_type": "gpt_neox", **_BERT, "rotary_emb_base": 500, "rotary_pct": 0.5}),
    "4.22, less": ("gpt_neox", {"model_type": "gpt_neox", **_BERT}),
    "4.24, tasks": ("ernie", {"model_type": "ernie", **_BERT, "use_task_id": True, "task_type_vocab_size": 3}),
    "4.5": ("big_bird", {"model_type": "big_bird", **_BERT, "rescale_embeddings": True}),
    "4.28": ("llama", {"model_type": "llama", **_BERT, "max_sequence_length": 2048, "rms_norm_eps": 1e-6}),
    "4.31": (
        "llama",
        {"model_type": "llama", **_BERT, "rope_scaling": {"type": "linear", "factor": 2.0}, "pretraining_tp": 1},
    ),
    "4.33": ("falcon", {"model_type": "falcon", **_BERT, "alibi": False, "new_decoder_architecture": True}),
    "4.24": (
        "esm",
        {"model_type": "esm", **_BERT, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 32}
        | {"max_position_embeddings": 42, "pad_token_id": 1, "emb_layer_norm_before": False},
    ),
    "4.20": ("bloom", {"model_type": "bloom", "n_embed": 24, "num_attention_heads": 3, "n_layer": 1, "vocab_size": 99}),
    "4.36": ("phi", {"model_type": "phi", **_BERT, "hidden_size": 64, "partial_rotary_factor": 0.25}),
    "4.37, less": ("stablelm", {"model_type": "stablelm", **_BERT, "hidden_size": 64}),
    "4.45, text in the whole": (
        "qwen2_vl",
        {"model_type": "qwen2_vl", **_BERT, "num_key_value_heads": 2, "vision_config": {"depth": 1, "embed_dim": 32}}
        | {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}},
    ),
    "4.50": (
        "gemma3_text",
        {"model_type": "gemma3_text", **_BERT, "num_key_value_heads": 2, "head_dim": 16}
        | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_theta": 5e5},
    ),
    "4.56, another base": (
        "apertus",
        {"model_type": "apertus", **_BERT, "num_key_value_heads": 2, "rope_theta": 5e5, "rope_scaling": None},
    ),
    "4.57, dimensions": (
        "minimax_m2",
        {"model_type": "minimax_m2", **_BERT, "num_key_value_heads": 2, "head_dim": 16, "rotary_dim": 8}
        | {"rope_theta": 5e6, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "4.53, a base beside the scaling": (
        "gpt_neox",
        {"model_type": "gpt_neox", **_BERT, "rotary_emb_base": 500, "rotary_pct": 0.5, "rope_theta": 9000}
        | {"rope_scaling": {"type": "linear", "factor": 2.0}},
    ),
    "5.0, a base of no meaning": (
        "gpt_neox",
        {
            "model_type": "gpt_neox",
            **_BERT,
            "hidden_size": 128,
            "rope_theta": 9e3,
            "rope_parameters": {"type": "default"},
        },
    ),
    "a share that Llama does not read": ("llama", {"model_type": "llama", **_BERT, "partial_rotary_factor": 0.5}),
    "an older share that Mistral does not read": (
        "mistral",
        {"model_type": "mistral", **_BERT, "num_key_value_heads": 2, "rotary_pct": 0.5},
    ),
    "a share that Qwen3 does not read among the parameters": (
        "qwen3",
        {"model_type": "qwen3", **_BERT, "num_key_value_heads": 2, "head_dim": 16}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5}},
    ),
    "an older share beside the scaling": (
        "llama",
        {"model_type": "llama", **_BERT, "rotary_pct": 0.5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    ),
    "one set for all kinds of layers": (
        "gemma3_text",
        {"model_type": "gemma3_text", **_BERT, "num_key_value_heads": 2, "head_dim": 16}
        | {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 7e5}},
    ),
    "empty parameters": (
        "gpt_oss",
        {"model_type": "gpt_oss", **_BERT, "num_key_value_heads": 2, "head_dim": 16, "rope_parameters": {}}
        | {"num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "a trained length with a point": (
        "llama",
        {"model_type": "llama", **_BERT, "hidden_size": 64, "max_position_embeddings": 800, "rope_theta": 5000.0}
        | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 200.0}},
    ),
    "a trained length outside of those by layers": (
        "modernbert",
        {"model_type": "modernbert", **_BERT, "hidden_size": 64, "max_position_embeddings": 40}
        | {"original_max_position_embeddings": 20}
        | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "pad_token_id": 0},
    ),
    "4.48": ("modernbert", {"model_type": "modernbert", **_BERT, "global_rope_theta": 9e4, "pad_token_id": 0}),
}
"""Configurations as transformers wrote them, with their type; fields of no meaning here are left out."""


@pytest.mark.parametrize("written", WRITTEN)
def test_old_configurations_are_read_as_transformers_reads_them(written: str, tmp_path: Path) -> None:
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    from hfposemb.models.verification.verifying import compare
    from tests.architectures.tiny import randomise

    model_type, config = WRITTEN[written]
    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIG_MAPPING[model_type].from_dict(json.loads(json.dumps(config)))).eval()
    randomise(model)
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = hpe.extract(tmp_path)
    wrong = [check for check in compare(found, model).checks if check.verdict not in ("equal", "not compared")]
    assert wrong == []
    assert {one.kind for one in found.positions.values()} != {"none"}


_RANDOM = np.random.default_rng(0)
_WORDS = {"embeddings.word_embeddings.weight": _RANDOM.normal(size=(33, 8))}
_BOTH = {**_WORDS, "embeddings.position_embeddings.weight": _RANDOM.normal(size=(42, 8))}


@pytest.mark.parametrize(
    ("names", "config", "kind", "unread"),
    [
        (_BOTH, {"model_type": "esm", "position_embedding_type": "rotary"}, "rotary", True),
        (_BOTH, {"model_type": "esm", "position_embedding_type": "absolute"}, "learned", False),
        (_BOTH, {"model_type": "esm"}, "learned", False),
        (_BOTH, {"model_type": "llama"}, "rotary", True),
        (_BOTH, {"model_type": "qwen3", "position_embedding_type": "absolute"}, "rotary", True),
        (_WORDS, {"model_type": "gemma2", "position_embedding_type": "absolute"}, "rotary", False),
        (_WORDS, {"model_type": "llama", "alibi": True}, "rotary", True),
        (_WORDS, {"model_type": "llama", "use_alibi": True, "auto_map": {"AutoModel": "m.M"}}, "alibi", False),
        (_WORDS, {"model_type": "x", "text_config": {"model_type": "qwen2", "rope": "nope"}}, "rotary", False),
        (_BOTH, {"model_type": "esm", "alibi": True}, "learned", False),
        (_WORDS, {"model_type": "falcon", "position_embedding_type": "absolute"}, "rotary", False),
        (_BOTH, {"model_type": "bert", "rope_parameters": {"rope_theta": 500.0}}, "learned", False),
        (_BOTH, {"model_type": "mine"}, "learned", False),
        (_BOTH, {"model_type": "falcon", "alibi": True}, "alibi", True),
        (_WORDS, {"model_type": "falcon"}, "rotary", False),
        (_WORDS, {"model_type": "granitemoehybrid"}, "none", False),
        (_WORDS, {"model_type": "granitemoehybrid", "position_embedding_type": None}, "none", False),
        (_WORDS, {"model_type": "granitemoehybrid", "position_embedding_type": "rope"}, "rotary", False),
        (_WORDS, {"model_type": "mine", "architectures": ["LlamaForCausalLM"]}, "", False),
        (_WORDS, {"architectures": ["MistralForCausalLM"]}, "rotary", False),
        (_WORDS, {"model_type": "x", "text_config": {"model_type": "qwen2"}}, "rotary", False),
    ],
)
def test_what_the_type_says_beats_what_lies_in_the_file(
    names: dict[str, Any], config: dict[str, Any], kind: str, unread: bool, tmp_path: Path
) -> None:
    made = {"hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": 42, "pad_token_id": 1}
    found = extracted(tmp_path, names, {**made, **config})
    assert [one.kind for one in found.positions.values()] == ([kind] if kind else [])
    assert any("reads" in note and "model of transformers" in note for note in found.notes) is unread


def test_modernbert_turns_though_its_published_configuration_says_absolute(tmp_path: Path) -> None:
    stated = {"position_embedding_type": "absolute", "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
    config = {"model_type": "modernbert", "hidden_size": 8, "num_attention_heads": 2, **stated}
    found = extracted(tmp_path, {"model.embeddings.tok_embeddings.weight": np.ones((33, 8))}, config)
    bases = {part: float(one.inv_freq[1]) ** -2 for part, one in found.positions.items()}
    assert bases == pytest.approx({"full_attention": 160_000.0, "sliding_attention": 10_000.0})


_LEFT = {"scale_emb": 12, "embedding_multiplier": 3.0, "scale_embedding": True, "embedding_scale": 2.0}
_LEFT |= {"rope_ratio": 4.0, "rope_interleave": True, "kv_channels": 8, "qk_rope_head_dim": 4, "norm_eps": 0.5}


@pytest.mark.parametrize(
    ("model_type", "stated", "count"),
    [
        ("llama", {}, ()),
        ("llava", {"text_config": {"model_type": "llama"}}, ()),
        ("granite", {}, ("embedding_multiplier",)),
        ("minicpm3", {}, ("scale_emb", "qk_rope_head_dim")),
        ("zamba2", {}, ("kv_channels",)),  # computed, but written
        ("llama", {"auto_map": {"AutoModel": "own.Model"}}, (*_LEFT,)),
        ("mine", {}, (*_LEFT,)),
    ],
)
def test_fields_of_another_type_count_for_nothing(model_type: str, stated: dict[str, Any], count: tuple[str]) -> None:
    config = completed({"model_type": model_type, **_LEFT, **stated})
    assert {name for name in _LEFT if name in config and config[name] == _LEFT[name]} == {*count}
    if "text_config" in stated:
        inner = completed({"model_type": model_type, "text_config": {**stated["text_config"], **_LEFT}})["text_config"]
        assert not {*_LEFT} & {*inner}


def test_nested_configurations_have_the_type_of_their_field() -> None:
    llava = completed({"model_type": "llava", "text_config": {"vocab_size": 9}})
    assert (llava["text_config"]["model_type"], llava["text_config"]["hidden_size"]) == ("llama", 4096)
    assert llava["vision_config"]["image_size"] == 336
    whisper = completed({"model_type": "encoder-decoder", "decoder": {"model_type": "gpt2", "n_embd": 8}})
    assert (whisper["decoder"]["n_positions"], whisper["decoder"]["n_embd"]) == (1024, 8)
    assert completed({"model_type": "gpt2", "hidden_size": 8})["n_embd"] == 8  # two names of one field
    for kind, part in (
        ("qwen3_vl", "qwen3_vl_vision"),
        ("qwen2_5_vl", "qwen2_5_vl_vision"),
        ("idefics3", "idefics3_vision"),
    ):
        inner = completed({"model_type": kind, "vision_config": {"model_type": kind}})["vision_config"]
        assert inner["model_type"] == part
        assert not {"vision_config", "text_config"} & {*inner}


def test_images_in_qwen2_vl_turn_by_their_own_width() -> None:
    """Its published configuration states the width of the text's vectors beside it."""
    vision = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16, "model_type": "qwen2_vl"}
    config = completed({"model_type": "qwen2_vl", "vision_config": vision})
    assert [len(one.frequencies) for one in part_frequencies(config) if one.part == "vision_config"] == [20]


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        *(("LlavaLlamaForCausalLM", "llama"), ("LlavaMistralForCausalLM", "mistral"), ("LlamaForCausalLM", "")),
        *(("LlavaMptForCausalLM", ""), ("JinaBertForMaskedLM", ""), ("ForCausalLM", ""), (7, "")),
    ],
)
def test_a_class_that_extends_a_decoder_of_transformers_has_its_positions(name: object, model_type: str) -> None:
    config = {"model_type": "llava", "vocab_size": 8, "architectures": [name]}
    assert extended_type(config) == model_type
    assert not extended_type({"architectures": [name]})
    assert not extended_type({**config, "model_type": "gemma2"})  # which rotates itself
    assert not extended_type({**config, "architectures": [f"\x1b[2J{name}"]})


def test_the_glm_of_2022_learned_its_positions(tmp_path: Path) -> None:
    tables = {"word_embeddings.weight": 40, "transformer.position_embeddings.weight": 17}
    tables |= {"transformer.block_position_embeddings.weight": 17}
    found = extracted(
        tmp_path,
        {name: np.ones((rows, 8), np.float32) for name, rows in tables.items()},
        {"model_type": "glm", "vocab_size": 40, "hidden_size": 8, "block_position_encoding": True},
    )
    assert {found.positions[name].kind for name in found.positions} == {"learned"}
    assert len(found.positions) == 2


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("BertModel", "bert"),
        ("GPT2LMHeadModel", "gpt2"),
        ("BertGenerationDecoder", ""),
        ("LLaMAForCausalLM", "llama"),
        ("LlamaMoEForCausalLM", ""),
        ("XLMRobertaXLForMaskedLM", "xlm-roberta-xl"),
        ("", ""),
        (7, ""),
    ],
)
def test_a_class_of_transformers_is_one_of_its_type(name: object, model_type: str) -> None:
    assert type_of_class({"architectures": [name]}) == model_type


@pytest.mark.parametrize("value", [None, [], 7, "x", {"rope_type": 7}, {"full_attention": 3}, [[[]]]])
@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "llava", "qwen2_vl", ["llama"], None])
def test_hostile_fields_are_completed_without_an_exception(model_type: object, value: object) -> None:
    for field in ("rope_parameters", "rope_scaling", "text_config", "architectures", "rope_theta"):
        completed({"model_type": model_type, field: value, "text_config": {field: value, "model_type": model_type}})


def test_the_first_of_several_parts_of_a_vocabulary_is_not_the_vocabulary(tmp_path: Path) -> None:
    """Transformer-XL's adaptive embeddings: frequent tokens have wide rows, rare ones narrow rows and a projection."""
    names = {f"transformer.word_emb.emb_layers.{part}.weight": np.ones((20, 8 >> part)) for part in range(3)}
    found = extracted(tmp_path, names, {"model_type": "transfo-xl", "vocab_size": 60, "d_model": 8})
    with pytest.raises(
        hpe.HfposembError, match=r"cut into tables of different widths .*--tensor transformer\.word_emb"
    ):
        _ = found.token
    whole = {next(iter(names)): np.ones((60, 8))}
    alone = extracted(tmp_path / "whole", whole, {"model_type": "transfo-xl", "vocab_size": 60})
    assert alone.token.shape == (60, 8)


def test_a_padded_vocabulary_is_one_if_the_configuration_states_the_padding(tmp_path: Path) -> None:
    """As Mamba's authors publish it: 50,277 tokens, padded to a multiple of 8."""
    names = dict.fromkeys(("backbone.embedding.weight", "lm_head.weight"), np.ones((40, 8)))
    found = extracted(tmp_path, names, {"d_model": 8, "vocab_size": 35, "pad_vocab_size_multiple": 8})
    assert found.token.provenance.tensor == "backbone.embedding.weight"


def test_the_table_of_an_image_tower_never_stands_for_the_text(tmp_path: Path) -> None:
    tables = {"model.embed_tokens.weight": np.ones((33, 8)), "model.sam_model.pos_embed": np.ones((1, 4, 4, 8))}
    found = extracted(tmp_path, tables, {"model_type": "mine", "vocab_size": 33, "hidden_size": 8})
    assert set(found.tables) == {"token", "vision.position"}
    assert list(found.positions) == ["vision"]


@pytest.mark.parametrize("written", ["64", [8], {}, "", -3, 0, 2.5, True, 10**400, 8])
def test_dimensions_that_are_no_number_of_them_are_not_read(written: object) -> None:
    config = {"model_type": "minimax_m2", "head_dim": 16, "rotary_dim": written}
    read = completed(config)["rope_parameters"]
    assert read.get("partial_rotary_factor") == (0.5 if written == 8 else None)
