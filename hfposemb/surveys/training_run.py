"""One table over a training run: maps in a common frame, similarity of any two checkpoints, and figures by step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..analysis.projection.projecting import pca
from ..analysis.row_values import Progress
from ..analysis.rows import directed
from ..comparison.aligned_maps import Points, rotate_onto
from ..comparison.alignment import SAMPLE, every_cka
from ..comparison.matched_rows import FEWEST, by_text, tables_of
from ..comparison.metrics import MEASURES, SECTIONS, Measure, Tables, measures_named
from ..comparison.results import Figure, short
from ..comparison.side_by_side import figures_of
from ..comparison.table_side import directions
from ..errors import HfposembError, InputError, one_line
from ..guesses import several, unknown_choice
from ..models.extraction import extract
from ..tables.documents import plain
from ..tables.embeddings import Embeddings
from ..tables.tabular import Columns, Tabular
from .source_figures import working
from .source_lists import step_of
from .worker_pool import HERE, Engine, Lost, Permits

if TYPE_CHECKING:
    import pandas

Role = Literal["position", "token"]
Read: TypeAlias = Callable[[str], Embeddings]
Values = NDArray[np.float64]

ALIKE_ROWS = 1024
"""Maximum number of rows, evenly spaced, by which two checkpoints are compared."""

MATRIX_ROWS = 256
"""Maximum number of rows in the cosines within a checkpoint: every n-th of those."""


@dataclass(frozen=True, eq=False)
class Course:
    """One figure over a training run [checkpoints]; NaN where it is missing.

    Attributes:
        name: Name of the figure.
        unit: Its unit.
        values: Its values.
        mean: Mean of the null; NaN without a null, as for positions.
        low: Lower end of the null's interval; NaN without a null.
        high: Upper end of that interval; NaN without draws.
    """

    _document = ("unit", "values", "mean", "low", "high")
    name: str
    unit: str
    values: Values
    mean: Values
    low: Values
    high: Values


def _written(course: Course, at: int) -> str:
    """Format a figure at one checkpoint, – where it is missing."""
    value = float(course.values[at])
    return short(value, course.unit) if math.isfinite(value) else "–"


@dataclass(frozen=True, eq=False)
class Trajectory(Tabular):
    """The same rows at several checkpoints, oldest first.

    Attributes:
        role: ``"position"`` or ``"token"``.
        sources: Sources of the checkpoints.
        steps: Their training steps.
        rows: Rows followed, as row numbers of the last table [rows].
        labels: Their labels.
        frames: PCA maps of the checkpoints, each translated, scaled and rotated onto the last [checkpoints, rows, 2].
        disparity: Share that this leaves unexplained, 0 to 1 [checkpoints].
        likeness: CKA of every two checkpoints, over at most ``ALIKE_ROWS`` rows [checkpoints, checkpoints].
        shown: Rows whose cosines are given, as row numbers of the last table [shown].
        cosines: Their cosines within each checkpoint [checkpoints, shown, shown].
        courses: Figures by name.
        missing: Checkpoints that were left out, with the reason.
    """

    _document = ("role", "sources", "steps", "likeness", "disparity", "missing")
    role: Role
    sources: tuple[str, ...]
    steps: tuple[int, ...]
    rows: NDArray[np.int64]
    labels: tuple[str, ...]
    frames: Points
    disparity: Values
    likeness: Values
    shown: NDArray[np.int64]
    cosines: NDArray[np.float32]
    courses: Mapping[str, Course]
    missing: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """List the figures by step, with the similarity of each checkpoint to the last one."""
        courses = self.all_courses
        columns = [[f"{step:,}", *(_written(one, at) for one in courses)] for at, step in enumerate(self.steps)]
        names = ["step", *(one.name for one in courses)]
        widths = [max(map(len, column)) + 2 for column in columns]
        first = max(map(len, names))
        lines = [
            name.ljust(first) + "".join(map(str.rjust, cells, widths))
            for name, *cells in zip(names, *columns, strict=True)
        ]
        return "\n".join([*lines, *(f"left out: {source}: {reason}" for source, reason in self.missing.items())])

    def columns(self) -> Columns:
        """Return one row per checkpoint: ``step``, and each figure of ``all_courses`` by its name."""
        return {"step": self.steps, **{one.name.strip(): one.values for one in self.all_courses}}

    def to_frame(self) -> pandas.DataFrame:
        """Return the ``columns`` as a pandas DataFrame indexed by step; raise ``MissingExtraError`` without pandas."""
        return super().to_frame().set_index("step")

    def to_dict(self) -> dict[str, Any]:
        """Return everything known by step as plain values for JSON; missing values are ``None``."""
        courses = {one.name.strip(): plain(one) for one in self.courses.values()}
        return {**super().to_dict(), "rows": len(self.rows), "metrics": courses}

    @property
    def all_courses(self) -> tuple[Course, ...]:
        """The figures, preceded by the similarity of each checkpoint to the last one, by CKA and by map disparity."""
        none = np.full(len(self.steps), np.nan)
        first = {"CKA with the last": self.likeness[-1], "map's disparity": self.disparity}
        return (*(Course(name, "", values, none, none, none) for name, values in first.items()), *self.courses.values())


def trajectory(
    sources: Sequence[str],
    *,
    role: Role = "position",
    metrics: Sequence[str] | None = (),
    draws: int = 0,
    engine: Engine = HERE,
    progress: Progress | None = None,
    read: Read = extract,
) -> Trajectory:
    """Follow a table over the checkpoints of a training run.

    Checkpoints are ordered by the last number in their names; those without one come last. Checkpoints that cannot be
    read are left out.

    Args:
        sources: Checkpoints, e.g. from ``source_lists.revisions``.
        role: ``"position"`` or ``"token"``.
        metrics: Figures of this table, as in ``hpe.survey``; ``None`` for none.
        draws: Number of surrogates per null; 0 for none.
        engine: Where checkpoints are read.
        progress: Callback for the share of checkpoints done, 0 to 1, and a description.
        read: Opens a source, in any process.

    Returns:
        The trajectory of at most 5,000 rows; more are sampled.

    Raises:
        InputError: If there are fewer than two checkpoints, or fewer than 20 rows that all of them have.
        HfposembError: If the last checkpoint cannot be read.

    Examples:
        >>> import hfposemb as hpe
        >>> from hfposemb.surveys.worker_pool import Engine
        >>> steps = ["sample:gpt2@step-0", "sample:gpt2"]
        >>> hpe.trajectory(steps, metrics=None, engine=Engine(workers=1)).frames.shape
        (2, 256, 2)
    """
    sources = several(sources)
    if wrong := [one for one in sources if not isinstance(one, (str, os.PathLike))]:
        raise InputError(f"expected sources as texts, such as those of hpe.revisions; got {type(wrong[0]).__name__}")
    measures = _measures(role, metrics)
    named = _ordered([str(source) for source in sources])
    if len(named) < 2:
        given = named[0][0] if named else ""
        raise InputError(
            f"a trajectory needs at least 2 checkpoints; got {given or 'none'}; "
            f"list those of a run: hpe.revisions({given or 'owner/name'!r}, 'step*')"
        )
    steps = dict(named)
    rows, labels, texts = _followed(read(named[-1][0]), role)
    names = tuple(one.name for one in measures)
    tasks = [_Task(source, read, role, rows, texts, names, draws) for source in steps]
    found: dict[str, _Moment] = {}
    with engine.running() as pool:
        for done, moment in enumerate(pool.each(_moment, tasks), 1):
            one = _Moment(moment.item.source, moment.reason) if isinstance(moment, Lost) else moment
            found[one.source] = one
            if progress is not None:
                progress(done / len(tasks), f"{done:,} of {len(tasks):,} checkpoints")
    moments = [found[source] for source in steps if not found[source].error]
    missing = {source: found[source].error for source in steps if found[source].error}
    if len(moments) < 2:
        first = ": ".join(next(iter(missing.items())))
        raise InputError(f"only {len(moments)} of {len(steps)} checkpoints could be measured: {first}")
    return _joined(role, moments, steps, rows, labels, missing)


def _ordered(sources: Sequence[str]) -> list[tuple[str, int]]:
    """Return the sources with their steps in order; sources without a number come last."""
    numbers = [step_of(source) for source in sources]
    after = max((number for number in numbers if number is not None), default=-1) + 1
    steps = {source: after if number is None else number for source, number in zip(sources, numbers, strict=True)}
    return sorted(steps.items(), key=lambda named: (named[1], named[0]))


def _measures(role: Role, metrics: Collection[str] | None) -> list[Measure]:
    """Return the requested measures of a table. Raises ``InputError`` if all are of another table."""
    if role not in ("position", "token"):
        raise unknown_choice("role", role, ("position", "token"))
    found = () if metrics is None else measures_named(metrics)
    own = [one for one in found if one.section == role]
    if metrics and not own:
        raise InputError(
            f"{found[0].name.strip()} is a metric of {SECTIONS[found[0].section]}, not of {SECTIONS[role]}"
        )
    return own


# --- on a worker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Task:
    """One checkpoint as work: the ``rows`` of the last one to follow, and the ``texts`` of tokens if they are known."""

    source: str
    read: Read
    role: Role
    rows: NDArray[np.int64]
    texts: Sequence[str]
    metrics: tuple[str, ...]
    draws: int


@dataclass(frozen=True, eq=False)
class _Moment:
    """Result of one checkpoint: which rows it has, their map [rows, 2], some of their vectors, and its figures."""

    source: str
    error: str = ""
    has: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    map: Points = field(default_factory=lambda: np.zeros((0, 2), np.float32))
    vectors: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))
    figures: Mapping[str, Figure] = field(default_factory=dict)


def _followed(last: Embeddings, role: Role) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """Return the rows of the last table that are followed, their labels, and their texts unless they are numbered."""
    table, _ = tables_of(last, last, role)
    usable = directed(table)
    if role == "position" or not table.has_names:
        rows = _sampled(np.flatnonzero(usable))
        return rows, tuple(table.labels[int(row)] for row in rows), ()
    named = {row: text for text, row in by_text(table).items() if usable[row]}
    rows = _sampled(np.array(sorted(named), np.int64))
    texts = tuple(named[int(row)] for row in rows)
    return rows, texts, texts


def _sampled(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
    return rows


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Return up to ``most`` evenly spaced indices below ``count``."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _moment(task: _Task, permits: Permits) -> _Moment:
    try:
        with working(permits):
            return _read(task)
    except (HfposembError, OSError) as error:
        return _Moment(task.source, one_line(error))


def _read(task: _Task) -> _Moment:
    source = task.read(task.source)
    table, _ = tables_of(source, source, task.role)
    if not (task.texts and table.has_names):  # of one model, so the row of a number is the same
        places = np.where(task.rows < table.shape[0], task.rows, -1)
    else:
        known = by_text(table)
        places = np.array([known.get(text, -1) for text in task.texts], np.int64)
    has = (places >= 0) & directed(table)[places]
    layout = pca(table, 2)
    drawn = np.full((len(places), 2), np.nan, np.float32)
    drawn[has] = layout.coordinates[np.searchsorted(layout.rows, places[has])]
    some = _spread(len(places), ALIKE_ROWS)
    vectors = np.full((len(some), table.shape[1]), np.nan, table.dtype)
    vectors[has[some]] = table.take(places[some][has[some]])
    measures = [one for one in MEASURES if one.name in task.metrics]
    figures = figures_of(Tables(source), measures, draws=task.draws)
    return _Moment(task.source, has=has, map=drawn, vectors=vectors, figures=figures)


# --- in the calling process -------------------------------------------------------------------------------------------


def _joined(
    role: Role,
    moments: Sequence[_Moment],
    steps: Mapping[str, int],
    rows: NDArray[np.int64],
    labels: Sequence[str],
    missing: Mapping[str, str],
) -> Trajectory:
    """Keep the rows that all checkpoints have, and align every map to the last."""
    kept = np.logical_and.reduce([one.has for one in moments])
    if (count := int(kept.sum())) < FEWEST:
        raise InputError(f"the checkpoints share {count} {role}s; at least {FEWEST} are needed")
    some = _spread(len(rows), ALIKE_ROWS)
    vectors = [one.vectors[kept[some]] for one in moments]
    few = np.arange(0, len(vectors[-1]), -(-len(vectors[-1]) // MATRIX_ROWS))  # constant stride
    frames, disparity = zip(*(_onto(one.map[kept], moments[-1].map[kept]) for one in moments), strict=True)
    return Trajectory(
        role=role,
        sources=tuple(one.source for one in moments),
        steps=tuple(steps[one.source] for one in moments),
        rows=rows[kept],
        labels=tuple(label for label, has in zip(labels, kept, strict=True) if has),
        frames=np.stack(frames),
        disparity=np.array(disparity),
        likeness=every_cka(vectors),
        shown=rows[some][kept[some]][few],
        cosines=np.stack([_cosines(one[few]) for one in vectors]),
        courses={name: _course([one.figures[name] for one in moments]) for name in moments[-1].figures},
        missing=missing,
    )


def _onto(points: Points, last: Points) -> tuple[Points, float]:
    """Align a map to the last one; a map whose points all coincide is placed at the mean of the last."""
    if not np.ptp(points, axis=0).any():
        return np.broadcast_to(last.mean(axis=0), points.shape).astype(np.float32), 1.0
    return rotate_onto(points, last)


def _cosines(vectors: NDArray[Any]) -> NDArray[np.float32]:
    unit = directions(np.asarray(vectors, np.float32))
    return np.asarray(unit @ unit.T)


def _course(figures: Sequence[Figure]) -> Course:
    nulls = [one.null for one in figures]
    values = np.array([np.nan if one.value is None else one.value for one in figures])
    chance = np.array([[np.nan] * 3 if null is None else [null.mean, null.low, null.high] for null in nulls])
    return Course(figures[-1].name, figures[-1].unit, values, *chance.T)
