"""The Start tab for newcomers: one sentence, one picture, and links to three other tabs."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import CancelledError
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.lines import WORK_LINE, unseen_heading
from ..components.plot import PanelRow
from ..findings.learned_picture import LEARNED, SINUSOID, UNTRAINED, picture_panel
from ..findings.model_input import SENTENCE, input_panel
from ..lessons.card import lesson_list
from ..limits import LONGEST_SENTENCE
from ..session.opened import Opened
from ..session.opening import page_of, reading_line
from ..session.state import Session
from ..session.suggestions import in_box

if TYPE_CHECKING:
    pass


TITLE = "Start"
NEEDS = ("position", "inputs")
QUESTION = """# What does a model know about words and positions?

A language model reads numbers. Each word piece has a learned vector, each place in the text has another, and the
model’s first layer gets their sum.
"""


WAYS = (
    ("positions", "See positions", "Shape and similarity of every position, side by side"),
    ("tokens", "See words", "Every word of the vocabulary and its neighbours"),
    ("words", "Add them together", "Why adding positions does not destroy the words"),
)


WAYS_CSS = """
display: grid; grid-template-columns: repeat(auto-fit, minmax(min(280px, 100%), 1fr)); gap: 24px;
button { display: grid; grid-template-columns: 1fr auto; align-items: center; gap: 0 16px; padding: 20px 24px;
  min-height: 88px; text-align: start; font: inherit; cursor: pointer; border: 0; border-radius: 12px;
  color: var(--body-text-color); background: var(--block-background-fill); box-shadow: var(--block-shadow); }
button:hover strong { text-decoration: underline; text-underline-offset: 4px; }
strong { font-size: 15px; line-height: 24px; font-weight: 650; color: inherit; }
span { grid-column: 1; font-size: 14px; line-height: 21px;
  color: var(--hfposemb-subdued, color-mix(in srgb, var(--body-text-color) 72%, var(--background-fill-primary))); }
