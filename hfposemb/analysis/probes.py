"""Probes of Wang & Chen (EMNLP 2020): can a linear model read positions, and their order, off position vectors?

Their protocol to the letter, and a stable variant: near as many columns as fitted rows the absolute probe's error
explodes (double descent), so it is offered on the leading components too; the relative probe's penalty depends on the
table's scale, so it is offered standardised too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable, table_of
from .shift_operator import leading
from .surrogates import finite_rows

FOLDS = 5
LONGEST = 512
"""Positions, and pairs of them, that the relative probe takes, as the paper's does."""

TOLERANCE = 1e-6
"""Singular values below this share of the largest count as none, as in scikit-learn's linear regression."""


@dataclass(frozen=True)
class Probe:
    """Errors of a probe over seeds: positions off on average (absolute), or the share of wrong answers (relative)."""

    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.errors))

    @property
    def deviation(self) -> float:
        """The standard deviation over seeds, with n − 1; 0 for a single one."""
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else 0.0


def absolute_probe(
    value: EmbeddingTable | PositionEncoding, *, components: int | None = None, seeds: Sequence[int] = range(10)
) -> Probe:
    """Return how far off a linear regression reads the position off its vector, in positions.

    Rows in random order, 5-fold, the mean of |round(ŷ) − y| over all held-out rows (Wang & Chen 2020, 4.1);
    ``components`` fits on so many leading principal components instead of all columns. Raises ``InputError`` for fewer
    than 10 finite rows.
    """
    from sklearn.linear_model import LinearRegression

    rows = _enough(value)
    if components is not None:
        rows = leading(rows, components)

    def error(rng: np.random.Generator) -> float:
        order = rng.permutation(len(rows))
        x, missed = rows[order], 0.0
        for test in np.array_split(np.arange(len(rows)), FOLDS):
            fit = np.setdiff1d(np.arange(len(rows)), test)
            predicted = np.rint(LinearRegression().fit(x[fit], order[fit]).predict(x[test]))
            missed += float(np.abs(predicted - order[test]).sum())
        return missed / len(rows)

    return _over(seeds, error)


def relative_probe(
    value: EmbeddingTable | PositionEncoding, *, standardised: bool = False, seeds: Sequence[int] = range(10)
) -> Probe:
    """Return how often a logistic regression is wrong about which of two positions comes later, from 0 to 1.

    The first 512 positions, 512 distinct ordered pairs of them, features [p_a ‖ p_b], 5-fold (Wang & Chen 2020, 4.1).
    Its penalty depends on the table's scale: ``standardised`` divides every column by its deviation first. Raises
    ``InputError`` for fewer than 10 finite rows.
    """
    from sklearn.linear_model import LogisticRegression

    rows = _enough(value)[:LONGEST]
    if standardised:
        spread = rows.std(axis=0)
        rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)

    def error(rng: np.random.Generator) -> float:
        count = len(rows)
        chosen = rng.choice(count * count, size=min(LONGEST, count * count), replace=False)
        a, b = np.divmod(chosen, count)
        x, y = np.concatenate([rows[a], rows[b]], axis=1), b > a
        wrong = 0
        for test in np.array_split(np.arange(len(x)), FOLDS):
            fit = np.setdiff1d(np.arange(len(x)), test)
            if len(np.unique(y[fit])) < 2:
                raise InputError("all pairs drawn have one order; more positions are needed for the relative probe")
            predicted = LogisticRegression(max_iter=1000).fit(x[fit], y[fit]).predict(x[test])
            wrong += int((predicted != y[test]).sum())
        return wrong / len(x)

    return _over(seeds, error)


def extrapolation_probe(value: EmbeddingTable | PositionEncoding) -> float:
    """Return how far off, in positions, a linear regression fitted on the first half reads the second half.

    What "periodicity lets it extrapolate" would have to show. Raises ``InputError`` for fewer than 10 finite rows.
    """
    rows = _enough(value)
    half = len(rows) // 2
    places, mean = np.arange(half), rows[:half].mean(axis=0)
    # As scikit-learn's LinearRegression does, which takes a second to load: a page is drawn with this.
    slope = np.linalg.lstsq(rows[:half] - mean, places - places.mean(), rcond=TOLERANCE)[0]
    predicted = (rows[half:] - mean) @ slope + places.mean()
    return float(np.abs(np.rint(predicted) - np.arange(half, len(rows))).mean())


MOST = 1024
"""Positions that ``probes`` takes at most; the absolute probe of more takes minutes."""

STABLE = 32
"""Leading components that the stable variant of the absolute probe is fitted on."""

PROBES: Mapping[str, Callable[..., Probe]] = {
    "absolute": absolute_probe,
    f"absolute, {STABLE} components": partial(absolute_probe, components=STABLE),
    "relative": relative_probe,
    "relative, standardised": partial(relative_probe, standardised=True),
}
"""Both probes, each as the paper has it and in its stable variant."""


def probes(
    value: EmbeddingTable | PositionEncoding,
    *,
    seeds: Sequence[int] = range(5),
    progress: Callable[[float, str], None] | None = None,
) -> dict[str, Probe]:
    """Run all of ``PROBES`` on the first 1,024 positions, by name; ``progress`` is told the share done and of what.

    Raises ``InputError`` as the probes do.
    """
    table = _first(value)
    found: dict[str, list[float]] = {name: [] for name in PROBES}
    steps = [(name, seed) for name in PROBES for seed in seeds]
    for place, (name, seed) in enumerate(steps):
        if progress is not None:
            progress(place / len(steps), f"{name}, seed {seed}")
        found[name] += PROBES[name](table, seeds=[seed]).errors
    return {name: Probe(tuple(errors)) for name, errors in found.items()}


def noise_like(value: EmbeddingTable | PositionEncoding, *, seed: int = 0) -> EmbeddingTable:
    """Return Gaussian noise as large as the first 1,024 positions and of their scale: what an untrained table is.

    The scale is that of the relative probe's penalty, so that both are judged alike.
    """
    table = _first(value)
    rows = finite_rows(table)
    drawn = np.random.default_rng(seed).normal(scale=float(rows.std(axis=0).mean()) or 1.0, size=rows.shape)
    return table_of(drawn, name=f"noise as large as {table.name}", provenance=table.provenance)


def _first(value: EmbeddingTable | PositionEncoding) -> EmbeddingTable:
    table = table_in(value)
    return table if table.shape[0] <= MOST else table.part(0, MOST)


def _enough(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    table = table_in(value)
    rows = finite_rows(table)
    if len(rows) < 2 * FOLDS:
        raise InputError(f"{table.name} has {len(rows)} finite rows; a probe in {FOLDS} folds needs {2 * FOLDS}")
    return rows


def _over(seeds: Sequence[int], error: Callable[[np.random.Generator], float]) -> Probe:
    return Probe(tuple(error(np.random.default_rng(seed)) for seed in seeds))
