"""The Positions tab: clouds, matrices, lines and waves of positions, with measured titles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.reports.position_findings import Value

from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import unseen_heading
from ..components.plot import Panel, PanelRow
from ..findings.image_patches import patches, pick
from ..findings.logits import distance_panel
from ..findings.position_clouds import clouds
from ..findings.position_lines import lines
from ..findings.position_tables import WAVES, images
from ..findings.properties import requirement_row
from ..session.address import number_up_to, numbers_by_source, text_up_to
from ..session.background_jobs import BackgroundJob
from ..session.opened import Opened
from ..session.shown_positions import GROUP, MOST, Method, View, enough, longest, of_part, parts_of, tables_of
from ..session.state import Session

if TYPE_CHECKING:
    pass


TITLE = "Positions"
NEEDS = ("position",)


# Dragging sends no request: the mark moves in the browser. Gradio fires release for a pointer, but not for a key.
MARK_JS = """(index) => {
  window.hfposemb?.mark(%r, %r, index);
  const range = document.activeElement;
  if (range?.type !== "range" || range.dataset.keys) return;
  range.dataset.keys = "heard";
  range.addEventListener("keyup", () => range.dispatchEvent(new PointerEvent("pointerup", { bubbles: true })));
}"""


def tab(session: Session) -> None:
    """Create and bind the tab."""
    from ..findings import (
        probing,  # imported here because they use this module's measurements
        shifts,
    )

    first, view = session.open(session.first), View()
    unseen_heading(TITLE, level=1)
    last = longest(first, session) - 1
    with gr.Row(elem_classes="controls"):
        session.source_field()
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
        parts = parts_of(first)
        part_field = gr.Dropdown(
            parts,
            value=next(iter(parts), None),
            label="Part",
            filterable=False,
            visible=bool(parts),
            scale=0,
            min_width=200,
        )
    # Keep the choice in a state: with all handlers on the Dropdown's own event, Gradio left every row pending forever.
    part = State(next(iter(parts), None))
    picked = State({})  # the clicked patch of each source
    chosen = State(view.marked)  # the marked position, after the slider is released
    with gr.Column():
        umaps = session.jobs.bind_umaps()
        sources = PanelRow(scope=session.scope, swipe=True)
    together = PanelRow((), scope=session.scope)
    in_logits = PanelRow((), scope=session.scope)
    over = PanelRow((), scope=session.scope)
    shifts.accordion(session, length, part)
    probing.accordion(session, part)
    with gr.Row(elem_classes="controls"):
        waves = gr.Textbox(", ".join(map(str, WAVES)), label="Dimensions drawn as waves", max_lines=1, max_length=80)
    tables = PanelRow((), scope=session.scope, swipe=True)
    requirement_row(session, part, of_part)

    def draw_sources(
        opened: Sequence[Opened],
        method: Method,
        dims: int,
        length: int,
        marked: int,
        done: dict[str, Any],
        part: str | None,
    ) -> Any:
        if not opened:
            said = "Choose one to four sources above, such as sample:bert."
            return (Panel("empty", "No source is chosen", message=said),), [], gr.skip()
        opened = of_part(opened, part)
        wanted = missing_umaps(opened, dims, session) if method == "umap" else []
        failed = bool(wanted) and BackgroundJob.failed(done, wanted)
        if wanted and not failed:
            return gr.skip(), wanted, gr.skip()
        view = View("pca" if failed else method, dims, length, marked)
        return clouds(opened, view, session), [], gr.Radio(value="pca") if failed else gr.skip()

    def draw_slider(opened: Sequence[Opened], part: str | None) -> Any:
        return gr.Slider(maximum=max(longest(of_part(opened, part), session) - 1, 1))

    def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
        parts = parts_of(opened)
        chosen = part if part in parts else next(iter(parts), None)
        return gr.Dropdown(parts, value=chosen, visible=bool(parts)), chosen

    def draw_together(opened: Sequence[Opened], length: int, part: str | None) -> Any:
        return lines(of_part(opened, part), length, session)

    def draw_in_logits(opened: Sequence[Opened]) -> Any:
        return (distance_panel(opened, session),)

    def draw_over(opened: Sequence[Opened], picked: dict[str, int], part: str | None) -> Any:
        return patches(of_part(opened, part), picked, session)

    def draw_tables(opened: Sequence[Opened], length: int, dimensions: str, part: str | None) -> Any:
        return images(of_part(opened, part), length, dimensions, session)

    session.redraw(
        draw_sources,
        [sources, umaps.wanted, method],
        inputs=[method, dims, length, chosen, umaps.done, part],
        on=[method.input, dims.input, length.input, chosen.change, umaps.done.change, part.change],
    )
    session.redraw(draw_slider, [marked], inputs=[part], on=[part.change])
    session.redraw(draw_part, [part_field, part], inputs=[part])
    session.redraw(draw_together, [together], inputs=[length, part], on=[length.input, part.change])
    session.redraw(draw_in_logits, [in_logits])
    session.redraw(draw_over, [over], inputs=[picked, part], on=[picked.change, part.change])
    session.redraw(
        draw_tables, [tables], inputs=[length, waves, part], on=[length.input, waves.submit, waves.blur, part.change]
    )
    part_field.input(_same, part_field, part, **QUIET)
    for name, component in {"method": method, "dims": dims, "length": length, "waves": waves}.items():
        session.keep(name, component)
    chosen.change(_same, chosen, marked, **QUIET)
    session.keep("position", chosen, read=number_up_to(MOST))
    session.keep("part", part, read=text_up_to(80))
    session.keep("patch", picked, read=numbers_by_source, write=json.dumps)
    over.select(pick, picked, picked, trigger_mode="multiple", **QUIET)
    marked.input(None, marked, None, js=MARK_JS % (session.scope, GROUP))
    marked.release(_same, marked, chosen, **QUIET)
    for row in (sources, together, tables):
        row.select(clicked, None, [marked, chosen], trigger_mode="multiple", **QUIET)


def missing_umaps(opened: Sequence[Opened], dims: int, session: Session) -> list[list[Any]]:
    """Return the UMAP projections that have yet to be computed, as a ``BackgroundJob`` takes them."""
    wanted = []
    for source, positions in tables_of(opened, 0, session).items():
        role = "position" if source.part == "position" else f"{source.part}.position"
        if enough(positions) and session.projection(positions.whole, "umap", dims) is None:
            wanted.append([source.text, role, dims])
    return wanted


def clicked(event: gr.EventData) -> Any:
    """Mark the position that was clicked."""
    found = event._data or {}
    index = found.get("index")
    if found.get("group") != GROUP or not isinstance(index, int) or index < 0:
        return gr.skip()
    return index, index


def _same(value: Value) -> Value:
    return value


_SEGMENTED: dict[str, Any] = {"elem_classes": "segmented", "scale": 0, "min_width": 140}
