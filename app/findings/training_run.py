"""A training run: its checkpoints as maps and matrices, and any metric by training step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hfposemb.checkpoints.access import STRANGER
from hfposemb.comparison.metrics import measures_of
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, matrix_figures, position_figures, style
from hfposemb.figures.palette import POSITION, SHARE, SIMILARITY
from hfposemb.figures.position_figures import MapFrame
from hfposemb.figures.style import Series
from hfposemb.reports import html_tables
from hfposemb.samples import TRAINED
from hfposemb.surveys.source_lists import revisions
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource, LocalSource, SampleSource
from hfposemb.text import number, one_line, percent

from ..components.help_texts import HELP
from ..components.plot import Drawing, Panel, Panels, ScaleBar
from ..components.recipe import Recipe
from ..limits import CHECKPOINTS, PUBLIC_CHECKPOINTS
from ..recipes import comparison_snippets, writing
from ..session.library import source_key
from ..session.opened import Opened
from ..session.source_names import short_name
from .chosen_word import FIRST_WORDS

if TYPE_CHECKING:
    from hfposemb.surveys.training_run import Course, Trajectory


PATTERN = "*[0-9]*"
ROLES = {"Positions": "position", "Tokens": "token"}
FIRST_FIGURE = {"position": "mean cosine at distance 1", "token": "CKA with the last"}
LAST = -1
"""Denotes the last step, whatever its number."""


@dataclass(frozen=True)
class Run:
    """A training run to follow: one of the sources on the page, without its revision."""

    source: Opened
    role: str
    pattern: str
    most: int
    public: bool = False

    @property
    def wanted(self) -> list[Any]:
        """The arguments of the job, and for a folder the number of its checkpoints, which grows during training."""
        text, pattern = self.source.text, self.pattern
        count = in_folder(text, pattern, public=self.public)
        return [text, self.role, pattern, self.most, *([count] if count else [])]


ARGUMENTS = 4
"""Number of arguments of the job."""


def in_folder(text: str, pattern: str, *, public: bool) -> int:
    """Return the number of checkpoints in a folder on this machine; 0 for other sources, and for visitors."""
    try:
        named = isinstance(parse_source(text), LocalSource)
        return len(revisions(text, pattern, token=STRANGER if public else None)) if named else 0
    except HfposembError:
        return 0


def run_key(wanted: Sequence[Any], *, public: bool) -> Hashable:
    """Return the key of a run in the library's results. Raises ``SourceError`` for forbidden sources."""
    text, role, pattern, most = wanted[:ARGUMENTS]
    source = source_key(text, public=public)
    return ("training", role, pattern, most, in_folder(text, pattern, public=public), source)


@dataclass(frozen=True)
class Moment:
    """A run that was followed, the index of one of its checkpoints, and the total number of checkpoints."""

    run: Run
    found: Trajectory
    place: int
    total: int

    @property
    def step(self) -> str:
        """The step as text."""
        return number(self.found.steps[self.place], digits=0)

    @property
    def source(self) -> tuple[str, str]:
        """The heading of a panel."""
        return self.run.source.name, f"{self.run.role}s · step {self.step}"

    def recipe(self, value: str, *, metrics: Sequence[str] | None = None, printed: bool = False) -> Recipe:
        """Return the recipe of a value of the run, with a command for ``metrics`` or if the value is ``printed``."""
        one = self.run
        most = one.most if self.total > one.most else None
        return comparison_snippets.training(
            one.source, one.pattern, one.role, value=value, metrics=metrics, printed=printed, most=most
        )


def run_of(text: str) -> str | None:
    """Return the run that a source is a checkpoint of, ``None`` if it has no training."""
    try:
        match parse_source(text):
            case SampleSource(name, _) if name in TRAINED:
                return f"sample:{name}"
            case HubSource(repo, _):
                return repo
            case LocalSource(_):
                return text.strip()
    except HfposembError:
        pass
    return None


def runs_of(opened: Sequence[Opened]) -> dict[str, Opened]:
    """Return the distinct runs among the sources, with the name and colour of their first source."""
    found: dict[str, Opened] = {}
    for source in opened:
        if (run := _run_in(source)) is not None:
            whole = source.text.strip() == run
            named = replace(source, text=run, name=short_name(run), embeddings=source.embeddings if whole else None)
            found.setdefault(run, named)
    return found


