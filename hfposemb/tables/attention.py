"""What the first layer's attention makes of its input: queries, keys, and logits split into what each part brings.

The input is a sum, word + position + rest, that is normalised before it meets W_Q and W_K. With the standard deviation
held at that of the actual sum, normalising is linear: so queries and keys are sums of three parts, logits of nine, and
they add up to the layer's own (after Ke et al., TUPE, ICLR 2021, which does so without the normalisation).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, InputError
from .encodings import Alibi, RelativeBias, Rotary
from .inputs import Affine, Given, InputRecipe, LayerNorm, RootMeanSquareNorm, feed

Part: TypeAlias = Literal["word", "position", "rest"]
PARTS: tuple[Part, ...] = ("word", "position", "rest")
"""What an input is the sum of; the rest are token types and every bias on the way to a query or a key."""

Floats: TypeAlias = NDArray[np.float64]
Norm: TypeAlias = LayerNorm | RootMeanSquareNorm

MOST_LOGITS = 2**22
"""Logits of one term at most, heads times pairs of pieces: 32 MB in float64."""


@dataclass(frozen=True, eq=False)
class HeadMap:
    """Make the queries or the keys of every head: x ↦ norm(x Wᵀ + b).

    ``weight`` is [heads, width, in], ``bias`` [heads, width]; ``norm`` normalises those of a head, or where its weight
    is as long as those of all heads together, all of them at once.
    """

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None = None
    norm: RootMeanSquareNorm | None = None

    def __call__(self, parts: Floats) -> Floats:
        """Map parts of an input [3, n, in] to parts of queries or keys [3, heads, n, width]."""
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
    """Say how the first layer makes logits: scale · (query · key) + bias, of its input after ``norm``.

    ``key`` has as many heads as ``query`` or a divisor of them, each then shared by as many queries that follow each
    other. ``turning`` turns both by their positions; ``bias`` is added by distance. A query sees no later key where
    it is ``causal``, and of the earlier ones the last ``window``. ``counts``: from which token ALiBi counts.
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
        """The number of heads."""
        return len(self.query.weight)

    def added(self, count: int) -> Floats | None:
        """Return what is added to the logits of so many tokens [heads, n, n], ``None`` where nothing is."""
        if isinstance(self.bias, Alibi):
            # Slopes times the place of the key: that of the query is the same for all keys, and no layer takes it off.
            places = np.arange(count) - (count - 1 if self.counts == "last" else 0)
            return np.broadcast_to((self.bias.effective[:, None] * places)[:, None, :], (self.heads, count, count))
        if self.bias is None:
            return None
        return np.moveaxis(self.bias.bias_at(np.arange(-count + 1, count))[_distance_rows(count)], -1, 0)

    def visible(self, count: int) -> NDArray[np.bool_]:
        """Return which keys each of so many queries sees [n, n]."""
        back = np.arange(count)[:, None] - np.arange(count)
        seen = back >= 0 if self.causal else np.ones((count, count), bool)
        return seen & (back < self.window) if self.causal and self.window is not None else seen


def _distance_rows(count: int) -> NDArray[np.int64]:
    """Return where key − query stands among −n + 1 … n − 1, for every pair [n, n]."""
    return np.arange(count)[None, :] - np.arange(count)[:, None] + count - 1


def frozen(norm: Norm | None, parts: Floats) -> Floats:
    """Normalise the parts of a sum [3, …, width] by the deviation of their sum; the norm's bias goes to the last."""
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


def _mapped(affine: Affine | None, parts: Floats) -> Floats:
    return parts if affine is None else _shifted(parts @ np.asarray(affine.weight, np.float64).T, affine.bias)


def attended(recipe: InputRecipe, attention: Attention, parts: Floats, *, normed: bool = True) -> Floats:
    """Return the parts of what meets W_Q and W_K [3, n, in] for the parts of a sum [3, n, width].

    Without ``normed`` every normalisation on the way is left out. Raises ``CheckpointError`` for widths that differ.
    """
    inner = _mapped(recipe.after, frozen(recipe.norm if normed else None, parts))
    if inner.shape[-1] != (width := attention.query.weight.shape[2]):
        raise CheckpointError(
            f"the first layer is fed vectors of width {inner.shape[-1]}, and its queries are of {width}"
        )
    return frozen(attention.norm if normed else None, inner)


