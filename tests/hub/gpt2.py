"""GPT-2 as the Hub has it, in size and names; only the position table has numbers in it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from tests.hub.server import FakeHub

_CONFIG = {"model_type": "gpt2", "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}


def add_gpt2(hub: FakeHub, folder: Path) -> NDArray[np.float32]:
    """Put openai-community/gpt2 on the Hub, its sparse file of 498 MB in ``folder``; return its position table."""
    path = folder / "model.safetensors"
    table = _write(path)
    hub.add("openai-community/gpt2", {"config.json": json.dumps(_CONFIG), "model.safetensors": path})
    return table


def small_gpt2(tokens: int, positions: int, width: int, *, seed: int = 0) -> dict[str, bytes | str]:
    """Return the files of a GPT-2 of another size, with numbers that are drawn."""
    draw = np.random.default_rng(seed)
    config = {"model_type": "gpt2", "n_positions": positions, "n_embd": width, "vocab_size": tokens}
    shapes = {"wte.weight": (tokens, width), "wpe.weight": (positions, width)}
    tables = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {"config.json": json.dumps(config), "model.safetensors": save(tables)}


def _write(path: Path) -> NDArray[np.float32]:
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (50257, 768), "wpe.weight": (1024, 768)}
    layer = {"attn.c_attn": (768, 2304), "attn.c_proj": (768, 768), "mlp.c_fc": (768, 3072), "mlp.c_proj": (3072, 768)}
    for number in range(12):
        for name, shape in layer.items():
            shapes |= {f"h.{number}.{name}.weight": shape, f"h.{number}.{name}.bias": shape[1:]}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    positions = np.random.default_rng(0).standard_normal((1024, 768)).astype(np.float32)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
        file.seek(8 + len(text) + header["wpe.weight"]["data_offsets"][0])
        file.write(positions.tobytes())
    return positions
