"""Work of a tab that runs in a child process: its line of progress, its place in the queue, its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import gradio as gr

from hfposemb.errors import HfposembError
from hfposemb.tables.table import EmbeddingTable

from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import WORK_LINE, failed_line, work_line
from ..failures import said_of
from ..jobs import children
from ..jobs.queue import LINE, WAIT, Ticket, Visitor, in_line
from ..limits import LONGEST_JOB, PUBLIC_MEMORY, PUBLIC_SECONDS
from .library import Library
from .source_names import short_name

Work = Callable[[Visitor, str, Sequence[Any]], AsyncGenerator[children.Progress, None]]
"""Computes what part of a visitor's page wants, and yields its progress; closing it ends the work."""


def umap_key(library: Library, table: EmbeddingTable, dims: int) -> Hashable:
    """Return the key of a UMAP in the library's results."""
    return library.result_key(table, ("umap", dims))


@dataclass(frozen=True)
class BackgroundJob:
    """What stands behind a tab's heavy work: the ``line`` of progress, and two states.

    A tab sets ``wanted`` to a list of lists, for UMAPs ``[[source, role, dims], …]``, and to ``[]`` when it needs none.
    ``done`` changes when they are computed, cancelled or failed; ``Umaps.failed(done, wanted)`` tells the latter, and
    the line says why.
    """

    line: gr.HTML
    wanted: gr.State
    done: gr.State

    @staticmethod
    def failed(done: Mapping[str, Any], wanted: Sequence[Sequence[Any]]) -> bool:
        """Tell whether ``done`` says that what is wanted was tried in vain."""
        return not done.get("ok", True) and done.get("wanted") == [list(one) for one in wanted]


@dataclass(frozen=True)
class JobRunner:
    """Runs the heavy work of the tab ``key`` of a page: see ``Session`` for ``scope`` and ``needs``."""

    library: Library
    public: bool
    scope: str
    key: str
    needs: tuple[str, ...]

    def bind_umaps(self) -> BackgroundJob:
        """Put the line that shows UMAP's progress here, and bind what computes it when the visitor's turn comes."""
        return self.bind(self.lay_out)

    def bind(self, work: Work, *, name: str = "", label: str = "UMAP") -> BackgroundJob:
        """Put the line of some heavy work here, and bind what does it when the visitor's turn comes.

        A tab that has several gives each a ``name``.
        """
        line, wanted, done = gr.HTML(visible=False, **WORK_LINE), State([]), State({})
        part = "/".join(filter(None, (self.scope, self.key, name)))

        async def compute(wanted: list[Any], request: gr.Request) -> AsyncIterator[Any]:
            if not wanted:
                yield gr.skip()
                return
            line, ok = gr.update(visible=False), True
            try:
                async with aclosing(work(self._visitor(request), part, wanted)) as steps:
                    async for progress in steps:
                        yield gr.update(value=work_line(progress, label=label), visible=True), gr.skip()
            except Exception as error:  # noqa: BLE001 - whatever it is, the line says so, and the page goes on
                ok = False
                if said := said_of(error, public=self.public):  # who stops a job needs no words about it
                    line = gr.update(value=failed_line(said), visible=True)
            yield line, _done(wanted, ok=ok)

        def stop_others(wanted: list[Any], request: gr.Request) -> None:
            LINE.cancel(self._visitor(request), part, but=wanted)

        def cancel(wanted: list[Any], request: gr.Request) -> Any:
            LINE.cancel(self._visitor(request), part)
            return gr.update(visible=False), _done(wanted, ok=False)

        # The line bounds this, not Gradio: what waits in Gradio's queue takes the places of cheap events.
        outputs = [line, done]
        wanted.change(compute, wanted, outputs, **QUIET)
        wanted.change(stop_others, wanted, None, **QUIET)
        # Not with cancels=, after which progress that is on its way would show the line again: the work ends by itself,
        # and hides the line last.
        line.select(cancel, wanted, outputs, **QUIET)
        return BackgroundJob(line, wanted, done)

    def _visitor(self, request: gr.Request) -> Visitor:
        return Visitor.of(request, public=self.public)

    async def lay_out(self, visitor: Visitor, part: str, wanted: Sequence[Sequence[Any]]) -> AsyncGenerator[Any, None]:
        """Compute the UMAPs of ``[[source, role, dims], …]`` for a part of a visitor's page; yield ``Progress``.

        Raises ``BusyError`` where the line is full, ``CancelledError``, without words where the visitor wished it, and
        other ``HfposembError`` where a job fails. Closing the generator kills the child.
        """
        missing = [one for one in wanted if not self._laid_out(*one)]
        if not missing:
            return
        async with LINE.join(visitor, part, wanted[0]) as ticket:
            for text, role, dims in missing:
                ticket.next([text, role, dims])
                async for progress in self._turn(ticket):
                    yield progress
                yield children.Progress(0.0, f"reading {short_name(text)}")
                found = await asyncio.to_thread(self.library.open, text, public=self.public)
                key = umap_key(self.library, found.tables[role], dims)
                async with aclosing(self._run(ticket, key, children.umap, text, role, dims)) as steps:
                    async for progress in steps:
                        yield progress

    async def compute(
        self,
        visitor: Visitor,
        part: str,
        key: Hashable,
        doing: Any,
        work: Callable[..., Any],
        *arguments: Any,
        late: Callable[[], Sequence[Any]] = tuple,
    ) -> AsyncGenerator[children.Progress, None]:
        """Put what a job of ``jobs`` returns under ``key`` into the library's results, as ``lay_out`` does UMAPs.

        ``doing`` is one of what the tab set ``wanted`` to. ``late`` returns further arguments when the turn has come:
        what another job has found meanwhile, say.
        """
        async with LINE.join(visitor, part, doing) as ticket:
            async for progress in self._turn(ticket):
                yield progress
            async with aclosing(self._run(ticket, key, work, *arguments, *late())) as steps:
                async for progress in steps:
                    yield progress

    async def _turn(self, ticket: Ticket) -> AsyncGenerator[children.Progress, None]:
        """Wait until a ticket is the first in line."""
        while place := ticket.place():
            yield children.Progress(0.0, in_line(place))
            await asyncio.sleep(WAIT)

    async def _run(
        self, ticket: Ticket, key: Hashable, work: Callable[..., Any], *arguments: Any
    ) -> AsyncGenerator[children.Progress, None]:
        """Keep the result of a job, unless another visitor's was the same."""
        if self.library.results.get(key) is not None:
            return
        bounds: dict[str, Any] = {"deadline": LONGEST_JOB}
        if self.public:
            bounds = {"deadline": PUBLIC_SECONDS, "memory": PUBLIC_MEMORY, "sealed": True}
        job = await asyncio.to_thread(ticket.run, partial(work, public=self.public), *arguments, **bounds)
        while (progress := job.poll(0.0)) is not None:
            yield progress
            await asyncio.sleep(children.POLL)
        self.library.results.put(key, await asyncio.to_thread(ticket.result))

    def _laid_out(self, text: str, role: str, dims: int) -> bool:
        """Return whether the UMAP of an open source has been computed."""
        try:
            found = self.library.opened(text, self.needs, public=self.public)
        except HfposembError:
            return False
        table = None if found is None else found.tables.get(role)
        return table is not None and self.library.results.get(umap_key(self.library, table, dims)) is not None


def _done(wanted: list[list[Any]], *, ok: bool) -> dict[str, Any]:
    return {"id": uuid4().hex, "ok": ok, "wanted": wanted}
