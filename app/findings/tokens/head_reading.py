"""Reading of output heads from the Hub, once they are to stand for the tokens: most visitors never look at one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
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
from ..chosen_word import HEAD


def unread(session: Session, opened: Sequence[Opened]) -> list[str]:
    """Return the sources whose output head is to be read before it is drawn."""
    heads = [source.text for source in opened if source.separate]
    return [text for text in heads if session.library.opened(text, HEAD_NEEDS, public=session.public) is None]


@dataclass(frozen=True)
class HeadReads:
    """Reads the output heads for one page; see ``opening.SourceReads``, which reads the other tables.

    The heads of the state ``wanted`` are read, and ``done`` changes when that has ended. Each of the ``lines`` shows
    the progress: above the map, and in the folds that are drawn from heads.
    """

    session: Session
    wanted: gr.State = field(default_factory=lambda: State([]))
    done: gr.State = field(default_factory=lambda: State(""))
    lines: list[gr.HTML] = field(default_factory=list)

    def line(self) -> None:
        """Create a progress line."""
        self.lines.append(gr.HTML(visible=False, **WORK_LINE))

    def bind(self, table: gr.State, folds: Sequence[str]) -> None:
        """Read the heads when ``table`` chooses them, or one of the ``folds`` is open."""

        def draw(opened: Sequence[Opened], table: str, unfolded: list[str]) -> list[str]:
            asked = table == HEAD or any(name in unfolded for name in folds)
            return unread(self.session, opened) if asked else []

        self.session.redraw(draw, [self.wanted], inputs=[table, self.session.unfolded])
        self.wanted.change(self.read, self.wanted, [*self.lines, self.done], **QUIET)
        gr.on([line.select for line in self.lines], self.stop, None, self.lines, **QUIET)

    async def read(self, wanted: list[str], request: gr.Request) -> AsyncIterator[list[Any]]:
        """Read the heads of some sources with progress; return the lines and what changes when they have been read."""
        if not wanted:
            yield self._shown(gr.skip())
            return
        library, public, read = self.session.library, self.session.public, list[Fetch]()
        works = {}
        for text in wanted:
            key, work = library.fetch(text, HEAD_NEEDS, public=public)
            works[key] = (short_name(text), work)
        try:
            async with aclosing(library.fetches.follow(self._page(request), wanted, works)) as follow:
                async for read in follow:
                    yield self._shown(reading_line(read))
        except CancelledError:
            yield self._shown(gr.update(visible=False))
            return
        wrong = [said_of(one.error, public=public) for one in read if one.error is not None]
        line = gr.update(value=failed_line(wrong[0]), visible=True) if wrong else gr.update(visible=False)
        yield self._shown(line, uuid4().hex)

    def stop(self, request: gr.Request) -> Any:
        """Stop reading, and hide the lines."""
        self.session.library.fetches.stop(self._page(request))
        return self._shown(gr.update(visible=False))[:-1]

    def _shown(self, line: Any, done: Any = None) -> list[Any]:
        return [*[line] * len(self.lines), gr.skip() if done is None else done]

    def _page(self, request: gr.Request) -> str:
        return f"{page_of(self.session, request)}/head"
