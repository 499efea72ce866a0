"""Configurations and labels of checkpoints of other libraries than transformers, and of exported tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..checkpoints.strict_json import fault, shortened
from ..tables.saved.writing import read_labels, read_provenance
from ..text import display
from .architectures.config_values import real_number, whole_number
from .opened_model import Opened, not_missing

Fields = dict[str, Any]

EXPORTED = "vectors"
"""Tensor of a table that this package exported."""

ARRAYS = (".npy", ".npz")

ROLES = ("token", "position", "token_type", "head")
"""Names under which tables are recognised that were saved by themselves, as in an ``.npz`` file."""

NATIVE = ("open_clip", "timm")
"""Names that stand for the model type of libraries without model types."""


def with_native_config(opened: Opened) -> Opened:
    """Return an opened source with a configuration made of the one that its own library wrote.

    Sources with a ``model_type`` stay as they are. At most one further file is read, chosen by the tensor names.
    """
    if opened.config.get("model_type"):
        return opened
    names = frozenset(opened.tensors.names())
    for convert in _CONVERTERS:
        if fields := convert(opened, names):
            about = fields.pop("about")
            return replace(opened, config={**opened.config, **fields}, notes=[*opened.notes, about])
    return opened


def with_exported_tables(opened: Opened) -> Opened:
    """Return tables that were saved by themselves, with labels if any: under the name of a role, or one alone.

    Any source with a configuration, and one whose only table has another name, is returned as it is.
    """
    names = opened.tensors.names()
    if opened.config.get("model_type"):
        return opened
    facts = dict(opened.tensors.metadata())
    labels = partial(read_labels, facts) if "labels" in facts and not opened.ours else opened.labels
    if roles := {role: role for role in ROLES if role in names}:
        return replace(opened, named={**roles, **opened.named}, labels=labels, without_tokens=not_missing)
    if len(names) != 1 or not (names[0] == EXPORTED or opened.tensors.info(names[0]).file.endswith(ARRAYS)):
        return opened
    saved = read_provenance(facts)
    if saved is not None:
        opened.notes.append(f"it states that it was saved from {display(saved.source, width=120)}")
    named = {"token": names[0], **opened.named}
    return replace(opened, named=named, labels=labels, saved=saved, without_tokens=not_missing)


def _original_llama(opened: Opened, names: frozenset[str]) -> Fields | None:
    """Return the configuration in params.json, which Meta and Mistral write beside their own checkpoints."""
    if opened.config or "tok_embeddings.weight" not in names:
        return None
    given, table = opened.settings("params.json"), opened.tensors.info("tok_embeddings.weight")
    if given is None or whole_number(given, "dim", low=1) is None or whole_number(given, "n_heads", low=1) is None:
        return None
    if table.shape[1:] != (given["dim"],):
        raise fault(
            "params.json", f"states a dim of {given['dim']}, but {table.name} has the shape {list(table.shape)}"
        )
    optional = {"head_dim": "head_dim", "max_seq_len": "max_position_embeddings"}
    for name in (*optional, "n_kv_heads", "norm_eps", "rope_theta"):
        read = (
            partial(real_number, low=0.0, high=1e12)
            if name in ("norm_eps", "rope_theta")
            else partial(whole_number, low=1)
        )
        if given.get(name) is not None and read(given, name) is None:
            raise fault("params.json", f"states a {name} of {shortened(str(given[name]))}; expected a number above 0")
    if given["dim"] % given["n_heads"] and given.get("head_dim") is None:
        raise fault("params.json", f"states a dim of {given['dim']}, which its {given['n_heads']} heads do not divide")
    found: Fields = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "tie_word_embeddings": False,
        "hidden_size": given["dim"],
        "num_attention_heads": given["n_heads"],
        "num_key_value_heads": given.get("n_kv_heads") or given["n_heads"],
        "rms_norm_eps": given.get("norm_eps", 1e-5),
        "rope_theta": given.get("rope_theta", 10000.0),
        "rotary_emb_interleaved": True,  # the originals rotate neighbouring dimensions
        "vocab_size": table.shape[0],
        "about": "config.json is missing: its values come from params.json",
    }
    if whole_number(given, "max_seq_len", low=1) is None:
        found["about"] += ", which does not state the longest input: 2,048, the default of transformers, is assumed"
    found["max_position_embeddings"] = 2048
    found |= {ours: given[name] for name, ours in optional.items() if whole_number(given, name, low=1) is not None}
    if given.get("use_scaled_rope") is True:
        found["about"] += "; its use_scaled_rope does not state the scaling, so frequencies are those without it"
    return found


def _open_clip(opened: Opened, names: frozenset[str]) -> Fields | None:
    """Return the configuration in open_clip_config.json."""
    if opened.config or not {"positional_embedding", "token_embedding.weight"} <= names:
        return None
    given = (opened.settings("open_clip_config.json") or {}).get("model_cfg")
    if not isinstance(given, dict):
        return None
    words = {"vocab_size": "vocab_size", "max_position_embeddings": "context_length", "hidden_size": "width"}
    image = {"image_size": "image_size", "patch_size": "patch_size", "hidden_size": "width"}
    return {
        "model_type": "open_clip",
        "text_config": {"model_type": "open_clip_text", **_renamed(given.get("text_cfg"), words)},
        "vision_config": {"model_type": "open_clip_vision", **_renamed(given.get("vision_cfg"), image)},
        "about": "config.json is missing: its values come from open_clip_config.json",
    }


def _renamed(given: object, names: Mapping[str, str]) -> Fields:
    return {ours: given[theirs] for ours, theirs in names.items() if theirs in given} if isinstance(given, dict) else {}


def _timm(opened: Opened, names: frozenset[str]) -> Fields | None:
    """Return the size of images and patches of a timm model, from config.json and the shape of its first layer."""
    if not isinstance(opened.config.get("architecture"), str) or "pos_embed" not in names:
        return None
    cfg = opened.config.get("pretrained_cfg")
    size = cfg.get("input_size") if isinstance(cfg, dict) else None
    patch = "patch_embed.proj.weight"
    found: Fields = {"model_type": "timm", "about": f"timm's {display(opened.config['architecture'], width=40)}"}
    if isinstance(size, list) and len(size) == 3 and patch in names and opened.at_hand(patch):
        shape = opened.tensors.info(patch).shape
        if len(shape) == 4:
            found |= {"image_size": list(size[1:]), "patch_size": list(shape[2:])}
    return found


_CONVERTERS: tuple[Callable[[Opened, frozenset[str]], Fields | None], ...] = (_original_llama, _open_clip, _timm)
"""Converters of the libraries, each of which returns ``None`` for the sources of others."""
