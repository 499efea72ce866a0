"""Write what the configuration classes of transformers fill in: ``python -m tests.architectures.defaults``."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from hfposemb.models.architectures import type_defaults
from tests.architectures.tiny import modelling

DATA = Path(type_defaults.__file__).with_name("type_defaults.json")

_NAMES = """
    max_position_embeddings n_positions max_seq_len max_sequence_length seq_length model_max_length
    max_source_positions max_target_positions original_max_position_embeddings
    hidden_size d_model n_embd dim emb_dim embed_dim encoder_hidden_size embedding_size word_embed_proj_dim
    projection_dim num_attention_heads n_head n_heads num_heads attention_heads
    encoder_attention_heads decoder_attention_heads
    decoder_num_attention_heads encoder_num_attention_heads num_key_value_heads
    num_hidden_layers n_layer n_layers num_layers
    head_dim kv_channels attention_head_dim attention_key_size qk_rope_head_dim global_head_dim
    rope_theta rotary_dim rotary_pct rotary_emb_base partial_rotary_factor rope_interleave
    use_rotary_embedding use_mem_rope
    layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps layernorm_epsilon norm_epsilon
    scale_embedding embedding_multiplier scale_emb embedding_scale rescale_embeddings normalization_type trigram_input
    pad_token_id alibi position_embedding_type position_biased_input sinusoidal_pos_embds sinusoidal_embeddings
    relative_attention_max_distance max_bucket_distance left_max_position_embeddings position_buckets
    max_relative_positions image_size patch_size attention_multiplier attn_logit_softcapping query_pre_attn_scalar
    sliding_window use_sliding_window scale_attn_weights use_bidirectional_attention do_layer_norm_before
    memory_attention_hidden_size memory_attention_downsample_rate memory_attention_num_attention_heads
    """

FIELDS = frozenset(_NAMES.split())
"""Fields that say something of tables, positions, the first layer's input or its attention."""

_BASES = ("rope_theta", "rope_local_base_freq", "global_rope_theta", "local_rope_theta", "swa_rope_theta")
"""Fields in which older configurations state the base of a kind of layer."""

_PROBE = 7777.0
_OLDER = {"rope_theta": _PROBE, "partial_rotary_factor": 0.125}
_OLDEST = {"rotary_emb_base": _PROBE, "rotary_pct": 0.125, "rotary_dim": 6}
"""Fields outside the rotary parameters that state one of them, in the usual spelling and in older ones."""


def _plain(value: object) -> bool:
    return isinstance(value, int | float | str) or (
        isinstance(value, list | tuple) and all(isinstance(one, int) for one in value)
    )


def _own(kind: type) -> dict[str, Any]:
    """Return the defaults of a class that do not follow from its other fields."""
    found = {}
    for one in fields(kind):  # type: ignore[arg-type]
        value = one.default if one.default is not MISSING else None
        if one.name == "position_embedding_type" and value is None:
            value = "nope"  # as GraniteMoeHybrid, which rotates only if the configuration says so
        if one.name in FIELDS and _plain(value):
            found[one.name] = value
    return found | _constants(kind, found)


