"""Uncertainty of the figures of one source: intervals where they hold, and values without outlying ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..analysis.rows import finite_blocks, norms, outlying, without
from ..errors import InputError
from ..tables.embeddings import Embeddings
from ..tables.encodings import Absolute
from ..tables.table import EmbeddingTable
from ..tables.tabular import Columns, Tabular, columns_of
from .metrics import Measure, Tables, measures_named

PARTS = 10
"""Number of blocks of positions, or of groups of tokens, each of which is left out once."""

BLOCKS = ("translation invariance", "mean cosine at distance 1")
"""Figures of positions whose interval held the figure's mean in 90 to 100 of 100 made tables; others did not."""

GROUPS = ("token mean norm", "token anisotropy")
"""Figures of tokens with an interval."""

DEPENDENT = 0.2
"""Correlation of rows that are a block to two and a half blocks apart, above which no interval holds."""

FEWEST = 64
"""Minimum number of finite rows for an interval."""

OF_ROWS = ("norm of position 0", "norm of the last position", "break at position")
"""Figures of single rows, which have no value without them."""


@dataclass(frozen=True)
class Uncertain:
    """One figure.

    Attributes:
        name: Its name, as in ``hfposemb compare``.
        value: Its value.
        low: Lower end of the 95 % interval; ``None`` without one.
        high: Upper end of the interval; ``None`` without one.
        without_ends: Value without outlying first and last rows; ``None`` for tokens, without such rows, and for
            figures of single rows.
        note: Why there is no interval; "" with one.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    without_ends: float | None
    note: str


@dataclass(frozen=True)
class Uncertainty(Tabular):
    """Figures of a source with what is known of their uncertainty.

    Attributes:
        source: Name of the source.
        figures: The figures.
        ends: Outlying first and last positions.
    """

    source: str
    figures: tuple[Uncertain, ...]
    ends: tuple[int, ...]

    def columns(self) -> Columns:
        """Return one row per figure: ``figure``, ``value``, ``low``, ``high``, ``without_ends`` and ``note``."""
        rest = columns_of(self.figures, "value", "low", "high", "without_ends", "note")
        return {"figure": [one.name for one in self.figures], **rest}


def uncertainty(source: Embeddings, *, names: Sequence[str] = (), seed: int = 0) -> Uncertainty:
    """Return the figures of positions and tokens with 95 % intervals, and without outlying first and last rows.

    An interval is the delete-a-group jackknife with Student's t (Kott 2001): ten blocks of successive positions, or ten
    random groups of tokens, are left out in turn. It is of the figure's mean over tables drawn in the same way.

    Args:
        source: The source.
        names: Figures of positions and tokens, or patterns of them; by default all but those on request.
        seed: Seed of the groups of tokens.

    Returns:
        The figures that the source has.

    Raises:
        InputError: If a pattern matches no figure, or the source has none of them.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.uncertainty(hpe.extract("sample:bert"), names=["token anisotropy"]).figures[0]
        >>> found.low < found.value < found.high
        True
    """
    tables = Tables(source)
    measures = [one for one in measures_named(names) if one.section in ("position", "token")]
    known = [(measure, value) for measure in measures if (value := measure.known(tables)) is not None]
    if not known:
        raise InputError(f"{source.name} has none of these figures of positions or tokens")
    ends, why, intervals = np.empty(0, np.int64), "", dict[str, float]()
    if any(measure.section == "position" for measure, _ in known):
        ends, why = _outlying_ends(tables.position), _why_none(tables.position)
        intervals = _of_blocks(tables.position, [one for one, _ in known if one.name in BLOCKS and not why])
    rest = _without(tables.position, ends) if len(ends) else None
    if any(measure.name in GROUPS for measure, _ in known):
        intervals |= _of_groups(tables.token, seed)
    figures = []
    for measure, value in known:
        half, tokens = intervals.get(measure.name), measure.section == "token"
        bare = None if tokens or rest is None or measure.name in OF_ROWS else measure.known(rest)
        note = "" if half is not None else (why if measure.name in BLOCKS else _UNKNOWN)
        low, high = (None, None) if half is None else (value - half, value + half)
        figures.append(Uncertain(measure.name.strip(), value, low, high, bare, note))
    return Uncertainty(source.name, tuple(figures), tuple(map(int, ends)))


_UNKNOWN = "no interval: none was found that holds the figure's mean in 95 of 100 made tables"


def _without(table: EmbeddingTable, rows: NDArray[np.int64]) -> Tables:
    left = without(table, rows)
    return Tables(Embeddings(table.name, {"position": left}, {"position": Absolute(left)}))


def _outlying_ends(table: EmbeddingTable) -> NDArray[np.int64]:
    """Return the rows of outlying norm with which a table begins and ends."""
    off = np.zeros(table.shape[0], bool)
    off[outlying(norms(table))] = True
    inner = np.flatnonzero(~off)
    return np.flatnonzero(off & ((np.arange(len(off)) < inner[0]) | (np.arange(len(off)) > inner[-1])))


def _why_none(table: EmbeddingTable) -> str:
    """Return why positions have no interval; "" if they may have one."""
    if (count := int(table.finite.sum())) < FEWEST:
        return f"no interval: {count} finite rows; {FEWEST} are needed"
    whole = np.full(table.shape, np.nan)
    for places, block in finite_blocks(table):
        whole[places] = block
    whole -= np.nanmean(whole, axis=0)
    power = float(np.nanmean(np.square(whole)))
    lags = np.linspace(len(whole) / PARTS, 2.5 * len(whole) / PARTS, 8).astype(int)
    alike = max(abs(float(np.nanmean(whole[lag:] * whole[:-lag]))) for lag in lags)
    if not alike <= DEPENDENT * power:
        return f"no interval: rows {lags[0]:,} or more apart are still correlated, by up to {alike / power:.2f}"
    return ""


def _of_blocks(table: EmbeddingTable, measures: Sequence[Measure]) -> dict[str, float]:
    """Return half the width of the interval of figures of positions; blocks are left out with their places kept."""
    if not measures:
        return {}
    left = [_without(table, rows) for rows in np.array_split(np.arange(table.shape[0]), PARTS)]
    taken = {measure.name: [measure.known(tables) for tables in left] for measure in measures}
    return {name: _half(np.array(found, np.float64)) for name, found in taken.items() if None not in found}


def _of_groups(table: EmbeddingTable, seed: int) -> dict[str, float]:
    """Return half the width of the interval of figures of tokens, by the sums of random groups."""
    if int(table.finite.sum()) < FEWEST:
        return {}
    rng = np.random.default_rng(seed)
    lengths, counts, some = np.zeros(PARTS), np.zeros(PARTS), np.zeros(PARTS)
    sums = np.zeros((PARTS, table.shape[1]))
    for _, rows in finite_blocks(table):
        length = np.linalg.norm(rows, axis=1)
        group, turned = rng.integers(PARTS, size=len(rows)), length > 0
        counts += np.bincount(group, minlength=PARTS)
        lengths += np.bincount(group, length, PARTS)
        some += np.bincount(group[turned], minlength=PARTS)
        np.add.at(sums, group[turned], rows[turned] / length[turned, None])
    others, total = some.sum() - some, np.square(sums.sum(axis=0) - sums).sum(axis=1)
    found = {"token mean norm": _half((lengths.sum() - lengths) / (counts.sum() - counts))}
    if others.min() > 1:  # rows of zeros have no direction
        found["token anisotropy"] = _half((total - others) / (others * (others - 1)))
    return found


def _half(without_each: NDArray[np.float64]) -> float:
    """Return half the width of the interval from the values without each of ``PARTS`` parts."""
    from scipy.stats import t

    off = without_each - without_each.mean()
    return float(t.ppf(0.975, PARTS - 1) * math.sqrt((PARTS - 1) / PARTS * float(off @ off)))
