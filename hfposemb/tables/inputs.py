"""Input of the first layer: token + position, computed as each model family does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, InputError
from .table import EmbeddingTable
from .tabular import Facts

Given: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]] | NDArray[np.integer]
"""A text or its token ids; or a batch: a list of texts, or of the ids of each, possibly of unequal lengths."""

LONGEST_TEXT = 100_000
"""Most characters of a text to tokenise."""


@dataclass(frozen=True)
class Pieces:
    """A tokenised text: readable ``texts`` and token ``ids`` of its pieces, special tokens included."""

    texts: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Affine:
    """Affine map x ↦ x Wᵀ + b, with ``weight`` [out, in] as torch stores it."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply to rows [n, in]."""
        out: NDArray[np.float32] = x @ self.weight.T
        return out if self.bias is None else out + self.bias


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Layer normalisation of rows (Ba et al. 2016, arXiv 1607.06450), with the biased variance (divided by n)."""

    weight: NDArray[np.floating]
    bias: NDArray[np.floating] | None
    eps: float | None
    """Added to the variance; ``None`` for MobileBERT's variant, which scales and shifts without normalising."""

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
    """Normalisation of rows by their root mean square (RMSNorm; Zhang and Sennrich 2019, arXiv 1910.07467)."""

    weight: NDArray[np.floating] | None
    eps: float

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Apply to rows [n, width]."""
        out: NDArray[np.float32] = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + self.eps)
        return out if self.weight is None else out * self.weight


@dataclass(frozen=True, eq=False)
class InputRecipe:
    """How a model computes its first layer's input from token ids.

    input = after(norm(scale · before(E[id]) + T[0] + … + P[position])); steps that are ``None`` are skipped.

    Attributes:
        token: Token table E.
        position: Position table P.
        types: Tables T whose row 0 is added to every token.
        scale: Factor of the token vectors.
        masked: Token id whose vectors become 0; the others of a text are scaled up to make up for them.
        before: Projection of the token vectors.
        neighbours: Whether ``before`` receives [E[next], E[id], E[previous]], with zeros beyond the ends.
        norm: Normalisation of the sum.
        after: Projection of the normalised sum.
        padding: Token id that RoBERTa and its relatives skip when they count positions.
        filling: Token id that pads the shorter texts of a batch.
        tokenize: Splits a text into pieces.
    """

    token: EmbeddingTable
    position: EmbeddingTable | None = None
    types: tuple[EmbeddingTable, ...] = ()
    scale: float = 1.0
    masked: int | None = None
    before: Affine | None = None
    neighbours: bool = False
    norm: LayerNorm | RootMeanSquareNorm | None = None
    after: Affine | None = None
    padding: int | None = None
    filling: int | None = None
    tokenize: Callable[[str], Pieces] | None = None


@dataclass(frozen=True, eq=False)
class Inputs(Facts):
    """Input of the first layer and its parts, all float32 [length, width], or [batch, length, width] for a batch.

    In a batch, shorter texts are padded on the right. There every vector is zero, the position is −1 and the id is that
    of padding. Ids passed by the caller are never taken for padding.

    Attributes:
        pieces: Pieces of the text, or of each text of a batch.
        ids: Token ids.
        positions: Positions.
        mask: False where a shorter text of a batch was padded.
        token: Token vectors, already scaled.
        type: Token-type vectors, zero if the model adds none.
        position: Position vectors, zero if the model adds none.
        sum: Their sum, in the model's order of addition.
        normed: What enters the first layer; ``sum`` itself if nothing follows it.
    """

    pieces: tuple[Any, ...]
    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    mask: NDArray[np.bool_]
    token: NDArray[np.float32]
    type: NDArray[np.float32]
    position: NDArray[np.float32]
    sum: NDArray[np.float32]
    normed: NDArray[np.float32]

    def __repr__(self) -> str:
        count = len(self.ids)
        batch = f"{count} {'text' if count == 1 else 'texts'}"
        given = batch if self.ids.ndim == 2 else f"{count} pieces {' '.join(self.pieces)!r}"
        parts, fed = list(self.sum.shape), list(self.normed.shape)
        shapes = f", normed {parts}" if parts == fed else f" {parts}, normed {fed}"
        return f"Inputs({given}; token, type, position, sum{shapes})"


def _pieces(recipe: InputRecipe, text_or_ids: Any) -> Pieces:
    rows = recipe.token.shape[0]
    if isinstance(text_or_ids, str):
        if recipe.tokenize is None:
            raise InputError(f"{recipe.token.name} have no tokenizer; give token ids instead of a text")
        if len(text_or_ids) > LONGEST_TEXT:
            raise InputError(f"the text has {len(text_or_ids):,} characters; the limit is {LONGEST_TEXT:,}")
        pieces = recipe.tokenize(text_or_ids)
    else:
        try:
            ids = np.asarray(text_or_ids)
        except ValueError:  # a list of unequal lists
            ids = np.zeros((0, 0))
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError("token ids must be a list of whole numbers, or a list of such lists for a batch")
        pieces = Pieces((), tuple(map(int, ids)))
    if not pieces.ids:
        raise InputError("the text is empty; give at least one word")
    if (wrong := [i for i in pieces.ids if not 0 <= i < rows]) != []:
        raise InputError(f"token id {wrong[0]} is out of range for {recipe.token.name}; ids are 0 to {rows - 1:,}")
    return pieces


def _batch(given: Given) -> Sequence[Any] | None:
    """Return the texts of a batch, each as text or ids; ``None`` for a single text."""
    if isinstance(given, str):
        return None
    shape = getattr(given, "shape", (0,))
    if len(shape) > 1 and 0 in shape:
        raise InputError(f"the batch is empty, with ids of shape {list(shape)}; give at least one text")
    listed: Any = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(listed, Sequence):
        return None
    return listed if any(isinstance(one, Sequence) or getattr(one, "ndim", 0) for one in listed) else None


@dataclass(frozen=True, eq=False)
class _Text:
    """One text: its pieces and the position of each."""

    pieces: Pieces
    positions: NDArray[np.int64]


def _texts(recipe: InputRecipe, batch: Sequence[Any]) -> list[_Text]:
    texts = []
    for number, one in enumerate(batch, 1):
        try:
            texts.append(_text(recipe, one))
        except InputError as error:
            raise InputError(f"text {number} of {len(batch):,}: {error}") from error
    return texts


def _text(recipe: InputRecipe, given: Any) -> _Text:
    pieces = _pieces(recipe, given)
    ids = np.array(pieces.ids, np.int64)
    positions = np.arange(len(ids))
    if recipe.padding is not None:
        # RoBERTa counts only tokens that are not padding; padding gets position −1, the row before the table's first.
        real = ids != recipe.padding
        positions = np.where(real, np.cumsum(real) - 1, -1)
    if (table := recipe.position) is not None:
        if (longest := positions.max() + 1) > table.shape[0]:
            raise InputError(
                f"the text has {longest:,} pieces, but {table.name} only {table.shape[0]:,} rows; shorten it"
            )
        if positions.min() < 0:
            raise InputError("the ids include padding, which has no position; leave it out")
    return _Text(pieces, positions)


def feed(recipe: InputRecipe, given: Given) -> Inputs:
    """Compute the first layer's input for a text or its token ids, or for a batch of either.

    Args:
        recipe: How the model computes it.
        given: A text or its ids, or a batch of either.

    Raises:
        InputError: For an empty text, ids without a row, texts longer than the position table, and batches of unequal
            lengths if the recipe has no padding id.
        CheckpointError: If tables and modules do not fit together.

    >>> import hfposemb as hpe
    >>> from hfposemb.tables.inputs import InputRecipe, feed
    >>> gpt2 = hpe.extract("sample:gpt2")
    >>> feed(InputRecipe(gpt2.token, gpt2.position.table), [5, 6, 7]).sum.shape
    (3, 128)
    """
    _check(recipe)
    batch = _batch(given)
    texts = [_text(recipe, given)] if batch is None else _texts(recipe, batch)
    lengths = np.array([len(text.pieces.ids) for text in texts])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, 0 if mask.all() else _filling(recipe))
    ids[mask] = [one for text in texts for one in text.pieces.ids]
    # From here on there is one row for each piece, text after text, and none for padding.
    positions = np.concatenate([text.positions for text in texts])
    token = _tokens(recipe, ids, mask)
    kind = nothing = np.zeros_like(token)
    for table in recipe.types:
        kind = kind + _take(table, np.array([0]))
    position = nothing if recipe.position is None else _take(recipe.position, positions)
    total = token + kind + position
    normed = total if recipe.norm is None else recipe.norm(total)
    if recipe.after is not None:
        normed = recipe.after(normed)
    labels = recipe.token.labels if any(not text.pieces.texts for text in texts) else ()
    pieces = tuple(text.pieces.texts or tuple(labels[one] for one in text.pieces.ids) for text in texts)
    parts = (token, kind, position, total, np.asarray(normed, np.float32))
    if batch is None:
        return Inputs(pieces[0], ids[0], positions, mask[0], *parts)
    places = np.full(mask.shape, -1)
    places[mask] = positions
    return Inputs(pieces, ids, places, mask, *(_spread(part, mask) for part in parts))


def _check(recipe: InputRecipe) -> None:
    """Raise ``CheckpointError`` if shapes do not match: NumPy would broadcast some and fail on others."""

    def require(what: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if shape != wanted:
            raise CheckpointError(
                f"the first layer's input cannot be computed: {what} of {recipe.token.name} must have the shape "
                f"{list(wanted)}; it is {list(shape)}"
            )

    def through(affine: Affine | None, width: int, what: str) -> int:
        if affine is None:
            return width
        rows = affine.weight.shape[0] if affine.weight.ndim else 0
        require(f"the {what}", affine.weight.shape, (rows, width))
        if affine.bias is not None:
            require(f"the bias of the {what}", affine.bias.shape, (rows,))
        return rows

    width = recipe.token.shape[1] * (3 if recipe.neighbours else 1)
    width = through(recipe.before, width, "projection of the tokens")
    for table in (*recipe.types, *([] if recipe.position is None else [recipe.position])):
        require("each added table", table.shape, (table.shape[0], width))
    weight = None if recipe.norm is None else recipe.norm.weight
    bias = recipe.norm.bias if isinstance(recipe.norm, LayerNorm) else None
    for what, values in (("weight", weight), ("bias", bias)):
        if values is not None:
            require(f"the {what} of the norm", values.shape, (width,))
    through(recipe.after, width, "projection after the norm")


def _spread(rows: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Scatter rows [n, width] to where ``mask`` [batch, length] is true; zeros elsewhere."""
    out = np.zeros((*mask.shape, rows.shape[1]), np.float32)
    out[mask] = rows
    return out


