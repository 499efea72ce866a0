"""Intrinsic dimension of a token table: how many directions its rows fill locally, whatever space they lie in.

TwoNN (Facco et al., *Scientific Reports* 7, 2017): where density hardly changes between the first and the second
neighbour of a row, the ratio μ of their distances follows a Pareto law with the dimension as its exponent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.encodings import PositionEncoding, table_in
from ...tables.table import EmbeddingTable
from ...tables.tabular import Facts
from ..rows import fits_single

MOST_ROWS = 50_000
"""Maximum number of rows among which neighbours are looked for; of larger tables, random ones."""

QUERIES = 2_000
"""Maximum number of rows whose neighbours are looked for."""

SHARED = 0.44
"""Growth of the variance where all rows are asked, many of them neighbours of each other; measured on manifolds."""

FEWEST = 50
"""Minimum number of different rows."""

KEPT = 0.9
"""Share of the smallest ratios that count in full, as Facco et al. leave out the largest tenth."""

BLOCK = 2**25
"""Number of squared distances held at a time."""


@dataclass(frozen=True)
class IntrinsicDimension(Facts):
    """Intrinsic dimension of a table by TwoNN.

    The interval is of sampling: in 95 of 100 samples of rows it holds the mean of the estimate at this number of rows.
    The estimate itself falls short of a dimension above 5 or so, the more the fewer rows there are, and so does
    ``gaussian``, with which it is to be compared.

    Attributes:
        value: The estimate.
        low: Lower end of its 95 % interval.
        high: Upper end of that interval.
        gaussian: The estimate for as many normal rows of the same mean and covariance.
        rows: Number of different finite rows among which neighbours were looked for.
        queries: Number of them whose neighbours were looked for.
        of: Number of finite rows of the table.
    """

    value: float
    low: float
    high: float
    gaussian: float
    rows: int
    queries: int
    of: int


def intrinsic_dimension(value: EmbeddingTable | PositionEncoding, *, seed: int = 0) -> IntrinsicDimension:
    """Return the intrinsic dimension of a table by TwoNN, with its interval and that of normal rows.

    Of the ratios μ of the distances to the second and the first neighbour, the largest tenth counts as being no
    smaller than the rest: d = m / (Σ log μ_i + (N − m) log μ_m) over the m smallest of N, the estimate of greatest
    likelihood. Rows that are equal count once.

    Args:
        value: Table or position encoding [n, d].
        seed: Seed of the sample of rows and of the normal rows.

    Returns:
        The estimate, its 95 % interval, and the estimate for normal rows of the same covariance.

    Raises:
        InputError: If fewer than 50 different finite rows are there.

    Examples:
        >>> import hfposemb as hpe
        >>> import numpy as np
        >>> plane = np.random.default_rng(0).standard_normal((500, 2)) @ np.ones((2, 8)).cumsum(axis=1)
        >>> found = hpe.intrinsic_dimension(hpe.from_arrays(token=plane).token)
        >>> round(found.value, 1), round(found.gaussian, 1)
        (1.0, 1.0)
    """
    table = table_in(value)
    whole = np.flatnonzero(table.finite)
    rng = np.random.default_rng(seed)
    taken = whole
    if len(whole) > MOST_ROWS:
        taken = whole[np.sort(rng.choice(len(whole), MOST_ROWS, replace=False))]
    rows = np.unique(np.asarray(table.take(taken), np.float64), axis=0)
    fits_single(table)
    if len(rows) < FEWEST:
        raise InputError(f"{table.name} has {len(rows)} different finite rows; an intrinsic dimension needs {FEWEST}")
    middle = rows.mean(axis=0)
    logs = _log_ratios(rows - middle, rng)
    low, high = interval(logs, of=len(rows))
    normal = _log_ratios(_normal_rows(rows - middle, rng), rng)
    return IntrinsicDimension(_dimension(logs), low, high, _dimension(normal), len(rows), len(logs), len(whole))


def interval(logs: NDArray[np.float64], *, of: int) -> tuple[float, float]:
    """Return the 95 % interval of the dimension by the logarithms of the ratios, ascending, of some ``of`` rows.

    Of independent rows, the true dimension over the estimate is gamma distributed, with shape and rate m (Epstein &
    Sobel 1953); m is lowered by what neighbours share.
    """
    from scipy.stats import gamma

    shape, found = _counted(logs) / (1 + SHARED * len(logs) / of), _dimension(logs)
    low, high = gamma.ppf([0.025, 0.975], shape) / shape
    return float(found * low), float(found * high)


def _counted(logs: NDArray[np.float64]) -> int:
    return max(1, math.floor(KEPT * len(logs)))


def _dimension(logs: NDArray[np.float64]) -> float:
    """Return the estimate of greatest likelihood from logarithms of ratios in ascending order."""
    counted = _counted(logs)
    total = float(logs[:counted].sum() + (len(logs) - counted) * logs[counted - 1])
    return counted / total if total else math.inf


def _log_ratios(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the logarithms, ascending, of the distances of the second over the first neighbour of some rows [n, d].

    Neighbours are found in float32 about the mean, and the distances of the nearest four taken anew in float64.
    """
    small = rows.astype(np.float32)
    squares = np.square(small).sum(axis=1)
    queries = rng.choice(len(rows), min(QUERIES, len(rows)), replace=False)
    step, found = max(1, BLOCK // len(rows)), []
    for start in range(0, len(queries), step):
        asked = queries[start : start + step]
        distances = squares - 2 * (small[asked] @ small.T)
        distances[np.arange(len(asked)), asked] = np.inf
        near = np.argpartition(distances, 3, axis=1)[:, :4]
        exact = np.square(rows[near] - rows[asked][:, None]).sum(axis=2)
        first, second = np.sort(exact, axis=1)[:, :2].T
        found.append(0.5 * np.log(second / first))
    return np.sort(np.concatenate(found))


def _normal_rows(centred: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw as many normal rows [n, d] with the covariance of centred ones."""
    values, vectors = np.linalg.eigh(centred.T @ centred / (len(centred) - 1))
    spread = np.sqrt(np.clip(values, 0, None))
    drawn = rng.standard_normal(centred.shape)
    drawn *= spread
    return np.asarray(drawn @ vectors.T)
