"""The Start tab: the shapes of all positions, six questions, what enters the first layer, and the check of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ..components.events import QUIET
from ..components.happened import Happened
from ..components.lines import unseen_heading
from ..components.page_script import on_load
from ..components.plot import PanelRow
from ..findings.start.file_checks import check_fold
from ..findings.start.model_input import SENTENCE, input_panel
from ..findings.start.questions import SENTENCE_FOLD, cards, questions
from ..findings.start.shapes import facts_of, shape_panels
from ..lessons.card import lesson_list
from ..limits import LONGEST_SENTENCE
from ..session.opened import Opened
from ..session.state import Session

TITLE = "Start"
NEEDS = ("position", "inputs")
QUESTIONS = "<h2>Six questions, answered on the models above</h2>"


@dataclass(frozen=True)
class Layout:
    """The tab's components that events use."""

    shapes: PanelRow
    asked: gr.HTML
    box: gr.Accordion
    unfolded: gr.State
    text: gr.Textbox
    sentence: PanelRow


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and the ways to the other tabs."""

    session: Session

    def draw_shapes(self, opened: Sequence[Opened]) -> Any:
        """Draw the shapes of all positions, and answer the questions."""
        return shape_panels(opened, self.session), cards_of(opened, self.session)

    def go(self, event: Happened) -> list[Any]:
        """Show the tab of a question that was clicked; the one about the input is answered in a fold of this tab."""
        tab = event.get("tab") or "positions"
        opened = [gr.update(open=True), True] if tab == "start" else [gr.skip()] * 2
        return [*self.session.show(tab), *opened]


def cards_of(opened: Sequence[Opened], session: Session) -> str:
    """Return the six questions with the answers of these sources as HTML."""
    asked = questions(opened, facts_of(opened, session), session)
    return cards(asked, session, [source.text for source in opened])


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout = create_layout(session)
    session.keep("sentence", layout.text)
    bind_events(session, layout, Handlers(session))


def create_layout(session: Session) -> Layout:
    """Create the components."""
    first, scope = [one for one in session.open(session.first) if one.there], f"{session.scope}-start"
    unseen_heading(TITLE, level=1)
    with gr.Column(elem_classes="start-shapes"):
        shapes = PanelRow(shape_panels(first, session), scope=scope, swipe=True)
    asked = gr.HTML(
        cards_of(first, session),
        html_template=f"{QUESTIONS}<div>${{value}}</div>",
        js_on_load=on_load("followQuestions"),
        apply_default_css=False,
        elem_classes="questions",
    )
    with gr.Column(elem_classes=["folds", "three"]):
        box, unfolded = session.fold(SENTENCE_FOLD, "Your own sentence, as the first layer gets it", holds=["sentence"])
        with box, gr.Column(elem_classes="start-card"):
            with gr.Row(elem_classes="controls"):
                text = gr.Textbox(SENTENCE, label="Your sentence", max_lines=1, max_length=LONGEST_SENTENCE)
            sentence = PanelRow((), scope=scope)
        check_fold(session)
        if session.linked:
            lesson_list()
    return Layout(shapes=shapes, asked=asked, box=box, unfolded=unfolded, text=text, sentence=sentence)


def draw_sentence(opened: Sequence[Opened], unfolded: bool, text: str) -> Any:
    """Draw what the model gets of the sentence."""
    return (input_panel(opened, text),) if unfolded else gr.skip()


def bind_events(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn, and the ways to the other tabs."""
    session.redraw(handlers.draw_shapes, [layout.shapes, layout.asked])
    unfolded, text = layout.unfolded, layout.text
    session.redraw(draw_sentence, [layout.sentence], inputs=[unfolded, text], on=[unfolded.change, text.change])
    shown = [session.tabs, session.active, layout.box, layout.unfolded]
    layout.asked.select(handlers.go, None, shown, **QUIET)
