"""Results of a comparison as values, text and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ..tables.null_comparison import Null, chance_columns
from ..tables.source_names import names
from ..tables.tabular import Columns, Tabular, card, columns_of, grid
from .alignment import Alignment
from .metrics import MEASURES, REFERENCES, SECTIONS
from .moved_words import Moves


@dataclass(frozen=True)
class Figure:
    """One figure of a source.

    Attributes:
        name: Name of the figure.
        value: Its value; ``None`` if it is not available.
        unit: Its unit.
        note: Why it is not available.
        null: Its null, for figures of tokens.
        references: Its values for tables that are known, "untrained" and "sinusoid", for figures of positions.
        deviation: Its standard deviation over seeds, if it depends on them.
    """

    _document = ("value", "unit", "note", "null", "deviation", "references")
    name: str
    value: float | None
    unit: str
    note: str = ""
    null: Null | None = None
    deviation: float | None = None
    references: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the value as shown in a table; a dash if there is none."""
        return "–" if self.value is None else short(self.value, self.unit)


class Neighbour(NamedTuple):
    """A token and its cosine with a word."""

    label: str
    cosine: float


@dataclass(frozen=True)
class SourceFigures:
    """Figures of one source.

    Attributes:
        source: Name of the source.
        kind: Kind of its position encoding.
        position_shape: Shape of its position table; ``None`` if it has none.
        token_shape: Shape of its token table; ``None`` if it has none.
        metrics: Figures by name.
        neighbours: Nearest neighbours of each word.
        notes: Remarks on the source.
        part: Part of the model that the positions belong to; "" for a model with a single part.
        head: Size of its output head, "tied", or "" if it has none.
    """

    source: str
    kind: str
    position_shape: tuple[int, int] | None
    token_shape: tuple[int, int] | None
    metrics: Mapping[str, Figure]
    neighbours: Mapping[str, tuple[Neighbour, ...]]
    notes: tuple[str, ...]
    part: str = ""
    head: str = ""

    @property
    def positions(self) -> str:
        """The kind of positions and, for a model of several parts, the part they belong to."""
        return f"{self.kind}, {self.part}" if self.part else self.kind

    @property
    def facts(self) -> dict[str, str]:
        """What stands above the figures in tables, by ``FACTS``."""
        values = (self.positions, _shape(self.position_shape), _shape(self.token_shape), self.head or "–")
        return dict(zip(FACTS, values, strict=True))


@dataclass(frozen=True)
class NotCompared:
    """Two sources whose tables of a role could not be compared; as text, a line.

    Attributes:
        role: "position" or "token".
        left: Name of one source.
        right: Name of the other source.
        reason: Why not.
    """

    role: str
    left: str
    right: str
    reason: str

    def __str__(self) -> str:
        return f"{self.role}s of {self.left} and {self.right} are not compared: {self.reason}"


