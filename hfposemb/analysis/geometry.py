"""Geometry of a table: norms, spectrum, isotropy, and similarity by distance.

P is a table [n, d] with rows p_t; P̄ is P with its column means removed. All sums are accumulated in float64. Rows with
NaN or Inf are always left out, and zero rows are left out wherever a cosine is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..lazy_attributes import lazy_attribute
from ..tables.encoding_base import unit_rows
from ..tables.encodings import PositionEncoding, table_in
from ..tables.table import EmbeddingTable, all_rows
from ..tables.tabular import Columns, Facts, Tabular
from .row_values import frame_of
from .rows import (
    BLOCK_BYTES,
    LARGEST_BLOCK,
    LEAST_ROWS,
    MOST_SQUARE,
    directed,
    finite_blocks,
    fits_single,
    mean_row,
    norms,
    unit_sums,
)
from .wave_noise import wave_noise

SOLVED_WHOLE = 384
"""Side up to which all eigenvectors are computed, by numpy: to import scipy takes a tenth of a second."""


def leading_eigenvectors(matrix: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues [count], in descending order, and their eigenvectors as columns [side, count].

    Args:
        matrix: Symmetric matrix [side, side]; it may be overwritten.
        count: Number of eigenvalues; ``side`` of them if it is larger.

    Examples:
        >>> import numpy as np
        >>> from hfposemb.analysis.geometry import leading_eigenvectors
        >>> leading_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2)[0].tolist()
        [3.0, 2.0]
    """
    side = len(matrix)
    count = min(count, side)
    if side <= SOLVED_WHOLE:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    import scipy.linalg
    from threadpoolctl import threadpool_limits

    # One thread: scipy's BLAS has its own thread pool, whose idle threads would slow down numpy's before and after.
    with threadpool_limits(1):
        # The matrix is symmetric; its transpose has the memory order that LAPACK can overwrite without a copy.
        values, vectors = scipy.linalg.eigh(matrix.T, subset_by_index=(side - count, side - 1), overwrite_a=True)
    return values[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class Isotropy(Facts):
    """How evenly a table of ``rows`` finite rows and ``width`` columns fills its space.

    ``participation_ratio`` is (Σλ)² / Σλ², the effective number of components that carry the variance.
    """

    participation_ratio: float
    rows: int
    width: int

    @property
    def isoscore(self) -> float:
        """(participation ratio − 1) / (d − 1): 0 for a line, 1 for equal variance everywhere (Rudman et al. 2022).

        Raises:
            InputError: If the table has a single column, and so only one direction.
        """
        return self._isoscore_of(self.participation_ratio)

    @property
    def isoscore_of_noise(self) -> float:
        """The IsoScore of isotropic noise of the same shape, the null: a table with few rows never looks isotropic.

        The ratio of expectations (E Σλ)² / E Σλ² for a Wishart matrix with n − 1 degrees of freedom.
        """
        freedom, width = self.rows - 1, self.width
        return self._isoscore_of((freedom * width + 2) / (freedom + width + 1))

    def _isoscore_of(self, participation: float) -> float:
        if self.width < 2:
            raise InputError("IsoScore needs a table of width 2 or more; this one has width 1")
        return (participation - 1) / (self.width - 1)


@dataclass(frozen=True, eq=False)
class Scatter:
    """Scatter matrix of a table's finite rows about their mean.

    ``matrix`` is P̄ᵀP̄ [d, d], or P̄P̄ᵀ [n, n] if that is smaller (``dual``); both have the same nonzero eigenvalues.
    """

    mean: NDArray[np.float64]
    matrix: NDArray[np.float64]
    rows: int
    dual: bool

    @property
    def total(self) -> float:
        """The sum of all eigenvalues; 0 if all rows are equal up to rounding."""
        total = float(np.trace(self.matrix))
        return total if total > self.rows * float(self.mean @ self.mean) * 1e-28 else 0.0

    @property
    def isotropy(self) -> Isotropy:
        """Isotropy from the sum of the eigenvalues and of their squares, without computing the eigenvalues.

        Raises:
            InputError: If all rows are equal.
        """
        if not (total := self.total):
            raise InputError(f"all {self.rows:,} rows are the same, so there is no variance to explain")
        return Isotropy(total**2 / float(np.vdot(self.matrix, self.matrix)), self.rows, len(self.mean))


def scatter(
    value: EmbeddingTable | PositionEncoding,
    *,
    single: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Scatter:
    """Compute the scatter matrix of a table block by block.

    Args:
        value: Table or position encoding [n, d].
        single: Whether to use a single pass for tables with n ≥ d. Blocks are then centred and multiplied in the
            table's own precision, mostly float32, and still summed in float64: twice as fast, with entries accurate to
            1e-6 of their size. By default there are two passes in float64.
        progress: Callback for the share of rows read, 0 to 1, and the stage; used by the single pass only.

    Raises:
        InputError: If the table has fewer than two finite rows.
    """
    table = table_in(value)
    rows, width = int(table.finite.sum()), table.shape[1]
    if rows < 2:
        raise InputError(f"{table.name} has {rows} finite rows; the variance needs at least 2")
    if single and rows >= width:
        fits_single(table)
        return _scatter_in_one_pass(table, rows, progress)
    mean = mean_row(table)
    if rows < width:
        whole = np.concatenate([vectors - mean for _, vectors in finite_blocks(table)])
        return Scatter(mean, whole @ whole.T, rows, dual=True)
    matrix = np.zeros((width, width))
    for _, vectors in finite_blocks(table):
        block = vectors - mean
        matrix += block.T @ block
    return Scatter(mean, matrix, rows, dual=False)


def _scatter_in_one_pass(table: EmbeddingTable, rows: int, progress: Callable[[float, str], None] | None) -> Scatter:
    """Accumulate about the mean of the first block, then shift to the overall mean (Chan, Golub & LeVeque 1983)."""
    width = table.shape[1]
    matrix, total = np.zeros((width, width)), np.zeros(width)
    centre: NDArray[np.floating] = np.zeros(0)
    room = np.empty((0, width), table.dtype)  # buffer shared by all centred blocks
    # Adding two [d, d] matrices takes as long as multiplying d/8 rows, so a block has many more rows than that.
    least = min(max(2 * width, LEAST_ROWS), LARGEST_BLOCK // (4 * width))
    for numbers, vectors in finite_blocks(table, single=True, least=least):
        if not len(centre):
            centre = vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
        room = room if len(room) >= len(vectors) else np.empty(vectors.shape, vectors.dtype)
        block = np.subtract(vectors, centre, out=room[: len(vectors)])
        matrix += block.T @ block
        total += np.ones(len(block), block.dtype) @ block
        if progress is not None:
            progress(float(numbers[-1] + 1) / table.shape[0], "components")
    offset = total / rows
    matrix -= np.outer(rows * offset, offset)
    return Scatter(np.asarray(centre + offset, np.float64), matrix, rows, dual=False)


@dataclass(frozen=True, eq=False)
class Spectrum(Tabular):
    """Eigenvalues λ of P̄ᵀP̄ in descending order [min(n, d)].

    Attributes:
        eigenvalues: The eigenvalues [min(n, d)].
        rows: Number of finite rows.
        width: Number of columns.
        left_out: Number of rows left out because they are not finite.
    """

    eigenvalues: NDArray[np.float64]
    rows: int
    width: int
    left_out: int

    @lazy_attribute
    def ratio(self) -> NDArray[np.float64]:
        """The share of variance explained by each component."""
        return np.asarray(self.eigenvalues / self.eigenvalues.sum())

    @lazy_attribute
    def cumulative(self) -> NDArray[np.float64]:
        """The share of variance explained by the first components together."""
        return np.cumsum(self.ratio)

    def components_for(self, share: float) -> int:
        """Return how many components explain ``share`` of the variance. Raises ``InputError`` outside (0, 1]."""
        if not 0 < share <= 1:
            raise InputError(f"share must be above 0 and at most 1; got {share}")
        # The cumulative sum may end an ulp short of 1.
        return int(np.searchsorted(self.cumulative, share - 1e-12)) + 1

    @lazy_attribute
    def effective_rank(self) -> float:
        """The effective rank exp H(σ/Σσ), with σ the singular values of P̄ (Roy & Vetterli 2007)."""
        singular = np.sqrt(self.eigenvalues[self.eigenvalues > 0])
        share = singular / singular.sum()
        return float(np.exp(-(share * np.log(share)).sum()))

    @lazy_attribute
    def participation_ratio(self) -> float:
        """(Σλ)² / Σλ²: the effective number of components that carry the variance."""
        return float(1.0 / (self.ratio**2).sum())

    @property
    def isotropy(self) -> Isotropy:
        """How evenly the table fills its space."""
        return Isotropy(self.participation_ratio, self.rows, self.width)

    @property
    def isoscore(self) -> float:
        """IsoScore; see ``Isotropy.isoscore``."""
        return self.isotropy.isoscore

    @property
    def isoscore_of_noise(self) -> float:
        """IsoScore of noise of the same shape; see ``Isotropy.isoscore_of_noise``."""
        return self.isotropy.isoscore_of_noise

    def columns(self) -> Columns:
        """Return one row per component.

        ``component`` from 1, ``eigenvalue``, and the share of variance that it explains, ``ratio``, and that all up to
        it explain, ``cumulative``.
        """
        return {
            "component": np.arange(1, len(self.eigenvalues) + 1),
            "eigenvalue": self.eigenvalues,
            "ratio": self.ratio,
            "cumulative": self.cumulative,
        }


def spectrum(value: EmbeddingTable | PositionEncoding) -> Spectrum:
    """Compute the exact spectrum of a table block by block.

    Raises:
        InputError: If the table has fewer than two finite rows, or all rows are equal.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import spectrum
        >>> spectrum(hpe.sinusoidal(64, 16).position).components_for(0.9)
        6
    """
    table = table_in(value)
    found = scatter(table)
    if not found.total:
        raise InputError(f"all {found.rows:,} rows of {table.name} are the same, so there is no variance to explain")
    eigenvalues = np.array(np.linalg.eigvalsh(found.matrix)[::-1], np.float64)
    # Directions without variance leave only rounding error, which the square root in σ would magnify.
    eigenvalues[eigenvalues < eigenvalues[0] * max(table.shape) * np.finfo(float).eps] = 0
    return Spectrum(eigenvalues, found.rows, table.shape[1], table.shape[0] - found.rows)


@dataclass(frozen=True, eq=False)
class _Diagonals:
    """Sums over the diagonals of a Gram matrix: pairs and sum of products per distance, and sum of all squares."""

    pairs: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: float


_summed: WeakKeyDictionary[EmbeddingTable, dict[tuple[bool, bool], _Diagonals]] = WeakKeyDictionary()


def _diagonals(table: EmbeddingTable, *, unit: bool, single: bool) -> _Diagonals:
    """Return the sums over the diagonals of P Pᵀ, or of the cosines; computed once per table."""
    kept = _summed.setdefault(table, {})
    if (unit, single) not in kept:
        kept[unit, single] = _summed_diagonals(table, unit=unit, single=single)
    return kept[unit, single]


def _summed_diagonals(table: EmbeddingTable, *, unit: bool, single: bool) -> _Diagonals:
    rows = table.shape[0]
    keep = directed(table) if unit else table.finite
    if not keep.any():
        raise InputError(f"{table.name} has no finite{' nonzero' if unit else ''} row")
    scale = np.where(keep, norms(table) if unit else 1.0, 1.0)
    whole = np.zeros((rows, table.shape[1]), np.float32 if single else np.float64)
    for found, vectors in finite_blocks(table):
        whole[found] = vectors / scale[found, None]
    length = 1 << (2 * rows - 1).bit_length()
    present = np.abs(np.fft.rfft(keep.astype(float), length)) ** 2
    pairs = np.rint(np.fft.irfft(present, length)[:rows])
    if rows <= min(2 * table.shape[1], MOST_SQUARE):
        matrix = np.zeros((rows, 2 * rows), whole.dtype)
        np.matmul(whole, whole.T, out=matrix[:, :rows])
        # Row t is read from column t on: entry [t, k] is the product of rows t and t + k, or padding.
        skewed = np.lib.stride_tricks.as_strided(
            matrix, (rows, rows), (matrix.strides[0] + matrix.strides[1], matrix.strides[1]), writeable=False
        )
        squares = sum(float(np.vdot(row, row)) for row in matrix[:, :rows])
        return _Diagonals(pairs, skewed.sum(axis=0, dtype=np.float64), squares)
    # Longer tables use the autocorrelation of the columns, which needs no [n, n] matrix.
    gram, power = whole.T @ whole, np.zeros(length // 2 + 1)
    step = max(1, BLOCK_BYTES // (16 * length))
    for start in range(0, table.shape[1], step):
        power += (np.abs(np.fft.rfft(whole[:, start : start + step], length, axis=0)) ** 2).sum(axis=1)
    return _Diagonals(pairs, np.fft.irfft(power, length)[:rows], float(np.vdot(gram, gram)))


def similarity_by_distance(
    value: EmbeddingTable | PositionEncoding, *, longest: int | None = None, single: bool = False
) -> NDArray[np.float64]:
    """Return the mean over t of cos(p_t, p_{t+k}) for k = 0 … ``longest``.

    Args:
        value: Table or position encoding [n, d].
        longest: Largest distance, in rows; by default n − 1.
        single: Whether to multiply in float32, which is accurate to six digits and takes half the time.

    Returns:
        Mean cosines [longest + 1]; NaN at distances at which no pair of rows has a direction.

    Raises:
        InputError: If ``longest`` exceeds the table, or no row has a direction.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import similarity_by_distance
        >>> similarity_by_distance(hpe.sinusoidal(64, 16).position, longest=3).round(3).tolist()
        [1.0, 0.936, 0.796, 0.693]
    """
    table = table_in(value)
    last = table.shape[0] - 1
    if longest is not None and not 0 <= longest <= last:
        raise InputError(f"{table.name} has distances 0 to {last:,}; got longest={longest:,}")
    sums = _diagonals(table, unit=True, single=single)
    means = np.divide(sums.sums, sums.pairs, out=np.full(last + 1, np.nan), where=sums.pairs > 0)
    return np.asarray(np.clip(means, -1, 1)[: None if longest is None else longest + 1], np.float64)


def translation_invariance(
    value: EmbeddingTable | PositionEncoding,
    *,
    on: Literal["cosine", "inner product"] = "cosine",
    single: bool = False,
) -> float:
    """Return the share of the variance between pairs of rows that their distance alone explains.

    1 − Σ(M_ij − mean of its diagonal)² / Σ(M_ij − M̄)² over i ≠ j: 1 for the sinusoid, near 0 for noise. The property
    is from Wang et al., ICLR 2021; measuring it as the R² of a Toeplitz matrix follows TISA (Wennberg & Henter 2021).
    The main diagonal is left out because noise would score .43 with it.

    Args:
        value: Table or position encoding [n, d].
        on: What M holds: cosines or inner products.
        single: Whether to multiply in float32, which is accurate to six digits.

    Raises:
        InputError: If there are fewer than three rows, or all pairs are equally similar.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import translation_invariance
        >>> round(translation_invariance(hpe.sinusoidal(64, 16).position), 3)
        1.0
    """
    table = table_in(value)
    if on not in ("cosine", "inner product"):
        raise InputError(f'on must be "cosine" or "inner product"; got {on!r}')
    found = _diagonals(table, unit=on == "cosine", single=single)
    pairs, sums = found.pairs[1:], found.sums[1:]
    # Half the sum of all squares outside the main diagonal, i.e. that of one triangle.
    diagonal = float(found.pairs[0]) if on == "cosine" else float(np.nansum(norms(table) ** 4))
    squares = (found.squares - diagonal) / 2
    count = float(pairs.sum())
    if count < 3:
        raise InputError(f"{table.name} has too few rows; translation invariance needs at least 3")
    overall = count * (float(sums.sum()) / count) ** 2
    if squares - overall <= 1e-12 * squares:
        raise InputError(f"all pairs of rows of {table.name} are equally similar: there is no variance to explain")
    explained = float(np.divide(sums**2, pairs, out=np.zeros_like(sums), where=pairs > 0).sum())
    return min(1.0, (explained - overall) / (squares - overall))


def difference_by_place(encoding: PositionEncoding, distance: int, *, length: int = 128) -> float:
    """Return how much the value of two positions at a given distance varies with their place, as maximum − minimum.

    The result is 0 where distance alone matters, as for ALiBi, relative biases and rotary positions.

    Args:
        encoding: Position encoding.
        distance: Distance of query and key, the query after the key.
        length: Number of positions examined, from the first; fewer if the table has fewer.

    Returns:
        The difference in the encoding's own unit.

    Raises:
        InputError: If fewer than two pairs are that far apart, or as ``encoding.matrix`` raises.
    """
    most = length if not encoding.has_table else min(length, encoding.table.shape[0])
    values = np.diagonal(encoding.matrix(most), -distance) if 0 < distance < most else np.empty(0)
    known = values[np.isfinite(values)]
    if len(known) < 2:
        raise InputError(f"{len(known)} pairs of the {most} positions are {distance} apart; at least 2 are needed")
    return float(known.max() - known.min())


_anisotropies: WeakKeyDictionary[EmbeddingTable, float] = WeakKeyDictionary()


def anisotropy(value: EmbeddingTable | PositionEncoding) -> float:
    """Return the mean cosine of two different rows: (‖Σ û‖² − n) / (n(n − 1)), with û the unit rows.

    Exact, where Ethayarajh (2019) samples pairs; 0 for noise.

    Raises:
        InputError: If fewer than two rows have a direction.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.geometry import anisotropy
        >>> round(anisotropy(hpe.sinusoidal(64, 16).position), 3)
        0.577
    """
    table = table_in(value)
    if table not in _anisotropies:
        rows = table.shape[0] - len(frame_of(table, "cosine").absent("cosine"))
        if rows < 2:
            raise InputError(f"{table.name} has {rows} finite nonzero rows; a cosine needs 2")
        total = unit_sums[table]
        _anisotropies[table] = float((total @ total - rows) / (rows * (rows - 1)))
    return _anisotropies[table]


def monotonicity(value: EmbeddingTable | PositionEncoding, *, longest: int = 128, single: bool = False) -> float:
    """Return how often similarity falls with distance: 1 if it always falls, .5 for noise.

    The share of triples (t, m > n) with cos(p_t, p_{t+m}) < cos(p_t, p_{t+n}), m ≤ ``longest``; the property is from
    Wang et al., ICLR 2021.

    Args:
        value: Table or position encoding [n, d].
        longest: Largest distance m. GPT-2's table falls all the way up to 128 and not beyond, so the result depends on
            it.
        single: Whether to compare in float32.

    Raises:
        InputError: If no triple of rows with a direction is left.
    """
    table = table_in(value)
    last = table.shape[0] - 1
    reach = min(longest, last)
    if longest < 2:
        raise InputError(f"monotonicity compares two distances, so longest must be at least 2; got {longest}")
    whole = unit_rows(all_rows(table))
    whole = whole.astype(np.float32) if single else whole
    falling = triples = 0
    step = max(1, min(reach, BLOCK_BYTES // (16 * max(1, reach))))
    for start in range(0, last, step):
        stop = min(start + step, last)
        ahead = whole[start + 1 : stop + reach]
        cosines = np.full((stop - start, stop - start + reach - 1), np.nan, whole.dtype)
        cosines[:, : len(ahead)] = whole[start:stop] @ ahead.T
        # Entry [t, m − 1] is the cosine with the row m later; NaN beyond the table or for rows without a direction.
        band = np.lib.stride_tricks.sliding_window_view(cosines, reach, axis=1)[
            range(stop - start), range(stop - start)
        ]
        counts = np.isfinite(band).sum(axis=1)
        triples += int((counts * (counts - 1) // 2).sum())
        for near in range(reach - 1):
            falling += int(np.count_nonzero(band[:, near + 1 :] < band[:, near : near + 1]))
    if not triples:
        raise InputError(f"{table.name} has no three nonzero rows within {longest} positions; monotonicity needs 3")
    return falling / triples


SLOW_WAVES = 8
"""Number of the longest periods that count as slow trends: n to n / 8."""


@dataclass(frozen=True, eq=False)
class Waves(Tabular):
    """Strength of the waves of each period in a table's columns, as multiples of the mean over periods.

    Attributes:
        periods: Periods n, n / 2, n / 3 … in positions [m].
        strength: Their entries of ``wave_spectrum``, relative to the mean [m].
        low: Lower end of the 95 % interval of one period in noise.
        high: Upper end of that interval.
        strongest: Period of the strongest wave, if it is stronger than noise; else ``None``.
        peak: The same, if it also stands out from the periods beside it; else ``None``, as for random walks and other
            smooth curves without a wave of their own.
        trend: Whether the strongest wave does not stand out and is slow: an eighth of the positions or more.
    """

    periods: NDArray[np.float64]
    strength: NDArray[np.float64]
    low: float
    high: float
    strongest: float | None
    peak: float | None
    trend: bool

    def columns(self) -> Columns:
        """Return one row per period: ``period`` in positions and ``strength``, relative to the mean over periods."""
        return {"period": self.periods, "strength": self.strength}


def strength_by_period(value: EmbeddingTable | PositionEncoding) -> Waves:
    """Return the strength of a table's waves by period, with the interval expected of noise.

    In Gaussian noise each magnitude is Rayleigh distributed, so the mean over d columns has a standard deviation of
    √(4/π − 1) / √d of its mean; wide or dependent columns count as fewer (``wave_noise``). The interval covers 95 %; a
    peak exceeds the 99.5 % quantile of the strongest of as many periods of noise. It also exceeds the geometric mean of
    the two periods beside it, by more than the 99 % quantile of the largest such excess in noise.

    Raises:
        InputError: If there are fewer than 8 rows, or all rows are equal.
    """
    table = table_in(value)
    count = table.shape[0]
    coefficients = _coefficients(table)[1:]
    found = np.abs(coefficients).mean(axis=1)
    mean = float(found.mean()) if len(found) else 0.0
    if count < 8 or mean <= 1e-12 * float(np.nanmax(norms(table), initial=0.0)):
        raise InputError(f"{table.name} has {count:,} rows; a spectrum needs at least 8, not all equal")
    noise = wave_noise(coefficients)
    strength = found / mean
    top = int(strength.argmax())
    periods = count / np.arange(1, len(found) + 1)
    heard = bool(strength[top] > noise.quantile(1 - 0.005 / len(found)))
    stands_out = False
    if heard and top > 0:
        beside = strength[[top - 1, *([top + 1] if top + 1 < len(found) else [])]]
        excess = np.log(strength[top]) - np.log(np.maximum(beside, 1e-12)).mean()
        stands_out = bool(excess > noise.excess(1 - 0.01 / len(found), beside=len(beside)))
    strongest = float(periods[top]) if heard else None
    trend = heard and not stands_out and top < SLOW_WAVES
    return Waves(periods, strength, *noise.interval, strongest, strongest if stands_out else None, trend)


def wave_spectrum(value: EmbeddingTable | PositionEncoding) -> NDArray[np.float64]:
    """Return the mean DFT magnitude over P̄'s columns [n // 2 + 1] (Yamamoto & Matsuzaki, EMNLP 2023).

    Entry k belongs to waves of period n / k; entry 0 is 0. Rows that are not finite count as the mean.

    Raises:
        InputError: If no row is finite.
    """
    return np.asarray(np.abs(_coefficients(table_in(value))).mean(axis=1), np.float64)


def _coefficients(table: EmbeddingTable) -> NDArray[np.complex128]:
    """Return the DFT of the columns about their means [n // 2 + 1, d]."""
    mean = mean_row(table)
    whole = np.zeros(table.shape)
    for rows, vectors in finite_blocks(table):
        whole[rows] = vectors - mean
    return np.fft.rfft(whole, axis=0)
