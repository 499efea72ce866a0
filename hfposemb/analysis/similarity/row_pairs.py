"""Similarity of selected rows in pairs, with percentiles among random pairs and ranks among all neighbours.

The two references differ and are easily confused, so both are reported. Among random pairs of a table, nearly every
pair of common words ranks high; among all rows ordered by distance from one of the two words, few do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.row_lookup import named
from ...tables.table import TOKEN_CLASSES, EmbeddingTable, all_rows, walk
from ...tables.tabular import Columns, Tabular
from ..row_values import Floats, Frame, Metric, Query, Rows, frame_of, pair_values, values_of
from .anisotropy import anisotropy_notes, mean_cosine
from .score_bounds import Scores

MOST_PAIRED = 1_000
"""Maximum number of rows in ``pairs``."""

WHOLE_BYTES = 2**30
"""Maximum size of a table that is widened as a whole for random access, which is fastest."""

READ_BYTES = 2**25
"""Size of the groups of rows read from larger tables, in bytes."""


def random_pairs(
    value: EmbeddingTable | PositionEncoding,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    among: NDArray[np.bool_] | None = None,
    seed: int = 0,
    sample: int = 100_000,
) -> Floats:
    """Return the sorted values of random pairs of different rows, the reference for how similar rows are by chance.

    Args:
        value: Table or position encoding [n, d].
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether to subtract the mean row first.
        among: Mask of the rows to draw from [n]; all by default.
        seed: Random seed.
        sample: Number of pairs.

    Raises:
        InputError: If fewer than two rows have a value, or ``sample`` < 1.
    """
    table = table_in(value)
    frame = frame_of(table, metric, centred=centred)
    keep = frame.usable(metric)
    rows = np.flatnonzero(keep if among is None else keep & among)
    if len(rows) < 2 or sample < 1:
        raise InputError(
            f"{table.name} has {len(rows)} rows with a {metric}; random pairs need 2 and a sample of at least 1"
        )
    random = np.random.default_rng(seed)
    first = random.integers(len(rows), size=sample)
    second = (first + random.integers(1, len(rows), size=sample)) % len(rows)
    return np.sort(_values_of(table, rows[first], rows[second], metric, frame))


def _values_of(table: EmbeddingTable, left: Rows, right: Rows, metric: Metric, frame: Frame) -> Floats:
    """Return the value of each pair of rows, in any order; rows of a large table are read in groups."""
    lengths, row_bytes = frame.lengths, table.shape[1] * table.dtype.itemsize
    stored = {"F32": np.float32, "F64": np.float64}.get(table.provenance.stored_dtype)
    if table.dtype == stored or table.shape[0] * row_bytes <= WHOLE_BYTES:  # little or nothing to widen
        return pair_values(all_rows(table), left, right, metric, frame)
    order = np.argsort(left, kind="stable")  # so that one side is read sequentially
    out, step = np.empty(len(left)), max(1, READ_BYTES // row_bytes)
    for start in range(0, len(left), step):
        here = order[start : start + step]
        a, b = left[here], right[here]
        first, second = frame.seen(table.take(a)), frame.seen(table.take(b))
        out[here] = values_of(first, second, metric, lengths[a] * lengths[b])
    return out


def similarity_percentile(
    value: EmbeddingTable | PositionEncoding,
    values: float | Floats,
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    among: NDArray[np.bool_] | None = None,
    seed: int = 0,
    sample: int = 100_000,
) -> Floats:
    """Return the percentile of each value among random pairs: 99.99 means nearer than 99.99 % of them.

    Ties count half. NaN remains NaN.

    Args:
        value: Table or position encoding [n, d].
        values: Values to rank, of any shape.
        metric: Metric of ``values``.
        centred: Whether to subtract the mean row first.
        among: Mask of the rows to draw from [n]; all by default.
        seed: Random seed.
        sample: Number of random pairs.
    """
    wanted = np.asarray(values, np.float64)
    chance = random_pairs(value, metric=metric, centred=centred, among=among, seed=seed, sample=sample)
    below = (np.searchsorted(chance, wanted, "left") + np.searchsorted(chance, wanted, "right")) / 2 / len(chance)
    return np.where(np.isnan(wanted), np.nan, 100 * (1 - below if metric == "euclidean" else below))


@dataclass(frozen=True, eq=False)
class Pairs(Tabular):
    """Similarities of selected rows, with their percentiles among random pairs and among all pairs of each row.

    Attributes:
        rows: Row numbers [m].
        labels: Their labels.
        values: Value of each pair [m, m].
        percentiles: Percentile of each value among random pairs [m, m]; NaN on the diagonal and for missing values.
        classes: Token classes of the selected rows; random pairs are drawn from these, for example from words only and
            not from unused tokens, which are all alike.
        metric: Metric of ``values``.
        seed: Random seed of the random pairs.
        sample: Number of random pairs.
        ranks: Rank of row j among the neighbours of row i, from 1, ordered as in ``neighbours`` [m, m]; 0 on the
            diagonal and for missing values.
        row_percentiles: Percentage of the other rows that are farther from row i than row j is, ties counted half [m,
            m].
        others: Number of rows ranked.
        centred: Whether the mean row was subtracted first.
        anisotropy: Mean cosine of two random rows of the uncentred table.
        notes: Remarks on how to read the values.
    """

    _document = (
        *("metric", "centred", "anisotropy", "rows", "labels", "values", "percentiles", "row_percentiles", "others"),
        "notes",
    )
    rows: Rows
    labels: tuple[str, ...]
    values: Floats
    percentiles: Floats
    classes: tuple[str, ...]
    metric: Metric
    seed: int
    sample: int
    ranks: Rows
    row_percentiles: Floats
    others: int
    centred: bool = False
    anisotropy: float | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        width = max(9, *(len(label) + 2 for label in self.labels))
        lines = [" " * width + "".join(f"{label:>{width}}" for label in self.labels)]
        for label, values in zip(self.labels, self.values, strict=True):
            lines.append(f"{label:<{width}}" + "".join(f"{value:>{width}.3f}" for value in values))
        how = f"{self.metric}, centred" if self.centred else self.metric
        lines.append(
            f"\n{how}. For each pair: its percentile among {self.sample:,} random pairs (seed {self.seed}), and the"
        )
        lines.append(f"rank of each row among all {self.others:,} neighbours of the other, with its percentile")
        for i in range(len(self.rows)):
            lines += [f"  {self._pair(i, j)}" for j in range(i + 1, len(self.rows))]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    @property
    def names(self) -> tuple[str, ...]:
        """The labels without the space that marks the start of a word, unless that would make two of them equal."""
        bare = tuple(label.strip() for label in self.labels)
        return bare if len(set(bare)) == len(set(self.labels)) and all(bare) else self.labels

    def _pair(self, i: int, j: int) -> str:
        left, right = self.names[i], self.names[j]
        said = f"{left} – {right}: {_percentile(self.percentiles[i, j])}"
        if self.ranks[i, j]:
            there, back = (
                f"{nearest(int(self.ranks[at]))} ({_percentile(self.row_percentiles[at])})" for at in ((i, j), (j, i))
            )
            said += f"; {right} is {left}’s {there}, {left} is {right}’s {back}"
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON; missing values are ``None``."""
        ranks = [[rank or None for rank in line] for line in self.ranks.tolist()]
        return {**super().to_dict(), "random_pairs": self.sample, "ranks": ranks}

    def columns(self) -> Columns:
        """Return one row per pair of the selected rows.

        ``left`` and ``right``, their labels, ``value``, the similarity by ``metric``, ``percentile``, that of the value
        among random pairs, and ``rank``, that of ``right`` among the neighbours of ``left``, 0 if it has none.
        """
        left, right = np.triu_indices(len(self.rows), 1)
        names = self.names
        return {
            "left": [names[at] for at in left],
            "right": [names[at] for at in right],
            "value": self.values[left, right],
            "percentile": self.percentiles[left, right],
            "rank": self.ranks[left, right],
        }


