"""A training run as the Hub has one: a repository with a revision for every checkpoint."""

from __future__ import annotations

import json

import numpy as np
from safetensors.numpy import save

from tests.hub.server import FakeHub

RUN = "lab/run"


def add_run(
    hub: FakeHub, count: int, *, positions: int = 64, tokens: int = 400, width: int = 16, layers: int = 0
) -> list[str]:
    """Put the checkpoints of a run on the Hub as revisions of lab/run; return their sources.

    Their tables turn from noise into waves, so that no two have the same figures. Those of ``layers`` are named as
    GPT-2's are, of one number each: 12 layers make 148 tensors.
    """
    config = {"model_type": "gpt2", "n_positions": positions, "n_embd": width, "vocab_size": tokens}
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((positions, width)).astype(np.float32)
    words = rng.standard_normal((tokens, width)).astype(np.float32)
    waves = np.sin(np.outer(np.arange(positions), 2.0 ** -np.arange(width)) + np.arange(width)).astype(np.float32)
    further = {name: np.zeros(1, np.float32) for name in _names(layers)}
    for step in range(count):
        share = np.float32(step / max(1, count - 1))
        tables = {"wpe.weight": (1 - share) * noise + share * waves, "wte.weight": words * (1 + share), **further}
        files = {"config.json": json.dumps(config).encode(), "model.safetensors": save(tables)}
        hub.add(RUN, files, branch=f"step{step}")
    return [f"{RUN}@step{step}" for step in range(count)]


def _names(layers: int) -> list[str]:
    """Return the names of all tensors of GPT-2 but the tables."""
    parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    modules = [f"h.{layer}.{part}" for layer in range(layers) for part in parts]
    return [f"{module}.{kind}" for module in (*modules, *(["ln_f"] if layers else [])) for kind in ("weight", "bias")]
