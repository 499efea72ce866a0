"""A checkpoint with the vocabulary and the width of GPT-2, made here: a real shape and layout, made values.

The values have structure to show: words that are spelt alike lie together, classes form islands, norms go with how
rare a word is, all share a mean direction, and positions run along a slow helix. It is no language model.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from . import vocabularies

VERSION = 3
"""Counts up when what is made changes, so that nothing older is taken from a cache."""

RANK = 192
BUCKETS = 2**14
ROWS, LENGTH, WIDTH = 50_257, 1_024, 768

CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "activation_function": "gelu_new",
    "bos_token_id": 50256,
    "eos_token_id": 50256,
    "layer_norm_epsilon": 1e-5,
    "n_ctx": LENGTH,
    "n_embd": WIDTH,
    "n_head": 12,
    "n_layer": 1,
    "n_positions": LENGTH,
    "torch_dtype": "float16",
    "vocab_size": ROWS,
}

Floats = NDArray[np.float32]


def gpt2() -> Path:
    """Return the folder of the checkpoint, which is made where it is not there yet: once, whole or not at all."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hfposemb-tests" / f"real-{VERSION}-{platform.python_version()}"
    target = folder / "gpt2"
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "gpt2.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed: the workers of a test run ask at once
        if target.is_dir():
            return target
        unfinished = Path(tempfile.mkdtemp(dir=folder, prefix=".gpt2-"))
        try:
            write(unfinished)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return target


def write(folder: Path) -> None:
    """Write a checkpoint as the Hub holds it: a configuration, a tokenizer and one file of tensors."""
    folder.chmod(0o755)
    tokenizer = vocabularies.byte_level(ROWS, ["<|endoftext|>"], vocabularies.text_at_hand(), extra=1_000)
    tokenizer.save(str(folder / "tokenizer.json"))
    stated = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": LENGTH}
    for name, content in {"config.json": CONFIG, "tokenizer_config.json": stated}.items():
        (folder / name).write_text(json.dumps(content, indent=2), "utf-8")
    labels = [piece for piece, _ in sorted(tokenizer.get_vocab().items(), key=lambda one: one[1])]
    tensors = {"wte.weight": words(labels), "wpe.weight": helix(), **_first_layer()}
    half = {name: values.astype(np.float16) for name, values in tensors.items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})


def words(labels: Sequence[str], *, norm: float = 4.0, mean: float = 0.35) -> Floats:
    """Return the vectors of a vocabulary: by spelling, class and rarity, around a shared mean of that size.

    Vectors have about the length ``norm``, of which the mean is the share ``mean``.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    rng = np.random.default_rng(0)
    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=BUCKETS, dtype=np.float32)
    spectrum = np.arange(1, RANK + 1, dtype=np.float32) ** -0.3
    inner = rng.standard_normal((BUCKETS, RANK), np.float32) * spectrum
    outer = rng.standard_normal((RANK, WIDTH), np.float32) / np.float32(np.sqrt((spectrum**2).sum()))
    classes = 0.45 * rng.standard_normal((6, WIDTH), np.float32)
    shared = rng.standard_normal(WIDTH, np.float32)
    spelt = hashed.transform([_plain(label) for label in labels]) @ inner
    vectors = spelt @ outer + classes[[_kind(label) for label in labels]]
    vectors += 0.25 * rng.standard_normal(vectors.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rare = np.log1p(np.arange(len(labels), dtype=np.float32))[:, None]
    return norm * (0.6 + rare / 25) * ((1 - mean) * vectors + mean * shared / np.linalg.norm(shared))


def _plain(label: str) -> str:
    return label.strip("Ġ ") or label


def _kind(label: str) -> int:
    """Return a class of tokens, for an island each."""
    text = _plain(label)
    if any(one.isdigit() for one in text):
        return 5
    if not any(one.isalpha() for one in text):
        return 4
    if not text.isascii():
        return 3
    return (2 if text[0].isupper() else 0) + (0 if label[0] == "Ġ" else 1) * (not text[0].isupper())


def helix(*, turns: float = 2.8, norm: float = 3.3) -> Floats:
    """Return a table of positions like GPT-2's: a slow helix and its harmonics, row 0 far off, the last row short."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.standard_normal((WIDTH, 24)))[0]
    at = np.arange(LENGTH) / LENGTH
    waves = [np.ones(LENGTH), 1.2 * (2 * at - 1)]
    for turn, size in ((turns, 1.0), (2 * turns, 0.45), (4.5 * turns, 0.25), (11 * turns, 0.15), (37, 0.08)):
        waves += [size * np.sin(2 * np.pi * turn * at), size * np.cos(2 * np.pi * turn * at)]
    table = np.stack(waves, axis=1) @ basis[:, : len(waves)].T
    table += 0.012 * np.sqrt(24 / WIDTH) * rng.standard_normal((LENGTH, WIDTH))
    table *= norm / np.linalg.norm(table, axis=1).mean()
    table[0] = 3 * norm * basis[:, 20] + table[0]
    table[-1] *= 0.05
    return table.astype(np.float32)


def _first_layer() -> dict[str, Floats]:
    rng = np.random.default_rng(11)
    shapes = {"h.0.ln_1": (WIDTH,), "h.0.attn.c_attn": (WIDTH, 3 * WIDTH), "h.0.attn.c_proj": (WIDTH, WIDTH)}
    shapes |= {"h.0.ln_2": (WIDTH,), "h.0.mlp.c_fc": (WIDTH, 4 * WIDTH), "h.0.mlp.c_proj": (4 * WIDTH, WIDTH)}
    found = {}
    for name, shape in (shapes | {"ln_f": (WIDTH,)}).items():
        found[f"{name}.weight"] = float(len(shape) == 1) + 0.05 * rng.standard_normal(shape, np.float32)
        found[f"{name}.bias"] = 0.02 * rng.standard_normal(shape[-1], np.float32)
    return found
