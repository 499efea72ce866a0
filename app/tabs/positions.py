"""The Positions tab: positions as clouds, matrices, lines and waves, under sentences that were measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import gradio as gr
import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.analysis import geometry, rows
from hfposemb.analysis import patches as image_patches
from hfposemb.analysis.projection_quality import WRONG
from hfposemb.analysis.shift_operator import Helix, helix
from hfposemb.errors import InputError
from hfposemb.figures import line_figures, matrix_figures, position_figures
from hfposemb.figures.palette import POSITION, SIMILARITY
from hfposemb.figures.style import Series, listed, number
from hfposemb.tables import null_comparison
from hfposemb.tables.encodings import Absolute, Grid, PositionEncoding, Rotary

from ..components.events import QUIET
from ..components.hidden import State
from ..components.plot import Drawing, Panel, PanelRow, Panels, ScaleBar
from ..findings.logits import distance_panel
from ..findings.properties import requirement_row
from ..recipes import snippets
from ..recipes.snippets import Recipe
from ..session.address import number_up_to, numbers_by_source, text_up_to
from ..session.state import Opened, Session, Umaps, one_line

if TYPE_CHECKING:
    from hfposemb.tables.table import EmbeddingTable

Method = Literal["pca", "umap"]
Value = TypeVar("Value")

TITLE = "Positions"
NEEDS = ("position",)
GROUP = "position"  # what the figures call their rows, for linked hover
FILES = ("PNG", "SVG")

MOST = 4_096  # positions drawn at most: nobody waits for a larger matrix
MOST_WIDE = 2_048  # of a table so wide that as many would have more than CELLS numbers
KERNEL = 512  # positions drawn of a mechanism that has no rows of its own
CELLS = 2**22  # numbers of a table that are measured to be drawn
BIASED = 128  # distances of additive biases beside each other: those of T5 end here, those of ALiBi never
EXAMPLE = 16  # the distance whose bias is told
HALF = 0.5  # of the kernel
NEAREST = 3
NEIGHBOURS = hpe.UMAPParameters().neighbors
WAVES = (8, 9, 24, 48)
MOST_WAVES = 6

# What the sentences call by a name.
ALONE = 0.9995  # translation invariance from which distance is all there is
NO_ORDER = 0.15  # mean cosine of neighbours, and translation invariance, below which there is no order
EVEN = 0.8  # power that two components have at one period, from which they wind
TURNS = 1.5  # and how often they go round at least: a plain arc goes round once
SMOOTH = 0.95  # mean cosine of neighbours of a smooth curve
SIMPLE = 0.8  # variance that three components hold of a simple one
ALIKE = 0.3  # mean cosine of neighbours that are alike
NEGATIVE = -0.05  # mean cosine that is below zero, not about it
ENDS = 4  # positions at either end that often stand apart

CLOUD_HELP = """
Each dot is one position, joined to the next and coloured from the first to the last. Dots that are close have similar
vectors, as far as two or three dimensions can show that. PCA keeps the directions in which positions differ most; UMAP
keeps who is near whom, and little else.

Below, the cosine of every position with every other, from −1 to 1. Stripes along the diagonal mean that it is the
distance of two positions that makes them alike.

Neighbours kept is the share of each position's ten nearest that are among its ten nearest in the picture too. Trust is
trustworthiness, 1 unless the picture puts together what is apart in the table: 1 − 2 Σ max(r − k, 0) / nk(2n − 3k − 1),
the sum over the k nearest of each dot in the picture, r their ranks in the table. Continuity exchanges picture and
table: 1 unless the picture tears apart what is together. By chance is what a layout at random gives.

A hollow dot lies wrongly: fewer than 3 of its 10 nearest are near it. Point at any dot to read how many.

Venna & Kaski 2001, 2006.
"""
DISTANCE_HELP = """
The mean over t of cos(p_t, p_{t+k}), for each distance k up to half the table, so that each mean is one of many pairs.

A table that falls and rises again has learned a wave. The sinusoid falls as its slow waves drift apart. In an untrained
table two positions have nothing in common, however close.

Property: Wang et al., ICLR 2021.
"""
NORM_HELP = """
The Euclidean length of every row. A row stands out when it is at least a quarter off the median and beyond 3.5 modified
z-scores (Iglewicz & Hoaglin 1993). Often it has a reason: position 0 is in every text, and the last rows are hardly
ever trained.
"""
WAVE_HELP = """
Each column of the centred table is taken apart into waves of n, n/2, n/3 … positions by the discrete Fourier transform.
Drawn is the magnitude, the mean over columns, as a multiple of its mean over periods. In a table without order all
periods are alike, so its line is flat at 1, and 95 % of it is in the band.

A peak is a wave that many columns share: the helix of GPT-2 is one. A line that only rises to the right is a smooth
curve without a wave of its own.

After Yamamoto and Matsuzaki, EMNLP 2023.
"""
VARIANCE_HELP = """
The share of the variance that the first components of the centred table hold together. The steeper, the simpler the
shape. Three components are what a picture in 3-D shows.

Dotted is an untrained table of the same size, which has no shape.
"""
TABLE_HELP = """
The table itself: a row for each position, a column for each dimension, blue below zero and orange above. The waves
underneath are single columns, drawn against the position, all on one scale.

In the sinusoid (Vaswani et al. 2017) each pair of columns is the sine and the cosine of one wavelength. A learned table
finds waves of its own, and mixes them in every dimension.
"""
KERNEL_HELP = """
A rotary model adds nothing to its words. It turns queries and keys by an angle for each position (Su et al. 2021). The
dots are the cosines and sines it turns with, one row for each position: a picture of the angles, not of vectors that
are added to anything.

Below is what the turning does to a query and a key that are alike with equal energy in every pair of dimensions: the
mean over pairs i of cos(ω_i Δ), which is the cosine of two of these rows. It is no cosine of two learned rows, and has
a plot and a scale of its own.
"""
BIAS_HELP = """
What is added to the attention logit of a query and a key at each distance, key − query, the mean over heads. It is no
similarity, and has no −1 and 1.

ALiBi takes a slope times the distance off (Press et al. 2022). T5 learns a number for each bucket of distances (Raffel
et al. 2020). Where a model looks back only, distances above 0 are not drawn.
"""
WAVELENGTH_HELP = """
Pair i of a rotary encoding turns once in 2π / ω_i positions. Short waves tell neighbours apart, long ones say roughly
where in the text a word is.

A pair whose wave is longer than the trained length never made a full turn in training: angles beyond are new to the
model. Scaling for longer texts slows these pairs, and leaves short waves as they are. Dots are the pairs beyond.

Paper: Peng et al. 2023, YaRN; the frequencies: Su et al. 2021.
"""
PATCH_HELP = """
Each tile is the map of one patch, in its place over the image: the cosine of its position vector with those of all
patches. A model that learned where patches lie has its brightest spot in the tile's own place, and stripes along its
row and column (Dosovitskiy et al. 2021, figure 7). Click a tile to see its map large.

