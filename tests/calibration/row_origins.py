"""How often ``row_origin`` calls ordinary rows of a trained table made, and names the way of rows that were made.

``python -m tests.calibration.row_origins`` prints the rates as Markdown (hours).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from typing import get_args

import numpy as np

import hfposemb as hpe
from hfposemb.analysis.tokens.new_rows import Origin, row_origin

from .families import TOKENS, Rows

MADE: tuple[str, ...] = tuple(one for one in get_args(Origin) if one not in ("trained", "other", "cannot tell"))
SAMPLES = ("sample:minilm", "sample:gpt2", "sample:bert")
SHAPE = 4000, 128
"""Rows and columns of made tables."""

RIGHT: Mapping[str, tuple[Origin, ...]] = {
    "old covariance": ("old covariance", "drawn"),
    "old columns": ("old columns", "drawn"),
    "one normal": ("one normal", "one distribution", "drawn"),
    "one distribution": ("one distribution", "drawn"),
    "one point": ("one point", "drawn"),
}
"""What may be said of rows that were drawn, less exactly; of others, only how they were made."""


def _at_random(rows: int, count: int, rng: np.random.Generator) -> Rows:
    return np.sort(rng.choice(rows, count, replace=False))


def _in_a_block(rows: int, count: int, rng: np.random.Generator) -> Rows:
    return np.asarray(rng.integers(rows - count) + np.arange(count))


ORDINARY: Mapping[str, Callable[[int, int, np.random.Generator], Rows]] = {
    "ordinary, at random": _at_random,
    "ordinary, in a block": _in_a_block,
}
"""Row numbers of ordinary rows, from the rows of a table and their number."""


def _covariance(old: Rows, shape: tuple[int, int], rng: np.random.Generator) -> Rows:
    root = np.linalg.cholesky(np.cov(old.T))
    return old.mean(axis=0) + rng.standard_normal(shape) @ root.T


WAYS: Mapping[str, tuple[Origin, Callable[[Rows, tuple[int, int], np.random.Generator], Rows]]] = {
    "normal, mean and covariance": ("old covariance", _covariance),
    "transformers, mean_resizing": ("mean", lambda old, shape, rng: _shrunk(old, shape, rng)),
    "normal, .02": ("one normal", lambda old, shape, rng: 0.02 * rng.standard_normal(shape)),
    "normal, spread of the table": ("one normal", lambda old, shape, rng: old.std() * rng.standard_normal(shape)),
    "uniform, ±.05": ("one distribution", lambda old, shape, rng: rng.uniform(-0.05, 0.05, shape)),
    "normal, by column": (
        "old columns",
        lambda old, shape, rng: old.mean(axis=0) + old.std(axis=0) * rng.standard_normal(shape),
    ),
    "resampled by column": (
        "old columns",
        lambda old, shape, rng: np.take_along_axis(old, rng.integers(len(old), size=shape), axis=0),
    ),
    "means of 3 rows": ("means", lambda old, shape, rng: _means(old, shape, rng, parts=3)),
    "means of 8 rows": ("means", lambda old, shape, rng: _means(old, shape, rng, parts=8)),
    "mean + noise": ("one point", lambda old, shape, rng: _noisy(old.mean(axis=0), old, shape, rng)),
    "a row + noise": ("one point", lambda old, shape, rng: _noisy(old[rng.integers(len(old))], old, shape, rng)),
    "copies of a row": ("copies", lambda old, shape, rng: np.tile(old[rng.integers(len(old))], (shape[0], 1))),
}
"""Ways of making rows: what they are called, and a function of the old rows and the shape."""


def _shrunk(old: Rows, shape: tuple[int, int], rng: np.random.Generator) -> Rows:
    """Draw as ``resize_token_embeddings`` of transformers: with 1e-9 of the covariance."""
    return np.asarray(old.mean(axis=0) + np.sqrt(1e-9) * (_covariance(old, shape, rng) - old.mean(axis=0)))


def _means(old: Rows, shape: tuple[int, int], rng: np.random.Generator, *, parts: int) -> Rows:
    return np.stack([old[rng.choice(len(old), parts, replace=False)].mean(axis=0) for _ in range(shape[0])])


def _noisy(row: Rows, old: Rows, shape: tuple[int, int], rng: np.random.Generator) -> Rows:
    return np.asarray(row + 0.2 * old.std() * rng.standard_normal(shape))


def answers(table: Rows, kind: str, count: int, *, sets: int, seed: int = 0) -> Counter[str]:
    """Return how often each answer was given to sets of rows of one kind: ordinary ones, or the last of a table, made.

    Args:
        table: Trained rows [n, d].
        kind: A key of ``ORDINARY`` or ``WAYS``.
        count: Number of rows in a set.
        sets: Number of sets.
        seed: Random seed.
    """
    rng, found = np.random.default_rng((seed, count)), Counter[str]()
    for number in range(sets):
        rows, new = table.copy(), np.arange(len(table) - count, len(table))
        if kind in ORDINARY:
            new = ORDINARY[kind](len(table), count, rng)
        else:
            rows[new] = WAYS[kind][1](rows[: new[0]], (count, table.shape[1]), rng)
        token = hpe.from_arrays(token=rows.astype(np.float32)).token
        found[row_origin(token, new.tolist(), seed=number).made] += 1
    return found


def line(table: Rows, kind: str, count: int, *, sets: int) -> str:
    """Return a row of the table of Markdown: what the rows were called, in percent."""
    found = answers(table, kind, count, sets=sets)
    right = ("trained",) if kind in ORDINARY else RIGHT.get(WAYS[kind][0], (WAYS[kind][0],))
    true, unsure = sum(found[origin] for origin in right), found["cannot tell"]
    shares = (f"{100 * share / sets:.0f} %" for share in (true, unsure, sets - true - unsure))
    wrong = ", ".join(sorted(found.keys() - {*right, "cannot tell"}))
    return f"| {kind} | {count} | {' | '.join(shares)} | {wrong} |"


def main() -> None:
    """Print the rates of every kind of rows in the three samples and in made tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--source", action="append", help="a source with tokens or a family of made tables")
    given = parser.parse_args()
    for source in given.source or (*SAMPLES, *TOKENS):
        made = TOKENS[source](*SHAPE, np.random.default_rng(0)) if source in TOKENS else None
        table = np.asarray(hpe.extract(source).token.vectors, np.float64) if made is None else made
        print(f"\n{source}\n\n| rows | in a set | right | cannot tell | wrong | called |")
        print("|---" * 6 + "|")
        for kind in (*ORDINARY, *WAYS):
            for count in (5, 30, 100):
                print(line(table, kind, count, sets=given.sets), flush=True)


if __name__ == "__main__":
    main()
