"""The Compare tab: metrics with chance levels, pairs of sources, moved words, and the report."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from hfposemb.errors import HfposembError
from hfposemb.text import one_line

from ..components.events import EACH, QUIET, State
from ..components.happened import Happened
from ..components.lines import folded_controls, segmented, unseen_heading
from ..components.page_script import on_event
from ..components.plot import Panel, PanelRow, Panels
from ..components.recipe import COPY_JS
from ..findings.compare.comparison import (
    BONE,
    POSITIONS,
    ROLES,
    TOKENS,
    Compared,
    ComparisonJobs,
    compared,
    figures_html,
    maps_of,
    maps_panels,
    moved_panels,
    named_pairs,
    of_part,
    pair_choices,
    pairs_html,
    part_choices,
    part_of,
)
from ..findings.compare.pair_questions import QUESTIONS, pair_fold
from ..findings.compare.quantisation import quantisation_fold
from ..session.address import number_up_to, text_up_to
from ..session.background_jobs import BackgroundJob
from ..session.opened import Opened
from ..session.shown_positions import parts_of
from ..session.state import Session

TITLE = "Compare"
NEEDS = ("position", "token")


CARD: dict[str, Any] = {"apply_default_css": False, "js_on_load": COPY_JS, "elem_classes": "compare-table"}


STARTING = f"<h2>Measuring the sources…</h2>{BONE}"


class Layout:
    """The tab's components that events use; ``part``, ``pair`` and ``at`` are states, the last of the moved word.

    ``parts`` is the session that compares the chosen part of each source.
    """

    def __init__(self, session: Session, jobs: ComparisonJobs) -> None:
        # Keep choices in states where the options change: a field would send a stale one, which Gradio refuses.
        choices = named_pairs(session.first)
        self.part, self.pair, self.at = State(""), State("0-1" if choices else None), State(0)
        self.parts = session.through(of_part, self.part)
        unseen_heading(TITLE, level=2)
        folded_controls()
        with gr.Row(elem_classes="controls"):
            self.pair_field = gr.Dropdown(
                choices,
                value=self.pair.value,
                label="Pair",
                visible=len(choices) > 1,
                scale=3,
                min_width=320,
            )
            self.role = segmented("Table", [POSITIONS, TOKENS], POSITIONS, 210, scale=0)
            self.method = segmented("Projection", ["PCA", "UMAP"], "PCA", 160, scale=0)
            self._part_and_report(session)
        with gr.Column():
            with gr.Column(elem_classes="works"):
                self.reports = session.jobs.bind(jobs.write, name="report", label="Report")
                self.measures = session.jobs.bind(jobs.measure, name="figures", label="Comparison")
            self.again = gr.Button("Measure chance levels", visible=False, min_width=220, scale=0)
            self.pairs = gr.HTML(STARTING, min_height=520, **CARD)
        with gr.Column():
            self.layouts = session.jobs.bind(jobs.lay_out, name="maps", label="AlignedUMAP")
            self.plan = PanelRow(scope=session.scope, awaited=2, reserve=524)
        with gr.Column(elem_classes="folds"):
            self.figures = gr.HTML("", **CARD)
            box, self.unfolded = session.fold(
                "moves", "Words: which moved most from one model to the other?", holds=["moved"]
            )
            with box:
                self.words = PanelRow((), scope=session.scope)
            for question in QUESTIONS:
                pair_fold(session, question, self.pair)
            quantisation_fold(session, self.pair)

    def _part_and_report(self, session: Session) -> None:
        """Create the field of the part and the two buttons of the report."""
        self.part_field = gr.Dropdown(
            part_choices(()),  # known once the sources are opened
            value="",
            label="Part",
            filterable=False,
            visible=False,
            scale=0,
            min_width=160,
        )
        with gr.Column(scale=0, min_width=180, elem_classes="at-end"):
            self.ask = gr.Button("Download report", variant="primary", min_width=180)
            self.save = gr.DownloadButton(visible="hidden", elem_id=f"report-{session.scope}")


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and what a click on a word does."""

    session: Session

    def draw_figures(
        self, opened: Sequence[Opened], chosen: str | None, done: dict[str, Any] | None = None
    ) -> list[Any]:
        """Draw the tables; if computing chance levels failed, show a button to retry."""
        try:
            found = compared(opened, self.session)
            stopped = not found.done and done is not None and not done.get("ok", True)
            found = replace(found, stopped=stopped)
        except HfposembError as error:
            said = f'<h2>These sources cannot be compared</h2><p role="alert">{html.escape(one_line(str(error)))}</p>'
            return [said, "", gr.update(visible=False), gr.update(visible=False)]
        retry = gr.update(visible=found.stopped)
        return [figures_html(found), pairs_html(found, chosen), _pair_field(found, chosen), retry]

    def draw_pairs(self, opened: Sequence[Opened], chosen: str | None) -> Any:
        """Draw the measures of the selected pair."""
        try:
            return pairs_html(compared(opened, self.session), chosen)
        except HfposembError:
            return gr.skip()  # the reason is shown already

    def draw_words(
        self, opened: Sequence[Opened], chosen: str | None, at: int, done: dict[str, Any] | None = None
    ) -> Any:
        """Draw the moved words and the neighbours of the selected one."""
        try:
            found = compared(opened, self.session)
        except HfposembError:
            return Panels(())
        stopped = not found.done and done is not None and not done.get("ok", True)
        return moved_panels(replace(found, stopped=stopped), chosen, at)

    def draw_maps(
        self,
        opened: Sequence[Opened],
        chosen: str | None,
        role: str,
        method: str,
        done: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Draw two maps; if they have to be computed first, request them and keep the old ones."""
        found = compared(opened, self.session)
        pair = found.pair(chosen)
        if pair is None:
            return [Panels(()), [], gr.skip()]
        left, right = (found.sources[place] for place in pair)
        title, back = f"{role} of {left.name} and {right.name}", gr.skip()
        wanted = [[[left.text, right.text], ROLES[role], method.lower(), part_of(left, right)]]
        try:
            maps = maps_of(left, right, ROLES[role], method.lower(), self.session)
            if maps is None and not BackgroundJob.failed(done, wanted):
                return [gr.skip(), wanted, gr.skip()]
            if maps is None:  # cancelled or failed: fall back to PCA
                maps, back = maps_of(left, right, ROLES[role], "pca", self.session), gr.update(value="PCA")
            if maps is None:
                return [Panels((Panel("maps", title, message="Select PCA to try again."),)), [], back]
            return [maps_panels(found, pair, maps), [], back]
        except HfposembError as error:
            return [Panels((Panel("maps", f"No maps of {title}", message=one_line(str(error))),)), [], back]

    def pick(self, due: list[Any], chosen: str | None, at: int, part: str | None, happened: Happened) -> list[Any]:
        """Select a moved word, or open it or a neighbour in Tokens."""
        told, stay = happened.told, [gr.skip()] * 3
        found = compared(of_part(self.session.shown(due), part), self.session)
        pair = found.pair(chosen)
        moves = found.moves(pair) if pair is not None else None
        if pair is None or moves is None or not moves.most:
            return [gr.skip(), *stay]
        word = moves.most[at] if 0 <= at < len(moves.most) else moves.most[0]
        place, row = told.get("list"), told.get("id")
        if place == 0 and isinstance(row, int) and 0 <= row < len(moves.most):
            return [row, *stay]
        label, side = word.label, 0
        if place in (1, 2) and isinstance(row, int):
            side = place - 1
            near = (word.left, word.right)[side]
            if not 0 <= row < len(near):
                return [gr.skip(), *stay]
            label = near[row][0]
        return [gr.skip(), *self.session.show_word(found.sources[pair[side]], label)]


def tab(session: Session) -> None:
    """Create and bind the tab. Nothing is computed until it is first shown."""
    jobs = ComparisonJobs(session)
    layout = Layout(session, jobs)
    bind_drawing(session, layout, Handlers(session), jobs)
    keep_controls(session, layout)
    bind_report(layout, jobs)


def _pair_field(found: Compared, chosen: str | None) -> Any:
    pair, choices = found.pair(chosen), pair_choices(found.names)
    value = f"{pair[0]}-{pair[1]}" if pair else None
    return gr.update(choices=choices, value=value, visible=len(choices) > 1)


def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
    """Offer the parts that the sources have."""
    parts = parts_of(opened)
    return gr.Dropdown(part_choices(parts), value=part if part in parts else "", visible=bool(parts))


def bind_drawing(session: Session, layout: Layout, handlers: Handlers, jobs: ComparisonJobs) -> None:
    """Bind what is drawn, the measurements behind it, and clicks on words."""
    at, part, chosen, measures, layouts = layout.at, layout.part, layout.pair, layout.measures, layout.layouts
    drawn, parts = [layout.figures, layout.pairs, layout.pair_field, layout.again], layout.parts
    parts.redraw(handlers.draw_figures, drawn, inputs=[chosen])
    parts.when([measures.done.change], handlers.draw_figures, drawn, inputs=[chosen, measures.done])
    parts.when([chosen.change], handlers.draw_pairs, [layout.pairs], inputs=[chosen])
    session.redraw(draw_part, [layout.part_field], inputs=[part])
    layout.part_field.input(lambda value: value, layout.part_field, part, **QUIET)
    choices = [chosen, at, measures.done]
    changes = [one.change for one in choices]
    parts.redraw(handlers.draw_words, [layout.words], inputs=choices, on=changes, within=layout.unfolded)
    laid = [layout.plan, layouts.wanted, layout.method]
    asked = [chosen, layout.role, layout.method]
    events = [chosen.change, layout.role.input, layout.method.input]
    parts.redraw(handlers.draw_maps, laid, inputs=asked, on=events)
    parts.when([layouts.done.change], handlers.draw_maps, laid, inputs=[*asked, layouts.done])
    parts.redraw(jobs.begin, [measures.wanted])
    parts.when([layout.again.click], jobs.again, [measures.wanted])
    layout.pair_field.input(lambda value: (value, 0), layout.pair_field, [chosen, at], **QUIET)
    layout.words.select(
        handlers.pick,
        [session.due, chosen, at, part],
        [at, session.asked, session.tabs, session.active],
        **EACH,
    )


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("pair", layout.pair, choices=named_pairs)
    session.keep("moved", layout.at, read=lambda text: int(number_up_to(10**6)(text)))
    session.keep("maps", layout.role)
    session.keep("laid", layout.method)
    session.keep("stack", layout.part, read=text_up_to(80))


def bind_report(layout: Layout, jobs: ComparisonJobs) -> None:
    """Bind the button that writes a report and downloads it."""
    reports = layout.reports
    layout.parts.when([layout.ask.click], jobs.again, [reports.wanted])
    written = reports.done.change(jobs.hand_over, [reports.wanted, reports.done], layout.save, **QUIET)
    written.then(None, layout.save, js=on_event("saveFile"), **QUIET)
