"""Published findings about words, measured again on a table of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import anisotropy, spectrum
from ..analysis.rows import directed, mean_row, norms
from ..analysis.similarity.nearest_rows import neighbours
from ..analysis.similarity.row_pairs import pair_similarities
from ..analysis.tokens.word_sets import WORD_SETS, spelt_row, turn
from ..errors import InputError
from ..tables.encoding_base import unit_rows
from ..tables.table import EmbeddingTable
from .claims import Claim, Measured, Models, Study

NUMBERS = range(10, 100)
"""Numbers whose rows are compared: all of two digits, so that decades have ten each."""

SHUFFLES = 999


def _rows_of(table: EmbeddingTable, words: Sequence[str]) -> NDArray[np.float64]:
    """Return the unit rows of words, as they are written in a text or with a capital letter. Raises ``InputError``."""
    rows = np.array([spelt_row(table, word) for word in words])
    if not directed(table)[rows].all():
        raise InputError(f"a row of {', '.join(words[:3])} … is zero or not finite in {table.name}")
    return unit_rows(table.take(rows))


def _circle(models: Models, *, words: Sequence[str]) -> Measured:
    found = turn(_rows_of(models["words"].token, words), draws=SHUFFLES, seed=0)
    shares = f"{100 * found.observed:.1f} % of their variance, in shuffled order {100 * found.mean:.1f} %"
    return Measured(found.observed, f"one turn holds {shares}, p {found.p:.3f}", found.beyond)


def _by_last_digit(models: Models) -> Measured:
    """Compare the variance between last digits with that of digits shuffled inside each decade.

    Inside a decade nothing but the last digit changes, so the null keeps all that tens and size explain. A trend inside
    decades is a trend over the last digit too; it is removed by a straight line for each number of columns.
    """
    rows = _rows_of(models["words"].token, [str(number) for number in NUMBERS]).reshape(9, 10, -1)
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


_TURN = "one turn holds more of their variance than in 95 % of shuffled orders, as it would on an open arc"
_MINILM = {"words": "sentence-transformers/all-MiniLM-L6-v2"}

WORDS: Mapping[str, Study] = {
    "king-queen": Study(
        "Mikolov, Yih & Zweig, Linguistic Regularities in Continuous Space Word Representations, NAACL 2013, of the "
        "input layer of another model (claims in words)",
        _MINILM,
        (
            Claim(
                "words of similar meaning are close: king and queen",
                ("words",),
                _alike,
                "the pair is more similar than 99.9 % of random pairs",
            ),
            Claim(
                "King − Man + Woman results in a vector very close to Queen",
                ("words",),
                partial(_analogy, left_out=False),
                "queen is the nearest of all tokens",
            ),
            Claim(
                "the same as usually evaluated, with king, man and woman excluded",
                ("words",),
                partial(_analogy, left_out=True),
                "queen is the nearest of all other tokens",
            ),
        ),
    ),
    "calendar-circle": Study(
        "Karkada et al., Symmetry in language statistics shapes the geometry of model representations, 2026 (in words)",
        _MINILM,
        (
            Claim(
                "the months lie on a circle in their order",
                ("words",),
                partial(_circle, words=WORD_SETS["months"]),
                _TURN,
            ),
            Claim(
                "the days of the week lie on a circle in their order",
                ("words",),
                partial(_circle, words=WORD_SETS["days"]),
                _TURN,
            ),
        ),
    ),
    "number-waves": Study(
        "Kadlčík et al., Pre-trained Language Models Learn Remarkably Accurate Representations of Numbers, EMNLP 2025, "
        "of the input layer of another model (claims in words)",
        _MINILM,
        (
            Claim(
                "embeddings of numbers have periodic parts: numbers of one last digit share one, of period 10",
                ("words",),
                _by_last_digit,
                "the last digit explains more than in 95 % of shuffles inside decades, straight lines removed",
            ),
        ),
    ),
    "ethayarajh-2019": Study(
        "Ethayarajh, How Contextual are Contextualized Word Representations?, EMNLP 2019 (claims in words)",
        {"words": "openai-community/gpt2"},
        (
            Claim(
                "words of the input layer point in all directions, unlike those of the upper layers",
                ("words",),
                _isotropic,
                "the mean cosine of two tokens is at most .1",
            ),
        ),
    ),
    "mu-viswanath-2018": Study(
        "Mu & Viswanath, All-but-the-Top, ICLR 2018, of static vectors (claims in words)",
        _MINILM,
        (
            Claim(
                "word vectors share a large mean, of a sixth to a half of their norm",
                ("words",),
                _common,
                "the norm of the mean vector is between a sixth and a half of the mean norm",
            ),
            Claim(
                "after subtracting it, a few directions dominate the others",
                ("words",),
                _dominated,
                "a hundredth of the components hold at least three times their share",
            ),
        ),
    ),
}
"""Studies about words by name."""
