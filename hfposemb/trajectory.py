"""One table over a training run: its maps in one frame, how alike any two checkpoints are, figures by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from .aligned import Points, turned_onto
from .alignment import SAMPLE, cka, shared_rows, tables_of
from .engine import HERE, Engine
from .errors import InputError
from .extract import extract
from .listing import step_of
from .measures import measures_named
from .projection import project
from .similarity import Progress, read_rows
from .survey import survey

if TYPE_CHECKING:
    import pandas

Role = Literal["position", "token"]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Hold the same rows at each of some checkpoints, oldest first.

    ``frames`` [checkpoints, rows, dims] are their maps by PCA, each moved, scaled and turned onto the last one;
    ``disparity`` [checkpoints] is what that leaves unexplained, 0 to 1. ``likeness`` [checkpoints, checkpoints] is the
    CKA of every two. ``rows`` [rows] are those of the last table, named by ``labels``. ``metrics`` has the rows of
    ``hpe.survey`` with a column ``step``.
    """

    role: Role
    sources: tuple[str, ...]
    steps: tuple[int, ...]
    rows: NDArray[np.int64]
    labels: tuple[str, ...]
    frames: Points
    disparity: NDArray[np.float64]
    likeness: NDArray[np.float64]
    metrics: pandas.DataFrame

    def __str__(self) -> str:
        """List the figures by step, with how alike each checkpoint and the last one are."""
        by_step = self.metrics.pivot_table("value", "step", "metric", sort=False)
        by_step.insert(0, "CKA with the last", self.likeness[-1])
        by_step.insert(1, "map's disparity", self.disparity)
        return str(by_step.T.to_string(float_format=lambda value: f"{value:.4g}"))


def trajectory(
    sources: Sequence[str],
    *,
    role: Role = "position",
    metrics: Sequence[str] = (),
    draws: int = 0,
    engine: Engine = HERE,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow a table over the checkpoints of a training run, as ``listing.revisions`` names them.

    They are ordered by the last number in their names; those without one come last. Maps are in 2 dimensions. Of more
    than 5,000 rows that all checkpoints share a seeded sample is taken. Raises ``InputError`` for fewer than two
    checkpoints or 20 shared rows, and ``SourceError`` where one cannot be read.
    """
    numbers = [step_of(source) for source in sources]
    after = max((number for number in numbers if number is not None), default=-1) + 1
    named = sorted(zip((after if one is None else one for one in numbers), sources, strict=True))
    if len(named) < 2:
        raise InputError(f"a trajectory takes two checkpoints or more; got {', '.join(sources) or 'none'}")
    opened = [extract(source) for _, source in named]
    last = opened[-1]
    places = [shared_rows(last, one, role) for one in opened]
    rows = places[0][:, 0]
    for place in places[1:]:
        rows = np.intersect1d(rows, place[:, 0])
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
    if len(rows) < 20:
        raise InputError(f"the checkpoints share {len(rows)} {role}s; at least 20 are needed")
    maps, vectors = [], []
    for done, (one, place) in enumerate(zip(opened, places, strict=True), 1):
        table = tables_of(last, one, role)[1]
        own = place[np.searchsorted(place[:, 0], rows), 1]
        found = project(table, dims=2)
        maps.append(found.coordinates[np.searchsorted(found.rows, own)])
        vectors.append(np.asarray(read_rows(table, own), np.float64))
        if progress is not None:
            progress(0.4 * done / len(opened), f"{done:,} of {len(opened):,} checkpoints read")
    turned = [turned_onto(one, maps[-1]) for one in maps]
    figures = _figures([source for _, source in named], role, metrics, draws, engine, progress)
    step_by_source = {source: step for step, source in named}
    figures.insert(1, "step", figures["source"].map(step_by_source))
    return Trajectory(
        role=role,
        sources=tuple(source for _, source in named),
        steps=tuple(step for step, _ in named),
        rows=rows,
        labels=tuple(tables_of(last, last, role)[0].labels[int(row)] for row in rows),
        frames=np.stack([one.coordinates for one in turned]),
        disparity=np.array([one.disparity for one in turned]),
        likeness=_likeness(vectors),
        metrics=figures,
    )


def _figures(
    sources: Sequence[str],
    role: Role,
    metrics: Sequence[str],
    draws: int,
    engine: Engine,
    progress: Progress | None,
) -> pandas.DataFrame:
    """Return the figures of one role's table; a checkpoint that failed has none and is one that was just read."""

    def told(share: float, doing: str) -> None:
        if progress is not None:
            progress(0.4 + 0.6 * share, doing)

    names = metrics or [one.name.strip() for one in measures_named([]) if one.section == role]
    found = survey(sources, metrics=names, draws=draws, engine=engine, progress=told)
    return found[(found["table"] == role) | found["table"].str.endswith(f".{role}")].reset_index(drop=True)


def _likeness(vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the CKA of every two sets of rows; NaN where it is undefined."""
    found = np.eye(len(vectors))
    for left in range(len(vectors)):
        for right in range(left):
            try:
                found[left, right] = found[right, left] = cka(vectors[left], vectors[right])
            except InputError:
                found[left, right] = found[right, left] = np.nan
    return found
