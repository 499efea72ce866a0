"""Figures of one source: of its positions, its tokens and both, each with what it can be compared with.

A figure of positions is given with its value for an untrained table and for the sinusoid of the same shape. Figures of
tokens do not depend on row order, so they are compared with a random table of the same shape and scale, from whose
closed-form distribution values are drawn. Figures of an output head relate its rows to those of the token table, so
they are compared with permutations of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.geometry import (
    Isotropy,
    Spectrum,
    anisotropy,
    monotonicity,
    scatter,
    similarity_by_distance,
    spectrum,
    translation_invariance,
)
from ..analysis.nulls.surrogates import Rows, finite_rows
from ..analysis.positions.probes import PROBES, STABLE, Probe, extrapolation_probe, require_probes
from ..analysis.positions.shift_operator import Helix, Split, fit_shift_of_scores, helix, pca_scores
from ..analysis.rows import breaks, deepest_fall, finite_blocks, norms
from ..composition.neighbour_retention import (
    Kept,
    Overlap,
    Protocol,
    Recovered,
    neighbours_kept,
    recovered,
    subspace_overlap,
)
from ..errors import HfposembError, InputError, MissingTableError
from ..guesses import several
from ..lazy_attributes import lazy_attribute
from ..tables.closed_forms import sinusoidal
from ..tables.embeddings import Embeddings
from ..tables.encodings import Absolute, table_in
from ..tables.null_comparison import Kind, Null, Side, beside
from ..tables.rotary import Rotary
from ..tables.table import EmbeddingTable, Provenance, table_of
from .head_sample import HeadFigure, HeadSample, head_sample

Section: TypeAlias = Literal["position", "token", "both", "head"]
SECTIONS: Mapping[Section, str] = {
    "position": "positions",
    "token": "tokens",
    "both": "tokens and positions",
    "head": "output heads",
}
"""Sections of the figures, with their headings."""

Extra: TypeAlias = Literal["probes", "sums"]
EXTRAS: tuple[Extra, ...] = ("probes", "sums")
"""Figures computed on request only: the probes of GPT-2 take a minute on two cores."""

REFERENCES = ("untrained", "sinusoid")
"""Tables of the same shape whose figures are given with those of positions."""

UNTRAINED = 0.02
"""Standard deviation of untrained position vectors."""

MOST_REFERENCE = 2**25
"""Maximum number of values in a table of positions that has references."""

PROBE_SEEDS = 10

Values = NDArray[np.float64]


class Tables:
    """Tables of a source and intermediate results that several figures share, each computed once.

    Accessing an absent table raises the reason for its absence.
    """

    def __init__(self, source: Embeddings, *, seeds: int = PROBE_SEEDS, single: bool = False) -> None:
        self.source = source
        self.seeds = range(seeds)
        self.single = single
        self._probes: dict[str, Probe] = {}
        self._kept: dict[Protocol, Kept] = {}

    @classmethod
    def of_positions(cls, rows: Rows, *, name: str) -> Tables:
        """Wrap the positions of a reference; probes use one seed, and products are in float32."""
        table = table_of(rows, name=name, provenance=Provenance("drawn"))
        return cls(Embeddings(name, {"position": table}, {"position": Absolute(table)}), seeds=1, single=True)

    @lazy_attribute
    def position(self) -> EmbeddingTable:
        """The table of positions. Raises ``MissingTableError`` for rotary positions, among others."""
        encoding = self.source.position
        if isinstance(encoding, Rotary):
            # Its table holds cosines and sines, whose norms and shares cannot be compared with those of added
            # positions.
            raise MissingTableError(
                "rotary positions have no vector that is added to a word; use .matrix() or .profile()"
            )
        return table_in(encoding)

    @property
    def token(self) -> EmbeddingTable:
        """The token table."""
        return self.source.token

    @lazy_attribute
    def position_spectrum(self) -> Spectrum:
        """The spectrum of the positions."""
        return spectrum(self.position)

    @lazy_attribute
    def token_isotropy(self) -> Isotropy:
        """The isotropy of the tokens."""
        return scatter(self.token).isotropy

    @lazy_attribute
    def by_distance(self) -> Values:
        """The mean cosine of positions by distance [n]."""
        return similarity_by_distance(self.position, single=self.single)

    @lazy_attribute
    def scores(self) -> Values:
        """The coordinates of the positions on their leading components [n, components]."""
        return pca_scores(self.position)

    @lazy_attribute
    def helix(self) -> Helix:
        """The helix of the positions."""
        return helix(self.position)

    @lazy_attribute
    def recovered(self) -> Recovered:
        """How often words and positions are recovered from their sum."""
        return recovered(self.source)

    @lazy_attribute
    def overlap(self) -> Overlap:
        """The overlap of token variance with the subspace of positions."""
        return subspace_overlap(self.source)

    @lazy_attribute
    def head_sample(self) -> HeadSample:
        """Rows of token table and output head. Raises ``InputError`` if they are tied."""
        return head_sample(self.source)

    def variance(self, components: int) -> float:
        """Return the percentage of variance that the first components of the positions explain."""
        return 100 * float(self.position_spectrum.cumulative[:components][-1])

    def cosine(self, distance: int) -> float:
        """Return the mean cosine of positions at a distance. Raises ``InputError`` beyond the table."""
        if distance >= len(self.by_distance):
            raise InputError(
                f"{self.position.name} has only {len(self.by_distance)} positions, so none are {distance} apart"
            )
        return float(self.by_distance[distance])

    def norm(self, row: int) -> float:
        """Return the norm of a position."""
        return float(norms(self.position)[row])

    def mean_norm(self, table: EmbeddingTable) -> float:
        """Return the mean norm of the finite rows of a table. Raises ``InputError`` if there are none."""
        if not table.finite.any():
            raise InputError(f"{table.name} has no finite row")
        return float(np.nanmean(norms(table)))

    def ratio(self) -> float:
        """Return the mean norm of tokens over that of positions. Raises ``InputError`` if all positions are zero."""
        if not (below := self.mean_norm(self.position)) > 0:
            raise InputError("all position vectors are zero, so the ratio is undefined")
        return self.mean_norm(self.token) / below

    def components(self, share: float) -> float:
        """Return how many components explain a share of the variance of the positions."""
        return self.position_spectrum.components_for(share)

    def invariance(self, on: Literal["cosine", "inner product"]) -> float:
        """Return how far the similarity of two positions depends on their distance alone."""
        return translation_invariance(self.position, on=on, single=self.single)

    def shifted(self, distance: int, split: Split) -> float:
        """Return R² of the fitted linear shift of the positions by a distance."""
        return fit_shift_of_scores(self.scores, distance, split=split).linear

    def break_at(self) -> float:
        """Return the position at which the deepest break begins. Raises ``InputError`` if there is none."""
        found = breaks(self.position)
        if not found:
            raise InputError("no breaks: the cosine of neighbouring positions has no outlying drop")
        return found[0].before + 1

    def probe(self, name: str) -> Probe:
        """Return the result of a probe of the positions, named as in ``PROBES``."""
        if name not in self._probes:
            self._probes[name] = PROBES[name](self.position, seeds=self.seeds)
        return self._probes[name]

    def kept(self, protocol: Protocol) -> Kept:
        """Return how many neighbours tokens keep under a protocol."""
        if protocol not in self._kept:
            self._kept[protocol] = neighbours_kept(self.source, protocol=protocol)
        return self._kept[protocol]


Chance: TypeAlias = Callable[[Tables, np.random.Generator, int], Values]
"""Draws a number of values of a figure from its null distribution."""


@dataclass(frozen=True)
class Measure:
    """A figure of a source, and how it and its null are computed.

    Attributes:
        name: Name of the figure.
        unit: Its unit; "" for a plain number.
        section: What it is a figure of.
        take: Computes it.
        extra: The extra it belongs to, if it is computed on request only.
        against: Whether a figure of positions has values of references.
        chance: Draws the null of other figures; ``None`` for no null.
        kind: Kind of that null.
        side: Which values are extreme.
        deviation: Computes its standard deviation over seeds, if it depends on them.
    """

    name: str
    unit: str
    section: Section
    take: Callable[[Tables], float]
    extra: Extra | None = None
    against: bool = True
    chance: Chance | None = None
    kind: Kind = "random"
    side: Side = "both"
    deviation: Callable[[Tables], float] | None = None

    def known(self, tables: Tables) -> float | None:
        """Return the figure; ``None`` if it is not defined for these tables."""
        try:
            value = self.take(tables)
        except HfposembError:
            return None
        return value if math.isfinite(value) else None


# --- nulls of tokens -------------------------------------------------------------------------------------------------


def _finite_shape(table: EmbeddingTable) -> tuple[int, int]:
    return int(table.finite.sum()), table.shape[1]


def _norm_by_chance(tables: Tables, rng: np.random.Generator, draws: int) -> Values:
    """Draw the mean norm of noise with the table's mean square, from the moments of χ with d degrees of freedom."""
    rows, width = _finite_shape(tables.token)
    scale = math.sqrt(sum(float(np.square(block).sum()) for _, block in finite_blocks(tables.token)) / (rows * width))
    mean = math.sqrt(2) * math.exp(math.lgamma((width + 1) / 2) - math.lgamma(width / 2))
    return np.asarray(scale * (mean + math.sqrt(max(width - mean**2, 0) / rows) * rng.standard_normal(draws)))


