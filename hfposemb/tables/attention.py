"""First-layer attention: queries, keys and logits, decomposed into the contributions of word, position and rest.

The input is a sum, word + position + rest, that is normalised before it is multiplied by W_Q and W_K. With the standard
deviation fixed at that of the actual sum, normalisation is linear. Queries and keys are therefore sums of three parts
and logits sums of nine terms, and the terms add up exactly to the layer's own logits. The decomposition follows Ke et
al. (TUPE, ICLR 2021, arXiv 2006.15595), which does it without the normalisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, InputError
from ..lazy_attributes import lazy_attribute
from .encoding_base import relative_matrix
from .encodings import Alibi, RelativeBias
from .inputs import Given, InputRecipe, LayerNorm, RootMeanSquareNorm, feed
from .rotary import Rotary
from .tabular import Facts

Part: TypeAlias = Literal["word", "position", "rest"]
PARTS: tuple[Part, ...] = ("word", "position", "rest")
"""Summands of the input. The rest is token types plus every bias between the input and a query or key."""

Floats: TypeAlias = NDArray[np.float64]
Norm: TypeAlias = LayerNorm | RootMeanSquareNorm

MOST_LOGITS = 2**22
"""Upper limit for the logits of one term, heads × pairs of pieces: 32 MB in float64."""


@dataclass(frozen=True, eq=False)
class HeadMap:
    """Project an input to the queries or keys of all heads: x ↦ norm(x Wᵀ + b).

    Attributes:
        weight: Projection matrices [heads, width, in].
        bias: Projection biases [heads, width], or ``None``.
        norm: Query or key normalisation, or ``None``. Applied per head, unless its weight has heads · width entries:
            then over all heads at once.
    """

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None = None
    norm: RootMeanSquareNorm | None = None

    def __call__(self, parts: Floats) -> Floats:
        """Map the parts of an input [3, n, in] to the parts of queries or keys [3, heads, n, width]."""
        out = np.stack([parts @ np.asarray(head, np.float64).T for head in self.weight], axis=1)
        if self.bias is not None:
            out[-1] += np.asarray(self.bias, np.float64)[:, None, :]
        if self.norm is None or self.norm.weight is None or self.norm.weight.size == out.shape[-1]:
            return out if self.norm is None else frozen(self.norm, out)
        _, heads, count, width = out.shape
        rows = frozen(self.norm, out.transpose(0, 2, 1, 3).reshape(3, count, heads * width))
        return rows.reshape(3, count, heads, width).transpose(0, 2, 1, 3)


@dataclass(frozen=True, eq=False)
class Attention:
    """Parameters of the first layer's logits, scale · (query · key) + bias, computed from its input after ``norm``.

    Attributes:
        query: Projection to queries.
        key: Projection to keys. It has as many heads as ``query``, or a divisor of that number (grouped-query
            attention): consecutive query heads then share a key head.
        scale: Factor of the dot products.
        norm: Normalisation of the layer's input before the projections.
        turning: Rotary encoding that is applied to queries and keys.
        bias: Bias by distance that is added to the logits.
        causal: Whether a query sees no later key.
        window: Number of most recent keys that a causal query sees; ``None`` for all earlier ones.
        counts: Whether ALiBi counts key positions from the first or from the last token.
    """

    query: HeadMap
    key: HeadMap
    scale: float
    norm: Norm | None = None
    turning: Rotary | None = None
    bias: Alibi | RelativeBias | None = None
    causal: bool = False
    window: int | None = None
    counts: Literal["first", "last"] = "first"

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return len(self.query.weight)

    def added(self, count: int) -> Floats | None:
        """Return the additive bias for ``count`` tokens [heads, n, n], or ``None`` if the layer adds none."""
        if isinstance(self.bias, Alibi):
            # Slope × key position: models do not subtract the query position, which is constant over the keys.
            places = np.arange(count) - (count - 1 if self.counts == "last" else 0)
            return np.broadcast_to((self.bias.effective[:, None] * places)[:, None, :], (self.heads, count, count))
        if self.bias is None:
            return None
        return np.moveaxis(relative_matrix(self.bias.bias_at, count), -1, 0)

    def visible(self, count: int) -> NDArray[np.bool_]:
        """Return the attention mask for ``count`` tokens [queries, keys], true where a query sees a key."""
        back = np.arange(count)[:, None] - np.arange(count)
        seen = back >= 0 if self.causal else np.ones((count, count), bool)
        return seen & (back < self.window) if self.causal and self.window is not None else seen


def frozen(norm: Norm | None, parts: Floats) -> Floats:
    """Normalise the parts of a sum by the statistics of the whole sum.

    This is linear in the parts, so the normalised parts add up to the normalised sum. The norm's bias is added to the
    last part.

    Args:
        norm: Normalisation to apply; ``None`` returns ``parts`` unchanged.
        parts: Summands [3, …, width].

    Returns:
        Normalised summands of the same shape.
    """
    if norm is None:
        return parts
    if isinstance(norm, RootMeanSquareNorm):
        scaled: Floats = parts / np.sqrt((parts.sum(axis=0) ** 2).mean(axis=-1, keepdims=True) + norm.eps)
        return scaled if norm.weight is None else scaled * np.asarray(norm.weight, np.float64)
    out = parts
    if norm.eps is not None:
        centred = parts - parts.mean(axis=-1, keepdims=True)
        out = centred / np.sqrt((centred.sum(axis=0) ** 2).mean(axis=-1, keepdims=True) + norm.eps)
    return _shifted(out * np.asarray(norm.weight, np.float64), norm.bias)


def _shifted(parts: Floats, bias: NDArray[np.floating] | None) -> Floats:
    """Add a bias to the last part."""
    return parts if bias is None else np.concatenate([parts[:-1], parts[-1:] + np.asarray(bias, np.float64)])


def attended(recipe: InputRecipe, attention: Attention, parts: Floats, *, normed: bool = True) -> Floats:
    """Return the parts of the vectors that are multiplied by W_Q and W_K.

    Args:
        recipe: How the model computes its first layer's input.
        attention: The first layer's attention, which may normalise again.
        parts: Summands of the input [3, n, width].
        normed: Whether to normalise; ``False`` skips all normalisations.

    Returns:
        Summands [3, n, in].

    Raises:
        CheckpointError: If the width of the input differs from that of the query projection.
    """
    inner = frozen(recipe.norm if normed else None, parts)
    if recipe.after is not None:
        inner = _shifted(inner @ np.asarray(recipe.after.weight, np.float64).T, recipe.after.bias)
    if inner.shape[-1] != (width := attention.query.weight.shape[2]):
        raise CheckpointError(
            f"the first layer's input has width {inner.shape[-1]}, but its query projection needs {width}"
        )
    return frozen(attention.norm if normed else None, inner)


def turned(vectors: Floats, positions: NDArray[np.int64], turning: Rotary | None) -> Floats:
    """Rotate queries or keys by their positions (rotary encoding, Su et al. 2021, arXiv 2104.09864).

    Args:
        vectors: Queries or keys [..., n, width]. Dimensions beyond the rotated pairs stay unchanged.
        positions: Positions [n].
        turning: Frequencies and layout of the pairs; ``None`` returns ``vectors`` unchanged.

    Returns:
        Rotated vectors of the same shape.
    """
    if turning is None:
        return vectors
    pairs = len(turning.inv_freq)
    if turning.layout == "half":
        left, right = slice(0, pairs), slice(pairs, 2 * pairs)
    else:
        left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    turning = turning.at(int(positions.max(initial=0)) + 1)  # as the model does, which looks at the last position
    angles = np.multiply.outer(positions.astype(np.float64), turning.inv_freq)
    cos, sin = (turning.attention_scaling * wave for wave in (np.cos(angles), np.sin(angles)))
    out = vectors.copy()
    out[..., left] = vectors[..., left] * cos - vectors[..., right] * sin
    out[..., right] = vectors[..., right] * cos + vectors[..., left] * sin
    return out


@dataclass(frozen=True, eq=False)
class LogitSplit(Facts):
    """First-layer attention logits of one text, before mask and softmax, as a sum of terms.

    Attributes:
        pieces: Pieces of the text.
        ids: Token ids [n].
        queries: Parts of the queries [3, heads, n, width] in the order of ``PARTS``, rotated if the model rotates them.
        keys: Parts of the keys, of the same shape.
        scale: Factor of the dot products.
        bias: Additive bias by distance [heads, n, n], or ``None``.
        visible: Attention mask [n, n], true where a query sees a key.
        unnormed: Logits [heads, n, n] of word and position as their tables store them, without norms and biases, for
            contrast.
        unturned: Logits [heads, n, n] of all parts without rotation and without ``bias``; ``None`` if the model does
            not rotate.
    """

    pieces: tuple[str, ...]
    ids: NDArray[np.int64]
    queries: Floats
    keys: Floats
    scale: float
    bias: Floats | None
    visible: NDArray[np.bool_]
    unnormed: Floats
    unturned: Floats | None = None

    def __repr__(self) -> str:
        heads, count = self.queries.shape[1:3]
        return f"LogitSplit({count} pieces {' '.join(self.pieces)!r}; {heads} heads; terms {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms: ``word · position`` is the query's word with the key's position; ``bias`` if added."""
        return (*PAIRS, *(() if self.bias is None else (BIAS,)))

    def term(self, name: str) -> Floats:
        """Return the term ``name``, one of ``names`` [heads, n, n]. Raises ``InputError`` for other names."""
        if name == BIAS and self.bias is not None:
            return np.array(self.bias)
        if name not in PAIRS:
            raise InputError(f"unknown term {name!r}; the terms are {', '.join(self.names)}")
        query, key = divmod(PAIRS.index(name), len(PARTS))
        return np.asarray(self.scale * (self.queries[query] @ self.keys[key].swapaxes(-1, -2)))

    def terms(self) -> Iterator[tuple[str, Floats]]:
        """Yield (name, term) pairs, computed one at a time to save memory."""
        for name in self.names:
            yield name, self.term(name)

    @lazy_attribute
    def total(self) -> Floats:
        """Sum of all terms [heads, n, n]: the layer's own logits before mask and softmax."""
        logits: Floats = self.scale * (self.queries.sum(axis=0) @ self.keys.sum(axis=0).swapaxes(-1, -2))
        return logits if self.bias is None else logits + self.bias


