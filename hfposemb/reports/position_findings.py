"""Measurements of one position table, and the sentences that report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..analysis import geometry, rows
from ..analysis.positions.shift_operator import FEWEST_TURNS, Helix, helix
from ..analysis.similarity.nearest_rows import neighbours
from ..errors import HfposembError
from ..figures.style import listed
from ..text import number, one_line, percent, sentence_case

if TYPE_CHECKING:
    from ..analysis.projection.projecting import Projection
    from ..tables.table import EmbeddingTable


Value = TypeVar("Value")


NEAREST = 3


# Thresholds of the sentences.
FEWEST = 16  # positions with a direction from which anything but their cosines is said; fewer look like anything
ALONE = 0.9995  # translation invariance from which similarity depends on distance alone
NO_ORDER = 0.15  # mean cosine of neighbours, and translation invariance, below which there is no order
FAST = 32  # positions per turn below which a helix is called fast
SMOOTH = 0.95  # mean cosine of neighbours of a smooth curve
SIMPLE = 0.8  # share of variance that three components hold of a simple curve
ALIKE = 0.3  # mean cosine of similar neighbours
NEGATIVE = -0.05  # mean cosine that is below zero, not about zero


@dataclass(frozen=True, eq=False)
class Facts:
    """Measurements for the sentences; ``None`` if a table is too small or too plain for one.

    Of fewer than ``FEWEST`` positions with a direction, norms and profile only are measured.

    Attributes:
        norms: Norm of each row [n].
        outliers: Rows whose norms are outliers.
        invariance: Translation invariance.
        profile: Mean cosine at each distance [n].
        breaks: Where the cosine of neighbours drops.
        cumulative: Cumulative share of variance of the leading components.
        waves: Strength of waves by period.
        helix: The best helix.
    """

    norms: NDArray[np.float64]
    outliers: NDArray[np.int64]
    invariance: float | None
    profile: NDArray[np.float64] | None
    breaks: tuple[rows.Break, ...]
    cumulative: NDArray[np.float64] | None
    waves: geometry.Waves | None
    helix: Helix | None

    @property
    def few(self) -> bool:
        """Whether too few positions have a direction to say more than that it is the same."""
        return int((self.norms > 0).sum()) < FEWEST

    @property
    def half(self) -> NDArray[np.float64]:
        """The profile up to half of the table."""
        return np.empty(0) if self.profile is None else self.profile[: max(2, len(self.profile) // 2 + 1)]

    @property
    def winds(self) -> Helix | None:
        """The helix, if two components wind."""
        return self.helix if self.helix is not None and self.helix.winds else None

    @property
    def next(self) -> float | None:
        """The mean cosine of consecutive positions."""
        return float(self.half[1]) if len(self.half) > 1 and np.isfinite(self.half[1]) else None

    @property
    def held(self) -> float | None:
        """The share of variance that three components hold."""
        return None if self.cumulative is None else float(self.cumulative[min(3, len(self.cumulative)) - 1])

    @property
    def components(self) -> int:
        """The number of components; three hold all variance of any table that has no more."""
        return 0 if self.cumulative is None else len(self.cumulative)


def measure(table: EmbeddingTable) -> Facts:
    """Measure one position table."""
    norms, profile = rows.norms(table), _known(geometry.similarity_by_distance, table)
    if np.count_nonzero(norms > 0) < FEWEST:
        return Facts(norms, np.empty(0, np.int64), None, profile, (), None, None, None)
    spectrum = _known(geometry.spectrum, table)
    return Facts(
        norms=norms,
        outliers=rows.outliers(table),
        invariance=_known(geometry.translation_invariance, table),
        profile=profile,
        breaks=rows.breaks(table),
        cumulative=None if spectrum is None else spectrum.cumulative,
        waves=_known(geometry.strength_by_period, table),
        helix=_known(helix, table),
    )


def _known(measured: Callable[[EmbeddingTable], Value], table: EmbeddingTable) -> Value | None:
    try:
        return measured(table)
    except HfposembError:
        return None


def heading(facts: Mapping[str, Facts]) -> str:
    """State for all sources how much of the similarity of positions their distance explains."""
    known = {name: fact.invariance for name, fact in facts.items() if fact.invariance is not None}
    if not known:
        return "How each source encodes positions"
    shares = [f"{percent(max(0.0, share))} in {name}" for name, share in known.items()]
    return f"Share of similarity explained by distance alone: {listed(shares)}"


def finding(facts: Facts) -> str:
    """State what one table has learned, or that it has learned nothing."""
    if (untold := _shapeless(facts)) or facts.next is None or facts.invariance is None:
        return untold
    if facts.invariance >= ALONE:
        return "Similarity depends on distance alone"
    if abs(facts.next) < NO_ORDER and facts.invariance < NO_ORDER:
        return f"No order: cosine {number(facts.next, digits=2)} between neighbours"
    if facts.winds is not None:
        return f"One {'fast' if facts.winds.period < FAST else 'slow'} helix: {turns_of(facts.winds)}"
    value = number(facts.next, digits=2)
    if facts.next >= SMOOTH and facts.held is not None and facts.held >= SIMPLE:
        told = f"three components explain {percent(facts.held)}" if facts.components > 3 else f"cosine {value}"
        return f"One smooth curve: {told}"
    if facts.next < ALIKE:
        return f"Neighbours are hardly similar: cosine {value}"
    if facts.breaks:
        deepest = facts.breaks[0]
        least = number(deepest.cosine, digits=2)
        return f"Neighbours are similar ({value}), with a break at {deepest.before + 1:,} ({least})"
    return f"Neighbours are similar: cosine {value}"


def _shapeless(facts: Facts) -> str:
    """State why nothing is said of the shape of a table; "" if something is."""
    if facts.profile is None:
        return "All positions are zero or not finite"
    if facts.next is None:
        return "Too few positions to compare"
    if facts.invariance is None:
        same = bool(np.nanmin(facts.profile) > ALONE)
        return "All positions have the same direction" if same else f"Too few positions for a shape: it takes {FEWEST}"
    return "A single column has no shape: its cosines are all ±1" if facts.components == 1 else ""


def shape(facts: Facts) -> str:
    """Return the shape of a table's positions as a noun: one slow helix, a fast one, a curve, or no order."""
    if facts.winds is not None:
        return "a fast helix" if facts.winds.period < FAST else "one slow helix"
    if facts.few and facts.profile is not None:
        return _TOO_FEW
    if facts.next is None or facts.invariance is None or facts.components == 1:
        return "no shape"
    if abs(facts.next) < NO_ORDER and facts.invariance < NO_ORDER:
        return "no order"
    if facts.next >= SMOOTH:
        return "a smooth curve"
    return "a rough curve" if facts.next >= ALIKE else "hardly any order"


