"""The Compare tab: metrics with chance levels, pairs of sources, moved words, and the report."""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import HfposembError
from hfposemb.reports import html_tables
from hfposemb.text import one_line

from .. import limits
from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import unseen_heading
from ..components.plot import Panel, PanelRow, Panels, kept_file
from ..components.recipe import COPY_JS, FOLD_CSS
from ..findings.comparison import (
    POSITIONS,
    ROLES,
    TOKENS,
    Compared,
    compared,
    comparison_key,
    figures_html,
    maps_key,
    maps_of,
    maps_panels,
    moved_panels,
    named_pairs,
    of_part,
    pairs_html,
    part_choices,
    part_of,
    parts_of,
)
from ..jobs import children
from ..jobs.queue import Visitor
from ..session.address import number_up_to, text_up_to
from ..session.background_jobs import BackgroundJob
from ..session.guard import guarded
from ..session.opened import Opened
from ..session.state import Session

if TYPE_CHECKING:
    pass


TITLE = "Compare"
NEEDS = ("position", "token")


CARD: dict[str, Any] = {
    "apply_default_css": False,
    "css_template": f"""
        {html_tables.colours(dark=False)}
        .dark & {{ {html_tables.colours(dark=True)} }}
        .block:has(> .html-container > &) {{ background: var(--background-fill-primary, #fff); padding: 0; }}
        .html-container:has(> &) {{ padding: 24px; }}
        color: var(--ink); font-size: 15px; line-height: 24px;
        h2 {{ margin: 0; font-size: 18px; line-height: 26px; font-weight: 650; overflow-wrap: anywhere; }}
        h2 {{ color: var(--ink); text-wrap: pretty; }}
        h2 + p {{ margin: 2px 0 16px; font-size: 14px; line-height: 21px; color: var(--subdued); }}
        details {{ margin-top: 16px; font-size: 14px; line-height: 21px; }}
        summary {{ cursor: pointer; min-height: 24px; width: fit-content; color: var(--subdued); }}
        details p {{ max-width: 80ch; margin: 8px 0 0; }}
        {FOLD_CSS}
        {html_tables.STYLE}
    """,
    "js_on_load": COPY_JS,
}


SAVE = """() => setTimeout(() => {
  const button = document.getElementById("ID");
  (button?.matches("a") ? button : button?.querySelector("a") ?? button)?.click();
}, 300)"""
"""Starts the download as soon as the report is ready, so that one button suffices."""


STARTING = "<h2>What can be measured of these sources is being measured</h2>"


