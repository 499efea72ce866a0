"""Figures of words and positions together have p ≤ .05 rarely where one says nothing of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.comparison.metrics import MEASURES, Tables, beside_noise
from hfposemb.tables.embeddings import Embeddings

from .families import Rows, far_tokens, hubs, noise, unequal_columns

Words: TypeAlias = Callable[[int, int, np.random.Generator], Rows]


def drawn(words: Words, rng: np.random.Generator, *, scale: float) -> Embeddings:
    """Return words beside positions of independent directions, ``scale`` times as long."""
    rows, places = words(200, 24, rng), scale * noise(40, 24, rng)
    return hpe.from_arrays(token=rows.astype(np.float32), position=places.astype(np.float32))


def rate(name: str, words: Words, *, tables: int, scale: float) -> float:
    """Return the share of made sources in which a figure has p ≤ .05."""
    rng, measure = np.random.default_rng(0), next(one for one in MEASURES if one.name == name)
    found = []
    for seed in range(tables):
        source = Tables(drawn(words, rng, scale=scale))
        found.append(beside_noise(source, {name: measure.take(source)}, draws=39, seed=seed)[name].beyond)
    return float(np.mean(found))


@pytest.mark.parametrize("words", [noise, unequal_columns, far_tokens])
def test_directions_of_their_own_are_not_said_to_be_kept_apart(words: Words) -> None:
    """Uniform directions hold less of the words' variance than those with the words' covariance, by themselves."""
    assert rate("token variance among positions", words, tables=60, scale=1) <= 0.12


def test_directions_that_are_the_words_or_avoid_them_are_found() -> None:
    rng, axes = np.random.default_rng(0), np.linalg.qr(np.random.default_rng(1).standard_normal((24, 24)))[0]
    words = noise(400, 24, rng) / (1 + np.arange(24)) @ axes
    for place, side in ((axes[:16], 1), (axes[8:], -1)):
        places = noise(60, 16, rng) @ place
        found = beside_noise(
            Tables(hpe.from_arrays(token=words, position=places)),
            {"token variance among positions": 100 * held(words, places)},
            draws=39,
        )["token variance among positions"]
        assert found.beyond
        assert (found.observed - found.mean) * side > 0


def held(words: Rows, places: Rows) -> float:
    """Return the share of the words' variance in the 16 leading directions of positions, written anew."""
    axes = np.linalg.svd(places - places.mean(axis=0))[2][:16]
    covariance = np.cov(words.T)
    return float(np.trace(axes @ covariance @ axes.T) / np.trace(covariance))


@pytest.mark.parametrize("words", [noise, far_tokens, hubs])
@pytest.mark.parametrize("placed", ["query placed", "all placed"])
def test_neighbours_are_not_said_to_be_kept_or_lost_where_positions_drown_the_words(words: Words, placed: str) -> None:
    """Words near many others are so in many lists, which varies more than lists drawn at random."""
    assert rate(f"neighbours kept, {placed}", words, tables=20, scale=1e4) <= 0.15


def test_neighbours_that_are_kept_are_found() -> None:
    assert rate("neighbours kept, query placed", hubs, tables=5, scale=0.3) == 1
