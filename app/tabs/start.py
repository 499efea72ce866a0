"""The Start tab for newcomers: one sentence, one picture, and links to three other tabs."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import CancelledError
from hfposemb.text import one_line

from ..components.events import QUIET
from ..components.lines import WORK_LINE, unseen_heading
from ..components.page_script import on_load
from ..components.plot import PanelRow
from ..findings.learned_picture import LEARNED, SINUSOID, UNTRAINED, picture_panel
from ..findings.model_input import SENTENCE, input_panel
from ..lessons.card import lesson_list
from ..limits import LONGEST_SENTENCE
from ..session.opened import Opened
from ..session.opening import page_of, reading_line
from ..session.state import Session
from ..session.suggestions import in_box

TITLE = "Start"
NEEDS = ("position", "inputs")
QUESTION = """# What does a model know about words and positions?

A language model works on numbers. Each word piece has a learned vector, each position in the text has another, and the
input of the first layer is their sum.
"""


WAYS = (
    ("positions", "See positions", "Shape and similarity of all positions, side by side"),
    ("tokens", "See words", "Every word of the vocabulary and its neighbours"),
    ("words", "Add them together", "Why adding positions does not destroy the words"),
)


WAYS_JS = on_load("chooseTab")


@dataclass(frozen=True)
class Layout:
    """The tab's components that events use."""

    text: gr.Textbox
    sentence: PanelRow
    kind: gr.Radio
    picture: PanelRow
    own: gr.Textbox
    show: gr.Button
    trying: gr.HTML
    line: gr.HTML
    ways: gr.HTML


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and the ways to the other tabs."""

    session: Session

    def draw_picture(self, opened: Sequence[Opened], kind: str) -> Any:
        """Draw the picture of all positions."""
        return (picture_panel(opened, kind, self.session),)

    async def try_own(self, text: str, request: gr.Request) -> AsyncIterator[Any]:
        """Read the visitor's own model and show it in Positions, or say why it cannot be read."""
        session, hide = self.session, gr.update(visible=False)
        shown = session.at("positions", ("position",))
        name, page = text.strip(), f"{page_of(session, request)}/own"
        if not name:
            yield [_problem("Enter the name of a model, such as gpt2."), hide, gr.skip()]
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

    def stop_own(self, request: gr.Request) -> None:
        """Stop reading the visitor's own model."""
        self.session.library.fetches.stop(f"{page_of(self.session, request)}/own")

    def go(self, event: gr.EventData) -> Any:
        """Show the tab that was clicked."""
        return self.session.show((event._data or {}).get("tab", "positions"))


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout = create_layout(session)
    keep_controls(session, layout)
    bind_events(session, layout, Handlers(session))


def create_layout(session: Session) -> Layout:
    """Create the components."""
    gr.Markdown(QUESTION, elem_classes="question")
    unseen_heading("A sentence, and all positions", level=2)
    text, sentence, kind, picture = _cards(session)
    own, show = _own_fields(session)
    session.fetch_line()
    trying = gr.HTML(visible=False, **WORK_LINE)
    line = gr.HTML(visible=False, elem_classes="source-error")
    ways = _ways()
    if session.linked:
        lesson_list()
    return Layout(
        text=text,
        sentence=sentence,
        kind=kind,
        picture=picture,
        own=own,
        show=show,
        trying=trying,
        line=line,
        ways=ways,
    )


def _cards(session: Session) -> tuple[gr.Textbox, PanelRow, gr.Radio, PanelRow]:
    """Create the two cards, and return the sentence and its panel, the kind of positions and their picture."""
    first, scope = session.open(session.first), f"{session.scope}-start"
    with gr.Row(equal_height=True):
        with gr.Column(scale=5, min_width=320, elem_classes="start-card"):
            with gr.Row(elem_classes="controls"):
                text = gr.Textbox(SENTENCE, label="Your sentence", max_lines=1, max_length=LONGEST_SENTENCE)
            sentence = PanelRow((input_panel(first, SENTENCE),), scope=scope)
        with gr.Column(scale=7, min_width=320, elem_classes="start-card start-picture"):
            with gr.Row(elem_classes="controls"):
                kinds = [LEARNED, SINUSOID, UNTRAINED]
                kind = gr.Radio(kinds, value=LEARNED, label="Positions", elem_classes="segmented", min_width=300)
            picture = PanelRow((picture_panel(first, LEARNED, session),), scope=scope)
    return text, sentence, kind, picture


def _own_fields(session: Session) -> tuple[gr.Textbox, gr.Button]:
    """Create the field of the visitor's own model and its button, and bind the field's suggestions."""
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
    return own, show


def draw_sentence(opened: Sequence[Opened], text: str) -> Any:
    """Draw what the model gets of the sentence."""
    return (input_panel(opened, text),)


def keep_controls(session: Session, layout: Layout) -> None:
    """Store the controls in the page's URL."""
    session.keep("sentence", layout.text)
    session.keep("kind", layout.kind)


def bind_events(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn, the visitor's own model, and the ways to the other tabs."""
    session.redraw(draw_sentence, [layout.sentence], inputs=[layout.text], on=[layout.text.change])
    session.redraw(handlers.draw_picture, [layout.picture], inputs=[layout.kind], on=[layout.kind.input])
    tried = [layout.line, layout.trying, session.tried]
    gr.on([layout.show.click, layout.own.submit], handlers.try_own, [layout.own], tried, **QUIET)
    layout.trying.select(handlers.stop_own, **QUIET)
    layout.ways.select(handlers.go, None, [session.tabs, session.active], **QUIET)


def _problem(text: str) -> gr.HTML:
    return gr.HTML(f'<p role="alert">{html.escape(text[:1].upper() + text[1:])}</p>', visible=True)


def _ways() -> gr.HTML:
    cards = "".join(
        f'<button type="button" data-tab="{key}"><strong>{title}</strong><span>{about}</span>'
        '<i aria-hidden="true">→</i></button>'
        for key, title, about in WAYS
    )
    return gr.HTML(html_template=cards, js_on_load=WAYS_JS, apply_default_css=False, elem_classes="start-ways")
