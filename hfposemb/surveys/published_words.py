"""Published findings about words, measured again on a table of tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import anisotropy, spectrum
from ..analysis.rows import directed, mean_row, norms
from ..analysis.similarity.nearest_rows import neighbours
from ..analysis.similarity.row_pairs import pair_similarities
from ..analysis.tokens.word_sets import WORD_SETS, rows_of_set, turn
from ..errors import InputError
from ..tables.encoding_base import unit_rows
from .claims import Measured, Models

NUMBERS = range(10, 100)
"""Numbers whose rows are compared: all of two digits, so that decades have ten each."""

SHUFFLES = 999


def _circle(models: Models, *, words: str) -> Measured:
    found = turn(rows_of_set(models["words"].token, WORD_SETS[words])[1], draws=SHUFFLES, seed=0)
    shares = f"{100 * found.observed:.1f} % of their variance, in shuffled order {100 * found.mean:.1f} %"
    return Measured(found.observed, f"one turn holds {shares}, p {found.p:.3f}", found.beyond)


def _by_last_digit(models: Models) -> Measured:
    """Compare the variance between last digits with that of digits shuffled inside each decade.

    Inside a decade nothing but the last digit changes, so the null keeps all that tens and size explain. A trend inside
    decades is a trend over the last digit too; it is removed by a straight line for each number of columns.
    """
    rows = rows_of_set(models["words"].token, [str(number) for number in NUMBERS])[1].reshape(9, 10, -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    line = (np.arange(10) - 4.5)[None, :, None]
    rows = rows - line * (rows * line).sum(axis=1, keepdims=True) / np.square(line).sum()
    whole, rng = float(np.square(rows).sum()), np.random.default_rng(0)

    def share(given: NDArray[np.float64]) -> float:
        return float(9 * np.square(given.mean(axis=0)).sum() / whole)

    found = share(rows)
    drawn = np.array(
        [share(np.take_along_axis(rows, rng.permuted(_PLACES, axis=1)[:, :, None], axis=1)) for _ in range(SHUFFLES)]
    )
    p = (1 + int((drawn >= found).sum())) / (1 + SHUFFLES)
    said = f"the last digit explains {100 * found:.1f} % of what varies inside decades"
    return Measured(found, f"{said}, shuffled {100 * drawn.mean():.1f} %, p {p:.3f}", p <= 0.05)


_PLACES = np.tile(np.arange(10), (9, 1))


def _isotropic(models: Models) -> Measured:
    found = anisotropy(models["words"].token)
    return Measured(found, f"mean cosine of two tokens {found:.3f}", abs(found) <= 0.1)


def _common(models: Models) -> Measured:
    table = models["words"].token
    found = float(np.linalg.norm(mean_row(table)) / np.nanmean(norms(table)))
    return Measured(found, f"the mean vector has {100 * found:.0f} % of the mean norm", 1 / 6 <= found <= 1 / 2)


def _dominated(models: Models) -> Measured:
    """Compare the leading hundredth of the components with their share of an isotropic table."""
    table = models["words"].token
    count = max(1, table.shape[1] // 100)
    held = float(spectrum(table).cumulative[count - 1])
    even = count / min(table.shape)
    words = (
        f"{count} of {min(table.shape)} components hold {100 * held:.1f} % of the variance, evenly {100 * even:.1f} %"
    )
    return Measured(held, words, held >= 3 * even)


def _analogy(models: Models, *, left_out: bool) -> Measured:
    """Rank queen among the rows nearest to king − man + woman of unit rows, with or without the three query words."""
    table = models["words"].token
    rows = [table.row(word) for word in ("king", "man", "woman", "queen")]
    if not directed(table)[rows].all():
        raise InputError(f"one of king, man, woman, queen is zero or not finite in {table.name}")
    king, man, woman, _ = (unit_rows(table.rows(row, row + 1))[0] for row in rows)
    found = neighbours(table, king - man + woman, k=8)
    near = [
        (label.strip(), float(value), int(row))
        for row, label, value in zip(found.rows, found.labels, found.values, strict=True)
        if not (left_out and int(row) in rows[:3])
    ]
    said = ", ".join(f"{label} {value:.3f}" for label, value, _ in near[:3])
    place = next((place for place, (_, _, row) in enumerate(near, 1) if row == rows[3]), None)
    beside = f"queen is at rank {place}" if place else "queen is not among the nearest"
    words = f"nearest: {said}; {beside}" + (", king, man and woman excluded" if left_out else "")
    return Measured(None if place is None else float(place), words, place == 1)


def _alike(models: Models) -> Measured:
    found = pair_similarities(models["words"].token, ["king", "queen"])
    percentile = float(found.percentiles[0, 1])
    said = f"{np.floor(100 * percentile) / 100:.2f} %"  # round down, never up
    words = f"cosine {found.values[0, 1]:.3f}, above {said} of {found.sample:,} random pairs"
    return Measured(percentile, words, percentile >= 99.9)