def _run_in(source: Opened) -> str | None:
    """Return the run of a source: of a local checkpoint the folder around it, ``None`` if it has no siblings there."""
    run = run_of(source.text)
    if run is None or source.embeddings is None:
        return run
    named = parse_source(source.text)
    if not isinstance(named, LocalSource):
        return run
    around = str(LocalSource(named.path.parent, in_home=named.in_home))
    # It was opened, so that whoever asks may open what is beside it.
    return next((folder for folder in (run, around) if in_folder(folder, "*", public=False) > 1), None)


def chosen_run(opened: Sequence[Opened], of: str, role: str, pattern: str, *, public: bool) -> Run | None:
    """Return the selected run, or the first; ``None`` if no source has one."""
    runs = runs_of(opened)
    source = runs.get(of) or next(iter(runs.values()), None)
    most = PUBLIC_CHECKPOINTS if public else CHECKPOINTS
    return None if source is None else Run(source, ROLES[role], pattern.strip() or PATTERN, most, public)


def moment_panels(moment: Moment) -> Panels:
    """Return the map at a step, and for positions also the cosines."""
    found, place = moment.found, moment.place
    joined = found.role == "position"
    order = found.rows if joined else None
    words = [word.strip() for word in FIRST_WORDS.split(",")]
    named = [] if joined else [at for at, label in enumerate(found.labels) if label.strip() in words]
    frame = MapFrame.of(*found.frames)
    drawn = position_figures.aligned_map(
        found.frames[place], found.labels, frame=frame, link="training", order=order, named=named, height=520
    )
    left_out = f"; {len(found.missing)} cannot be read: {_first(found)}" if found.missing else ""
    far = frame.left_out(frame.outside(found.frames[place]))
    count = len(found.steps)
    shown = f"{count} of {moment.total:,} checkpoints" if moment.total > count else f"all {count} checkpoints"
    about = ["PCA", f"{len(found.rows):,} {found.role}s", f"{shown}{left_out}", far]
    panels = [
        Panel(
            "training-map",
            map_title(moment),
            (Drawing(drawn),),
            source=moment.source,
            color=moment.run.source.color,
            help=HELP["training map"],
            foot=one_line(" · ".join(filter(None, about))),
            scale_bars=(ScaleBar("first position", "last", POSITION.light),) if joined else (),
            recipe=moment.recipe(f"run.frames[{place}]"),
        )
    ]
    if joined:
        every = int(found.shown[1] - found.shown[0]) if len(found.shown) > 1 else 1
        matrix = matrix_figures.similarity_matrix(found.cosines[place], first=int(found.shown[0]), every=every)
        panels.append(
            Panel(
                "training-matrix",
                matrix_title(moment),
                (Drawing(matrix),),
                source=moment.source,
                color=moment.run.source.color,
                help=HELP["training matrix"],
                foot="" if every == 1 else f"One of every {every} positions",
                scale_bars=(ScaleBar("cosine −1", "+1", SIMILARITY.light),),
                recipe=moment.recipe(f"run.cosines[{place}]"),
            )
        )
    return Panels(tuple(panels), columns=2)


def _first(found: Trajectory) -> str:
    return next(f"{source}: {reason}" for source, reason in found.missing.items())


def map_title(moment: Moment) -> str:
    """State how far the map is from the last one."""
    if moment.place == len(moment.found.steps) - 1:
        return f"Final map, step {moment.step} (the others are aligned to it)"
    share = percent(float(moment.found.disparity[moment.place]))
    return f"At step {moment.step}, the aligned map differs from the final one by {share}"


def matrix_title(moment: Moment) -> str:
    """State how similar neighbouring positions are."""
    course = moment.found.courses.get("mean cosine at distance 1")
    if course is None or np.isnan(value := course.values[moment.place]):
        return f"Similarity of all pairs of positions at step {moment.step}"
    return f"At step {moment.step}, neighbouring positions have a mean cosine of {number(float(value))}"