def turned(vectors: Floats, positions: NDArray[np.int64], turning: Rotary | None) -> Floats:
    """Turn queries or keys [..., n, width] by their positions [n]; what lies beyond the turning pairs stays."""
    if turning is None:
        return vectors
    pairs = len(turning.inv_freq)
    if turning.layout == "half":
        left, right = slice(0, pairs), slice(pairs, 2 * pairs)
    else:
        left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    angles = np.multiply.outer(positions.astype(np.float64), turning.inv_freq)
    cos, sin = (turning.attention_scaling * wave for wave in (np.cos(angles), np.sin(angles)))
    out = vectors.copy()
    out[..., left] = vectors[..., left] * cos - vectors[..., right] * sin
    out[..., right] = vectors[..., right] * cos + vectors[..., left] * sin
    return out


@dataclass(frozen=True, eq=False)
class LogitSplit:
    """The logits of the first layer for one text, before mask and softmax, as the sum of what the parts bring.

    ``queries`` and ``keys`` are the parts [3, heads, n, width] in the order of ``PARTS``, turned where the model turns
    them; ``bias`` [heads, n, n] is what the model adds by distance; ``visible`` [n, n] which keys a query sees.
    ``unnormed`` [heads, n, n] are those of word and position as their tables have them, without norms and biases, for
    contrast; ``unturned`` [heads, n, n] those of all parts, their bias aside, where nothing is turned by its position,
    ``None`` where the model turns nothing.
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
        """The terms: ``word · position`` is a query's word with a key's position; ``bias`` where there is one."""
        return (*PAIRS, *(() if self.bias is None else (BIAS,)))

    def term(self, name: str) -> Floats:
        """Return one of ``names`` [heads, n, n]. Raises ``InputError`` for another name."""
        if name == BIAS and self.bias is not None:
            return np.array(self.bias)
        if name not in PAIRS:
            raise InputError(f"the logits have no term {name!r}; there are {', '.join(self.names)}")
        query, key = divmod(PAIRS.index(name), len(PARTS))
        logits: Floats = self.scale * (self.queries[query] @ self.keys[key].swapaxes(-1, -2))
        return logits

    def terms(self) -> Iterator[tuple[str, Floats]]:
        """Yield every term with its name, made one at a time."""
        for name in self.names:
            yield name, self.term(name)

    @cached_property
    def total(self) -> Floats:
        """The sum of all terms [heads, n, n]: the layer's own logits, before mask and softmax."""
        logits: Floats = self.scale * (self.queries.sum(axis=0) @ self.keys.sum(axis=0).swapaxes(-1, -2))
        return logits if self.bias is None else logits + self.bias


PAIRS: tuple[str, ...] = tuple(f"{query} · {key}" for query, key in product(PARTS, PARTS))
"""The nine terms: a part of the query with a part of the key."""

BIAS = "bias"


def split(recipe: InputRecipe, attention: Attention, given: Given) -> LogitSplit:
    """Return the first layer's logits for one text or its ids, split. Raises ``InputError`` as ``feed`` does."""
    inputs = feed(recipe, given)
    if inputs.ids.ndim != 1:
        raise InputError("the logits of one text are split at a time; give a text, or the ids of one")
    if attention.heads * len(inputs.ids) ** 2 > MOST_LOGITS:
        most = int(np.sqrt(MOST_LOGITS / attention.heads))
        raise InputError(f"the text has {len(inputs.ids):,} pieces; with {attention.heads} heads give at most {most:,}")
    summed = np.stack([inputs.token, inputs.position, inputs.type]).astype(np.float64)
    met, bare = (attended(recipe, attention, summed, normed=normed) for normed in (True, False))
    sides = attention.query(met), attention.key(met)
    queries, keys = placed(attention, *sides, inputs.positions)
    raw_queries, raw_keys = placed(attention, attention.query(bare), attention.key(bare), inputs.positions)
    unturned = None
    if attention.turning is not None:
        # All at position 0, where cosines are 1, keeps the scaling that comes with turning.
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
    """Return the logits [heads, n, n] of parts of queries and keys, added up."""
    logits: Floats = attention.scale * (queries.sum(axis=0) @ keys.sum(axis=0).swapaxes(-1, -2))
    return logits


def placed(attention: Attention, queries: Floats, keys: Floats, positions: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return queries and keys [3, heads, n, width] as they meet: turned, keys as often as queries share them."""
    turned_keys = turned(keys, positions, attention.turning)
    return turned(queries, positions, attention.turning), np.repeat(turned_keys, attention.heads // keys.shape[1], 1)
