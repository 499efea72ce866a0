"""The Positions tab: clouds, matrices, lines and waves of positions, with measured titles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from hfposemb.reports.position_findings import Value

from ..components.events import QUIET
from ..components.happened import Happened
from ..components.hidden import State
from ..components.lines import folded_controls, unseen_heading
from ..components.page_script import on_event
from ..components.plot import Panel, PanelRow
from ..findings.positions import probing, shifts
from ..findings.positions.image_patches import patches
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
WAVES_FOLD, LOGITS_FOLD, TESTS_FOLD = "dimensions", "attention", "tests"  # as in the page's URL


@dataclass(frozen=True)
class Layout:
    """The tab's components that events use.

    States are ``range``, ``part``, ``picked``, the clicked patch of each source, and ``chosen``, the marked position
    after the slider is released.
    """

    method: gr.Radio
    dims: gr.Radio
    length: gr.Radio
    marked: gr.Slider
    range_field: gr.Textbox
    range: gr.State
    part_field: gr.Dropdown
    part: gr.State
    picked: gr.State
    chosen: gr.State
    umaps: BackgroundJob
    sources: PanelRow
    selected: PanelRow
    together: PanelRow
    over: PanelRow
    spectra: PanelRow
    rotary: PanelRow
    waves: gr.Textbox
    tables: PanelRow
    in_logits: PanelRow


@dataclass(frozen=True)
class Handlers:
    """What the tab draws."""

    session: Session

    def draw_sources(
        self,
        opened: Sequence[Opened],
        method: Method,
        dims: int,
        length: int,
        marked: int,
        part: str | None,
        done: dict[str, Any],
    ) -> Any:
        """Draw the clouds; UMAP projections that have to be computed first are requested, and the old ones stay."""
        if not opened:
            said = f"Choose up to {MOST_SOURCES} sources above, such as sample:bert."
            return (Panel("empty", "No source selected", message=said),), [], gr.skip()
        opened = of_part(opened, part)
        wanted = missing_umaps(opened, dims, self.session) if method == "umap" else []
        failed = bool(wanted) and BackgroundJob.failed(done, wanted)
        if wanted and not failed:
            return gr.skip(), wanted, gr.skip()
        view = View("pca" if failed else method, dims, length, marked)
        return clouds(opened, view, self.session), [], gr.update(value="pca") if failed else gr.skip()

    def draw_slider(self, opened: Sequence[Opened], chosen: int, part: str | None) -> Any:
        """Set the slider, and its end to the last position of the longest source."""
        return gr.update(value=chosen, maximum=max(longest(of_part(opened, part), self.session) - 1, 1))

    def draw_together(self, opened: Sequence[Opened], length: int, part: str | None) -> Any:
        """Draw the lines of all sources."""
        return lines(of_part(opened, part), length, self.session)

    def draw_range(self, opened: Sequence[Opened], length: int, text: str, part: str | None) -> Any:
        """Select a range of positions, and draw its panel."""
        return range_panels(of_part(opened, part), length, text, self.session)

    def draw_in_logits(self, opened: Sequence[Opened]) -> Any:
        """Draw what positions add to the logits by distance."""
        return (distance_panel(opened, self.session),)

    def draw_spectra(self, opened: Sequence[Opened], length: int, part: str | None) -> Any:
        """Draw the strength of waves by period."""
        return spectra(of_part(opened, part), length, self.session)

    def draw_rotary(self, opened: Sequence[Opened], part: str | None) -> Any:
        """Draw what scaling changes of rotary positions."""
        return scaling_panels(of_part(opened, part), self.session)

    def draw_over(self, opened: Sequence[Opened], picked: dict[str, int], part: str | None) -> Any:
        """Draw the patches of images."""
        return patches(of_part(opened, part), picked, self.session)

    def draw_tables(self, opened: Sequence[Opened], length: int, dimensions: str, part: str | None) -> Any:
        """Draw the tables, and some of their dimensions as waves."""
        return images(of_part(opened, part), length, dimensions, self.session)


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout = create_layout(session)
    bind_drawing(session, layout, Handlers(session))
    keep_controls(session, layout)
    bind_marks(session, layout)


def create_layout(session: Session) -> Layout:
    """Create the components, and bind the rows that bind themselves."""
    first = session.open(session.first)
    unseen_heading(TITLE, level=1)
    method, dims, length, marked, selected, part_field = _toolbar(session, first)
    # Keep the choice in a state: with all handlers on the Dropdown's own event, Gradio left every row pending forever.
    part, picked, chosen = State(next(iter(parts_of(first)), None)), State({}), State(View().marked)
    with gr.Column():
        umaps = session.jobs.bind_umaps()
        sources = PanelRow(scope=session.scope, swipe=True, awaited=len(first), reserve=814)
    chosen_range = PanelRow((), scope=session.scope, elem_classes="if-any")
    together = PanelRow(scope=session.scope, awaited=3, reserve=390)
    over = PanelRow((), scope=session.scope, elem_classes="if-any")
    with gr.Column(elem_classes="folds"):
        with session.fold(WAVES_FOLD, "Waves: how does each dimension run over the positions?"):
            shown = PanelRow((), scope=session.scope)
            rotary = PanelRow((), scope=session.scope, elem_classes="if-any")
            with gr.Row(elem_classes="controls"):
                typed = ", ".join(map(str, WAVES))
                waves = gr.Textbox(typed, label="Dimensions drawn as waves", max_lines=1, max_length=80)
            tables = PanelRow((), scope=session.scope, swipe=True)
        shifts.accordion(session, length, part)
        with session.fold(LOGITS_FOLD, "Effect on attention: what do positions add to the logits?"):
            in_logits = PanelRow((), scope=session.scope)
        with session.fold(TESTS_FOLD, "Five tests: what makes a good position encoding?"):
            requirement_row(session, part, TESTS_FOLD)
            probing.probe_table(session, part, TESTS_FOLD)
    return Layout(
        method=method,
        dims=dims,
        length=length,
        marked=marked,
        range_field=selected,
        range=State(""),
        part_field=part_field,
        part=part,
        picked=picked,
        chosen=chosen,
        umaps=umaps,
        sources=sources,
        selected=chosen_range,
        together=together,
        over=over,
        spectra=shown,
        rotary=rotary,
        waves=waves,
        tables=tables,
        in_logits=in_logits,
    )


def _toolbar(
    session: Session, opened: Sequence[Opened]
) -> tuple[gr.Radio, gr.Radio, gr.Radio, gr.Slider, gr.Textbox, gr.Dropdown]:
    """Create the toolbar, and return the fields: projection, dimensions, length, marked position, range and part."""
    view, last, parts = View(), longest(opened, session) - 1, parts_of(opened)
    folded_controls()
    with gr.Row(elem_classes="controls"):
        method = gr.Radio(
            [("PCA", "pca"), ("UMAP", "umap")], value=view.method, label="Projection", **_SEGMENTED | {"min_width": 165}
        )
        dims = gr.Radio([("2-D", 2), ("3-D", 3)], value=view.dims, label="Dimensions", **_SEGMENTED)
        length = gr.Radio(
            [("All", 0), ("128", 128), ("32", 32)], value=0, label="Positions", **_SEGMENTED | {"min_width": 185}
        )
        marked = gr.Slider(
            0, max(last, 1), value=min(view.marked, last), step=1, label="Marked position", scale=2, min_width=200
        )
        selected = gr.Textbox(
            label="Range", placeholder="100-163", max_lines=1, max_length=LONGEST, scale=0, min_width=120
        )
        part_field = gr.Dropdown(
            parts,
            value=next(iter(parts), None),
            label="Part",
            filterable=False,
            visible=bool(parts),
            scale=0,
            min_width=200,
        )
    return method, dims, length, marked, selected, part_field


def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
    """Offer the parts that the sources have."""
    parts = parts_of(opened)
    chosen = part if part in parts else next(iter(parts), None)
    return gr.Dropdown(parts, value=chosen, visible=bool(parts)), chosen


def draw_range_field(opened: Sequence[Opened], text: str) -> str:
    """Write the selected range into its field."""
    return text


def bind_drawing(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn."""
    method, dims, length, part, umaps = layout.method, layout.dims, layout.length, layout.part, layout.umaps
    session.redraw(draw_part, [layout.part_field, part], inputs=[part])
    clouds_of = [method, dims, length, layout.chosen, part]
    session.redraw(handlers.draw_sources, [layout.sources, umaps.wanted, method], inputs=clouds_of, job=umaps)
    session.redraw(handlers.draw_slider, [layout.marked], inputs=[layout.chosen, part])
    session.redraw(draw_range_field, [layout.range_field], inputs=[layout.range])
    session.redraw(handlers.draw_range, [layout.selected], inputs=[length, layout.range, part])
    session.redraw(handlers.draw_together, [layout.together], inputs=[length, part])
    session.redraw(handlers.draw_over, [layout.over], inputs=[layout.picked, part])
    fold, waves = WAVES_FOLD, layout.waves
    session.redraw(handlers.draw_spectra, [layout.spectra], inputs=[length, part], fold=fold)
    session.redraw(handlers.draw_rotary, [layout.rotary], inputs=[part], fold=fold)
    typed = [waves.submit, waves.blur]
    session.redraw(handlers.draw_tables, [layout.tables], inputs=[length, waves, part], on=typed, fold=fold)
    session.redraw(handlers.draw_in_logits, [layout.in_logits], fold=LOGITS_FOLD)
    layout.part_field.input(_same, layout.part_field, part, **QUIET)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    for name, component in {
        "method": layout.method,
        "dims": layout.dims,
        "length": layout.length,
        "waves": layout.waves,
    }.items():
        session.keep(name, component)
    session.keep("position", layout.chosen, read=number_up_to(MOST))
    session.keep("range", layout.range, read=text_up_to(LONGEST))
    session.keep("part", layout.part, read=text_up_to(80))
    session.keep("patch", layout.picked, read=numbers_by_source, write=json.dumps)


