"""The Training tab: one table over the checkpoints of a run, its maps in one frame and its figures by step."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr
import numpy as np

from hfposemb.comparison.metrics import measures_of
from hfposemb.errors import HfposembError
from hfposemb.figures import line_figures, matrix_figures, position_figures, style
from hfposemb.figures.palette import POSITION, SIMILARITY
from hfposemb.figures.position_figures import MapFrame
from hfposemb.figures.style import Series, number
from hfposemb.reports import html_tables
from hfposemb.surveys.source_lists import revisions
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import HubSource, LocalSource, SampleSource

from ..components.events import QUIET
from ..components.hidden import State
from ..components.plot import Drawing, Panel, PanelRow, Panels, ScaleBar
from ..components.step import of_steps, step_field
from ..jobs import children
from ..jobs.queue import Visitor
from ..recipes import snippets
from ..server.limits import CHECKPOINTS, LONGEST_PATTERN, PUBLIC_CHECKPOINTS, TRAINING_DRAWS
from ..session.address import number_up_to, text_up_to
from ..session.state import Opened, Session, allowed, guarded, one_line, short_name, source_key, unseen_heading
from .tokens import FIRST_WORDS

if TYPE_CHECKING:
    from hfposemb.surveys.training_run import Course, Trajectory

TITLE = "Training"
NEEDS = ()
"""A run is read by the job; of the sources on the page nothing is drawn."""

ROLES = {"Positions": "position", "Tokens": "token"}
PATTERN = "*[0-9]*"
FIRST_FIGURE = {"position": "mean cosine at distance 1", "token": "CKA with the last"}
LAST = -1
"""Stands for the last step, whatever its number."""

MAP_HELP = """
Each checkpoint is projected by itself (PCA), and its map moved, scaled and turned onto that of the last one
(Procrustes). All are drawn in one frame. The title says how much of the last map that leaves unexplained: all of it
where nothing is alike yet, nothing where both have one shape.
"""
MATRIX_HELP = """
The cosine of every two positions, from −1, blue, to 1, orange. Before training they are about 0 but for the diagonal.
Stripes along the diagonal are positions that know their distance; blocks are parts of the window that the model tells
apart.
"""
COURSE_HELP = """
One figure of every checkpoint. The band is the middle 95 % of what chance gives for it at the same step: for positions
curves as smooth as the table itself, for tokens a random table of the same shape and scale. Within the band a figure
says little about the model. The line marks the step of the slider.
"""
ALIKE_HELP = """
CKA of every two checkpoints (Kornblith et al. 2019, unbiased as in Nguyen et al. 2021): 0 for tables that have nothing
in common, 1 for such as differ by rotation, place and scale alone. A bright square is a time in which little changed.
"""


@dataclass(frozen=True)
class Run:
    """A training run that can be asked for: one of the ``source``s on the page, without its revision."""

    source: Opened
    role: str
    pattern: str
    most: int

    @property
    def wanted(self) -> list[Any]:
        """What the job is told."""
        return [self.source.text, self.role, self.pattern, self.most]


def run_key(wanted: Sequence[Any], *, public: bool) -> Hashable:
    """Return the name of a run in the library's results. Raises ``SourceError`` for what may not be asked."""
    text, *others = wanted
    return ("training", *others, source_key(allowed(text, public=public), public=public))


@dataclass(frozen=True)
class Moment:
    """A run that was followed, the place of one of its checkpoints, and how many there are in all."""

    run: Run
    found: Trajectory
    place: int
    total: int

    @property
    def step(self) -> str:
        """The step as it is written."""
        return number(self.found.steps[self.place], digits=0)

    @property
    def source(self) -> tuple[str, str]:
        """What a panel is headed by."""
        return self.run.source.name, f"{self.run.role}s · step {self.step}"

    def recipe(self, value: str, *, metrics: Sequence[str] | None = None, printed: bool = False) -> snippets.Recipe:
        """Return what gives a value of the run, with the command where that has ``metrics``, or is ``printed`` too."""
        one = self.run
        most = one.most if self.total > one.most else None
        return snippets.training(
            one.source, one.pattern, one.role, value=value, metrics=metrics, printed=printed, most=most
        )


def run_of(text: str) -> str | None:
    """Return the run that a source is a moment of, or ``None`` where it has no training."""
    try:
        match parse_source(text):
            case SampleSource(name, _):
                return f"sample:{name}"
            case HubSource(repo, _):
                return repo
            case LocalSource(_):
                return text.strip()
    except HfposembError:
        pass
    return None


