"""Where each architecture keeps its tables, which offset it applies and what it feeds its first layer.

Rows of data, no I/O: adding a family adds a row and no branch. Read off transformers 5.23, and held against every
model type of it by ``make test-families``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from .architectures import KNOWN
from .position import Kind

Role: TypeAlias = Literal["token", "token_type", "position"]
ROLES: tuple[Role, ...] = ("token", "token_type", "position")
Waves: TypeAlias = Literal["", "interleaved", "concatenated", "tensor2tensor"]

TOKEN_ENDINGS: tuple[str, ...] = (
    "shared.weight",
    "embed_tokens.weight",
    "embed_tokens.embedding.weight",
    "word_embeddings.weight",
    "word_embedding.weight",
    "wte.weight",
    "wte.embedding",
    "tokens_embed.weight",
    "tok_embeddings.weight",
    "token_embeddings.weight",
    "token_embedding.weight",
    "token_embedding_table.weight",
    "embed_in.weight",
    "tok_emb.weight",
    "token_emb.weight",
    "tok_embed.weight",
    "token_embed.weight",
    "input_embeds_layer.weight",
    "input_embedding.weight",
    "text_token_embedding.weight",
    "text_embed_tokens.weight",
    "word_emb.emb_layers.0.weight",
)
"""How the names of token tables end, the surest first. What stands before (``bert.``, ``model.``) varies freely."""

LOOSE_TOKEN_ENDINGS: tuple[str, ...] = (
    "embeddings.weight",
    "embedding.weight",
    "embeds.weight",
    "embed.weight",
    "emb.weight",
    "text_embedding.weight",
    "text_embeddings.weight",
    "w.weight",
)
"""Endings that many tables have: taken only where the rows are as many as a vocabulary of the configuration."""

_NO_TOKENS = re.compile(
    r"codebook|quantizer|(^|[._])vq|codec|per_layer|[a-z0-9_]*(pos(ition)?|type|segment|speaker|lang|bucket|class|modality|"
    r"image|video|size|time|age|distance)_?[a-z]*_?(emb|embed|embedding|embeddings|embeds)(\.weight)?$"
)
"""What the names of tables with other rows than tokens have in them."""

POSITION_ENDING = re.compile(
    r"(?:(?P<axis>x|y|h|w|row|col|column|height|width|box|char|temporal|spatial|mid|visual|text)_)?"
    r"(?:wpe|embed_positions|positions_embed|"
    r"(?:[a-z0-9]+_)*?(?:pos|position|positions|positional)_?(?:emb|embed|embeds|embedding|embeddings|enc|encoding)"
    r"(?:_(?P<kind>layer|table|window|vlm))?|(?P<line>row|column|col)_embed(?:der|ding|dings)?|pos_idx_to_embed)"
)
"""What a tensor's name, or that of the module whose weight it is, must be to be a table of positions."""

_NO_POSITIONS = re.compile(r"class_pos|query_pos|conv_embed|shared_(image_)?embedding|no_memory|pos_embedder|ids$")
"""Names like those of position tables that are something else: rotary angles, queries of objects, random waves."""

TYPE_ENDING = re.compile(r"(visual_)?(token_type|segment)_(emb|embedding|embeddings)(_\d+)?")
"""What the module of a table of token types (segments) is called."""

HEADS = ("lm_head.weight", "cls.predictions.decoder.weight", "generator_lm_head.weight", "lm_head.decoder.weight")
"""Output heads: the token table of last resort, where the configuration ties them."""

CONTINUED: Mapping[str, str] = {"wte.embedding": "wte.new_embedding"}
"""Endings of token tables that go on in a second tensor, and how its name ends."""

TOWERS: Mapping[str, frozenset[str]] = {
    "qformer": frozenset(("qformer",)),
    "talker": frozenset(("talker", "token2wav", "depth")),
    "action": frozenset(("action", "dit")),
    "vision": frozenset(("vision", "visual", "image", "img", "vit", "sam", "patch")),
    "audio": frozenset(("audio", "speech", "acoustic")),
    "video": frozenset(("video",)),
    "text": frozenset(("text", "language", "llm", "lm")),
    "encoder": frozenset(("encoder",)),
    "decoder": frozenset(("decoder",)),
}
"""Parts of a model by the words in the names of its modules, and of its configuration's fields."""

AXES: Mapping[str, str] = {"col": "column", "char": "character", "visual": "vision", "text": ""}
"""What the first word of a position table's name says of its rows, where it is not the word itself."""


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

_NUMBERED = re.compile(r"\.\d+\.")


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


