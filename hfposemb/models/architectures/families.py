"""Model families: where each architecture keeps its tables, its row offsets, and its first layer's input.

Rows of data without I/O: a new family is a new row, not a new branch. Derived from transformers 5.23 and verified for
every one of its model types by ``make test-families``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...tables.encoding_base import Kind
from .config_values import part_config, whole_number
from .table_names import ROLES, candidates

Waves: TypeAlias = Literal["", "interleaved", "concatenated", "tensor2tensor"]


@dataclass(frozen=True)
class RelativeRule:
    """Meaning of the rows of a relative-position tensor, selected by the end of the tensor's name.

    Attributes:
        ending: End of the tensor's name.
        rows: ``buckets``: T5's buckets of distances [buckets, heads]. ``distances``: one row for each signed distance,
            with 0 in the middle or at the row in the field ``zero``. ``logarithmic``: DeBERTa's table, whose far
                distances
            share rows. ``window``: [(2h − 1)·(2w − 1), heads] over a window of patches. ``waves``: the tensor only
            indicates that sinusoids of distances are added to keys, as in Transformer-XL. ``unread``: the rows do not
            depend on distance alone, see ``why``.
        axis: Axis of an image that the distances are along.
        sign: −1 if rows are ordered by query − key, 1 if by key − query.
        zero: Field with the row of distance 0.
        clipped: Whether the model reads the last row beyond the table.
        bias: Whether the rows are biases of heads rather than vectors.
        far: Fields with the largest distance of the buckets.
        why: Reason why the tensor is not read.
    """

    ending: str
    rows: Literal["buckets", "distances", "logarithmic", "window", "waves", "unread"]
    axis: str = ""
    sign: Literal[1, -1] = -1
    zero: str = ""
    clipped: bool = True
    bias: bool = False
    far: tuple[str, ...] = ("relative_attention_max_distance",)
    why: str = ""

    def fits(self, name: str) -> bool:
        """Return whether a tensor name matches; those of cross-attention do not."""
        ends = name == self.ending or name.endswith((f".{self.ending}", f"_{self.ending}"))
        return ends and "EncDec" not in name and "cross_attn" not in name


RELATIVE: tuple[RelativeRule, ...] = (
    RelativeRule("relative_attention_bias.weight", "buckets"),
    RelativeRule("attn_rel_b.weight", "buckets"),
    RelativeRule("rel_attn_embed.weight", "buckets", far=("max_bucket_distance",)),
    RelativeRule("relative_position_bias_table", "window"),
    RelativeRule("rel_embeddings.weight", "logarithmic"),
    RelativeRule("distance_embedding.weight", "distances", sign=1, zero="left_max_position_embeddings"),
    RelativeRule("pe_k.weight", "distances"),
    RelativeRule("rel_pos_emb.weight", "distances"),
    RelativeRule("emb_rel_k", "distances", sign=1, clipped=False),
    RelativeRule("bias_values.weight", "distances", sign=1, bias=True),
    RelativeRule("rel_pos_h", "distances", axis="row", clipped=False),
    RelativeRule("rel_pos_w", "distances", axis="column", clipped=False),
    RelativeRule(
        "position_bias.relative_attention_bias",
        "unread",
        why="the rows of its bias table combine distances and pairs of segments",
    ),
    RelativeRule(
        "rel_logits_proj.proj",
        "unread",
        why="its biases are computed from each query, so they do not depend on distance alone",
    ),
    RelativeRule("r_r_bias", "waves"),
    RelativeRule("pos_bias_u", "waves"),
)
"""Rules for relative-position tensors. Most occur in every layer; those of the first layer are used."""


CONVOLUTION = "pos_conv_embed"
"""Module whose convolution adds position information to its input, as in wav2vec 2.0."""


ROTARY_FIELDS = (
    "rope_parameters",
    "rope_theta",
    "global_rope_theta",
    "rope_scaling",
    "rotary_emb_base",
    "rope_embedding_base",
    "rotary_dim",
    "rotary_pct",
    "rope_pct",
    "rope_ratio",
    "rotary_emb_fraction",
)
"""Configuration fields that only models with rotary positions have."""


EPSILONS = ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "rms_norm_eps", "layernorm_epsilon", "norm_epsilon")
"""Fields with the epsilon of a norm."""


@dataclass(frozen=True)
class InputRule:
    """Modules and fields of ``after(norm(scale·before(E) + T + P))``; absent modules are skipped.

    Attributes:
        norm: Modules of the norm; the first that exists is used.
        eps: Fields with the norm's epsilon, the first that is present, or its value if the architecture fixes it.
        scale: Fields that are a factor of the token vectors or, if true, stand for √width; ``√width`` always applies.
        before: Modules that project token vectors.
        after: Modules that project the normalised sum.
        rms: Whether the norm is an RMSNorm.
    """

    norm: tuple[str, ...] = ()
    eps: tuple[str, ...] | float = EPSILONS
    scale: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    rms: bool = False
    neighbours: str = ""
    """Field that, when true, puts the next token's vector before each one and the previous one's after (MobileBERT)."""
    masks: str = ""
    """Field that, when true, leaves masked tokens out and scales the others by the share that training kept (ESM)."""
    boxes: tuple[str, ...] = ()
    """Tables, by axis, whose row 0 is added if no bounding box is given, once for each occurrence in this tuple."""


@dataclass(frozen=True)
class Family:
    """Facts about some model types that neither tensors nor configuration state.

    ``padding`` is the padding id if the configuration has none.
    """

    model_types: tuple[str, ...]
    kind: Kind | Literal[""] = ""
    """Kind of position encoding, if neither tensors nor configuration fields determine it."""
    counts_padding: bool = False
    """Whether positions start at the padding id + 1, so that the rows before are not positions."""
    padding: int | None = None
    leading: int | None = None
    """Number of leading rows that are not positions, in any configuration; ``None``: the rules of ``row_offset``."""
    computed: str = ""
    """Configuration field that, when true, states that the position table was filled with sinusoids."""
    filled: tuple[str, ...] = ()
    """Towers whose stored position table was filled with sinusoids and never trained."""
    waves: Waves = ""
    """Closed form of positions that are computed and not stored."""
    first: int = 0
    """Row of the closed form for position 0; padding id + 1 if ``counts_padding``."""
    waves_scaled: bool = False
    """Whether the closed form is divided by √width."""
    cosines_first: bool = False
    """Whether the closed form begins with the cosines."""
    inputs: InputRule | None = None
    alibi_kept: bool = True
    """Choice of ALiBi slopes if the number of heads is not a power of two; see ``encodings.alibi_slopes``."""
    alibi_scaled: bool = False
    """Whether ALiBi biases are rounded to bfloat16 and scaled with the scores by 1/√(head width)."""
    order: str = ""
    """What conveys the order of the input in a model without position encoding."""


_NORMS = (
    "embeddings.LayerNorm",
    "embeddings.layernorm",
    "embeddings.layer_norm",
    "embeddings.norm",
    "embeddings_layer_norm",
    "embedding_layernorm",
    "layernorm_embedding",
    "layer_norm_emb",
    "word_embeddings_layernorm",
    "emb_ln",
    "token_embd_norm",
)


NORMS_WITH_FIXED_EPS = ("embeddings_layer_norm", "embedding_layernorm", "layernorm_embedding")
"""Modules that normalise inputs with torch's default epsilon of 1e-5, which no configuration field states."""


