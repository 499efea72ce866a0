"""Which engine computes rotary positions how: dated rules, each with the thread or source that shows it.

What no rule covers is not known. Dates are those of the thread: a change that was merged holds in releases after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .engine_formulas import (
    DEEPSEEK,
    Computed,
    Stated,
    always_long,
    always_short,
    as_transformers,
    deepseek_counted_twice,
    doubled,
    fixed_base,
    implicit_factor,
    laguna_squared,
    late_switch,
    llama_yarn,
    llama_yarn_before,
    mlx_yarn,
    mscale,
    multiplied,
    refuses,
    rounded_and_multiplied,
    sglang_yarn,
    telechat,
    telechat_counted_twice,
    unknown_type,
    unscaled,
    with_attention,
)

REFERENCE = "transformers"
ENGINES = (REFERENCE, "vLLM", "SGLang", "llama.cpp", "mlx-lm")
"""Engines for which every configuration gets an answer, if only that it is not known."""

_HUB = "https://github.com/"
_VLLM, _SGLANG, _LLAMA = f"{_HUB}vllm-project/vllm/", f"{_HUB}sgl-project/sglang/", f"{_HUB}ggml-org/llama.cpp/"
_MLX, _HF = f"{_HUB}ml-explore/mlx-lm/", f"{_HUB}huggingface/transformers/"
_MLX_SOURCE = f"{_MLX}blob/060aa434944981d9d20ff39d118e787fc1c78d3d/mlx_lm/models/rope_utils.py"
_VLLM_SOURCE = f"{_VLLM}blob/926c71f6f25f8fe0a71ba4b168205e64bef24a36/vllm/model_executor/layers/rotary_embedding/"
_SGLANG_SOURCE = f"{_SGLANG}blob/108c36c008291c3a1ea524342837056c503c5724/python/sglang/srt/layers/rotary_embedding/"
_HF_SOURCE = f"{_HF}blob/main/src/transformers/modeling_rope_utils.py"

_YARN = ("yarn",)
_LONG = ("longrope", "su")
_PLAIN = ("", "default", "linear", "llama3")


@dataclass(frozen=True)
class EngineRule:
    """How an engine computes the positions of some rope types, from one date until another.

    Attributes:
        engine: Name of the engine.
        kinds: Rope types that it is about.
        says: What the engine does.
        thread: Address of the thread or source that shows it.
        shown: Date of what shows it, "" for source without one.
        compute: Returns the encoding of the engine, or why it refuses.
        applies: Whether the rule is about a configuration.
        since: Date from which it holds, "" where that is not known.
        until: Date until which it held, "" if no later one is known.
    """

    engine: str
    kinds: tuple[str, ...]
    says: str
    thread: str
    shown: str
    compute: Callable[[Stated], Computed]
    applies: Callable[[Stated], bool] = lambda given: True
    since: str = ""
    until: str = ""


def is_published(thread: str) -> bool:
    """Return whether an address is that of a thread, not of source alone."""
    return "/pull/" in thread or "/issues/" in thread


def _standard(given: Stated) -> bool:
    """Whether the attention is not of a kind for which engines have code of their own, DeepSeek's aside."""
    return not given.apart or given.model_type in DEEPSEEK


def _alpha(given: Stated) -> bool:
    return given.states("alpha")


def _trained(given: Stated) -> bool:
    """Whether the trained length is stated; engines have defaults of their own, or stop."""
    return _standard(given) and given.states("original_max_position_embeddings")


def _only(check: Callable[[Stated], bool]) -> Callable[[Stated], bool]:
    return lambda given: _standard(given) and check(given)


