"""The same words in another order: what changes in what the first layer is fed, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Floats, Rows
from ..errors import InputError
from ..tables.inputs import Inputs


@dataclass(frozen=True, eq=False)
class Reordered:
    """Hold what two orders of the same pieces feed, piece by piece of the first order.

    Piece ``first[i]`` of one order is piece ``second[i]`` of the other; a piece that comes several times is paired in
    the order it comes in. ``cosines`` and ``distances`` [n] are those of their inputs. ``same_tokens`` says whether
    both orders have the same token vectors, as they must, ``same_inputs`` whether also the same inputs, and ``added``
    whether positions are added to the words at all.
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
        """Which pieces [n] go in as another vector than before."""
        return np.asarray(self.distances > 0)


def turned_round(ids: Sequence[int] | Rows, *, fixed: Sequence[bool] | NDArray[np.bool_]) -> Rows:
    """Return token ids the other way round; those that are ``fixed``, a model's own marks, stay where they are."""
    out = np.array(ids, np.int64)
    free = np.flatnonzero(~np.asarray(fixed, bool))
    out[free] = out[free[::-1]]
    return out


def reordered(one: Inputs, other: Inputs) -> Reordered:
    """Compare what a model is fed for two orders of the same pieces.

    Raises ``InputError`` for batches, and where the pieces are not the same.
    """
    if one.ids.ndim != 1 or other.ids.ndim != 1:
        raise InputError("two texts are compared, not batches; give the inputs of one text each")
    if not np.array_equal(np.sort(one.ids), np.sort(other.ids)):
        raise InputError("the two texts are cut into different pieces, so one is no other order of the other")
    second = np.empty(len(one.ids), np.int64)
    second[np.argsort(one.ids, kind="stable")] = np.argsort(other.ids, kind="stable")
    a, b = one.sum.astype(np.float64), other.sum[second].astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise InputError("a piece goes in as a vector that is zero or not finite, so it has no cosine")
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