_FACTORS = (
    *("scale_embedding", "embedding_multiplier", "scale_emb", "embedding_scale", "rescale_embeddings"),
    *("embeddings_scale", "mup_embeddings_scale", "embedding_multiplier_scale"),  # Jais, BTLM, Grok-1
)
_BEFORE = ("project_in",)
_AFTER = ("embedding_hidden_mapping_in", "embeddings_project", "embeddings.projection")
BY_NAMES = InputRule(_NORMS, scale=_FACTORS, before=_BEFORE, after=_AFTER)
"""Default rule, applied as far as tensors and fields exist: E + T + P, scaled, normalised, projected."""


_SCALED = InputRule(scale=("√width",))
_ROOT = InputRule(scale=_FACTORS, rms=True)


FAMILIES: tuple[Family, ...] = (
    Family(("distilbert",), computed="sinusoidal_pos_embds", inputs=InputRule(_NORMS, 1e-12)),
    Family(("xlm", "flaubert"), computed="sinusoidal_embeddings"),
    Family(("pegasus", "autoformer", "informer", "time_series_transformer"), filled=("encoder", "decoder")),
    Family(("fsmt",), filled=("encoder", "decoder"), counts_padding=True, padding=1),
    Family(("whisper",), filled=("encoder",), inputs=InputRule(_NORMS)),
    Family(("led",), inputs=InputRule(_NORMS)),
    Family(("qwen2_audio_encoder", "audioflamingo3_encoder", "voxtral_encoder"), filled=("", "audio")),
    Family(
        (
            *("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "xmod", "data2vec-text"),
            *("longformer", "luke", "ibert", "layoutlmv3", "altclip_text_model"),
            *("bridgetower_text_model", "clap_text_model"),
        ),
        counts_padding=True,
        padding=1,
    ),
    Family(("esm",), counts_padding=True, padding=1, inputs=InputRule(_NORMS, masks="token_dropout")),
    Family(("lilt", "markuplm", "prophetnet"), counts_padding=True, padding=0),
    Family(("opt", "bart", "mbart", "plbart", "mvp", "biogpt"), leading=2),
    Family(("mpnet",), counts_padding=True, leading=2),
    Family(
        ("mobilebert",),
        inputs=InputRule(_NORMS, 1e-5, before=("embedding_transformation",), neighbours="trigram_input"),
    ),
    Family(("layoutlm",), inputs=InputRule(_NORMS, boxes=("x", "y", "x", "y", "h", "w"))),
    Family(("bigbird_pegasus",), inputs=InputRule(scale=_FACTORS)),
    Family(("bloom", "gpt_refact"), "alibi"),
    Family(("mpt",), "alibi", alibi_kept=False),
    Family(("falcon",), alibi_scaled=True),
    Family(
        (
            *("gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text"),
            *("t5gemma", "t5gemma2", "t5_gemma_module", "t5gemma2_text", "t5gemma2_decoder", "recurrent_gemma"),
            *("vaultgemma", "embedding_gemma2_text", "diffusion_gemma_text"),
        ),
        inputs=_SCALED,
    ),
    Family(("inkling_text", "inkling2_text", "inkling2_loop_text"), inputs=InputRule(("embed_norm",), rms=True)),
    Family(("nanochat", "muse_glimmer_text", "muse_spark_text"), inputs=_ROOT),
    Family(("marian",), waves="concatenated"),
    Family(("pegasus_x",), waves="tensor2tensor"),
    Family(("tipsv2_text_model",), waves="tensor2tensor", inputs=_SCALED),
    Family(("videoprism_text_model",), filled=("", "text"), inputs=_SCALED),
    Family(("vits",), inputs=_SCALED),
    Family(("canary", "canary_decoder"), waves="concatenated", waves_scaled=True),
    Family(
        (
            *("m2m_100", "nllb-moe", "speech_to_text", "seamless_m4t", "seamless_m4t_v2"),
            *("kosmos_2_text_model", "kosmos_2_5_text_model"),
        ),
        waves="tensor2tensor",
        counts_padding=True,
        padding=1,
    ),
    Family(("xglm",), waves="tensor2tensor", first=2),
    Family(("musicgen_decoder", "musicgen_melody_decoder"), waves="tensor2tensor", cosines_first=True),
    Family(("ctrl",), waves="concatenated", inputs=_SCALED),
    Family(("gptj", "codegen", "roformer", "clvp_encoder"), "rotary"),
    Family(
        (
            *("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm"),
            *("nemotron3_5_asr", "nemotron_asr_streaming"),
            *("parakeet_rnnt", "parakeet_tdt"),
        ),
        "none",
        order="its recurrence, which processes tokens one by one",
    ),
    Family(
        ("jamba", "kimi_linear", "nemotron_h", "glm5_next", "glm5_next_text"),
        "none",
        order="its recurrent layers and the causal mask",
    ),
)
"""Properties of single model types that neither tensors nor configuration fields state."""


DEFAULT = Family(())
"""Model types without a row of their own: only tensors and configuration count."""


_BY_TYPE = {model_type: family for family in FAMILIES for model_type in family.model_types}


def family_of(config: Mapping[str, Any]) -> Family:
    """Return the row of a configuration's ``model_type``, or ``DEFAULT``."""
    model_type = config.get("model_type")
    if model_type == "trocr" and config.get("use_learned_position_embeddings") is False:
        return _BY_TYPE["speech_to_text"]  # its sinusoids are the same
    return _BY_TYPE.get(model_type, DEFAULT) if isinstance(model_type, str) else DEFAULT


NO_INPUTS: Mapping[str, str] = {
    **dict.fromkeys(("markuplm",), "it adds the path of every token in the page"),
    **dict.fromkeys(("roc_bert",), "it adds the shape and pronunciation of characters to its tokens"),
    **dict.fromkeys(("layoutlmv3", "udop"), "it adds the bounding box of every token"),
    **dict.fromkeys(("grounding-dino", "mm-grounding-dino"), "it restarts positions at 0 in every phrase"),
    **dict.fromkeys(("zaya",), "it scales tokens by a residual vector of its first layer"),
    **dict.fromkeys(("hrm_text",), "it adds the state of another module to its tokens"),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), "it has several input streams"),
    **dict.fromkeys(
        ("csm_depth_decoder_model", "moshi_depth"), "its inputs are audio codes, with a table for each codebook"
    ),
    **dict.fromkeys(("fastspeech2_conformer", "fastspeech2_conformer_with_hifigan"), "its inputs are scaled phonemes"),
    **dict.fromkeys(("cpmant",), "it puts its own prompt before the text"),
    **dict.fromkeys(("sam3_lite_text", "sam3_lite_text_text_model"), "its first layers are convolutions"),
    **dict.fromkeys(("vilt",), "it adds a type that distinguishes text from images"),
    **dict.fromkeys(("canine",), "it hashes characters into several tables"),
}
"""Why the first layer's input of some model types is not computed."""


