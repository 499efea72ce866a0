"""The card of a lesson above the tabs, and the collapsible list of all lessons.

A lesson asks for a prediction before it shows a measurement. The open lesson is stored in the URL like every control; a
link to a lesson opens its sources and its tab. The reveal measures the sources on the page at that time.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from hfposemb.errors import HfposembError, InputError
from hfposemb.text import one_line

from ..components.events import QUIET, State
from ..components.page_script import on_load
from ..limits import MEASURED_AT_ONCE
from ..session.address import one_of, written
from ..session.opened import WAITING, Opened
from ..session.state import Session
from .lessons import LESSONS, Lesson

NAME = "lesson"
NUMBERS = ("", *(str(number) for number in range(1, len(LESSONS) + 1)))
CHOOSE = "Choose an answer first."


def link(number: int) -> str:
    """Return the URL query that opens a lesson; numbers start at 1."""
    lesson = LESSONS[number - 1]
    tab = "" if lesson.tab == "start" else lesson.tab
    return "?" + written({**lesson.controls, NAME: str(number)}, lesson.models, tab)


# --- content ----------------------------------------------------------------------------------------------------------


def told(number: int) -> str:
    """Return a lesson's title and statement as HTML."""
    lesson = LESSONS[number - 1]
    return (
        f'<p class="step">Lesson {number} of {len(LESSONS)}<a href="?" data-close>Close the lesson</a></p>'
        f'<h2 tabindex="-1">{html.escape(lesson.title)}</h2><p>{html.escape(lesson.statement)}</p>'
    )


def revealed(number: int, guess: str | None, opened: Sequence[Opened], session: Session) -> str:
    """Return the measurements of every source, the right choice, and the exercise as HTML."""
    lesson = LESSONS[number - 1]
    if guess not in lesson.choices:
        return f'<p role="alert">{CHOOSE}</p>'
    found = list(_measured(lesson, number, opened, session))
    values = [value for value, _ in found if value is not None]
    lines = "".join(f"<li>{html.escape(line)}</li>" for _, line in found)
    parts = [f"<ul>{lines}</ul>" if lines else ""]
    if values:
        right = lesson.choices[lesson.right(values[0])]
        said = "Correct" if right == guess else "Not quite. Measured"
        parts = [f'<p data-lesson="{number}"><strong>{html.escape(f"{said}: {right}.")}</strong></p>', *parts]
        parts.append(f"<p>{html.escape(lesson.why)}</p>")
    else:
        parts.append("<p>None of the sources can show this. Open the lesson again to load sources that can.</p>")
    parts.append(f"<p><strong>Try it:</strong> {html.escape(lesson.exercise)}</p>")
    if number < len(LESSONS):
        after = LESSONS[number].title
        parts.append(f'<p><a href="{html.escape(link(number + 1))}">Next: {html.escape(after)}</a></p>')
    return "".join(parts)


def _measured(
    lesson: Lesson, number: int, opened: Sequence[Opened], session: Session
) -> Iterator[tuple[float | None, str]]:
    """Yield the value of each source, ``None`` if it has none, and a line of text about it."""
    for source in opened:
        try:
            value = _value(lesson, number, source, session)
        except HfposembError as error:
            yield None, f"{source.name}: {one_line(str(error))}"
        else:
            yield value, lesson.measured(source.name, value)


def _value(lesson: Lesson, number: int, source: Opened, session: Session) -> float:
    if source.embeddings is None:
        again = "; reveal again when it is done" if source.error == WAITING else ""
        raise InputError(f"{source.error}{again}")
    embeddings = source.embeddings
    table = source.table("position")
    if (
        lesson.tab == "positions"
        and table is not None
        and min(table.shape[0], 2048) * table.shape[1] > MEASURED_AT_ONCE
    ):
        raise InputError("its rows are too wide to measure here")
    # Keyed by name, like open sources in the library: a mechanism has no table and hence no digest.
    key = (NAME, number, source.text, session.public)
    return session.library.results.make(key, lambda: lesson.measure(embeddings))


PATH_JS, RESULT_JS, CARD_JS = on_load("lessonPath"), on_load("lessonResult"), on_load("openCard")


def lesson_list() -> None:
    """Create the collapsible list of all lessons."""
    lines = "".join(
        f'<li><a href="{html.escape(link(number))}">{html.escape(lesson.title)}</a></li>'
        for number, lesson in enumerate(LESSONS, 1)
    )
    gr.HTML(
        "<details><summary>Short lessons: guess first, then measure <span class='progress'></span></summary>"
        f"<ol>{lines}</ol></details>",
        js_on_load=PATH_JS,
        apply_default_css=False,
        elem_classes="lessons",
    )


@dataclass(frozen=True)
class Card:
    """The components of the card above the tabs, created before there is a session and bound to it afterwards."""

    number: gr.State
    box: gr.Column
    head: gr.HTML
    guess: gr.Radio
    reveal: gr.Button
    result: gr.HTML

    @classmethod
    def drawn(cls) -> Card:
        """Create the card, hidden until a lesson is open."""
        number = State("")
        with gr.Column(visible=False, elem_classes="lesson-card") as box:
            head = gr.HTML("", js_on_load=CARD_JS, apply_default_css=False, elem_classes="lesson-head")
            guess = gr.Radio([], label="What do you expect?", min_width=200)
            reveal = gr.Button("Reveal", scale=0, min_width=160)
            result = gr.HTML(
                "",
                html_template='<div role="status">${value}</div>',
                js_on_load=RESULT_JS,
                apply_default_css=False,
                elem_classes="lesson-result",
            )
        return cls(number, box, head, guess, reveal, result)

    def bind(self, session: Session, sessions: Mapping[str, Session]) -> None:
        """Bind the card to a page, whose tabs have the given sessions."""
        session.keep(NAME, self.number, read=one_of(NUMBERS))

        def show(number: str) -> list[Any]:
            if not number:
                return [gr.update(visible=False), *[gr.skip()] * 3]
            lesson = LESSONS[int(number) - 1]
            asked = gr.update(choices=list(lesson.choices), label=lesson.question, value=None)
            return [gr.update(visible=True), told(int(number)), asked, ""]

        def tell(number: str, guess: str | None, texts: list[str], fetched: dict[str, Any]) -> Any:
            if not number:
                return gr.skip()
            # Measure what the lesson's own tab has read of a source.
            own = sessions[LESSONS[int(number) - 1].tab]
            return revealed(int(number), guess, own.open(texts, fetched), own)

        self.number.change(show, self.number, [self.box, self.head, self.guess, self.result], **QUIET)
        asked = [self.number, self.guess, session.sources, session.fetched]
        self.reveal.click(tell, asked, self.result, trigger_mode="once", **QUIET)