@dataclass(frozen=True)
class AttentionRule:
    """Name what makes queries and keys in the first layer: modules inside ``layer``, which is how its path ends.

    Where there is no ``key``, the module ``query`` makes queries, keys and values: one after the other (``stacked``),
    or those of heads that share a key beside each other (``grouped``); ``turned`` weights are stored [in, out].
    ``norm`` normalises what the layer is fed, unless the field ``norm_if`` is false; ``rms`` says how, ``plus_one``
    that 1 is added to its weight and to those of ``query_norm`` and ``key_norm``, which normalise queries and keys.
    ``scale`` multiplies the products: a number, a field, or 1/√ of a field; ``head`` is the width of a head.
    ``expects`` are fields that must have a value, where they are stated, for all this to hold; a dot goes inside.
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
    """Field that, when true, lets a causal layer see later keys after all."""
    counts: Literal["first", "last"] = "first"
    """From which token the layer counts the distances of ALiBi, which is all the same after the softmax."""
    expects: tuple[tuple[str, object], ...] = ()
    kind: str = ""
    """Which kind of layer the first one is, where the configuration has no ``layer_types``."""


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
"""Where the first layer of a model type makes queries and keys; each was held against transformers' own module."""

NO_LOGITS: Mapping[str, str] = {
    **dict.fromkeys(("gemma2", "t5gemma", "vaultgemma"), "it bends its logits by a tanh, so that they are no sum"),
    **dict.fromkeys(("deberta", "deberta-v2"), "its positions meet words in products of their own"),
    **dict.fromkeys(("nystromformer",), "its queries meet the means of segments, not keys"),
    **dict.fromkeys(("mobilebert",), "its first layer narrows the input before it attends"),
    **dict.fromkeys(("convbert", "funnel", "fnet", "longformer", "big_bird"), "its first layer attends in another way"),
    **dict.fromkeys(("transfo-xl", "xlnet"), "its queries meet sinusoids of distances, not positions"),
}
"""Why the logits of the first layer of some model types are not split."""


def no_logits(config: Mapping[str, Any]) -> str:
    """Return why the first layer's logits of a model type are not split, "" where they are."""
    kind = str(part_config(config, "text").get("model_type", config.get("model_type")))
    if kind in ATTENTION:
        return ""
    return NO_LOGITS.get(kind, "where its first layer makes queries and keys is not known")


def is_known(config: Mapping[str, Any]) -> bool:
    """Return whether the rules were held against transformers' own module of a configuration's model type."""
    return isinstance(kind := config.get("model_type"), str) and (kind in KNOWN or kind in _BY_TYPE)


def no_inputs(config: Mapping[str, Any]) -> str:
    """Return why the first layer's input of a model type is not computed, "" where it is."""
    kinds = (str(one.get("model_type")) for one in (config, part_config(config, "text")))
    return next((NO_INPUTS[kind] for kind in kinds if kind in NO_INPUTS), "")


def tower_of(name: str) -> str:
    """Return the part of the model that a module or field belongs to by its name, "" where no word tells one.

    The first word that names a tower of one kind of input stands above the encoders and decoders inside it.
    """
    words = [frozenset(part.lower().split("_")) for part in name.split(".")]
    found = [tower for component in words for tower, told in TOWERS.items() if component & told]
    apart = [tower for tower in found if tower not in ("encoder", "decoder")]
    return next(iter(apart or found), "")


def parts_fed(parts: Collection[str], tower: str) -> tuple[str, ...]:
    """Return those parts of a model with positions that its words enter, the one whose first layer they enter first.

    ``tower`` is the part that holds the token table: "" for one that an encoder and a decoder share. An encoder's own
    table feeds the encoder; a decoder's feeds the decoder alone, as in Whisper, whose encoder hears sound.
    """
    towers = ("position", "text", "encoder", "decoder") if tower == "" else (tower, "position")
    keys = (key for tower in towers for key in (tower, f"{tower}.encoder", f"{tower}.decoder"))
    return tuple(key for key in keys if key in parts)


def part_config(config: Mapping[str, Any], tower: str) -> Mapping[str, Any]:
    """Return the configuration of a part: the field that is named for it, at any depth, else the whole.

    For the text, where no field is named for it and the whole has no vocabulary, that of a decoder, and else the first
    that has one. Encoders and decoders that no field is named for are the text's.
    """
    inner = [(name, value) for name, value in _inner(config) if "model_type" in value or name == tower]
    if tower not in ("", "text"):
        found = next((value for name, value in inner if tower_of(name) == tower), None)
        if found is not None or tower not in ("encoder", "decoder"):
            return config if found is None else found
    named = [value for name, value in inner if tower_of(name) == "text"]
    if "vocab_size" in config and not any("vocab_size" in value for value in named):
        return config
    named += [value for name, value in inner if tower_of(name) == "decoder"]
    named += [value for _, value in inner if "vocab_size" in value]
    return next((value for value in named if "vocab_size" in value), next(iter(named), config))


