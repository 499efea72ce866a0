"""What the first layer is fed: token + position, as each family does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .table import EmbeddingTable

LONGEST_TEXT = 100_000
"""Characters of the longest text that is cut into pieces."""


@dataclass(frozen=True)
class Pieces:
    """A text as the tokenizer cuts it: readable ``texts`` and token ``ids``, special tokens included."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Affine:
    """x ↦ x Wᵀ + b, with ``weight`` [out, in] as torch stores it."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply to rows [n, in]."""
        out: NDArray[np.float32] = x @ self.weight.T
        return out if self.bias is None else out + self.bias


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Layer normalisation of rows (Ba et al. 2016) with the variance's n in the denominator."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None
    eps: float | None
    """What is added to the variance; ``None`` for MobileBERT's, which scales and shifts without normalising."""

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply to rows [n, width]."""
        if self.eps is None:
            plain: NDArray[np.float32] = x * self.weight
            return plain if self.bias is None else plain + self.bias
        centred = x - x.mean(axis=1, keepdims=True)
        out: NDArray[np.float32] = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.eps) * self.weight
        return out if self.bias is None else out + self.bias


@dataclass(frozen=True, eq=False)
class RootMeanSquareNorm:
    """Normalisation of rows by their root mean square (Zhang and Sennrich 2019)."""

    weight: NDArray[np.floating] | None
    eps: float

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply to rows [n, width]."""
        out: NDArray[np.float32] = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + self.eps)
        return out if self.weight is None else out * self.weight


@dataclass(frozen=True, eq=False)
class InputRecipe:
    """Say how a model turns ids into its first layer's input.

    input = after(norm(scale · before(E[id]) + T[0] + … + P[position])), each step left out where it is ``None``.
    With ``neighbours`` what comes ``before`` sees [E[next], E[id], E[last]], zeros beyond the ends.
    ``types`` are the tables whose row 0 every token gets; ``padding`` is the id that RoBERTa's kin skip when they
    count positions.
    """

    token: EmbeddingTable
    position: EmbeddingTable | None = None
    types: tuple[EmbeddingTable, ...] = ()
    scale: float = 1.0
    before: Affine | None = None
    neighbours: bool = False
    norm: LayerNorm | RootMeanSquareNorm | None = None
    after: Affine | None = None
    padding: int | None = None
    tokenize: Callable[[str], Pieces] | None = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """Hold each part of what the first layer is fed, all float32 [length, width].

    ``token`` is already scaled; ``type`` and ``position`` are zero where the model adds none; ``sum`` is their sum in
    the model's order of adding; ``normed`` what enters the first layer (``sum`` itself where nothing follows it).
    """

    pieces: tuple[str, ...]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    token: NDArray[np.float32]
    type: NDArray[np.float32]
    position: NDArray[np.float32]
    sum: NDArray[np.float32]
    normed: NDArray[np.float32]

    def __repr__(self) -> str:
        length, width = self.sum.shape
        return f"Inputs({length} pieces {' '.join(self.pieces)!r}; token, type, position, sum [{length}, {width}])"


def _ids(recipe: InputRecipe, text_or_ids: str | Sequence[int]) -> Pieces:
    rows = recipe.token.shape[0]
    if isinstance(text_or_ids, str):
        if recipe.tokenize is None:
            raise InputError(f"{recipe.token.name} comes without a tokenizer: give token ids instead of a text")
        if len(text_or_ids) > LONGEST_TEXT:
            raise InputError(f"the text has {len(text_or_ids):,} characters; give at most {LONGEST_TEXT:,}")
        pieces = recipe.tokenize(text_or_ids)
    else:
        ids = np.asarray(text_or_ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError("token ids must be a list of whole numbers, for one text")
        pieces = Pieces((), tuple(map(int, ids)))
    if not pieces.ids:
        raise InputError("there is nothing to feed: the text has no pieces; write at least one word")
    if (wrong := [i for i in pieces.ids if not 0 <= i < rows]) != []:
        raise InputError(f"token id {wrong[0]} has no row in {recipe.token.name}; its ids are 0 to {rows - 1:,}")
    return pieces


def feed(recipe: InputRecipe, text_or_ids: str | Sequence[int]) -> Inputs:
    """Return what the first layer is fed for one text, or for one list of token ids.

    Raises ``InputError`` for an empty text, ids without a row and texts longer than the positions reach.
    """
    pieces = _ids(recipe, text_or_ids)
    ids = np.array(pieces.ids, np.int64)
    token = _take(recipe.token, ids)
    if recipe.neighbours:
        beyond = np.zeros_like(token[:1])
        token = np.concatenate([np.r_[token[1:], beyond], token, np.r_[beyond, token[:-1]]], axis=1)
    if recipe.before is not None:
        token = recipe.before(token)
    token = token * np.float32(recipe.scale)
    nothing = np.zeros_like(token)
    if recipe.padding is None:
        positions = np.arange(len(ids))
    else:
        # RoBERTa counts the tokens that are not padding; row −1 of .position, the padding row, is given to the rest.
        real = ids != recipe.padding
        positions = np.where(real, np.cumsum(real) - 1, -1)
    kind = nothing
    for table in recipe.types:
        kind = kind + _take(table, np.array([0]))
    position = nothing if recipe.position is None else _positions(recipe.position, positions)
    total = token + kind + position
    normed = total if recipe.norm is None else recipe.norm(total)
    if recipe.after is not None:
        normed = recipe.after(normed)
    texts = pieces.texts or tuple(recipe.token.labels[i] for i in pieces.ids)
    return Inputs(texts, ids, positions, token, np.asarray(kind), position, total, np.asarray(normed, np.float32))


def _take(table: EmbeddingTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return some rows [n, width]: each read once, neighbours in one read, for on the Hub every read is a request."""
    wanted, places = np.unique(rows, return_inverse=True)
    runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
    parts = [np.asarray(table.rows(int(run[0]), int(run[-1]) + 1), np.float32) for run in runs]
    return np.concatenate(parts)[places]


def _positions(table: EmbeddingTable, positions: NDArray[np.int64]) -> NDArray[np.float32]:
    if positions.max() >= table.shape[0]:
        raise InputError(
            f"the text has {positions.max() + 1:,} pieces, {table.name} has {table.shape[0]:,} positions; shorten it"
        )
    if positions.min() < 0:
        raise InputError("the ids hold padding, which has no position; leave it out")
    return _take(table, positions)
