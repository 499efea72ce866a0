"""Published findings about positions and words, measured again and compared with what was published.

Every finding is an entry of ``studies.toml``. Agreement is decided by a rule that is shown with every result.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import anisotropy, spectrum
from ..analysis.nulls.surrogates import finite_rows
from ..analysis.positions.patches import grid_variance
from ..analysis.positions.probes import Probe, absolute_probe, relative_probe
from ..analysis.positions.shift_operator import helix, leading, rotation
from ..analysis.rows import directed, mean_row, norms
from ..analysis.similarity.nearest_rows import neighbours
from ..analysis.similarity.row_pairs import pair_similarities
from ..analysis.tokens.word_sets import WORD_SETS, rows_of_set, turn
from ..errors import InputError, MissingTableError
from ..tables.embeddings import Embeddings
from ..tables.encoding_base import unit_rows
from ..tables.encodings import Absolute, PositionEncoding, table_in
from ..tables.table import EmbeddingTable

Models = Mapping[str, Embeddings]

WALKS = 20
"""Number of random walks that are measured beside a claim; 7 where a measurement takes half a minute.

A claim whose rule agrees with a share q of all walks is confirmed for a walk with probability q · P(at most one in 20
agrees), at most 4.2 %, or q (1 − q)^7, at most 5 %, whatever q is.
"""


@dataclass(frozen=True)
class Measured:
    """Result of one measurement: the number, a sentence that compares it with a reference, and the verdict."""

    value: float | None
    words: str
    agrees: bool


@dataclass(frozen=True)
class Claim:
    """One claim of a study.

    Attributes:
        published: The claim as published.
        needs: Names of the models it takes.
        measure: Measures it.
        rule: When the measurement agrees with the claim.
        curves: Models whose learned positions are replaced by random walks, to see how often smoothness alone agrees.
        walks: Number of random walks.
    """

    published: str
    needs: tuple[str, ...]
    measure: Callable[[Models], Measured]
    rule: str
    curves: tuple[str, ...] = ()
    walks: int = WALKS


@dataclass(frozen=True)
class Study:
    """A published finding.

    Attributes:
        citation: Its citation.
        models: Default source of each model, by the study's name for it.
        claims: Its claims.
    """

    citation: str
    models: Mapping[str, str]
    claims: tuple[Claim, ...]


# --- positions --------------------------------------------------------------------------------------------------------


SEEDS = range(5)
"""Random seeds over which probes are averaged."""

PROBED = 512
"""Number of positions in the probes of Wang & Chen, the first ones of every model."""


def _probed(embeddings: Embeddings) -> EmbeddingTable:
    """Return the positions used in the probes."""
    table = table_in(embeddings.position)
    return table if table.shape[0] <= PROBED else table.part(0, PROBED)


def _said(found: Probe, *, share: bool) -> str:
    if share:
        return f"{100 * found.mean:.2f} ± {100 * found.deviation:.2f} %"
    return f"{found.mean:.2f} ± {found.deviation:.2f} positions"


def _read_off(models: Models, *, model: str) -> Measured:
    """Compare the absolute probe of one model with that of an untrained table."""
    found, chance = (absolute_probe(_probed(models[key]), seeds=SEEDS) for key in (model, "untrained"))
    words = f"{model}: error {_said(found, share=False)}; untrained: {_said(chance, share=False)}"
    return Measured(found.mean, words, found.mean <= chance.mean / 10)


def _less(models: Models, *, less: str, more: str, relative: bool) -> Measured:
    """Compare the probe errors of two models."""
    probe = relative_probe if relative else absolute_probe
    low, high, chance = (probe(_probed(models[key]), seeds=SEEDS) for key in (less, more, "untrained"))
    said = [f"{key} {_said(one, share=relative)}" for key, one in ((less, low), (more, high), ("untrained", chance))]
    return Measured(low.mean, ", ".join(said), low.mean + 2 * low.deviation < high.mean - 2 * high.deviation)


def _held(models: Models, *, model: str, components: int, percent: float, tolerance: float) -> Measured:
    found = 100 * float(spectrum(models[model].position).cumulative[components - 1])
    return Measured(found, f"{found:.2f} %", abs(found - percent) <= tolerance)


WAVES = 12


def _purity(value: PositionEncoding) -> float:
    """Return the median share of a component's power in its strongest wave, including the two neighbouring bins.

    From the spectra of ``WAVES`` leading principal components, with a Hann window.
    """
    rows = finite_rows(value)
    parts = leading(rows, WAVES) * np.hanning(len(rows))[:, None]
    power = np.abs(np.fft.rfft(parts, axis=0)[1:]) ** 2
    padded = np.pad(power, ((1, 1), (0, 0)))
    near = padded[:-2] + padded[1:-1] + padded[2:]
    peak = power.argmax(axis=0)
    return float(np.median(near[peak, np.arange(parts.shape[1])] / power.sum(axis=0)))


def _wavy(models: Models, *, model: str) -> Measured:
    found, chance = (_purity(models[key].position) for key in (model, "untrained"))
    words = f"the median of {WAVES} components has {100 * found:.0f} % of its power in one wave"
    words += f", untrained {100 * chance:.0f} %"
    return Measured(found, words, found >= 0.5 and found > chance)


def _few(models: Models) -> Measured:
    found, chance = (100 * float(spectrum(models[key].position).cumulative[2]) for key in ("gpt2", "untrained"))
    return Measured(
        found, f"three components explain {found:.1f} % of the variance, untrained {chance:.1f} %", found >= 75
    )


def _winds(models: Models) -> Measured:
    found, chance = (helix(models[key].position) for key in ("gpt2", "untrained"))
    first, second = found.components
    words = (
        f"components {first} and {second} explain {100 * found.held:.1f} % and turn {found.turns:.2f} times, once per "
        f"{found.period:.0f} positions, {100 * found.even:.0f} % of the steps in one direction; smoothed, their speed "
        f"varies by {100 * found.speed:.0f} % and their distance by {100 * found.radius:.0f} %, untrained by "
        f"{100 * chance.speed:.0f} and {100 * chance.radius:.0f} %"
    )
    return Measured(found.turns, words, found.winds and not chance.winds)


SHUFFLES = 200
"""Number of permutations of the patches in the null."""


@dataclass(frozen=True, eq=False)
class _Tiles:
    """Cosines [n, n] of the patches of an image, and their distances in grid rows and columns."""

    cosines: NDArray[np.float64]
    down: NDArray[np.int64]
    across: NDArray[np.int64]

    @classmethod
    def of(cls, embeddings: Embeddings) -> _Tiles:
        encoding = _on_a_grid(embeddings)
        grid = encoding.grid
        assert grid is not None
        unit = unit_rows(encoding.table.rows(grid.first, grid.first + grid.rows * grid.columns))
        row, column = np.divmod(np.arange(len(unit)), grid.columns)
        down, across = (np.abs(place[:, None] - place) for place in (row, column))
        return cls(unit @ unit.T, down, across)


def _on_a_grid(embeddings: Embeddings) -> Absolute:
    for encoding in embeddings.positions.values():
        if isinstance(encoding, Absolute) and encoding.grid is not None:
            return encoding
    raise MissingTableError(f"{embeddings.name} has no positions on an image grid")


def _nearer(models: Models) -> Measured:
    from scipy.stats import spearmanr

    tiles = _Tiles.of(models["vit"])
    others = np.triu_indices(len(tiles.cosines), 1)
    distance = np.hypot(tiles.down, tiles.across)[others]
    found = float(spearmanr(distance, tiles.cosines[others]).statistic)
    order = np.random.default_rng(0).permutation(len(tiles.cosines))
    chance = float(spearmanr(distance, tiles.cosines[np.ix_(order, order)][others]).statistic)
    words = f"Spearman correlation of distance and cosine {found:.3f}, for shuffled patches {chance:.3f}"
    return Measured(found, words, found <= -0.3)


def _in_line(models: Models) -> Measured:
    """Compare patches in one row or column with others at the same distance, since patches in line are nearer too.

    Both directions count: any smooth curve through the patches in reading order makes those of a row alike.
    """
    tiles = _Tiles.of(models["vit"])
    cosines = np.nan_to_num(tiles.cosines)
    lines = {"rows": _line_weights(tiles, tiles.down == 0), "columns": _line_weights(tiles, tiles.across == 0)}

    def excesses(values: NDArray[np.float64]) -> list[float]:
        return [float((weights * values).sum()) for weights in lines.values()]

    rng = np.random.default_rng(0)
    orders = (rng.permutation(len(cosines)) for _ in range(SHUFFLES))
    drawn = np.array([excesses(cosines[np.ix_(order, order)]) for order in orders])
    found, highest = excesses(cosines), np.quantile(drawn, 0.975, axis=0)
    said = [
        f"{name} {one:+.3f} (in shuffles up to {high:+.3f})"
        for name, one, high in zip(lines, found, highest, strict=True)
    ]
    words = f"their cosine differs from patches at the same distance by: {', '.join(said)}"
    return Measured(min(found), words, bool((found > highest).all()))


def _line_weights(tiles: _Tiles, line: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return weights [n, n] whose sum with the cosines is the mean excess of pairs in line at the same distance."""
    apart = ~np.eye(len(line), dtype=bool)
    line = line & apart
    elsewhere = (tiles.down > 0) & (tiles.across > 0)
    distance = np.rint(np.hypot(tiles.down, tiles.across)).astype(int)
    weights = np.zeros(tiles.cosines.shape)
    for far in np.unique(distance[line]):
        same, other = line & (distance == far), elsewhere & (distance == far)
        if other.any():
            weights += same / same.sum() - other / other.sum()
    return weights / max(float(weights[line].sum()), 1e-12)


