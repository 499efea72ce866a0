"""Test of two position tables that keeps what smoothness fixes, also where it changes along the table.

Two curves are alike because both are smooth, or because both slow down in the same place, whatever they encode. The
rows of each table are scaled to unit length about their spatial median, and their squared distances are fitted for each
lag by a polynomial of the place: a local variogram (Matheron 1963; Haas 1990). Only what it leaves over is compared.
Tables of independent columns with such a variogram leave over residuals that are unrelated, however wide they are;
copies leave over the same. Whether the variogram fits is checked first (``Residuals.misfit``).
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ...errors import InputError
from ...tables.null_comparison import LEVEL
from ...text import number, percent
from .surrogates import Rows

PARTS = 8
"""Parts of a table in which the misfit is judged, and of which profiles are given."""

MOST_ROWS = 512
"""Maximum number of rows that are compared; longer tables are thinned evenly."""

FEWEST = 2 * PARTS
"""Minimum number of rows that are compared."""

SHORT, DEGREE, DEGREE_OF_SHORT = 100, 4, 6
"""Degree of the polynomial of the place for each lag: enough for profiles with two turning points, and for trends.

Tables of fewer than ``SHORT`` rows have a higher one, since there a misfit is seen less well.
"""

FITS, CHECKS = 3, 32
"""Numbers of made tables from which the effective number of columns is estimated, and the misfit is judged."""

MOST_MISFIT, MOST_EXCESS, MOST_WAVE = (3.6, 3.5), 3.0, 2.5
"""Largest ``misfit``, of size and of mean, ``excess`` and ``wave`` with which a table is compared."""

FEWEST_RESIDUALS, FEWEST_ROWS, FEWEST_COLUMNS = 8.0, 3.5, 12.0
"""Smallest ``freedom``, ``effective`` and ``columns`` with which a table is compared."""

ROUNDING, FORMULA = 1e-5, 50.0
"""Root mean square of residuals of squared distances, up to 4, below which they are those of rounding; and ``columns``
relative to ``width`` above which a table follows a formula.

What little the slow waves of two formulas leave over is alike, as of two sinusoids of unequal bases.
"""

REPEATS, AS_ALIKE = 0.02, 0.4
"""Level, for all periods together, at which the product of two tables lies above chance when one is shifted by a period
and its multiples, and its size relative to the product in place, from which what they share is that period.

