"""What a configuration says of tying the output head to the token table, and what checkpoints of each model type store.

``UNTIED`` are the defaults of the configuration classes of transformers 5.23; a test compares it with them.
``python -m tests.architectures.needed`` reads what is stored off the small models of transformers 5.24.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .config_values import class_of, has_own_code, part_config

_NAMES = """
    EvollaModel
    afmoe apertus arcee aria aria_text axk1 axk2 bailing_hybrid bamba beam bitnet blt blt_global_transformer
    blt_local_decoder blt_local_encoder blt_patcher bridgetower chameleon codegen cohere_asr cohere_compass
    cosmos3_edge cosmos3_edge_text cosmos3_omni cwm dbrx deepseek_ocr2 deepseek_ocr2_encoder deepseek_ocr2_text
    deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 diffllama doge dots1 dots3_note dots3_note_text emu3
    emu3_text_model esmc eurobert evolla exaone4 exaone4_5 exaone_moe falcon_h1 fast_vlm flex_olmo flint fsmt
    fuyu git glm glm4 glm46v glm4_moe glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm5_next glm5_next_text
    glm_image glm_moe_dsa glm_ocr glmga gpt_neox gpt_oss gptj granite granite4_vision granite4_vision_text
    granitemoe granitemoe_swa granitemoehybrid granitemoeshared helium higgs_audio_v2 hrm_text hunyuan_v1_dense
    hunyuan_v1_moe hy_v3 hy_v4 hyperclovax idefics idefics2 idefics3 imagegpt internlm3 iquestcoder jais2 jamba
    kimi_linear kolibri1 kyutai_speech_to_text laguna llama llama4 llama4_text llava llava_next llava_next_video
    llava_onevision longcat_flash mamba2 mellum mimo_v2_flash minicpmv4_6 minicpmv4_7 minimax minimax_m2
    minimax_m3_vl minimax_m3_vl_text ministral ministral3 mistral mistral4 mistral_large4 mistral_large4_text
    mixtral mllama_text_model modernvbert molmo2 molmo2_text moonshine_streaming moshi moshi_depth
    muse_glimmer_text muse_spark_text musicgen_decoder musicgen_melody_decoder nanochat nemotron nemotron_h
    neucodec olmo olmo2 olmo3 olmo_hybrid olmoe openai_privacy_filter perception_lm persimmon phi phi3
    phi4_multimodal phimoe pix2struct pix2struct_text_model pp_formulanet_text qianfan_ocr qwen2
    qwen2_5_omni_talker qwen2_5_omni_thinker qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_5 qwen3_5_moe
    qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor
    qwen3_omni_moe_talker_text qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp qwen4_exp_text reformer
    rembert rwkv seed_oss smolvlm solar_open stablelm step3p5 ultrabert ultravbert unlimited_ocr
    unlimited_ocr_text vibevoice video_llama_3 video_llava vipllava xcodec2 xlstm
"""

UNTIED: frozenset[str] = frozenset(_NAMES.split())
"""Model types whose configuration class does not tie the output head by default; all others tie it."""

HEADLESS: frozenset[str] = frozenset(("bark", "cohere_asr", "cpmant"))
"""Model types whose head is always or never tied, or has another shape than the token table, whatever is stated."""

NEVER_TIED: frozenset[str] = frozenset(
    (*("BigBirdPegasusForCausalLM", "InklingForCausalLM", "LukeForMaskedLM", "Pop2PianoForConditionalGeneration"),)
)
"""Classes of transformers that keep a head of their own, whatever the configuration states."""

ONE_TABLE: frozenset[str] = frozenset(("longt5", "mt5", "pop2piano", "t5", "udop", "umt5"))
"""Model types whose encoder and decoder read the table ``shared`` also where the configuration ties nothing."""

JOINED = frozenset(("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder"))
"""Model types that join two models: the decoder's configuration ties its head, and the whole one says nothing of it."""


