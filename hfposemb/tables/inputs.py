"""What the first layer is fed: token + position, as each family does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, InputError
from .table import EmbeddingTable

Given: TypeAlias = str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]] | NDArray[np.integer]
"""A text or its token ids; or a batch: texts, or the ids of each, rows of unequal length included."""

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
    count positions, ``filling`` the one that the shorter texts of a batch are filled up with.
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
    filling: int | None = None
    tokenize: Callable[[str], Pieces] | None = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """Hold each part of what the first layer is fed, all float32: [length, width], of a batch [batch, length, width].

    ``token`` is already scaled; ``type`` and ``position`` are zero where the model adds none; ``sum`` is their sum in
    the model's order of adding; ``normed`` what enters the first layer (``sum`` itself where nothing follows it).
    ``mask`` is false where a shorter text of a batch was filled up, on its right: there every vector is zero, the
    position −1 and the id that of padding; ids that were given are never taken for padding. ``pieces`` are those of the
    text, of a batch those of each text.
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
            raise InputError(f"{recipe.token.name} comes without a tokenizer: give token ids instead of a text")
        if len(text_or_ids) > LONGEST_TEXT:
            raise InputError(f"the text has {len(text_or_ids):,} characters; give at most {LONGEST_TEXT:,}")
        pieces = recipe.tokenize(text_or_ids)
    else:
        try:
            ids = np.asarray(text_or_ids)
        except ValueError:  # a list of unequal lists
            ids = np.zeros((0, 0))
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError("token ids must be a list of whole numbers, or for a batch a list of such lists")
        pieces = Pieces((), tuple(map(int, ids)))
    if not pieces.ids:
        raise InputError("there is nothing to feed: the text has no pieces; write at least one word")
    if (wrong := [i for i in pieces.ids if not 0 <= i < rows]) != []:
        raise InputError(f"token id {wrong[0]} has no row in {recipe.token.name}; its ids are 0 to {rows - 1:,}")
    return pieces


def _batch(given: Given) -> Sequence[Any] | None:
    """Return the texts of a batch, each a text or ids; ``None`` for one text."""
    if isinstance(given, str):
        return None
    shape = getattr(given, "shape", (0,))
    if len(shape) > 1 and 0 in shape:
        raise InputError(f"there is nothing to feed: the ids have the shape {list(shape)}; give at least one text")
    listed: Any = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(listed, Sequence):
        return None
    return listed if any(isinstance(one, Sequence) or getattr(one, "ndim", 0) for one in listed) else None


@dataclass(frozen=True, eq=False)
class _Text:
    """One text to feed: its pieces, and the position of each."""

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
        # RoBERTa counts the tokens that are not padding; row −1 of .position, the padding row, is given to the rest.
        real = ids != recipe.padding
        positions = np.where(real, np.cumsum(real) - 1, -1)
    if (table := recipe.position) is not None:
        if (longest := positions.max() + 1) > table.shape[0]:
            raise InputError(
                f"the text has {longest:,} pieces, {table.name} has {table.shape[0]:,} positions; shorten it"
            )
        if positions.min() < 0:
            raise InputError("the ids hold padding, which has no position; leave it out")
    return _Text(pieces, positions)


def feed(recipe: InputRecipe, given: Given) -> Inputs:
    """Return what the first layer is fed for one text or the ids of one, or for a batch of texts or of ids.

    Raises ``InputError`` for an empty text, ids without a row, texts longer than the positions reach, and a batch of
    unequal lengths where nothing says what to pad with; ``CheckpointError`` where tables and modules do not fit.
    """
    _check(recipe)
    batch = _batch(given)
    texts = [_text(recipe, given)] if batch is None else _texts(recipe, batch)
    lengths = np.array([len(text.pieces.ids) for text in texts])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(mask.shape, 0 if mask.all() else _filling(recipe))
    ids[mask] = [one for text in texts for one in text.pieces.ids]
    # From here on rows are those of pieces, one text after the other: padding has none.
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
    """Raise ``CheckpointError`` where parts do not fit together: numpy would stretch some, and refuse others."""

    def require(what: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if shape != wanted:
            raise CheckpointError(
                f"what the first layer is fed cannot be computed: {what} of {recipe.token.name} must have the shape "
                f"{list(wanted)}, it is {list(shape)}"
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
    """Put rows [n, width] where ``mask`` [batch, length] is true, zeros elsewhere."""
    out = np.zeros((*mask.shape, rows.shape[1]), np.float32)
    out[mask] = rows
    return out


def _filling(recipe: InputRecipe) -> int:
    if recipe.filling is None:
        raise InputError(
            f"texts of unequal lengths need padding, and {recipe.token.name} have neither a pad_token_id nor an "
            "eos_token_id with a row: give texts of one length, or one at a time"
        )
    return recipe.filling


def _tokens(recipe: InputRecipe, ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return what ids [batch, length] bring before positions are added, where ``mask`` is true [n, width]."""
    if recipe.neighbours:
        # The last piece of a shorter text sees the padding after it, as in the model.
        token = _take(recipe.token, ids.ravel()).reshape(*ids.shape, -1)
        beyond = np.zeros_like(token[:, :1])
        after, before = (np.concatenate(two, axis=1) for two in ((token[:, 1:], beyond), (beyond, token[:, :-1])))
        rows = np.concatenate([after, token, before], axis=2)[mask]
    else:
        rows = _take(recipe.token, ids[mask])
    if recipe.before is not None:
        rows = recipe.before(rows)
    return rows * np.float32(recipe.scale)


def _take(table: EmbeddingTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return some rows [n, width]: each read once, neighbours in one read, for on the Hub every read is a request."""
    wanted, places = np.unique(rows, return_inverse=True)
    runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
    parts = [np.asarray(table.rows(int(run[0]), int(run[-1]) + 1), np.float32) for run in runs]
    return np.concatenate(parts)[places]