def _filling(recipe: InputRecipe) -> int:
    if recipe.filling is None:
        raise InputError(
            f"texts of unequal lengths need padding, and {recipe.token.name} have neither a pad_token_id nor an "
            "eos_token_id with a row; give texts of equal length, or one at a time"
        )
    return recipe.filling


def _tokens(recipe: InputRecipe, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the scaled token vectors of ids [batch, length] where ``mask`` is true [n, width]."""
    if recipe.neighbours:
        # As in the model, the last piece of a shorter text has the padding after it as a neighbour.
        token = _take(recipe.token, ids.ravel()).reshape(*ids.shape, -1)
        beyond = np.zeros_like(token[:, :1])
        after, before = (np.concatenate(two, axis=1) for two in ((token[:, 1:], beyond), (beyond, token[:, :-1])))
        rows = np.concatenate([after, token, before], axis=2)[mask]
    else:
        rows = _take(recipe.token, ids[mask])
    if recipe.before is not None:
        rows = recipe.before(rows)
    rows = rows * np.float32(recipe.scale)
    if recipe.masked is None:
        return rows
    kept = mask & (ids != recipe.masked)
    factors = kept * (mask.sum(axis=1) / np.maximum(kept.sum(axis=1), 1))[:, None]
    return np.asarray(rows * factors[mask][:, None], np.float32)


def _take(table: EmbeddingTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return rows [n, width]; each is read once and runs are read together, since each read is a Hub request."""
    wanted, places = np.unique(rows, return_inverse=True)
    runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
    parts = [np.asarray(table.rows(int(run[0]), int(run[-1]) + 1), np.float32) for run in runs]
    return np.concatenate(parts)[places]