Independent tables hardly reach the first, and copies hardly the second, smooth as they may be along the way.
"""

ALIKE, VARIES = 0.9, 2.0
"""Correlation, and largest value relative to the smallest, from which profiles are called alike."""


class Lags:
    """All pairs of n rows, sorted by lag, with polynomials of the place, orthonormal over the known pairs of each lag.

    Values of pairs are arrays [lags, n] whose row h has the n − h − 1 pairs (s, s + h + 1), and then zeros. Those of
    ``missing`` rows are zeros too, except for what is fitted.
    """

    def __init__(self, count: int, missing: tuple[int, ...] = ()) -> None:
        lag, place = np.arange(1, count)[:, None], np.arange(count)
        self.count, exists = count, place + lag < count
        there = ~np.isin(place, missing)
        self.known = exists & there & there[np.minimum(place + lag, count - 1)]
        lags, self.first = np.nonzero(exists)
        self.second, self._exists = self.first + lags + 1, exists
        centre = np.where(exists, (2 * place + 1) / (count - lag) - 1, 0.0)
        before, norm = np.zeros(exists.shape), np.zeros((count - 1, 1))
        found = [exists / np.sqrt(np.maximum(self.known.sum(axis=1, keepdims=True), 1))]
        for _ in range(DEGREE_OF_SHORT if count < SHORT else DEGREE):
            middle = (centre * np.square(found[-1]) * self.known).sum(axis=1, keepdims=True)
            rest = np.where(exists, (centre - middle) * found[-1] - norm * before, 0)
            norm, before = np.sqrt((np.square(rest) * self.known).sum(axis=1, keepdims=True)), found[-1]
            found.append(np.divide(rest, norm, out=np.zeros_like(rest), where=norm > 1e-9))
        each = np.ascontiguousarray(np.stack(found, axis=1))
        self._polynomials: dict[int, Any] = {8: each, 4: each.astype(np.float32)}  # by the size of a number

    def distances(self, cosines: Any) -> Any:
        """Return the squared distances of all known pairs of rows of unit length, from their cosines [n, n]."""
        size, step = cosines.itemsize, (self.count + 1) * cosines.itemsize
        padded = np.zeros((self.count + 1) * self.count, cosines.dtype)
        padded[: cosines.size] = cosines.ravel()
        by_lag = as_strided(padded[1:], self.known.shape, (size, step), writeable=False)
        return np.where(self.known, 2 - 2 * by_lag, 0)

    def fit(self, values: Any) -> Any:
        """Return the polynomials that fit the values of each lag best."""
        polynomials = self._polynomials[values.itemsize]
        terms = np.matmul(polynomials, values[:, :, None])
        return np.matmul(terms.transpose(0, 2, 1), polynomials)[:, 0]

    def matrix(self, values: Rows) -> Rows:
        """Return the values of the pairs as a symmetric matrix [n, n], with a diagonal of 0."""
        found = np.zeros((self.count, self.count))
        found[self.first, self.second] = values[self._exists]
        return found + found.T


lags_of = lru_cache(maxsize=4)(Lags)


def directions(rows: Rows, *, steps: int = 30) -> tuple[Rows, Rows]:
    """Return the distance of each row [n, d] from their spatial median (Weiszfeld 1937), and the unit vector to it."""
    middle = rows.mean(axis=0)
    tiny = 1e-9 * max(float(np.linalg.norm(rows - middle)), 1e-300)
    for _ in range(steps):
        weights = 1 / np.maximum(np.linalg.norm(rows - middle, axis=1), tiny)
        middle = weights @ rows / weights.sum()
    centred = rows - middle
    lengths = np.linalg.norm(centred, axis=1)
    return lengths, centred / np.maximum(lengths, tiny)[:, None]


class Residuals:
    """What the local variogram of a table leaves over, and whether tables with that variogram leave over as much.

    The mean of a table, which is subtracted, itself deviates from that of the process; what this leaves over by itself
    depends on the kernel alone and is shared by tables of the same kernel, so it is subtracted as well.

    Args:
        rows: Rows [n, d], without those of outlying norm.
        places: Place of each row, ascending from 0 [n].
        seed: Random seed of the made tables.

    Attributes:
        residual: Squared distances less the variogram, per pair of rows (see ``Lags``).
        effective: Effective number of independent rows, (Σλ)² / Σλ² over the eigenvalues λ of the kernel.
        width: Number of columns.
        columns: Effective number of independent columns: that of made tables which leave over as much.
        freedom: Effective number of independent residuals.
        misfit: How far what is left over in a part of the table, at lags of 1, 2, 4, … rows, lies from that of made
            tables, in standard deviations: the most that its size lies above, and its mean on either side. Large where
            smoothness changes abruptly.
        where: For both, the part, 0 to 7, and the lag.
        rms: Root mean square of the residuals.
        wave: Largest distance from the spatial median relative to the smallest, of 16 parts, about a polynomial of the
            place. Where it is large, the middle is too uncertain for the short rows.
        size: Norm of the squared distances about their mean.
        profiles: Distance from the spatial median, and squared step over a 64th of the rows, of the 8 parts [2, 8].
        excess: Largest variance of the squared steps over 1, 2, 4, … rows about the variogram, relative to that of as
            many independent columns as the directions of steps that are far apart amount to. Large where the table
            changes in more places than the variogram follows.

    Raises:
        InputError: If all rows are equal, or there are fewer than ``FEWEST``.
    """

    def __init__(self, rows: Rows, places: NDArray[np.int64], *, seed: int) -> None:
        if not np.ptp(rows, axis=0).any():
            raise InputError("all rows of a table are equal, so it has no variogram")
        if len(rows) < FEWEST:
            raise InputError(f"{len(rows)} rows are left to compare, and a test needs at least {FEWEST}")
        count = int(places[-1]) + 1
        self.lags = lags_of(count, tuple(np.setdiff1d(np.arange(count), places).tolist()))
        self.rng, self.width = np.random.default_rng(seed), rows.shape[1]
        lengths, unit = directions(rows)
        known, cosines = np.ix_(places, places), np.zeros((count, count))
        cosines[known] = unit @ unit.T
        distances = self.lags.distances(cosines)
        variogram = self.lags.fit(distances)
        root = _root(1 - 0.5 * self.lags.matrix(variogram)[known])
        self._root = np.zeros((count, root.shape[1]))
        self._root[places] = root
        self.kernel = self._root @ self._root.T
        cosines[known] = _centred(self.kernel[known])
        by_centring = self.lags.distances(cosines)
        by_centring -= self.lags.fit(by_centring)
        self.residual = np.where(self.lags.known, distances - variogram - by_centring, 0)
        self.rms = float(np.sqrt(np.square(self.residual).sum() / self.lags.known.sum()))
        spectrum = np.square(np.linalg.norm(self._root, axis=0))
        self.effective = float(spectrum.sum() ** 2 / np.square(spectrum).sum())
        energy = float(np.square(self.residual).sum())
        self.columns = np.mean([48 * np.square(self._made(48)[0]).sum() for _ in range(FITS)]) / energy
        self._check(unit, variogram, energy)
        self.size = float(np.std(distances[self.lags.known]) * np.sqrt(self.lags.known.sum()))
        self.profiles, self.wave = _profiles(lengths, unit), _wave(lengths)

    def _made(self, columns: int) -> tuple[Rows, Rows]:
        """Return the residual and the variogram of a made table with the kernel of this one."""
        root = self._root.astype(np.float32)
        rows = root @ self.rng.standard_normal((root.shape[1], columns), np.float32)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
        distances = self.lags.distances(rows @ rows.T)
        variogram = self.lags.fit(distances)
        return np.where(self.lags.known, distances - variogram, 0), variogram

    def _check(self, unit: Rows, variogram: Rows, energy: float) -> None:
        columns = int(np.clip(round(self.columns), 2, 256))
        energies, parts = [], []
        for _ in range(CHECKS):
            residual, fitted = self._made(columns)
            energies.append(columns * np.square(residual).sum())
            parts.append(self._parts(residual, fitted))
        self.columns = float(np.mean(energies) / energy)
        self.freedom = float(2 * np.mean(energies) ** 2 / np.var(energies, ddof=1))
        made, found = np.array(parts), self._parts(self.residual, variogram)
        spread = np.sqrt(made.var(axis=0, ddof=1).mean(axis=-1, keepdims=True))
        size, mean = (found - made.mean(axis=0)) / spread
        worst = [np.unravel_index(np.argmax(one), one.shape) for one in (size, np.abs(mean))]
        self.misfit = float(size[worst[0]]), float(np.abs(mean[worst[1]]))
        self.where = tuple((int(part), 2 ** int(band)) for band, part in worst)
        expected = columns * np.exp(made[:, 0]).mean(axis=(0, 2)) / _columns_of_steps(unit, len(size))
        self.excess = float((np.exp(found[0]).mean(axis=1) / expected).max())

    def _parts(self, residual: Rows, variogram: Rows) -> Rows:
        """Return log mean square and mean of the relative residual by lag, in powers of two, and part [2, lags, 8]."""
        relative = residual / np.maximum(variogram, 1e-3 * variogram.max())
        count, found, lag = self.lags.count, [], 1
        while 4 * lag <= count:
            band = relative[lag - 1 : 2 * lag - 1, : count - 2 * lag + 1]
            found.append(_means(np.stack([np.square(band).sum(axis=0), band.sum(axis=0)]), PARTS))
            lag *= 2
        both = np.array(found).transpose(1, 0, 2)
        return np.stack([np.log(np.maximum(both[0], 1e-30)), both[1]])

    def draw(self, other: Residuals, *, draws: int) -> Rows:
        """Return Σ over pairs of this table's residual × the ``other``'s [draws], with this one made anew.

        To first order in the deviation from its kernel, the sum is a quadratic form of a made table: a mixture of χ²,
        drawn without making the table.
        """
        form = -self.lags.matrix(other.residual)
        np.fill_diagonal(form, -(form * self.kernel).sum(axis=1))  # as lengths are scaled to 1
        weights = np.linalg.eigvalsh(self._root.T @ form @ self._root)
        columns = max(1.0, self.columns)
        return np.asarray(2 / columns * self.rng.standard_gamma(columns / 2, (draws, len(weights))) @ weights)


def _root(kernel: Rows) -> Rows:
    """Return R [n, m] with R Rᵀ the nearest covariance of unit variances."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-9 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    return np.asarray(root / np.linalg.norm(root, axis=1, keepdims=True))


