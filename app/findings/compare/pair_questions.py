"""The folds of two models: whether ids name the same texts, whether one comes from the other, what a merge would do."""

from __future__ import annotations

import html
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from hfposemb.reports.pair_cards import verdict_card, vocabulary_card
from hfposemb.text import one_line

from ...components.recipe import COPY_JS, Recipe, folded_code
from ...jobs import measuring
from ...recipes.writing import TOKEN_ROLES, Code, command_line, pinned, recipe
from ...session.background_jobs import BackgroundJob, Request
from ...session.library import source_key
from ..start.file_checks import has_files
from .comparison import chosen_pair

if TYPE_CHECKING:
    from ...session.opened import Opened
    from ...session.state import Session

AGAIN = "Compare again"
FIGURES = "{one.name: one.value for one in found.evidence}"


@dataclass(frozen=True)
class PairQuestion:
    """A question about two models that a child process answers with JSON.

    Attributes:
        name: Name of the fold and its answers.
        asked: The question.
        label: What the job is called.
        reading: What is said meanwhile.
        compute: Answers for two sources, in the child.
        said: Name of the answer's line that is shown beside the question.
        card: HTML of an answer, given the names of the sources.
        asks: The function of ``hfposemb`` that answers, the command, and the code of what is shown of its answer.
    """

    name: str
    asked: str
    label: str
    reading: str
    compute: Callable[..., dict[str, Any]]
    said: str
    card: Callable[[Mapping[str, Any], Sequence[str]], str]
    asks: tuple[str, str, str]

    def answer(self, found: Mapping[str, Any]) -> str:
        """Return the line of an answer that is shown beside the question."""
        line = one_line(found[self.said])
        return line[:1].upper() + line[1:]


VOCABULARY = PairQuestion(
    name="vocabulary",
    asked="One vocabulary?",
    label="Vocabularies",
    reading="Reading the tokenizers…",
    compute=measuring.vocabulary,
    said="headline",
    card=vocabulary_card,
    asks=("vocabulary_difference", "vocab", "{name: one.answer for name, one in found.answers.items()}"),
)
ORIGIN = PairQuestion(
    name="kinship",
    asked="One origin?",
    label="Kinship",
    reading="Reading rows of both models…",
    compute=partial(measuring.of_rows, "kinship"),
    said="verdict",
    card=verdict_card,
    asks=("kinship", "kinship", FIGURES),
)
MERGE = replace(
    ORIGIN,
    name="merge_preview",
    asked="What would a merge do?",
    label="Merge",
    compute=partial(measuring.of_rows, "merge_preview"),
    asks=("merge_preview", "merge-preview", FIGURES),
)
QUESTIONS = (VOCABULARY, ORIGIN, MERGE)


def pair_key(name: str, a: str, b: str, *, public: bool) -> Hashable:
    """Return the key under which the library keeps an answer. Raises ``HfposembError`` as ``allowed``."""
    return (name, *(source_key(text, public=public) for text in (a, b)))


def sides_of(opened: Sequence[Opened], chosen: str | None, session: Session) -> tuple[Opened, Opened] | None:
    """Return the sources of the chosen pair; ``None`` if one of them has no files, as a closed form."""
    sides = chosen_pair(opened, chosen)
    return sides if sides is not None and all(has_files(source, session) for source in sides) else None


def _known(session: Session, question: PairQuestion, sides: tuple[Opened, Opened]) -> Mapping[str, Any] | None:
    key = pair_key(question.name, *(one.text for one in sides), public=session.public)
    found: Mapping[str, Any] | None = session.library.results.get(key)
    return found


def answer_request(session: Session, question: PairQuestion, one: Sequence[str]) -> Request:
    """Return the answer for the sources ``[a, b]`` for a job."""
    return Request(pair_key(question.name, *one, public=session.public), question.compute, one)


def pair_page(
    question: PairQuestion, sides: tuple[Opened, Opened], found: Mapping[str, Any] | None, *, stopped: bool
) -> str:
    """Return the card of an answer, or what is going on, as HTML."""
    if found is None:
        said = "The comparison was stopped." if stopped else question.reading
        return f"<p>{html.escape(said)}</p>"
    names = [one.name for one in sides]
    return question.card(found, names) + folded_code(pair_recipe(question, sides), question.answer(found))


def pair_recipe(question: PairQuestion, sides: tuple[Opened, Opened]) -> Recipe:
    """Return the recipe of what a function and a command tell of two models."""
    function, command, value = map(Code, question.asks)
    left, right = map(pinned, sides)
    code = {"function": function, "value": value, "left": left, "right": right}
    return recipe("two models", sides, command=[command_line(command, left, right)], roles=TOKEN_ROLES, **code)


def pair_fold(session: Session, question: PairQuestion, chosen: gr.State) -> None:
    """Create and bind the fold of a question, which is answered for the chosen pair when it is opened."""
    box, unfolded = session.fold(question.name, question.asked)
    with box:
        shown = gr.HTML(js_on_load=COPY_JS, apply_default_css=False, elem_classes="checks")
        with gr.Column(elem_classes="in-place"):
            work = session.jobs.bind(
                partial(answer_request, session, question), name=question.name, label=question.label
            )
            again = gr.Button(AGAIN, variant="secondary", size="lg", scale=0, min_width=160, visible=False)

    def draw(opened: Sequence[Opened], unfolded: bool, chosen: str | None, done: dict[str, Any]) -> list[Any]:
        sides = sides_of(opened, chosen, session)
        if sides is None:
            return [gr.update(visible=False), gr.skip(), [], gr.skip()]
        found = _known(session, question, sides)
        answer = "" if found is None else question.answer(found)
        label = gr.update(visible=True, label=f"{question.asked} {answer}".rstrip())
        if not unfolded:
            return [label, gr.skip(), [], gr.skip()]
        wanted = [[one.text for one in sides]]
        stopped = found is None and BackgroundJob.failed(done, wanted)
        page = pair_page(question, sides, found, stopped=stopped)
        return [label, page, [] if stopped or found is not None else wanted, gr.update(visible=stopped)]

    inputs = [unfolded, chosen, work.done]
    events = [unfolded.change, chosen.change, work.done.change]
    session.redraw(draw, [box, shown, work.wanted, again], inputs=inputs, on=events)
    work.again_on(again.click)
