"""The fold of two vocabularies: whether ids name the same texts, and what may be done with the models."""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.reports.vocabulary_card import vocabulary_card
from hfposemb.text import one_line

from ...components.events import QUIET
from ...components.recipe import COPY_JS, folded_code
from ...jobs import measuring
from ...recipes.comparison_snippets import vocabularies
from ...session.library import allowed, source_key
from ..start.file_checks import has_files
from .comparison import Compared

if TYPE_CHECKING:
    from ...jobs.children import Progress
    from ...jobs.visitor import Visitor
    from ...session.opened import Opened
    from ...session.state import Session

NAME = "vocabulary"
QUESTION = "One vocabulary?"
AGAIN = "Compare again"


def vocabulary_key(a: str, b: str, *, public: bool) -> Hashable:
    """Return the key under which the library keeps a comparison. Raises ``HfposembError`` as ``allowed``."""
    return (NAME, *(source_key(allowed(text, public=public), public=public) for text in (a, b)))


def sides_of(opened: Sequence[Opened], chosen: str | None, session: Session) -> tuple[Opened, Opened] | None:
    """Return the sources of the chosen pair; ``None`` if one of them has no files, as a closed form."""
    having = tuple(source for source in opened if source.embeddings is not None)
    pair = Compared(having, None, done=False).pair(chosen)
    if pair is None:
        return None
    first, second = (having[place] for place in pair)
    return (first, second) if has_files(first, session) and has_files(second, session) else None


def _known(session: Session, sides: tuple[Opened, Opened]) -> Mapping[str, Any] | None:
    key = vocabulary_key(*(one.text for one in sides), public=session.public)
    found: Mapping[str, Any] | None = session.library.results.get(key)
    return found


async def _measure(
    session: Session, visitor: Visitor, part: str, wanted: Sequence[Sequence[str]]
) -> AsyncGenerator[Progress, None]:
    """Compare the sources ``[[a, b]]`` in a child process."""
    a, b = wanted[0][:2]
    key = vocabulary_key(a, b, public=session.public)
    async with aclosing(session.jobs.compute(visitor, part, key, list(wanted[0]), measuring.vocabulary, a, b)) as steps:
        async for progress in steps:
            yield progress


def vocabulary_page(sides: tuple[Opened, Opened], found: Mapping[str, Any] | None, *, stopped: bool) -> str:
    """Return the card of a comparison, or what is going on, as HTML."""
    if found is None:
        said = "The comparison was stopped." if stopped else "Reading the tokenizers…"
        return f"<p>{html.escape(said)}</p>"
    names = [one.name for one in sides]
    return vocabulary_card(found, names) + folded_code(vocabularies(*sides), one_line(found["headline"]))


def vocabulary_fold(session: Session, chosen: gr.State) -> None:
    """Create and bind the fold, which compares the chosen pair when it is opened."""
    box, unfolded = session.fold(NAME, QUESTION)
    with box:
        shown = gr.HTML(js_on_load=COPY_JS, apply_default_css=False, elem_classes="checks")
        with gr.Column(elem_classes="in-place"):
            work = session.jobs.bind(partial(_measure, session), name=NAME, label="Vocabularies")
            again = gr.Button(AGAIN, variant="secondary", size="lg", scale=0, min_width=160, visible=False)

    def draw(opened: Sequence[Opened], unfolded: bool, chosen: str | None, done: dict[str, Any]) -> list[Any]:
        sides = sides_of(opened, chosen, session)
        if sides is None:
            return [gr.update(visible=False), gr.skip(), [], gr.skip()]
        found = _known(session, sides)
        answer = "" if found is None else one_line(found["headline"])
        label = gr.update(visible=True, label=f"{QUESTION} {answer}".rstrip())
        if not unfolded:
            return [label, gr.skip(), [], gr.skip()]
        wanted = [[one.text for one in sides]]
        tried = [list(one[:2]) for one in done.get("wanted", [])]  # without the id of a comparison asked for again
        stopped = found is None and not done.get("ok", True) and tried == wanted
        page = vocabulary_page(sides, found, stopped=stopped)
        return [label, page, [] if stopped or found is not None else wanted, gr.update(visible=stopped)]

    def retry(due: list[Any], chosen: str | None) -> list[list[str]]:
        sides = sides_of(session.shown(due), chosen, session)
        return [] if sides is None else [[*(one.text for one in sides), uuid4().hex]]

    inputs = [unfolded, chosen, work.done]
    events = [unfolded.change, chosen.change, work.done.change]
    session.redraw(draw, [box, shown, work.wanted, again], inputs=inputs, on=events)
    again.click(retry, [session.due, chosen], work.wanted, **QUIET)