def bind_marks(session: Session, layout: Layout) -> None:
    """Bind clicks on patches and positions, the slider, and the field of the range."""
    marked, chosen, picked, chosen_range = layout.marked, layout.chosen, layout.picked, layout.range

    def clicked(before: dict[str, int], event: Happened) -> dict[Any, Any] | Any:
        """Mark the position or pick the patch that was clicked, and select the range that was drawn, or none."""
        told = event.told
        index = told.get("index")
        if told.get("panel") == "range":
            return {chosen_range: ""}
        if found := dragged(told.get("area")):
            return {chosen_range: found}
        if not isinstance(index, int) or index < 0:
            return gr.skip()
        if told.get("group") == "patch" and "panel" in told:
            return {picked: {**before, told["panel"].rpartition(" ")[0]: index}}
        return {marked: index, chosen: index} if told.get("group") == GROUP else gr.skip()

    rows = (layout.sources, layout.together, layout.tables, layout.over, layout.selected)
    outputs = [picked, chosen_range, marked, chosen]
    gr.on([row.select for row in rows], clicked, picked, outputs, trigger_mode="multiple", **QUIET)
    marked.input(None, marked, None, js=on_event("markPosition", scope=session.scope, group=GROUP))
    marked.release(_same, marked, chosen, **QUIET)
    typed = layout.range_field
    gr.on([typed.submit, typed.blur], _same, typed, chosen_range, **QUIET)


def missing_umaps(opened: Sequence[Opened], dims: int, session: Session) -> list[list[Any]]:
    """Return the UMAP projections that have yet to be computed, as a ``BackgroundJob`` takes them."""
    wanted = []
    for source, positions in tables_of(opened, 0, session).items():
        role = "position" if source.part == "position" else f"{source.part}.position"
        if enough(positions) and session.projection(positions.whole, "umap", dims) is None:
            wanted.append([source.text, role, dims])
    return wanted


def _same(value: Value) -> Value:
    return value


_SEGMENTED: dict[str, Any] = {"elem_classes": "segmented", "scale": 0, "min_width": 140}
