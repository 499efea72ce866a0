"""Effect of word order on the input of the first layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Floats, Rows
from ..errors import InputError
from ..tables.inputs import Inputs
from ..tables.tabular import Columns, Tabular


@dataclass(frozen=True, eq=False)
class Reordered(Tabular):
    """First-layer inputs of two orders of the same pieces, paired piece by piece.

    Attributes:
        pieces: Pieces of the first order.
        first: Indices of the pieces in the first order [n].
        second: Index of each piece in the second order [n]; repeated pieces are paired in order of occurrence.
        cosines: Cosines of the paired inputs [n].
        distances: Distances of the paired inputs [n].
        same_tokens: Whether both orders have the same token vectors, as they must.
        same_inputs: Whether both orders have the same inputs too.
        added: Whether positions are added to the words at all.
    """

    pieces: tuple[str, ...]
    first: Rows
    second: Rows
    cosines: Floats
    distances: Floats
    same_tokens: bool
    same_inputs: bool
    added: bool

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which pieces have a different input [n]."""
        return np.asarray(self.distances > 0)

    def columns(self) -> Columns:
        """Return one row per piece: ``piece``, its indices ``first`` and ``second``, ``cosine`` and ``distance``."""
        return {
            "piece": self.pieces,
            "first": self.first,
            "second": self.second,
            "cosine": self.cosines,
            "distance": self.distances,
        }


def reverse_tokens(ids: Sequence[int] | Rows, *, fixed: Sequence[bool] | NDArray[np.bool_]) -> Rows:
    """Return token ids in reverse order; ``fixed`` ones, such as special tokens, keep their place."""
    out = np.array(ids, np.int64)
    free = np.flatnonzero(~np.asarray(fixed, bool))
    out[free] = out[free[::-1]]
    return out


def reorder_words(one: Inputs, other: Inputs) -> Reordered:
    """Compare the first-layer inputs of two orders of the same pieces.

    Raises:
        InputError: If an input is a batch, the pieces differ, or an input vector is zero or not finite.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.composition.word_order import reorder_words
        >>> bert = hpe.extract("sample:bert")
        >>> found = reorder_words(bert.inputs("the king of the sea"), bert.inputs("the sea of the king"))
        >>> found.same_tokens, found.same_inputs
        (True, False)
    """
    if one.ids.ndim != 1 or other.ids.ndim != 1:
        raise InputError("one and other must hold a single text each, not a batch")
    if not np.array_equal(np.sort(one.ids), np.sort(other.ids)):
        raise InputError("the two texts have different pieces, so one is not a reordering of the other")
    second = np.empty(len(one.ids), np.int64)
    second[np.argsort(one.ids, kind="stable")] = np.argsort(other.ids, kind="stable")
    a, b = one.sum.astype(np.float64), other.sum[second].astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise InputError("an input vector is zero or not finite, so its cosine is undefined")
    distances = np.linalg.norm(a - b, axis=1)
    return Reordered(
        tuple(one.pieces),
        np.arange(len(one.ids)),
        second,
        np.clip(np.einsum("ij,ij->i", a, b) / lengths, -1, 1),
        distances,
        bool(np.array_equal(one.token, other.token[second])),
        bool(not distances.any()),
        bool(one.position.any() or other.position.any()),
    )