def tab(session: Session) -> None:
    """Create and bind the tab. Nothing is computed until it is first shown."""

    def draw_figures(
        opened: Sequence[Opened], chosen: str | None, at: int, part: str | None, done: dict[str, Any] | None = None
    ) -> list[Any]:
        """Draw the tables and the words; if computing chance levels failed, show a button to retry."""
        try:
            found = compared(of_part(opened, part), session)
            stopped = not found.done and done is not None and not done.get("ok", True)
            found = replace(found, stopped=stopped)
        except HfposembError as error:
            said = f'<h2>These sources cannot be compared</h2><p role="alert">{html.escape(one_line(str(error)))}</p>'
            return [said, "", gr.update(visible=False), Panels(()), gr.update(visible=False)]
        tables = [figures_html(found), pairs_html(found)]
        words, retry = moved_panels(found, chosen, at), gr.update(visible=found.stopped)
        return [*tables, pair_field(found, chosen), words, retry]

    def pair_field(found: Compared, chosen: str | None) -> Any:
        pair, choices = found.pair(chosen), found.choices
        value = f"{pair[0]}-{pair[1]}" if pair else None
        return gr.update(choices=choices, value=value, visible=len(choices) > 1)

    def draw_maps(
        opened: Sequence[Opened],
        chosen: str | None,
        role: str,
        method: str,
        part: str | None,
        done: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Draw two maps; if they have to be computed first, request them and keep the old ones."""
        found = compared(of_part(opened, part), session)
        pair = found.pair(chosen)
        if pair is None:
            return [Panels(()), [], gr.skip()]
        left, right = (found.sources[place] for place in pair)
        title, back = f"{role} of {left.name} and {right.name}", gr.skip()
        wanted = [[[left.text, right.text], ROLES[role], method.lower(), part_of(left, right)]]
        try:
            maps = maps_of(left, right, ROLES[role], method.lower(), session)
            if maps is None and not (done and BackgroundJob.failed(done, wanted)):
                return [gr.skip(), wanted, gr.skip()]
            if maps is None:  # cancelled or failed: fall back to PCA
                maps, back = maps_of(left, right, ROLES[role], "pca", session), gr.update(value="PCA")
            if maps is None:
                return [Panels((Panel("maps", title, message="Choose PCA again to draw these maps."),)), [], back]
            return [maps_panels(found, pair, maps), [], back]
        except HfposembError as error:
            return [Panels((Panel("maps", f"No maps of the {title}", message=one_line(str(error))),)), [], back]

    def comparable(due: list[Any]) -> list[str]:
        return [source.text for source in session.shown(due) if source.embeddings is not None]

    def taken(due: list[Any], part: str | None) -> str:
        """Return the part that is compared, "" if no source has the selected one."""
        return part_of(*of_part(session.shown(due), part))

    def begin(due: list[Any], part: str | None) -> Any:
        """Request chance levels and pairs as soon as the tab is drawn."""
        having, part = comparable(due), taken(due, part)
        if not having:
            return []
        known = session.library.results.get(comparison_key(having, public=session.public, part=part))
        return [having, part] if known is None else []

    def retry(due: list[Any], part: str | None) -> Any:
        having = comparable(due)
        return [having, taken(due, part), uuid4().hex] if having else []

    async def measure(visitor: Visitor, place: str, wanted: Sequence[Any]) -> AsyncGenerator[children.Progress, None]:
        texts, part = wanted[:2]
        key = comparison_key(texts, public=session.public, part=part)
        work = partial(children.comparison, part=part)
        async for step in session.jobs.compute(visitor, place, key, texts, work, texts, limits.COMPARISON_DRAWS):
            yield step

    async def lay_out(visitor: Visitor, place: str, wanted: Sequence[Any]) -> AsyncGenerator[children.Progress, None]:
        texts, role, method, part = wanted[0]
        key = maps_key(texts, role, method, public=session.public, part=part)
        work = partial(children.maps, part=part)
        async for step in session.jobs.compute(visitor, place, key, wanted[0], work, texts, role, method):
            yield step

    async def write(visitor: Visitor, place: str, wanted: Sequence[Any]) -> AsyncGenerator[children.Progress, None]:
        texts, part, _ = wanted[0]
        measured = comparison_key(texts, public=session.public, part=part)
        key = comparison_key(texts, public=session.public, what="report", part=part)

        def late() -> tuple[Any, ...]:
            """Take the comparison from the results, where the panel above may have put it meanwhile."""
            return texts, session.library.results.get(measured), limits.COMPARISON_DRAWS

        work = partial(children.page, part=part)
        async for step in session.jobs.compute(visitor, place, key, wanted[0], work, late=late):
            yield step
        made = session.library.results.get(key)
        if made is not None and session.library.results.get(measured) is None:
            session.library.results.put(measured, made[0])

    def ask_report(due: list[Any], part: str | None) -> Any:
        having = comparable(due)
        return [[having, taken(due, part), uuid4().hex]] if having else []

    def hand_over(wanted: list[Any], done: dict[str, Any]) -> Any:
        """Give the page the file once it is written; none if it was not."""
        if not done.get("ok") or not wanted:
            return gr.update(value=None)
        texts, part, _ = wanted[0]
        made = session.library.results.get(comparison_key(texts, public=session.public, what="report", part=part))
        return gr.update(value=None if made is None else kept_file(made[1].encode(), "hfposemb-report.html"))

    def pick(due: list[Any], chosen: str | None, at: int, part: str | None, happened: gr.EventData) -> list[Any]:
        """Select a moved word, or open it or a neighbour in Tokens."""
        told, stay = happened._data or {}, [gr.skip()] * 3
        found = compared(of_part(session.shown(due), part), session)
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
        return [gr.skip(), *to_tokens(found.sources[pair[side]], label)]

    def to_tokens(source: Opened, label: str) -> list[Any]:
        table = source.table("token")
        row = None if table is None else table.labels.exact(label)
        asked = session.ask_for(label, "" if row is None else source.text, -1 if row is None else row)
        return [asked, *session.show("tokens")]

    # Keep the choice in a state, as in Positions.
    part = State("")

    def draw_part(opened: Sequence[Opened], part: str | None) -> Any:
        parts = parts_of(opened)
        return gr.Dropdown(part_choices(parts), value=part if part in parts else "", visible=bool(parts))

    at = State(0)
    choices = named_pairs(session.first)
    with gr.Row(elem_classes="controls"):
        session.source_field()
        parts: list[str] = []  # known once the sources are opened
        part_field = gr.Dropdown(
            part_choices(parts),
            value="",
            label="Positions of",
            filterable=False,
            visible=bool(parts),
            scale=0,
            min_width=200,
        )
        with gr.Column(scale=0, min_width=200):
            ask = gr.Button("Download a report", variant="primary", min_width=200)
            save = gr.DownloadButton(visible="hidden", elem_id=f"report-{session.scope}")
        unseen_heading(TITLE, level=2)
    with gr.Column():
        reports = session.jobs.bind(write, name="report", label="Report")
        measures = session.jobs.bind(measure, name="figures", label="Comparison")
        again = gr.Button("Measure beside chance", visible=False, min_width=220, scale=0)
        figures = gr.HTML(STARTING, **CARD)
        pairs = gr.HTML("", **CARD)
    with gr.Row(elem_classes="controls"):
        chosen = gr.Radio(
            choices,
            value="0-1" if choices else None,
            label="Two of them",
            elem_classes="segmented",
            scale=3,
            min_width=420,
            visible=len(choices) > 1,
        )
        role = gr.Radio(
            [POSITIONS, TOKENS], value=POSITIONS, label="Maps of", elem_classes="segmented", min_width=210, scale=1
        )
        method = gr.Radio(
            ["PCA", "UMAP"], value="PCA", label="Laid out by", elem_classes="segmented", min_width=160, scale=1
        )
    with gr.Column():
        layouts = session.jobs.bind(lay_out, name="maps", label="AlignedUMAP")
        plan = PanelRow((), scope=session.scope)
    words = PanelRow((), scope=session.scope)

    drawn = [figures, pairs, chosen, words, again]
    session.redraw(draw_figures, drawn, inputs=[chosen, at, part], on=[part.change])
    session.when([measures.done.change], draw_figures, drawn, inputs=[chosen, at, part, measures.done])
    session.redraw(draw_part, [part_field], inputs=[part])
    part_field.input(lambda value: value, part_field, part, **QUIET)

    def draw_words(opened: Sequence[Opened], chosen: str | None, at: int, part: str | None) -> Any:
        return moved_panels(compared(of_part(opened, part), session), chosen, at)

    session.when([chosen.input, at.change], draw_words, [words], inputs=[chosen, at, part])
    laid = [plan, layouts.wanted, method]
    asked = [chosen, role, method, part]
    session.redraw(draw_maps, laid, inputs=asked, on=[chosen.input, role.input, method.input, part.change])
    session.when([layouts.done.change], draw_maps, laid, inputs=[*asked, layouts.done])
    gr.on([session.due.change, part.change], begin, [session.due, part], measures.wanted, **QUIET)
    again.click(guarded(retry, public=session.public), [session.due, part], measures.wanted, **QUIET)
    chosen.input(lambda: 0, outputs=at, **QUIET)
    words.select(
        pick,
        [session.due, chosen, at, part],
        [at, session.asked, session.tabs, session.active],
        trigger_mode="always_last",
        **QUIET,
    )
    session.keep("pair", chosen, choices=named_pairs)
    session.keep("moved", at, read=lambda text: int(number_up_to(10**6)(text)))
    session.keep("maps", role)
    session.keep("laid", method)
    session.keep("stack", part, read=text_up_to(80))
    ask.click(guarded(ask_report, public=session.public), [session.due, part], reports.wanted, **QUIET)
    written = reports.done.change(hand_over, [reports.wanted, reports.done], save, **QUIET)
    written.then(js=SAVE.replace("ID", f"report-{session.scope}"), **QUIET)
