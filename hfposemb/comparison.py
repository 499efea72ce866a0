"""Several sources side by side: the figures of each one's positions and tokens, and whom its words have beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .alignment import Alignment, align
from .embeddings import Embeddings
from .errors import HfposembError, InputError, MissingTableError
from .geometry import (
    Spectrum,
    anisotropy,
    directed,
    norms,
    outliers,
    similarity_by_distance,
    spectrum,
    translation_invariance,
)
from .moved import Moves, moved
from .nulls import DRAWS, Null
from .position import Rotary, table_in
from .similarity import neighbours
from .table import EmbeddingTable

WIDEST_NAME = 24
MOST_FLAGGED = 8


@dataclass(frozen=True)
class Figure:
    """Hold one figure; where ``value`` is ``None``, ``note`` says why it cannot be had.

    ``null`` is what chance gives for the same figure; ``deviation`` that over seeds, where it depends on them.
    """

    name: str
    value: float | None
    unit: str
    note: str = ""
    null: Null | None = None
    deviation: float | None = None

    def __str__(self) -> str:
        """The value as in a table: without a leading 0, and with about three digits that say something."""
        if self.value is None:
            return "–"
        if self.unit == "components":
            return f"{self.value:.0f}"
        size = abs(self.value)
        digits = 2 if self.unit == "%" or (size >= 10 and self.unit != "norm") else 3 if size >= 0.1 else 4
        text = f"{self.value:.{digits}f}"
        return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


class _Source:
    """The tables of a source and what several figures need of them, computed once; absent ones raise their reason."""

    def __init__(self, source: Embeddings) -> None:
        self.source = source

    @cached_property
    def position(self) -> EmbeddingTable:
        encoding = self.source.position
        if isinstance(encoding, Rotary):
            # It has a table of cosines and sines; beside rows that a model adds, their norms and shares mean nothing.
            raise MissingTableError(
                "rotary positions have no row for each position that is added to a word; use .matrix() or .profile()"
            )
        return table_in(encoding)

    @property
    def token(self) -> EmbeddingTable:
        return self.source.token

    @cached_property
    def position_spectrum(self) -> Spectrum:
        return spectrum(self.position)

    @cached_property
    def token_spectrum(self) -> Spectrum:
        return spectrum(self.token)

    @cached_property
    def by_distance(self) -> NDArray[np.float64]:
        return similarity_by_distance(self.position)

    def variance(self, components: int) -> float:
        return 100 * float(self.position_spectrum.cumulative[:components][-1])

    def cosine(self, distance: int) -> float:
        if distance >= len(self.by_distance):
            raise InputError(f"{self.position.name} has {len(self.by_distance)} positions, none {distance} apart")
        return float(self.by_distance[distance])

    def norm(self, row: int) -> float:
        return float(norms(self.position)[row])

    def mean_norm(self, table: EmbeddingTable) -> float:
        if not table.finite.any():
            raise InputError(f"{table.name} has no row that is finite")
        return float(np.nanmean(norms(table)))


@dataclass(frozen=True)
class Measure:
    """Name a figure of a source, its unit, and how it is had."""

    name: str
    unit: str
    take: Callable[[_Source], float]


def _variance(source: _Source, *, components: int) -> float:
    return source.variance(components)


def _components(source: _Source, *, share: float) -> float:
    return source.position_spectrum.components_for(share)


def _cosine(source: _Source, *, distance: int) -> float:
    return source.cosine(distance)


MEASURES: tuple[Measure, ...] = (
    *(Measure(f"variance of {count} components", "%", partial(_variance, components=count)) for count in (2, 3, 5)),
    *(
        Measure(f"components for {share} %", "components", partial(_components, share=share / 100))
        for share in (90, 95, 99)
    ),
    Measure("effective rank", "", lambda source: source.position_spectrum.effective_rank),
    Measure("participation ratio", "", lambda source: source.position_spectrum.participation_ratio),
    Measure("IsoScore", "", lambda source: source.position_spectrum.isoscore),
    Measure("IsoScore of noise", "", lambda source: source.position_spectrum.isoscore_of_noise),
    *(
        Measure(f"mean cosine at distance {distance}", "cosine", partial(_cosine, distance=distance))
        for distance in (1, 2, 4, 8, 16)
    ),
    Measure("translation invariance", "", lambda source: translation_invariance(source.position)),
    Measure("norm of position 0", "norm", lambda source: source.norm(0)),
    Measure("mean norm", "norm", lambda source: source.mean_norm(source.position)),
    Measure("norm of the last position", "norm", lambda source: source.norm(-1)),
    Measure("token mean norm", "norm", lambda source: source.mean_norm(source.token)),
    Measure(
        "token norm / position norm",
        "",
        lambda source: source.mean_norm(source.token) / source.mean_norm(source.position),
    ),
    Measure("token anisotropy", "cosine", lambda source: anisotropy(source.token)),
    Measure("token IsoScore", "", lambda source: source.token_spectrum.isoscore),
    Measure("token IsoScore of noise", "", lambda source: source.token_spectrum.isoscore_of_noise),
)
"""Every figure that is compared, in the order shown; those that do not say "token" are of the position table."""


@dataclass(frozen=True)
class SourceFigures:
    """Hold the figures of one source by name, the neighbours (label, cosine) of each word, and what to know of them.

    A shape is ``None`` where the source has no such table.
    """

    source: str
    kind: str
    position_shape: tuple[int, int] | None
    token_shape: tuple[int, int] | None
    metrics: Mapping[str, Figure]
    neighbours: Mapping[str, tuple[tuple[str, float], ...]]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Hold the figures of several sources; its text is a table with a column for each.

    ``pairs`` says how alike the tables of every two sources are, where that was asked for; ``missing`` why some pair
    could not be compared.
    """

    sources: tuple[SourceFigures, ...]
    words: tuple[str, ...]
    pairs: tuple[Alignment, ...] = ()
    missing: tuple[str, ...] = ()
    moves: tuple[Moves, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON; what cannot be had is null, with its note."""
        return {
            "words": list(self.words),
            "sources": [
                {
                    "source": source.source,
                    "kind": source.kind,
                    "position_shape": None if source.position_shape is None else list(source.position_shape),
                    "token_shape": None if source.token_shape is None else list(source.token_shape),
                    "metrics": {
                        name: {key: value for key, value in asdict(figure).items() if key != "name"}
                        for name, figure in source.metrics.items()
                    },
                    "neighbours": {
                        word: [{"label": label, "cosine": value} for label, value in found]
                        for word, found in source.neighbours.items()
                    },
                    "notes": list(source.notes),
                }
                for source in self.sources
            ],
            "pairs": [asdict(pair) for pair in self.pairs],
            "missing": list(self.missing),
            "moves": [asdict(moves) for moves in self.moves],
        }

    def __str__(self) -> str:
        names = [_shortened(source.source) for source in self.sources]
        lines = [
            _Line("", names),
            _Line("positions", [source.kind for source in self.sources]),
            _Line("position table", [_shape(source.position_shape) for source in self.sources]),
            _Line("token table", [_shape(source.token_shape) for source in self.sources]),
        ]
        for measure in MEASURES:
            name = f"{measure.name}, %" if measure.unit == "%" else measure.name
            lines.append(_Line(name, [str(source.metrics[measure.name]) for source in self.sources]))
        first = max(len(line.name) for line in lines)
        widths = [max(len(line.cells[column]) for line in lines) + 2 for column in range(len(names))]
        text = [line.name.ljust(first) + "".join(map(str.rjust, line.cells, widths)) for line in lines]
        for word in self.words:
            near = [
                f"  {name}: " + ", ".join(f"{label.strip()} {value:.3f}" for label, value in source.neighbours[word])
                for name, source in zip(names, self.sources, strict=True)
                if word in source.neighbours
            ]
            text += ["", f"nearest to {word!r}", *near] if near else []
        for pair in self.pairs:
            shared = f"{pair.rows:,} {pair.role}s" + (
                f", {pair.coverage:.0%} of the smaller vocabulary shared" if pair.role == "token" else ""
            )
            text += ["", f"{_shortened(pair.left)} and {_shortened(pair.right)}: {shared}"]
            for name, null in pair.measures.items():
                chance = f"{null.kind} {null.low:.3f} to {null.high:.3f}, p {null.p:.3f}"
                text.append(f"  {name:<18}{null.observed:>7.3f}   {chance}")
            text += [f"  {note}" for note in pair.notes]
        text += ["", *self.missing] if self.missing else []
        notes = dict.fromkeys(
            f"{name}: {note}" for name, source in zip(names, self.sources, strict=True) for note in source.notes
        )
        return "\n".join([*text, *([""] if notes else []), *notes])

    __repr__ = __str__


@dataclass(frozen=True)
class _Line:
    name: str
    cells: Sequence[str]


def _shortened(name: str) -> str:
    """Keep the end of a long name, where names of models differ."""
    return name if len(name) <= WIDEST_NAME else "…" + name[1 - WIDEST_NAME :]


def _shape(shape: tuple[int, int] | None) -> str:
    return "–" if shape is None else f"{shape[0]} × {shape[1]}"


def _figure(source: _Source, measure: Measure) -> Figure:
    try:
        value = measure.take(source)
    except HfposembError as error:
        return Figure(measure.name, None, measure.unit, str(error))
    if not math.isfinite(value):
        return Figure(measure.name, None, measure.unit, "the rows it is taken from hold NaN or Inf, or are zero")
    return Figure(measure.name, value, measure.unit)


def _flags(role: str, table: EmbeddingTable) -> list[str]:
    """Say which rows bend the averages: those left out, and positions whose norm stands out."""
    notes = []
    if missing := int((~table.finite).sum()):
        notes.append(f"{missing:,} of {table.shape[0]:,} {role} rows hold NaN or Inf and are left out")
    if role == "position" and len(rows := outliers(table)):
        named = ", ".join(map(str, rows[:MOST_FLAGGED])) + (", …" if len(rows) > MOST_FLAGGED else "")
        notes.append(f"norms that stand out: {named} ({len(rows)} of {table.shape[0]:,} positions)")
    return notes


def _source_figures(embeddings: Embeddings, words: Sequence[str], k: int) -> SourceFigures:
    source = _Source(embeddings)
    kind, notes = "none", list(embeddings.notes)
    shapes: dict[str, tuple[int, int]] = {}
    if embeddings.positions:
        kind = embeddings.position.kind
        if len(parts := list(embeddings.positions)) > 1:
            notes.append(f"the figures are of {parts[0]}; it also has positions of {', '.join(parts[1:])}")
    for role in ("position", "token"):
        try:
            table: EmbeddingTable = getattr(source, role)
        except HfposembError as error:
            notes.append(str(error))
        else:
            shapes[role] = table.shape
            notes += _flags(role, table)
    near: dict[str, tuple[tuple[str, float], ...]] = {}
    if "token" in shapes:
        labels = source.token.labels
        for word in words:
            if (row := labels.find(word)) is not None and directed(source.token)[row]:
                found = neighbours(source.token, row, k=k)
                near[word] = tuple(zip(found.labels, map(float, found.values), strict=True))
        if absent := [word for word in words if word not in near]:
            notes.append(f"no single token is named {', '.join(absent)}: no neighbours of it")
    return SourceFigures(
        source=embeddings.name,
        kind=kind,
        position_shape=shapes.get("position"),
        token_shape=shapes.get("token"),
        metrics={measure.name: _figure(source, measure) for measure in MEASURES},
        neighbours=near,
        notes=tuple(dict.fromkeys(notes)),
    )


def compare(
    *sources: Embeddings,
    words: Sequence[str] = ("king", "queen", "paris"),
    k: int = 10,
    pairs: bool = True,
    draws: int = DRAWS,
    fold_case: bool = False,
    leave_out: bool = False,
) -> Comparison:
    """Measure sources side by side: their position tables, their token tables, and the ``k`` neighbours of ``words``.

    With ``pairs`` the position tables and the token tables of every two sources are compared too, each number beside
    ``draws`` surrogates, tokens beside half as many (``alignment.align``); that takes seconds a pair. A source without
    a part has no figures of it and says why. Raises ``InputError`` without sources.
    """
    if not sources:
        raise InputError('compare() takes one source or more, such as extract("gpt2") and sinusoidal(1024, 768)')
    if isinstance(words, str):
        raise InputError(f"words is a sequence of words; got the text {words!r}: write words=[{words!r}]")
    aligned: list[Alignment] = []
    missing: list[str] = []
    moves: list[Moves] = []
    for left, right in combinations(sources, 2) if pairs else ():
        for role in ("position", "token"):
            try:
                drawn = draws if role == "position" else max(draws // 2, 1)
                aligned.append(align(left, right, role, draws=drawn, fold_case=fold_case))
                if role == "token":
                    moves.append(moved(left, right, k=k, fold_case=fold_case))
            except HfposembError as error:
                missing.append(f"{role}s of {left.name} and {right.name} are not compared: {error}")
    figures = tuple(_source_figures(source, words, k) for source in sources)
    return Comparison(figures, tuple(words), tuple(aligned), tuple(missing), tuple(moves))
