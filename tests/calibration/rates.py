"""How often a test of two tables finds p ≤ .05: false positives of independent tables, and power for related ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, repeat

import numpy as np
from scipy.stats import binomtest

from hfposemb import from_arrays
from hfposemb.analysis.positions.patches import grid_variance
from hfposemb.comparison.alignment import align
from hfposemb.comparison.metrics import MEASURES, Tables, beside_noise
from hfposemb.comparison.moved_words import find_moved_words
from hfposemb.errors import HfposembError
from hfposemb.tables.encodings import Absolute, Grid
from hfposemb.tables.null_comparison import LEVEL

from .families import FREQUENCY, INDEPENDENT, POSITIONS, RELATED, TOKENS, Make, Rows
from .varying import VARYING

DRAWS, MANY_DRAWS = 39, 199
"""Surrogates per pair of tables of tokens, and of positions; p ≤ .05 is exact for 19, 39, 59 …"""

TESTED = "positions: CKA and centred RSA"


@dataclass(frozen=True)
class Rate:
    """The share of pairs with p ≤ .05.

    Attributes:
        found: Number of pairs with p ≤ .05.
        tested: Number of pairs that were tested.
        pairs: Number of pairs; the test abstained from the rest.
    """

    found: int
    tested: int
    pairs: int

    @property
    def share(self) -> float:
        """The share of the tested pairs; NaN if none was tested."""
        return self.found / self.tested if self.tested else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the share (Wilson 1927)."""
        if not self.tested:
            return float("nan"), float("nan")
        found = binomtest(self.found, self.tested).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


def narrow(rows: Rows) -> Rows:
    """Return rows [n, d] in at most n columns, rotated, which leaves every measure as it is."""
    return np.linalg.qr(rows.T).R.T if rows.shape[1] > len(rows) else rows


def position_p_values(left: Rows, right: Rows, *, seed: int) -> Mapping[str, float]:
    """Return the p value of two tables of positions, which is the same for all measures that have one."""
    sides = (from_arrays(position=narrow(rows).astype(np.float32)) for rows in (left, right))
    measures = align(*sides, "position", draws=MANY_DRAWS, seed=seed).measures
    return {TESTED: measures["CKA"].p} if measures else {}


def token_p_values(left: Rows, right: Rows, *, seed: int) -> Mapping[str, float]:
    """Return the p value of each measure of two tables of tokens, and of moved words."""
    one, other = (from_arrays(token=rows.astype(np.float32)) for rows in (left, right))
    found = {
        f"tokens: {name}": null.p for name, null in align(one, other, "token", draws=DRAWS, seed=seed).measures.items()
    }
    found["tokens: moved words"] = find_moved_words(one, other, seed=seed).null.p
    return found


def figure_p_values(tokens: Rows, *, seed: int) -> Mapping[str, float]:
    """Return the p value of each figure of a table of tokens beside those of random rows."""
    tables, observed = Tables(from_arrays(token=tokens.astype(np.float32))), {}
    for measure in MEASURES:
        if measure.chance is not None:
            with suppress(HfposembError):
                observed[measure.name] = measure.take(tables)
    return {
        f"one table: {name}": null.p for name, null in beside_noise(tables, observed, draws=DRAWS, seed=seed).items()
    }


def patch_p_values(patches: Rows, *, seed: int) -> Mapping[str, float]:
    """Return the p value of the rows, the columns and both of a grid of patches beside shuffled ones."""
    side = int(len(patches) ** 0.5)
    encoding = Absolute(from_arrays(position=patches[: side**2].astype(np.float32)).position.table)
    encoding = replace(encoding, grid=Grid(side, side))
    nulls = grid_variance(encoding, draws=DRAWS, seed=seed).nulls
    return {f"patches: {name}": null.p for name, null in nulls.items()}


def pairs_of(
    make: Make, count: int, width: int, *, seed: int = 0, relation: str = INDEPENDENT
) -> Iterator[tuple[Rows, Rows]]:
    """Draw pairs of tables of a family without end, independent ones or related ones of ``RELATED``."""
    rng = np.random.default_rng((seed, count, width))
    while True:
        if relation == INDEPENDENT:
            yield make(count, width, rng), make(count, width, rng)
        else:
            yield RELATED[relation](make, count, width, rng)


def rates_of(
    test: Callable[..., Mapping[str, float]], drawn: Iterable[Sequence[Rows]], pairs: range, *names: str
) -> dict[str, Rate]:
    """Return the rate of each measure, with ``names`` among them, over some of the pairs, or tables, drawn."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for number, rows in islice(enumerate(drawn), pairs.start, pairs.stop):
        for name, p in test(*rows, seed=number).items():
            found.setdefault(name, []).append(p)
    return {name: Rate(sum(p <= LEVEL for p in values), len(values), len(pairs)) for name, values in found.items()}


def rates(
    make: Make,
    count: int,
    width: int,
    *,
    pairs: int,
    seed: int = 0,
    relation: str = INDEPENDENT,
    test: Callable[..., Mapping[str, float]] = position_p_values,
) -> Rate:
    """Return the rate of a test of two tables of positions over pairs of a family."""
    drawn = pairs_of(make, count, width, seed=seed, relation=relation)
    return rates_of(test, drawn, range(pairs), TESTED)[TESTED]


def rates_of_family(
    family: str, count: int, width: int, *, pairs: range, relation: str = INDEPENDENT
) -> dict[str, Rate]:
    """Return the rate of each measure that has a p value for some pairs of a family, by its name."""
    if family in SINGLE:
        rng = np.random.default_rng((0, count, width))
        return rates_of(SINGLE[family], ((POSITIONS["noise"](count, width, rng),) for _ in repeat(None)), pairs)
    if (make := (POSITIONS | VARYING).get(family)) is not None:
        drawn = pairs_of(make, count, width, relation=relation)
        return rates_of(position_p_values, drawn, pairs, TESTED)
    return rates_of(token_p_values, pairs_of((TOKENS | FREQUENCY)[family], count, width, relation=relation), pairs)


SINGLE: Mapping[str, Callable[..., Mapping[str, float]]] = {
    "one table of tokens: noise": figure_p_values,
    "a grid of patches: noise": patch_p_values,
}
"""Families of single tables, with the tests of their figures."""