def _percentile(value: float) -> str:
    """Format a percentile with two decimals, rounded down so that 100 appears only where it is exact."""
    return "–" if np.isnan(value) else f"{math.floor(100 * value) / 100:.2f}"


def nearest(rank: int) -> str:
    """Return a rank in words: "nearest", "2nd nearest", "1,021st nearest"."""
    if rank == 1:
        return "nearest"
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank:,}{ending} nearest"


def pair_similarities(
    value: EmbeddingTable | PositionEncoding,
    rows: Sequence[int | str],
    *,
    metric: Metric = "cosine",
    centred: bool = False,
    seed: int = 0,
    sample: int = 100_000,
) -> Pairs:
    """Return the similarity of selected rows, with percentiles among random pairs and ranks among all neighbours.

    Ranks take one pass over the table.

    Args:
        value: Table or position encoding [n, d].
        rows: Rows by number or label, 1 to 1,000 of them.
        metric: ``"cosine"``, ``"dot"`` or ``"euclidean"``.
        centred: Whether to subtract the mean row first (Mu & Viswanath 2018).
        seed: Random seed of the random pairs.
        sample: Number of random pairs.

    Raises:
        InputError: If ``rows`` is empty, has more than 1,000 entries, or names a row that does not exist.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.similarity.row_pairs import pair_similarities
        >>> found = pair_similarities(hpe.extract("sample:bert").token, ["king", "queen"])
        >>> int(found.ranks[0, 1])  # "queen" is the 6th nearest neighbour of "king"
        6
    """
    table = table_in(value)
    asked = [named(table, key) for key in several(rows)]
    found = np.array([one.row for one in asked], np.int64)
    if not 1 <= len(found) <= MOST_PAIRED:
        raise InputError(f"pair_similarities() takes 1 to {MOST_PAIRED:,} rows; got {len(found):,}")
    classes = np.unique(table.labels.classes[found])
    among = np.isin(table.labels.classes, classes)
    frame = frame_of(table, metric, centred=centred)
    keep, count, vectors = frame.usable(metric), len(found), table.take(found)
    left, right = np.divmod(np.arange(count**2), count)
    own = Frame(frame.centre, frame.lengths[found])
    with np.errstate(invalid="ignore", divide="ignore"):
        values = pair_values(vectors, left, right, metric, own).reshape(count, count)
    values[~keep[found]], values[:, ~keep[found]] = np.nan, np.nan
    percentiles = similarity_percentile(
        table, values, metric=metric, centred=centred, among=among, seed=seed, sample=sample
    )
    np.fill_diagonal(percentiles, np.nan)
    ranks, row_percentiles = _standings(table, frame, metric, found)
    return Pairs(
        rows=found,
        labels=tuple(table.labels[int(row)] for row in found),
        values=values,
        percentiles=percentiles,
        classes=tuple(TOKEN_CLASSES[index] for index in classes),
        metric=metric,
        seed=seed,
        sample=sample,
        ranks=ranks,
        row_percentiles=row_percentiles,
        others=max(0, int(keep.sum()) - 1),
        centred=frame.centre is not None,
        anisotropy=mean_cosine(table),
        notes=(
            *dict.fromkeys(one.note for one in asked if one.note),
            *anisotropy_notes(table, metric, centred=centred),
            *filter(None, [table.labels.remark]),
        ),
    )


