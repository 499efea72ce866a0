"""What the first layer's logits say of words and positions: shares of the parts, by distance, and for identical words.

Logits are the one unit that all kinds of positions have in common: learned tables, biases and rotations alike end in
them. What is the same for all keys of a query changes nothing after the softmax, so it is left out of every share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.attention import BIAS, PAIRS, Attention, Floats, LogitSplit, attended, placed
from ..tables.embeddings import Embeddings
from ..tables.encodings import Alibi, RelativeBias
from ..tables.inputs import InputRecipe, feed
from ..tables.table import TOKEN_CLASSES

RUN = 32
"""Tokens that are drawn beside each other, so that a table on the Hub is read in few requests."""

TOTAL = "total"
"""What all terms together are called where one of them can be asked for."""

_REAL = tuple(TOKEN_CLASSES.index(name) for name in TOKEN_CLASSES if name not in ("special", "unused", "padding"))


@dataclass(frozen=True, eq=False)
class Shares:
    """How much of the differences between the logits of a query each term brings.

    ``values`` [terms, heads] add up to 1 in each head: Σ t̃ L̃ / Σ L̃² over the pairs of a query and a key it sees, with
    t̃ and L̃ the term and the sum of all less their means over the keys of that query. A share is below 0 where a term
    works against the rest; NaN, all of a head's, where the head's logits do not differ. ``mean`` [terms] is over heads.

    ``turning`` [heads] is the share, counted in the same way, of what turning queries and keys by their positions
    changes; it is inside the terms, and ``None`` where a model turns nothing. ``unnormed`` is the R² of the logits that
    word and position give without normalisation, over all heads and pairs: 1 − Σ(L − raw)² / Σ(L − L̄)².
    """

    names: tuple[str, ...]
    values: Floats
    turning: Floats | None
    unnormed: float

    @property
    def mean(self) -> Floats:
        """The mean over those heads whose logits differ [terms]."""
        return np.asarray(self.values[:, np.isfinite(self.values).all(axis=0)].mean(axis=1))


def shares(split: LogitSplit) -> Shares:
    """Return how much each term brings. Raises ``InputError`` where no query has two keys to choose between."""
    seen = split.visible
    total = _centred(split.total, seen)
    variance = (total**2).sum(axis=(1, 2))
    if not (variance > 0).any():
        why = "every query sees one key, or keys alike" if np.isfinite(variance).all() else "the logits are not finite"
        raise InputError(f"{why}: there is nothing to divide; give a text of two words at least to a whole model")
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.array([_brought(term, total, seen) / variance for _, term in split.terms()])
        turning = None
        if split.unturned is not None:
            added = 0.0 if split.bias is None else split.bias
            turning = _brought(split.total - added - split.unturned, total, seen) / variance
    logits, raw = split.total[:, seen], split.unnormed[:, seen]
    spread = float(((logits - logits.mean()) ** 2).sum())
    return Shares(split.names, values, turning, 1 - float(((logits - raw) ** 2).sum()) / spread)


def _brought(term: Floats, total: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Return Σ t̃ L̃ of each head for a term and the logits less their means."""
    return np.asarray((_centred(term, seen) * total).sum(axis=(1, 2)))


def less_mean(split: LogitSplit, name: str = TOTAL) -> Floats:
    """Return one term, or all of them together, less its mean over the keys each query sees [heads, n, n].

    That is all of it that the softmax knows of; NaN where a query does not see a key.
    """
    logits = split.total if name == TOTAL else split.term(name)
    return np.where(split.visible, _centred(logits, split.visible), np.nan)