def _anisotropy_by_chance(tables: Tables, rng: np.random.Generator, draws: int) -> Values:
    """Draw the mean cosine of noise: the sum of its unit rows is a normal vector of variance n/d per column."""
    rows, width = _finite_shape(tables.token)
    return np.asarray((rng.chisquare(width, draws) / width - 1) / (rows - 1))


def _isoscore_by_chance(tables: Tables, rng: np.random.Generator, draws: int) -> Values:
    """Draw the IsoScore of noise: d / participation ratio is 1 + (d + 1 + 2Z) / n (Ledoit & Wolf 2002, proposition 7).

    Z is asymptotically standard normal in the numbers of rows and columns.
    """
    rows, width = _finite_shape(tables.token)
    participation = width / (1 + (width + 1 + 2 * rng.standard_normal(draws)) / max(rows - 1, 1))
    return np.asarray((np.clip(participation, 1, min(width, rows - 1)) - 1) / max(width - 1, 1))


def _kept_by_chance(tables: Tables, rng: np.random.Generator, draws: int, *, protocol: Protocol) -> Values:
    """Return the percentages of neighbours that are kept if queries or words are in random order."""
    return 100 * np.array(tables.kept(protocol).drawn)


# --- the measures -----------------------------------------------------------------------------------------------------


