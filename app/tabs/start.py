"""The Start tab: a sentence on its way into the first layer, the shapes of all positions, six questions, and more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ..components.events import EACH, QUIET, State
from ..components.happened import Happened
from ..components.lines import segmented, unseen_heading
from ..components.page_script import on_load
from ..components.plot import PanelRow
from ..components.recipe import COPY_JS
from ..findings.chosen_word import source_of, which_choices
from ..findings.start.file_checks import check_fold
from ..findings.start.questions import cards, questions
from ..findings.start.sentence_steps import EXAMPLES, FIRST_SENTENCE, sentence_steps
from ..findings.start.shapes import facts_of, shape_panels
from ..lessons.card import lesson_list
from ..limits import LONGEST_SENTENCE
from ..session.address import of_sources
from ..session.opened import Opened
from ..session.source_names import from_hub
from ..session.state import Session

TITLE = "Start"
NEEDS = ("position", "inputs")
QUESTIONS = "<h2>Six questions, answered on the models above</h2>"


class Layout:
    """The tab's components that events use."""

    def __init__(self, session: Session) -> None:
        first, scope = [one for one in session.open(session.first) if one.there], f"{session.scope}-start"
        unseen_heading(TITLE, level=1)
        self._sentence_card(first)
        with gr.Column(elem_classes="start-shapes"):
            self.shapes = PanelRow(shape_panels(first, session), scope=scope, swipe=True)
        self.asked = gr.HTML(
            cards_of(first, session),
            html_template=f"{QUESTIONS}<div>${{value}}</div>",
            js_on_load=on_load("followQuestions"),
            apply_default_css=False,
            elem_classes="questions",
        )
        with gr.Column(elem_classes=["folds", "three"]):
            check_fold(session)
            if session.linked:
                lesson_list()
        self.source = State(self.which.value)

    def _sentence_card(self, first: Sequence[Opened]) -> None:
        """Create the card of the sentence: its field, what it is followed on, the model, and the steps.

        Models of the Hub are asked once the page is open: their tokenizers are more to read than their positions.
        """
        choices = which_choices(first)
        local = not any(from_hub(one.text) for one in first)
        with gr.Column(elem_classes="sentence-card"):
            with gr.Row(elem_classes="controls"):
                self.text = gr.Textbox(
                    FIRST_SENTENCE,
                    label="Your sentence",
                    max_lines=1,
                    max_length=LONGEST_SENTENCE,
                    elem_classes="sentence",
                    scale=4,
                    min_width=260,
                )
                self.which = gr.Dropdown(
                    choices, value=choices[0][1] if choices else None, label="Model", min_width=200
                )
                examples = [(said, name) for name, said in EXAMPLES.items()]
                self.example = segmented("On the model, or by hand", examples, "model", 300)
            self.steps = gr.HTML(
                sentence_steps(first, FIRST_SENTENCE, "model") if local else "",
                js_on_load=COPY_JS,
                apply_default_css=False,
                elem_classes="sentence-steps",
            )


@dataclass(frozen=True)
class Handlers:
    """What the tab draws, and the ways to the other tabs."""

    session: Session

    def draw_shapes(self, opened: Sequence[Opened]) -> Any:
        """Draw the shapes of all positions, and answer the questions."""
        return shape_panels(opened, self.session), cards_of(opened, self.session)

    def draw_steps(self, opened: Sequence[Opened], source: str | None, text: str, example: str) -> Any:
        """Draw the steps of a sentence, and offer the sources that have words."""
        chosen = source_of(opened, source)
        ordered = sorted(opened, key=lambda one: one is not chosen)
        choices = gr.update(choices=which_choices(opened), value=None if chosen is None else chosen.text)
        return [choices, sentence_steps(ordered, text, example)]

    def go(self, event: Happened) -> Any:
        """Show the tab of a question that was clicked."""
        return self.session.show(event.get("tab") or "positions")


def cards_of(opened: Sequence[Opened], session: Session) -> str:
    """Return the six questions with the answers of these sources as HTML."""
    asked = questions(opened, facts_of(opened, session), session)
    return cards(asked, session, [source.text for source in opened])


def tab(session: Session) -> None:
    """Create and bind the tab."""
    layout = Layout(session)
    session.keep("sentence", layout.text)
    session.keep("follow", layout.example)
    session.keep("sentence-of", layout.source, choices=of_sources)
    bind_events(session, layout, Handlers(session))


def bind_events(session: Session, layout: Layout, handlers: Handlers) -> None:
    """Bind what is drawn, and the ways to the other tabs."""
    session.redraw(handlers.draw_shapes, [layout.shapes, layout.asked])
    asked = [layout.source, layout.text, layout.example]
    changed = [layout.text.change, layout.source.change, layout.example.input]
    session.redraw(handlers.draw_steps, [layout.which, layout.steps], inputs=asked, on=changed)
    layout.which.input(lambda text: text, layout.which, layout.source, **QUIET)
    layout.asked.select(handlers.go, None, [session.tabs, session.active], **EACH)
