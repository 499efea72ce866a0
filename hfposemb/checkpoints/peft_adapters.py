"""Adapters as PEFT saves them: which of their base model's tables they hold whole, and which they only change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ADAPTER_CONFIG = "adapter_config.json"
_WRAPPED = "base_model."
"""How PEFT begins the names of all tensors of a model that it wraps."""

_SAVED = re.compile(r"\.modules_to_save\.[^.]+(?=\.)")
"""What PEFT puts into the names of modules that it trains whole, unless save_pretrained takes it out again."""

_CHANGES = {
    "lora_embedding_": "by a product of two narrow matrices (lora_embedding_A and lora_embedding_B)",
    "trainable_tokens_": "in single rows (trainable_tokens_delta)",
}
"""How an adapter can change a table of which it does not hold the whole, by what the names of tensors have in them."""


@dataclass(frozen=True)
class Adapter:
    """Describe an adapter: the ``kind`` that PEFT calls it, its ``base`` model and how it ``changes`` a table of it.

    All three are ready to show on one line; ``base`` and ``changes`` are "" where none is named.
    """

    kind: str
    base: str
    changes: str

    @property
    def about(self) -> str:
        """What it is, with its base model where it names one."""
        return f"a PEFT adapter ({self.kind}) of {self.base or 'a base model that it does not name'}"

    @property
    def advice(self) -> str:
        """What to open instead."""
        merged = ", or the adapter merged into it (merge_and_unload of PEFT)" if self.changes else ""
        return f"open {self.base or 'the base model'} instead{merged}"

    @property
    def nothing(self) -> str:
        """Why it cannot be shown where it holds no table."""
        holds = "holds none of its tables whole"
        if self.changes:
            holds = f"only changes its table of tokens, {self.changes}, which cannot be read alone"
        return f"this is {self.about}, and {holds}: {self.advice}"

    @property
    def note(self) -> str:
        """What to know of the tables that it holds."""
        return f"this is {self.about}: the tables it holds stand in the place of those of the base model"


def may_be_adapter(names: Iterable[str]) -> bool:
    """Tell whether tensors have the names that PEFT gives to those of an adapter."""
    return all(name.startswith(_WRAPPED) or name.startswith("prompt_") for name in names)


def adapter_of(names: Iterable[str], config: Mapping[str, Any]) -> Adapter:
    """Return what adapter_config.json and the names of the tensors say of an adapter; both are hostile text."""
    from ..text import display

    kind, base = (config.get(name) for name in ("peft_type", "base_model_name_or_path"))
    listed = tuple(names)
    changes = (how for part, how in _CHANGES.items() if any(part in name for name in listed))
    return Adapter(
        display(kind, width=20) if isinstance(kind, str) and kind.strip() else "of no stated kind",
        f"“{display(base, width=60)}”" if isinstance(base, str) and base.strip() else "",
        " and ".join(changes),
    )


def whole_modules(names: Iterable[str]) -> dict[str, str]:
    """Return the tensors of modules that were trained whole, by the names that they have in the base model."""
    return {_SAVED.sub("", name): name for name in names if ".modules_to_save." in name and _SAVED.search(name)}