_TRANSFORMERS = (
    EngineRule(
        REFERENCE,
        _YARN,
        "the stated factor is replaced by max_position_embeddings / original_max_position_embeddings",
        f"{_HF}pull/40320",
        "2025-08-20",
        implicit_factor,
        lambda given: given.states("factor") and given.states("original_max_position_embeddings"),
        until="2025-08-20",
    ),
    EngineRule(
        REFERENCE,
        _YARN,
        "attention_factor, else the ratio of mscale and mscale_all_dim, else 0.1 ln s + 1",
        f"{_HF}pull/40320",
        "2025-08-20",
        as_transformers,
        since="2025-08-20",
    ),
    EngineRule(
        REFERENCE,
        (*_PLAIN, *_LONG, "dynamic", "xdrope", "proportional"),
        "as in modeling_rope_utils and the type's own module",
        _HF_SOURCE,
        "",
        as_transformers,
    ),
    EngineRule(
        REFERENCE,
        ("telechat3-yarn", "deepseek_yarn"),
        "not a type of transformers",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        unknown_type,
    ),
)

_OF_VLLM = (
    EngineRule(
        "vLLM",
        _YARN,
        "0.1 ln s + 1 times attn_factor; attention_factor, mscale and mscale_all_dim are ignored, truncate too",
        f"{_VLLM}issues/27722",
        "2025-10-29",
        rounded_and_multiplied,
        _trained,
        until="2025-11-06",
    ),
    EngineRule(
        "vLLM",
        _YARN,
        "0.1 ln s + 1 times attn_factor; attention_factor is ignored, and the mscales except for DeepSeek",
        f"{_VLLM}pull/46280",
        "2026-06-21",
        multiplied,
        _trained,
        since="2025-11-06",
        until="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        _YARN,
        "as transformers: attention_factor, else the ratio of mscale and mscale_all_dim, else 0.1 ln s + 1",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        as_transformers,
        lambda given: not given.states("attn_factor"),
        since="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        ("telechat3-yarn",),
        "0.07 ln s + 1; max_position_embeddings is multiplied by the factor once more",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        telechat_counted_twice,
        until="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        ("telechat3-yarn",),
        "YaRN with 0.07 ln s + 1; max_position_embeddings is the longest input",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        telechat,
        since="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        ("deepseek_yarn",),
        "the ratio of mscale and mscale_all_dim; max_position_embeddings is multiplied by the factor once more",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        deepseek_counted_twice,
        until="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        ("deepseek_yarn",),
        "the ratio of mscale and mscale_all_dim; max_position_embeddings is the longest input",
        f"{_VLLM}pull/56446",
        "2026-09-11",
        multiplied,
        since="2026-09-11",
    ),
    EngineRule(
        "vLLM",
        _LONG,
        "long factors once a batch has a position above the trained length; attention_factor is ignored",
        f"{_VLLM}pull/27431",
        "2025-10-23",
        late_switch,
        until="2025-10-23",
    ),
    EngineRule(
        "vLLM",
        _LONG,
        "short factors up to the trained length, the default of max_model_len; with a longer one, the long factors "
        "turn every input",
        f"{_VLLM}pull/27431",
        "2025-10-23",
        always_short,
        since="2025-10-23",
    ),
    EngineRule(
        "vLLM",
        ("dynamic",),
        "every input has the base of the longest one, θ (s² − s + 1)^(d/(d − 2)), computed once",
        f"{_VLLM}issues/41236",
        "2026-04-29",
        fixed_base,
        lambda given: not _alpha(given),
        until="2026-04-29",
    ),
    EngineRule("vLLM", ("dynamic", "xdrope"), "the base grows by alpha", _VLLM_SOURCE, "", as_transformers, _alpha),
    EngineRule("vLLM", _PLAIN, "as transformers", _VLLM_SOURCE, "", as_transformers, _standard),
)

