"""Where each architecture keeps its tables, which offset it applies and what it feeds its first layer.

Rows of data, no I/O: adding a family adds a row and no branch. Read off transformers 5.23, and held against every
model type of it by ``make test-families``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..tables.encodings import Kind
from .config_values import part_config, whole_number
from .table_names import ROLES, candidates
from .verified_types import KNOWN

Waves: TypeAlias = Literal["", "interleaved", "concatenated", "tensor2tensor"]


@dataclass(frozen=True)
class RelativeRule:
    """Say what the rows of a tensor of relative positions stand for, by how its name ends.

    ``buckets``: T5's buckets of distances [buckets, heads]. ``distances``: one row for each signed distance, 0 in the
    middle or at the row that the field ``zero`` states; ``sign`` is −1 where rows go by query − key; beyond the last
    row ``clipped`` models read that row. ``window``: [(2h − 1)·(2w − 1), heads] over a window of patches. ``waves``:
    the tensor only shows that sinusoids of distances are added to keys, as in Transformer-XL. ``unread``: its rows
    cannot be told by distance alone, and ``why`` says so.
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
        """Return whether a tensor has the name of one; those of attention to another part of the model are none."""
        ends = name == self.ending or name.endswith((f".{self.ending}", f"_{self.ending}"))
        return ends and "EncDec" not in name


RELATIVE: tuple[RelativeRule, ...] = (
    RelativeRule("relative_attention_bias.weight", "buckets"),
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
        why="the rows of its bias table stand for distances and for pairs of segments together",
    ),
    RelativeRule(
        "rel_logits_proj.proj",
        "unread",
        why="its biases are computed from every query, by a matrix: no number holds of a distance alone",
    ),
    RelativeRule("r_r_bias", "waves"),
    RelativeRule("pos_bias_u", "waves"),
)
"""How the names of tensors of relative positions end. Most stand in every layer; shown are those of the first."""


CONVOLUTION = "pos_conv_embed"
"""The module whose convolution leaves positions in its input, as in wav2vec 2.0."""


ROTARY_FIELDS = (
    "rope_parameters",
    "rope_theta",
    "global_rope_theta",
    "rope_scaling",
    "rotary_emb_base",
    "rotary_dim",
    "rotary_pct",
)
"""Fields of a configuration that only models with rotary positions have."""


EPSILONS = ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "rms_norm_eps", "layernorm_epsilon", "norm_epsilon")
"""Fields that state what a norm adds to the variance."""


@dataclass(frozen=True)
class InputRule:
    """Name the modules and fields behind ``after(norm(scale·before(E) + T + P))``; an absent module is left out.

    ``eps`` are fields of the configuration, the first that it has, or the number where the architecture fixes it;
    ``scale`` is a field that is a factor, or that says, where true, that tokens are multiplied by √width; ``√width``
    where they always are. ``rms`` says that the norm is one of the root mean square.
    """

    norm: tuple[str, ...] = ()
    eps: tuple[str, ...] | float = EPSILONS
    scale: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    rms: bool = False
    neighbours: str = ""
    """Field that, when true, puts the next token's vector before each and the last one's after it (MobileBERT)."""
    boxes: tuple[str, ...] = ()
    """Tables by axis whose row 0 is added where no box is given, each as often as it stands here."""


