"""Small checkpoints with words, as the app's tests open them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "king",
    "queen",
    "prince",
    "paris",
    "france",
    "london",
    "##ing",
    "walk",
    "7",
)


def checkpoint(folder: Path, words: Sequence[str], vectors: np.ndarray | None = None, *, spaced: bool = False) -> str:
    """Write a BERT with these words, or a GPT-2 where a space is marked, and return it as a source."""
    folder.mkdir(parents=True, exist_ok=True)
    if vectors is None:
        vectors = np.random.default_rng(0).normal(size=(len(words), 16)).astype(np.float32)
    positions = np.random.default_rng(1).normal(size=(32, vectors.shape[1])).astype(np.float32)
    if spaced:
        save_file({"wte.weight": vectors, "wpe.weight": positions}, folder / "model.safetensors")
        (folder / "vocab.json").write_text(json.dumps({word: row for row, word in enumerate(words)}))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        config: dict[str, Any] = {"model_type": "gpt2", "n_positions": 32, "n_embd": vectors.shape[1]}
    else:
        names = ("word_embeddings", "position_embeddings")
        stored = dict(zip((f"embeddings.{name}.weight" for name in names), (vectors, positions), strict=True))
        save_file(stored, folder / "model.safetensors")
        (folder / "vocab.txt").write_text("\n".join(words) + "\n")
        config = {"model_type": "bert", "max_position_embeddings": 32, "hidden_size": vectors.shape[1]}
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": len(words)}))
    return str(folder)


def bert_and_gpt2(
    folder: Path, words: Sequence[str], *, width: int = 16, noise: float = 1.0, seed: int = 3
) -> tuple[str, str]:
    """Write a BERT and a GPT-2 with the same words, and vectors alike but for some noise."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(len(words), width)).astype(np.float32)
    noisy = (vectors + noise * random.normal(size=vectors.shape)).astype(np.float32)
    spaced = [f"Ġ{word}" if word.isalpha() else word for word in words]
    return checkpoint(folder / "bert", words, vectors), checkpoint(folder / "gpt", spaced, noisy, spaced=True)


def anisotropic(folder: Path) -> str:
    """Write a GPT-2 whose words have a large vector in common, with both `` king`` and ``king``."""
    more = (f"{first}{second}" for first in "bcdfghjklm" for second in ("arn", "elt", "ong", "ump", "ish"))
    words = [*(f"Ġ{word}" for word in (*filter(str.isalpha, WORDS), *more)), "king"]
    random = np.random.default_rng(4)
    vectors = random.normal(size=(len(words), 16)) + 9 * random.normal(size=16) / 4
    return checkpoint(folder, words, vectors.astype(np.float32), spaced=True)


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "$x^2$",
    "\u202egnp",
    "a\u0000b",
    "=cmd()",
    "x" * 1_000_000,
    "&lt;b&gt;",
    "<a href='javascript:alert(1)'>y</a>",
)


UNTIED_WORDS = ("king", "queen", "father", "mother", "heaven", "earth", *(f"word{row}" for row in range(54)))


def untied(folder: Path, *, words: tuple[str, ...] = UNTIED_WORDS, seed: int = 0) -> str:
    """Write a GPT-2 whose output head is a table of its own, and return it as a source."""
    rng = np.random.default_rng(seed)
    tables = {name: rng.normal(size=(len(words), 16)).astype(np.float32) for name in ("wte", "lm_head")}
    folder.mkdir(parents=True)
    save_file({f"{name}.weight": table for name, table in tables.items()}, folder / "model.safetensors")
    (folder / "vocab.json").write_text(json.dumps({word: row for row, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    config: dict[str, Any] = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": len(words)}
    (folder / "config.json").write_text(json.dumps(config | {"n_embd": 16, "tie_word_embeddings": False}))
    return str(folder)


MANY = tuple("".join(letters) for letters in product("bcdfg", "aeiou", "klmnp", "aeiou", "rstvw"))