def _centred(logits: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Take off the mean over the keys that each query sees; pairs that are not seen become 0."""
    means = (logits * seen).sum(axis=-1, keepdims=True) / seen.sum(axis=-1, keepdims=True)
    out: Floats = (logits - means) * seen
    return out


@dataclass(frozen=True, eq=False)
class ByDistance:
    """What the terms of the logits are on average at each distance, key − query.

    ``values`` [terms, heads, distances] are those of the mean word: of the parts of queries and keys, averaged over
    ``tokens`` drawn tokens at every position. ``kinds`` are the mechanisms whose doing ``positional`` is.
    """

    names: tuple[str, ...]
    distances: NDArray[np.int64]
    values: Floats
    kinds: tuple[str, ...]
    tokens: int
    seed: int

    @property
    def positional(self) -> Floats:
        """What positions alone make of distance, in logits [heads, distances].

        ``position · position`` where positions are added to words, the bias where one is added to logits; where
        queries and keys are turned, all terms, since q̄ᵀR_Δk̄ has no part without words. Only its differences matter.
        """
        if "rotary" in self.kinds:
            return np.asarray(self.values.sum(axis=0))
        own = [self.names.index(name) for name in ("position · position", BIAS) if name in self.names]
        return np.asarray(self.values[own].sum(axis=0))

    @property
    def change(self) -> Floats:
        """``positional`` less that of the key just before the query [heads, distances]: 0 at distance −1."""
        return self.positional - self.positional[:, self.distances == -1]


def by_distance(embeddings: Embeddings, *, longest: int = 128, tokens: int = 1024, seed: int = 0) -> ByDistance:
    """Return the first layer's logits for the mean of real tokens, by distance: of the past alone where it is causal.

    Distances go to ``longest``, or to the end of the table of positions. Tokens are drawn with a seed in runs of
    ``RUN`` neighbours, special and unused ones left out. A bias that comes without a model, as ``alibi:2048x12``, is
    what it adds. Raises ``MissingTableError`` for models whose first layer is not known.
    """
    if longest < 1 or tokens < 1:
        raise InputError(f"distances begin at 1, and some token must be drawn; got {longest} and {tokens}")
    if embeddings.recipe is None and isinstance(bias := embeddings.position, Alibi | RelativeBias):
        distances = np.arange(-longest, longest + 1)
        return ByDistance((BIAS,), distances, _biases(bias, distances)[None], ("bias",), 0, seed)
    recipe, attention = embeddings._recipe, embeddings._attention
    table = recipe.position
    length = min(longest + 1, longest + 1 if table is None else table.shape[0])
    if length < 2:
        raise InputError(f"{embeddings.name} has one position: there is no distance between two")
    drawn = _drawn(embeddings, max(1, round(tokens / length)) * length, np.random.default_rng(seed))
    queries, keys = _mean_sides(recipe, attention, drawn.reshape(-1, length))
    queries, keys = placed(attention, queries, keys, np.arange(length))
    distances = np.arange(-length + 1, 1 if attention.causal else length)
    pairs = product(queries, keys)
    values = [mean_by_distance(attention.scale * (one @ other.swapaxes(-1, -2)), distances) for one, other in pairs]
    names, added = PAIRS, attention.bias
    if added is not None:
        names = (*PAIRS, BIAS)
        values.append(_biases(added, distances))
    at_work = {"added": table is not None, "bias": added is not None, "rotary": attention.turning is not None}
    kinds = tuple(kind for kind, there in at_work.items() if there)
    return ByDistance(names, distances, _finite(embeddings, np.array(values)), kinds, drawn.size, seed)


def _finite(embeddings: Embeddings, logits: Floats) -> Floats:
    """Return logits as they are. Raises ``InputError`` where one is NaN or Inf."""
    if not np.isfinite(logits).all():
        raise InputError(f"the first layer's logits of {embeddings.name} are not finite: its weights are damaged")
    return logits


def _biases(bias: Alibi | RelativeBias, distances: NDArray[np.int64]) -> Floats:
    """Return what a bias adds at each distance [heads, distances]."""
    if isinstance(bias, Alibi):
        return np.asarray(-np.outer(bias.effective, np.abs(distances)))
    return np.asarray(bias.bias_at(distances).T)


def _drawn(embeddings: Embeddings, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the ids of real tokens [count]. Raises ``InputError`` where there is none."""
    real = np.flatnonzero(np.isin(embeddings.token.labels.classes, _REAL))
    if not len(real):
        raise InputError(f"{embeddings.token.name} has no token but special and unused ones")
    starts = rng.integers(0, max(len(real) - RUN, 0) + 1, -(-count // RUN))
    return rng.permutation(real[(starts[:, None] + np.arange(RUN)).ravel() % len(real)])[:count]


def _mean_sides(recipe: InputRecipe, attention: Attention, ids: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the parts of queries and of keys [3, heads, length, width] of texts [texts, length], averaged, unturned.

    Where no position is added, all tokens stand at all places.
    """
    inputs = feed(recipe, ids)
    summed = np.stack([inputs.token, inputs.position, inputs.type], axis=1).astype(np.float64)
    met = [attended(recipe, attention, one) for one in summed]
    everywhere = recipe.position is None
    if attention.query.norm is None and attention.key.norm is None:
        # What is linear may be averaged before it is computed.
        met = [np.mean(met, axis=0)]
        met = [met[0].mean(axis=1, keepdims=True)] if everywhere else met
    queries, keys = (np.mean([side(one) for one in met], axis=0) for side in (attention.query, attention.key))
    if everywhere:
        length = ids.shape[1]
        return _repeated(queries, length), _repeated(keys, length)
    return queries, keys


def _repeated(sides: Floats, length: int) -> Floats:
    return np.repeat(sides.mean(axis=2, keepdims=True), length, axis=2)


def mean_by_distance(matrices: Floats, distances: NDArray[np.int64]) -> Floats:
    """Return the mean over all pairs at each distance, key − query, of matrices [..., n, n] as [..., distances]."""
    found = [np.diagonal(matrices, distance, -2, -1).mean(axis=-1) for distance in distances]
    return np.stack(found, axis=-1)


@dataclass(frozen=True, eq=False)
class Identical:
    """The first layer's attention where the same word stands at every place: what is left is the doing of positions.

    ``attention`` [heads, n, n] is that of each query over the keys it sees; ``mean`` [heads, distances] its mean at
    each distance, key − query; ``uniform`` [distances] that of attention spread evenly. ``low`` and ``high``
    [heads, distances] are the 2.5–97.5 % interval of ``draws`` permutations of the positions, which keep how far
    each place draws attention by itself, and no order; ``low_mean`` and ``high_mean`` [distances] that of the mean
    over heads.
    """

    word: str
    attention: Floats
    distances: NDArray[np.int64]
    mean: Floats
    uniform: Floats
    low: Floats
    high: Floats
    low_mean: Floats
    high_mean: Floats
    draws: int
    seed: int


def identical(
    embeddings: Embeddings, word: str | int, *, length: int = 64, draws: int = 200, seed: int = 0
) -> Identical:
    """Return what the first layer attends to in a text of one word, ``length`` times, without special tokens.

    Where the table of positions is shorter, that often. ``word`` is a label of the token table, or an id. After the
    probing with identical words of Wang & Chen (EMNLP 2020). Raises ``InputError`` for words that there are not, and
    for fewer than two places.
    """
    if length < 2 or draws < 1:
        raise InputError(f"a text of one word needs two places, and a null a draw; got {length} and {draws}")
    row = embeddings.token.row(word)
    table = embeddings._recipe.position
    length = min(length, length if table is None else table.shape[0])
    split = embeddings.logits([row] * length)
    seen, logits = split.visible, _finite(embeddings, split.total)
    backward = np.arange(-length + 1, 1 if not np.triu(seen, 1).any() else length)
    distances = backward[[bool(np.diagonal(seen, distance).any()) for distance in backward]]
    rng = np.random.default_rng(seed)
    attention = softmax(logits, seen)
    null = np.empty((draws, len(logits), len(distances)))
    for draw in range(draws):
        order = rng.permutation(length)
        null[draw] = mean_by_distance(softmax(logits[:, order][:, :, order], seen), distances)
    low, high = np.quantile(null, [0.025, 0.975], axis=0)
    low_mean, high_mean = np.quantile(null.mean(axis=1), [0.025, 0.975], axis=0)
    return Identical(
        embeddings.token.labels[row],
        attention,
        distances,
        mean_by_distance(attention, distances),
        mean_by_distance(softmax(np.zeros_like(logits[0]), seen), distances),
        low,
        high,
        low_mean,
        high_mean,
        draws,
        seed,
    )


def softmax(logits: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Return the attention of each query [..., n, n] over the keys it sees; 0 for the others."""
    masked = np.where(seen, logits, -np.inf)
    weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
