"""Reading of output heads from the Hub, once they are to stand for the tokens: most visitors never look at one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import CancelledError

from ...components.events import QUIET
from ...components.hidden import State
from ...components.lines import WORK_LINE, failed_line
from ...failures import said_of
from ...jobs.fetching import Fetch
from ...session.opened import HEAD_NEEDS, Opened
from ...session.opening import page_of, reading_line
from ...session.source_names import short_name
from ...session.state import Session


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
        library, public, read = self.session.library, self.session.public, list[Fetch]()
        works = {}
        for text in wanted:
            key, work = library.fetch(text, HEAD_NEEDS, public=public)
            works[key] = (short_name(text), work)
        try:
            async with aclosing(library.fetches.follow(self._page(request), wanted, works)) as follow:
                async for read in follow:
                    yield [reading_line(read), gr.skip()]
        except CancelledError:
            yield [gr.update(visible=False), gr.skip()]
            return
        wrong = [said_of(one.error, public=public) for one in read if one.error is not None]
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