_TOO_FEW = "too few positions for a shape"


def shapes(learned: Mapping[str, Facts], computed: Mapping[str, Facts], sinusoid: str | None = None) -> str:
    """State the shape of each table, and whether the learned ones are the sinusoid.

    Args:
        learned: Learned tables by name.
        computed: Computed tables by name.
        sinusoid: Name of the sinusoid in ``computed``, if it is there.
    """
    if not learned:
        said = [f"{shape(facts)} in {name}" for name, facts in computed.items()]
        return f"Computed, not learned: {listed(said)}." if said else "How each model encodes positions"
    named: dict[str, list[str]] = {}
    for name, facts in learned.items():
        named.setdefault(shape(facts), []).append(name)
    few = named.pop(_TOO_FEW, [])
    said = [f"{listed(names)} {'' if place else 'learned '}{form}" for place, (form, names) in enumerate(named.items())]
    if few:
        said.append(f"{listed(few)} {'has' if len(few) == 1 else 'have'} {_TOO_FEW}")
    text = f"{', '.join(said)}."
    same = bool(few) or (sinusoid is not None and shape(computed[sinusoid]) in {shape(one) for one in learned.values()})
    if sinusoid is None or same:
        return text
    return f"{text} {('It is not', 'Neither is', 'None is')[min(len(learned), 3) - 1]} the sinusoid."


