"""Rotary frequencies from a configuration, computed as the model does, for all rope types and older spellings.

Sources: Su et al. 2021 (arXiv 2104.09864); linear: kaiokendev; dynamic: the NTK-aware scaling of bloc97 and emozilla;
yarn: Peng et al. 2023 (arXiv 2309.00071); ntk: Su 2023 (kexue.fm/archives/9706); longrope: Ding et al. 2024 (arXiv
2402.13753); llama3: the reference code of Llama 3.1. Derived from ``modeling_rope_utils`` of transformers 5.23.

Which pairs turn with time, height and width (M-RoPE) belongs to the model type: Wang et al. 2024, Qwen2-VL (arXiv
2409.12191), and the rotary modules of transformers 5.24, which read ``mrope_section`` but no field for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...tables.encodings import PositionEncoding, Unmeasured
from ...tables.rotary import Arrangement, DynamicScaling, LongFactors, PairAxes, Rotary
from ..architectures.config_values import first_whole, real_number
from ..architectures.families import ROTARY_FIELDS
from ..architectures.type_defaults import turns_whole_heads

_AXES = ("time", "height", "width")
_THIRDS, _TURNS, _QUARTERS = (16, 24, 24), (24, 20, 20), (8, 12, 12)

_TYPES: Mapping[str, tuple[Arrangement, tuple[int, ...]]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "paddleocr_vl"), ("contiguous", _THIRDS)),
    **dict.fromkeys(("glm4v", "glm4v_moe", "glm_image", "glm_ocr"), ("contiguous", _QUARTERS)),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe", "cohere_compass"), ("interleaved", _TURNS)),
    "cosmos3_edge": ("interleaved", _TURNS),
    "hy_v4_vl": ("interleaved", (12, 10, 10)),
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen4_exp"), ("interleaved", (11, 11, 10))),
    "ernie4_5_vl_moe": ("alternating", (22, 22, 20)),
    "hunyuan_vl": ("by dimension", ()),
}
"""Arrangement and sections of every type whose module turns pairs by several positions."""

_FIELDS = ("mrope_section", "xdrope_section")
_PARTS = ("_text", "_thinker", "_talker")


def pair_axes(values: Mapping[str, Any], pairs: int) -> PairAxes | None:
    """Return which axis turns each pair, ``None`` if the configuration states no sections and its type has none.

    Args:
        values: Configuration of the part with its rotary parameters.
        pairs: Number of rotated pairs of a head.

    Examples:
        >>> str(pair_axes({"model_type": "qwen2_vl", "mrope_section": [2, 3, 3]}, 8))
        'contiguous: time 0, 1; height 2 to 4; width 5 to 7'
    """
    kind = str(values.get("model_type"))
    known = _TYPES.get(_whole_axes(kind))
    stated = next((values[name] for name in _FIELDS if values.get(name) is not None), known[1] if known else ())
    if stated == ():
        return None
    sections = _sections(stated)
    if not sections:
        return PairAxes((), "not known", (), f"mrope_section is {str(stated)[:40]}, and must list whole numbers")
    arrangement, reason = known[0] if known else None, ""
    if arrangement is None and isinstance(flagged := values.get("mrope_interleaved"), bool):
        arrangement = "interleaved" if flagged else "contiguous"
    if arrangement is None:
        reason = f"the type {kind[:40]} is unknown, and mrope_interleaved is not stated"
    elif len(sections) < 3:
        reason = f"mrope_section {list(sections)} must list time, height and width"
    elif arrangement != "interleaved" and sum(sections) != pairs:
        reason = f"mrope_section {list(sections)} sums to {sum(sections)}, but {pairs} pairs turn"
    if arrangement is None or reason:
        return PairAxes((), "not known", sections, reason)
    return PairAxes(_names(arrangement, sections, pairs), arrangement, sections)


def _whole_axes(kind: str) -> str:
    """Return the type of the whole model of a text part."""
    for part in (*_PARTS, *_PARTS):
        kind = kind.removesuffix(part)
    return kind


def _sections(stated: object) -> tuple[int, ...]:
    if not isinstance(stated, list | tuple) or not 0 < len(stated) <= 64:
        return ()
    numbers = [one for one in stated if isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < 2**16]
    whole = tuple(int(one) for one in numbers if one == int(one))
    return whole if len(whole) == len(stated) else ()


def _names(arrangement: Arrangement, sections: tuple[int, ...], pairs: int) -> tuple[str, ...]:
    if arrangement == "interleaved":
        # Every third pair from the second and from the third on, up to the sections of height and width.
        turns = {axis: set(range(axis, 3 * sections[axis], 3)) for axis in (1, 2)}
        return tuple(_AXES[next((axis for axis in (1, 2) if at in turns[axis]), 0)] for at in range(pairs))
    if arrangement == "alternating":
        return tuple(
            name for name, size in zip(("height", "width", "time"), sections, strict=False) for _ in range(size)
        )
    if arrangement == "by dimension":
        named = (*["position"] * (len(sections) - 3), "width", "height", "image")
        dimensions = [name for name, size in zip(named, sections, strict=True) for _ in range(2 * size)]
        halves = zip(dimensions[:pairs], dimensions[pairs:], strict=True)
        return tuple(first if first == second else f"{first}/{second}" for first, second in halves)
    return tuple(_AXES[at % 3] for at, size in enumerate(sections) for _ in range(size))


_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len"),
    *("model_max_length", "max_source_positions", "attention_window_size", "max_seqlen", "max_length"),
)
_PART = re.compile(r"[a-z][a-z0-9_]{0,40}")
"""Name of a kind of layer, such as ``sliding_attention``, under which rope parameters can be nested."""

_BY_AXIS = ("ernie4_5_vl_moe_text",)
"""Model types whose frequencies are not sorted by size."""

SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")
"""Fields with the share of a head that rotates; the last ones are of types that transformers has not."""

INTERLEAVES = ("rope_interleave", "rotary_emb_interleaved", "original_rope")
"""Fields that say whether neighbouring dimensions form a pair; ``original_rope`` is ChatGLM's."""

