"""Rules for how the first layer of each architecture computes attention scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from .architectures.config_values import part_config
from .architectures.families import EPSILONS


@dataclass(frozen=True)
class AttentionRule:
    """Location and parameters of the query and key projections in an architecture's first layer.

    Attributes:
        layer: End of the layer's path; modules are named relative to it.
        query: Module of the query projection.
        key: Module of the key projection; "" if ``query`` computes queries, keys and values.
        fused: Layout of such a module: all queries, then all keys and values (``stacked``), or grouped by the heads
            that share a key (``grouped``).
        turned: Whether weights are stored [in, out].
        norm: Normalisation of the layer's input, skipped if the field ``norm_if`` is false.
        norm_if: Field that enables ``norm``.
        eps: Fields with the norm's epsilon, the first that is present, or its value.
        rms: Whether ``norm`` is an RMSNorm.
        plus_one: Whether 1 is added to the weights of all three norms.
        query_norm: Normalisation of queries.
        key_norm: Normalisation of keys.
        scale: Factor of the dot products: a number, a field, or 1/√ of a field; ``head`` is the width of a head.
        causal: Whether queries see no later keys.
        expects: Required values of fields, if present, for the rule to apply; a dot separates nested fields.
    """

    layer: str
    query: str
    key: str = ""
    fused: Literal["", "stacked", "grouped"] = ""
    turned: bool = False
    norm: str = ""
    norm_if: str = ""
    eps: tuple[str, ...] | float = EPSILONS
    rms: bool = False
    plus_one: bool = False
    query_norm: str = ""
    key_norm: str = ""
    scale: str = "1/√head"
    causal: bool = False
    both_ways: str = ""
    """Field that, when true, lets a causal layer see later keys."""
    counts: Literal["first", "last"] = "first"
    """Token from which the layer counts ALiBi distances; it has no effect after the softmax."""
    expects: tuple[tuple[str, object], ...] = ()
    kind: str = ""
    """Kind of the first layer if the configuration has no ``layer_types``."""


_SELF = ("self_attn.q_proj", "self_attn.k_proj")
_BERT = AttentionRule("layer.0", "attention.self.query", "attention.self.key")
_BART = AttentionRule("encoder.layers.0", *_SELF)
_MBART = replace(_BART, norm="self_attn_layer_norm", eps=1e-5)
_GPT = AttentionRule(
    "h.0", "attn.c_attn", fused="stacked", turned=True, causal=True, expects=(("scale_attn_weights", True),)
)


_T5 = AttentionRule(
    "encoder.block.0",
    "layer.0.SelfAttention.q",
    "layer.0.SelfAttention.k",
    norm="layer.0.layer_norm",
    rms=True,
    scale="1",
)


_LLAMA = AttentionRule("layers.0", *_SELF, norm="input_layernorm", rms=True, causal=True)
_NORMED = replace(_LLAMA, query_norm="self_attn.q_norm", key_norm="self_attn.k_norm")
_PHI = replace(_LLAMA, rms=False, expects=(("qk_layernorm", False),))
_NEOX = AttentionRule("layers.0", "attention.query_key_value", fused="grouped", norm="input_layernorm", causal=True)
_BLOOM = replace(_NEOX, layer="h.0", query="self_attention.query_key_value")


ATTENTION: Mapping[str, AttentionRule] = {
    **dict.fromkeys(("bert", "roberta", "camembert", "xlm-roberta", "electra", "data2vec-text"), _BERT),
    **dict.fromkeys(("ernie", "layoutlm", "rembert", "xmod", "bert-generation"), _BERT),
    "roberta-prelayernorm": replace(_BERT, norm="attention.LayerNorm"),
    "megatron-bert": replace(_BERT, norm="attention.ln"),
    "xlm-roberta-xl": replace(_BERT, norm="attention.self_attn_layer_norm"),
    "distilbert": AttentionRule("layer.0", "attention.q_lin", "attention.k_lin"),
    "mpnet": AttentionRule("layer.0", "attention.attn.q", "attention.attn.k"),
    "albert": AttentionRule("albert_layer_groups.0.albert_layers.0", "attention.query", "attention.key"),
    "modernbert": AttentionRule("layers.0", "attn.Wqkv", fused="stacked", kind="full_attention"),
    "openai-gpt": _GPT,
    "gpt2": replace(_GPT, norm="ln_1"),
    "gpt_neo": AttentionRule(
        "h.0", "attn.attention.q_proj", "attn.attention.k_proj", norm="ln_1", scale="1", causal=True
    ),
    "gptj": AttentionRule("h.0", "attn.q_proj", "attn.k_proj", norm="ln_1", causal=True),
    "gpt_neox": _NEOX,
    "bloom": _BLOOM,
    "falcon": replace(_BLOOM, expects=(("new_decoder_architecture", False),)),
    "mpt": AttentionRule(
        "blocks.0",
        "attn.Wqkv",
        fused="stacked",
        norm="norm_1",
        causal=True,
        counts="last",
        expects=(("attn_config.clip_qkv", None), ("attn_config.qk_ln", False), ("attn_config.softmax_scale", None)),
    ),
    "opt": AttentionRule(
        "decoder.layers.0", *_SELF, norm="self_attn_layer_norm", norm_if="do_layer_norm_before", eps=1e-5, causal=True
    ),
    "xglm": AttentionRule("layers.0", *_SELF, norm="self_attn_layer_norm", eps=1e-5, causal=True),
    "biogpt": AttentionRule("layers.0", *_SELF, norm="self_attn_layer_norm", causal=True),
    **dict.fromkeys(("bart", "marian", "blenderbot-small"), _BART),
    **dict.fromkeys(("mbart", "m2m_100", "blenderbot", "pegasus"), _MBART),
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5),
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen2_moe"), _LLAMA),
    "gemma": replace(_LLAMA, plus_one=True),
    "gemma3_text": replace(
        _NORMED,
        plus_one=True,
        scale="1/√query_pre_attn_scalar",
        both_ways="use_bidirectional_attention",
        kind="sliding_attention",
        expects=(("attn_logit_softcapping", None),),
    ),
    **dict.fromkeys(("qwen3", "qwen3_moe"), _NORMED),
    "olmo2": replace(_NORMED, norm=""),
    "granite": replace(_LLAMA, scale="attention_multiplier"),
    **dict.fromkeys(("phi", "starcoder2", "stablelm"), _PHI),
    "phi3": replace(_LLAMA, query="self_attn.qkv_proj", key="", fused="stacked"),
}
"""Query and key projections of the first layer by model type, each compared with transformers' own module."""


NO_LOGITS: Mapping[str, str] = {
    **dict.fromkeys(("gemma2", "t5gemma", "vaultgemma"), "it caps its logits with a tanh, so they are not a sum"),
    **dict.fromkeys(("deberta", "deberta-v2"), "it has separate products of words and positions"),
    **dict.fromkeys(("nystromformer",), "its queries are compared with segment means, not keys"),
    **dict.fromkeys(("mobilebert",), "its first layer projects the input to a smaller width before attention"),
    **dict.fromkeys(
        ("convbert", "funnel", "fnet", "longformer", "big_bird"), "its first layer does not use standard attention"
    ),
    **dict.fromkeys(
        ("transfo-xl", "xlnet"), "its queries are compared with sinusoids of distances, not with positions"
    ),
}
"""Why the first layer's logits of some model types cannot be decomposed."""


def no_logits(config: Mapping[str, Any]) -> str:
    """Return why the first layer's logits of a model type cannot be decomposed; "" if they can."""
    kind = str(part_config(config, "text").get("model_type", config.get("model_type")))
    if kind in ATTENTION:
        return ""
    return NO_LOGITS.get(kind, "the names of its query and key projections are unknown")
