"""Requirements of a position encoding, and which encodings meet them, including the discarded textbook candidates.

An encoding is treated as rows: the vector of each position, or, for mechanisms that depend on distance alone, what
every head adds to the score of a key at that distance. Each requirement has one number, a rule that decides whether it
is met, and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import HfposembError, InputError, MissingTableError
from ...lazy_attributes import lazy_attribute
from ...progress import shown
from ...tables.closed_forms import from_source
from ...tables.embeddings import Embeddings
from ...tables.encodings import Absolute, Alibi, PositionEncoding, RelativeBias, RelativeTable
from ...tables.rotary import Rotary
from ...tables.source_names import names
from ...tables.sources import BuiltinSource
from ...tables.table import EmbeddingTable, Provenance, table_of, walk
from ...tables.tabular import Columns, Tabular
from ...text import percent, small_percent
from ..similarity.nearest_rows import all_neighbours
from .probes import extrapolation_probe

Verdict = Literal["met", "not met", "not measured"]

MOST = 2_048
"""Maximum number of positions examined, from the first; all pairs of them are compared."""

LONGER = 8
"""Factor by which a formula is lengthened, to test how its rows depend on the length."""

GROWS = 1.25
"""Growth of the largest value, when the length doubles, above which an encoding is unbounded; counting grows by 2."""

CHANGES = 1e-6
"""Relative change of a row that exceeds rounding error."""

SAME = 0.01
"""Share of the mean step below which two positions count as indistinguishable."""

STEP = 0.01
"""Minimum length of a step, relative to the mean length of a row, for neighbours to count as distinguishable."""


WIDEST_NAME = 24
MARKS: Mapping[Verdict, str] = {"met": "yes", "not met": " no", "not measured": "  –"}


@dataclass(frozen=True)
class Requirement:
    """One requirement: its number (``None`` if it was not measured), the verdict, and a sentence that explains it."""

    name: str
    value: float | None
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Requirements(Tabular):
    """Requirements of a position encoding, evaluated for one source.

    Attributes:
        source: Name of the source.
        kind: Kind of its position encoding.
        reads: What a row stands for: "position", "distance", or "" if there are no rows.
        rows: Number of rows examined.
        items: One ``Requirement`` for each name in ``CHECKS``; also available by name, as in ``found["unique"]``.
        notes: Remarks on what was examined.
    """

    source: str
    kind: str
    reads: str
    rows: int
    items: tuple[Requirement, ...]
    notes: tuple[str, ...] = ()

    @property
    def met(self) -> int:
        """The number of requirements met."""
        return sum(item.verdict == "met" for item in self.items)

    @property
    def measured(self) -> int:
        """The number of requirements that apply and could be measured."""
        return sum(item.verdict != "not measured" for item in self.items)

    def __str__(self) -> str:
        """List every requirement with its verdict and sentence."""
        lines = [f"{self.source}: {self.met} of {self.measured} requirements met"]
        lines += [f"  {item.name:<23}{item.verdict:<14}{item.sentence}" for item in self.items]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def __getitem__(self, name: str) -> Requirement:
        return self.items[list(CHECKS).index(name)]

    def columns(self) -> Columns:
        """Return one row per requirement: ``name``, ``value``, ``verdict`` and ``sentence``."""
        names = ("name", "value", "verdict", "sentence")
        return {name: [getattr(item, name) for item in self.items] for name in names}


def encoding_requirements(embeddings: Embeddings, *, part: str | None = None) -> Requirements:
    """Evaluate the requirements of a position encoding for a source.

    - *bounded*: the largest absolute value; met if, among eight times as many rows, it stays within a quarter of that
      among four times as many.
    - *independent of length*: the largest change of a row, relative to the mean length of a row, when there are eight
      times as many rows; met up to rounding. Not measured for a learned table, which has one length.
    - *unique*: the smallest distance of two rows, relative to the mean length of a row; met if it is at least 1 % of
      the mean distance of two neighbours.
    - *neighbours apart*: the smallest distance of two neighbours, relative to the mean length of a row; met from 1 %
      on. The sentence also gives the mean distance.
    - *extrapolates*: the mean error, in positions, on the second half of a linear map fitted on the first half; met if
      it is less than an eighth of all positions, the error of always naming the middle of the second half, and the
      encoding is defined beyond its length.

    Formulas are evaluated at eight times the length; a table read from a file has no more rows. Only the first 2,048
    positions are examined.

    Args:
        embeddings: Source to examine.
        part: Part of the model whose positions are examined; by default the part that the words enter.

    Raises:
        MissingTableError: If the source has no positions, or none for ``part``.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.analysis.positions.encoding_properties import encoding_requirements
        >>> encoding_requirements(hpe.sinusoidal(64, 16)).met
        5
    """
    if part is not None and part not in embeddings.positions:
        raise MissingTableError(
            f"{embeddings.name} has no part {part!r} with positions; its parts: {', '.join(embeddings.positions)}"
        )
    with shown(f"requirements of {embeddings.name}"):
        return _measured(embeddings, part)


def _measured(embeddings: Embeddings, part: str | None) -> Requirements:
    encoding = embeddings.position if part is None else embeddings.positions[part]
    try:
        scheme = _Scheme.of(encoding, embeddings)
        if not scheme.typical > 0:
            raise InputError(f"every row of {scheme.table.name} is zero or not finite")
    except HfposembError as error:
        reason = str(error)
        items = tuple(Requirement(name, None, "not measured", reason) for name in CHECKS)
        return Requirements(embeddings.name, encoding.kind, "", 0, items, (reason,))
    items = tuple(_checked(name, scheme) for name in CHECKS)
    return Requirements(embeddings.name, encoding.kind, scheme.reads, len(scheme.rows), items, scheme.notes)


@dataclass(frozen=True, eq=False)
class _Scheme:
    """An encoding as rows [n, values].

    ``longer`` holds the same encoding at ``LONGER`` / 2 and ``LONGER`` times the length; it is empty where the length
    is fixed, for the reason given in ``fixed``.
    """

    table: EmbeddingTable
    longer: tuple[EmbeddingTable, ...]
    reads: str
    fixed: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, encoding: PositionEncoding, embeddings: Embeddings) -> _Scheme:
        """Read an encoding. Raises ``HfposembError`` if it has no numbers for a position or a distance."""
        match encoding:
            case Absolute():
                return cls._of_rows(encoding.table, embeddings)
            case Rotary():
                count = min(encoding.length, MOST)
                tables = [encoding.at(length).table for length in (count, *_more(count))]
                note = "a row holds the cosines and sines that rotate queries and keys; nothing is added to words"
                return cls(tables[0], tuple(tables[1:]), "position", "", (note, *_cut(count, encoding.length)))
            case Alibi() | RelativeBias() | RelativeTable():
                count = min(encoding.length, MOST)
                tables = [_by_distance(encoding, length) for length in (count, *_more(count))]
                heads = " of every head" if isinstance(encoding, Alibi | RelativeBias) else ""
                note = (
                    f"rows stand for distances: each holds the bias or vector{heads} for a key that many positions back"
                )
                return cls(tables[0], tuple(tables[1:]), "distance", "", (note, *_cut(count, encoding.length)))
        if encoding.has_table:
            return cls._of_rows(encoding.table, embeddings)
        raise MissingTableError(getattr(encoding, "reason", f"{encoding.kind} positions have no vector for a position"))

    @classmethod
    def _of_rows(cls, table: EmbeddingTable, embeddings: Embeddings) -> _Scheme:
        count = min(table.shape[0], MOST)
        note = _cut(count, table.shape[0])
        longer = tuple(more for rows in _more(count) if (more := _computed(embeddings, rows)) is not None)
        # Where a formula's rows depend on the length, ``count`` rows differ from the first ``count`` rows of a longer
        # table.
        first = (_computed(embeddings, count) if longer else None) or table
        short = first if first.shape[0] == count else first.part(0, count)
        fixed = "" if len(longer) == 2 else f"the table has only {table.shape[0]:,} rows"
        return cls(short, () if fixed else longer, "position", fixed, note)

    @lazy_attribute
    def rows(self) -> NDArray[np.float64]:
        return np.asarray(self.table.rows(0, self.table.shape[0]), np.float64)

    def counted(self, count: int | None = None) -> str:
        """Return a number of rows with its unit; by default the number of all rows."""
        count = len(self.rows) if count is None else count
        return f"{count:,} {self.reads}{'' if count == 1 else 's'}"

    @lazy_attribute
    def typical(self) -> float:
        """The mean length of the finite rows."""
        lengths = np.linalg.norm(self.rows[self.table.finite], axis=1)
        return float(lengths.mean()) if len(lengths) else 0.0

    @lazy_attribute
    def steps(self) -> NDArray[np.float64]:
        """The distances of neighbouring rows [n − 1]; NaN next to a row that is not finite."""
        finite = np.where(self.table.finite[:, None], self.rows, np.nan)
        return np.asarray(np.linalg.norm(np.diff(finite, axis=0), axis=1))


def _more(count: int) -> tuple[int, int]:
    return LONGER // 2 * count, LONGER * count


def _cut(count: int, whole: int) -> tuple[str, ...]:
    return (f"the first {count:,} of {whole:,} positions",) if count < whole else ()


def _computed(embeddings: Embeddings, rows: int) -> EmbeddingTable | None:
    """Return ``rows`` rows of a built-in formula; ``None`` for other sources, or if the length is out of range."""
    config = embeddings.config
    if "builtin" not in config:
        return None
    options = {key: str(value) for key, value in config.items() if key not in ("builtin", "rows", "width")}
    try:
        return from_source(BuiltinSource(config["builtin"], rows, config["width"], options)).position.table
    except HfposembError:
        return None


def _by_distance(encoding: Alibi | RelativeBias | RelativeTable, length: int) -> EmbeddingTable:
    """Return what a key 0, 1, 2 … positions back is given [length, heads or width]; NaN where nothing is defined."""
    back = -np.arange(length)
    match encoding:
        case Alibi():
            values = np.multiply.outer(back, encoding.effective)
        case RelativeBias():
            values = encoding.bias_at(back)
        case RelativeTable():
            row = encoding.row_of(back)
            values = np.where((row >= 0)[:, None], np.asarray(encoding.rows, np.float64)[row], np.nan)
    name = f"{encoding.kind} by distance"
    return table_of(np.asarray(values, np.float64), name=name, provenance=Provenance(encoding.kind))


def side_by_side(found: Sequence[Requirements]) -> str:
    """Format the requirements of several sources as one text table of numbers and verdicts."""
    shown = names([one.source for one in found], widest=WIDEST_NAME)
    width = max(16, *(len(name) + 2 for name in shown))
    lines = [f"{'':<21}" + "".join(f"{name:>{width}}" for name in shown)]
    for place, name in enumerate(CHECKS):
        cells = [
            f"{'–' if item.value is None else _said(item.value)}  {MARKS[item.verdict]}"
            for item in (one.items[place] for one in found)
        ]
        lines.append(f"{name:<21}" + "".join(f"{cell:>{width}}" for cell in cells))
    lines.append(f"{'met':<21}" + "".join(f"{f'{one.met} of {one.measured}':>{width}}" for one in found))
    return "\n".join(lines)


# --- the requirements -------------------------------------------------------------------------------------------------


def _bounded(scheme: _Scheme) -> Requirement:
    largest = _largest(scheme.table)
    if not scheme.longer:
        return _item("bounded", largest, True, f"The largest absolute value is {_said(largest)}; {scheme.fixed}.")
    half, whole = map(_largest, scheme.longer)
    met = whole <= GROWS * half
    verb = "is" if met else "keeps growing:"
    sentence = (
        f"The largest absolute value {verb} {_said(largest)} over {scheme.counted()}, {_said(whole)} over {LONGER} "
        "times as many."
    )
    return _item("bounded", largest, met, sentence)


def _independent(scheme: _Scheme) -> Requirement:
    if not scheme.longer:
        return Requirement("independent of length", None, "not measured", f"Not applicable: {scheme.fixed}.")
    rows = scheme.table.shape[0]
    moved = np.linalg.norm(np.asarray(scheme.longer[-1].rows(0, rows), np.float64) - scheme.rows, axis=1)
    change = float(np.nanmax(moved)) / scheme.typical
    if change <= CHANGES:
        return _item(
            "independent of length",
            change,
            True,
            f"No row changes with {LONGER} times as many {scheme.reads}s.",
        )
    sentence = (
        f"With {LONGER} times as many {scheme.reads}s, a row changes by up to {_percent(change)} of the mean row norm."
    )
    return _item("independent of length", change, False, sentence)


def _unique(scheme: _Scheme) -> Requirement:
    found = all_neighbours(scheme.table, k=1, metric="euclidean")
    place = int(found.values[:, 0].argmin())
    smallest = float(found.values[place, 0])
    step = float(np.nanmean(scheme.steps)) if np.isfinite(scheme.steps).any() else 0.0
    pair = sorted((int(found.rows[place]), int(found.indices[place, 0])))
    nearest = f"The closest two are {scheme.reads}s {pair[0]:,} and {pair[1]:,}"
    if smallest == 0:
        return _item("unique", 0.0, False, f"{nearest}, which are identical.")
    sentence = f"{nearest}, {_percent(smallest / step)} of the mean step apart." if step else f"{nearest}."
    return _item("unique", smallest / scheme.typical, smallest >= SAME * step, sentence)


def _apart(scheme: _Scheme) -> Requirement:
    if not np.isfinite(scheme.steps).any():
        raise InputError(f"{scheme.table.name} has no two neighbouring rows that are finite")
    at = int(np.nanargmin(scheme.steps))
    smallest, mean = (float(size) / scheme.typical for size in (scheme.steps[at], np.nanmean(scheme.steps)))
    sentence = (
        f"A step is {_percent(mean)} of the mean row norm on average and {_percent(smallest)} at least, from {at:,} to "
        f"{at + 1:,}."
    )
    return _item("neighbours apart", smallest, smallest >= STEP, sentence)


def _extrapolates(scheme: _Scheme) -> Requirement:
    error, guess = extrapolation_probe(scheme.table), int(scheme.table.finite.sum()) / 8
    better = error < guess
    sentence = (
        f"A linear map fitted on the first half is off by {scheme.counted(round(error))} on the second half; always "
        f"guessing its middle is off by {guess:,.0f}"
    )
    sentence += f"; {scheme.fixed}." if scheme.fixed else "; the formula is defined beyond."
    return _item("extrapolates", error, better and not scheme.fixed, sentence)


CHECKS: Mapping[str, Callable[[_Scheme], Requirement]] = {
    "bounded": _bounded,
    "independent of length": _independent,
    "unique": _unique,
    "neighbours apart": _apart,
    "extrapolates": _extrapolates,
}
"""The checks by name, in display order."""


def _item(name: str, value: float, met: bool, sentence: str) -> Requirement:
    return Requirement(name, value, "met" if met else "not met", sentence)


def _checked(name: str, scheme: _Scheme) -> Requirement:
    try:
        return CHECKS[name](scheme)
    except HfposembError as error:
        return Requirement(name, None, "not measured", f"{error}.")


def _largest(table: EmbeddingTable) -> float:
    """Return the largest absolute value among the finite rows."""
    parts = (np.abs(vectors[np.isfinite(vectors).all(axis=1)]).max(initial=0.0) for _, vectors in walk(table))
    return float(max(parts))


def _said(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def _percent(share: float) -> str:
    return small_percent(share) if share <= 1 else percent(share)