_LOCAL, _GLOBAL = ("rope_local_base_freq", "local_rope_theta"), ("global_rope_theta", "rope_theta")
"""Fields for the base of each kind of layer in older Gemma 3 and ModernBERT configurations; local ones never scale."""

_whole = partial(first_whole, high=2**31)
_TRAINED = "original_max_position_embeddings"
_HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "decoder_num_attention_heads",
    "decoder_attention_heads",
)
_HEAD_WIDTHS = ("head_dim", "attention_head_dim", "kv_channels", "attention_key_size")

_INTERLEAVED = frozenset(
    (
        *("axk2", "aya_vision", "bailing_hybrid", "blt", "blt_global_transformer", "blt_local_decoder"),
        *("blt_local_encoder", "blt_patcher", "chatglm", "codegen", "cohere", "cohere2", "cohere2_moe", "deepseek_v2"),
        *("deepseek_v32", "deepseek_v4", "dots3_note", "dots3_note_text", "ernie4_5", "ernie4_5_moe"),
        *("ernie4_5_vl_moe", "ernie4_5_vl_moe_text", "glm", "glm4", "glm4v", "glm4v_text", "glm_moe_dsa", "glm_ocr"),
        *("glm_ocr_text", "gptj", "helium", "hy_v4_vl", "hy_v4_vl_text", "inkling2_vision", "llama4", "llama4_text"),
        *("longcat_flash", "mistral_large4", "mistral_large4_text", "moonshine", "moonshine_streaming", "moss"),
        *("openai_privacy_filter", "pe_audio_encoder", "pe_audio_video_encoder", "pe_video_encoder", "progen"),
        *("roformer", "sam3_vit_model"),
    )
)
"""Model types that rotate neighbouring dimensions, which no configuration states; all others rotate two halves."""


