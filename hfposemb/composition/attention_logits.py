"""First-layer attention logits: shares of their terms, averages by distance, and attention among identical words.

Logits are the common unit of all position encodings: learned tables, biases and rotations all act on them. Whatever is
equal for all keys of a query cancels in the softmax, so it is excluded from every share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.attention import BIAS, PAIRS, PARTS, Attention, Floats, LogitSplit, attended, placed
from ..tables.embeddings import Embeddings
from ..tables.encodings import Alibi, RelativeBias
from ..tables.inputs import InputRecipe, feed
from ..tables.table import TOKEN_CLASSES
from ..tables.tabular import Columns, Tabular, over_axes

RUN = 32
"""Number of adjacent tokens drawn together, so that a table on the Hub is read in few requests."""

TOTAL = "total"
"""Name of the sum of all terms, where a single term can be selected."""

FOUR = tuple(f"{one} · {other}" for one, other in product(PARTS[:2], repeat=2))
"""Names of the products of words and positions."""

_REAL = tuple(TOKEN_CLASSES.index(name) for name in TOKEN_CLASSES if name not in ("special", "unused", "padding"))


@dataclass(frozen=True, eq=False)
class Shares(Tabular):
    """How much each term contributes to the differences between the logits of a query.

    Attributes:
        names: Names of the terms.
        values: Σ t̃ L̃ / Σ L̃² over visible pairs of query and key, with t̃ and L̃ the term and the sum of all, minus
            their means over the keys of the query [terms, heads]. They add up to 1 in each head. Negative if a term
            opposes the rest; NaN for a head whose logits do not differ.
        turning: Share, defined likewise, of what rotating queries and keys by position changes [heads]. It is contained
            in the terms; ``None`` if the model rotates nothing.
        unnormed: R² of the logits that word and position give without normalisation, over all heads and pairs: 1 − Σ(L
            − raw)² / Σ(L − L̄)².
    """

    names: tuple[str, ...]
    values: Floats
    turning: Floats | None
    unnormed: float

    @property
    def mean(self) -> Floats:
        """The mean over heads whose logits differ [terms]."""
        return np.asarray(self.values[:, np.isfinite(self.values).all(axis=0)].mean(axis=1))

    @property
    def products(self) -> dict[str, float]:
        """The four products of words and positions, and ``rest``: shares that add up to 1, mean over heads.

        Attention sees x + v only within them, so what holds of v alone matters as much as ``position · position`` does.
        """
        own = {name: float(share) for name, share in zip(self.names, self.mean, strict=True) if name in FOUR}
        return {**own, "rest": 1 - sum(own.values())}

    def columns(self) -> Columns:
        """Return one row per term and head: ``term``, ``head`` and ``share``."""
        return over_axes({"term": self.names, "head": range(self.values.shape[1])}, share=self.values)


def logit_shares(split: LogitSplit) -> Shares:
    """Return the share of each term in the logits.

    Raises:
        InputError: If no query has two keys with different logits, or the logits are not finite.
    """
    seen = split.visible
    total = _centred(split.total, seen)
    variance = (total**2).sum(axis=(1, 2))
    if not (variance > 0).any():
        why = (
            "no query has two keys with different logits"
            if np.isfinite(variance).all()
            else "the logits are not finite"
        )
        raise InputError(f"{why}, so shares are undefined; use a complete model and a text of at least two words")
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
    """Return Σ t̃ L̃ of a term and the centred logits, per head."""
    return np.asarray((_centred(term, seen) * total).sum(axis=(1, 2)))


def centred_logits(split: LogitSplit, name: str = TOTAL) -> Floats:
    """Return one term, or their sum, minus its mean over the keys each query sees [heads, n, n].

    This is all that the softmax depends on; NaN where a query does not see a key.

    Args:
        split: Logits of a text.
        name: Name of a term; by default the sum of all.
    """
    logits = split.total if name == TOTAL else split.term(name)
    return np.where(split.visible, _centred(logits, split.visible), np.nan)


def _centred(logits: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Subtract the mean over the keys that each query sees; invisible pairs become 0."""
    means = (logits * seen).sum(axis=-1, keepdims=True) / seen.sum(axis=-1, keepdims=True)
    return np.asarray((logits - means) * seen)


