"""The kind of positions that a model type has, or its configuration states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...checkpoints.torch_module import LiveTensors
from ..architectures.config_values import whole_number
from ..architectures.families import ROTARY_FIELDS
from ..architectures.type_defaults import KIND_FIELDS, rotary_types
from ..opened_model import Opened

CALLED = {"alibi": "ALiBi", "none": "that there are no positions"}
"""What a configuration states, by the kind of positions."""


def text_kind(opened: Opened) -> str:
    """Return the kind of the text's positions that its model type has or its configuration states; "" for neither."""
    config, family = opened.part("text"), opened.family()
    inner = config.get("attn_config")
    # MPT's own code reads the flag, transformers' does not.
    otherwise = isinstance(inner, dict) and inner.get("alibi") is False and not isinstance(opened.tensors, LiveTensors)
    stated = "" if family.waves and not opened.has_own_code else kind_of(config, own_code=opened.has_own_code)
    return stated if otherwise else family.kind or stated


def kind_of(config: Mapping[str, Any], *, own_code: bool) -> str:
    """Return the kind that a model type has, or that its configuration states if the type, or its code, reads that."""
    stated = stated_kind(config)
    reads = own_code and stated in ("alibi", "none")
    return "rotary" if str(config.get("model_type")) in rotary_types() and not reads else stated


def stated_kind(config: Mapping[str, Any]) -> str:
    """Return the kind that the fields of a configuration state, whether or not its model type reads them."""
    if config.get("use_mem_rope") is False:
        return "none"
    if config.get("model_type") == "baichuan" and _is_large_baichuan(config):
        return "alibi"
    inner, spelt = config.get("attn_config"), (config.get(name) for name in KIND_FIELDS)
    stated = next((one for one in spelt if isinstance(one, str)), "")
    flags = (config, inner if isinstance(inner, dict) else {})
    biased = any(one.get(name) is True for one in flags for name in ("alibi", "use_alibi"))
    if biased or stated == "alibi" or whole_number(config, "alibi_starting_size", low=1) is not None:
        return "alibi"
    if stated in ("rope", "rotary") or config.get("rope") is True:
        return "rotary"
    if stated == "nope":
        return "none"
    if stated == "absolute":
        return ""
    return "rotary" if any(config.get(name) is not None for name in ROTARY_FIELDS) else ""


def _is_large_baichuan(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is that of Baichuan's 13B, which has ALiBi; the 7B, of the same type, rotates."""
    return "max_position_embeddings" not in config or config.get("num_hidden_layers") == 40
