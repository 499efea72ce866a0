"""Small language models trained here, and what is made of them: ground truth for kinship.

They predict a word from the four before it, on Python's own reference texts. All models of a batch are trained at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pydoc_data.topics import topics

import numpy as np
import torch
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.tables.embeddings import Embeddings

Rows = NDArray[np.float32]
WORDS, WIDTH, CONTEXT, BATCH = 600, 32, 4, 384
SCALE = 0.05


@lru_cache
def corpus() -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the commonest words, and the text as their numbers; rarer words are left out."""
    text = re.findall(r"[a-z]+|[.,:;()]", " ".join(topics[key] for key in sorted(topics)).lower())
    words = tuple(sorted(word for word, _ in Counter(text).most_common(WORDS)))
    places = {word: place for place, word in enumerate(words)}
    return words, np.array([places[word] for word in text if word in places])


def starts(seeds: Sequence[int]) -> torch.Tensor:
    """Return initial tables [models, words, width], each from its own seed."""
    drawn = [np.random.default_rng(seed).normal(0, SCALE, (WORDS, WIDTH)) for seed in seeds]
    return torch.tensor(np.stack(drawn), dtype=torch.float32)


def trained(
    tables: torch.Tensor, seeds: Sequence[int], *, steps: int = 150, rate: float = 0.02, half: int | None = None
) -> Rows:
    """Train tables [models, words, width] and heads of their own with Adam, and return the tables.

    Args:
        tables: Where they start.
        seeds: Seeds of the heads and of the order of the data, one for each model.
        steps: Steps of training.
        rate: Learning rate.
        half: Half of the text to train on, 0 or 1; all of it if ``None``.
    """
    text = torch.tensor(corpus()[1])
    text = text if half is None else text[len(text) // 2 * half :][: len(text) // 2]
    generators = [np.random.default_rng(1000 + seed) for seed in seeds]
    heads = np.stack([one.normal(0, 0.1, (WIDTH, WORDS)) for one in generators])
    rows = tables.clone().requires_grad_()
    head = torch.tensor(heads, dtype=torch.float32).requires_grad_()
    optimizer = torch.optim.Adam([rows, head], lr=rate)
    models = torch.arange(len(seeds))[:, None, None]
    for _ in range(steps):
        drawn = np.stack([one.integers(CONTEXT, len(text), BATCH) for one in generators])
        at = torch.tensor(drawn)
        before = text[at[:, :, None] - torch.arange(1, CONTEXT + 1)]
        seen = rows[models, before].mean(dim=2)
        loss = torch.nn.functional.cross_entropy(torch.bmm(seen, head).reshape(-1, WORDS), text[at].reshape(-1))
        optimizer.zero_grad()
        (loss * len(seeds)).backward()
        optimizer.step()
    return rows.detach().numpy()


def source(rows: Rows, words: Sequence[str] | None = None, *, name: str = "model") -> Embeddings:
    """Return a table of the words, or of others, as a source."""
    return hpe.from_arrays(token=rows, labels=list(words or corpus()[0]), name=name)


def _quantised(rows: Rows, bits: int) -> Rows:
    step = np.abs(rows).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.asarray(np.rint(rows / step) * step, np.float32)


def _extended(rows: Rows, rng: np.random.Generator) -> Embeddings:
    new = rng.normal(rows.mean(axis=0), rows.std(axis=0), (60, WIDTH)).astype(np.float32)
    return source(np.concatenate([rows, new]), [*corpus()[0], *(f"new{place}" for place in range(60))])


def _pruned(rows: Rows, rng: np.random.Generator) -> Embeddings:
    kept = np.sort(rng.permutation(WORDS)[:250])
    return source(rows[kept], [corpus()[0][place] for place in kept])


def _merged_adapter(rows: Rows, rng: np.random.Generator) -> Embeddings:
    change = rng.normal(size=(WORDS, 4)) @ rng.normal(size=(4, WIDTH))
    return source((rows + 0.3 * rows.std() / change.std() * change).astype(np.float32))


def _rotated(rows: Rows, rng: np.random.Generator) -> Embeddings:
    return source((rows @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]).astype(np.float32))


def _permuted(rows: Rows, rng: np.random.Generator) -> Embeddings:
    moved = rows[:, rng.permutation(WIDTH)] * rng.choice([-1, 1], WIDTH)
    return source((moved + rng.normal(0, 0.05 * rows.std(), rows.shape)).astype(np.float32))


def _frozen(rows: Rows, rng: np.random.Generator) -> Embeddings:
    """Train most rows until nothing is left of them, but not a tenth."""
    new = rng.normal(0, rows.std(), rows.shape).astype(np.float32)
    new[::10] = rows[::10]
    return source(new)


def _bfloat16(rows: Rows, _: np.random.Generator) -> Embeddings:
    return source(torch.tensor(rows).bfloat16().float().numpy())


MADE: dict[str, tuple[Callable[[Rows, np.random.Generator], Embeddings], tuple[str, ...]]] = {
    "a copy": (lambda rows, _: source(rows.copy()), ("same",)),
    "float16": (lambda rows, _: source(rows.astype(np.float16).astype(np.float32)), ("same",)),
    "bfloat16": (_bfloat16, ("same",)),
    "8 bits": (lambda rows, _: source(_quantised(rows, 8)), ("derived",)),
    "4 bits": (lambda rows, _: source(_quantised(rows, 4)), ("derived",)),
    "extended": (_extended, ("extended",)),
    "pruned": (_pruned, ("pruned",)),
    "adapter merged": (_merged_adapter, ("derived",)),
    "permuted, with signs and noise": (_permuted, ("rotated",)),
    "rotated": (_rotated, ("rotated",)),
    "scaled": (lambda rows, _: source(rows * np.float32(3.7)), ("derived",)),
    "a tenth frozen": (_frozen, ("derived",)),
}
"""How a model is made from the rows of another, and the verdicts that are right."""
