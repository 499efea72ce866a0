"""What survives of words and positions when a model adds them: neighbours, recovery, shared directions.

E are token rows, P position rows, A a factor on the positions; a token at a position is E + A·P before the model's
normalisation. Most models learn positions about as large as words, and the sum still preserves both; these figures
quantify how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import scatter
from ..analysis.rows import directed, finite_blocks
from ..analysis.similarity.nearest_rows import nearest_unit_rows
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.encodings import table_in
from ..tables.table import EmbeddingTable
from ..tables.tabular import Facts
from .position_decoder import PositionDecoder

Protocol = Literal["query", "both", "same", "first"]
DRAWS = 200
"""Number of orders of the queries in the null of the neighbours that are kept."""

PROTOCOLS: tuple[Protocol, ...] = ("query", "both", "same", "first")
"""What a position is added to.

- ``query``: the query only, at a random position.
- ``both``: the query and all other tokens, each at its own random position.
- ``same``: all at position 5.
- ``first``: the query only, at position 0.
"""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Kept(Facts):
    """Share of a token's ``k`` nearest neighbours that it keeps, averaged over ``queries`` tokens.

    Attributes:
        protocol: What a position was added to.
        share: The mean share.
        low: Lower end of its 2.5–97.5 % interval over bootstrapped queries.
        high: Upper end of that interval.
        chance: Share that random neighbours keep.
        k: Number of neighbours.
        queries: Number of tokens.
        amplitude: Factor on the positions.
        normed: Whether the sums were normalised as in the model.
        seed: Random seed.
        drawn: Mean shares that are kept by chance, with words near many others as they are.
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
    drawn: tuple[float, ...] = field(default=(), repr=False)


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
    """Return the share of a token's nearest neighbours, by cosine, that it keeps when positions are added.

    Neighbours are searched among all tokens, before and after.

    Args:
        embeddings: Source with token and position tables.
        protocol: What a position is added to; see ``PROTOCOLS``.
        amplitude: Factor on the positions.
        normed: Whether to add token types and normalise as the model does.
        queries: Maximum number of tokens drawn.
        k: Number of neighbours.
        seed: Random seed.

    Raises:
        InputError: If the tables differ in width, or there are too few tokens.
    """
    token, position = _tables(embeddings)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(directed(token))
    if len(rows) <= k + 1 or not np.isfinite(amplitude):
        raise InputError(f"{token.name} has {len(rows)} finite nonzero tokens; more than {k + 1} are needed")
    chosen = np.sort(rng.choice(len(rows), min(queries, len(rows)), replace=False))
    words = np.asarray(token.take(rows), np.float32)
    places = np.flatnonzero(directed(position))
    where = np.asarray(position.rows(0, position.shape[0]), np.float32) * np.float32(amplitude)
    drawn = where[rng.choice(places, len(rows))]
    fixed = where[min(5, len(where) - 1)] if protocol == "same" else where[0]
    others = {"query": words, "first": words, "both": words + drawn, "same": words + fixed}[protocol]
    asked = {"query": words + drawn, "first": words + fixed, "both": others, "same": others}[protocol][chosen]
    if normed:
        asked, others = (as_normed(embeddings, vectors) for vectors in (asked, others))
    before = _nearest(words[chosen], words, chosen, k)
    after = _nearest(asked, others, chosen, k)
    shares = _common(before, after) / k
    means = rng.choice(shares, (1000, len(shares))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    chance = k / (len(rows) - 1)
    return Kept(
        protocol,
        float(shares.mean()),
        float(low),
        float(high),
        chance,
        k,
        len(chosen),
        amplitude,
        normed,
        seed,
        _kept_by_chance(before, after, chosen, len(rows), rng),
    )


def _kept_by_chance(
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    queries: NDArray[np.int64],
    count: int,
    rng: np.random.Generator,
) -> tuple[float, ...]:
    """Return the mean shares of neighbours [queries, k] that are kept by chance, by the more cautious of two nulls.

    Either the queries are in random order, so that each has the neighbours of another: words that are near many others
    are so in both lists. Or the words are, which keeps that neighbours are so of each other.

    Args:
        before: Neighbours before positions are added, by their places among the words.
        after: The same afterwards.
        queries: Places of the queries.
        count: Number of words.
        rng: Source of random orders.
    """
    rest = np.setdiff1d(np.arange(count), queries)
    named, drawn = np.empty(count, np.int64), np.empty((2, DRAWS))
    for one in range(DRAWS):
        order = rng.permutation(len(queries))
        theirs = after[order]
        usable = (theirs != queries[:, None]).sum(axis=1)  # a query is no neighbour of itself
        drawn[0, one] = (_common(before, theirs) / np.maximum(usable, 1)).mean()
        named[queries[order]], named[rest] = queries, rng.permutation(rest)
        drawn[1, one] = _common(before, named[theirs]).mean() / before.shape[1]
    observed = _common(before, after).mean() / before.shape[1]
    cautious = max(drawn, key=lambda found: (min((found >= observed).sum(), (found <= observed).sum()), found.std()))
    return tuple(cautious.tolist())


def _common(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many numbers corresponding rows [n, k] have in common."""
    return np.asarray((left[:, :, None] == right[:, None, :]).sum(axis=(1, 2)))


def _tables(embeddings: Embeddings) -> tuple[EmbeddingTable, EmbeddingTable]:
    token, position = embeddings.token, table_in(embeddings.position)
    if token.shape[1] != position.shape[1]:
        raise InputError(
            f"{embeddings.name} has tokens of width {token.shape[1]} and positions of width {position.shape[1]}, "
            "which cannot be added"
        )
    return token, position


def as_normed(embeddings: Embeddings, vectors: Floats) -> Floats:
    """Return sums of words and positions [n, d] with token types added, normalised as the model does."""
    recipe = embeddings._recipe
    for table in recipe.types:
        vectors = vectors + np.asarray(table.rows(0, 1), np.float32)
    return np.asarray(vectors if recipe.norm is None else recipe.norm(vectors), np.float32)


def _nearest(asked: Floats, others: Floats, own: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k rows of ``others`` nearest by cosine to each query vector [n, k], excluding its ``own`` row."""
    unit = others / np.maximum(np.linalg.norm(others, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return nearest_unit_rows(asked, unit, own, k)


@dataclass(frozen=True)
class Recovered:
    """How often word and position are recovered from their sum, 0 to 1, and by chance.

    Attributes:
        word: How often the token row nearest to the sum is the token's own.
        position: How often a linear discriminant fitted on other tokens identifies the position.
        word_by_chance: ``word`` expected by chance.
        position_by_chance: ``position`` expected by chance.
        amplitude: Factor on the positions.
        tokens: Number of tokens decoded.
        seed: Random seed.
    """

    word: float
    position: float
    word_by_chance: float
    position_by_chance: float
    amplitude: float
    tokens: int
    seed: int


def recovered(embeddings: Embeddings, *, amplitude: float = 1.0, tokens: int = 2000, seed: int = 0) -> Recovered:
    """Return how often word and position are recovered from E + A·P.

    Half of the drawn tokens are used to estimate the scatter of tokens; the other half, each at a random position, are
    decoded: the position by ``PositionDecoder``, the word by the nearest of all token rows. Position 0 and the last row
    are excluded, since they differ from the rest in many tables.

    Args:
        embeddings: Source with token and position tables.
        amplitude: Factor A on the positions.
        tokens: Maximum number of tokens drawn.
        seed: Random seed.

    Raises:
        InputError: If the tables differ in width, or there are too few rows.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.composition.neighbour_retention import recovered
        >>> recovered(hpe.extract("sample:bert"), tokens=200).word
        1.0
    """
    token, position = _tables(embeddings)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(directed(token))
    places = np.flatnonzero(directed(position))
    places = places[(places > 0) & (places < position.shape[0] - 1)]
    if len(rows) < 40 or len(places) < 2:
        raise InputError(
            f"{embeddings.name} has {len(rows)} tokens and {len(places)} inner positions; at least 40 and 2 are needed"
        )
    drawn = rng.choice(rows, min(tokens, len(rows)), replace=False)
    fit, test = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    where = np.asarray(position.rows(0, position.shape[0]), np.float64)[places]
    tested = np.asarray(token.take(test), np.float64)
    decoder = PositionDecoder.fit(np.asarray(token.take(fit), np.float64), where)
    at = rng.integers(0, len(places), len(test))
    named = decoder.named(decoder.evidence(tested), at, amplitude)
    nearest = _nearest_row(token, tested + amplitude * where[at])
    return Recovered(
        float((nearest == test).mean()),
        float((named == at).mean()),
        1 / len(rows),
        1 / len(places),
        amplitude,
        len(test),
        seed,
    )


def _nearest_row(token: EmbeddingTable, sums: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the token row nearest to each sum by distance [n], reading the table in blocks."""
    best, found = np.full(len(sums), np.inf), np.zeros(len(sums), np.int64)
    known = directed(token)
    for rows, block in finite_blocks(token):
        squares = np.where(known[rows], np.einsum("ij,ij->i", block, block), np.inf)
        scores = squares - 2 * (sums @ block.T)
        place = scores.argmin(axis=1)
        value = scores[np.arange(len(sums)), place]
        nearer = value < best
        best[nearer], found[nearer] = value[nearer], rows[place[nearer]]
    return found


@dataclass(frozen=True)
class Overlap:
    """Share of the tokens' variance in the leading components of the positions, with two reference values.

    Attributes:
        components: Number k of components.
        share: The share of variance.
        flat: k/d, the expectation for a uniformly random subspace.
        low: Lower end of the 2.5–97.5 % interval for random subspaces, half of them of uniform direction and half drawn
            with the tokens' own covariance: positions that know nothing of the tokens may be as anisotropic or not.
        high: Upper end of that interval.
        draws: Number of subspaces drawn of either kind.
        seed: Random seed.
        drawn: Shares of the subspaces drawn with the covariance.
        uniform: Shares of those of uniform direction.
    """

    components: int
    share: float
    flat: float
    low: float
    high: float
    draws: int
    seed: int
    drawn: tuple[float, ...]
    uniform: tuple[float, ...]


def _covariance(token: EmbeddingTable) -> NDArray[np.float64]:
    """Return the covariance of the finite tokens [d, d], times their number."""
    found = scatter(token, single=True)
    if not found.dual:
        return found.matrix
    centred = np.concatenate([block - found.mean for _, block in finite_blocks(token)])
    return np.asarray(centred.T @ centred)


def subspace_overlap(embeddings: Embeddings, *, components: int = 16, draws: int = 200, seed: int = 0) -> Overlap:
    """Return how much of the tokens' variance lies in the leading principal components of the positions.

    After an observation on GPT-2 by Simon (2023).

    Args:
        embeddings: Source with token and position tables.
        components: Number of components.
        draws: Number of random subspaces to compare with.
        seed: Random seed.

    Raises:
        InputError: If the tables differ in width, there are too few positions, or all tokens are equal.
    """
    token, position = _tables(embeddings)
    where = np.asarray(position.rows(0, position.shape[0]), np.float64)[directed(position)]
    if not 1 <= components < min(where.shape):
        raise InputError(f"components must be from 1 to {min(where.shape) - 1} for {position.name}; got {components}")
    axes = np.linalg.svd(where - where.mean(axis=0), full_matrices=False)[2][:components]
    covariance = _covariance(token)
    width, total = token.shape[1], float(np.trace(covariance))
    if not total > 0:
        raise InputError(f"all tokens of {token.name} are equal, so they have no variance")
    # Any square root of the covariance will do; a small multiple of the identity ensures that one exists.
    root = np.linalg.cholesky(covariance + 1e-9 * total / width * np.eye(width))
    rng = np.random.default_rng(seed)

    def held(basis: NDArray[np.float64]) -> float:
        return float(((basis @ covariance) * basis).sum()) / total

    drawn, uniform = (
        tuple(held(np.linalg.qr(one @ rng.standard_normal((width, components)))[0].T) for _ in range(draws))
        for one in (root, np.eye(width))
    )
    low, high = np.quantile([*drawn, *uniform], [0.025, 0.975])
    flat = components / token.shape[1]
    return Overlap(components, held(axes), flat, float(low), float(high), draws, seed, drawn, uniform)
