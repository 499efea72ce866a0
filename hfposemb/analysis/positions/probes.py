"""Linear probes of Wang & Chen (EMNLP 2020): can positions, and their order, be predicted from position vectors?

Each probe follows the paper exactly and also has a stable variant. With nearly as many columns as fitted rows, the
error of the absolute probe explodes (double descent), so a variant is fitted on the leading components. The penalty of
the relative probe depends on the table's scale, so a variant standardises the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError, require
from ...guesses import several
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable, table_of
from ...tables.tabular import Columns, Tabular
from ..nulls.surrogates import finite_rows

FOLDS = 5
LONGEST = 512
"""Maximum number of positions, and of pairs, in the relative probe, as in the paper."""

TOLERANCE = 1e-6
"""Relative cut-off for singular values, as in scikit-learn's linear regression."""


@dataclass(frozen=True)
class Probe(Tabular):
    """Errors of a probe, one per seed.

    Mean absolute error in positions for the absolute probe; share of wrong answers for the relative probe.
    """

    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.errors))

    @property
    def deviation(self) -> float:
        """The sample standard deviation over seeds (n − 1); 0 for a single seed."""
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else 0.0

    def columns(self) -> Columns:
        """Return one row per seed: ``run`` from 0, and its ``error``."""
        return {"run": range(len(self.errors)), "error": self.errors}


def require_probes() -> None:
    """Raise ``MissingExtraError`` if scikit-learn is not installed, which fits the probes."""
    require("sklearn", package="scikit-learn", extra="probes", purpose="a probe")


