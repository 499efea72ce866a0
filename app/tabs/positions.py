"""The Positions tab: clouds, matrices, lines and waves of positions, with measured titles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import gradio as gr

from hfposemb.reports.position_findings import Value

from ..components.events import EACH, QUIET, State
from ..components.happened import Happened
from ..components.lines import folded_controls, segmented, unseen_heading
from ..components.page_script import on_event
from ..components.plot import Panel, PanelRow
from ..findings.positions import probing, shifts
from ..findings.positions.image_patches import patches, pick
from ..findings.positions.logits import distance_panel
from ..findings.positions.position_clouds import clouds
from ..findings.positions.position_lines import lines, spectra
from ..findings.positions.position_range import LONGEST, dragged, range_panels
from ..findings.positions.position_tables import WAVES, images
from ..findings.positions.properties import requirement_row
from ..findings.positions.rotary_scaling import scaling_panels
from ..limits import MOST_SOURCES
from ..session.address import number_up_to, numbers_by_source, text_up_to
from ..session.background_jobs import BackgroundJob
from ..session.opened import Opened
from ..session.shown_positions import GROUP, MOST, Method, View, enough, longest, of_part, parts_of, tables_of
from ..session.state import Session

TITLE = "Positions"
NEEDS = ("position",)


class Layout:
    """The tab's components that events use.

    States are ``part``, ``picked``, the clicked patch of each source, ``chosen``, the marked position after the slider
    is released, and ``dimensions`` and ``attention``, whether a fold is open. ``parts`` is the session that draws the
    chosen part of each source.
    """

    def __init__(self, session: Session) -> None:
        first = session.open(session.first)
        unseen_heading(TITLE, level=1)
        self._toolbar(session, first)
        # Keep the choice in a state: with all handlers on the Dropdown's own event, Gradio left every row pending.
        self.part, self.picked, self.chosen = State(next(iter(parts_of(first)), None)), State({}), State(View().marked)
        self.parts = session.through(of_part, self.part)
        with gr.Column():
            self.umaps = session.jobs.bind(session.jobs.layout)
            self.sources = PanelRow(scope=session.scope, swipe=True, awaited=len(first), reserve=814)
        self.selected = PanelRow((), scope=session.scope, elem_classes="if-any")
        self.together = PanelRow(scope=session.scope, awaited=3, reserve=390)
        self.over = PanelRow((), scope=session.scope, elem_classes="if-any")
        with gr.Column(elem_classes="folds"):
            box, self.dimensions = session.fold("dimensions", "Waves: how does each dimension run over the positions?")
            with box:
                self.spectra = PanelRow((), scope=session.scope)
                self.rotary = PanelRow((), scope=session.scope, elem_classes="if-any")
                with gr.Row(elem_classes="controls"):
                    typed = ", ".join(map(str, WAVES))
                    self.waves = gr.Textbox(typed, label="Dimensions drawn as waves", max_lines=1, max_length=80)
                self.tables = PanelRow((), scope=session.scope, swipe=True)
            shifts.accordion(self.parts, self.length)
            box, self.attention = session.fold("attention", "Effect on attention: what do positions add to the logits?")
            with box:
                self.in_logits = PanelRow((), scope=session.scope)
            box, tested = session.fold("tests", "Five tests: what makes a good position encoding?")
            with box:
                requirement_row(self.parts, tested)
                probing.probe_table(self.parts, tested)
        self.range = State("")

    def _toolbar(self, session: Session, opened: Sequence[Opened]) -> None:
        """Create the toolbar."""
        view, last, parts = View(), longest(opened, session) - 1, parts_of(opened)
        folded_controls()
        with gr.Row(elem_classes="controls"):
            methods, dims = [("PCA", "pca"), ("UMAP", "umap")], [("2-D", 2), ("3-D", 3)]
            lengths = [("All", 0), ("128", 128), ("32", 32)]
            self.method = segmented("Projection", methods, view.method, 165, "seldom", scale=0)
            self.dims = segmented("Dimensions", dims, view.dims, 140, "seldom", scale=0)
            self.length = segmented("Positions", lengths, 0, 185, "seldom", scale=0)
            self.marked = gr.Slider(
                0, max(last, 1), value=min(view.marked, last), step=1, label="Marked position", scale=2, min_width=200
            )
            self.range_field = gr.Textbox(
                label="Range",
                placeholder="100-163",
                max_lines=1,
                max_length=LONGEST,
                scale=0,
                min_width=120,
                elem_classes="seldom",
            )
            self.part_field = gr.Dropdown(
                parts,
                value=next(iter(parts), None),
                label="Part",
                filterable=False,
                visible=bool(parts),
                scale=0,
                min_width=200,
            )


def draw_sources(
    opened: Sequence[Opened],
    method: Method,
    dims: int,
    length: int,
    marked: int,
    done: dict[str, Any],
    *,
    session: Session,
) -> Any:
    """Draw the clouds; UMAP projections that have to be computed first are requested, and the old ones stay."""
    if not opened:
        said = f"Choose up to {MOST_SOURCES} sources above, such as sample:bert."
        return (Panel("empty", "No source selected", message=said),), [], gr.skip()
    wanted = missing_umaps(opened, dims, session) if method == "umap" else []
    failed = BackgroundJob.failed(done, wanted)
    if wanted and not failed:
        return gr.skip(), wanted, gr.skip()
    marked = max(min(marked, longest(opened, session) - 1), 0)
    view = View("pca" if failed else method, dims, length, marked)
    return clouds(opened, view, session), [], gr.Radio(value="pca") if failed else gr.skip()


def draw_slider(opened: Sequence[Opened], *, session: Session) -> Any:
    """Set the slider's end to the last position of the longest source."""
    return gr.Slider(maximum=max(longest(opened, session) - 1, 1))


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout = Layout(session)
    bind_drawing(session, layout)
    keep_controls(session, layout)
    bind_marks(session, layout)