@dataclass(frozen=True, eq=False)
class ByDistance(Tabular):
    """Mean terms of the logits at each distance, key − query.

    Attributes:
        names: Names of the terms.
        distances: Distances, key − query [distances].
        values: Terms with the parts of queries and keys averaged over texts of drawn tokens, a token of each at every
            position, and over positions, too, if none is added [terms, heads, distances].
        kinds: Position mechanisms that ``positional`` consists of.
        tokens: Number of tokens drawn for all texts together.
        seed: Random seed.
    """

    names: tuple[str, ...]
    distances: NDArray[np.int64]
    values: Floats
    kinds: tuple[str, ...]
    tokens: int
    seed: int

    @property
    def positional(self) -> Floats:
        """The contribution of positions alone, in logits [heads, distances].

        ``position · position`` if positions are added to words, plus the bias if one is added to logits; the sum of all
        terms if queries and keys are rotated, since q̄ᵀR_Δk̄ has no part without words. Only differences are
        meaningful.
        """
        if "rotary" in self.kinds:
            return np.asarray(self.values.sum(axis=0))
        own = [self.names.index(name) for name in ("position · position", BIAS) if name in self.names]
        return np.asarray(self.values[own].sum(axis=0))

    @property
    def change(self) -> Floats:
        """``positional`` minus its value for the key just before the query [heads, distances]: 0 at distance −1."""
        return self.positional - self.positional[:, self.distances == -1]

    def columns(self) -> Columns:
        """Return one row per term, head and distance: ``term``, ``head``, ``distance`` and ``logit``."""
        axes = {"term": self.names, "head": range(self.values.shape[1]), "distance": self.distances}
        return over_axes(axes, logit=self.values)


def logits_by_distance(embeddings: Embeddings, *, longest: int = 128, tokens: int = 1024, seed: int = 0) -> ByDistance:
    """Return the first layer's logits for the mean of real tokens, by distance; past keys only if attention is causal.

    Tokens are drawn in runs of ``RUN`` neighbouring rows, excluding special and unused ones. For a bias without a
    model, such as ``alibi:2048x12``, the result is the bias itself.

    Args:
        embeddings: Source.
        longest: Largest distance, limited by the position table.
        tokens: Approximate number of tokens drawn.
        seed: Random seed of the tokens.

    Raises:
        MissingTableError: If the model's first layer is not known.
        InputError: If ``longest`` or ``tokens`` < 1, there is a single position or no real token, or logits are not
            finite.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.composition.attention_logits import logits_by_distance
        >>> logits_by_distance(hpe.extract("alibi:64x4"), longest=4).values.shape
        (1, 4, 9)
    """
    if longest < 1 or tokens < 1:
        raise InputError(f"longest and tokens must be at least 1; got longest={longest} and tokens={tokens}")
    if embeddings.recipe is None and isinstance(bias := embeddings.position, Alibi | RelativeBias):
        distances = np.arange(-longest, longest + 1)
        return ByDistance((BIAS,), distances, _biases(bias, distances)[None], ("bias",), 0, seed)
    recipe, attention = embeddings._recipe, embeddings._attention
    table = recipe.position
    length = min(longest + 1, longest + 1 if table is None else table.shape[0])
    if length < 2:
        raise InputError(f"{embeddings.name} has only one position; at least 2 are needed")
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
    """Return logits unchanged. Raises ``InputError`` if one is NaN or Inf."""
    if not np.isfinite(logits).all():
        raise InputError(f"the first layer's logits of {embeddings.name} are not finite; its weights may be damaged")
    return logits


def _biases(bias: Alibi | RelativeBias, distances: NDArray[np.int64]) -> Floats:
    """Return the bias at each distance [heads, distances]."""
    if isinstance(bias, Alibi):
        return np.asarray(-np.outer(bias.effective, np.abs(distances)))
    return np.asarray(bias.bias_at(distances).T)