def absolute_probe(
    value: EmbeddingTable | PositionEncoding, *, components: int | None = None, seeds: Sequence[int] = range(10)
) -> Probe:
    """Return the error, in positions, of a linear regression from vector to position.

    The mean of |round(ŷ) − y| over all held-out rows, in random order with 5 folds (Wang & Chen 2020, 4.1).

    Args:
        value: Table or position encoding [n, d].
        components: Number of leading principal components, of the fitted rows, to fit on; all columns if ``None``.
        seeds: Random seeds, one run each.

    Raises:
        InputError: If there are fewer than 10 finite rows.
        MissingExtraError: If scikit-learn is not installed.
    """
    require_probes()
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    rows = _enough(value)
    if components is None:
        model = LinearRegression()
    else:
        fitted = len(rows) - -(-len(rows) // FOLDS)
        most = min(components, fitted, rows.shape[1])
        model = make_pipeline(PCA(most, svd_solver="covariance_eigh"), LinearRegression())

    def error(rng: np.random.Generator) -> float:
        order = rng.permutation(len(rows))
        x, missed = rows[order], 0.0
        for test in np.array_split(np.arange(len(rows)), FOLDS):
            fit = np.setdiff1d(np.arange(len(rows)), test)
            predicted = np.rint(model.fit(x[fit], order[fit]).predict(x[test]))
            missed += float(np.abs(predicted - order[test]).sum())
        return missed / len(rows)

    return _over(seeds, error)


def relative_probe(
    value: EmbeddingTable | PositionEncoding, *, standardised: bool = False, seeds: Sequence[int] = range(10)
) -> Probe:
    """Return the error rate, 0 to 1, of a logistic regression that predicts which of two positions comes later.

    512 distinct ordered pairs of the first 512 positions, features [p_a ‖ p_b], 5 folds (Wang & Chen 2020, 4.1).

    Args:
        value: Table or position encoding [n, d].
        standardised: Whether to divide each column by its standard deviation over the fitted pairs first, after
            subtracting its mean; the penalty depends on the table's scale.
        seeds: Random seeds, one run each.

    Raises:
        InputError: If there are fewer than 10 finite rows.
        MissingExtraError: If scikit-learn is not installed.
    """
    require_probes()
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = _enough(value)[:LONGEST]
    model = make_pipeline(*([StandardScaler()] if standardised else []), LogisticRegression(max_iter=1000))

    def error(rng: np.random.Generator) -> float:
        count = len(rows)
        chosen = rng.choice(count * count, size=min(LONGEST, count * count), replace=False)
        a, b = np.divmod(chosen, count)
        x, y = np.concatenate([rows[a], rows[b]], axis=1), b > a
        wrong = 0
        for test in np.array_split(np.arange(len(x)), FOLDS):
            fit = np.setdiff1d(np.arange(len(x)), test)
            if len(np.unique(y[fit])) < 2:
                raise InputError("all sampled pairs have the same order; the relative probe needs more positions")
            predicted = model.fit(x[fit], y[fit]).predict(x[test])
            wrong += int((predicted != y[test]).sum())
        return wrong / len(x)

    return _over(seeds, error)


def extrapolation_probe(value: EmbeddingTable | PositionEncoding) -> float:
    """Return the error, in positions, on the second half of a linear regression fitted on the first half.

    This tests the claim that periodicity lets an encoding extrapolate.

    Raises:
        InputError: If there are fewer than 10 finite rows.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions.probes import extrapolation_probe
        >>> extrapolation_probe(hpe.sinusoidal(64, 16).position)
        0.0
    """
    rows = _enough(value)
    half = len(rows) // 2
    places, mean = np.arange(half), rows[:half].mean(axis=0)
    # Same result as scikit-learn's LinearRegression, which takes a second to import: too slow for drawing a page.
    slope = np.linalg.lstsq(rows[:half] - mean, places - places.mean(), rcond=TOLERANCE)[0]
    predicted = (rows[half:] - mean) @ slope + places.mean()
    return float(np.abs(np.rint(predicted) - np.arange(half, len(rows))).mean())


MOST = 1024
"""Maximum number of positions in ``probes``; the absolute probe takes minutes beyond that."""

STABLE = 32
"""Number of leading components in the stable variant of the absolute probe."""

PROBES: Mapping[str, Callable[..., Probe]] = {
    "absolute": absolute_probe,
    f"absolute, {STABLE} components": partial(absolute_probe, components=STABLE),
    "relative": relative_probe,
    "relative, standardised": partial(relative_probe, standardised=True),
}
"""Both probes, each as in the paper and in its stable variant."""


def position_probes(
    value: EmbeddingTable | PositionEncoding,
    *,
    seeds: Sequence[int] = range(5),
    progress: Callable[[float, str], None] | None = None,
) -> dict[str, Probe]:
    """Run all of ``PROBES`` on the first 1,024 positions.

    Args:
        value: Table or position encoding [n, d].
        seeds: Random seeds, one run each.
        progress: Callback for the share done, 0 to 1, and the current probe.

    Returns:
        The result of each probe by name.

    Raises:
        InputError: As the probes do.
        MissingExtraError: If scikit-learn is not installed.
    """
    table = _first(value)
    found: dict[str, list[float]] = {name: [] for name in PROBES}
    steps = [(name, seed) for name in PROBES for seed in several(seeds)]
    for place, (name, seed) in enumerate(steps):
        if progress is not None:
            progress(place / len(steps), f"{name}, seed {seed}")
        found[name] += PROBES[name](table, seeds=[seed]).errors
    return {name: Probe(tuple(errors)) for name, errors in found.items()}


def noise_like(value: EmbeddingTable | PositionEncoding, *, seed: int = 0) -> EmbeddingTable:
    """Return Gaussian noise with the shape and scale of the first 1,024 positions, like an untrained table.

    Equal scale matters because the penalty of the relative probe depends on it.
    """
    table = _first(value)
    rows = finite_rows(table)
    drawn = np.random.default_rng(seed).normal(scale=float(rows.std(axis=0).mean()) or 1.0, size=rows.shape)
    return table_of(drawn, name=f"noise at the scale of {table.name}", provenance=table.provenance)


def _first(value: EmbeddingTable | PositionEncoding) -> EmbeddingTable:
    table = table_in(value)
    return table if table.shape[0] <= MOST else table.part(0, MOST)


def _enough(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    table = table_in(value)
    rows = finite_rows(table)
    if len(rows) < 2 * FOLDS:
        raise InputError(
            f"{table.name} has {len(rows)} finite rows; {FOLDS}-fold cross-validation needs at least {2 * FOLDS}"
        )
    if not np.ptp(rows, axis=0).any():
        raise InputError(
            f"all {len(rows):,} rows of {table.name} are the same; expected rows that differ, to be told apart"
        )
    return rows


def _over(seeds: Sequence[int], error: Callable[[np.random.Generator], float]) -> Probe:
    return Probe(tuple(error(np.random.default_rng(seed)) for seed in seeds))
