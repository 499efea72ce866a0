"""Whose positions are added to a model's words, and how large: the protocol behind every sweep of their amplitude.

A word at a place is x + A·p: x a token row as the model scales it, p a position row, A the amplitude, 1 as in the
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Rows, read_rows
from ..analysis.rows import directed, norms
from ..errors import InputError, MissingTableError
from ..tables.closed_forms import sine_rows
from ..tables.embeddings import Embeddings
from ..tables.encodings import Absolute
from ..tables.table import EmbeddingTable, all_rows

Whose: TypeAlias = Literal["own", "sinusoid", "random"]
WHOSE: tuple[Whose, ...] = ("own", "sinusoid", "random")
"""The model's own positions, those of Vaswani et al. (2017), or an untrained table."""

Single: TypeAlias = NDArray[np.float32]

MOST_NUMBERS = 2**26
"""Numbers of the tokens that are searched: 256 MB. Of a larger table a sample of its tokens is."""

MOST_POSITIONS = 1024
"""The first so many positions are used of a longer table."""

POSITIONS = 512
"""Positions that are computed for a model which has no table of its own."""

STD = 0.02
"""Deviation of random positions at their own norm: what models start from."""


@dataclass(frozen=True)
class Adding:
    """Say whose positions are added and how large they are at amplitude 1.

    ``scaled`` gives them the mean norm of the model's own, or that of its tokens where it has none; otherwise they keep
    theirs. ``rooted`` multiplies tokens by √d as Vaswani et al. (2017) do; ``None`` as the model does. ``seed`` draws
    random positions and the sample of a table too large to be searched whole.
    """

    whose: Whose = "own"
    scaled: bool = True
    rooted: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.whose not in WHOSE:
            raise InputError(f"positions are {', '.join(map(repr, WHOSE))}; got {self.whose!r}")


@dataclass(frozen=True, eq=False)
class Added:
    """Hold words and the positions that are added to them, [places, d], of which ``usable`` [places] have a direction.

    Words are scaled by ``factor``. Neighbours are searched among ``rows`` [n], all of the ``whole`` tokens that have a
    direction or a seeded sample of them.
    """

    name: str
    adding: Adding
    table: EmbeddingTable
    factor: float
    rows: Rows
    whole: int
    positions: Single
    usable: NDArray[np.bool_]

    @cached_property
    def tokens(self) -> Single:
        """The tokens that are searched [n, d], as the model scales them."""
        every = len(self.rows) == self.table.shape[0]
        found = np.asarray(all_rows(self.table) if every else read_rows(self.table, self.rows), np.float32)
        return found if self.factor == 1.0 else found * np.float32(self.factor)

    @cached_property
    def lengths(self) -> Single:
        """The norms of the tokens that are searched [n]."""
        return (norms(self.table)[self.rows] * self.factor).astype(np.float32)

    @cached_property
    def inner(self) -> Rows:
        """The places that averages run over: without the first and the last, which many tables keep apart."""
        places = np.flatnonzero(self.usable)
        return places[(places > 0) & (places < len(self.usable) - 1)]

    @property
    def ratio(self) -> float:
        """The mean norm of the tokens by that of the positions, at amplitude 1."""
        return float(self.lengths.mean(dtype=np.float64) / _mean_norm(self.positions[self.inner]))

    def words(self, rows: Rows) -> Single:
        """Return the vectors of some tokens [m, d], as the model scales them.

        Raises ``InputError`` for rows that the table has not, or that have no direction.
        """
        rows = np.asarray(rows, np.int64)
        known = directed(self.table)
        if (wrong := [int(row) for row in rows if not (0 <= row < len(known) and known[row])]) != []:
            raise InputError(f"row {wrong[0]} of {self.table.name} is no word that can be asked for: it has no vector")
        return np.asarray(read_rows(self.table, rows), np.float32) * np.float32(self.factor)

    def at(self, places: Rows) -> Single:
        """Return the position vectors of some places [m, d]. Raises ``InputError`` for places that have none."""
        places = np.asarray(places, np.int64)
        wrong = [int(p) for p in places if not (0 <= p < len(self.usable) and self.usable[p])]
        if wrong:
            raise InputError(f"there is no vector for position {wrong[0]}; there are {len(self.usable):,} positions")
        return self.positions[places]