def _drawn(embeddings: Embeddings, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the ids of real tokens [count]. Raises ``InputError`` if there are none."""
    real = np.flatnonzero(np.isin(embeddings.token.labels.classes, _REAL))
    if not len(real):
        raise InputError(f"{embeddings.token.name} has only special and unused tokens")
    starts = rng.integers(0, max(len(real) - RUN, 0) + 1, -(-count // RUN))
    return rng.permutation(real[(starts[:, None] + np.arange(RUN)).ravel() % len(real)])[:count]


def _mean_sides(recipe: InputRecipe, attention: Attention, ids: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the unrotated parts of queries and keys [3, heads, length, width], averaged over texts [texts, length].

    If no position is added, they are averaged over all places too.
    """
    inputs = feed(recipe, ids)
    summed = np.stack([inputs.token, inputs.position, inputs.type], axis=1).astype(np.float64)
    met = [attended(recipe, attention, one) for one in summed]
    everywhere = recipe.position is None
    if attention.query.norm is None and attention.key.norm is None:
        # Linear maps commute with the mean, so average first.
        met = [np.mean(met, axis=0)]
        met = [met[0].mean(axis=1, keepdims=True)] if everywhere else met
    queries, keys = (np.mean([side(one) for one in met], axis=0) for side in (attention.query, attention.key))
    if everywhere:
        means = (side.mean(axis=2, keepdims=True) for side in (queries, keys))
        queries, keys = (np.repeat(mean, ids.shape[1], axis=2) for mean in means)
    return queries, keys


def mean_by_distance(matrices: Floats, distances: NDArray[np.int64]) -> Floats:
    """Return the mean of matrices [..., n, n] over all pairs at each distance, key − query, as [..., distances]."""
    found = [np.diagonal(matrices, distance, -2, -1).mean(axis=-1) for distance in distances]
    return np.stack(found, axis=-1)


@dataclass(frozen=True, eq=False)
class Identical(Tabular):
    """First-layer attention in a text that repeats one word, so that only positions make a difference.

    Attributes:
        word: Label of the word.
        attention: Attention of each query over the keys it sees [heads, n, n].
        distances: Distances, key − query [distances].
        mean: Mean attention at each distance [heads, distances].
        uniform: Mean of uniform attention at each distance [distances].
        low: Lower end of the 2.5–97.5 % interval for permuted positions, which preserve how much attention each
            position draws but not their order [heads, distances].
        high: Upper end of that interval [heads, distances].
        low_mean: Lower end of the interval of the mean over heads [distances].
        high_mean: Upper end of that interval [distances].
        each_p: Share of permutations, the observed order among them, in which some distance stands out as much as
            each does here, by the mean over heads in standard deviations of all orders [distances].
        draws: Number of permutations.
        seed: Random seed.
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
    each_p: Floats
    draws: int
    seed: int

    @property
    def p(self) -> float:
        """That of the distance that stands out most."""
        return float(self.each_p.min())

    def columns(self) -> Columns:
        """Return one row per head and distance: ``head``, ``distance``, ``mean``, ``uniform``, ``low``, ``high``."""
        axes = {"head": range(len(self.mean)), "distance": self.distances}
        return over_axes(axes, mean=self.mean, uniform=self.uniform, low=self.low, high=self.high)


def identical_word_logits(
    embeddings: Embeddings, word: str | int, *, length: int = 64, draws: int = 200, seed: int = 0
) -> Identical:
    """Return the first layer's attention in a text that repeats one word, without special tokens.

    After the identical-word probing of Wang & Chen (EMNLP 2020).

    Args:
        embeddings: Source with a model's first layer.
        word: Label or id of the word.
        length: Number of repetitions, limited by the position table.
        draws: Number of permutations of the positions in the null.
        seed: Random seed of the null.

    Raises:
        InputError: If the word does not exist, ``length`` < 2, ``draws`` < 1, or logits are not finite.
    """
    if length < 2 or draws < 1:
        raise InputError(f"length must be at least 2 and draws at least 1; got length={length} and draws={draws}")
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
    mean = mean_by_distance(attention, distances)
    return Identical(
        embeddings.token.labels[row],
        attention,
        distances,
        mean,
        mean_by_distance(softmax(np.zeros_like(logits[0]), seen), distances),
        low,
        high,
        low_mean,
        high_mean,
        _of_the_most(np.vstack([mean.mean(axis=0), null.mean(axis=1)])),
        draws,
        seed,
    )


def _of_the_most(values: Floats) -> Floats:
    """Return the p of each of several values beside the largest of each order, in standard deviations of all orders.

    Args:
        values: The values of the observed order and of random ones [1 + draws, values]. Each counts alike in mean and
            deviation: beside those of the others alone, any order would stand out.
    """
    far = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    return np.asarray((far.max(axis=1)[:, None] >= far[0] - 1e-6).mean(axis=0))


def softmax(logits: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Return the attention of each query over the keys it sees [..., n, n]; 0 for the others."""
    masked = np.where(seen, logits, -np.inf)
    weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
