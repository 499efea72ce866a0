"""What is left of words and of positions where a model adds the two: neighbours, recovery, shared directions.

E are token rows, P position rows, A a factor on the positions; a token at a position is E + A·P before the model's
normalisation. Most models learn positions about as large as words, and still the sum keeps both: these numbers say how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .embeddings import Embeddings
from .errors import InputError
from .geometry import directed
from .position import table_in
from .similarity import nearest_unit_rows, read_rows
from .table import EmbeddingTable

Protocol = Literal["query", "both", "same", "first"]
PROTOCOLS: tuple[Protocol, ...] = ("query", "both", "same", "first")
"""What gets a position: the query alone, a random one; query and all others, each its own random one; all the same
position, 5; the query alone, position 0."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Kept:
    """The share of a token's ``k`` nearest neighbours that are left, the mean over ``queries`` tokens.

    ``low`` and ``high`` are its 2.5–97.5 % interval over bootstrapped queries, ``chance`` what random neighbours keep.
    """

    protocol: Protocol
    share: float
    low: float
    high: float
    chance: float
    k: int
    queries: int
    amplitude: float
    normed: bool
    seed: int


def neighbours_kept(
    embeddings: Embeddings,
    *,
    protocol: Protocol = "query",
    amplitude: float = 1.0,
    normed: bool = False,
    queries: int = 1000,
    k: int = 10,
    seed: int = 0,
) -> Kept:
    """Return how many of a token's nearest neighbours, by cosine, it keeps where positions are added.

    Neighbours are those among all tokens, before and after; ``normed`` adds token types and normalises as the model
    does. Raises ``InputError`` where widths differ or there are too few tokens.
    """
    token, position = _tables(embeddings)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(directed(token))
    if len(rows) <= k + 1 or not np.isfinite(amplitude):
        raise InputError(f"{token.name} has {len(rows)} tokens with a direction; more than {k + 1} are needed")
    chosen = np.sort(rng.choice(len(rows), min(queries, len(rows)), replace=False))
    words = np.asarray(read_rows(token, rows), np.float32)
    places = np.flatnonzero(directed(position))
    where = np.asarray(position.rows(0, position.shape[0]), np.float32) * np.float32(amplitude)
    drawn = where[rng.choice(places, len(rows))]
    fixed = where[min(5, len(where) - 1)] if protocol == "same" else where[0]
    others = {"query": words, "first": words, "both": words + drawn, "same": words + fixed}[protocol]
    asked = {"query": words + drawn, "first": words + fixed, "both": others, "same": others}[protocol][chosen]
    if normed:
        asked, others = (_normed(embeddings, vectors) for vectors in (asked, others))
    before = _nearest(words[chosen], words, chosen, k)
    after = _nearest(asked, others, chosen, k)
    shares = np.array([len(np.intersect1d(a, b)) for a, b in zip(before, after, strict=True)]) / k
    means = rng.choice(shares, (1000, len(shares))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    chance = k / (len(rows) - 1)
    return Kept(
        protocol, float(shares.mean()), float(low), float(high), chance, k, len(chosen), amplitude, normed, seed
    )


def _tables(embeddings: Embeddings) -> tuple[EmbeddingTable, EmbeddingTable]:
    token, position = embeddings.token, table_in(embeddings.position)
    if token.shape[1] != position.shape[1]:
        raise InputError(
            f"{embeddings.name} has tokens of width {token.shape[1]} and positions of width {position.shape[1]}: "
            "it does not add them"
        )
    return token, position


def _normed(embeddings: Embeddings, vectors: Floats) -> Floats:
    recipe = embeddings._recipe
    for table in recipe.types:
        vectors = vectors + np.asarray(table.rows(0, 1), np.float32)
    return np.asarray(vectors if recipe.norm is None else recipe.norm(vectors), np.float32)


def _nearest(asked: Floats, others: Floats, own: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k rows of ``others`` nearest to each asked vector [n, k] by cosine, its ``own`` row left out."""
    unit = others / np.maximum(np.linalg.norm(others, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return nearest_unit_rows(asked, unit, own, k)


@dataclass(frozen=True)
class Recovered:
    """How often word and position are told from their sum, from 0 to 1, and what guessing gives.

    ``word``: the token row nearest to the sum is the token's own. ``position``: a linear map that knows how tokens
    scatter, fitted on other tokens, names the position.
    """

    word: float
    position: float
    word_by_chance: float
    position_by_chance: float
    amplitude: float
    tokens: int
    seed: int


def recovered(embeddings: Embeddings, *, amplitude: float = 1.0, tokens: int = 2000, seed: int = 0) -> Recovered:
    """Return how well word and position are recovered from E + A·P.

    Half of the drawn tokens serve to estimate how tokens scatter, Σ; the other half, each at a random position, are
    decoded: the position by the largest yᵀΣ⁻¹(A·p) − ½(A·p)ᵀΣ⁻¹(A·p), the linear discriminant; the word by the nearest
    of all token rows. Position 0 and the last row are left out, since many tables keep them apart. Raises
    ``InputError`` where widths differ or there are too few rows.
    """
    token, position = _tables(embeddings)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(directed(token))
    places = np.flatnonzero(directed(position))
    places = places[(places > 0) & (places < position.shape[0] - 1)]
    if len(rows) < 40 or len(places) < 2:
        raise InputError(
            f"{embeddings.name} has {len(rows)} tokens and {len(places)} inner positions; 40 and 2 are needed"
        )
    drawn = rng.choice(rows, min(tokens, len(rows)), replace=False)
    fit, test = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    words = np.asarray(read_rows(token, np.arange(token.shape[0])), np.float64)
    where = amplitude * np.asarray(position.rows(0, position.shape[0]), np.float64)[places]
    mean = words[fit].mean(axis=0)
    centred = words[fit] - mean
    scatter = centred.T @ centred / len(fit)
    # With fewer tokens than dimensions Σ has no inverse: it is shrunk towards the mean of its eigenvalues.
    share = min(0.5, scatter.shape[0] / (10 * len(fit)))
    scatter = (1 - share) * scatter + share * np.trace(scatter) / len(scatter) * np.eye(len(scatter))
    weights = np.linalg.solve(scatter, where.T)
    bias = -0.5 * np.einsum("ij,ji->i", where, weights)
    at = rng.integers(0, len(places), len(test))
    sums = words[test] + where[at]
    named = ((sums - mean) @ weights + bias).argmax(axis=1)
    squares = np.where(directed(token), np.einsum("ij,ij->i", words, words), np.inf)
    nearest = np.concatenate(
        [(squares - 2 * (sums[i : i + 256] @ words.T)).argmin(axis=1) for i in range(0, len(sums), 256)]
    )
    return Recovered(
        float((nearest == test).mean()),
        float((named == at).mean()),
        1 / len(rows),
        1 / len(places),
        amplitude,
        len(test),
        seed,
    )


@dataclass(frozen=True)
class Overlap:
    """The share of the tokens' variance that lies in the leading position components, beside two expectations.

    ``flat`` is k/d, that of a subspace drawn evenly; ``low`` and ``high`` are the 2.5–97.5 % interval of subspaces
    drawn with the tokens' own covariance, which is fairer: tokens are no ball. ``drawn`` are the shares of those.
    """

    components: int
    share: float
    flat: float
    low: float
    high: float
    draws: int
    seed: int
    drawn: tuple[float, ...]


def subspace_overlap(embeddings: Embeddings, *, components: int = 16, draws: int = 200, seed: int = 0) -> Overlap:
    """Return how much of the tokens' variance the leading principal components of the positions hold.

    After an observation on GPT-2 by Simon (2023). Raises ``InputError`` where widths differ or positions are too few.
    """
    token, position = _tables(embeddings)
    where = np.asarray(position.rows(0, position.shape[0]), np.float64)[directed(position)]
    if not 1 <= components < min(where.shape):
        raise InputError(f"{position.name} has {min(where.shape) - 1} components to take; got {components}")
    axes = np.linalg.svd(where - where.mean(axis=0), full_matrices=False)[2][:components]
    rows = np.flatnonzero(directed(token))
    words = np.asarray(read_rows(token, rows), np.float64)
    words -= words.mean(axis=0)
    covariance = words.T @ words / len(words)
    total = float(np.trace(covariance))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    rng = np.random.default_rng(seed)

    def held(basis: NDArray[np.float64]) -> float:
        return float(np.einsum("ij,jk,ik->", basis, covariance, basis)) / total

    drawn = [held(np.linalg.qr(root @ rng.standard_normal((root.shape[1], components)))[0].T) for _ in range(draws)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    flat = components / token.shape[1]
    return Overlap(components, held(axes), flat, float(low), float(high), draws, seed, tuple(drawn))