def runs_of(opened: Sequence[Opened]) -> dict[str, Opened]:
    """Return the runs among the sources, each once, named and coloured as the first source of it."""
    found: dict[str, Opened] = {}
    for source in opened:
        if (run := run_of(source.text)) is not None and not _alone(source):
            whole = source.text.strip() == run
            named = replace(source, text=run, name=short_name(run), embeddings=source.embeddings if whole else None)
            found.setdefault(run, named)
    return found


def _alone(source: Opened) -> bool:
    """Return whether a source is a local checkpoint whose folder holds no others: a model, not a run of training."""
    if source.embeddings is None or not isinstance(parse_source(source.text), LocalSource):
        return False
    try:
        return len(revisions(source.text.strip(), "*")) < 2
    except HfposembError:
        return True


def chosen_run(opened: Sequence[Opened], of: str, role: str, pattern: str, *, public: bool) -> Run | None:
    """Return the run that is asked for, else the first; ``None`` where no source has one."""
    runs = runs_of(opened)
    source = runs.get(of) or next(iter(runs.values()), None)
    most = PUBLIC_CHECKPOINTS if public else CHECKPOINTS
    return None if source is None else Run(source, ROLES[role], pattern.strip() or PATTERN, most)


# --- the panels -------------------------------------------------------------------------------------------------------


def moment_panels(moment: Moment) -> Panels:
    """Return the map at a step, and of positions the cosines beside it."""
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
    count = len(found.steps)
    shown = f"{count} of {moment.total:,} checkpoints" if moment.total > count else f"all {count} checkpoints"
    panels = [
        Panel(
            "training-map",
            map_title(moment),
            (Drawing(drawn),),
            source=moment.source,
            color=moment.run.source.color,
            help=MAP_HELP,
            foot=one_line(f"PCA · {len(found.rows):,} {found.role}s · {shown}{left_out}"),
            actions=("PNG", "SVG"),
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
                help=MATRIX_HELP,
                foot="" if every == 1 else f"One position of {every}",
                actions=("PNG", "SVG"),
                scale_bars=(ScaleBar("cosine −1", "+1", SIMILARITY.light),),
                recipe=moment.recipe(f"run.cosines[{place}]"),
            )
        )
    return Panels(tuple(panels), columns=2)


def _first(found: Trajectory) -> str:
    return next(f"{source}: {reason}" for source, reason in found.missing.items())


def map_title(moment: Moment) -> str:
    """Say how far the map is from the last one."""
    if moment.place == len(moment.found.steps) - 1:
        return f"The map at step {moment.step}, onto which all others are turned"
    share = 100 * float(moment.found.disparity[moment.place])
    return f"At step {moment.step} the best turn leaves {share:.0f} % of the last map unexplained"


def matrix_title(moment: Moment) -> str:
    """Say how alike neighbouring positions are."""
    course = moment.found.courses.get("mean cosine at distance 1")
    if course is None or np.isnan(value := course.values[moment.place]):
        return f"How alike any two positions are at step {moment.step}"
    return f"At step {moment.step} neighbouring positions have a mean cosine of {number(float(value))}"


def course_panels(moment: Moment, name: str) -> Panels:
    """Return one figure by step, and how alike any two checkpoints are."""
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
                help=COURSE_HELP,
                actions=("PNG", "SVG"),
                recipe=course_recipe(moment, course),
            ),
            Panel(
                "training-alike",
                alike_title(found),
                (Drawing(matrix_figures.similarity_matrix(found.likeness, labels=names, unit="share")),),
                source=(source.name, f"{found.role}s · CKA of every two checkpoints"),
                color=source.color,
                help=ALIKE_HELP,
                actions=("PNG", "SVG"),
                recipe=moment.recipe("run.likeness", printed=True),
            ),
        ),
        columns=2,
    )


def chosen_course(found: Trajectory, name: str) -> Course:
    """Return the figure of this name, else the first one."""
    courses = found.all_courses
    return next((one for one in courses if one.name.strip() == name), courses[0])


def course_title(found: Trajectory, course: Course) -> str:
    """Say where a figure begins and where it ends."""
    ends = [html_tables.figure(float(course.values[place]), course.unit) for place in (0, -1)]
    first, last = (number(found.steps[place], digits=0) for place in (0, -1))
    name = course.name.strip()
    return f"{name[:1].upper()}{name[1:]}: {ends[0]} at step {first}, {ends[1]} at step {last}"