@dataclass(frozen=True)
class Family:
    """Hold what is known of some model types. ``padding`` is the padding id where the configuration names none."""

    model_types: tuple[str, ...]
    kind: Kind | Literal[""] = ""
    """The mechanism, where neither tensors nor fields of the configuration tell it."""
    counts_padding: bool = False
    """Whether positions are counted from the padding id + 1, so that so many rows are none."""
    padding: int | None = None
    leading: int | None = None
    """How many leading rows are none, whatever the configuration states; by the rules of ``row_offset`` otherwise."""
    computed: str = ""
    """Field of the configuration that, when true, says the position table was filled with sinusoids."""
    filled: tuple[str, ...] = ()
    """The towers whose stored position table was filled with sinusoids, and never trained."""
    waves: Waves = ""
    """The closed form of positions that are computed, where the file does not store them."""
    first: int = 0
    """The row of the closed form that position 0 has; padding id + 1 where positions are counted from there."""
    waves_scaled: bool = False
    """Whether the closed form is divided by √width."""
    inputs: InputRule | None = None
    alibi_kept: bool = True
    """How ALiBi's slopes are chosen where the heads are no power of two: see ``position.alibi_slopes``."""
    alibi_scaled: bool = False
    """Whether ALiBi's biases are rounded to bfloat16 and scaled with the scores, by 1/√(head width)."""
    tied: bool = True
    """Whether the output head is the token table unless the configuration says otherwise."""
    order: str = ""
    """What carries the order of the input where the model is told no positions."""


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
)


NORMS_WITH_FIXED_EPS = ("embeddings_layer_norm", "embedding_layernorm", "layernorm_embedding")
"""Modules that normalise inputs with torch's own 1e-5, which no field of the configuration states."""


_FACTORS = ("scale_embedding", "embedding_multiplier", "scale_emb", "embedding_scale")
_BEFORE = ("project_in",)
_AFTER = ("embedding_hidden_mapping_in", "embeddings_project", "embeddings.projection")
BY_NAMES = InputRule(_NORMS, scale=_FACTORS, before=_BEFORE, after=_AFTER)
"""What most models do, as far as they have the tensors and fields for it: E + T + P, scaled, normalised, projected."""


_SCALED = InputRule(scale=("√width",))
_ROOT = InputRule(scale=_FACTORS, rms=True)


FAMILIES: tuple[Family, ...] = (
    Family(("distilbert",), computed="sinusoidal_pos_embds", inputs=InputRule(_NORMS, 1e-12)),
    Family(("xlm", "flaubert"), computed="sinusoidal_embeddings"),
    Family(("pegasus", "autoformer", "informer", "time_series_transformer"), filled=("encoder", "decoder")),
    Family(("fsmt",), filled=("encoder", "decoder"), counts_padding=True, padding=1),
    Family(("whisper",), filled=("encoder",)),
    Family(("qwen2_audio_encoder", "audioflamingo3_encoder", "voxtral_encoder"), filled=("", "audio")),
    Family(
        (
            *("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "xmod", "data2vec-text"),
            *("longformer", "luke", "mpnet", "ibert", "layoutlmv3", "altclip_text_model"),
            *("bridgetower_text_model", "clap_text_model", "esm"),
        ),
        counts_padding=True,
        padding=1,
    ),
    Family(("lilt", "markuplm", "prophetnet"), counts_padding=True, padding=0),
    Family(("opt", "bart", "mbart", "plbart", "mvp", "biogpt"), leading=2),
    Family(("mobilebert",), inputs=InputRule(_NORMS, before=("embedding_transformation",), neighbours="trigram_input")),
    Family(("layoutlm",), inputs=InputRule(_NORMS, boxes=("x", "y", "x", "y", "h", "w"))),
    Family(("bigbird_pegasus",), inputs=InputRule(scale=_FACTORS)),
    Family(("bloom",), "alibi"),
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
    Family(("inkling_text", "inkling2_text"), inputs=InputRule(("embed_norm",), rms=True)),
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
    Family(("ctrl",), waves="concatenated", inputs=_SCALED),
    Family(("gptj", "codegen", "roformer", "clvp_encoder"), "rotary"),
    Family(
        (
            *("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm", "nemotron3_5_asr", "nemotron_asr_streaming"),
            *("parakeet_rnnt", "parakeet_tdt"),
        ),
        "none",
        order="the recurrence, which reads one token after the other",
    ),
    Family(
        ("jamba", "kimi_linear", "nemotron_h", "glm5_next", "glm5_next_text"),
        "none",
        order="its recurrent layers, and the causal mask",
    ),
)
"""What single types do that neither tensors nor fields of the configuration say."""


DEFAULT = Family((), tied=True)
"""What is assumed of a model type without a row of its own: what tensors and configuration say, and nothing else."""


_BY_TYPE = {model_type: family for family in FAMILIES for model_type in family.model_types}


def family_of(config: Mapping[str, Any]) -> Family:
    """Return the row of a configuration's ``model_type``, ``DEFAULT`` where none has it."""
    model_type = config.get("model_type")
    return _BY_TYPE.get(model_type, DEFAULT) if isinstance(model_type, str) else DEFAULT


NO_INPUTS: Mapping[str, str] = {
    **dict.fromkeys(("markuplm",), "it adds the path of every token in its page"),
    **dict.fromkeys(("roc_bert",), "it mixes shapes and pronunciations into its tokens"),
    **dict.fromkeys(("layoutlmv3", "udop"), "it adds the box of every token on its page"),
    **dict.fromkeys(("grounding-dino", "mm-grounding-dino"), "it counts positions from 0 again in every phrase"),
    **dict.fromkeys(("zaya",), "it scales tokens by a residual vector of its first layer"),
    **dict.fromkeys(("hrm_text",), "it adds the state of another module to its tokens"),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), "it feeds several streams at once"),
    **dict.fromkeys(("csm_depth_decoder_model", "moshi_depth"), "it feeds codes of sound, each from its own table"),
    **dict.fromkeys(("fastspeech2_conformer", "fastspeech2_conformer_with_hifigan"), "it feeds sounds, scaled"),
    **dict.fromkeys(("cpmant",), "it puts a prompt of its own before the text"),
    **dict.fromkeys(("reformer",), "it puts its positions together of two tables, of rows and of columns"),
    **dict.fromkeys(("sam3_lite_text", "sam3_lite_text_text_model"), "its first layers are convolutions"),
    **dict.fromkeys(("vilt",), "it adds a type that tells texts from images"),
    **dict.fromkeys(("canine",), "it feeds characters, hashed into several tables"),
}
"""Why what some model types feed their first layer is not computed."""


