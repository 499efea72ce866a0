"""PEFT adapters: which of the base model's tables they contain completely, and how they modify others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ADAPTER_CONFIG = "adapter_config.json"
_WRAPPED = "base_model."
"""Prefix of all tensor names in a model wrapped by PEFT."""

_SAVED = re.compile(r"\.modules_to_save\.[^.]+(?=\.)")
"""Infix in the tensor names of modules that PEFT trains completely; save_pretrained usually removes it."""

_CHANGES = {
    "lora_embedding_": "by a low-rank product (lora_embedding_A and lora_embedding_B)",
    "trainable_tokens_": "for single rows (trainable_tokens_delta)",
}
"""How an adapter can modify a table without containing all of it, by a part of the tensor names."""


@dataclass(frozen=True)
class Adapter:
    """Description of an adapter, ready to show on one line.

    Attributes:
        kind: Type of adapter in PEFT's terms.
        base: Name of the base model, "" if unknown.
        changes: How the adapter modifies a table of the base model, "" if it does not.
    """

    kind: str
    base: str
    changes: str

    @property
    def about(self) -> str:
        """What it is, with its base model if known."""
        return f"a PEFT adapter ({self.kind}) of {self.base or 'an unnamed base model'}"

    @property
    def advice(self) -> str:
        """What to open instead."""
        applied = f"?base={self.base.strip('“”') or 'SOURCE'} after its name, or --base"
        return f"open {self.base or 'the base model'} instead, or apply the adapter to it: {applied}"

    @property
    def nothing(self) -> str:
        """Why an adapter without tables cannot be shown."""
        holds = "contains no complete table"
        if self.changes:
            holds = f"only changes the token table, {self.changes}, which cannot be read alone"
        return f"this is {self.about} and {holds}; {self.advice}"

    @property
    def note(self) -> str:
        """Note about the tables that it contains."""
        return f"this is {self.about}; its tables replace those of the base model"


def may_be_adapter(names: Iterable[str]) -> bool:
    """Return whether the tensor names are those of a PEFT adapter."""
    return all(name.startswith(_WRAPPED) or name.startswith("prompt_") for name in names)


def adapter_of(names: Iterable[str], config: Mapping[str, Any]) -> Adapter:
    """Describe an adapter from its tensor names and adapter_config.json; both are untrusted text."""
    from ...text import display

    kind, base = (config.get(name) for name in ("peft_type", "base_model_name_or_path"))
    listed = tuple(names)
    changes = (how for part, how in _CHANGES.items() if any(part in name for name in listed))
    return Adapter(
        display(kind, width=20) if isinstance(kind, str) and kind.strip() else "of unknown type",
        f"“{display(base, width=60)}”" if isinstance(base, str) and base.strip() else "",
        " and ".join(changes),
    )


def whole_modules(names: Iterable[str]) -> dict[str, str]:
    """Return the tensors of completely trained modules, by the names that they have in the base model."""
    return dict(_whole_modules(tuple(names)))


@lru_cache(maxsize=16)
def _whole_modules(names: tuple[str, ...]) -> Mapping[str, str]:
    return {_SAVED.sub("", name): name for name in names if ".modules_to_save." in name and _SAVED.search(name)}
