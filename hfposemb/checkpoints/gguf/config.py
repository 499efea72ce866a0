"""Configuration of a GGUF file in the terms of transformers, from the keys of its head.

The keys are those that llama.cpp's ``convert_hf_to_gguf.py`` writes, read backwards. Numbers in F32 are given with the
fewest digits that identify them, so that 1e-5 is 1e-5 again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .header import TOKENS, GgufHeader, Texts

ARCHITECTURE = "gguf_architecture"
"""Field of the configuration with the architecture as the file states it; no model of transformers has it."""

HEAD = "output.weight"
"""Output head; a model that has one but does not store it uses the token table."""

FACTORS, LONG_FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
"""Numbers by which the rotary frequencies are divided: at any length, and beyond and up to the trained length."""

_Kind: TypeAlias = Literal["rotary", "alibi", ""]
_THETA, _LOCAL_THETA = 10_000.0, 10_000.0
"""Bases that llama.cpp assumes if the file states none."""


class Architecture(NamedTuple):
    """What the name of an architecture says.

    ``model_type`` and ``model_class`` are those of transformers. ``kind`` is that of positions that no tensor shows.
    """

    model_type: str
    model_class: str
    kind: _Kind = "rotary"


def _causal(model_type: str, name: str, kind: _Kind = "rotary") -> Architecture:
    return Architecture(model_type, f"{name}ForCausalLM", kind)


_ALIKE = (
    *("apertus", "arcee", "cohere2", "deepseek", "dots1", "ernie4_5", "exaone", "exaone4", "falcon", "gemma", "gemma2"),
    *("glm4", "granite", "lfm2", "llama", "nemotron", "olmo", "olmo2", "olmoe", "orion", "phi3", "phimoe", "qwen"),
    *("qwen2", "qwen3", "starcoder2", "xverse"),
)
"""Architectures that transformers calls the same, and after which it names the class."""

ARCHITECTURES: Mapping[str, Architecture] = {
    **{name: _causal(name, name.capitalize()) for name in _ALIKE},
    "bert": Architecture("bert", "BertModel", ""),
    "bitnet": _causal("bitnet", "BitNet"),
    "bloom": _causal("bloom", "Bloom", "alibi"),
    "command-r": _causal("cohere", "Cohere"),
    "deepseek2": _causal("deepseek_v2", "DeepseekV2"),
    "ernie4_5-moe": _causal("ernie4_5_moe", "Ernie4_5_Moe"),
    "eurobert": Architecture("eurobert", "EuroBertModel"),
    "gemma3": _causal("gemma3_text", "Gemma3"),
    "gemma3n": _causal("gemma3n_text", "Gemma3n"),
    "gemma-embedding": Architecture("gemma3_text", "Gemma3TextModel"),
    "glm4moe": _causal("glm4_moe", "Glm4Moe"),
    "gpt2": Architecture("gpt2", "GPT2LMHeadModel", ""),
    "gptj": _causal("gptj", "GPTJ"),
    "gptneox": _causal("gpt_neox", "GPTNeoX"),
    "gpt-oss": _causal("gpt_oss", "GptOss"),
    "granitemoe": _causal("granitemoe", "GraniteMoe"),
    "hunyuan-dense": _causal("hunyuan_v1_dense", "HunYuanDenseV1"),
    "internlm2": _causal("internlm2", "InternLM2"),
    "jina-bert-v2": Architecture("jina_bert_v2", "JinaBertModel", "alibi"),
    "jina-bert-v3": Architecture("jina_bert_v3", "JinaBertModel"),
    "llama-embed": Architecture("llama", "LlamaModel"),
    "llama4": _causal("llama4_text", "Llama4"),
    "mamba": _causal("mamba", "Mamba", ""),
    "mamba2": _causal("mamba2", "Mamba2", ""),
    "minicpm": _causal("minicpm", "MiniCPM"),
    "minicpm3": _causal("minicpm3", "MiniCPM3"),
    "minimax-m2": _causal("minimax_m2", "MiniMaxM2"),
    "mistral3": _causal("ministral3", "Ministral3"),
    "modern-bert": Architecture("modernbert", "ModernBertModel"),
    "mpt": _causal("mpt", "Mpt", "alibi"),
    "nomic-bert": Architecture("nomic_bert", "NomicBertModel"),
    "nomic-bert-moe": Architecture("nomic_bert", "NomicBertModel"),
    "phi2": _causal("phi", "Phi"),
    "qwen2moe": _causal("qwen2_moe", "Qwen2Moe"),
    "qwen2vl": Architecture("qwen2_vl_text", "Qwen2VLForConditionalGeneration"),
    "qwen3moe": _causal("qwen3_moe", "Qwen3Moe"),
    "qwen3next": _causal("qwen3_next", "Qwen3Next"),
    "qwen3vl": Architecture("qwen3_vl_text", "Qwen3VLForConditionalGeneration"),
    "refact": _causal("refact", "GPTRefact", "alibi"),
    "seed_oss": _causal("seed_oss", "SeedOss"),
    "smollm3": _causal("smollm3", "SmolLM3"),
    "stablelm": _causal("stablelm", "StableLm"),
    "starcoder": _causal("gpt_bigcode", "GPTBigCode", ""),
    "t5": Architecture("t5", "T5ForConditionalGeneration", ""),
    "t5encoder": Architecture("t5", "T5EncoderModel", ""),
}
"""Architectures whose positions are known, by ``general.architecture``."""

_FIELDS: tuple[tuple[str, str], ...] = (
    ("max_position_embeddings", "context_length"),
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("num_attention_heads", "attention.head_count"),
    ("num_key_value_heads", "attention.head_count_kv"),
    ("head_dim", "attention.key_length"),
    ("relative_attention_num_buckets", "attention.relative_buckets_count"),
)
_SETTINGS: tuple[tuple[str, str], ...] = (
    ("layer_norm_eps", "attention.layer_norm_epsilon"),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
    ("alibi_bias_max", "attention.max_alibi_bias"),
    ("embedding_multiplier", "embedding_scale"),
)
_IDS: tuple[tuple[str, str], ...] = (
    ("bos_token_id", "bos"),
    ("eos_token_id", "eos"),
    ("pad_token_id", "padding"),
    ("sep_token_id", "seperator"),
)
_TWO_BASES = ("gemma3", "gemma3n", "gemma-embedding", "modern-bert")
"""Architectures whose layers with a sliding window have a base of their own, whether it is stated or not."""


def configuration(
    header: GgufHeader, names: frozenset[str], read: Callable[[str], NDArray[Any]]
) -> dict[str, Any] | None:
    """Return the configuration of a model in the terms of transformers.

    Args:
        header: Head of the first file of the model.
        names: Names of all tensors.
        read: Reads a tensor by its name.

    Returns:
        The configuration; ``None`` if the file states no architecture.
    """
    arch = header.text("general.architecture")
    if not arch:
        return None
    known = ARCHITECTURES.get(arch)
    config = {"model_type": known.model_type if known else arch, ARCHITECTURE: arch, **_sizes(header, arch)}
    if known is None:
        return config
    config["architectures"] = [known.model_class]
    if known.model_class.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
        config["tie_word_embeddings"] = HEAD not in names
    if known.kind == "alibi":
        config["alibi"] = True
    elif known.kind == "rotary":
        config |= _rotary(header, arch, names, read)
    return config


def _sizes(header: GgufHeader, arch: str) -> dict[str, Any]:
    """Return the fields about sizes, norms and special tokens that are stated."""
    found: dict[str, Any] = {field: _whole(header, f"{arch}.{key}") for field, key in _FIELDS}
    found |= {field: _real(header, f"{arch}.{key}") for field, key in _SETTINGS}
    found |= {field: header.whole(f"tokenizer.ggml.{key}_token_id") for field, key in _IDS}
    found["vocab_size"] = _vocabulary(header, arch)
    return {field: value for field, value in found.items() if value is not None}


def _vocabulary(header: GgufHeader, arch: str) -> int | None:
    """Return the number of tokens: the stated one, else that of the list of tokens."""
    tokens = header.values.get(TOKENS)
    stated = header.whole(f"{arch}.vocab_size", low=1)
    return stated if stated is not None else len(tokens) if isinstance(tokens, Texts) and len(tokens) else None


def _whole(header: GgufHeader, key: str) -> int | None:
    """Return a positive integer; of one for each layer, the largest."""
    value = header.values.get(key)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
        largest = int(value.max())
        return largest if 0 < largest < 2**31 else None
    return header.whole(key, low=1)


def _real(header: GgufHeader, key: str, *, low: float = 0.0) -> float | None:
    """Return a number as the shortest decimal with the same value in F32."""
    found = header.real(key, low=low)
    return None if found is None else float(str(np.float32(found)))


def _rotary(
    header: GgufHeader, arch: str, names: frozenset[str], read: Callable[[str], NDArray[Any]]
) -> dict[str, Any]:
    """Return the fields about rotary positions."""
    stated: dict[str, Any] = {"rope_theta": _real(header, f"{arch}.rope.freq_base", low=1.0) or _THETA}
    local = _real(header, f"{arch}.rope.freq_base_swa", low=1.0)
    if local is not None or arch in _TWO_BASES:
        stated["rope_local_base_freq"] = local or _LOCAL_THETA
    rotated = _whole(header, f"{arch}.rope.dimension_count")
    if rotated is not None:
        stated["qk_rope_head_dim" if header.whole(f"{arch}.attention.kv_lora_rank") else "rotary_dim"] = rotated
    scaling = _scaling(header, arch)
    original = header.whole(f"{arch}.rope.scaling.original_context_length", low=1)
    if LONG_FACTORS in names and SHORT_FACTORS in names:
        scaling = {"rope_type": "longrope", "short_factor": _list(read(SHORT_FACTORS))}
        scaling["long_factor"] = _list(read(LONG_FACTORS))
        if (attention := _real(header, f"{arch}.rope.scaling.attn_factor")) is not None:
            scaling["attention_factor"] = attention
        if original is not None:
            stated["original_max_position_embeddings"] = original
    if FACTORS in names:
        kind = scaling.get("rope_type", "linear")
        scaling["frequency_factors"] = _list(read(FACTORS))
        scaling["rope_type"] = "frequency_factors" if kind == "linear" else f"{kind} with frequency factors"
    return {**stated, "rope_scaling": scaling} if scaling else stated


def _list(values: NDArray[Any]) -> list[float]:
    found: list[float] = np.ravel(values).tolist()
    return found


def _scaling(header: GgufHeader, arch: str) -> dict[str, Any]:
    """Return the parameters of linear or YaRN scaling, {} without scaling."""
    prefix = f"{arch}.rope.scaling"
    kind = header.text(f"{prefix}.type")
    factor = _real(header, f"{prefix}.factor") or _real(header, f"{arch}.rope.scale_linear")
    if kind in ("none", "longrope") or not factor or (kind in ("", "linear") and factor == 1.0):
        return {}
    found: dict[str, Any] = {"rope_type": kind or "linear", "factor": factor}
    if kind != "yarn":
        return found
    found["original_max_position_embeddings"] = header.whole(f"{prefix}.original_context_length", low=1)
    for field, key in (("beta_fast", "beta_fast"), ("beta_slow", "beta_slow"), ("attention_factor", "attn_factor")):
        if (number := _real(header, f"{prefix}.yarn_{key}")) is not None:
            found[field] = number
    if _real(header, f"{prefix}.yarn_log_multiplier"):
        # The two factors of transformers are equal in every model that states them, so they cancel.
        found |= {"mscale": 1.0, "mscale_all_dim": 1.0}
    if arch == "gpt-oss":
        found["truncate"] = False
    return found
