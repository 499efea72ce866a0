"""The panels of token table against output head: are both one table, and what have they in common.

Heads on the Hub are read once they are to stand for the tokens: most visitors never look at one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import CancelledError
from hfposemb.text import number, one_line, sentence_case

from ...components.events import EACH, QUIET, State
from ...components.happened import Happened
from ...components.help_texts import HELP
from ...components.lines import WORK_LINE, failed_line
from ...components.plot import NeighbourList, NeighbourRow, Panel, PanelRow, Panels
from ...failures import said_of
from ...jobs import measuring
from ...jobs.fetching import Fetch
from ...recipes.writing import command_line, pinned, recipe
from ...session.background_jobs import BackgroundJob, Request
from ...session.opened import HEAD_NEEDS, UNREAD, Opened
from ...session.opening import page_of, reading_line
from ...session.state import Session
from ..chosen_word import shown, with_tokens
from .token_search import picked_word

if TYPE_CHECKING:
    from hfposemb.comparison.moved_words import Move
    from hfposemb.comparison.token_against_head import HeadComparison, HeadMeasure


def unread(session: Session, opened: Sequence[Opened]) -> list[str]:
    """Return the sources whose output head is to be read before it is drawn."""
    heads = [source.text for source in opened if source.separate]
    return [text for text in heads if session.library.opened(text, HEAD_NEEDS, public=session.public) is None]


@dataclass(frozen=True)
class HeadReads:
    """Reads the output heads for one page; see ``opening.SourceReads``, which reads the other tables."""

    session: Session
    name: str = ""

    async def read(self, wanted: list[str], request: gr.Request) -> AsyncIterator[list[Any]]:
        """Read the heads of some sources with progress; return the line and what changes when they have been read."""
        if not wanted:
            yield [gr.skip(), gr.skip()]
            return
        heads, read = self.session.at(self.session.key, HEAD_NEEDS), list[Fetch]()
        follow = heads.library.fetches.follow(self._page(request), wanted, heads.wanted(heads.open(wanted)))
        try:
            async with aclosing(follow):
                async for read in follow:
                    yield [reading_line(read), gr.skip()]
        except CancelledError:
            yield [gr.update(visible=False), gr.skip()]
            return
        wrong = [said_of(one.error, public=heads.public) for one in read if one.error is not None]
        line = gr.update(value=failed_line(wrong[0]), visible=True) if wrong else gr.update(visible=False)
        yield [line, uuid4().hex]

    def stop(self, request: gr.Request) -> Any:
        """Stop reading, and hide the line."""
        self.session.library.fetches.stop(self._page(request))
        return gr.update(visible=False)

    def _page(self, request: gr.Request) -> str:
        return f"{page_of(self.session, request)}/head/{self.name}"


def reading_row(session: Session, asked: gr.State, value: Any, *, name: str = "") -> gr.State:
    """Create and bind the progress line of heads, which are read when the state ``asked`` has a value.

    Return a state that changes when they have been read. A page with several lines gives each a ``name``.
    """
    line, wanted, done = gr.HTML(visible=False, **WORK_LINE), State([]), State("")
    reads = HeadReads(session, name)

    def draw(opened: Sequence[Opened], given: Any) -> list[str]:
        return unread(session, opened) if given == value else []

    session.redraw(draw, [wanted], inputs=[asked], on=[asked.change])
    wanted.change(reads.read, wanted, [line, done], **QUIET)
    line.select(reads.stop, None, line, **QUIET)
    return done


LISTED = 8
AGAIN = "Compare again"


def head_panels(session: Session, opened: Sequence[Opened], *, stopped: bool = False) -> Panels:
    """Return one panel for every source with tokens; if a comparison was ``stopped``, it can be asked for again."""
    panels = [_panel(session, source) for source in with_tokens(opened)]
    again = {f"head-{text}" for (text,) in wanted_of(session, opened)} if stopped else set()
    return Panels(tuple(replace(one, actions=(AGAIN,)) if one.key in again else one for one in panels), columns=2)


def wanted_of(session: Session, opened: Sequence[Opened]) -> list[list[str]]:
    """Return the comparisons ``[[source], …]`` that have yet to be computed."""
    late = unread(session, opened)
    waiting = [one for one in opened if one.untied and one.text not in late and _known(session, one) is None]
    return [[source.text] for source in waiting]


def head_request(session: Session, one: Sequence[str]) -> Request:
    """Return the comparison of token table and head of ``[source]`` for a job."""
    (source,) = session.open(one)
    return Request(session.source_key(source, ("head", LISTED)), measuring.head, (source.text, LISTED))


def _known(session: Session, source: Opened) -> HeadComparison | None:
    found: HeadComparison | None = session.library.results.get(session.source_key(source, ("head", LISTED)))
    return found


def _panel(session: Session, source: Opened) -> Panel:
    assert source.embeddings is not None
    empty = Panel(f"head-{source.text}", "", source=(source.name, ""), color=source.color, help=HELP["head"])
    if source.tying is None:
        reason = source.embeddings.absent.get("head", "none is stored")
        return replace(empty, title=f"{source.name} has no output head", message=_sentence(reason))
    if source.tying.tied:
        title = f"The output head of {source.name} is its token table"
        return replace(empty, title=title, message=_sentence(source.tying.about))
    if unread(session, [source]):
        return replace(empty, title=f"{source.name} has a head of its own", message=_sentence(UNREAD))
    found = _known(session, source)
    if found is None:
        title = f"{source.name} has a head of its own"
        return replace(empty, title=title, message=_sentence(source.tying.about))
    rows = {label: row for row, label in reversed(list(enumerate(source.tokens.labels)))}
    lists = {"Differ most (relative distance)": found.most, "Differ least": found.least}
    command = command_line("head", pinned(source), "--count", LISTED, "--json")
    return replace(
        empty,
        title=_title(source, found),
        source=(source.name, f"{found.rows:,} tokens"),
        numbers=tuple((number(one.null.observed, digits=2), _beside(one)) for one in found.measures),
        lists=tuple(NeighbourList(name, "", tuple(_row(one, rows) for one in moves)) for name, moves in lists.items()),
        foot=" · ".join([_sentence(found.tied.about), *found.notes]),
        recipe=recipe("output head", [source], command=[command], roles=("token", "head"), count=LISTED),
    )


def _sentence(said: str) -> str:
    return f"{sentence_case(one_line(said)).rstrip('.')}."


def _title(source: Opened, found: HeadComparison) -> str:
    cka = found["CKA"]
    alike = "are alike" if cka.beyond else "are no more alike than by chance"
    value, chance = number(cka.observed, digits=2), number(cka.mean, digits=2)
    return f"Inner products of token table and head of {source.name} {alike}: CKA {value} (chance {chance})"


def _beside(one: HeadMeasure) -> str:
    low, mean, high = (number(value, digits=2) for value in (one.null.low, one.null.mean, one.null.high))
    return f"{one.name}: {one.about}. Chance {mean}, {low} to {high}"


def _row(move: Move, rows: dict[str, int]) -> NeighbourRow:
    return NeighbourRow(shown(move.label), move.distance, False, rows.get(move.label, -1))


def head_row(session: Session, picked: Sequence[Any], unfolded: gr.State) -> None:
    """Create and bind the panels; ``picked`` are the word, the search field and the search, which a click sets."""
    with gr.Column():
        read = reading_row(session, unfolded, True, name="compared")
        work = session.jobs.bind(partial(head_request, session), name="head", label="Token table and head")
        row = PanelRow((), scope=session.scope)

    def draw(opened: Sequence[Opened], unfolded: bool, done: dict[str, Any]) -> Any:
        if not unfolded:
            return [gr.skip(), []]
        wanted = wanted_of(session, opened)
        stopped = BackgroundJob.failed(done, wanted)
        return [head_panels(session, opened, stopped=stopped), [] if stopped else wanted]

    def ask(happened: Happened) -> Any:
        return {} if happened.get("action") == AGAIN else gr.skip()  # what draws asks for it

    def pick(due: list[Any], happened: Happened) -> list[Any]:
        told, texts = happened.told, {f"head-{one.text}": one for one in session.shown(due)}
        return picked_word(texts.get(str(told.get("panel"))), told.get("id"))

    events = [unfolded.change, read.change, work.done.change]
    session.redraw(draw, [row, work.wanted], inputs=[unfolded, work.done], on=events)
    row.select(pick, [session.due], list(picked), **EACH)
    row.select(ask, None, work.done, **EACH)