def _by_lines(models: Models) -> Measured:
    found = grid_variance(_on_a_grid(models["vit"]))
    row, column, both = (found.nulls[name] for name in ("row", "column", "both"))
    words = (
        f"rows explain {100 * found.row:.0f} %, columns {100 * found.column:.0f} % of the variance, both "
        f"{100 * found.both:.0f} %; for shuffled patches up to {100 * row.high:.0f}, {100 * column.high:.0f} and "
        f"{100 * both.high:.0f} %"
    )
    return Measured(found.both, words, found.row > row.high and found.column > column.high and found.both > both.high)


DISTANCES = (1, 4, 16, 64)


def _turned(models: Models) -> Measured:
    table = table_in(models["sinusoid"].position)
    rows, width = np.asarray(table.vectors, np.float64), table.shape[1]
    inv_freq = 10000.0 ** (-np.arange(0, width, 2) / width)
    worst = max(
        float(np.abs(rows[:-distance] @ rotation(inv_freq, distance) - rows[distance:]).max())
        for distance in DISTANCES
        if distance < len(rows)
    )
    return Measured(worst, f"largest difference {worst:.1e} for k = {', '.join(map(str, DISTANCES))}", worst <= 1e-6)


def _waves(models: Models) -> Measured:
    table = table_in(models["sinusoid"].position)
    rows = np.asarray(table.vectors, np.float64)
    turning = rows[:, 0::2] * 1j + rows[:, 1::2]
    lengths = 2 * np.pi / np.abs(np.angle((turning[1:] * turning[:-1].conj()).sum(axis=0)))
    ratios = lengths[1:] / lengths[:-1]
    even = float(ratios.max() / ratios.min()) - 1
    first, last = lengths[0] / (2 * np.pi), lengths[-1] / (2 * np.pi)
    words = f"from 2π × {first:.4f} to 2π × {last:,.0f}, with a constant ratio within {even:.0e}"
    return Measured(last, words, abs(first - 1) <= 1e-3 and 0.9 <= last / 10000 <= 1 and even <= 1e-3)