def _head(title: str, name: HeadFigure, side: Side) -> Measure:
    return Measure(
        title,
        "",
        "head",
        lambda tables: tables.head_sample.figure(name),
        chance=lambda tables, rng, draws: tables.head_sample.permuted(name, rng, draws),
        kind="permutation",
        side=side,
    )


def _probe(name: str, unit: str, probe: str) -> Measure:
    scale = 100.0 if unit == "%" else 1.0
    return Measure(
        name,
        unit,
        "position",
        lambda tables: scale * tables.probe(probe).mean,
        extra="probes",
        deviation=lambda tables: scale * tables.probe(probe).deviation,
    )


def _kept(said: str, protocol: Protocol) -> Measure:
    return Measure(
        f"neighbours kept, {said}",
        "%",
        "both",
        lambda tables: 100 * tables.kept(protocol).share,
        extra="sums",
        chance=partial(_kept_by_chance, protocol=protocol),
    )


def _recovered(what: Literal["word", "position"]) -> Measure:
    def chance(tables: Tables, rng: np.random.Generator, draws: int) -> Values:
        count, share = tables.recovered.tokens, getattr(tables.recovered, f"{what}_by_chance")
        return np.asarray(100 * rng.binomial(count, share, draws) / count)

    name = f"{what}s recovered"
    return Measure(name, "%", "both", lambda tables: 100 * getattr(tables.recovered, what), extra="sums", chance=chance)


