"""The Training tab: one table over the checkpoints of a run, with maps in a common frame and metrics by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gradio as gr
import numpy as np

from hfposemb.errors import HfposembError
from hfposemb.text import number, one_line

from .. import limits
from ..components.events import EACH, QUIET, State
from ..components.happened import Happened
from ..components.lines import segmented, unseen_heading
from ..components.page_script import on_load
from ..components.plot import Panel, PanelRow, Panels
from ..findings.training_run import (
    ARGUMENTS,
    FIRST_FIGURE,
    LAST,
    PATTERN,
    ROLES,
    Moment,
    Run,
    chosen_run,
    course_panels,
    figure_names,
    in_folder,
    moment_panels,
    run_key,
    runs_of,
)
from ..jobs import measuring
from ..limits import LONGEST_PATTERN
from ..session.address import number_up_to, text_up_to
from ..session.background_jobs import BackgroundJob, Request
from ..session.opened import Opened
from ..session.state import Session

_TEMPLATE = """
<button type="button" aria-pressed="false">Play</button>
<input type="range" min="0" step="1" aria-label="Training step">
<output></output>
"""


def step_field() -> gr.HTML:
    """Create the slider; its ``.select`` event carries the index of the chosen step in ``_data["at"]``.

    Until it has steps it is not seen, but keeps its place.
    """
    return gr.HTML(
        "",
        html_template=_TEMPLATE,
        elem_classes="steps",
        js_on_load=on_load("stepSlider"),
        apply_default_css=False,
    )


def of_steps(steps: Sequence[int], at: int) -> Any:
    """Return an update that shows these steps, with the one at index ``at`` selected."""
    value = json.dumps({"steps": [number(step, digits=0) for step in steps], "at": at})
    return gr.update(value=value, visible=True)


TITLE = "Training"
NEEDS = ()
"""Nothing: the job reads the run, and the tab draws nothing of the sources themselves."""


NONE = (
    "Choose sample:gpt2, a repository with checkpoints as branches, such as EleutherAI/pythia-70m, or one checkpoint "
    "of a folder with several of your own."
)


EVERY = 3.0
"""Seconds between two looks at a folder, to which a training run may be adding checkpoints."""

FAILED = "It could not be read; see the message above."


class Layout:
    """The tab's components that events use; ``of``, ``by`` and ``at`` are the states of the run, metric and step."""

    def __init__(self, session: Session, handlers: Handlers) -> None:
        runs = runs_of(session.open(session.first))
        # Keep choices in states where the options change: a field would send a stale one, which Gradio refuses.
        self.of, self.by, self.at = State(next(iter(runs), "")), State(FIRST_FIGURE["position"]), State(LAST)
        self._toolbar(session, runs)
        self.clock = None if session.public else gr.Timer(EVERY, active=False)
        with gr.Column():
            self.work = session.jobs.bind(handlers.follow, label="Training run")
            self.retry = gr.Button("Try again", visible=False, min_width=160, scale=0)
            self.slider = step_field()
            self.moments = PanelRow(scope=session.scope, awaited=2, reserve=748)
        with gr.Row(elem_classes="controls"):
            self.figure = gr.Dropdown(
                figure_names("position"),
                value=FIRST_FIGURE["position"],
                label="Metric",
                min_width=240,
                scale=0,
            )
        self.courses = PanelRow(scope=session.scope, reserve=736)

    def _toolbar(self, session: Session, runs: dict[str, Opened]) -> None:
        """Create the toolbar."""
        choices = [(source.name, text) for text, source in runs.items()]
        with gr.Row(elem_classes="controls"):
            first = next(iter(runs), None)
            self.which = segmented("Source", choices, first, 246, scale=0, visible=len(choices) > 1)
            self.role = segmented("Table", list(ROLES), "Positions", 184, scale=0)
            self.pattern = gr.Textbox(
                PATTERN,
                label="Revisions (pattern, such as step*)",
                max_lines=1,
                max_length=LONGEST_PATTERN,
                min_width=140,
                scale=1,
            )
            unseen_heading(TITLE, level=2)


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, the job that reads a run, and the moves of the slider."""

    session: Session

    def asked(self, opened: Sequence[Opened], of: str, role: str, pattern: str) -> Run | None:
        """Return the run that the controls select."""
        return chosen_run(opened, of, role, pattern, public=self.session.public)

    def known(self, run: Run, at: float) -> Moment | None:
        """Return a run at the step nearest to ``at``, if it has been read."""
        found = self.session.library.results.get(run_key(run.wanted, public=self.session.public))
        if found is None:
            return None
        steps = np.array(found.run.steps)
        place = len(steps) - 1 if at == LAST else int(np.abs(steps - at).argmin())
        return Moment(run, found.run, place, found.total)

    def draw_run(
        self,
        opened: Sequence[Opened],
        of: str,
        role: str,
        pattern: str,
        figure: str,
        at: float,
        done: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Draw a run; one that has to be computed first is requested, and the old drawing stays."""
        run, hidden = self.asked(opened, of, role, pattern), gr.update(visible=False)
        if run is None:
            empty = Panel("training-map", "None of the sources has a training run", message=NONE)
            return [Panels((empty,)), Panels(()), hidden, [], hidden]
        try:
            moment = self.known(run, at)
        except HfposembError as error:
            return [Panels((_message(run, one_line(str(error))),)), Panels(()), hidden, [], hidden]
        if moment is not None:
            slider = of_steps(moment.found.steps, moment.place)
            return [moment_panels(moment), course_panels(moment, figure), slider, [], hidden]
        if BackgroundJob.failed(done, [run.wanted]):
            return [Panels((_message(run, FAILED),)), Panels(()), hidden, [], gr.update(visible=True)]
        return [gr.skip(), gr.skip(), gr.skip(), [run.wanted], hidden]

    def draw_course(self, opened: Sequence[Opened], of: str, role: str, pattern: str, figure: str, at: float) -> Any:
        """Draw another metric of a run that has been read."""
        run = self.asked(opened, of, role, pattern)
        moment = None if run is None else self.known(run, at)
        return gr.skip() if moment is None else course_panels(moment, figure)

    def follow(self, wanted: Sequence[Any]) -> Request:
        """Return the run for a job."""
        run = wanted[:ARGUMENTS]
        return Request(run_key(run, public=self.session.public), measuring.training, (*run, limits.TRAINING_DRAWS))

    def grown(self, due: list[Any], of: str, role: str, pattern: str, active: str, done: dict[str, Any]) -> Any:
        """Request a run again once its folder has more checkpoints than were tried, while the tab is open."""
        run = self.asked(self.session.shown(due), of, role, pattern) if active == self.session.key else None
        if run is None or done.get("wanted") == [run.wanted] or self.known(run, LAST) is not None:
            return gr.skip()
        return [run.wanted]

    def moved(self, due: list[Any], of: str, role: str, pattern: str, event: Happened) -> Any:
        """Take the step from the slider."""
        place, moment = event.get("at"), None
        if (run := self.asked(self.session.shown(due), of, role, pattern)) is not None:
            with suppress(HfposembError):  # reported where it is drawn
                moment = self.known(run, LAST)
        if moment is None or not isinstance(place, int) or not 0 <= place < len(moment.found.steps):
            return gr.skip()
        return LAST if place == len(moment.found.steps) - 1 else moment.found.steps[place]


