"""What transformers' configuration class of a model type fills in for fields that a configuration leaves out.

The values are data: ``python -m tests.architectures.defaults`` reads them off the classes of transformers 5.24.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...checkpoints.gguf.config import ARCHITECTURE
from .config_values import class_of, has_own_code, whole_number
from .families import EPSILONS

Fields = dict[str, Any]

_DEEPEST = 3
_USUAL = ("rope_theta", "partial_rotary_factor")
_SPELT = {
    "rope_theta": ("rotary_emb_base", "rotary_base"),
    "partial_rotary_factor": ("rotary_pct", "rotary_emb_fraction", "rotary_dim"),
}
_OLDER = (*_USUAL, *_SPELT["rope_theta"], *_SPELT["partial_rotary_factor"][:2])
"""Fields outside the rotary parameters that state one of them, and how older configurations spell these."""

OF_SOME = (
    *("scale_embedding", "embedding_multiplier", "scale_emb", "embedding_scale", "rescale_embeddings"),
    *("position_biased_input", "trigram_input", "kv_channels", "qk_rope_head_dim", "rope_ratio", "rope_interleave"),
    *EPSILONS,
)
"""Fields that only models of the types that have them read; elsewhere they are left from another model."""

KIND_FIELDS = ("position_embedding_type", "position_embeddings_type", "positional_embedding_type")
"""Fields that name the kind of positions: the usual one, that of models of speech, and OpenLM's."""

SWITCHES = (*KIND_FIELDS, "alibi", "use_alibi", "alibi_starting_size", "rope", "use_mem_rope")
"""Fields that choose the kind of positions; a type that has one of them reads no other."""

_CLASS_ENDING = re.compile(r"For[A-Z]\w*|(LMHead|DoubleHeads|PreTraining|WithLMHead|Encoder|Text|Vision)*Model\w*")
"""What follows the name of a model type in the name of a class."""

_CAUSAL = re.compile(r"(\w{1,89})ForCausalLM", re.ASCII)


@lru_cache(maxsize=1)
def _entries() -> Mapping[str, Mapping[str, Any]]:
    """Return the defaults by model type.

    ``fields`` have a default; ``names`` are further names of fields; ``computed`` follow from others; ``rope`` are the
    rotary parameters, by kind of layer if they differ, ``bare`` those that complete stated ones, if they are others,
    ``read`` the fields outside of them that count where none are stated, if not the usual ones, and ``beside`` those
    that count beside stated ones, if others; ``partial``, whether the frequencies without scaling are those of a share
    of the head, and ``by_layers_alone``, whether one stated set for all kinds of layers counts for nothing; ``bases``
    names the older field of each kind's base, and ``scaled`` the kinds that an older ``rope_scaling`` changes;
    ``parts`` are nested configurations with the ``type`` that they have if they name none, the fields that the whole
    fills in for them (``always``, or ``absent`` if they are not there), and whether their fields may stand in the whole
    (``flat``).
    """
    found: Mapping[str, Mapping[str, Any]] = json.loads(
        Path(__file__).with_name("type_defaults.json").read_text(encoding="utf-8")
    )
    own = {"names": _NOMIC, "read": _OLDER, "partial": True}
    same = {"kimi_k2": found["deepseek_v3"]}  # the code is DeepSeek's
    return {**found, **_PUBLISHED, **same, "nomic_bert": {**found["nomic_bert"], **own}}


_LIKE_LLAMA = (
    *("Yi", "aquila", "baichuan", "codeshell", "deepseek", "grok-1", "internlm", "internlm2", "minicpm"),
    *("orion", "plamo", "qwen", "skywork", "xverse"),
)
_STATE_ALL = ("moss", "new", "progen")
"""Types of published code whose configurations state all but the layout; ``new`` is GTE's."""

_NOMIC = {
    **{"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers"},
    **{"n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps"},
}
"""Fields of Nomic's own configurations, which transformers' class does not read."""

_FALCON: Mapping[str, Any] = {
    "class": "RW",
    "fields": {"alibi": False, "max_position_embeddings": 2048},
    "rope": {"rope_theta": 10_000.0},
}
"""Falcon's, before transformers had it."""

_PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "RefinedWeb": _FALCON,
    "RefinedWebModel": _FALCON,
    "chatglm": {
        "class": "ChatGLM",
        "fields": {},
        "rope": {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
        "partial": True,
    },
    **{
        name: {"class": name, "fields": {}, "rope": {"rope_theta": 10_000.0}, "partial": True, "read": _OLDER}
        for name in _LIKE_LLAMA
    },
}
"""What the code published with models fills in, for types that transformers has not."""


_CODE = frozenset((*_PUBLISHED, "nomic_bert"))


@lru_cache(maxsize=1)
def _by_class() -> Mapping[str, str]:
    """Return the model type by the name that its classes begin with; of several, the one of that name."""
    classes = {name: entry["class"].lower() for name, entry in sorted(_entries().items(), reverse=True)}
    own = {name: found for name, found in classes.items() if re.sub(r"[\W_]", "", name) == found}
    return {found: name for name, found in (*classes.items(), *own.items())}


@lru_cache(maxsize=1)
def rotary_types() -> frozenset[str]:
    """Return the model types that rotate by position whatever else their configuration states."""
    other = {*kind_defaults(), "baichuan"}  # the 13B has ALiBi
    return frozenset(name for name, entry in _entries().items() if "rope" in entry and name not in other)


def kind_defaults() -> dict[str, Fields]:
    """Return by type what is filled in for the fields that turn rotary positions off or on, where there are any."""
    fields = {name: entry.get("fields", {}) for name, entry in _entries().items() if "rope" in entry}
    flags = ("alibi", "position_embedding_type", "use_mem_rope")
    found = {name: {flag: own[flag] for flag in flags if flag in own} for name, own in fields.items()}
    return {name: own for name, own in found.items() if own}


def rotary_defaults() -> dict[str, Fields]:
    """Return by type what is filled in for plain rotary positions, and whether a stated share of the head counts.

    A type without ``rope_theta`` has other parameters by default, scaled or for each kind of layer.
    """
    found: dict[str, Fields] = {}
    for name, entry in _entries().items():
        rope: Fields = entry.get("rope", {})
        plain = rope.get("rope_type", "default") == "default" and not any(
            isinstance(own, dict) for own in rope.values()
        )
        if rope:
            filled = {field: rope[field] for field in _USUAL if plain and field in rope}
            found[name] = {**filled, "partial": bool(entry.get("partial"))}
    return found


def rotates(config: Mapping[str, Any]) -> bool:
    """Return whether models of a configuration's type can rotate by position, or leave positions out, if it says so."""
    entry = _entries().get(str(config.get("model_type")), {})
    return "rope" in entry or not {"alibi", "position_embedding_type"}.isdisjoint(entry.get("fields", {}))


def type_of_class(config: Mapping[str, Any]) -> str:
    """Return the model type of the class in ``architectures``, "" if transformers has none of that name.

    Examples:
        >>> from hfposemb.models.architectures.type_defaults import type_of_class
        >>> type_of_class({"architectures": ["XLMRobertaForMaskedLM"]})
        'xlm-roberta'
    """
    name = class_of(config)
    for end in range(min(len(name), 100), 0, -1):
        if (found := _by_class().get(name[:end].lower())) and _CLASS_ENDING.fullmatch(name[end:]):
            return found
    return ""


def decoders() -> dict[str, str]:
    """Return the model type by the name that its classes begin with, of those that rotate whatever they state."""
    return {name: found for name, found in _by_class().items() if found in rotary_types()}


def extended_type(config: Mapping[str, Any]) -> str:
    """Return the model type that other code stands for: of the decoder that its class extends; "" if it is none.

    LLaVA's code states the fields of its language model, and a type of its own. The GLM of 2022 learned its positions.

    Examples:
        >>> from hfposemb.models.architectures.type_defaults import extended_type
        >>> extended_type({"model_type": "llava", "architectures": ["LlavaLlamaForCausalLM"], "vocab_size": 32000})
        'llama'
    """
    kind, name = str(config.get("model_type")), _CAUSAL.fullmatch(class_of(config))
    if kind == "glm" and "block_position_encoding" in config:
        return "glm-10b"
    if name is None or "vocab_size" not in config or kind in rotary_types() or type_of_class(config):
        return ""
    known, starts = decoders(), (match.start() for match in re.finditer("[A-Z]", name[1]) if match.start())
    return next(filter(None, (known.get(name[1][start:].lower()) for start in starts)), "")


