"""Words and positions to be added: which positions, and how large, for sweeps of their amplitude.

A word at a position is x + A·p, with x a token row as the model scales it, p a position row and A the amplitude, 1 in
the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.row_values import Rows
from ..analysis.rows import directed, fits_single, norms
from ..errors import InputError, MissingTableError
from ..lazy_attributes import lazy_attribute
from ..tables.closed_forms import sine_rows
from ..tables.embeddings import Embeddings
from ..tables.encodings import Absolute
from ..tables.table import EmbeddingTable, all_rows
from ..tables.tabular import Facts

Whose: TypeAlias = Literal["own", "sinusoid", "random"]
WHOSE: tuple[Whose, ...] = ("own", "sinusoid", "random")
"""The model's own positions, the sinusoid of Vaswani et al. (2017), or an untrained table."""

Single: TypeAlias = NDArray[np.float32]

MOST_NUMBERS = 2**26
"""Maximum number of elements of the tokens searched (256 MB); larger tables are sampled."""

MOST_POSITIONS = 1024
"""Maximum number of positions used, from the first."""

POSITIONS = 512
"""Number of positions computed for a model without a position table."""

STD = 0.02
"""Standard deviation of unscaled random positions, as models are initialised."""


@dataclass(frozen=True)
class PositionAddition:
    """Which positions are added, and how large they are at amplitude 1.

    Attributes:
        whose: The model's ``"own"`` positions, the ``"sinusoid"``, or ``"random"`` ones.
        scaled: Whether positions other than the model's own are scaled to the mean norm of its own, or of its tokens if
            it has none.
        rooted: Whether tokens are multiplied by √d as in Vaswani et al. (2017); ``None`` to do as the model does.
        seed: Random seed of random positions, and of the sample of a table too large to be searched whole.
    """

    whose: Whose = "own"
    scaled: bool = True
    rooted: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.whose not in WHOSE:
            raise InputError(f"whose must be one of {', '.join(map(repr, WHOSE))}; got {self.whose!r}")


@dataclass(frozen=True, eq=False)
class AddedPositions(Facts):
    """Words, and the positions to be added to them.

    Attributes:
        name: Name of the source.
        adding: Which positions are added.
        table: Token table [vocabulary, d].
        factor: Factor the tokens are multiplied by.
        rows: Token rows among which neighbours are searched [n]: all with a direction, or a seeded sample of them.
        whole: Number of tokens with a direction.
        positions: Position vectors [positions, d].
        usable: Which positions have a direction [positions].
    """

    name: str
    adding: PositionAddition
    table: EmbeddingTable
    factor: float
    rows: Rows
    whole: int
    positions: Single
    usable: NDArray[np.bool_]

    @lazy_attribute
    def tokens(self) -> Single:
        """The tokens searched, as the model scales them [n, d]."""
        every = len(self.rows) == self.table.shape[0]
        found = np.asarray(all_rows(self.table) if every else self.table.take(self.rows), np.float32)
        return found if self.factor == 1.0 else found * np.float32(self.factor)

    @lazy_attribute
    def lengths(self) -> Single:
        """The norms of the tokens searched [n]."""
        return (norms(self.table)[self.rows] * self.factor).astype(np.float32)

    @lazy_attribute
    def inner(self) -> Rows:
        """The positions averaged over: all but the first and the last, which differ from the rest in many tables."""
        places = np.flatnonzero(self.usable)
        return places[(places > 0) & (places < len(self.usable) - 1)]

    @property
    def ratio(self) -> float:
        """The mean norm of the tokens over that of the positions, at amplitude 1."""
        return float(self.lengths.mean(dtype=np.float64) / _mean_norm(self.positions[self.inner]))

    def words(self, rows: Rows) -> Single:
        """Return the vectors of tokens [m, d], as the model scales them.

        Raises:
            InputError: If a row is not in the table or has no direction.
        """
        rows = np.asarray(rows, np.int64)
        known = directed(self.table)
        if (wrong := [int(row) for row in rows if not (0 <= row < len(known) and known[row])]) != []:
            raise InputError(f"row {wrong[0]} of {self.table.name} does not exist, or is zero or not finite")
        return np.asarray(self.table.take(rows), np.float32) * np.float32(self.factor)

    def at(self, places: Rows) -> Single:
        """Return the vectors of positions [m, d]. Raises ``InputError`` for a position without one."""
        places = np.asarray(places, np.int64)
        wrong = [int(p) for p in places if not (0 <= p < len(self.usable) and self.usable[p])]
        if wrong:
            raise InputError(f"position {wrong[0]} has no vector; there are {len(self.usable):,} positions")
        return self.positions[places]


