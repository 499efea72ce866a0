"""Which tensors of a base model a PEFT adapter changes, and how, from tensor names and adapter_config.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import CheckpointError
from ...text import display
from .adapted import ModuleChange, scale_of

_PREFIX = re.compile(r"^base_model\.(?:model\.)?")
_PARTS = {
    "whole": r"(?:modules_to_save(?:\.[^.]+)?\.|base_layer\.)?weight",
    "embedding A": r"lora_embedding_A(?:\.[^.]+)?",
    "embedding B": r"lora_embedding_B(?:\.[^.]+)?",
    "A": r"lora_A(?:\.[^.]+)?\.weight",
    "B": r"lora_B(?:\.[^.]+)?\.weight",
    "magnitude": r"lora_magnitude_vector(?:\.[^.]+)?(?:\.weight)?",
    "tokens": r"(?:token_adapter\.)?trainable_tokens_delta(?:\.[^.]+)?",
}
"""Endings of the names of an adapter's tensors, after the module that they change."""

_PART = re.compile(
    r"^(?P<module>.+?)\.(?:" + "|".join(f"(?P<p{at}>{ending})" for at, ending in enumerate(_PARTS.values())) + ")$"
)
_UNLIKE_LORA = (
    *("alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "monteclora_config"),
    *("target_parameters", "use_bdlora", "use_qalora", "velora_config"),
)
"""Options of LoRA with another formula, or that change more than single modules."""

_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Initialisations of LoRA that subtract something from the base model's weights."""

_KNOWN = ("LORA", "TRAINABLE_TOKENS")


def changes_of(
    adapter: Sequence[str], base: Iterable[str], config: Mapping[str, Any]
) -> tuple[dict[str, ModuleChange], tuple[str, ...]]:
    """Return how an adapter changes tensors of its base model.

    Args:
        adapter: Names of the adapter's tensors.
        base: Names of the base model's tensors.
        config: Its adapter_config.json.

    Returns:
        The changes by the names that tensors have in the base model, and the changed modules that it does not store.

    Raises:
        CheckpointError: If nothing fits, or adapter_config.json is not that of an adapter.
    """
    modules: dict[str, dict[str, str]] = {}
    for name in adapter:
        if (split := _split(name)) is not None:
            modules.setdefault(split[0], {})[split[1]] = name
    stored = {name.removesuffix(".weight"): name for name in base if name.endswith(".weight")}
    stored |= {name: name for name in base if not name.endswith((".weight", ".bias"))}
    matched = {module: _match(module, stored) for module in modules}
    found = {name: _change(module, modules[module], config) for module, name in matched.items() if name is not None}
    if not found:
        such = f", such as {display(', '.join(list(modules)[:3]), width=100)}" if modules else ""
        changed = f"the base model has none of the modules that the adapter changes{such}"
        raise CheckpointError(f"{changed}; name the model that it was made for")
    return found, tuple(module for module, name in matched.items() if name is None)


def _split(name: str) -> tuple[str, str] | None:
    """Split the name of an adapter's tensor into the module that it changes and its part in the change."""
    match = _PART.match(_PREFIX.sub("", name, count=1))
    if match is None:
        return None
    return match["module"], next(part for at, part in enumerate(_PARTS) if match[f"p{at}"] is not None)


def _match(module: str, stored: Mapping[str, str]) -> str | None:
    """Return the base model's tensor of a module; checkpoints of base models lack a prefix that heads add."""
    parts = module.split(".")
    for skipped in range(len(parts)):
        if (ending := ".".join(parts[skipped:])) in stored and (skipped < len(parts) - 1 or skipped == 0):
            return stored[ending]
    if len(parts) > 1 and parts[-1] in stored:
        return stored[parts[-1]]
    longer = [name for one, name in stored.items() if one.endswith(f".{module}")]
    return longer[0] if len(longer) == 1 else None


def _change(module: str, parts: Mapping[str, str], config: Mapping[str, Any]) -> ModuleChange:
    embedding = "embedding A" in parts or "embedding B" in parts
    first, second = (
        (parts.get("embedding A"), parts.get("embedding B")) if embedding else (parts.get("A"), parts.get("B"))
    )
    refused = _refused(config, embedding=embedding, low_rank=first is not None or second is not None)
    if (first is None) != (second is None):
        refused = refused or "is changed by one factor of a low-rank product, without the other; download it again"
    change = ModuleChange(
        whole=parts.get("whole"),
        first=first,
        second=second,
        embedding=embedding,
        turned=config.get("fan_in_fan_out") is True,
        magnitude=parts.get("magnitude"),
        tokens=parts.get("tokens"),
        ids=tuple(_ids(module, config)) if "tokens" in parts else (),
        refused=refused,
    )
    return change if first is None or refused else _scaled(change, module, config)


def _scaled(change: ModuleChange, module: str, config: Mapping[str, Any]) -> ModuleChange:
    rank, alpha = (_number(module, config, pattern, default) for pattern, default in _NUMBERS)
    return replace(change, scale=scale_of(int(rank), alpha, root=config.get("use_rslora") is True))


_NUMBERS = (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha"))


def _number(module: str, config: Mapping[str, Any], pattern: str, default: str) -> float:
    """Return the rank or α of a module: PEFT searches the keys of a pattern as the ends of module names."""
    patterns = config.get(pattern)
    listed = patterns.items() if isinstance(patterns, Mapping) else ()
    own = next((value for key, value in listed if module == key or module.endswith(f".{key}")), None)
    value = config.get(default) if own is None else own
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise CheckpointError(f"adapter_config.json must state {default} as a number above 0; found {value!r:.40}")
    return float(value)


def _refused(config: Mapping[str, Any], *, embedding: bool, low_rank: bool) -> str:
    """Return why the change of a module cannot be applied, as the end of a sentence; "" if it can."""
    kind = config.get("peft_type")
    merge = "merge it with merge_and_unload of PEFT and open the result"
    if kind not in _KNOWN:
        return f"is changed by {display(str(kind), width=20)}, whose formula is not applied here; {merge}"
    if not low_rank:
        return ""
    if other := next((name for name in _UNLIKE_LORA if config.get(name)), None):
        return f"is changed with {other}, which is not applied here; {merge}"
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE) and not embedding:
        return f"was started by {display(start, width=20)}, which changes the base model's weights too; {merge}"
    return ""


def _ids(module: str, config: Mapping[str, Any]) -> Iterator[int]:
    """Yield the row numbers of the trained tokens of a module."""
    given = config.get("token_indices") or config.get("trainable_token_indices")
    if isinstance(given, Mapping):
        own = [value for key, value in given.items() if module == key or module.endswith(f".{key}")]
        given = own[0] if own else next(iter(given.values()), None)
    whole = isinstance(given, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in given)
    if not whole or not given or min(given) < 0:
        raise CheckpointError(f"adapter_config.json must list the ids of the trained tokens; found {given!r:.40}")
    yield from given