def beyond_chance(found: Trajectory, course: Course) -> str:
    """Say from which step on a figure is outside of what chance gives; nothing where chance is not known."""
    known = np.isfinite(course.low) & np.isfinite(course.values)
    if not known.any():
        return ""
    outside = known & ((course.values < course.low) | (course.values > course.high))
    if (first := _since(outside)) == len(outside):
        return "At the last step it is within what chance gives."
    return f"It is outside of what chance gives from step {number(found.steps[first], digits=0)} on."


def _since(holds: np.ndarray) -> int:
    """Return the first place from which something holds to the end; their number where it does not."""
    broken = np.flatnonzero(~holds)
    return int(broken[-1]) + 1 if len(broken) else 0


def alike_title(found: Trajectory) -> str:
    """Say when half of the last checkpoint was there, and nearly all."""
    alike = found.likeness[-1]
    said = []
    for part in (0.5, 0.9):
        if (first := _since(alike >= part)) == len(alike):
            return "How alike any two checkpoints are"
        said.append(f"{number(part, digits=1)} at step {number(found.steps[first], digits=0)}")
    return f"CKA with the last checkpoint reaches {said[0]} and {said[1]}"


def course_recipe(moment: Moment, course: Course) -> snippets.Recipe:
    """Return what gives a figure by step, and what chance gives."""
    if course.name in moment.found.courses:
        named = f"run.courses[{snippets.quoted(course.name)}]"
        chance = f', "chance": {named}.mean' if np.isfinite(course.mean).any() else ""
        return moment.recipe(f'{{"values": {named}.values{chance}}}', metrics=[course.name.strip()])
    return moment.recipe("run.likeness[-1]" if "CKA" in course.name else "run.disparity", printed=True)


# --- the tab ----------------------------------------------------------------------------------------------------------


def figure_names(role: str) -> list[str]:
    """Return the figures of a role's table that can be followed."""
    own = [one.name.strip() for one in measures_of() if one.section == role]
    return ["CKA with the last", "map's disparity", *own]