def _inner(config: Mapping[str, Any], depth: int = 3) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the configurations inside one, the outer ones first."""
    level = [(name, value) for name, value in config.items() if isinstance(name, str) and isinstance(value, dict)]
    yield from level
    if depth > 1:
        for _, value in level:
            yield from _inner(value, depth - 1)


@dataclass(frozen=True)
class Candidate:
    """A tensor that can be the table of a role, and the part of the model it belongs to ("" where there is one)."""

    tensor: str
    part: str


_ORDER = {"": 0, "text": 1, "encoder": 2, "decoder": 3}
"""Which parts of a model come first: those of the text."""


def candidates(
    names: Iterable[str],
    role: Role,
    *,
    vocabularies: frozenset[int] = frozenset(),
    rows: Callable[[str], int] = lambda name: -1,
) -> tuple[Candidate, ...]:
    """Return the tensors whose names end as tables of ``role`` do, the best first within each part.

    Names inside numbered layers are passed over. Better is: the surer ending, no tower beside the text, no
    ``decoder``, the shorter path. A loose ending counts where ``rows`` of the tensor are one of ``vocabularies``.
    """
    found: list[tuple[int, int, int, str, Candidate]] = []
    for name in outside_layers(names):
        rank = _RANKS[role](name)
        if rank is None and role == "token" and _loose(name) and rows(name) in vocabularies:
            rank = len(TOKEN_ENDINGS)
        if rank is not None:
            tower = tower_of(name)
            part = _PART[role](name, tower) if role in _PART else tower
            order = _ORDER.get(tower, 4)
            if role == "token":
                order = (0, 0, 0, 1, 2)[order]
            found.append((rank, order, name.count("."), name, Candidate(name, part)))
    return tuple(entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1]))


def _ends(name: str, ending: str) -> bool:
    return name == ending or name.endswith(f".{ending}")


def likely_tables(names: Sequence[str]) -> frozenset[str]:
    """Return those of some tensor names that can be a table of any role."""
    return frozenset(candidate.tensor for role in ROLES for candidate in candidates(names, role))


def outside_layers(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are not inside numbered layers; the number in the one ending that has one is none."""
    ending = "word_emb.emb_layers.0.weight"
    return tuple(name for name in names if not _NUMBERED.search(f".{name.removesuffix(ending)}."))


def _token_rank(name: str) -> int | None:
    if _NO_TOKENS.search(name):
        return None
    return next((rank for rank, ending in enumerate(TOKEN_ENDINGS) if _ends(name, ending)), None)


def _loose(name: str) -> bool:
    return not _NO_TOKENS.search(name) and any(_ends(name, ending) for ending in LOOSE_TOKEN_ENDINGS)


def _module(name: str) -> str:
    """Return the last word of a tensor's name, or of the module whose weight it is."""
    path = name.removesuffix(".weight").removesuffix(".embedding")
    return path.rsplit(".", 1)[-1]


def _position_rank(name: str) -> int | None:
    if _NO_POSITIONS.search(name) or name.endswith((".bias", "_bias")):
        return None
    told = POSITION_ENDING.fullmatch(_module(name))
    if told is None:
        return None
    if told["axis"] or told["kind"] or told["line"]:
        return 2
    return int(_module(name) not in ("wpe", "embed_positions", "positions_embed", "position_embeddings"))


def _type_rank(name: str) -> int | None:
    return 0 if TYPE_ENDING.fullmatch(_module(name)) else None


_RANKS: Mapping[Role, Callable[[str], int | None]] = {
    "token": _token_rank,
    "token_type": _type_rank,
    "position": _position_rank,
}


def _part(name: str, tower: str) -> str:
    """Return the key of a position table: its tower, and which axis its rows are of, where its name says one."""
    told = POSITION_ENDING.fullmatch(_module(name))
    assert told is not None
    axis = told["axis"] or told["line"] or ("window" if told["kind"] == "window" else "")
    parent = name.removesuffix(".weight").rpartition(".")[0].rpartition(".")[2]
    axis = axis or next((word for word in ("spatial", "temporal") if parent.startswith(f"{word}_")), "")
    axis = AXES.get(axis, axis)
    inner = next((word for word in name.split(".") if word in ("encoder", "decoder")), "")
    return ".".join(filter(None, (tower if axis != tower else "", inner if tower == "text" else "", axis)))


def _type_part(name: str, tower: str) -> str:
    """Return the key of a table of token types: its tower, and its number where a model has several (TAPAS)."""
    told = TYPE_ENDING.fullmatch(_module(name))
    assert told is not None
    number = (told[4] or "").removeprefix("_")
    return ".".join(filter(None, ("vision" if told[1] else tower, number if number != "0" else "")))


_PART: Mapping[Role, Callable[[str, str], str]] = {"position": _part, "token_type": _type_part}


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


def vocabularies(config: Mapping[str, Any]) -> frozenset[int]:
    """Return the sizes of all vocabularies that a configuration states, at any depth."""
    parts = [config, *(inner for _, inner in _inner(config))]
    sizes = (
        whole_number(part, name, low=2) for part in parts for name in part if isinstance(name, str) and "vocab" in name
    )
    return frozenset(size for size in sizes if size is not None)


def whole_number(config: Mapping[str, Any], name: str, *, low: int = 0, high: int = 10_000_000) -> int | None:
    """Return a whole number of the configuration if it is one and within bounds, else ``None``."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None


def real_number(config: Mapping[str, Any], name: str, *, low: float, high: float) -> float | None:
    """Return a number of the configuration if it is one and within bounds, else ``None``."""
    value = config.get(name)
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        else None
    )