_OF_SGLANG = (
    EngineRule(
        "SGLang",
        _YARN,
        "0.1 ln s + 1 times attn_factor; attention_factor, mscale and mscale_all_dim are ignored, truncate too",
        f"{_SGLANG}pull/14270",
        "2025-12-02",
        rounded_and_multiplied,
        _only(lambda given: given.model_type != "laguna"),
        until="2025-12-02",
    ),
    EngineRule(
        "SGLang",
        _YARN,
        "0.1 ln s + 1 times attn_factor; attention_factor is ignored, and the mscales except for DeepSeek",
        f"{_SGLANG}pull/22711",
        "2026-04-13",
        multiplied,
        _only(lambda given: given.model_type != "laguna"),
        since="2025-12-02",
        until="2026-07-14",
    ),
    EngineRule(
        "SGLang",
        _YARN,
        "the ratio of mscale and mscale_all_dim, else 0.1 ln s + 1, times attn_factor; attention_factor is ignored",
        f"{_SGLANG}pull/31232",
        "2026-07-14",
        sglang_yarn,
        _only(lambda given: given.model_type != "laguna"),
        since="2026-07-14",
    ),
    EngineRule(
        "SGLang",
        _YARN,
        "Laguna: attention_factor is taken for a multiplier of 0.1 ln s + 1",
        f"{_SGLANG}pull/33558",
        "2026-08-04",
        laguna_squared,
        lambda given: given.model_type == "laguna",
        until="2026-08-04",
    ),
    EngineRule(
        "SGLang",
        _YARN,
        "Laguna: attention_factor is the factor, as in transformers",
        f"{_SGLANG}pull/33558",
        "2026-08-04",
        as_transformers,
        lambda given: given.model_type == "laguna",
        since="2026-08-04",
    ),
    EngineRule(
        "SGLang",
        _LONG,
        "long factors once a batch has a position above the trained length; attention_factor is ignored",
        f"{_SGLANG_SOURCE}rope_variant.py",
        "",
        late_switch,
    ),
    EngineRule(
        "SGLang",
        ("dynamic",),
        "every input has the base of the longest one, θ (s² − s + 1)^(d/(d − 2)), computed once",
        f"{_SGLANG_SOURCE}rope_variant.py",
        "",
        fixed_base,
        lambda given: not _alpha(given),
    ),
    EngineRule(
        "SGLang", ("dynamic",), "the base grows by alpha", f"{_SGLANG_SOURCE}factory.py", "", as_transformers, _alpha
    ),
    EngineRule(
        "SGLang",
        ("deepseek_yarn",),
        "the ratio of mscale and mscale_all_dim",
        f"{_SGLANG_SOURCE}factory.py",
        "",
        multiplied,
    ),
    EngineRule("SGLang", _PLAIN, "as transformers", f"{_SGLANG_SOURCE}factory.py", "", as_transformers, _standard),
)


def _rounds(given: Stated) -> bool:
    """Whether bounds that are stated not to be rounded matter, which source alone shows of some engines."""
    return given.parameters.get("truncate") is False


def _by_source(rule: EngineRule, source: str) -> tuple[EngineRule, EngineRule]:
    """Return a rule for configurations without and with ``truncate: false``; the second is shown by source."""
    return (
        replace(rule, applies=lambda given: rule.applies(given) and not _rounds(given)),
        replace(rule, applies=lambda given: rule.applies(given) and _rounds(given), thread=source, shown=""),
    )


_OF_LLAMA = (
    EngineRule(
        "llama.cpp",
        _YARN,
        "0.1 ln s + 1, applied where the angles are computed; attention_factor, mscale and truncate are not converted",
        f"{_LLAMA}issues/7118",
        "2024-05-17",
        llama_yarn_before,
        lambda given: given.model_type in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"),
        until="2025-12-11",
    ),
    *_by_source(
        EngineRule(
            "llama.cpp",
            _YARN,
            "0.1 ln s + 1, over 0.1 mscale_all_dim ln s + 1 for Ministral 3 and DeepSeek; attention_factor is lost",
            f"{_LLAMA}pull/17945",
            "2025-12-11",
            llama_yarn,
            lambda given: _standard(given) or given.model_type == "mistral4",
            since="2025-12-11",
        ),
        f"{_LLAMA}blob/master/ggml/src/ggml.c",
    ),
    EngineRule(
        "llama.cpp",
        _LONG,
        "the long factors turn every input once the context is longer than the trained length, as it is by default",
        f"{_LLAMA}issues/24823",
        "2026-06-19",
        always_long,
    ),
    EngineRule(
        "llama.cpp",
        ("dynamic",),
        "dynamic scaling is not converted: the frequencies stay the plain ones",
        f"{_LLAMA}issues/8361",
        "2024-07-08",
        unscaled,
        lambda given: not _alpha(given),
    ),
    EngineRule(
        "llama.cpp",
        ("llama3",),
        "factors of the frequencies are computed on conversion and stored as rope_freqs",
        f"{_LLAMA}pull/8676",
        "2024-07-24",
        as_transformers,
    ),
    EngineRule(
        "llama.cpp",
        ("linear",),
        "the factor is stored on conversion, and positions are divided by it",
        f"{_LLAMA}pull/2772",
        "2023-08-24",
        as_transformers,
    ),
    EngineRule(
        "llama.cpp", ("", "default"), "as transformers", f"{_LLAMA}pull/18013", "2025-12-14", as_transformers, _standard
    ),
)