def _centred(kernel: Rows, *, steps: int = 30) -> Rows:
    """Return the expected cosines of rows with a kernel about their spatial median."""
    weights = np.full(len(kernel), 1 / len(kernel))
    for _ in range(steps):
        along = kernel @ weights
        lengths = np.sqrt(np.maximum(np.diag(kernel) - 2 * along + weights @ along, 1e-12))
        weights = 1 / lengths / (1 / lengths).sum()
    along = kernel @ weights
    centred = kernel - along - along[:, None] + weights @ along
    lengths = np.sqrt(np.maximum(np.diag(centred), 1e-12))
    return np.asarray(centred / lengths / lengths[:, None])


def _means(values: Rows, parts: int) -> Rows:
    """Return the mean of each of so many parts [..., parts] of values [..., n], of nearly the same length."""
    least, longer = divmod(values.shape[-1], parts)
    place = np.arange(parts + 1)
    cuts = place * least + np.minimum(place, longer)
    return np.asarray(np.add.reduceat(values, cuts[:-1], axis=-1) / (cuts[1:] - cuts[:-1]))


def _profiles(lengths: Rows, unit: Rows) -> Rows:
    lag = max(1, len(unit) // 64)
    steps = np.square(unit[lag:] - unit[:-lag]).sum(axis=1)
    return np.stack([_means(values, PARTS) for values in (lengths, steps)])


def _wave(lengths: Rows) -> float:
    means = np.log(np.maximum(_means(lengths, 2 * PARTS), 1e-300))
    places = np.linspace(-1, 1, len(means))
    return float(np.exp(np.ptp(means - np.polyval(np.polyfit(places, means, DEGREE), places))))


def _columns_of_steps(unit: Rows, lags: int) -> Rows:
    """Return the effective number of columns of the steps over 1, 2, 4, … rows: 1 / mean squared cosine of far ones."""
    found = []
    for lag in 2 ** np.arange(lags):
        steps = unit[lag:] - unit[:-lag]
        steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
        far = len(unit) // 4
        squares = np.square(steps @ steps.T)
        found.append(1 / max(float(np.triu(squares, far).sum() / np.triu(np.ones_like(squares), far).sum()), 1e-9))
    return np.array(found)


def compare(left: Residuals, right: Residuals, *, draws: int) -> tuple[float, Rows]:
    """Return the product of the residuals of two tables, and what it is with one of them made anew [draws].

    Either table can be made anew; the one of more large draws counts, so the test holds if one of the two variograms
    does.
    """
    observed = float(np.vdot(left.residual, right.residual))
    drawn = left.draw(right, draws=draws), right.draw(left, draws=draws)
    return observed, max(drawn, key=lambda values: ((values >= observed).sum(), values.std()))


def why_repeating(left: Residuals, right: Residuals, product: float, drawn: Rows) -> str:
    """Return why a product beyond chance is no agreement, as both tables repeat with one period; "" if it may be one.

    The variogram of a grid of patches, or of segments of one length, varies with the place within a period, which no
    polynomial follows. What two such tables share by it they share after a shift by the period too, as copies do not.

    Args:
        left: The first table.
        right: The second table.
        product: Their product.
        drawn: What it is by chance, from ``compare``.
    """
    if product < np.quantile(drawn, 1 - LEVEL):
        return ""
    count = min(left.lags.count, right.lags.count)
    first, second = (np.fft.rfft(table.residual[: count - 1, :count], 2 * count) for table in (left, right))
    shifted = np.fft.irfft((first.conj() * second).sum(axis=0), 2 * count)
    both, weights = shifted[:count] + shifted[-np.arange(count)], 2 - 2 * np.arange(count) / count
    periods = range(max(3, count // (2 * PARTS)), count // 2 + 1)
    found = [(both[one : count // 2 + 1 : one].sum(), weights[one : count // 2 + 1 : one].sum()) for one in periods]
    best = max(range(len(found)), key=lambda place: found[place][0] / np.sqrt(found[place][1]))
    total, weight = map(float, found[best])
    least = NormalDist().inv_cdf(1 - REPEATS / len(found)) * float(drawn.std())
    if total < least * np.sqrt(weight) or total < AS_ALIKE * weight * product:
        return ""
    return (
        f"both tables repeat about every {periods[best]} positions, as patches of an image do: shifted by that and its "
        f"multiples they have {percent(total / weight / product)} of what they share in place"
    )


def least_found(left: Residuals, right: Residuals, drawn: Rows) -> float:
    """Return the share of a table that a rotated copy of the other has to make up to be found in 4 of 5 cases.

    A copy adds its share of the squared residuals to the product. This has to lift the tenth percentile of what is
    drawn above the 95th: the tenth rather than the twentieth, as the residuals of a copy vary too.

    Args:
        left: The first table.
        right: The second table.
        drawn: What the product is by chance, from ``compare``.

    Returns:
        The share of the squared length about the mean, for the table that leaves over less; above 1 if a whole copy may
        be missed.
    """
    low, high = np.quantile(drawn, [0.1, 0.95])
    return float((high - low) / min(np.square(table.residual).sum() for table in (left, right)))


def power_note(share: float) -> str:
    """Say how large a copy the test finds (``least_found``)."""
    if share >= 1:
        return "how much of a rotated copy this test would find cannot be told"
    return f"this test alone finds a rotated copy that makes up {percent(share)} of the other table in 4 of 5 cases"


def why_untestable(left: Residuals, right: Residuals) -> str:
    """Return why two tables are not compared with chance; "" if they are."""
    why = [_why_untestable(table) for table in (left, right)]
    if not any(why) and all(table.columns > FORMULA * table.width for table in (left, right)):
        return "each table follows a formula, and two formulas leave over the same, however little"
    if all(why):
        return f"the first table {why[0]}" if why[0] != why[1] else f"each table {why[0]}"
    return next((f"the {name} table {one}" for name, one in zip(("first", "second"), why, strict=True) if one), "")


def _why_untestable(table: Residuals) -> str:
    """Return what is wrong with a table, as what follows "the table"."""
    if table.rms < ROUNDING:
        return "follows a formula to the last digit, so that nothing is left over to compare"
    if table.effective < FEWEST_ROWS:
        return f"is too smooth for its length ({table.effective:.1f} independent rows; {FEWEST_ROWS:g} are needed)"
    if table.freedom < FEWEST_RESIDUALS:
        return (
            f"is too smooth for its length ({table.freedom:.1f} independent residuals of its variogram; "
            f"{FEWEST_RESIDUALS:g} are needed)"
        )
    if table.columns < FEWEST_COLUMNS:
        return f"varies in too few directions ({table.columns:.1f} independent columns; {FEWEST_COLUMNS:g} are needed)"
    for misfit, most, (part, lag) in zip(table.misfit, MOST_MISFIT, table.where, strict=True):
        if misfit > most:
            return (
                f"changes its smoothness abruptly (part {part + 1} of {PARTS}, at steps of {lag:,}, lies {misfit:.1f} "
                f"standard deviations off a local variogram; {most:.1f} are allowed)"
            )
    if table.wave > MOST_WAVE:
        return (
            f"changes its distance from the middle too often ({table.wave:.1f}-fold beside the slow trend; "
            f"{MOST_WAVE:g}-fold is allowed)"
        )
    if table.excess > MOST_EXCESS:
        return (
            f"changes its smoothness in too many places (squared steps vary {table.excess:.1f} times as much as their "
            f"directions explain; {MOST_EXCESS:g} times are allowed)"
        )
    return ""


def profile_note(left: Residuals, right: Residuals) -> tuple[str, dict[str, float]]:
    """Say how two profiles vary along two tables, with the correlation, of logarithms, of those that are alike."""
    said, alike = [], {}
    for name, *both in zip(("distance from the middle", "squared step"), left.profiles, right.profiles, strict=True):
        folds = [float(values.max() / max(values.min(), 1e-300)) for values in both]
        logs = [np.log(np.maximum(values, 1e-300)) for values in both]
        related = float(np.corrcoef(*logs)[0, 1]) if min(float(values.std()) for values in logs) > 0 else 0.0
        if related >= ALIKE and min(folds) >= VARIES:
            alike[name] = related
        first, second = (number(fold, digits=1) for fold in folds)
        how = f"{first}- and {second}-fold (correlation {number(related, digits=2)})"
        said.append(f"the {name} varies {how}")
    return f"along the tables, in {PARTS} parts, {' and '.join(said)}", alike