@cache
def known_types() -> frozenset[str]:
    """Return the model types of transformers 5.23 whose tables, offsets and frequencies equal those of the model.

    ``python -m tests.architectures --write`` builds each small, compares it, and writes the list.
    """
    return frozenset(json.loads(Path(__file__).with_name("verified_types.json").read_text(encoding="utf-8")))


def is_known(config: Mapping[str, Any]) -> bool:
    """Return whether the rules were verified against transformers' implementation of the configuration's model type."""
    return isinstance(kind := config.get("model_type"), str) and (kind in known_types() or kind in _BY_TYPE)


def no_inputs(config: Mapping[str, Any]) -> str:
    """Return why the first layer's input of a model type is not computed; "" if it is."""
    kinds = (str(one.get("model_type")) for one in (config, part_config(config, "text")))
    return next((NO_INPUTS[kind] for kind in kinds if kind in NO_INPUTS), "")


def parts_fed(parts: Collection[str], tower: str) -> tuple[str, ...]:
    """Return the parts with positions that the token vectors enter, that of their first layer first.

    Args:
        parts: Names of all parts with positions.
        tower: Part that holds the token table; "" if an encoder and a decoder share it. An encoder's own table feeds
            the encoder; a decoder's feeds the decoder only, as in Whisper, whose encoder receives sound.
    """
    shared = tower == "" or (
        tower == "text" and {*parts} >= {"encoder", "decoder"} and not {*parts} & {"text", "position"}
    )
    towers = ("position", "text", "encoder", "decoder") if shared else (tower, "position")
    keys = (key for tower in towers for key in (tower, f"{tower}.encoder", f"{tower}.decoder"))
    return tuple(key for key in keys if key in parts)


def likely_tables(names: Sequence[str]) -> frozenset[str]:
    """Return the tensor names that can be a table of any role."""
    return frozenset(candidate.tensor for role in ROLES for candidate in candidates(names, role))


def row_offset(family: Family, config: Mapping[str, Any], rows: int) -> int:
    """Return how many leading rows of a stored position table are not positions.

    This is the padding id + 1 if positions start after it; otherwise 2 if the table has two more rows than the longest
    input in the configuration, as in BART and OPT.

    Args:
        family: Row of the model type.
        config: Configuration of the part.
        rows: Number of rows of the table.
    """
    if family.leading is not None:
        return family.leading
    if family.counts_padding:
        padding = whole_number(config, "pad_token_id", high=rows - 2)
        return (family.padding or 0) + 1 if padding is None else padding + 1
    for name in ("max_position_embeddings", "n_positions"):
        if (longest := whole_number(config, name)) is not None:
            return 2 if rows == longest + 2 else 0
    return 0