i { grid-area: 1 / 2 / 3 / 3; font-style: normal; font-size: 18px; color: #b8195a; }
.dark & i { color: #ff8fb8; }
.block:has(> .html-container > &) { padding: 0; background: none; box-shadow: none; border: 0; overflow: visible; }
.html-container:has(> &) { padding: 0; }
.gradio-container:has(&) .start-card { gap: 0; }
.gradio-container:has(&) .start-card .controls { border-radius: 12px 12px 0 0; padding: 20px 24px 0; box-shadow: none;
  flex: 0 0 auto; }
.gradio-container:has(&) .start-card .panel { border-radius: 0 0 12px 12px !important; box-shadow: none !important; }
.gradio-container:has(&) .start-card > .block { flex: 1; }
.gradio-container:has(&) .start-card > .block :is(.html-container, .html-container > div, hfposemb-row, .grid) {
  height: 100%; }
.gradio-container:has(&) .start-card .message { border-inline-start: 3px solid #b8195a; padding-inline-start: 16px;
  display: block !important; min-height: 0 !important; flex: none !important;
  color: var(--body-text-color) !important; }
.gradio-container:has(&) .start-card .error .message { border: 0; }
.dark .gradio-container:has(&) .start-card .message { border-color: #d13a78; }
@media (max-width: 719px) {
  .gradio-container:has(&) .start-card .controls { padding: 16px 16px 0; }
}
@media (min-width: 900px) {
  .gradio-container:has(&) .start-card .panel { padding: 16px 24px 24px !important; }
  .gradio-container:has(&) .start-picture .caption { align-self: start; padding: 4px 0 0 !important; }
  .gradio-container:has(&) .start-picture .drawings { display: grid; align-items: end; gap: 0 16px;
    grid: auto auto / auto-flow minmax(0, 5fr) minmax(0, 3fr); }
}
"""


WAYS_JS = """
element.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) trigger("select", { tab: button.dataset.tab });
});
"""


def tab(session: Session) -> None:
    """Create and bind the tab."""
    first = session.open(session.first)
    gr.Markdown(QUESTION, elem_classes="question")
    unseen_heading("A sentence, and all positions", level=2)
    with gr.Row(equal_height=True):
        with gr.Column(scale=5, min_width=320, elem_classes="start-card"):
            with gr.Row(elem_classes="controls"):
                text = gr.Textbox(SENTENCE, label="Your sentence", max_lines=1, max_length=LONGEST_SENTENCE)
            sentence = PanelRow((input_panel(first, SENTENCE),), scope=f"{session.scope}-start")
        with gr.Column(scale=7, min_width=320, elem_classes="start-card start-picture"):
            with gr.Row(elem_classes="controls"):
                kinds = [LEARNED, SINUSOID, UNTRAINED]
                kind = gr.Radio(kinds, value=LEARNED, label="Positions", elem_classes="segmented", min_width=300)
            picture = PanelRow((picture_panel(first, LEARNED, session),), scope=f"{session.scope}-start")
    with gr.Row(elem_classes="controls"):
        own = gr.Textbox(
            label="Try your own model",
            placeholder="gpt2",
            max_lines=1,
            max_length=1024,
            scale=4,
            min_width=220,
            elem_classes="own-model",
        )
        show = gr.Button("Show", variant="primary", scale=0, min_width=96)
    in_box(session, own, name="own-model")
    session.fetch_line()
    trying = gr.HTML(visible=False, **WORK_LINE)
    line = gr.HTML(visible=False, elem_classes="source-error")
    ways = _ways()
    if session.linked:
        lesson_list()

    def draw_sentence(opened: Sequence[Opened], text: str) -> Any:
        return (input_panel(opened, text),)

    def draw_picture(opened: Sequence[Opened], kind: str) -> Any:
        return (picture_panel(opened, kind, session),)

    shown = session.at("positions", ("position",))

    async def try_own(text: str, request: gr.Request) -> AsyncIterator[Any]:
        hide = gr.update(visible=False)
        name, page = text.strip(), f"{page_of(session, request)}/own"
        if not name:
            yield [_problem("Write the name of a model, such as gpt2."), hide, gr.skip()]
            return
        opened, read = shown.open([name]), []
        follow = session.library.fetches.follow(page, name, shown.wanted(opened))
        try:
            async with aclosing(follow):
                async for read in follow:
                    if read and not read[0].over.is_set():
                        yield [hide, reading_line(read), gr.skip()]
        except CancelledError:
            yield [hide, hide, gr.skip()]
            return
        error = str(read[0].error or "") if read else opened[0].error
        if error:
            yield [_problem(one_line(error)), hide, gr.skip()]
            return
        yield [hide, hide, [name, "positions", uuid4().hex]]

    def stop_own(request: gr.Request) -> None:
        session.library.fetches.stop(f"{page_of(session, request)}/own")

    def go(event: gr.EventData) -> Any:
        return session.show((event._data or {}).get("tab", "positions"))

    session.keep("sentence", text)
    session.keep("kind", kind)
    session.redraw(draw_sentence, [sentence], inputs=[text], on=[text.change])
    session.redraw(draw_picture, [picture], inputs=[kind], on=[kind.input])
    gr.on(
        [show.click, own.submit],
        try_own,
        [own],
        [line, trying, session.tried],
        **QUIET,
    )
    trying.select(stop_own, **QUIET)
    ways.select(
        go,
        None,
        [session.tabs, session.active],
        **QUIET,
    )


def _problem(text: str) -> gr.HTML:
    return gr.HTML(f'<p role="alert">{html.escape(text[:1].upper() + text[1:])}</p>', visible=True)


def _ways() -> gr.HTML:
    cards = "".join(
        f'<button type="button" data-tab="{key}"><strong>{title}</strong><span>{about}</span>'
        '<i aria-hidden="true">→</i></button>'
        for key, title, about in WAYS
    )
    return gr.HTML(html_template=cards, css_template=WAYS_CSS, js_on_load=WAYS_JS, apply_default_css=False)
