"""Checkpoints with made-up codes, and what they stand for by their formulas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray

from hfposemb.checkpoints.limits import DEFAULT_LIMITS, Limits
from hfposemb.checkpoints.quantised.decoded import Decoded
from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint
from hfposemb.models.opening import small_file
from tests.conftest import Build

TOKENS = "model.embed_tokens.weight"
KEPT = Path(__file__).parents[2] / "checkpoints" / "quantised"
"""Checkpoints that other libraries wrote; see ``tests.checkpoints.quantised_references``."""

SPANS = ((0, None), (1, 3), (2, 3), (2, 2))


def saved(folder: Path, tensors: Mapping[str, torch.Tensor], config: Mapping[str, Any] | None = None) -> Path:
    """Write a checkpoint."""
    folder.mkdir(exist_ok=True, parents=True)
    apart = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    safetensors.torch.save_file(apart, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config or {}))
    return folder


def same_bits(found: NDArray[Any], wanted: torch.Tensor) -> None:
    """Assert that two tables are equal to the bit."""
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.uint32), wanted.detach().float().numpy().view(np.uint32))


def decoded_in(folder: Path, limits: Limits = DEFAULT_LIMITS) -> Decoded:
    """Return a checkpoint whose tables are decoded as the configuration in its folder says."""
    return Decoded(Checkpoint.open(folder), limits, small_file(folder, limits, "config.json") or {})


def decodes(folder: Path, name: str, wanted: torch.Tensor, spans: tuple[tuple[int, int | None], ...] = SPANS) -> None:
    """Assert that a table and some of its rows are decoded as they should be."""
    tensors = decoded_in(folder)
    assert tensors.refusal(name) == ""
    assert tensors.info(name).shape == tuple(wanted.shape)
    for start, stop in spans:
        same_bits(tensors.read(name, start, stop), wanted[start:stop])


def any_codes(like: torch.Tensor) -> torch.Tensor:
    """Return random codes of a dtype and shape."""
    low, high = (-128, 128) if like.dtype == torch.int8 else (0, 256)
    return torch.randint(low, high, like.shape, generator=torch.Generator().manual_seed(0)).to(like.dtype)


def affine(rows: NDArray[np.float32], *, bits: int = 4, group: int = 64) -> dict[str, torch.Tensor]:
    """Quantise vectors [rows, width] as MLX stores them, with scales and biases in float32."""
    groups = rows.reshape(len(rows), -1, group)
    low = groups.min(axis=2, keepdims=True)
    scale = np.maximum((groups.max(axis=2, keepdims=True) - low) / (2**bits - 1), 1e-6).astype(np.float32)
    codes = np.rint((groups - low) / scale).clip(0, 2**bits - 1).astype(np.uint8).reshape(len(rows), -1)
    stream = np.unpackbits(codes[:, :, None], axis=2, bitorder="little")[:, :, :bits].reshape(len(rows), -1)
    words = np.packbits(stream, axis=1, bitorder="little").view(np.uint32)
    parts = {"weight": words, "scales": scale[:, :, 0], "biases": low[:, :, 0].astype(np.float32)}
    return {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in parts.items()}


def forms(folder: Path, rows: NDArray[np.float32]) -> tuple[Path, Path]:
    """Write a token table in full precision, and as MLX stores it."""
    coded = {f"model.embed_tokens.{name}": part for name, part in affine(rows).items()}
    return saved(folder / "plain", {TOKENS: torch.from_numpy(rows)}), saved(folder / "coded", coded, MLX)


def of_codes(parts: Mapping[str, torch.Tensor], *, bits: int = 4, group: int = 64) -> torch.Tensor:
    """Return the vectors of quantised parts by the formula, one bit after the other."""
    words = parts["weight"].numpy()
    stream = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(len(words), -1, bits)
    codes = (stream * (1 << np.arange(bits))).sum(axis=2).astype(np.float32)
    scales, biases = (np.repeat(parts[name].numpy(), group, axis=1) for name in ("scales", "biases"))
    return torch.from_numpy(codes * scales + biases)


MLX: Mapping[str, Any] = {"quantization": {"group_size": 64, "bits": 4}}


def llama(build: Build, folder: Path, **changes: object) -> tuple[Path, torch.Tensor, torch.Tensor]:
    """Write a llama with quantised token table and head; return both tables too."""
    model: Any = build("llama", "AutoModelForCausalLM", hidden_size=64, tie_word_embeddings=False, **changes)
    model.save_pretrained(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    token = affine(tensors.pop(TOKENS).numpy())
    head = affine(tensors.pop("lm_head.weight").numpy(), bits=8, group=32)
    tensors |= {f"model.embed_tokens.{name}": part for name, part in token.items()}
    tensors |= {f"lm_head.{name}": part for name, part in head.items()}
    config = json.loads((folder / "config.json").read_text())
    stated = {"group_size": 64, "bits": 4, "lm_head": {"group_size": 32, "bits": 8}}
    saved(folder, tensors, config | {"quantization": stated})
    return folder, of_codes(token), of_codes(head, bits=8, group=32)