def added(embeddings: Embeddings, adding: Adding | None = None) -> Added:
    """Return a model's words and the positions of a protocol, ready to be added.

    Raises ``MissingTableError`` for a model without tokens, or without positions of its own where those are asked for,
    and ``InputError`` where tokens and positions differ in width, or too few of either have a direction.
    """
    adding = adding or Adding()
    token = embeddings.token
    known = np.flatnonzero(directed(token))
    if len(known) < 40:
        raise InputError(f"{token.name} has {len(known)} tokens with a direction; at least 40 are needed")
    width, rng = token.shape[1], np.random.default_rng(adding.seed)
    factor = _factor(embeddings) if adding.rooted is None else width**0.5 if adding.rooted else 1.0
    own = own_positions(embeddings, adding.whose == "own")
    if own is not None and own.shape[1] != width and adding.whose == "own":
        raise InputError(
            f"{embeddings.name} has tokens of width {width} and positions of width {own.shape[1]}, which it does not "
            "add as they are; try the sinusoid or random positions"
        )
    count = min(MOST_POSITIONS, POSITIONS if own is None else own.shape[0])
    positions = _positions(adding, own, count, width)
    lengths = np.linalg.norm(positions.astype(np.float64), axis=1)
    usable = np.isfinite(lengths) & (lengths > 0)
    if usable[1:-1].sum() < 2:
        raise InputError(f"{embeddings.name} has {int(usable[1:-1].sum())} inner positions; at least 2 are needed")
    if adding.scaled and adding.whose != "own":
        wanted = norms(token)[known].mean() * factor if own is None else _mean_norm(own.rows(1, count - 1))
        positions *= np.float32(wanted / lengths[1:-1][usable[1:-1]].mean())
    positions[~usable] = 0
    most = max(MOST_NUMBERS // width, 1000)
    rows = known if len(known) <= most else np.sort(rng.choice(known, most, replace=False))
    return Added(embeddings.name, adding, token, factor, rows, len(known), positions, usable)


def own_positions(embeddings: Embeddings, needed: bool = True) -> EmbeddingTable | None:
    """Return the table that a model adds to its words; ``None`` where it has none and none is ``needed``.

    Raises ``MissingTableError`` otherwise, saying where its positions come in.
    """
    try:
        found = embeddings._recipe.position
    except MissingTableError:  # it is no model, so its positions are added if they are a table of vectors
        first = embeddings.position if embeddings.positions else None
        found = first.table if isinstance(first, Absolute) else None
    if found is None and needed:
        kind = embeddings.position.kind if embeddings.positions else "no"
        raise MissingTableError(
            f"{embeddings.name} adds nothing to its words: it has {kind} positions, which come in where attention "
            "compares two of them; try the sinusoid or random positions"
            if kind not in ("no", "none")
            else f"{embeddings.name} adds nothing to its words: it has no positions; try the sinusoid or random ones"
        )
    return found


def _factor(embeddings: Embeddings) -> float:
    try:
        return float(embeddings._recipe.scale)
    except MissingTableError:  # it is no model, so nothing scales its tokens
        return 1.0


def _positions(adding: Adding, own: EmbeddingTable | None, count: int, width: int) -> Single:
    if adding.whose == "own" and own is not None:
        return np.array(own.rows(0, count), np.float32)
    if adding.whose == "sinusoid":
        return sine_rows(0, count, width).astype(np.float32)
    return (STD * np.random.default_rng(adding.seed).standard_normal((count, width))).astype(np.float32)


def _mean_norm(rows: NDArray[np.floating]) -> float:
    lengths = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    if not len(lengths):
        raise InputError("the model's own positions are all zero, so they have no norm to scale others to")
    return float(lengths.mean())
