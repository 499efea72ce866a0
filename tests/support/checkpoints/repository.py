"""A small GPT-2 as a repository of the fake Hub, and what was asked of it."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from tests.hub import FakeHub

REPO = "somebody/gpt"


CONFIG = json.dumps({"model_type": "gpt2", "n_positions": 1024, "n_embd": 64, "vocab_size": 3000}).encode()


def tables() -> dict[str, NDArray[np.float32]]:
    """Tensors of a small GPT-2, the tables too large to come with the header."""
    draw = np.random.default_rng(7)
    shapes = {"wte.weight": (3000, 64), "wpe.weight": (1024, 64), "h.0.ln_1.weight": (64,), "h.0.ln_1.bias": (64,)}
    return {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


TABLES = tables()


FILE = save(TABLES)


def asked(hub: FakeHub, host: str, *, method: str = "GET") -> list[int]:
    """Return the sizes of the bodies that a host sent."""
    return [one.body_bytes for one in hub.requests if one.host == host and one.method == method]