The shares are those of a two-way analysis of variance without interaction: the variance of the row means, and of the
column means, over the variance of all patches. What is left is the part that no sum of a row's and a column's vector
gives. Beside them stand the same shares when the patches are shuffled, 100 times: the mean, and ± half of the interval
that 95 % of these are in.
"""


# --- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Facts:
    """What the sentences are made of; ``None`` where a table is too small or too plain to tell.

    ``profile`` [n] is the mean cosine at each distance, ``breaks`` where that of neighbours falls, ``cumulative`` the
    share of the variance that the first components hold.
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
    def half(self) -> NDArray[np.float64]:
        """The profile up to half the table."""
        return np.empty(0) if self.profile is None else self.profile[: max(2, len(self.profile) // 2 + 1)]

    @property
    def winds(self) -> Helix | None:
        """The helix, where two components wind evenly, and more often than any curve does."""
        found = self.helix
        return found if found is not None and found.even >= EVEN and found.turns >= TURNS else None

    @property
    def next(self) -> float | None:
        """The mean cosine of two positions that follow each other."""
        return float(self.half[1]) if len(self.half) > 1 and np.isfinite(self.half[1]) else None

    @property
    def held(self) -> float | None:
        """The share of the variance that three components hold."""
        return None if self.cumulative is None else float(self.cumulative[min(3, len(self.cumulative)) - 1])


def measure(table: EmbeddingTable) -> Facts:
    """Measure one table of positions."""
    spectrum = _known(geometry.spectrum, table)
    return Facts(
        norms=rows.norms(table),
        outliers=rows.outliers(table),
        invariance=_known(geometry.translation_invariance, table),
        profile=_known(geometry.similarity_by_distance, table),
        breaks=rows.breaks(table),
        cumulative=None if spectrum is None else spectrum.cumulative,
        waves=_known(geometry.waves, table),
        helix=_known(helix, table),
    )


def _known(measured: Callable[[EmbeddingTable], Value], table: EmbeddingTable) -> Value | None:
    try:
        return measured(table)
    except hpe.HfposembError:
        return None


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of one table that are shown, and what was measured of them, each once for everybody.

    They are those of a ``source``; ``encoding`` is what has the table, where its unit is not the cosine of two rows.
    """

    whole: EmbeddingTable
    length: int
    session: Session
    source: Opened
    encoding: PositionEncoding | None = None

    def _result(self, what: str, maker: Callable[[], Value]) -> Value:
        return self.session.library.result(self.whole, (what, self.length), maker)

    @property
    def complete(self) -> bool:
        """Whether all rows are shown."""
        return self.length == self.whole.shape[0]

    @property
    def table(self) -> EmbeddingTable:
        """The first ``length`` rows; the table itself where it has no more."""
        whole = self.whole
        if self.complete:
            return whole
        return self._result("first rows", lambda: whole.part(0, self.length))

    @property
    def facts(self) -> Facts:
        """What was measured of them."""
        return self._result("facts", lambda: measure(self.table))

    @property
    def turning(self) -> bool:
        """Whether the rows are angles of a rotary encoding, that nothing is added to."""
        return self.encoding is not None

    @property
    def cosines(self) -> NDArray[np.float32]:
        """The cosine of every pair [n, n]."""
        return self._result("cosines", lambda: hpe.similarity(self.table).astype(np.float32))

    def drawn(self, dims: int) -> int:
        """Return in how many dimensions a picture can be: no more than the table has."""
        return min(dims, self.whole.shape[1])

    def pca(self, dims: int) -> hpe.Projection:
        """Project the positions that are shown by PCA."""
        dims = self.drawn(dims)
        if self.complete:
            found = self.session.projection(self.whole, "pca", dims)
            assert found is not None
            return found
        return self._result(f"pca {dims}", lambda: hpe.project(self.table, method="pca", dims=dims))

    def umap(self, dims: int) -> hpe.Projection | None:
        """Return the positions that are shown where UMAP laid them out among all, ``None`` until it has."""
        found = self.session.projection(self.whole, "umap", dims)
        if found is None or self.complete:
            return found
        return found.take(np.flatnonzero(found.rows < self.length))


# --- sentences -------------------------------------------------------------------------------------------------------


def percent(share: float) -> str:
    """Write a share, its sign kept on its line; 100 % and 0 % are said only of what is whole and nothing."""
    if share >= ALONE:
        return "100\u00a0%"
    if share < 0.005:
        return "under 1\u00a0%" if share > 0 else "0\u00a0%"
    return f"{min(99, max(1, round(100 * share)))}\u00a0%"


def heading(facts: Mapping[str, Facts]) -> str:
    """Say of all sources how much of their likeness is a matter of distance."""
    known = {name: fact.invariance for name, fact in facts.items() if fact.invariance is not None}
    if not known:
        return "How each source tells positions apart"
    shares = [f"{percent(max(0.0, share))} in {name}" for name, share in known.items()]
    return f"Distance alone explains how alike two positions are: {listed(shares)}"


def finding(facts: Facts) -> str:
    """Say what one table learned, or that it learned nothing."""
    if facts.profile is None:
        return "No row has a direction, so none can be compared"
    if facts.next is None:
        return "Too few positions to compare"
    if facts.invariance is None:
        same = bool(np.nanmin(facts.profile) > ALONE)
        return "All positions point the same way" if same else "Too few positions for a shape"
    if facts.invariance >= ALONE:
        return "Similarity depends on distance alone"
    if abs(facts.next) < NO_ORDER and facts.invariance < NO_ORDER:
        return f"No order: cosine {number(facts.next, digits=2)} between neighbours"
    if facts.next >= SMOOTH and facts.winds is not None:
        return f"One slow helix: {turns_of(facts.winds)}"
    if facts.next >= SMOOTH and facts.held is not None and facts.held >= SIMPLE:
        return f"One smooth curve: three dimensions hold {percent(facts.held)}"
    value = number(facts.next, digits=2)
    if facts.next < ALIKE:
        return f"Neighbours are hardly alike: cosine {value}"
    if facts.breaks:
        deepest = facts.breaks[0]
        least = number(deepest.cosine, digits=2)
        return f"Neighbours are alike ({value}), a break at {deepest.before + 1:,} ({least})"
    return f"Neighbours are alike: cosine {value}"


def turns_of(found: Helix) -> str:
    """Say how often a helix winds: 1.69 turns, one in 605 positions."""
    return f"{number(found.turns, digits=2)} turns, one in {found.period:,.0f} positions"


def winding(facts: Mapping[str, Facts]) -> str:
    """Say of all sources how they wind, in which plane, and how much of them that is."""
    said = []
    for name, fact in facts.items():
        if (found := fact.winds) is not None:
            plane = f"components {found.components[0]} and {found.components[1]} hold {percent(found.held)}"
            said.append(f"{name} winds: {turns_of(found)}; {plane}")
    return "; ".join(said) if said else "No table here winds evenly around an axis"


def wave_title(facts: Mapping[str, Facts]) -> str:
    """Say how long the strongest wave of each is, and whose waves are no stronger than noise."""
    named: dict[str, list[str]] = {}
    for name, fact in facts.items():
        if fact.waves is not None:
            peak, longest = fact.waves.peak, float(fact.waves.periods[0])
            length = "as long as the table" if peak == longest else f"{peak:,.0f} positions long" if peak else ""
            named.setdefault(length, []).append(name)
    none = named.pop("", [])
    lengths = [f"{length} in {listed(names)}" for length, names in named.items()]
    text = f"the strongest wave is {listed(lengths)}" if lengths else ""
    quiet = f"none is stronger than noise in {listed(none)}" if none else ""
    title = "; ".join(filter(None, [text, quiet])) or "there are too few positions for waves"
    return title[0].upper() + title[1:]


def distance_title(facts: Mapping[str, Facts]) -> str:
    """Say whose mean cosine turns negative with distance, whose never does, and whose is nowhere."""
    flat, negative, positive = [], [], []
    for name, fact in facts.items():
        far = fact.half[1:][np.isfinite(fact.half[1:])]
        if not len(far):
            continue
        kind = flat if np.abs(far).max() < NO_ORDER else negative if far.min() < NEGATIVE else positive
        kind.append(name)
    parts = [
        f"falls below zero in {listed(negative)}" if negative else "",
        f"never does in {listed(positive)}" if positive and negative else "",
        f"stays above zero in {listed(positive)}" if positive and not negative else "",
        f"is near zero throughout in {listed(flat)}" if flat else "",
    ]
    said = [part for part in parts if part]
    return "Similarity " + ", ".join(said) if said else "There are no distances to compare"


def norm_title(facts: Mapping[str, Facts]) -> str:
    """Say which rows are longest or shortest, where any stands out."""
    first, even, other, calm = [], [], [], []
    for name, fact in facts.items():
        found = fact.norms[np.isfinite(fact.norms)]
        if not len(found) or found.max() == 0:
            continue
        if found.max() - found.min() <= 1e-3 * found.max():
            even.append(name)
        elif 0 in fact.outliers and fact.norms[0] == found.max():
            first.append(name)
        elif len(fact.outliers):
            row = int(fact.outliers[np.argmax(np.abs(np.log(fact.norms[fact.outliers] / np.median(found) + 1e-12)))])
            other.append(f"position {row:,} stands out in {name}")
        else:
            calm.append(name)
    said = [f"position 0 is longest in {listed(first)}"] if first else []
    said += other
    said += [f"none stands out in {listed(calm)}"] if calm else []
    said += [f"all are equally long in {listed(even)}"] if even else []
    text = "; ".join(said) or "no row has a length"
    return text[0].upper() + text[1:]


def variance_title(facts: Mapping[str, Facts]) -> str:
    """Say how much three components hold of each."""
    shares = [f"{percent(fact.held)} of {name}" for name, fact in facts.items() if fact.held is not None]
    return f"Three components hold {listed(shares)}" if shares else "There is no variance to divide"


def widest_title(table: EmbeddingTable) -> str:
    """Say which dimension ranges widest."""
    vectors = table.vectors[table.finite]
    if not len(vectors):
        return "No row is finite"
    low, high = vectors.min(axis=0), vectors.max(axis=0)
    ranges = high - low
    widest, alike = int(np.argmax(ranges)), int((ranges >= 0.99 * ranges.max()).sum())
    ends = (number(float(edge[widest]), digits=2) for edge in (low, high))
    if 4 * alike > len(ranges):
        return f"{alike:,} of {len(ranges):,} dimensions range from {' to '.join(ends)}"
    return f"Dimension {widest:,} ranges widest, from {' to '.join(ends)}"


def nearest(table: EmbeddingTable, marked: int) -> str:
    """Say which positions the marked one is most like, exactly."""
    if marked >= table.shape[0]:
        return f"Position {marked:,} is beyond its end at {table.shape[0] - 1:,}"
    try:
        found = hpe.neighbours(table, marked, k=NEAREST)
    except hpe.HfposembError as error:
        return _sentence(error)
    others = [f"{row:,} ({number(value, digits=2)})" for row, value in zip(found.rows, found.values, strict=True)]
    return f"Position {marked:,} is most like {', '.join(others)}" if others else f"Position {marked:,} has no others"


def axes_caption(projection: hpe.Projection) -> str:
    """Say what the axes of a PCA hold, or what not to read from UMAP."""
    ratio = projection.explained_variance_ratio
    if ratio is None:
        return "close dots are alike; how far apart the rest is means little"
    return f"axes hold {listed([f'{100 * share:.0f}' for share in ratio])} % of the variance"


def _sentence(error: BaseException) -> str:
    text = one_line(str(error))
    return text[:1].upper() + text[1:]


# --- one panel for each source ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """What the reader chose: how to project, how many positions to show (0: all), and which one is marked."""

    method: Method = "pca"
    dims: int = 3
    length: int = 0
    marked: int = 64


def positions_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has a vector for each, ``None`` where it has not.

    Raises ``HfposembError`` where it has no positions at all, or they cannot be read.
    """
    found = rows_of(source, length, session)
    return None if found is None or found.turning else found


def rows_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has a row for each: a vector, or the cosines and sines of its angles.

    Raises ``HfposembError`` as ``positions_of`` does.
    """
    encoding = source.position
    if isinstance(encoding, Rotary):
        # Whatever length and width a configuration states, no more is computed than is drawn.
        most = min(encoding.length, KERNEL, max(2, CELLS // (2 * len(encoding.inv_freq))))
        table = replace(encoding, length=most).table
        return Positions(table, min(most, length or most), session, source, encoding)
    if not encoding.has_table:
        return None
    rows, width = encoding.table.shape
    most = min(rows, MOST, max(MOST_WIDE, CELLS // width))
    return Positions(encoding.table, min(most, length or most), session, source)


def tables_of(
    opened: Sequence[Opened], length: int, session: Session, *, turning: bool = False
) -> dict[Opened, Positions]:
    """Return the positions of all sources that have a vector for each and can be read, ``turning`` rows too."""
    found = {}
    for source in opened:
        try:
            positions = (rows_of if turning else positions_of)(source, length, session)
            if positions is not None and len(positions.facts.norms):
                found[source] = positions
        except hpe.HfposembError:
            continue  # its own panel says why
    return found


def longest(opened: Sequence[Opened], session: Session) -> int:
    """Return how many positions the longest of the sources shows."""
    lengths = []
    for source in opened:
        try:
            positions = rows_of(source, 0, session)
        except hpe.HfposembError:
            continue  # its own panel says why
        lengths += [positions.length] if positions is not None and positions.length else []
    return max(lengths, default=KERNEL)


def parts_of(opened: Sequence[Opened]) -> list[str]:
    """Return the parts there are to choose from: those of all sources that have several."""
    return list(dict.fromkeys(part for source in opened if len(source.parts) > 1 for part in source.parts))


def of_part(opened: Sequence[Opened], part: str | None) -> tuple[Opened, ...]:
    """Return the sources with the part that is wanted of each; one that has no such part shows its first."""
    return tuple(replace(source, wanted=part or "") for source in opened)


def clouds(opened: Sequence[Opened], view: View, session: Session) -> Panels:
    """Draw one panel for each source: its cloud above its matrix."""
    facts = {source.name: positions.facts for source, positions in tables_of(opened, view.length, session).items()}
    units = units_of(opened)
    kernel, alone = "expected rotary kernel" in units, units <= {"cosine"}
    return Panels(
        tuple(source_panel(source, view, session) for source in opened),
        heading=heading(facts) if opened else "Choose two sources to compare how they tell positions apart",
        subheading=(
            "Above, every position as a dot, joined in order. Below, "
            + ("the cosine of every two positions." if alone else "every two positions, in the unit of each mechanism.")
        )
        if opened
        else "For example: BERT, GPT-2 and the sinusoid.",
        scale_bars=(
            ScaleBar("first position", "last", POSITION.light),
            ScaleBar("cosine or kernel −1" if kernel else "cosine −1", "+1", SIMILARITY.light),
        ),
        marked={GROUP: view.marked},
        columns=max(len(opened), 1),
    )


def units_of(opened: Sequence[Opened]) -> set[str]:
    """Return the units that the sources are in, without those that have none."""
    units = set()
    for source in opened:
        try:
            units.add(source.position.unit)
        except hpe.HfposembError:
            continue
    return units - {"none"}


def source_panel(source: Opened, view: View, session: Session) -> Panel:
    """Draw one source, or say in its panel why it cannot be drawn."""
    empty = Panel(key=source.text, title="", source=(source.name, ""), color=source.color)
    if source.embeddings is None:
        return replace(empty, message=source.error, tone="error")
    try:
        if not source.embeddings.positions:
            reason = source.embeddings.absent.get("position", "nothing in it names its positions")
            said = f"There are no positions to draw: {reason}. Its words are under Tokens."
            return replace(empty, message=one_line(said))
        positions, encoding = rows_of(source, view.length, session), source.position
        if positions is None:
            return kernel_panel(replace(empty, source=(source.name, shown_part(source))), source, encoding, view)
        return cloud_panel(replace(empty, source=(source.name, note(source, encoding, positions))), positions, view)
    except hpe.HfposembError as error:
        return replace(empty, message=_sentence(error), tone="error")


def shown_part(source: Opened) -> str:
    """Name the part that is shown, where a source has several."""
    return source.part if len(source.parts) > 1 else ""


def note(source: Opened, encoding: PositionEncoding, positions: Positions) -> str:
    """Say beside the name what there is: 256 learned positions."""
    kind = "learned" if encoding.kind == "learned" and not source.text.startswith("random:") else "computed"
    kind = "rotary" if positions.turning else kind
    whole = encoding.length if isinstance(encoding, Rotary) else positions.whole.shape[0]
    count = positions.length
    said = f"{count:,} of {whole:,} {kind} positions" if count < whole else f"{whole:,} {kind} positions"
    if whole == 1:
        said = said.removesuffix("s")
    demo = "small demo" if source.text.startswith("sample:") else ""
    return " · ".join(filter(None, [said, shown_part(source), demo]))


def cloud_panel(empty: Panel, positions: Positions, view: View) -> Panel:
    """Draw the cloud above the matrix, or say what is missing for either."""
    table, encoding = positions.table, positions.encoding
    title = finding(positions.facts) if encoding is None else kernel_finding(encoding)
    if table.finite.sum() < 2:
        rows = "its only row" if table.shape[0] == 1 else f"none or one of its {table.shape[0]:,} rows that is finite"
        return replace(empty, title=title, message=f"A picture shows how positions differ. There is {rows}.")
    drawings, foot, message, recipe = [], "", "", None
    try:
        projection = (positions.umap(view.dims) if view.method == "umap" else None) or positions.pca(view.dims)
        drawings.append(Drawing(position_figures.projection(projection, trust=True), axes_caption(projection)))
        foot = trust(projection, positions)
        recipe = snippets.cloud(positions, method=projection.method, dims=projection.dims)
        if view.method == "umap" and projection.method != "umap":
            why = "UMAP is of vectors" if positions.turning else f"UMAP needs more than {NEIGHBOURS} positions"
            foot = f"{why}, so this is {foot}"
    except hpe.HfposembError as error:
        message = _sentence(error)
    if positions.drawn(view.dims) < 2:
        message = "With one dimension there is no cloud: the dimension itself is drawn below."
    if encoding is None:
        drawings.append(Drawing(matrix_figures.similarity_matrix(positions.cosines), nearest(table, view.marked)))
    else:
        drawings.append(matrix_drawing(encoding, positions.length))
    return replace(
        empty,
        title=title,
        recipe=recipe or snippets.cloud(positions, method="pca", dims=1),
        drawings=tuple(drawings),
        help=CLOUD_HELP if encoding is None else KERNEL_HELP,
        foot=foot,
        actions=FILES,
        message=message,
        emphasis=f"Position {view.marked:,}",
    )


def enough(positions: Positions) -> bool:
    """Tell whether UMAP has more positions than it looks for neighbours."""
    return int((positions.facts.norms > 0).sum()) > NEIGHBOURS


def trust(projection: hpe.Projection, positions: Positions) -> str:
    """Say how the picture was made, how far to trust it, and what is not in it."""
    quality = projection.quality
    method = projection.method.upper()
    width = positions.whole.shape[1]
    said = [f"{method} · {projection.dims} of {width:,}" if method == "PCA" else f"{method} · seed {projection.seed}"]
    trusted, whole, chance = (
        number(value, digits=2) for value in (quality.trustworthiness, quality.continuity, quality.trust_by_chance)
    )
    said.append(f"{percent(quality.neighbours_kept)} of neighbours kept, trust {trusted}, continuity {whole}")
    said.append(f"by chance {percent(quality.kept_by_chance)}, {chance}, {chance}")
    said += hollow(projection)
    if projection.method == "umap" and len(projection.rows) + projection.left_out < positions.whole.shape[0]:
        said.append(f"laid out among all {positions.whole.shape[0]:,}")
    if projection.left_out:
        finite = int((~positions.table.finite).sum())
        why = "with NaN or Inf" if finite == projection.left_out else "zero, NaN or Inf"
        said.append(f"{projection.left_out:,} {'row' if projection.left_out == 1 else 'rows'} {why} left out")
    return " · ".join(said)


def hollow(projection: hpe.Projection) -> list[str]:
    """Say how many points are drawn hollow, and of how many that was measured."""
    found = projection.trust
    if found is None or not (wrong := int(found.wrong.sum())):
        return []
    least = math.ceil(WRONG * found.k)
    of = f"{len(found.points):,}" + (" measured" if len(found.points) < len(projection.rows) else "")
    lie, their = ("lies", "its") if wrong == 1 else ("lie", "their")
    return [f"hollow: {wrong:,} of {of} {lie} wrongly, with fewer than {least} of {their} {found.k} nearest near"]


def matrix_drawing(encoding: PositionEncoding, length: int) -> Drawing:
    """Draw a mechanism's matrix in its own unit."""
    matrix, unit = encoding.matrix(length).astype(np.float32), encoding.unit
    assert unit != "none"
    return Drawing(matrix_figures.similarity_matrix(matrix, unit=unit), f"{unit} of every two positions")


def kernel_finding(encoding: PositionEncoding) -> str:
    """Say how fast the kernel of a rotary encoding falls."""
    at = half_at(encoding)
    return f"Its kernel falls below .5 {at}"


def half_at(encoding: PositionEncoding) -> str:
    """Say from which distance on a kernel is below one half for the first time."""
    below = np.flatnonzero(encoding.profile(np.arange(KERNEL)) < HALF)
    return f"at distance {below[0]:,}" if len(below) else f"nowhere up to distance {KERNEL - 1:,}"


def drawn_length(encoding: PositionEncoding, length: int, most: int = KERNEL) -> int:
    """Return how many positions are drawn of a mechanism that has no rows."""
    return int(min(getattr(encoding, "length", most), length or most, most))


def kernel_panel(empty: Panel, source: Opened, encoding: PositionEncoding, view: View) -> Panel:
    """Draw what a mechanism without rows does with distance, in its own unit, and say why there is no cloud."""
    unit = encoding.unit
    if unit == "none":
        reason = one_line(getattr(encoding, "reason", f"{encoding.kind} positions have no rows"))
        return replace(empty, message=reason[:1].upper() + reason[1:])
    length = drawn_length(encoding, view.length)
    name, part = empty.source or ("", "")
    profile = by_distance(Series(name, np.empty(0), empty.color, "solid"), encoding, length)
    why = {
        "alibi": "ALiBi takes a penalty off for distance: no vectors, so no cloud",
        "relative-table": "Its vectors stand for distances, not positions: no cloud",
    }.get(encoding.kind, "Its positions are numbers for distances: no vectors, so no cloud")
    matrix = matrix_drawing(encoding, length)
    low, high = matrix.figure.data[0].zmin, matrix.figure.data[0].zmax
    return replace(
        empty,
        source=(name, " · ".join(filter(None, [f"{encoding.kind} positions", part]))),
        title=why,
        drawings=(
            Drawing(line_figures.similarity_by_distance([profile], unit=unit, height=340), f"{unit} by distance"),
            matrix,
        ),
        help=BIAS_HELP if unit == "additive bias" else "",
        foot=f"First {length:,} positions · {unit}",
        actions=FILES,
        recipe=snippets.mechanism(source, profile.x, length),
        scale_bars=(ScaleBar(_edge(low), _edge(high), SIMILARITY.light),),
    )


# --- all sources in one plot -----------------------------------------------------------------------------------------


def _series(source: Opened, values: NDArray[Any], **more: Any) -> Series:
    return Series(source.name, values.astype(np.float32), source.color, source.dash, **more)


def by_distance(series: Series, encoding: PositionEncoding, length: int) -> Series:
    """Return a mechanism's values by distance: both ways where they differ, back only where it looks back only."""
    ahead = np.arange(length)
    behind = encoding.profile(-ahead)
    if not getattr(encoding, "bidirectional", True):
        at, values = -ahead[::-1], behind[::-1]
    elif np.allclose(behind, forth := encoding.profile(ahead), equal_nan=True):
        at, values = ahead, behind
    else:
        at, values = np.concatenate([-ahead[:0:-1], ahead]), np.concatenate([behind[:0:-1], forth])
    return replace(series, values=values.astype(np.float32), at=at.astype(np.float32))


def mirrored(series: Sequence[Series]) -> list[Series]:
    """Return the lines on one axis: where one has distances below 0, those of both ways alike are drawn both ways."""
    if all(s.x.min() >= 0 for s in series):
        return list(series)
    return [
        s if s.x.min() < 0 else replace(s, values=np.r_[s.values[:0:-1], s.values], at=np.r_[-s.x[:0:-1], s.x])
        for s in series
    ]


def lines(opened: Sequence[Opened], length: int, session: Session) -> Panels:
    """Draw similarity by distance in a plot for each unit, norms and explained variance, and rotary wavelengths."""
    found = tables_of(opened, length, session)
    drawn = [
        *distance_panels(opened, found, length),
        *table_panels({source: positions.facts for source, positions in found.items()}, found, session),
        *wavelength_panels(opened),
    ]
    return Panels(tuple(drawn), columns={4: 2}.get(len(drawn), min(max(len(drawn), 1), 3)))


def distance_panels(opened: Sequence[Opened], found: Mapping[Opened, Positions], length: int) -> list[Panel]:
    """Draw similarity against distance, each unit in a plot of its own: units never share an axis."""
    facts = {source: positions.facts for source, positions in found.items()}
    curves: dict[str, list[Series]] = {"cosine": [], "expected rotary kernel": [], "additive bias": []}
    curves["cosine"] += [_series(s, fact.half) for s, fact in facts.items() if fact.next is not None]
    others: dict[str, dict[str, PositionEncoding]] = {unit: {} for unit in curves}
    mechanisms: dict[str, list[Opened]] = {unit: [] for unit in curves}
    silent = []
    for source in opened:
        try:
            encoding = source.position
            unit = encoding.unit
        except hpe.HfposembError:
            continue  # its own panel says why
        if unit == "none":
            silent.append(source.name)
        elif source not in found and (unit != "cosine" or not encoding.has_table):
            most = BIASED if unit == "additive bias" else KERNEL
            shown = drawn_length(encoding, length, most)
            curves[unit].append(by_distance(_series(source, np.empty(0)), encoding, shown))
            others[unit][source.name] = encoding
            mechanisms[unit].append(source)
    kernels, biases = others["expected rotary kernel"], others["additive bias"]
    titles = {
        "cosine": distance_title({source.name: fact for source, fact in facts.items()})
        if facts
        else "How like the vector of each distance is to that of distance 0",
        "expected rotary kernel": f"The kernel falls below .5 {listed(_told(kernels, half_at))}",
        "additive bias": f"{EXAMPLE} positions back, the bias is {listed(_told(biases, bias_back))}",
    }
    relative = f"{listed(list(others['cosine']))}: with the vector of distance 0" if others["cosine"] else ""
    feet = {
        "cosine": " · ".join(filter(None, ["Distances up to half of each table" if facts else "", relative])),
        "expected rotary kernel": "Expected rotary kernel, equal energy in every pair",
        "additive bias": f"Additive bias to the logit, mean over heads, up to distance {BIASED - 1}",
    }
    helps = {"cosine": DISTANCE_HELP, "expected rotary kernel": KERNEL_HELP, "additive bias": BIAS_HELP}
    without = f" · not here: {listed(silent)}, without numbers to compare" if silent else ""
    drawn = []
    for unit, series in curves.items():
        if series:
            both = mirrored(series)
            figure = line_figures.similarity_by_distance(both, unit=unit)  # type: ignore[arg-type]
            key = {"cosine": "distance", "expected rotary kernel": "kernel"}.get(unit, "bias")
            rest = mechanisms[unit]
            tables = [found[s] for s, fact in facts.items() if fact.next is not None] if unit == "cosine" else []
            at = {source: one.x for source, one in zip(rest, both[len(both) - len(rest) :], strict=True)}
            recipe = snippets.profiles(tables, at)
            drawn.append(_panel(key, titles[unit], figure, helps[unit], feet[unit] + without, recipe))
            without = ""
    return drawn


def _told(encodings: Mapping[str, PositionEncoding], told: Callable[[PositionEncoding], str]) -> list[str]:
    return [f"{told(encoding)} in {name}" for name, encoding in encodings.items()] or [""]


def bias_back(encoding: PositionEncoding) -> str:
    """Say the bias of a key some positions before the query."""
    return number(float(encoding.profile(np.array([-EXAMPLE]))[0]), digits=2)


def table_panels(facts: Mapping[Opened, Facts], found: Mapping[Opened, Positions], session: Session) -> list[Panel]:
    """Draw norms and explained variance of all sources that have vectors in one plot each."""
    by_name = {source.name: fact for source, fact in facts.items()}
    drawn: list[Panel] = []
    if long := {s: fact for s, fact in facts.items() if (fact.norms > 0).sum() > 1}:
        norms = [
            _series(s, np.where(fact.norms > 0, fact.norms, np.nan), marks=_ends(fact)) for s, fact in long.items()
        ]
        figure, recipe = line_figures.norms_by_position(norms), snippets.lengths([found[s] for s in long])
        drawn.append(_panel("norms", norm_title(by_name), figure, NORM_HELP, "Euclidean norm, log scale", recipe))
    if any(fact.waves is not None for fact in facts.values()):
        drawn.append(wave_panel(facts, found))
    if parts := {
        s: fact.cumulative for s, fact in facts.items() if fact.cumulative is not None and len(fact.cumulative) > 1
    }:
        shares = [_series(s, held, marks=(min(3, len(held)) - 1,)) for s, held in parts.items()]
        baseline = _untrained(found, session)
        figure = line_figures.explained_variance([*shares, *baseline])
        foot = "PCA of the centred table" + (", beside an untrained one" if baseline else "")
        recipe = snippets.variance([found[s] for s in parts])
        drawn.append(_panel("variance", variance_title(by_name), figure, VARIANCE_HELP, foot, recipe))
    return drawn


def wave_panel(facts: Mapping[Opened, Facts], tables: Mapping[Opened, Positions]) -> Panel:
    """Draw how strong the waves of each period are in the columns of all tables, beside noise."""
    found = {source: fact.waves for source, fact in facts.items() if fact.waves is not None}
    series = [
        _series(
            source,
            waves.strength[::-1],
            at=waves.periods[::-1].astype(np.float32),
            marks=() if waves.peak is None else (len(waves.strength) - 1 - int(waves.strength.argmax()),),
        )
        for source, waves in found.items()
    ]
    widest = max(found.values(), key=lambda waves: waves.high)  # the widest interval is true of all
    figure = line_figures.waves_by_period(series, noise=(widest.low, widest.high))
    title = wave_title({source.name: fact for source, fact in facts.items()})
    foot = "Magnitude of the DFT, mean over columns · band: 95 % of noise"
    return _panel("waves", title, figure, WAVE_HELP, foot, snippets.waves([tables[source] for source in found]))


def wavelength_panels(opened: Sequence[Opened]) -> list[Panel]:
    """Draw the wavelengths of every rotary source, a plot for each."""
    drawn = []
    for source in opened:
        try:
            encoding = source.position
        except hpe.HfposembError:
            continue  # its own panel says why
        if isinstance(encoding, Rotary):
            line = _series(source, np.empty(0))
            figure = line_figures.wavelengths(
                encoding.scaled, series=line, scaled=f"after {encoding.scaling or 'scaling'}"
            )
            key, title, recipe = f"wavelengths {source.text}", wavelength_title(encoding), snippets.wavelengths(source)
            panel = _panel(key, title, figure, WAVELENGTH_HELP, still(encoding), recipe)
            drawn.append(replace(panel, source=(source.name, shown_part(source)), color=source.color))
    return drawn


def wavelength_title(encoding: Rotary) -> str:
    """Say how many pairs never made a full turn in training, and how many the scaling moves."""
    found = encoding.scaled
    pairs, beyond, moved = len(found.after), int(found.beyond.sum()), int(found.moved.sum())
    turn = "turns" if beyond == 1 else "turn"
    trained = f"the {found.trained_length:,} positions it was trained on"
    said = f"{beyond:,} of {pairs:,} pairs {turn} less than once in {trained}"
    scaling = (
        f"scaling by {encoding.scaling or 'its configuration'} moves {moved:,} {'pair' if moved == 1 else 'pairs'}"
    )
    return f"{said}; {scaling if moved else 'none is scaled'}"


def still(encoding: Rotary) -> str:
    """Say how many pairs are beyond the trained length after scaling, and which have no wavelength to draw."""
    found = encoding.scaled
    resting = int(np.isinf(found.after).sum())
    parts = [f"{int(found.beyond_after.sum()):,} beyond it after scaling" if found.moved.any() else ""]
    parts += [f"{resting:,} {'stands' if resting == 1 else 'stand'} still, not drawn" if resting else ""]
    return " · ".join(filter(None, ["2π / ω, log scale", *parts]))


def _panel(key: str, title: str, figure: Any, help_text: str, foot: str, recipe: Recipe) -> Panel:
    drawings = (Drawing(figure),)
    return Panel(key=key, title=title, drawings=drawings, help=help_text, foot=foot, actions=FILES, recipe=recipe)


def _ends(facts: Facts) -> tuple[int, ...]:
    """Position 0 and the last one, where they stand out."""
    return tuple(row for row in (0, len(facts.norms) - 1) if row in facts.outliers and facts.norms[row] > 0)


def _untrained(found: Mapping[Opened, Positions], session: Session) -> list[Series]:
    """The explained variance of an untrained table as large as the first source's, unless one is shown already."""
    if any(source.text.startswith("random:") for source in found):
        return []
    rows, width = next(iter(found.values())).table.shape
    try:
        text = f"random:{rows}x{width}"
        untrained = positions_of(Opened(text, "", "", "", session.library.open(text)), 0, session)
        shares = None if untrained is None else untrained.facts.cumulative
    except hpe.HfposembError:
        return []
    return [] if shares is None else [Series("Untrained", shares.astype(np.float32))]


# --- the tables themselves -------------------------------------------------------------------------------------------


def read_dimensions(text: str) -> tuple[int, ...]:
    """Read the dimensions that somebody typed: whole numbers, whatever stands between them.

    Raises ``InputError`` where there is none, or more than can be drawn.
    """
    words = "".join(character if character.isdecimal() and character.isascii() else " " for character in text).split()
    found = tuple(dict.fromkeys(int(word) for word in words if len(word) < 8))
    if not 1 <= len(found) <= MOST_WAVES:
        raise InputError(f"write 1 to {MOST_WAVES} dimensions, such as {', '.join(map(str, WAVES))}")
    return found


def images(opened: Sequence[Opened], length: int, dimensions: str, session: Session) -> Panels:
    """Draw every table as an image above a few of its dimensions as waves."""
    found = tables_of(opened, length, session, turning=True)
    try:
        wanted, problem = read_dimensions(dimensions), ""
    except hpe.HfposembError as error:
        wanted, problem = WAVES, f"{_sentence(error)}. Until then: {', '.join(map(str, WAVES))}."
    panels = tuple(image_panel(source, positions, wanted) for source, positions in found.items())
    about = "Above, every number of a table: positions downwards, dimensions across. Below, single dimensions as waves."
    return Panels(
        panels,
        heading="The tables themselves" if panels else "",
        subheading=(problem or about) if panels else "",
        columns=max(len(panels), 1),
    )


def image_panel(source: Opened, positions: Positions, wanted: Sequence[int]) -> Panel:
    """Draw one table and its waves."""
    table = positions.table
    rows, width = table.shape
    image = matrix_figures.table_image(table.vectors)
    low, high = image.data[0].meta["range"]
    drawings = [Drawing(image)]
    inside = [dimension for dimension in wanted if dimension < width]
    # Rows that stand out at the start, such as position 0 of a BERT, would flatten every wave after them.
    skip = next((row for row in range(ENDS + 1) if row not in positions.facts.outliers), 0) if rows > 4 * ENDS else 0
    if inside:
        figure = line_figures.waves(table.vectors[skip:], inside, first=skip)
        figure.update_traces(line_color=source.color)
        drawings.append(Drawing(figure))
    said = [f"{rows:,} × {width:,}"]
    if beyond := [f"{dimension:,}" for dimension in wanted if dimension >= width]:
        said.append(f"no dimension {listed(beyond)}")
    if skip:
        left = {1: "position 0", 2: "positions 0 and 1"}.get(skip, f"positions 0 to {skip - 1}")
        said.append(f"waves without {left}, far longer than the rest" if inside else "")
    return Panel(
        key=source.text,
        title=widest_title(table),
        source=(source.name, ""),
        color=source.color,
        drawings=tuple(drawings),
        help=TABLE_HELP,
        foot=" · ".join(filter(None, said)),
        actions=FILES,
        scale_bars=(ScaleBar(_edge(low), _edge(high), SIMILARITY.light),),
        recipe=snippets.image(positions, inside, skip=skip),
    )


def _edge(value: float) -> str:
    return ("+" if value > 0 else "") + number(value, digits=2 if abs(value) >= 0.1 else 3)


# --- positions of an image's patches ----------------------------------------------------------------------------------


def image_of(source: Opened) -> tuple[str, Absolute] | None:
    """Return the part of a source whose positions lie over an image: the one that is shown, else the first such."""
    if source.embeddings is None:
        return None
    for part in dict.fromkeys([source.part, *source.parts]):
        try:
            encoding = source.embeddings.positions[part] if part else None
        except hpe.HfposembError:
            continue  # its own panel says why
        if isinstance(encoding, Absolute) and encoding.grid is not None:
            return part, encoding
    return None


def patches(opened: Sequence[Opened], picked: Mapping[str, int], session: Session) -> Panels:
    """Draw for every source with positions over an image the maps of its patches, and the picked one large."""
    drawn: list[Panel] = []
    for source in opened:
        if (found := image_of(source)) is not None:
            drawn += patch_panels(source, found[0], found[1], picked, session)
    return Panels(
        tuple(drawn),
        heading="Positions over the image" if drawn else "",
        subheading="Each tile: how like one patch's position is to all. Click a tile to see it large." if drawn else "",
        scale_bars=(ScaleBar("cosine −1", "+1", SIMILARITY.light),) if drawn else (),
        columns=2,
    )


def patch_panels(
    source: Opened, part: str, encoding: Absolute, picked: Mapping[str, int], session: Session
) -> list[Panel]:
    """Draw the tiles of one source, and one patch's map beside them."""
    grid = encoding.grid
    assert grid is not None
    name = " · ".join(filter(None, [f"{grid.rows} × {grid.columns} patches", part if len(source.parts) > 1 else ""]))
    empty = Panel(key=f"{source.text} tiles", title="", source=(source.name, name), color=source.color)
    patch = picked.get(source.text, -1)
    if not 0 <= patch < grid.rows * grid.columns:
        patch = grid.rows // 2 * grid.columns + grid.columns // 2
    if grid.rows * grid.columns > MOST:
        return [replace(empty, message=f"These are {grid.rows * grid.columns:,} patches; up to {MOST:,} are drawn.")]
    try:
        maps = image_patches.patch_maps(encoding)
        tiles = replace(
            empty,
            title=patch_finding(encoding, session),
            drawings=(Drawing(matrix_figures.patch_tiles(maps, chosen=patch), tile_caption(maps)),),
            help=PATCH_HELP,
            foot=first_rows(grid),
            actions=FILES,
            recipe=snippets.patch_tiles(source, part),
        )
        large = replace(
            empty,
            key=f"{source.text} map",
            title=patch_nearest(encoding, patch),
            drawings=(
                Drawing(
                    matrix_figures.patch_map(image_patches.patch_map(encoding, patch), patch), place_of(grid, patch)
                ),
            ),
            actions=FILES,
            emphasis=place_of(grid, patch),
            recipe=snippets.patch_map(source, part, patch),
        )
    except hpe.HfposembError as error:
        return [replace(empty, message=_sentence(error), tone="error")]
    return [tiles, large]


def place_of(grid: Grid, patch: int) -> str:
    """Name a patch by its place."""
    row, column = divmod(patch, grid.columns)
    return f"row\u00a0{row}, column\u00a0{column}"


def first_rows(grid: Grid) -> str:
    """Say which rows of the table are no patches."""
    if not grid.first:
        return "Every row is a patch"
    return "Row 0 is no patch" if grid.first == 1 else f"Rows 0 to {grid.first - 1} are no patches"


def tile_caption(maps: image_patches.PatchMaps) -> str:
    """Say of which patches there are tiles."""
    rows, columns = maps.grid.rows, maps.grid.columns
    if (len(maps.rows), len(maps.columns)) == (rows, columns):
        return "a tile for every patch"
    return f"tiles of {len(maps.rows)} of {rows} rows and {len(maps.columns)} of {columns} columns, evenly spaced"


def patch_finding(encoding: Absolute, session: Session) -> str:
    """Say how much of the variance rows and columns explain, and how much they would of shuffled patches."""
    try:
        found = session.library.result(
            encoding.table, ("grid variance", encoding.grid), lambda: image_patches.grid_variance(encoding)
        )
    except hpe.HfposembError as error:
        return _sentence(error)
    nulls = [spread(found.nulls[name]) for name in ("row", "column")]
    chance = f"{nulls[0]} each" if nulls[0] == nulls[1] else " and ".join(nulls)
    shares = f"Rows explain {percent(found.row)}, columns {percent(found.column)} of the variance"
    return f"{shares}; of shuffled patches {chance}"


def spread(null: null_comparison.Null) -> str:
    """Write a null: its mean and half of its interval."""
    return f"{percent(null.mean)}\u00a0±\u00a0{max(1, round(50 * (null.high - null.low)))}"


def patch_nearest(encoding: Absolute, patch: int) -> str:
    """Say which patches the picked one is most like."""
    grid = encoding.grid
    assert grid is not None
    patches = encoding.table.part(grid.first, grid.first + grid.rows * grid.columns)
    try:
        found = hpe.neighbours(patches, patch, k=min(2, grid.rows * grid.columns - 1))
    except hpe.HfposembError as error:
        return _sentence(error)
    others = [
        f"{place_of(grid, int(row))} ({number(value, digits=2)})"
        for row, value in zip(found.rows, found.values, strict=True)
    ]
    return f"The patch in {place_of(grid, patch)} is most like {listed(others)}"


def pick(event: gr.EventData, picked: dict[str, int]) -> Any:
    """Pick the patch that was clicked, of the source whose map it is in."""
    found = event._data or {}
    index, panel = found.get("index"), found.get("panel")
    if found.get("group") != "patch" or not isinstance(index, int) or index < 0 or not isinstance(panel, str):
        return gr.skip()
    return {**picked, panel.rpartition(" ")[0]: index}


# --- the tab ---------------------------------------------------------------------------------------------------------

# For those who hear the page: every screen has one heading of the first rank.
UNSEEN = """
.block:has(> .html-container > &) { position: absolute; width: 1px; height: 1px; padding: 0; overflow: hidden;
  clip-path: inset(50%); }
"""

# Dragging asks nobody: the mark moves in the browser. Gradio tells of a slider let go by the pointer, not by a key.
MARK_JS = """(index) => {
  window.hfposemb?.mark(%r, %r, index);
  const range = document.activeElement;
  if (range?.type !== "range" || range.dataset.keys) return;
  range.dataset.keys = "heard";
  range.addEventListener("keyup", () => range.dispatchEvent(new PointerEvent("pointerup", { bubbles: true })));
}"""


def tab(session: Session) -> None:
    """Draw the tab and bind it."""
    from ..findings import (
        probing,  # here, for they draw with what this module measures
        shifts,
    )

    first, view = session.open(session.first), View()
    gr.HTML(html_template="<h1>Positions</h1>", css_template=UNSEEN, apply_default_css=False)
    last = longest(first, session) - 1
    with gr.Row(elem_classes="controls"):
        session.source_field()
        method = gr.Radio(
            [("PCA", "pca"), ("UMAP", "umap")], value=view.method, label="Projection", **_SEGMENTED | {"min_width": 165}
        )
        dims = gr.Radio([("2-D", 2), ("3-D", 3)], value=view.dims, label="Dimensions", **_SEGMENTED)
        length = gr.Radio(
            [("All", 0), ("128", 128), ("32", 32)], value=0, label="Positions", **_SEGMENTED | {"min_width": 185}
        )
        marked = gr.Slider(
            0, max(last, 1), value=min(view.marked, last), step=1, label="Marked position", scale=2, min_width=200
        )
        parts = parts_of(first)
        part_field = gr.Dropdown(
            parts,
            value=next(iter(parts), None),
            label="Part",
            filterable=False,
            visible=bool(parts),
            scale=0,
            min_width=200,
        )
    # The choice as a state: with all handlers on the Dropdown's own event, Gradio left every row pending for good.
    part = State(next(iter(parts), None))
    picked = State({})  # the patch of each source that was clicked
    chosen = State(view.marked)  # the marked position, once the slider has been let go
    with gr.Column():
        umaps = session.umaps()
        sources = PanelRow(scope=session.scope, swipe=True)
    together = PanelRow((), scope=session.scope)
    in_logits = PanelRow((), scope=session.scope)
    over = PanelRow((), scope=session.scope)
    shifts.accordion(session, length, part)
    probing.accordion(session, part)
    with gr.Row(elem_classes="controls"):
        waves = gr.Textbox(", ".join(map(str, WAVES)), label="Dimensions drawn as waves", max_lines=1, max_length=80)
    tables = PanelRow((), scope=session.scope, swipe=True)
    requirement_row(session, part, of_part)

    def draw_sources(
        opened: Sequence[Opened],
        method: Method,
        dims: int,
        length: int,
        marked: int,
        done: dict[str, Any],
        part: str | None,
    ) -> Any:
        if not opened:
            said = "Choose one to four sources above, such as sample:bert."
            return (Panel("empty", "No source is chosen", message=said),), [], gr.skip()
        opened = of_part(opened, part)
        wanted = missing_umaps(opened, dims, session) if method == "umap" else []
        failed = bool(wanted) and Umaps.failed(done, wanted)
        if wanted and not failed:
            return gr.skip(), wanted, gr.skip()
        view = View("pca" if failed else method, dims, length, marked)
        return clouds(opened, view, session), [], gr.Radio(value="pca") if failed else gr.skip()

    def draw_slider(opened: Sequence[Opened], part: str | None) -> Any:
        return gr.Slider(maximum=max(longest(of_part(opened, part), session) - 1, 1))

    def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
        parts = parts_of(opened)
        chosen = part if part in parts else next(iter(parts), None)
        return gr.Dropdown(parts, value=chosen, visible=bool(parts)), chosen

    def draw_together(opened: Sequence[Opened], length: int, part: str | None) -> Any:
        return lines(of_part(opened, part), length, session)

    def draw_in_logits(opened: Sequence[Opened]) -> Any:
        return (distance_panel(opened, session),)

    def draw_over(opened: Sequence[Opened], picked: dict[str, int], part: str | None) -> Any:
        return patches(of_part(opened, part), picked, session)

    def draw_tables(opened: Sequence[Opened], length: int, dimensions: str, part: str | None) -> Any:
        return images(of_part(opened, part), length, dimensions, session)

    session.redraw(
        draw_sources,
        [sources, umaps.wanted, method],
        inputs=[method, dims, length, chosen, umaps.done, part],
        on=[method.input, dims.input, length.input, chosen.change, umaps.done.change, part.change],
    )
    session.redraw(draw_slider, [marked], inputs=[part], on=[part.change])
    session.redraw(draw_part, [part_field, part], inputs=[part])
    session.redraw(draw_together, [together], inputs=[length, part], on=[length.input, part.change])
    session.redraw(draw_in_logits, [in_logits])
    session.redraw(draw_over, [over], inputs=[picked, part], on=[picked.change, part.change])
    session.redraw(
        draw_tables, [tables], inputs=[length, waves, part], on=[length.input, waves.submit, waves.blur, part.change]
    )
    part_field.input(_same, part_field, part, **QUIET)
    for name, component in {"method": method, "dims": dims, "length": length, "waves": waves}.items():
        session.keep(name, component)
    chosen.change(_same, chosen, marked, **QUIET)
    session.keep("position", chosen, read=number_up_to(MOST))
    session.keep("part", part, read=text_up_to(80))
    session.keep("patch", picked, read=numbers_by_source, write=json.dumps)
    over.select(pick, picked, picked, trigger_mode="multiple", **QUIET)
    marked.input(None, marked, None, js=MARK_JS % (session.scope, GROUP))
    marked.release(_same, marked, chosen, **QUIET)
    for row in (sources, together, tables):
        row.select(clicked, None, [marked, chosen], trigger_mode="multiple", **QUIET)


def missing_umaps(opened: Sequence[Opened], dims: int, session: Session) -> list[list[Any]]:
    """Return the UMAPs that are still to be computed, as ``Session.umaps`` wants them named."""
    wanted = []
    for source, positions in tables_of(opened, 0, session).items():
        role = "position" if source.part == "position" else f"{source.part}.position"
        if enough(positions) and session.projection(positions.whole, "umap", dims) is None:
            wanted.append([source.text, role, dims])
    return wanted


def clicked(event: gr.EventData) -> Any:
    """Mark the position that was clicked."""
    found = event._data or {}
    index = found.get("index")
    if found.get("group") != GROUP or not isinstance(index, int) or index < 0:
        return gr.skip()
    return index, index


def _same(value: Value) -> Value:
    return value


_SEGMENTED: dict[str, Any] = {"elem_classes": "segmented", "scale": 0, "min_width": 140}