def turns_of(found: Helix) -> str:
    """Return how often a helix turns as text: 2.76 turns, one per 368 positions."""
    every = number(found.period, digits=1) if found.period < FAST else f"{found.period:,.0f}"
    return f"{number(found.turns, digits=2 if found.turns < FAST else 0)} turns, one per {every} positions"


def alias_of(facts: Facts) -> str:
    """Say of a fast helix how many turns in the other direction look the same at every position; "" of any other."""
    found = facts.winds
    return "" if found is None or found.period >= FAST else f"{found.alias:,.0f} turns the other way look the same"


def winding(facts: Mapping[str, Facts]) -> str:
    """State which sources are a helix, in which plane, and how much of their variance it holds."""
    said = []
    for name, fact in facts.items():
        if (found := fact.winds) is not None:
            plane = f"components {found.components[0]} and {found.components[1]} explain {percent(found.held)}"
            beside = f", beside a straight drift of {percent(found.drift)}" if found.drift else ""
            said.append(f"{name} is a helix: {turns_of(found)}; {plane}{beside}")
    if not said and all(fact.helix is None for fact in facts.values()):
        return "Too few positions to look for a helix"
    return "; ".join(said) if said else f"No helix of {number(FEWEST_TURNS, digits=1)} turns or more was found"


def wave_title(facts: Mapping[str, Facts]) -> str:
    """State the period of each source's strongest wave, or that it has none of its own, or none above noise."""
    named: dict[str, list[str]] = {}
    trends: list[str] = []
    bands: list[str] = []
    none: list[str] = []
    turning: list[str] = []
    for name, fact in facts.items():
        if fact.waves is not None and fact.waves.peak is None and fact.winds is not None:
            turning.append(f"{name} is a helix with a turn per {number(fact.winds.period, digits=1)} positions")
        if fact.waves is not None:
            if fact.waves.peak is not None:
                named.setdefault(f"{fact.waves.peak:,.0f} positions", []).append(name)
            elif fact.waves.strongest is None:
                none.append(name)
            elif fact.waves.trend:
                trends.append(name)
            else:
                bands.append(f"around {fact.waves.strongest:,.0f} positions in {name}")
    lengths = [f"{length} in {listed(names)}" for length, names in named.items()]
    said = [
        f"strongest period: {listed(lengths)}" if lengths else "",
        f"slow trends are strongest in {listed(trends)}" if trends else "",
        f"no single period, but waves {listed(bands)}" if bands else "",
        f"no wave above noise in {listed(none)}" if none else "",
        *turning,
    ]
    title = "; ".join(filter(None, said)) or "too few positions for a spectrum"
    return title[0].upper() + title[1:]


def distance_title(facts: Mapping[str, Facts]) -> str:
    """State whose mean cosine becomes negative with distance, whose never does, and whose is near zero throughout."""
    flat: list[str] = []
    negative: list[str] = []
    positive: list[str] = []
    for name, fact in facts.items():
        far = fact.half[1:][np.isfinite(fact.half[1:])]
        if not len(far) or fact.few:
            continue
        kind = flat if np.abs(far).max() < NO_ORDER else negative if far.min() < NEGATIVE else positive
        kind.append(name)
    parts = [
        f"falls below zero in {listed(negative)}" if negative else "",
        f"but not in {listed(positive)}" if positive and negative else "",
        f"stays above zero in {listed(positive)}" if positive and not negative else "",
        f"is near zero at all distances in {listed(flat)}" if flat else "",
    ]
    said = [part for part in parts if part]
    if flat and len(said) > 1:
        said[-2:] = [f"{said[-2]} and {said[-1]}"]
    return "Similarity " + ", ".join(said) if said else "Too few positions to compare distances"