SPLITS: Mapping[Split, str] = {"random": "random rows", "contiguous": "last quarter"}
PLACED: Mapping[Protocol, str] = {
    "query": "query placed",
    "both": "all placed",
    "same": "all at 5",
    "first": "query at 0",
}

MEASURES: tuple[Measure, ...] = (
    *(
        Measure(f"variance of {count} components", "%", "position", partial(Tables.variance, components=count))
        for count in (2, 3, 5)
    ),
    *(
        Measure(f"components for {share} %", "components", "position", partial(Tables.components, share=share / 100))
        for share in (90, 95, 99)
    ),
    Measure("effective rank", "", "position", lambda tables: tables.position_spectrum.effective_rank),
    Measure("participation ratio", "", "position", lambda tables: tables.position_spectrum.participation_ratio),
    Measure("IsoScore", "", "position", lambda tables: tables.position_spectrum.isoscore),
    Measure(
        "IsoScore of noise", "", "position", lambda tables: tables.position_spectrum.isoscore_of_noise, against=False
    ),
    *(
        Measure(f"mean cosine at distance {distance}", "cosine", "position", partial(Tables.cosine, distance=distance))
        for distance in (1, 2, 4, 8, 16)
    ),
    Measure("translation invariance", "", "position", partial(Tables.invariance, on="cosine")),
    Measure("translation invariance, inner products", "", "position", partial(Tables.invariance, on="inner product")),
    Measure(
        "monotonicity up to 128", "", "position", lambda tables: monotonicity(tables.position, single=tables.single)
    ),
    *(
        Measure(
            f"shift R² by {distance}, {rows}", "", "position", partial(Tables.shifted, distance=distance, split=split)
        )
        for split, rows in SPLITS.items()
        for distance in (1, 4, 16)
    ),
    Measure("helix period", "positions", "position", lambda tables: tables.helix.period),
    Measure("helix evenness", "", "position", lambda tables: tables.helix.even),
    Measure("largest drop between neighbours", "cosine", "position", lambda tables: deepest_fall(tables.position)),
    Measure("break at position", "position", "position", Tables.break_at, against=False),
    Measure("norm of position 0", "norm", "position", lambda tables: tables.norm(0)),
    Measure("mean norm", "norm", "position", lambda tables: tables.mean_norm(tables.position)),
    Measure("norm of the last position", "norm", "position", lambda tables: tables.norm(-1)),
    _probe("absolute probe, error", "positions", "absolute"),
    _probe(f"  on {STABLE} components", "positions", f"absolute, {STABLE} components"),
    _probe("relative probe, error", "%", "relative"),
    _probe("  standardised", "%", "relative, standardised"),
    Measure(
        "extrapolation probe, error",
        "positions",
        "position",
        lambda tables: extrapolation_probe(tables.position),
        extra="probes",
    ),
    Measure("token mean norm", "norm", "token", lambda tables: tables.mean_norm(tables.token), chance=_norm_by_chance),
    Measure(
        "token anisotropy", "cosine", "token", lambda tables: anisotropy(tables.token), chance=_anisotropy_by_chance
    ),
    Measure("token IsoScore", "", "token", lambda tables: tables.token_isotropy.isoscore, chance=_isoscore_by_chance),
    Measure("token IsoScore of noise", "", "token", lambda tables: tables.token_isotropy.isoscore_of_noise),
    Measure("token norm / position norm", "", "both", Tables.ratio),
    *(_kept(said, protocol) for protocol, said in PLACED.items()),
    _recovered("word"),
    _recovered("position"),
    Measure(
        "token variance among positions",
        "%",
        "both",
        lambda tables: 100 * tables.overlap.share,
        extra="sums",
        chance=lambda tables, rng, draws: 100 * np.array([*tables.overlap.drawn, *tables.overlap.uniform]),
    ),
    _head("head and tokens, CKA", "CKA", "greater"),
    _head("head and tokens, norms", "norms", "both"),
    _head("head and tokens, first directions", "first directions", "greater"),
)
"""All figures that are compared, in display order."""


