"""Many small checkpoints for surveys: learned and rotary positions, tied and untied heads, with different figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
from safetensors.numpy import save_file

from tests.hub import FakeHub

KINDS = ("bert", "gpt2", "llama", "roberta")


def write_models(folder: Path, count: int, *, positions: int = 48, tokens: int = 200, width: int = 16) -> list[str]:
    """Write ``count`` checkpoints to a folder; return their paths. Their positions turn from noise into waves."""
    return [
        str(_write(folder / f"{KINDS[number % 4]}-{number:03}", number, count, (positions, tokens, width)))
        for number in range(count)
    ]


def _write(folder: Path, number: int, count: int, shape: tuple[int, int, int]) -> Path:
    kind, (positions, tokens, width) = KINDS[number % 4], shape
    rng = np.random.default_rng(number)
    share = number / max(1, count - 1)
    waves = np.sin(np.outer(np.arange(positions), 2.0 ** -np.arange(width)) + np.arange(width))
    rows = ((1 - share) * rng.standard_normal((positions, width)) + share * waves).astype(np.float32)
    words = (rng.standard_normal((tokens, width)) * (1 + share) + share).astype(np.float32)
    config: dict[str, object] = {"model_type": kind, "vocab_size": tokens, "hidden_size": width}
    match kind:
        case "gpt2":
            config |= {"n_positions": positions, "n_embd": width}
            tables = {"wte.weight": words, "wpe.weight": rows}
        case "llama":
            config |= {"num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": positions}
            config |= {"rope_theta": 10_000.0, "intermediate_size": 32, "num_key_value_heads": 2}
            tables = {"model.embed_tokens.weight": words, "lm_head.weight": words[::-1].copy()}
        case _:
            config |= {"max_position_embeddings": positions, "num_attention_heads": 2, "num_hidden_layers": 1}
            tables = {"embeddings.word_embeddings.weight": words, "embeddings.position_embeddings.weight": rows}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tables, folder / "model.safetensors")
    return folder


def same(left: pandas.DataFrame, right: pandas.DataFrame) -> None:
    """Assert that two surveys say the same, but for their order and their seconds."""
    sides = [
        frame.drop(columns="seconds").sort_values(["source", "table", "metric"]).reset_index(drop=True)
        for frame in (left, right)
    ]
    pandas.testing.assert_frame_equal(*sides, rtol=1e-6, atol=0)


def at_once(hub: FakeHub, seconds: float) -> int:
    """Return how many requests there were at a time at most, each answered after some seconds."""
    times = sorted(one.at for one in hub.requests)
    return max(sum(start <= at < start + 0.9 * seconds for at in times) for start in times)