def _standings(table: EmbeddingTable, frame: Frame, metric: Metric, rows: Rows) -> tuple[Rows, Floats]:
    """Return the rank of each selected row for each other [m, m], and its percentile [m, m], in one pass."""
    count, keep = len(rows), frame.usable(metric)
    ranks, shares = np.zeros((count, count), np.int64), np.full((count, count), np.nan)
    places = np.flatnonzero(keep[rows])
    others = int(keep.sum()) - 1
    if len(places) < 2 or others < 1:
        return ranks, shares
    chosen, vectors = rows[places], table.take(rows[places])
    rankings = [_Ranking(table, frame, metric, vectors, chosen, at) for at in range(len(chosen))]
    for start, block in walk(table):
        for ranking in rankings:
            ranking.take(start, block)
    for place, ranking in zip(places, rankings, strict=True):
        apart = chosen != ranking.asked.row
        ranks[place, places[apart]] = 1 + ranking.before[apart]
        shares[place, places[apart]] = 100 * (1 - (ranking.nearer + ranking.equal / 2)[apart] / others)
    return ranks, shares


class _Ranking:
    """Counts, from successive chunks of the table, the rows nearer to one selected row than each of the others is.

    ``nearer`` [m] counts the strictly nearer rows; ``equal`` [m] those at the same distance, including the other row
    itself; ``before`` [m] the nearer ones plus the equal ones with a lower row number.
    """

    def __init__(
        self, table: EmbeddingTable, frame: Frame, metric: Metric, vectors: NDArray[Any], rows: Rows, at: int
    ) -> None:
        self.rows, self.frame, self.metric = rows, frame, metric
        self.asked = Query.of_row("", vectors[at], int(rows[at]), frame)
        self.plan = Scores.of(metric, table, frame, self.asked.length)
        self.vector = self.plan.query(self.asked)
        # Computed with the same sums as for other rows, so that equal rows tie to the last bit.
        self.values = self.asked.values(vectors, metric, frame, frame.lengths[rows])
        goals = (self.asked.length**2 - self.values**2) / 2 if metric == "euclidean" else self.values
        self.order = np.argsort(goals)
        self.goals = goals[self.order].astype(self.plan.dtype)
        self.nearer, self.equal, self.before = np.zeros((3, len(rows)), np.int64)

    def take(self, start: int, vectors: NDArray[Any]) -> None:
        """Process a chunk of rows that begins at row ``start``."""
        scores, slack = self.plan.score(self.vector, vectors, start), self.plan.slack(start, start + len(vectors))
        assert self.asked.row is not None
        if start <= self.asked.row < start + len(vectors):
            scores[self.asked.row - start] = -np.inf
        # Rows that reach no goal, even allowing for rounding, are farther than all.
        reach = np.flatnonzero(scores + 2 * slack >= self.goals[0])
        scores, slack = scores[reach], slack if isinstance(slack, float) else slack[reach]
        low = np.searchsorted(self.goals, scores - 2 * slack, "left")
        high = np.searchsorted(self.goals, scores + 2 * slack, "right")
        sure = low == high
        beaten = np.cumsum(np.bincount(low[sure], minlength=len(self.goals) + 1)[::-1])[::-1][1:]
        self.nearer[self.order] += beaten
        self.before[self.order] += beaten
        near = reach[~sure]
        if not len(near):
            return
        values = self.asked.values(vectors[near], self.metric, self.frame, self.frame.lengths[start + near])[:, None]
        nearer = values < self.values if self.metric == "euclidean" else values > self.values
        equal = values == self.values
        lower = equal & ((start + near)[:, None] < self.rows)
        self.nearer += nearer.sum(axis=0)
        self.equal += equal.sum(axis=0)
        self.before += (nearer | lower).sum(axis=0)