# --- words ------------------------------------------------------------------------------------------------------------


NUMBERS = range(10, 100)
"""Numbers whose rows are compared: all of two digits, so that decades have ten each."""

REORDERED = 999


def _circle(models: Models, *, words: str) -> Measured:
    found = turn(rows_of_set(models["words"].token, WORD_SETS[words])[1], draws=REORDERED, seed=0)
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
        [share(np.take_along_axis(rows, rng.permuted(_PLACES, axis=1)[:, :, None], axis=1)) for _ in range(REORDERED)]
    )
    p = (1 + int((drawn >= found).sum())) / (1 + REORDERED)
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


# --- all studies ------------------------------------------------------------------------------------------------------


def _read() -> dict[str, Study]:
    """Return the studies of ``studies.toml``, which names the functions above."""
    rows = tomllib.loads(Path(__file__).with_name("studies.toml").read_text(encoding="utf-8"))
    return {name: Study(**row | {"claims": tuple(map(_claim, row["claims"]))}) for name, row in rows.items()}


def _claim(row: Mapping[str, Any]) -> Claim:
    """Return a claim of ``studies.toml``."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    values["measure"] = partial(globals()[f"_{values['measure']}"], **values.pop("given", {}))
    return Claim(**values)


STUDIES: Mapping[str, Study] = _read()
"""All studies by name."""