PAIRS: tuple[str, ...] = tuple(f"{query} · {key}" for query, key in product(PARTS, PARTS))
"""The nine terms: each part of the query with each part of the key."""

BIAS = "bias"


def split(recipe: InputRecipe, attention: Attention, given: Given) -> LogitSplit:
    """Compute the first layer's logits for one text and decompose them.

    Args:
        recipe: How the model computes its first layer's input.
        attention: The first layer's attention.
        given: One text or its token ids.

    Raises:
        InputError: For a batch, for a text of more than ``MOST_LOGITS`` logits, and where ``feed`` raises it.
        CheckpointError: If tables and modules do not fit together.
    """
    inputs = feed(recipe, given)
    if inputs.ids.ndim != 1:
        raise InputError("logits are computed for one text at a time; give one text or its ids")
    if attention.heads * len(inputs.ids) ** 2 > MOST_LOGITS:
        most = int(np.sqrt(MOST_LOGITS / attention.heads))
        raise InputError(
            f"the text has {len(inputs.ids):,} pieces; with {attention.heads} heads, at most {most:,} are allowed"
        )
    summed = np.stack([inputs.token, inputs.position, inputs.type]).astype(np.float64)
    met, bare = (attended(recipe, attention, summed, normed=normed) for normed in (True, False))
    sides = attention.query(met), attention.key(met)
    queries, keys = placed(attention, *sides, inputs.positions)
    raw_queries, raw_keys = placed(attention, attention.query(bare), attention.key(bare), inputs.positions)
    unturned = None
    if attention.turning is not None:
        # Position 0 for all: no rotation, but the scaling that comes with it is kept.
        unturned = _logits(attention, *placed(attention, *sides, np.zeros_like(inputs.positions)))
    count = len(inputs.ids)
    return LogitSplit(
        inputs.pieces,
        inputs.ids,
        queries,
        keys,
        attention.scale,
        attention.added(count),
        attention.visible(count),
        _logits(attention, raw_queries[:-1], raw_keys[:-1]),
        unturned,
    )


def _logits(attention: Attention, queries: Floats, keys: Floats) -> Floats:
    """Return the logits [heads, n, n] of queries and keys, summed over their parts."""
    return np.asarray(attention.scale * (queries.sum(axis=0) @ keys.sum(axis=0).swapaxes(-1, -2)))


def placed(attention: Attention, queries: Floats, keys: Floats, positions: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Rotate queries and keys [3, heads, n, width] and repeat key heads that several query heads share."""
    turned_keys = turned(keys, positions, attention.turning)
    return turned(queries, positions, attention.turning), np.repeat(turned_keys, attention.heads // keys.shape[1], 1)