def completed(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with what transformers fills in for its model type, and so for each nested one.

    Only fields about tables, positions and the first layer are filled in; what is stated stays. The configuration of a
    GGUF file, whose format has defaults of its own, is returned as it is.

    Args:
        config: Configuration of a model, as read.

    Examples:
        >>> from hfposemb.models.architectures.type_defaults import completed
        >>> phi = completed({"model_type": "phi"})
        >>> phi["rope_parameters"]["partial_rotary_factor"], phi["max_position_embeddings"]
        (0.5, 2048)
    """
    if ARCHITECTURE in config or not config:
        return config
    return _completed(config, _DEEPEST, own_code=has_own_code(config))


def _completed(config: Mapping[str, Any], deeper: int, model_type: str = "", *, own_code: bool) -> Fields:
    stated = config.get("model_type")
    config = {**config, **_rope_of_code(config)}
    found = dict(config)
    if not isinstance(stated, str):
        stated = model_type or type_of_class(config)
        found |= {"model_type": stated} if stated else {}
    # A part whose type is unknown is of the one that its field stands for.
    entry = _entries().get(stated, _entries().get(model_type, {}))
    parts: Mapping[str, Mapping[str, Any]] = entry.get("parts", {})
    flat = next((part for name, part in parts.items() if part.get("flat") and config.get(name) is None), None)
    entries = [*filter(None, (entry, _entries().get(flat["type"]) if flat else None))]
    found = found if own_code or stated in _CODE else _as_read(found, entries)
    for one in entries:
        found |= _fields(found, one)
    if not deeper:
        return found
    for name, part in parts.items():
        if config.get(name) is None and part is not flat and not part.get("optional"):
            found[name] = _completed(
                part.get("absent", part.get("always", {})), deeper - 1, part["type"], own_code=own_code
            )
    for name, value in config.items():
        if isinstance(value, dict):
            part_type = parts.get(name, {}).get("type", "")
            value = _as_part(value, parts.get(name, {}), stated)
            if part_type or "model_type" in value or "architectures" in value or str(name).endswith("config"):
                found[name] = _completed(value, deeper - 1, part_type, own_code=own_code)
    return found


def _as_part(value: Fields, part: Mapping[str, Any], whole: object) -> Fields:
    """Return a nested configuration with what the whole fills in; one that names the whole is of its field's type."""
    kind = part.get("type", "")
    if kind and value.get("model_type") == whole:  # as that of images in Qwen3-VL
        value = {**value, "model_type": kind}
    return {**part.get("always", {}), **value} if value.get("model_type", kind) == kind else value


def _as_read(config: Fields, entries: Sequence[Mapping[str, Any]]) -> Fields:
    """Return a configuration without fields of other types; of an unknown type, every field may count."""
    read = {name for entry in entries for name in _read(entry)}
    unread = {*OF_SOME, *(SWITCHES if read.intersection(SWITCHES) else ())} - read if entries else set()
    return {name: value for name, value in config.items() if name not in unread}


def _read(entry: Mapping[str, Any]) -> set[str]:
    """Return the fields that a type has, of those that are kept."""
    return {*entry.get("fields", ()), *entry.get("names", ()), *entry.get("computed", ())}


def own_switches() -> dict[str, list[str]]:
    """Return by type the fields that choose its kind of positions, where it has any."""
    found = {name: sorted(_read(entry).intersection(SWITCHES)) for name, entry in _entries().items()}
    return {name: own for name, own in found.items() if own and name not in _CODE}


def _rope_of_code(config: Mapping[str, Any]) -> Fields:
    """Return the rotary parameters that published code reads from an object of its own, in the terms of transformers.

    InternLM states ``rotary``; MPT's code and DBRX's state the base in ``attn_config``.
    """
    own, inner = config.get("rotary"), config.get("attn_config")
    if isinstance(own, dict):
        scaling = {"rope_type": "dynamic", "factor": own.get("scaling_factor", 1.0)}
        return {"rope_parameters": {"rope_theta": own.get("base")} | (scaling if own.get("type") == "dynamic" else {})}
    if not isinstance(inner, dict) or inner.get("rope_theta") is None or inner.get("rope", True) is not True:
        return {}
    detail = inner.get("rope_hf_config" if inner.get("rope_impl") == "hf" else "rope_dail_config")
    scaling = detail if isinstance(detail, dict) and detail.get("type") not in ("original", "no_scaling") else {}
    return {"rope_parameters": {"rope_theta": inner["rope_theta"], **scaling}}


def is_published(config: Mapping[str, Any]) -> bool:
    """Return whether the rotary rules of a configuration's type are known: transformers has it, or published code."""
    kind = str(config.get("model_type"))
    return kind in _STATE_ALL or "rope" in _entries().get(kind, {})


def _fields(config: Mapping[str, Any], entry: Mapping[str, Any]) -> Fields:
    """Return the fields that an entry fills in for a configuration."""
    renamed = {own: config[alias] for alias, own in entry.get("names", {}).items() if alias in config}
    found = {**entry.get("fields", {}), **renamed}
    # A null is a value, such as no window; of a field that names a choice it is the default.
    found = {
        name: value
        for name, value in found.items()
        if name not in config or (config[name] is None and isinstance(value, str))
    }
    return found | _rope(config, entry)


def _rope(config: Mapping[str, Any], entry: Mapping[str, Any]) -> Fields:
    """Return the rotary parameters of a configuration, completed by those of its type; {} if the type has none."""
    rope: Fields = entry.get("rope", {})
    stated = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if not rope or not isinstance(stated, dict):
        return {}
    nested = {part: own for part, own in stated.items() if isinstance(own, dict)}
    if any(isinstance(own, dict) for own in rope.values()):
        # One set of parameters where the type has one for each kind of layer is taken as it is stated, or not at all.
        flat = config.get("rope_parameters") or (stated and not entry.get("scaled"))
        taken = flat and not nested and not entry.get("by_layers_alone")
        return {} if taken else {"rope_parameters": _by_layers(config, entry, nested)}
    if nested:
        return {}
    # Empty parameters are stated, too; an empty rope_scaling is not.
    alone = not stated and config.get("rope_parameters") != {}
    default = rope if alone else entry.get("bare", rope)
    read = entry.get("read", _USUAL) if alone else entry.get("beside", {*_USUAL, *entry.get("read", ())})
    found = {**rope, **dict.fromkeys(_USUAL)} if alone else {**dict.fromkeys(_USUAL), **stated}
    for name in (name for name in _USUAL if found[name] is None):
        written = {one: config[one] for one in (name, *_SPELT[name]) if one in read and config.get(one) is not None}
        if written:
            found[name] = _turned(config, entry) if [*written] == ["rotary_dim"] else next(iter(written.values()))
        elif name in default:
            found[name] = default[name]
        elif config.get(name) is not None:
            found[name] = 1.0  # of a class that does not read it
    if rope.get("rope_type") == "axial" and stated.get("rope_type", stated.get("type", "default")) == "default":
        found["rope_type"] = "axial"
    unknown = {name for name in _USUAL if found[name] is None}
    return {"rope_parameters": {name: value for name, value in found.items() if name not in unknown}}


def _turned(config: Mapping[str, Any], entry: Mapping[str, Any]) -> float | None:
    """Return the share of a head that the ``rotary_dim`` of a configuration is."""
    turned, head = (whole_number(entry["fields"] | {**config}, one, low=1) for one in ("rotary_dim", "head_dim"))
    return turned / head if turned and head else None


def turns_whole_heads(model_type: object) -> bool:
    """Return whether a type turns all of a head without scaling, whatever share of it a configuration states."""
    entry = _entries().get(model_type, {}) if isinstance(model_type, str) else {}
    return "rope" in entry and not entry.get("partial")


def _by_layers(config: Mapping[str, Any], entry: Mapping[str, Any], nested: Mapping[str, Fields]) -> Fields:
    """Return the rotary parameters of each kind of layer; older fields state the base of one kind, or its scaling."""
    found: Fields = {}
    scaling = {} if nested else config.get("rope_scaling") or {}
    for part in dict.fromkeys((*nested, *entry["rope"])):
        own = entry.get("bare" if part in nested and "bare" in entry else "rope", {}).get(part)
        base = config.get(entry.get("bases", {}).get(part, ""))
        older = {} if base is None else {"rope_theta": base}
        scaled = scaling if part in entry.get("scaled", ()) else {}
        if own is not None or part in nested:
            found[part] = {**(own or {}), **older, **scaled, **nested.get(part, {})}
    return found