@dataclass(frozen=True)
class _Settings:
    """Parameters of a rope type: ``rotated`` dimensions of a head turn; ``stated`` has the type's own parameters."""

    theta: float
    head: int
    rotated: int
    length: int
    original: int
    stated: Mapping[str, Any]

    def frequencies(self, theta: float | None = None) -> NDArray[np.float64]:
        """Return the frequencies θ^(−2i/d) [d/2] in radians per position."""
        exponents = np.arange(0, self.rotated, 2) / self.rotated
        return np.asarray((self.theta if theta is None else theta) ** -exponents, np.float64)

    def number(self, name: str, default: float | None = None, *, low: float = 0.0) -> float:
        """Return a parameter of the type; raise ``_UnreadableError`` if it is missing or invalid."""
        if self.stated.get(name) is None and default is not None:
            return default
        found = real_number(self.stated, name, low=low, high=1e12)
        if found is None:
            raise _UnreadableError(f"its {name} is {str(self.stated.get(name))[:40]!r}")
        return found

    def factor(self) -> float:
        """Return the extension of the context: the stated factor, or the ratio of the two lengths."""
        if self.stated.get("factor") is None:
            return self.length / self.original
        return self.number("factor", low=1e-6)


class _UnreadableError(Exception):
    """The configuration has an unusable value."""


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Frequencies of a rope type; ``base`` are those before scaling if they are not the plain ones.

    With ``by_length`` the frequencies are those of an input of the longest stated length.
    """

    frequencies: NDArray[np.float64]
    attention: float = 1.0
    base: NDArray[np.float64] | None = None
    by_length: LongFactors | DynamicScaling | None = None
    rule: str = ""


def _default(settings: _Settings) -> _Scaled:
    return _Scaled(settings.frequencies())


def _linear(settings: _Settings) -> _Scaled:
    return _Scaled(settings.frequencies() / settings.number("factor", low=1e-6))


def _dynamic(settings: _Settings) -> _Scaled:
    """Keep the plain frequencies up to the stated length, beyond which the base grows with the input.

    HunYuan states ``alpha`` instead, by which the base grows for inputs of any length.
    """
    if settings.stated.get("alpha") and str(settings.stated.get("model_type")).startswith("hunyuan"):
        grown = settings.number("alpha") ** (settings.rotated / max(settings.rotated - 2, 1))
        return _Scaled(settings.frequencies(settings.theta * grown), base=settings.frequencies())
    factor = settings.number("factor", low=1e-6)
    by_length = DynamicScaling(settings.theta, settings.rotated, factor, settings.length)
    return _Scaled(settings.frequencies(), by_length=by_length)


def _proportional(settings: _Settings) -> _Scaled:
    """Rotate a share of the pairs with the frequencies of the whole head; the others do not rotate."""
    share = settings.number("partial_rotary_factor", 1.0)
    turning = min(int(share * settings.head // 2), settings.head // 2)
    frequencies = np.zeros(settings.head // 2)
    frequencies[:turning] = settings.theta ** -(np.arange(0, 2 * turning, 2) / settings.head)
    return _Scaled(frequencies / settings.number("factor", 1.0, low=1e-6), base=frequencies)


def _yarn(settings: _Settings) -> _Scaled:
    factor, width = settings.factor(), settings.rotated
    attention, rule = _yarn_attention(settings, factor)

    def dimension(turns: float) -> float:
        """Return the dimension whose pair makes ``turns`` full turns over the trained length."""
        return width * math.log(settings.original / (turns * 2 * math.pi)) / (2 * math.log(settings.theta))

    low = dimension(settings.number("beta_fast", 32.0) or 32.0)
    high = dimension(settings.number("beta_slow", 1.0) or 1.0)
    if settings.stated.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = np.clip((np.arange((width + 1) // 2) - low) / ((high - low) or 0.001), 0, 1)
    kept = settings.frequencies()
    return _Scaled(kept / factor * ramp + kept * (1 - ramp), attention, rule=rule)


def _yarn_attention(settings: _Settings, factor: float) -> tuple[float, str]:
    """Return the factor of cosines and sines and the rule that gives it: the first that the parameters state."""
    usual, extension = _mscale(factor, 1.0), f"s = {factor:g}"
    if settings.stated.get("attention_factor") is not None:
        return settings.number(
            "attention_factor"
        ), f"attention_factor is stated; 0.1 ln s + 1 is {usual:.6g}, {extension}"
    if settings.stated.get("mscale") and settings.stated.get("mscale_all_dim"):
        weights = settings.number("mscale"), settings.number("mscale_all_dim")
        above, below = (_mscale(factor, weight) for weight in weights)
        said = "(0.1 mscale ln s + 1) / (0.1 mscale_all_dim ln s + 1), mscale = {:g}, mscale_all_dim = {:g}"
        return above / below, f"{said.format(*weights)}, {extension}"
    return usual, f"0.1 ln s + 1, {extension}"


def _mscale(scale: float, weight: float) -> float:
    return 1.0 if scale <= 1 else 0.1 * weight * math.log(scale) + 1.0


def _longrope(settings: _Settings) -> _Scaled:
    factor = settings.factor()
    short, long = (settings.frequencies() / _factors(settings, name) for name in ("short_factor", "long_factor"))
    attention = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(settings.original))
    rule = f"sqrt(1 + ln s / ln L0), s = {factor:g}, L0 = {settings.original}"
    if settings.stated.get("attention_factor") is not None:
        attention, rule = (
            settings.number("attention_factor"),
            f"attention_factor is stated; {rule} gives {attention:.6g}",
        )
    scaling = None
    if settings.stated.get("short_mscale") is not None and settings.stated.get("long_mscale") is not None:
        scaling = settings.number("short_mscale"), settings.number("long_mscale")
        attention = scaling[settings.length > settings.original]
        rule = f"short_mscale {scaling[0]:.6g} and long_mscale {scaling[1]:.6g} are stated; {rule}"
    by_length = LongFactors(short, long, settings.original, scaling)
    return _Scaled(by_length.frequencies(settings.length), attention, by_length=by_length, rule=rule)


def _ntk(settings: _Settings) -> _Scaled:
    """Divide the frequency of pair m of n, from 1, by the factor to the power (m/n)^b, as GTE does; b is 1 if unstated.

    With b = 1 this is a base times the factor, and all frequencies over factor^(2/d): the slowest wave grows by it.
    """
    pairs = settings.rotated // 2
    powers = (np.arange(1, pairs + 1) / pairs) ** settings.number("mixed_b", 1.0)
    return _Scaled(settings.frequencies() / settings.number("factor", low=1e-6) ** powers)


def _factors(settings: _Settings, name: str) -> NDArray[np.float64]:
    """Return one positive number per pair of dimensions."""
    factors, pairs = settings.stated.get(name), (settings.rotated + 1) // 2
    if not isinstance(factors, list) or len(factors) != pairs:
        raise _UnreadableError(f"its {name} must hold {pairs} numbers")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 1e12 for one in factors):
        raise _UnreadableError(f"its {name} must hold positive numbers")
    return np.array(factors, np.float64)


def _frequency_factors(settings: _Settings) -> _Scaled:
    """Divide every frequency by its factor, as GGUF files state them."""
    factors = _factors(settings, "frequency_factors") * settings.number("factor", 1.0, low=1e-6)
    return _Scaled(settings.frequencies() / factors)


def _llama3(settings: _Settings) -> _Scaled:
    """Divide the frequencies of long waves by the factor, keep those of short waves, and interpolate between."""
    factor, kept = settings.number("factor", low=1e-6), settings.frequencies()
    low, high = settings.number("low_freq_factor", low=1e-6), settings.number("high_freq_factor", low=1e-6)
    turns = settings.original * kept / (2 * math.pi)
    blend = np.clip((turns - low) / ((high - low) or 1e-6), 0, 1)
    return _Scaled((1 - blend) * kept / factor + blend * kept)


TYPES: Mapping[str, Callable[[_Settings], _Scaled]] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "xdrope": _dynamic,
    "proportional": _proportional,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
    "llama3": _llama3,
    "frequency_factors": _frequency_factors,
}
"""Frequencies of every rope type by its name in a configuration; ``su`` is the older name of longrope."""

_OF_GTE = ("new", "gte")


def scaling_rule(kind: object, model_type: object) -> Callable[[_Settings], _Scaled] | None:
    """Return how a rope type scales; ``None`` if it is unknown. "ntk" is known of GTE alone, whose code defines it."""
    if kind == "ntk" and model_type in _OF_GTE:
        return _ntk
    return TYPES.get(kind) if isinstance(kind, str) else None


def rotary_encodings(config: Mapping[str, Any], *, name: str) -> dict[str, PositionEncoding]:
    """Return the rotary encodings of a configuration, by layer type if they differ, else as ``position``.

    What cannot be computed is ``Unmeasured``, with the reason.

    Args:
        config: Configuration of the part.
        name: Name of the source in messages.
    """
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(stated, dict):
        return {"position": Unmeasured("rotary", f"{name} has rope parameters that are not an object")}
    nested = {part: own for part, own in stated.items() if isinstance(own, dict) and _PART.fullmatch(part)}
    if nested:
        whole = {field: value for field, value in config.items() if field != _TRAINED}
        return {
            part: _encoding({**whole, **_of_layers(config, part), **own}, own, name=name)
            for part, own in nested.items()
        }
    if any(config.get(field) is not None for field in _LOCAL):
        local, everywhere = ({"rope_theta": _stated_base(config, fields)} for fields in (_LOCAL, _GLOBAL))
        return {
            "sliding_attention": _encoding({**config, **local}, {}, name=name),
            "full_attention": _encoding({**config, **everywhere, **stated}, stated, name=name),
        }
    # Phi-3 states the trained length outside the parameters; it takes precedence, as the length of the model does.
    outside = (_TRAINED, "max_position_embeddings")
    lengths = {field: config[field] for field in outside if config.get(field)}
    return {"position": _encoding({**config, **stated, **lengths}, stated, name=name)}


def _stated_base(config: Mapping[str, Any], fields: tuple[str, ...]) -> object:
    """Return the value of the first field that is present."""
    return next((config[field] for field in fields if config.get(field) is not None), None)


def _of_layers(config: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return fields of a kind of layer that differ from the whole: in Gemma 4, the width of its heads."""
    kinds, single = config.get("layer_types"), config.get("per_layer_config")
    if isinstance(kinds, list) and isinstance(single, dict) and part in kinds:
        found = single.get(str(kinds.index(part)))
        return found if isinstance(found, dict) else {}
    wide = config.get("global_head_dim")
    return {"head_dim": wide} if part == "full_attention" and wide is not None else {}