def measures_of(extras: Collection[Extra] = ()) -> tuple[Measure, ...]:
    """Return the default measures and those of the requested extras.

    Raises:
        InputError: If an extra is unknown.
        MissingExtraError: If "probes" is requested and scikit-learn is not installed.
    """
    extras = several(extras)
    if unknown := sorted(set(extras) - set(EXTRAS)):
        raise InputError(f"extras must be among {', '.join(EXTRAS)}; got {', '.join(unknown)}")
    if "probes" in extras:
        require_probes()
    return tuple(measure for measure in MEASURES if measure.extra is None or measure.extra in extras)


def measures_named(patterns: Collection[str]) -> tuple[Measure, ...]:
    """Return the measures that match any of the patterns, e.g. ``shift*``; without patterns, the default ones.

    Raises:
        InputError: If a pattern matches none.
    """
    patterns = several(patterns)
    if not patterns:
        return measures_of()
    if unknown := [one for one in patterns if not any(_is_named(measure, one) for measure in MEASURES)]:
        near = get_close_matches(unknown[0], [measure.name.strip() for measure in MEASURES], n=3, cutoff=0.4)
        meant = (
            f"; did you mean {', '.join(near)}?" if near else f"; examples: {', '.join(m.name for m in MEASURES[:6])}."
        )
        raise InputError(f"unknown metric {unknown[0]!r:.80}{meant} 'hfposemb compare' lists all metrics")
    return tuple(measure for measure in MEASURES if any(_is_named(measure, one) for one in patterns))


def _is_named(measure: Measure, pattern: str) -> bool:
    return fnmatchcase(measure.name.strip(), pattern.strip())


# --- comparison with nulls --------------------------------------------------------------------------------------------


def references_of(tables: Tables, names: Collection[str], *, seed: int = 0) -> dict[str, dict[str, float]]:
    """Measure figures of positions on two tables of the same shape that are known: untrained and sinusoidal.

    A figure of a single curve has no null distribution, since most of it follows from how smooth the curve is. These
    two values say where it lies between noise and Vaswani's sinusoid.

    Args:
        tables: Tables of the source.
        names: Figures by name in ``MEASURES``.
        seed: Random seed of the untrained table, normal numbers of standard deviation .02 as in BERT and GPT-2.

    Returns:
        Values by name of the reference, for each figure that has any.
    """
    measures = [one for one in MEASURES if one.name in names and one.section == "position" and one.against]
    if not measures:
        return {}
    count, width = len(finite_rows(tables.position)), tables.position.shape[1]
    if count * width > MOST_REFERENCE:
        return {}
    noise = UNTRAINED * np.random.default_rng(seed).standard_normal((count, width))
    sines = finite_rows(sinusoidal(count, width).position)
    found: dict[str, dict[str, float]] = {measure.name: {} for measure in measures}
    for reference, rows in zip(REFERENCES, (noise, sines), strict=True):
        drawn = Tables.of_positions(rows, name=reference)
        for measure in measures:
            if (value := measure.known(drawn)) is not None:
                found[measure.name][reference] = value
    return {name: values for name, values in found.items() if values}


def beside_noise(tables: Tables, observed: Mapping[str, float], *, draws: int, seed: int = 0) -> dict[str, Null]:
    """Compare figures of tokens with random rows of the same scale, and those of a head with permutations of its rows.

    Args:
        tables: Tables of the source.
        observed: Observed figures by name in ``MEASURES``.
        draws: Number of values drawn from the null.
        seed: Random seed.

    Returns:
        The null of each figure that has one.
    """
    found = {}
    for measure in MEASURES:
        if measure.chance is not None and measure.name in observed and draws > 0:
            drawn = measure.chance(tables, np.random.default_rng(seed), draws)
            found[measure.name] = beside(observed[measure.name], drawn, seed=seed, kind=measure.kind, side=measure.side)
    return found