def is_known(config: Mapping[str, Any]) -> bool:
    """Return whether the rules were held against transformers' own module of a configuration's model type."""
    return isinstance(kind := config.get("model_type"), str) and (kind in KNOWN or kind in _BY_TYPE)


def no_inputs(config: Mapping[str, Any]) -> str:
    """Return why the first layer's input of a model type is not computed, "" where it is."""
    kinds = (str(one.get("model_type")) for one in (config, part_config(config, "text")))
    return next((NO_INPUTS[kind] for kind in kinds if kind in NO_INPUTS), "")


def parts_fed(parts: Collection[str], tower: str) -> tuple[str, ...]:
    """Return those parts of a model with positions that its words enter, the one whose first layer they enter first.

    ``tower`` is the part that holds the token table: "" for one that an encoder and a decoder share. An encoder's own
    table feeds the encoder; a decoder's feeds the decoder alone, as in Whisper, whose encoder hears sound.
    """
    towers = ("position", "text", "encoder", "decoder") if tower == "" else (tower, "position")
    keys = (key for tower in towers for key in (tower, f"{tower}.encoder", f"{tower}.decoder"))
    return tuple(key for key in keys if key in parts)


def likely_tables(names: Sequence[str]) -> frozenset[str]:
    """Return those of some tensor names that can be a table of any role."""
    return frozenset(candidate.tensor for role in ROLES for candidate in candidates(names, role))


def row_offset(family: Family, config: Mapping[str, Any], rows: int) -> int:
    """Return how many leading rows of a stored position table of ``rows`` rows are not positions.

    Padding id + 1 where positions are counted from there; else 2 where there are two rows more than the longest
    input that the configuration states, as BART and OPT have them.
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
