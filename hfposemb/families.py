"""Where each architecture keeps its tables, which offset it applies and what it feeds its first layer.

Rows of data, no I/O: adding a family adds a row and no branch. Read off transformers 5.23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .position import Kind

Role: TypeAlias = Literal["token", "token_type", "position"]
Offset: TypeAlias = Literal["none", "padding + 1", "two more than the configuration's maximum"]

ENDINGS: Mapping[Role, tuple[str, ...]] = {
    "token": (
        "shared.weight",
        "embed_tokens.weight",
        "word_embeddings.weight",
        "word_embedding.weight",
        "wte.weight",
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
    ),
    "token_type": ("token_type_embeddings.weight", "segment_embeddings.weight", "token_type_embedding.weight"),
    "position": (
        "wpe.weight",
        "position_embeddings.weight",
        "position_embedding.weight",
        "embed_positions.weight",
        "positions_embed.weight",
        "position_embedding_table.weight",
        "positional_embedding.weight",
        "positional_embedding",
        "position_embeddings",
        "pos_embedding.weight",
        "pos_embedding",
        "pos_embed.weight",
        "pos_embed",
        "pos_emb.weight",
        "pos_emb",
    ),
}
"""How tensor names end by role, the surest first. What stands before (``bert.``, ``model.``) varies freely."""

HEADS = ("lm_head.weight", "cls.predictions.decoder.weight", "generator_lm_head.weight", "lm_head.decoder.weight")
"""Output heads: the token table of last resort, where the configuration ties them."""

RELATIVE_BIAS = "relative_attention_bias.weight"
"""How the name of a bias table [buckets, heads] over distances ends, in the first layer that has one."""

ROTARY_FIELDS = ("rope_parameters", "rope_theta", "rope_scaling", "rotary_emb_base", "rotary_dim", "rotary_pct")
"""Fields of a configuration that only models with rotary positions have."""

_NUMBERED = r"\.\d+\."
_PARTS = ("encoder", "decoder")


@dataclass(frozen=True)
class InputRule:
    """Name the modules and fields behind ``after(norm(scale·before(E) + T + P))``; an absent module is left out.

    ``eps`` is a field of the configuration, or the number where the architecture fixes it; ``sqrt_scale`` the field
    that, when true, multiplies tokens by √width.
    """

    norm: str = ""
    eps: str | float = 1e-5
    sqrt_scale: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Family:
    """Hold what is known of some model types. ``padding`` is the padding id where the configuration names none."""

    model_types: tuple[str, ...]
    kind: Kind
    offset: Offset = "none"
    padding: int | None = None
    computed: str = ""
    """Field of the configuration that, when true, says the position table was filled with sinusoids."""
    inputs: InputRule | None = None
    alibi_kept: bool = True
    """How ALiBi's slopes are chosen where the heads are no power of two: see ``position.alibi_slopes``."""
    tied: bool = True
    """Whether the output head is the token table unless the configuration says otherwise."""


_BERT_NORM = "embeddings.LayerNorm"

FAMILIES: tuple[Family, ...] = (
    Family(("bert",), "learned", inputs=InputRule(_BERT_NORM, "layer_norm_eps")),
    Family(("distilbert",), "learned", computed="sinusoidal_pos_embds", inputs=InputRule(_BERT_NORM, 1e-12)),
    Family(
        ("roberta", "xlm-roberta", "camembert", "roberta-prelayernorm"),
        "learned",
        offset="padding + 1",
        padding=1,
        inputs=InputRule(_BERT_NORM, "layer_norm_eps"),
    ),
    Family(("mpnet",), "learned", offset="padding + 1", padding=1, inputs=InputRule(_BERT_NORM, "layer_norm_eps")),
    Family(("albert",), "learned", inputs=InputRule(_BERT_NORM, "layer_norm_eps", after="embedding_hidden_mapping_in")),
    Family(("electra",), "learned", inputs=InputRule(_BERT_NORM, "layer_norm_eps", after="embeddings_project")),
    Family(("openai-gpt", "gpt2", "gpt_neo"), "learned", inputs=InputRule()),
    Family(
        ("opt",),
        "learned",
        offset="two more than the configuration's maximum",
        inputs=InputRule(before="project_in"),
    ),
    Family(
        ("bart", "mbart"),
        "learned",
        offset="two more than the configuration's maximum",
        inputs=InputRule("layernorm_embedding", 1e-5, sqrt_scale="scale_embedding"),
    ),
    Family(("bloom",), "alibi", inputs=InputRule("word_embeddings_layernorm", "layer_norm_epsilon")),
    Family(("mpt",), "alibi", alibi_kept=False, inputs=InputRule()),
    Family(("t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano"), "relative-bias", inputs=InputRule()),
    Family(("llama", "mistral", "qwen2", "qwen3", "gpt_neox", "olmo2"), "rotary", inputs=InputRule(), tied=False),
)

UNKNOWN = Family((), "learned", offset="two more than the configuration's maximum", tied=False)
"""What is assumed of a model type that has no row: the endings of the tensors' names, and nothing else."""

_BY_TYPE = {model_type: family for family in FAMILIES for model_type in family.model_types}


def family_of(config: Mapping[str, Any]) -> Family:
    """Return the family of a configuration's ``model_type``, ``UNKNOWN`` where none has it."""
    model_type = config.get("model_type")
    return _BY_TYPE.get(model_type, UNKNOWN) if isinstance(model_type, str) else UNKNOWN


@dataclass(frozen=True)
class Candidate:
    """A tensor that can be the table of a role, and the part of the model it belongs to ("" where there is one)."""

    tensor: str
    part: str


def candidates(names: Iterable[str], role: Role) -> tuple[Candidate, ...]:
    """Return the tensors whose names end as tables of ``role`` do, the best first within each part.

    Names inside numbered layers are passed over. Better is: the surer ending, no ``decoder``, the shorter path.
    """
    found: list[tuple[int, bool, int, str, Candidate]] = []
    for name in names:
        if re.search(_NUMBERED, f".{name}."):
            continue
        for rank, ending in enumerate(ENDINGS[role]):
            if name == ending or name.endswith(f".{ending}"):
                path = name.split(".")
                part = next((part for part in _PARTS if part in path), "")
                found.append((rank, part == "decoder", len(path), name, Candidate(name, part)))
                break
    return tuple(entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1]))


def row_offset(family: Family, config: Mapping[str, Any], rows: int) -> int:
    """Return how many leading rows of a stored position table of ``rows`` rows are not positions."""
    if family.offset == "padding + 1":
        padding = whole_number(config, "pad_token_id", high=rows - 2)
        return (family.padding or 0) + 1 if padding is None else padding + 1
    if family.offset == "two more than the configuration's maximum":
        for name in ("max_position_embeddings", "n_positions"):
            if (longest := whole_number(config, name)) is not None:
                return 2 if rows == longest + 2 else 0
    return 0


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