def norm_title(facts: Mapping[str, Facts]) -> str:
    """State which rows are longest or shortest, if any is an outlier."""
    first, even, other, calm, few = [], [], [], [], []
    for name, fact in facts.items():
        found = fact.norms[np.isfinite(fact.norms)]
        if not len(found) or found.max() == 0:
            continue
        if fact.few:
            few.append(name)
        elif found.max() - found.min() <= 1e-3 * found.max():
            even.append(name)
        elif 0 in fact.outliers and fact.norms[0] == found.max():
            first.append(name)
        elif len(fact.outliers):
            row = int(fact.outliers[np.argmax(np.abs(np.log(fact.norms[fact.outliers] / np.median(found) + 1e-12)))])
            norm, median = float(fact.norms[row]), float(np.median(found))
            times = (
                f"{number(norm / median, digits=2)} times the median norm" if median else f"norm {number(norm)}, most 0"
            )
            other.append(f"position {row:,} has {times} in {name}")
        else:
            calm.append(name)
    said = [f"position 0 has the largest norm in {listed(first)}"] if first else []
    said += other
    said += [f"no outlying norms in {listed(calm)}"] if calm else []
    said += [f"all norms are equal in {listed(even)}"] if even else []
    said += [f"too few positions to tell outlying norms in {listed(few)}"] if few else []
    text = "; ".join(said) or "all norms are zero or undefined"
    return text[0].upper() + text[1:]


def variance_title(facts: Mapping[str, Facts]) -> str:
    """State the share of variance that three components hold of each source that has more of them."""
    told = {name: fact.held for name, fact in facts.items() if fact.held is not None and fact.components > 3}
    if shares := [f"{percent(held)} in {name}" for name, held in told.items()]:
        return f"Variance explained by three components: {listed(shares)}"
    if any(fact.components for fact in facts.values()):
        return "Three components explain any table of three columns"
    few = any(fact.few and fact.profile is not None for fact in facts.values())
    return "Too few positions to compare components" if few else "The positions have no variance"


def widest_title(table: EmbeddingTable) -> str:
    """State which dimension has the widest range."""
    vectors = table.vectors[table.finite]
    if not len(vectors):
        return "No finite rows"
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    ranges = high - low
    widest, alike = int(np.argmax(ranges)), int((ranges >= 0.99 * ranges.max()).sum())
    ends = (number(float(edge[widest]), digits=2) for edge in (low, high))
    if 4 * alike > len(ranges):
        return f"{alike:,} of {len(ranges):,} dimensions range from {' to '.join(ends)}"
    return f"Dimension {widest:,} has the widest range, from {' to '.join(ends)}"


def nearest(table: EmbeddingTable, marked: int) -> str:
    """State which positions are nearest to the marked one, computed exactly."""
    if marked >= table.shape[0]:
        return f"No position {marked:,}: the table ends at {table.shape[0] - 1:,}"
    try:
        found = neighbours(table, marked, k=NEAREST)
    except HfposembError as error:
        return sentence(error)
    others = [f"{row:,} ({number(value, digits=2)})" for row, value in zip(found.rows, found.values, strict=True)]
    return (
        f"Position {marked:,} is closest to {', '.join(others)}" if others else f"Position {marked:,} has no neighbours"
    )


def axes_caption(projection: Projection) -> str:
    """State the variance held by the axes of a PCA, or how not to read UMAP."""
    ratio = projection.explained_variance_ratio
    if ratio is None:
        return "Close dots are similar; large distances mean little"
    axes = {1: "The axis shows", 2: "The two axes show", 3: "The three axes show"}.get(len(ratio), "The axes show")
    return f"{axes} {percent(float(sum(ratio)))} of the variance"


def sentence(error: BaseException) -> str:
    """Return an error message on one line as a sentence."""
    return sentence_case(one_line(str(error)))