def add_positions(embeddings: Embeddings, adding: PositionAddition | None = None) -> AddedPositions:
    """Prepare a model's words and the positions to be added to them.

    Args:
        embeddings: Source with a token table.
        adding: Which positions are added; the model's own by default.

    Raises:
        MissingTableError: If the model has no tokens, or its own positions are requested and it adds none.
        InputError: If tokens and positions differ in width, or too few of either have a direction.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.composition.added_positions import add_positions
        >>> round(add_positions(hpe.extract("sample:bert")).ratio, 1)
        7.0
    """
    adding = adding or PositionAddition()
    token = embeddings.token
    known = np.flatnonzero(directed(token))
    if len(known) < 40:
        raise InputError(f"{token.name} has {len(known)} finite nonzero tokens; at least 40 are needed")
    fits_single(token)
    width, rng = token.shape[1], np.random.default_rng(adding.seed)
    factor = _factor(embeddings) if adding.rooted is None else width**0.5 if adding.rooted else 1.0
    own = own_positions(embeddings, adding.whose == "own")
    if own is not None and own.shape[1] != width and adding.whose == "own":
        raise InputError(
            f"{embeddings.name} has tokens of width {width} and positions of width {own.shape[1]}, which cannot be "
            "added directly; use the sinusoid or random positions"
        )
    if own is not None:
        fits_single(own)
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
    return AddedPositions(embeddings.name, adding, token, factor, rows, len(known), positions, usable)


def own_positions(embeddings: Embeddings, needed: bool = True) -> EmbeddingTable | None:
    """Return the table that a model adds to its words; ``None`` if it adds none and ``needed`` is false.

    Raises:
        MissingTableError: If it adds none and ``needed`` is true; says where its positions enter instead.
    """
    try:
        found = embeddings._recipe.position
    except MissingTableError:  # not a model: its positions are added if they are a table of vectors
        first = embeddings.position if embeddings.positions else None
        found = first.table if isinstance(first, Absolute) else None
    if found is None and needed:
        kind = embeddings.position.kind if embeddings.positions else "no"
        raise MissingTableError(
            f"{embeddings.name} adds no positions to its words: its {kind} positions act within attention; use "
            "the sinusoid or random positions"
            if kind not in ("no", "none")
            else f"{embeddings.name} has no positions to add to its words; use the sinusoid or random positions"
        )
    return found


def _factor(embeddings: Embeddings) -> float:
    try:
        return float(embeddings._recipe.scale)
    except MissingTableError:  # not a model: nothing scales its tokens
        return 1.0


def _positions(adding: PositionAddition, own: EmbeddingTable | None, count: int, width: int) -> Single:
    if adding.whose == "own" and own is not None:
        return np.array(own.rows(0, count), np.float32)
    if adding.whose == "sinusoid":
        return sine_rows(0, count, width).astype(np.float32)
    return (STD * np.random.default_rng(adding.seed).standard_normal((count, width))).astype(np.float32)


def _mean_norm(rows: NDArray[np.floating]) -> float:
    lengths = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    if not len(lengths):
        raise InputError("the model's own positions are all zero, so other positions cannot be scaled to their norm")
    return float(lengths.mean())
