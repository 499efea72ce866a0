"""Of tables that share nothing but names no method is said to make rows, and few tokens to break the base."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import hfposemb as hpe

from .families import Make, Rows, hubs, noise


def repeated(count: int, width: int, rng: np.random.Generator) -> Rows:
    """Draw tokens of which two thirds have one row, as unused ones have."""
    rows = noise(count, width, rng)
    rows[rng.permutation(count)[: 2 * count // 3]] = rows[0]
    return rows


@pytest.mark.parametrize("make", [noise, hubs, repeated])
def test_unrelated_tables_seldom_say_that_a_method_works(make: Make) -> None:
    """Of 30 pairs a fair test says so of more than five with a probability below .003."""
    said, broken = Counter[str](), 0
    for seed in range(1000, 1030):
        rng = np.random.default_rng(seed)
        tables = [make(count, 24, rng).astype(np.float32) for count in (200, 250)]
        named = [hpe.from_arrays(token=one, labels=[f"w{row:03}" for row in range(len(one))]) for one in tables]
        found = hpe.transplant(*named, k=8)
        for one in found.quality:
            said.update(f"{one.method} {name}" for name in ("cosine", "kept") if getattr(one, name).beyond)
            assert make is not noise or abs(one.cosine.observed) < 0.2
        broken += len(found.breakers)
    assert max(said.values(), default=0) <= 5, said
    assert broken <= 0.04 * 30 * 50