def tab(session: Session) -> None:
    """Create and bind the tab. Nothing is read until it is first shown."""
    handlers = Handlers(session)
    layout = Layout(session, handlers)
    bind_events(session, layout, handlers)
    keep_controls(session, layout)


def draw_fields(opened: Sequence[Opened], of: str, role: str, figure: str) -> list[Any]:
    """Update the choices of runs and of metrics."""
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


def growing(opened: Sequence[Opened], of: str) -> Any:
    """Update the clock: it runs while the run is a folder on this machine."""
    runs = runs_of(opened)
    return gr.Timer(active=in_folder(of if of in runs else next(iter(runs), ""), "*", public=False) > 0)


def bind_events(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn, the job behind it, and the slider."""
    of, by, at, role, pattern, work = layout.of, layout.by, layout.at, layout.role, layout.pattern, layout.work
    what = [of, role, pattern]
    asked = [*what, by, at]
    drawn = [layout.moments, layout.courses, layout.slider, work.wanted, layout.retry]
    session.redraw(draw_fields, [layout.which, of, layout.figure, by], inputs=[of, role, by], on=[role.input])
    events = [of.change, role.input, pattern.submit, pattern.blur]
    session.redraw(handlers.draw_run, drawn, inputs=asked, on=events)
    session.when([work.done.change, at.change], handlers.draw_run, drawn, inputs=[*asked, work.done])
    session.when([by.change], handlers.draw_course, [layout.courses], inputs=asked)
    for chosen, state in ((layout.which, of), (layout.figure, by)):
        chosen.input(lambda value: value, chosen, state, **QUIET)
    layout.slider.select(handlers.moved, [session.due, *what], at, **EACH)
    if layout.clock is not None:
        session.redraw(growing, [layout.clock], inputs=[of], on=[of.change])
        layout.clock.tick(handlers.grown, [session.due, *what, session.active, work.done], work.wanted, **QUIET)
    work.again_on(layout.retry.click)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("run", layout.of, read=text_up_to(400))
    session.keep("trained", layout.role)
    session.keep("revisions", layout.pattern)
    session.keep("step", layout.at, read=number_up_to(1e15))
    session.keep("by", layout.by, read=text_up_to(60))


def _message(run: Run, said: str) -> Panel:
    return Panel("training-map", f"Training of {run.source.name}", message=said)