def tab(session: Session) -> None:
    """Draw the tab, and bind it. Nothing is read before it comes to the screen."""

    def asked(opened: Sequence[Opened], of: str, role: str, pattern: str) -> Run | None:
        return chosen_run(opened, of, role, pattern, public=session.public)

    def known(run: Run, at: float) -> Moment | None:
        found = session.library.results.get(run_key(run.wanted, public=session.public))
        if found is None:
            return None
        steps = np.array(found.run.steps)
        place = len(steps) - 1 if at == LAST else int(np.abs(steps - at).argmin())
        return Moment(run, found.run, place, found.total)

    def draw_run(
        opened: Sequence[Opened],
        of: str,
        role: str,
        pattern: str,
        figure: str,
        at: float,
        done: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Draw a run; one that is still to be followed is wanted, and what was drawn before stays."""
        run, hidden = asked(opened, of, role, pattern), gr.update(visible=False)
        if run is None:
            empty = Panel("training-map", "No source here has a training run", message=NONE)
            return [Panels((empty,)), Panels(()), hidden, [], hidden]
        try:
            moment = known(run, at)
        except HfposembError as error:
            return [Panels((_message(run, one_line(str(error))),)), Panels(()), hidden, [], hidden]
        if moment is not None:
            slider = of_steps(moment.found.steps, moment.place)
            return [moment_panels(moment), course_panels(moment, figure), slider, [], hidden]
        if done and not done.get("ok", True) and (done.get("wanted") or [[]])[0][:4] == run.wanted:
            return [Panels((_message(run, FAILED),)), Panels(()), hidden, [], gr.update(visible=True)]
        return [gr.skip(), gr.skip(), gr.skip(), [run.wanted], hidden]

    def draw_moment(opened: Sequence[Opened], of: str, role: str, pattern: str, figure: str, at: float) -> list[Any]:
        run = asked(opened, of, role, pattern)
        moment = None if run is None else known(run, at)
        if moment is None:
            return [gr.skip()] * 3
        slider = of_steps(moment.found.steps, moment.place)
        return [moment_panels(moment), course_panels(moment, figure), slider]

    def draw_course(opened: Sequence[Opened], of: str, role: str, pattern: str, figure: str, at: float) -> Any:
        run = asked(opened, of, role, pattern)
        moment = None if run is None else known(run, at)
        return gr.skip() if moment is None else course_panels(moment, figure)

    def draw_fields(opened: Sequence[Opened], of: str, role: str, figure: str) -> list[Any]:
        """Offer the runs among the sources, and the figures of the table."""
        runs = runs_of(opened)
        chosen = of if of in runs else next(iter(runs), "")
        names = figure_names(ROLES[role])
        figure = figure if figure in names else FIRST_FIGURE[ROLES[role]]
        choices = [(source.name, text) for text, source in runs.items()]
        return [
            gr.update(choices=choices, value=chosen or None, visible=len(choices) > 1),
            chosen,
            gr.update(choices=names, value=figure),
            figure,
        ]

    async def follow(visitor: Visitor, part: str, wanted: Sequence[Any]) -> AsyncGenerator[children.Progress, None]:
        run = wanted[0][:4]
        key = run_key(run, public=session.public)
        async for step in session.compute(visitor, part, key, wanted[0], children.training, *run, TRAINING_DRAWS):
            yield step

    def moved(due: list[Any], of: str, role: str, pattern: str, event: gr.EventData) -> Any:
        """Take the step that the slider is at."""
        place, moment = (event._data or {}).get("at"), None
        if (run := asked(session.shown(due), of, role, pattern)) is not None:
            with suppress(HfposembError):  # whoever draws it says why
                moment = known(run, LAST)
        if moment is None or not isinstance(place, int) or not 0 <= place < len(moment.found.steps):
            return gr.skip()
        return LAST if place == len(moment.found.steps) - 1 else moment.found.steps[place]

    def again(due: list[Any], of: str, role: str, pattern: str) -> Any:
        run = asked(session.shown(due), of, role, pattern)
        return [] if run is None else [[*run.wanted, uuid4().hex]]

    runs = runs_of(session.open(session.first))
    choices = [(source.name, text) for text, source in runs.items()]
    # The choices of fields that have others by and by: a field would send its old one, which Gradio then refuses.
    of, by, at = State(next(iter(runs), "")), State(FIRST_FIGURE["position"]), State(LAST)
    with gr.Row(elem_classes="controls"):
        session.source_field()
        which = gr.Radio(
            choices,
            value=next(iter(runs), None),
            label="Training of",
            elem_classes="segmented",
            min_width=210,
            scale=0,
            visible=len(choices) > 1,
        )
        role = gr.Radio(list(ROLES), value="Positions", label="Table", elem_classes="segmented", min_width=200, scale=0)
        pattern = gr.Textbox(
            PATTERN, label="Revisions, such as step*", max_lines=1, max_length=LONGEST_PATTERN, min_width=160, scale=1
        )
        unseen_heading(TITLE, level=2)
    with gr.Column():
        work = session.works(follow, label="Training run")
        retry = gr.Button("Try again", visible=False, min_width=160, scale=0)
        slider = step_field()
        moments = PanelRow(scope=session.scope)
    with gr.Row(elem_classes="controls"):
        figure = gr.Dropdown(
            figure_names("position"),
            value=FIRST_FIGURE["position"],
            label="Figure by step",
            min_width=240,
            scale=0,
        )
    courses = PanelRow((), scope=session.scope)

    what = [of, role, pattern]
    drawn = [moments, courses, slider, work.wanted, retry]
    session.redraw(draw_fields, [which, of, figure, by], inputs=[of, role, by], on=[role.input])
    session.redraw(draw_run, drawn, inputs=[*what, by, at], on=[of.change, role.input, pattern.submit, pattern.blur])
    session.when([work.done.change], draw_run, drawn, inputs=[*what, by, at, work.done])
    session.when([at.change], draw_moment, [moments, courses, slider], inputs=[*what, by, at])
    session.when([by.change], draw_course, [courses], inputs=[*what, by, at])
    for chosen, state in ((which, of), (figure, by)):
        chosen.input(lambda value: value, chosen, state, **QUIET)
    slider.select(moved, [session.due, *what], at, trigger_mode="always_last", **QUIET)
    retry.click(guarded(again, public=session.public), [session.due, *what], work.wanted, **QUIET)
    session.keep("run", of, read=text_up_to(400))
    session.keep("trained", role)
    session.keep("revisions", pattern)
    session.keep("step", at, read=number_up_to(1e15))
    session.keep("by", by, read=text_up_to(60))


NONE = (
    "Choose sample:gpt2, a repository with its checkpoints as branches, such as EleutherAI/pythia-70m, or a folder "
    "with those of your own training."
)
FAILED = "The line above says why it could not be followed."


def _message(run: Run, said: str) -> Panel:
    return Panel("training-map", f"The training of {run.source.name}", message=said)