def _constants(kind: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a class fills in itself, whatever its other fields are."""
    made = kind().to_dict()
    rest = {name: made[name] for name in sorted(FIELDS - set(own)) if _plain(made.get(name))}
    for name, value in own.items() if rest else ():
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            try:
                other = kind(**{name: 2 * value}).to_dict()
            except Exception:  # noqa: BLE001 - a value that the class refuses says nothing
                continue
            rest = {one: now for one, now in rest.items() if other.get(one) == now}
    return rest


def _rope(kind: Any) -> dict[str, Any]:
    """Return the rotary parameters of a class without any stated, and the older fields that change them, by layers."""
    rope = getattr(kind(), "rope_parameters", None)
    if not rope:
        return {}
    rope = json.loads(json.dumps(rope))
    found: dict[str, Any] = {"rope": rope} | ({"partial": True} if _of_a_share(kind) else {})
    layers = [part for part, own in rope.items() if isinstance(own, dict)]
    plain = {"rope_type": "default"}
    stated: dict[str, Any] = dict.fromkeys(layers, plain) or plain
    bare = _probed(kind, {"rope_parameters": stated})
    if bare and bare != rope:
        found["bare"] = bare
    if not layers:
        read = _fields_read(kind, {}, rope)
        beside = _fields_read(kind, {"rope_parameters": stated}, bare)
        found |= {} if read == [*_OLDER] else {"read": read}
        return found if {*beside} == {*_OLDER, *read} else found | {"beside": beside}
    flat = _probed(kind, {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": _PROBE}})
    if {part: flat.get(part) for part in layers} == bare:
        found["by_layers_alone"] = True
    bases: dict[str, str] = {}
    for name in _BASES:
        for layers, own in _probed(kind, {name: _PROBE}).items():
            if isinstance(own, dict) and own.get("rope_theta") == _PROBE:
                bases.setdefault(layers, name)
    probed = _probed(kind, {"rope_scaling": {"rope_type": "linear", "factor": 3.0}})
    scaled = [layers for layers, own in sorted(probed.items()) if isinstance(own, dict) and own.get("factor") == 3.0]
    return found | {name: value for name, value in (("bases", bases), ("scaled", scaled)) if value}


def _fields_read(kind: Any, stated: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return the fields outside the rotary parameters that change them."""
    probed = {name: _probed(kind, {name: value, **stated}) for name, value in (_OLDER | _OLDEST).items()}
    return [name for name, made in probed.items() if made and made != own]


def _of_a_share(kind: Any) -> bool:
    """Return whether the frequencies of a type without scaling read which share of a head turns, or nobody knows."""
    rotary = _rotary_sources(modelling(kind))
    if not rotary and kind in MODEL_MAPPING:  # built by the models of another type, as InternLM 3 by Llama's
        rotary = _rotary_sources(inspect.getmodule(MODEL_MAPPING[kind]))
    own = [text for text in rotary if f"config: {kind.__name__}" in text] or rotary
    return not own or any("partial_rotary_factor" in text for text in own)


def _rotary_sources(module: Any) -> list[str]:
    """Return the source of each class of a module that computes rotary frequencies."""
    inside = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    return [inspect.getsource(one) for one in inside if "compute_default_rope_parameters" in vars(one)]


def _probed(kind: Any, stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rotary parameters of a class with some fields stated, as JSON has them; {} if it refuses one."""
    try:
        made = kind(**json.loads(json.dumps(stated)))  # classes write into what they are given
        return dict(json.loads(json.dumps(getattr(made, "rope_parameters", None) or {})))
    except Exception:  # noqa: BLE001 - a field that the class refuses changes nothing
        return {}


def _parts(model_type: str, kind: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the nested configurations of a class with what they are if they name no type."""
    for name, spec in kind.sub_configs_defaults.items():
        part: dict[str, Any] = {"type": spec.model_type or f"{model_type}.{name}"}
        if spec.optional:
            part["optional"] = True
        for what, stated in (("always", {name: {"model_type": spec.model_type}}), ("absent", {})):
            if other := _filled_in(partial(_nested, kind, name, stated), partial(_class_of, spec)):
                part[what] = other
        if part.get("absent") == part.get("always"):
            part.pop("absent", None)
        try:
            made = getattr(kind(vocab_size=7777), name, None)
        except Exception:  # noqa: BLE001 - then its fields do not stand in the whole
            made = None
        if getattr(made, "vocab_size", None) == 7777 and "vocab_size" not in {one.name for one in fields(kind)}:
            part["flat"] = True
        yield name, part


def _nested(kind: Any, name: str, stated: Mapping[str, Any]) -> Any:
    return getattr(kind(**stated), name)


def _filled_in(nested: Callable[[], Any], kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields of a nested configuration that differ from those of its class."""
    made, other = _made(nested), {}
    for _ in range(2):  # what follows from the fields that differ is seen once they are known
        plain = _made(partial(kind, **other))
        other |= {name: value for name, value in made.items() if plain.get(name) != value}
    return other


def _class_of(spec: Any, **stated: Any) -> Any:
    own = issubclass(spec.config_class, transformers.PreTrainedConfig)
    return (spec.config_class if own else CONFIG_MAPPING[spec.model_type])(**stated)


def _made(make: Any) -> dict[str, Any]:
    """Return the fields of a configuration that is made, {} if it cannot be."""
    try:
        made = make().to_dict()
    except Exception:  # noqa: BLE001 - a class that needs its fields
        return {}
    rope = made.get("rope_parameters") or {}
    bases = {one: rope[one] for one in ("rope_theta", "partial_rotary_factor") if _plain(rope.get(one))}
    return {name: value for name, value in {**made, **bases}.items() if name in FIELDS and _plain(value)}


def entry(model_type: str, kind: Any) -> dict[str, Any]:
    """Return what a configuration class of transformers fills in."""
    names = {alias: own for alias, own in kind.attribute_map.items() if {alias, own} & FIELDS}
    if _made(partial(kind, n_embed=7777)).get("hidden_size") == 7777:
        names["n_embed"] = "hidden_size"
    found = {"class": kind.__name__.removesuffix("Config"), "fields": _own(kind), "names": names, **_rope(kind)}
    made = {*kind().to_dict(), *(one.name for one in fields(kind))}
    found["computed"] = sorted(made.intersection(type_defaults.OF_SOME) - {*found["fields"], *names})
    found["parts"] = dict(_parts(model_type, kind))
    return {name: value for name, value in found.items() if value or name == "read"}


def entries() -> dict[str, dict[str, Any]]:
    """Return what every configuration class fills in, by model type."""
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, Any]] = {}
    for model_type in sorted(CONFIG_MAPPING):
        kind = CONFIG_MAPPING[model_type]
        for name, each in ((model_type, kind), *_fixed(model_type, kind)):
            try:
                if name == model_type or name not in CONFIG_MAPPING:
                    found.setdefault(name, entry(name, each))
            except Exception as error:  # noqa: BLE001 - a class without defaults has nothing to fill in
                print(f"{name}: {type(error).__name__}: {str(error)[:80]}")
    return found


def _fixed(model_type: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nested configurations that have a class of their own, with their type."""
    for name, spec in kind.sub_configs_defaults.items():
        if issubclass(spec.config_class, transformers.PreTrainedConfig):
            yield spec.model_type or f"{model_type}.{name}", spec.config_class


def text(found: Mapping[str, Any]) -> str:
    """Return the data as JSON, a line for each model type."""
    lines = (f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in sorted(found.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    DATA.write_text(text(entries()), encoding="utf-8")