def course_panels(moment: Moment, name: str) -> Panels:
    """Return one metric by step, and the similarity of every two checkpoints."""
    found = moment.found
    course = chosen_course(found, name)
    source, steps = moment.run.source, np.array(found.steps, np.float64)
    lines = [Series(source.name, course.values, source.color, source.dash, at=steps, marks=tuple(range(len(steps))))]
    if np.isfinite(course.mean).any():
        lines.insert(0, Series("chance", course.mean, at=steps, band=(course.low, course.high)))
    x = style.Axis("training step", span=(float(steps[0]), float(steps[-1])))
    drawn = line_figures.curves(lines, x=x, y=style.Axis(course.name.strip()), marked=steps[moment.place], height=520)
    names = [number(step, digits=0) for step in found.steps]
    return Panels(
        (
            Panel(
                "training-course",
                course_title(found, course),
                (Drawing(drawn),),
                source=(source.name, f"{found.role}s · {course.name.strip()} by step"),
                color=source.color,
                subtitle=beyond_chance(found, course),
                help=HELP["training course"],
                recipe=course_recipe(moment, course),
            ),
            Panel(
                "training-alike",
                alike_title(found),
                (Drawing(matrix_figures.similarity_matrix(found.likeness, labels=names, unit="share")),),
                source=(source.name, f"{found.role}s · CKA of all pairs of checkpoints"),
                color=source.color,
                scale_bars=(ScaleBar("CKA 0", "1", SHARE.light),),
                help=HELP["checkpoints alike"],
                recipe=moment.recipe("run.likeness", printed=True),
            ),
        ),
        columns=2,
    )


def chosen_course(found: Trajectory, name: str) -> Course:
    """Return the metric of this name, or the first one."""
    courses = found.all_courses
    return next((one for one in courses if one.name.strip() == name), courses[0])


def course_title(found: Trajectory, course: Course) -> str:
    """State the first and last value of a metric."""
    ends = [html_tables.figure(float(course.values[place]), course.unit) for place in (0, -1)]
    first, last = (number(found.steps[place], digits=0) for place in (0, -1))
    name = course.name.strip()
    return f"{name[:1].upper()}{name[1:]}: {ends[0]} at step {first}, {ends[1]} at step {last}"


def beyond_chance(found: Trajectory, course: Course) -> str:
    """State from which step on a metric is outside its chance interval; empty if chance is unknown."""
    known = np.isfinite(course.low) & np.isfinite(course.values)
    if not known.any():
        return ""
    outside = known & ((course.values < course.low) | (course.values > course.high))
    if (first := _since(outside)) == len(outside):
        return "At the last step, it is within the chance level."
    return f"From step {number(found.steps[first], digits=0)} on, it is outside the chance level."


def _since(holds: np.ndarray) -> int:
    """Return the first index from which a condition holds to the end; the length if it does not."""
    broken = np.flatnonzero(~holds)
    return int(broken[-1]) + 1 if len(broken) else 0


def alike_title(found: Trajectory) -> str:
    """State when CKA with the last checkpoint reaches 0.5 and 0.9."""
    alike = found.likeness[-1]
    said = []
    for part in (0.5, 0.9):
        if (first := _since(alike >= part)) == len(alike):
            return "Similarity of all pairs of checkpoints"
        said.append(f"{number(part, digits=1)} at step {number(found.steps[first], digits=0)}")
    return f"CKA with the last checkpoint reaches {said[0]} and {said[1]}"


def course_recipe(moment: Moment, course: Course) -> Recipe:
    """Return the recipe of a metric by step, and its chance level."""
    if course.name in moment.found.courses:
        named = f"run.courses[{writing.quoted(course.name)}]"
        chance = f', "chance": {named}.mean' if np.isfinite(course.mean).any() else ""
        return moment.recipe(f'{{"values": {named}.values{chance}}}', metrics=[course.name.strip()])
    return moment.recipe("run.likeness[-1]" if "CKA" in course.name else "run.disparity", printed=True)


def figure_names(role: str) -> list[str]:
    """Return the metrics of a role's table that can be followed."""
    own = [one.name.strip() for one in measures_of() if one.section == role]
    return ["CKA with the last", "map's disparity", *own]