def stated_tie(config: Mapping[str, Any], *, tensor: str = "", decoder: bool = False) -> bool | None:
    """Return what a configuration says of tying the output head; ``None`` if it says nothing.

    The part that holds the head precedes the whole, and the whole precedes its text part.

    Args:
        config: Configuration of the whole.
        tensor: Tensor of the head; ``thinker.lm_head.weight`` belongs to the part ``thinker_config``.
        decoder: Whether the head belongs to a decoder with a token table of its own.
    """
    joined = str(config.get("model_type")) in JOINED
    text = part_config(config, "decoder" if joined or decoder else "text")
    own = config.get(f"{tensor.partition('.')[0]}_config")
    places = (text,) if joined else (own, config, text)
    said = (one.get("tie_word_embeddings") for one in places if isinstance(one, Mapping))
    return next((one for one in said if isinstance(one, bool)), None)


def ties_by_default(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration that does not say so ties the output head; unknown model types do."""
    part = part_config(config, "decoder") if str(config.get("model_type")) in JOINED else config
    return str(part.get("model_type")) not in UNTIED


def is_tied(config: Mapping[str, Any], *, decoder: bool = False) -> bool:
    """Return whether a configuration ties the output head, by what it states or by the default of its model type."""
    stated = stated_tie(config, decoder=decoder)
    return ties_by_default(config) if stated is None else stated


def unread_shared(config: Mapping[str, Any], names: Collection[str]) -> frozenset[str]:
    """Return the tables ``shared`` that neither encoder nor decoder reads, since they have their own and are not tied.

    Args:
        config: Configuration of the whole, of a type that transformers has.
        names: Tensor names.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import unread_shared
        >>> names = [f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")]
        >>> sorted(unread_shared({"model_type": "bart", "tie_word_embeddings": False}, names))
        ['model.shared.weight']
    """
    if config.get("model_type") in ONE_TABLE or is_tied(config):
        return frozenset()
    there = frozenset(names)
    found = (name.removesuffix(_SHARED) for name in names if name == _SHARED or name.endswith(f".{_SHARED}"))
    own = [[f"{kind}{part}.embed_tokens.weight" for part in ("encoder", "decoder")] for kind in ("", "text_")]
    return frozenset(
        module + _SHARED for module in found if any({module + one for one in both} <= there for both in own)
    )


_SHARED = "shared.weight"

PARTS = ("Stack", "Encoder", "Decoder", "Layer", "Block", "Backbone", "Wrapper")
"""Ends of the names of classes that are parts of a model, and are not saved alone."""

Roles = frozenset[str]


@lru_cache(maxsize=1)
def _known() -> tuple[Mapping[str, Roles], Mapping[str, Mapping[str, Roles]]]:
    """Return the roles of the class that each type is named after, and those of its other classes that differ."""
    found = json.loads(Path(__file__).with_name("needed_tables.json").read_text(encoding="utf-8"))
    by_type = {name: frozenset(roles.split()) for roles, names in found["types"].items() for name in names}
    others = {
        name: {kind: frozenset(roles.split()) for kind, roles in kinds.items()}
        for name, kinds in found["classes"].items()
    }
    return by_type, others


def needed_tables(config: Mapping[str, Any]) -> Roles:
    """Return the roles of the tables that a checkpoint with this configuration must store; empty if that is not known.

    A part with a configuration of its own counts only if its type is known to have the table.

    Args:
        config: The configuration, as in config.json.

    Examples:
        >>> from hfposemb.models.architectures.tied_types import needed_tables
        >>> sorted(needed_tables({"model_type": "gpt2"}))
        ['position', 'token']
    """
    kind, named = config.get("model_type"), class_of(config)
    if not isinstance(kind, str) or has_own_code(config) or named.endswith(PARTS):
        return frozenset()
    by_type, others = _known()
    roles, differing = by_type.get(kind, frozenset()), others.get(kind, {})
    roles = differing.get(named, roles) if named else roles.intersection(*differing.values())
    return frozenset(role for role in roles if _of_part(config, role, by_type))


def _of_part(config: Mapping[str, Any], role: str, by_type: Mapping[str, Roles]) -> bool:
    part, dot, rest = role.rpartition(".")
    inner = config.get(f"{part}_config")
    return not dot or not isinstance(inner, dict) or rest in by_type.get(str(inner.get("model_type")), ())