@dataclass(frozen=True)
class Comparison(Tabular):
    """Figures of several sources; as text, a table with one column per source.

    Attributes:
        sources: Figures of each source.
        words: Words whose neighbours are given.
        pairs: Similarity of the tables of every two sources, if requested.
        missing: Pairs that could not be compared, and why.
        moves: Words that moved most and least between every two sources.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.compare(hpe.sinusoidal(256, 128), words=[], draws=0)
        >>> print(found.sources[0].metrics["translation invariance"])
        1.000
    """

    sources: tuple[SourceFigures, ...]
    words: tuple[str, ...]
    pairs: tuple[Alignment, ...] = ()
    missing: tuple[NotCompared, ...] = ()
    moves: tuple[Moves, ...] = ()

    @property
    def nulls(self) -> tuple[Null, ...]:
        """All nulls of the comparison: those of the pairs, then those of the sources."""
        of_pairs = [null for pair in self.pairs for null in pair.measures.values()]
        of_sources = [one.null for source in self.sources for one in source.metrics.values() if one.null]
        return (*of_pairs, *of_sources)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON; unavailable values are ``None``, with a note."""
        return {**super().to_dict(), "missing": list(map(str, self.missing))}

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self)

    def columns(self) -> Columns:
        """Return one row per source and metric.

        ``source``, ``metric``, ``value``, ``unit`` and ``note``, why there is no value; ``chance_low``,
        ``chance_high``, ``p`` and ``draws`` of its null; and ``untrained`` and ``sinusoid``, the values of known tables
        of the same shape.
        """
        rows = [(source.source, figure) for source in self.sources for figure in source.metrics.values()]
        figures = [figure for _, figure in rows]
        return {
            "source": [source for source, _ in rows],
            "metric": [figure.name.strip() for figure in figures],
            **columns_of(figures, "value", "unit", "note"),
            **chance_columns([figure.null for figure in figures]),
            **{name: [figure.references.get(name) for figure in figures] for name in REFERENCES},
        }


T = TypeVar("T", "Alignment", "Moves")
WIDEST = 120
"""Maximum width of a text table in columns; further sources follow in another table."""


WIDEST_NAME = 24
FACTS = ("positions", "position table", "token table", "output head")
MOST_MOVED = 8


def as_text(comparison: Comparison) -> str:
    """Return a comparison as text of up to 120 columns."""
    comparison = _named_shortly(comparison)
    parts = ["\n".join(lines) for lines in _tables(comparison.sources)]
    if any(figure.null or figure.references for source in comparison.sources for figure in source.metrics.values()):
        parts.append(
            "In brackets, for positions: the same figure of an untrained table and of a sinusoid of that shape. For\n"
            "tokens: 2.5 to 97.5 % of random tables of the same shape and scale; for output heads: permuted rows of\n"
            "at most 2,000 tokens. * marks p ≤ .05, which takes 39 draws or more."
        )
    for word in comparison.words:
        near = [
            f"  {source.source}: "
            + ", ".join(f"{label.strip()} {value:.3f}" for label, value in source.neighbours[word])
            for source in comparison.sources
            if word in source.neighbours
        ]
        if near:
            parts.append("\n".join([f"nearest to {word!r}", *near]))
    parts += ["\n".join(_pair(pair)) for pair in comparison.pairs]
    if comparison.pairs and (tests := comparison.pairs[0].among) > 1:
        parts.append(f"p of pairs is corrected for the {tests} comparisons of tables (Holm); in brackets, each alone.")
    parts += ["\n".join(_moves(moves)) for moves in comparison.moves]
    notes = dict.fromkeys(f"{source.source}: {note}" for source in comparison.sources for note in source.notes)
    parts += ["\n".join(map(str, lines)) for lines in (comparison.missing, notes) if lines]
    return "\n\n".join(parts)


def as_html(comparison: Comparison) -> str:
    """Return a comparison as HTML tables: the figures, and the similarity of every two sources."""
    columns = [_column(source) for source in comparison.sources]
    rows = _lines(FACTS, comparison.sources, columns)
    parts = [grid("Metrics", ["", *(source.source for source in comparison.sources)], rows)]
    for pair in comparison.pairs:
        measured = [
            (name, f"{value:.3f}", chance_level(pair.measures.get(name), value, pair.p(name)))
            for name, value in pair.observed.items()
        ]
        notes = [("note", "; ".join(said))] if (said := (*pair.remarks, *pair.notes)) else []
        parts.append(grid(next(_pair(pair)), (), measured) + (card("", notes) if notes else ""))
    return "".join(parts)


def _named_shortly(comparison: Comparison) -> Comparison:
    """Return the same comparison with source names shortened to fit a column."""
    texts = [source.source for source in comparison.sources]
    named = dict(zip(texts, names(texts, widest=WIDEST_NAME), strict=True))

    def renamed(between: T) -> T:
        return replace(between, left=named[between.left], right=named[between.right])

    return replace(
        comparison,
        sources=tuple(replace(source, source=named[source.source]) for source in comparison.sources),
        pairs=tuple(map(renamed, comparison.pairs)),
        moves=tuple(map(renamed, comparison.moves)),
    )


def _tables(sources: Sequence[SourceFigures]) -> Iterator[list[str]]:
    """Yield the lines of each table, with as many sources per table as fit."""
    taken = {name for source in sources for name in source.metrics}
    first = max((len(measure.name) for measure in MEASURES if measure.name in taken), default=0) + 3
    start = 0
    while start < len(sources):
        columns = [_column(source) for source in sources[start:]]
        widths = [max(map(len, cells.values())) + 2 for cells in columns]
        count = 1
        while count < len(columns) and first + sum(widths[: count + 1]) <= WIDEST:
            count += 1
        text: list[str] = []
        for name, *cells in _lines(("", *FACTS[:3]), sources, columns[:count]):
            row = (name.ljust(first) + "".join(map(str.rjust, cells, widths))).rstrip()
            text += [row] if cells else ["", name]
        yield text
        start += count


def _lines(
    facts: Sequence[str], sources: Sequence[SourceFigures], columns: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, ...]]:
    """Yield a title with its cells for each fact and figure, and the heading alone of each section."""
    for fact in facts:
        yield fact, *(cells[fact] for cells in columns)
    for section, heading in SECTIONS.items():
        if names := _named(section, sources):
            yield (heading.capitalize(),)
        for name, title in names.items():
            yield title, *(cells[name] for cells in columns)


def _named(section: str, sources: Sequence[SourceFigures]) -> dict[str, str]:
    """Return the measures of a section that any source has, with their titles including the unit."""
    taken = {name for source in sources for name in source.metrics}
    if section == "head":  # most models have no head of their own
        taken = {name for source in sources for name, one in source.metrics.items() if one.value is not None}
    found = [measure for measure in MEASURES if measure.section == section and measure.name in taken]
    return {one.name: f"{one.name}, %" if one.unit == "%" else one.name for one in found}


def _column(source: SourceFigures) -> dict[str, str]:
    """Return the cells of one source by name, with values and intervals aligned."""
    cells = {"": source.source, **source.facts}
    values = {
        name: str(figure) + ("" if figure.deviation is None else f" ± {short(figure.deviation, figure.unit)}")
        for name, figure in source.metrics.items()
    }
    chances = {name: _beside_it(figure) for name, figure in source.metrics.items()}
    wide, wider = (max(map(len, texts.values()), default=0) for texts in (values, chances))
    for name, value in values.items():
        cells[name] = value.rjust(wide) + (f" {chances[name]:<{wider}}" if wider else "")
    return cells


def _beside_it(figure: Figure) -> str:
    """Return what stands in brackets after a figure: its references, or the interval of its null."""
    if figure.null is None:
        found = {name: short(value, figure.unit) for name, value in figure.references.items()}
        return f"[{' | '.join(found.get(name, '–') for name in REFERENCES)}]" if found else ""
    low, high = (short(value, figure.unit) for value in (figure.null.low, figure.null.high))
    return f"[{low}, {high}]{'*' if figure.null.beyond else ''}"


def short(value: float, unit: str) -> str:
    """Format a value with about three significant digits and no leading 0."""
    if unit in ("components", "position"):
        return f"{value:.0f}"
    size = abs(value)
    digits = 2 if unit == "%" or (size >= 10 and unit != "norm") else 3 if size >= 0.1 else 4
    text = f"{value:.{digits}f}" if size < 1e7 else f"{value:.2e}"
    text = text if text.strip("-.0") else text.lstrip("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _shape(shape: tuple[int, int] | None) -> str:
    return "–" if shape is None else f"{shape[0]:,} × {shape[1]:,}"


def _pair(pair: Alignment) -> Iterator[str]:
    shared = f"{pair.rows:,} {pair.of_what}" + (
        f", {pair.coverage:.0%} of the smaller vocabulary shared" if pair.role == "token" else ""
    )
    yield f"{pair.left} and {pair.right}: {shared}"
    for name, value in pair.observed.items():
        null = pair.measures.get(name)
        yield f"  {name:<18}{value:>7.3f}   {chance_level(null, value, pair.p(name))}".rstrip()
    yield from (f"  {note}" for note in (*pair.remarks, *pair.notes))


def chance_level(null: Null | None, value: float | None = None, p: float | None = None) -> str:
    """Describe a null in one line; "" without a null.

    Args:
        null: The null.
        value: The value beside which it stands; the one that it tests is named if it differs.
        p: Its p value after correction for several tests, beside which the raw one is given if it differs.
    """
    if null is None:
        return ""
    tested = "" if value is None or abs(null.observed - value) < 5e-4 else f"{null.observed:.3f} without outliers; "
    return f"{tested}by chance {null.low:.3f} to {null.high:.3f}, {p_values(null, p)}"


def p_values(null: Null, p: float | None = None, form: Callable[[float], str] | None = None) -> str:
    """Return the p value of a null, and the raw one in brackets if it was corrected for several tests."""
    form = form or (lambda value: f"{value:.{3 if value >= 0.001 else 4}f}")
    if p is None or p == null.p:
        return f"p {form(null.p)}"
    return f"p {form(p)} ({form(null.p)} alone)"


def _moves(moves: Moves) -> Iterator[str]:
    yield (f"words of {moves.left} in {moves.right}: {moves.shared:,} shared, mean distance {moves.mean:.3f}")
    yield f"  of {moves.rows:,} words {moves.null.observed:.3f}   {chance_level(moves.null)}"
    for name, found in (("moved most", moves.most), ("moved least", moves.least)):
        yield f"  {name}: " + ", ".join(f"{move.label.strip()} {move.distance:.2f}" for move in found[:MOST_MOVED])
    yield from (f"  {note}" for note in moves.notes)