def _encoding(values: Mapping[str, Any], stated: Mapping[str, Any], *, name: str) -> PositionEncoding:
    kind = stated.get("rope_type", stated.get("type", "default"))
    scaled_by = scaling_rule(kind, values.get("model_type"))
    if scaled_by is None:
        return Unmeasured("rotary", f"{name} has rotary positions of the unknown type {str(kind)[:20]!r}")
    try:
        settings = _settings(values, stated)
        found = scaled_by(settings)
        if not (np.isfinite(found.frequencies).all() and math.isfinite(found.attention)):
            raise _UnreadableError("the frequencies are not finite")
    except (_UnreadableError, ArithmeticError, ValueError) as error:
        return Unmeasured("rotary", f"{name} has rotary positions of type {kind!r} that cannot be computed: {error}")
    frequencies, base = found.frequencies, settings.frequencies() if found.base is None else found.base
    if values.get("model_type") in _BY_AXIS:
        frequencies, base = _by_axis(frequencies, stated), _by_axis(base, stated)
    return Rotary(
        frequencies,
        settings.length,
        found.attention,
        layout_of(values),
        base,
        settings.original,
        str(kind),
        found.by_length,
        found.rule,
        pair_axes(values, len(frequencies)),
    )


def _by_axis(frequencies: NDArray[np.float64], stated: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the frequencies in the order of ERNIE 4.5 VL: alternating rows and columns, the slowest for time."""
    sections = stated.get("mrope_section")
    if not isinstance(sections, list) or not sections or not isinstance(sections[-1], int):
        sections = [20]
    time = min(max(sections[-1], 1), len(frequencies) - 1)
    space = frequencies[:-time]
    return np.concatenate([space[0::2], space[1::2], frequencies[-time:]])


def _settings(values: Mapping[str, Any], stated: Mapping[str, Any]) -> _Settings:
    spelt = ("rope_theta", "rotary_emb_base", "rotary_base", "rope_embedding_base", "rotary_embedding_base")
    theta = _first(values, spelt, 10_000.0, low=1.0)
    theta *= _first(values, ("rope_ratio",), 1.0, low=1e-6)  # of ChatGLM
    heads = _whole(values, _HEADS)
    hidden = _whole(values, ("hidden_size", "n_embd", "d_model"))
    apart = _whole(values, ("qk_rope_head_dim",))
    head = apart or _whole(values, _HEAD_WIDTHS)
    head = head or (hidden // heads if hidden and heads else None)
    length = _whole(values, _LENGTHS)
    if head is None or length is None or not 2 <= head <= 65_536:
        raise _UnreadableError("the head width or the maximum length is not stated")
    shares = SHARES[:1] if values.get("rope_parameters") else SHARES
    unscaled = stated.get("rope_type", stated.get("type", "default")) == "default"
    share = 1.0 if unscaled and turns_whole_heads(values.get("model_type")) else _first(values, shares, 1.0, low=0.0)
    # If rotated dimensions are stored separately, all of them rotate.
    # rotary_dim is the older spelling; rope_parameters state a share instead, or that everything rotates.
    older = None if values.get("rope_parameters") else _whole(values, ("rotary_dim",))
    rotated = apart or older or int(head * share)
    if not 2 <= rotated <= head:
        raise _UnreadableError(f"{rotated} rotated dimensions do not fit a head of {head}")
    trained = int(real_number(values, _TRAINED, low=2, high=1e7) or 0)
    return _Settings(theta, head, rotated, length, trained or length, {**values, **stated})


def unread_fields(config: Mapping[str, Any]) -> list[str]:
    """Return the fields about rotation that a configuration states and nothing here reads.

    Args:
        config: Configuration of a part of a model.

    Examples:
        >>> unread_fields({"rope_theta": 1e4, "rope_freq_constant": 5e5, "rotary_scaling_factor": 1.0})
        ['rope_freq_constant']
    """
    own = {"qk_rope_head_dim", "rotary", "rotary_base", "use_mem_rope"}
    read = own.union(ROTARY_FIELDS, SHARES, INTERLEAVES, _LOCAL, _GLOBAL)
    stated = (name for name, value in config.items() if value not in (None, False, True, 1, 0, "", {}, []))
    found = [name for name in stated if isinstance(name, str) and _ROTATES.match(name) and name not in read]
    return sorted([*found, *(name for name in _FLAGS if config.get(name) is True)])


_ROTATES = re.compile(r"(\w*_)?(rope|rotary)(_|$)")
"""Pattern for the name of a field about rotation."""

_FLAGS = ("use_dynamic_ntk", "position_encoding_2d")
"""Further ones, of Qwen and the first ChatGLM, which count when true."""


def _first(values: Mapping[str, Any], names: tuple[str, ...], default: float, *, low: float) -> float:
    for name in names:
        if values.get(name) is not None:
            found = real_number(values, name, low=low, high=1e12)
            if found is None:
                raise _UnreadableError(f"its {name} is {str(values[name])[:40]!r}")
            return found
    return default


def stated_layout(values: Mapping[str, Any]) -> Literal["half", "interleaved"] | None:
    """Return the layout that a configuration states, ``None`` if it states none.

    Args:
        values: Configuration of a part of a model.
    """
    flagged = next((flag for name in INTERLEAVES if isinstance(flag := values.get(name), bool)), None)
    return None if flagged is None else "interleaved" if flagged else "half"


def layout_of(values: Mapping[str, Any]) -> Literal["half", "interleaved"]:
    """Return the layout that a configuration states, or that its type has."""
    if (stated := stated_layout(values)) is not None:
        return stated
    # The first ChatGLM has positions on two axes, and DeepSeek's code without latent attention is Llama's.
    other = values.get("position_encoding_2d") is True or values.get("use_mla") is False
    return "interleaved" if str(values.get("model_type")) in _INTERLEAVED and not other else "half"
