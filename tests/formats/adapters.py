"""PEFT adapters: on their base model, and alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
from safetensors.numpy import load_file, save_file

from tests.formats.formats import NORMS, Format, Made
from tests.support.checkpoints.peft_adapters import write

SIZES = {"vocab_size": 6000, "hidden_size": 64}
TARGETS: dict[str, Any] = {"r": 4, "lora_alpha": 16, "target_modules": ["embed_tokens"]}


def on_its_base(adapter: Any) -> Callable[[Path], Made]:
    """Return a maker of an adapter and its base; the rows are those that PEFT merges."""

    def make(root: Path) -> Made:
        write(root, "tied", adapter, **SIZES)
        merged = load_file(root / "merged" / "model.safetensors")["model.embed_tokens.weight"]
        return Made(merged, "adapter", "?base={root}/base", 1e-6)

    return make


def alone(root: Path) -> Made:
    """Write an adapter that changes layers only."""
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file({name: np.ones((4, 16), np.float32)}, root / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "base_model_name_or_path": "owner/base", "r": 4, "target_modules": ["q_proj"]}
    (root / "adapter_config.json").write_text(json.dumps(config))
    return Made()


ON_BASE = "`owner/adapter?base=owner/name`"
APPLIED = "{}, applied to the base's rows as they are read; the base is fetched only when named"

ADAPTERS = (
    Format("PEFT LoRA on its base", ON_BASE, APPLIED.format("W + s·(B·A)ᵀ"), on_its_base(peft.LoraConfig(**TARGETS))),
    Format(
        "PEFT DoRA on its base",
        ON_BASE,
        APPLIED.format("the same with the magnitudes"),
        on_its_base(peft.LoraConfig(**TARGETS, use_dora=True)),
        rows=NORMS,
    ),
    Format(
        "PEFT trainable tokens on their base",
        ON_BASE,
        APPLIED.format("the stored rows replace those of their ids"),
        on_its_base(peft.TrainableTokensConfig(token_indices=[1, 7, 9])),
    ),
)
"""Rows of the table."""