_OF_MLX = (
    *_by_source(
        EngineRule(
            "mlx-lm",
            (*_YARN, "telechat3-yarn", "deepseek_yarn"),
            "the ratio of mscale (1 if not stated) and mscale_all_dim (0); attention_factor and truncate are ignored",
            f"{_MLX}pull/1507",
            "2026-07-09",
            mlx_yarn,
            _trained,
        ),
        _MLX_SOURCE,
    ),
    EngineRule(
        "mlx-lm",
        ("longrope",),
        "the long factors turn every input; attention_factor is ignored",
        f"{_MLX}pull/660",
        "2025-12-08",
        always_long,
    ),
    EngineRule(
        "mlx-lm",
        ("", "default", "dynamic"),
        "InternLM 2 and 3: positions are doubled unless the scaling is linear",
        f"{_MLX}issues/1545",
        "2026-07-11",
        doubled,
        lambda given: given.model_type in ("internlm2", "internlm3"),
    ),
    EngineRule(
        "mlx-lm",
        ("dynamic",),
        "the type is refused",
        _MLX_SOURCE,
        "",
        refuses,
        lambda given: given.model_type not in ("internlm2", "internlm3") and not _alpha(given),
    ),
    EngineRule(
        "mlx-lm",
        (*_PLAIN, "proportional"),
        "as transformers",
        _MLX_SOURCE,
        "",
        as_transformers,
        _only(lambda given: given.model_type not in ("internlm2", "internlm3")),
    ),
)

_OF_OTHERS = (
    EngineRule(
        "TensorRT-LLM",
        _YARN,
        "Laguna: attention_factor is taken for mscale, 0.1 attention_factor ln s + 1",
        f"{_HUB}NVIDIA/TensorRT-LLM/pull/16379",
        "2026-07-14",
        lambda given: with_attention(given, mscale(given.extension, given.number("attention_factor", 1.0) or 1.0)),
        lambda given: given.model_type == "laguna" and given.states("attention_factor"),
        until="2026-07-14",
    ),
    EngineRule(
        "TensorRT-LLM",
        _YARN,
        "Laguna: attention_factor is the factor, as in transformers",
        f"{_HUB}NVIDIA/TensorRT-LLM/pull/16379",
        "2026-07-14",
        as_transformers,
        lambda given: given.model_type == "laguna" and given.states("attention_factor"),
        since="2026-07-14",
    ),
    EngineRule(
        "exllamav3",
        _YARN,
        "0.1 ln s + 1; mscale and mscale_all_dim are ignored (up to v0.0.43)",
        f"{_HUB}turboderp-org/exllamav3/issues/259",
        "2026-07-28",
        lambda given: with_attention(given, mscale(given.extension)),
        lambda given: given.states("mscale") and given.states("mscale_all_dim"),
        until="v1.0.0",
    ),
    EngineRule(
        "exllamav3",
        _YARN,
        "as transformers: attention_factor, else the ratio of mscale and mscale_all_dim, else 0.1 ln s + 1",
        f"{_HUB}turboderp-org/exllamav3/issues/259",
        "2026-07-28",
        as_transformers,
        lambda given: given.states("mscale") and given.states("mscale_all_dim"),
        since="v1.0.0",
    ),
)

RULES = (*_TRANSFORMERS, *_OF_VLLM, *_OF_SGLANG, *_OF_LLAMA, *_OF_MLX, *_OF_OTHERS)
"""All rules, by engine and date."""