def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
    """Offer the parts that the sources have."""
    parts = parts_of(opened)
    chosen = part if part in parts else next(iter(parts), None)
    return gr.Dropdown(parts, value=chosen, visible=bool(parts)), chosen


def bind_drawing(session: Session, layout: Layout) -> None:
    """Bind what is drawn: of each source the chosen part, but for what all positions do to the logits."""
    method, dims, length, part, umaps = layout.method, layout.dims, layout.length, layout.part, layout.umaps
    picked, chosen, waves, fold = layout.picked, layout.chosen, layout.waves, layout.dimensions
    parts = layout.parts
    parts.redraw(
        partial(draw_sources, session=session),
        [layout.sources, umaps.wanted, method],
        inputs=[method, dims, length, chosen, umaps.done],
        on=[method.input, dims.input, length.input, chosen.change, umaps.done.change],
    )
    session.redraw(draw_part, [layout.part_field, part], inputs=[part])
    parts.redraw(partial(draw_slider, session=session), [layout.marked])
    parts.redraw(partial(lines, session=session), [layout.together], inputs=[length], on=[length.input])
    asked, events = [length, layout.range], [length.input, layout.range.change]
    parts.redraw(partial(range_panels, session=session), [layout.selected], inputs=asked, on=events)
    session.redraw(lambda opened: (distance_panel(opened, session),), [layout.in_logits], within=layout.attention)
    parts.redraw(partial(patches, session=session), [layout.over], inputs=[picked], on=[picked.change])
    asked = [length]
    parts.redraw(partial(spectra, session=session), [layout.spectra], inputs=asked, on=[length.input], within=fold)
    parts.redraw(partial(scaling_panels, session=session), [layout.rotary], within=fold)
    asked, events = [length, waves], [length.input, waves.submit, waves.blur]
    parts.redraw(partial(images, session=session), [layout.tables], inputs=asked, on=events, within=fold)
    layout.part_field.input(_same, layout.part_field, part, **QUIET)
    chosen.change(_same, chosen, layout.marked, **QUIET)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("method", layout.method)
    session.keep("dims", layout.dims)
    session.keep("length", layout.length)
    session.keep("waves", layout.waves)
    session.keep("position", layout.chosen, read=number_up_to(MOST))
    session.keep("range", layout.range, read=text_up_to(LONGEST))
    session.keep("part", layout.part, read=text_up_to(80))
    session.keep("patch", layout.picked, read=numbers_by_source, write=json.dumps)


def bind_marks(session: Session, layout: Layout) -> None:
    """Bind clicks on patches and positions, and the slider."""
    marked, chosen = layout.marked, layout.chosen
    layout.over.select(pick, layout.picked, layout.picked, **EACH)
    marked.input(None, marked, None, js=on_event("markPosition", scope=session.scope, group=GROUP))
    marked.release(_same, marked, chosen, **QUIET)
    layout.together.select(drag_range, None, [layout.range], **EACH)
    layout.selected.select(lambda: "", None, [layout.range], **QUIET)
    typed = [layout.range_field.submit, layout.range_field.blur]
    gr.on(typed, _same, layout.range_field, layout.range, trigger_mode="always_last", **QUIET)
    layout.range.change(_same, layout.range, layout.range_field, **QUIET)
    rows = [row.select for row in (layout.sources, layout.together, layout.tables)]
    gr.on(rows, clicked, None, [marked, chosen], **EACH)


def missing_umaps(opened: Sequence[Opened], dims: int, session: Session) -> list[list[Any]]:
    """Return the UMAP projections that have yet to be computed, as a ``BackgroundJob`` takes them."""
    wanted = []
    for source, positions in tables_of(opened, 0, session).items():
        role = "position" if source.part == "position" else f"{source.part}.position"
        if enough(positions) and session.projection(positions.whole, "umap", dims) is None:
            wanted.append([source.text, role, dims])
    return wanted


def drag_range(event: Happened) -> Any:
    """Take the range that was drawn over the plot of norms."""
    return dragged(event.get("area")) or gr.skip()


def clicked(event: Happened) -> Any:
    """Mark the position that was clicked."""
    found = event.told
    index = found.get("index")
    if found.get("group") != GROUP or not isinstance(index, int) or index < 0:
        return gr.skip()
    return index, index


def _same(value: Value) -> Value:
    return value
