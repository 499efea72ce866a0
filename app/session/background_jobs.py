"""Child-process work started by a tab: progress line, place in the queue, and result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr
import numpy as np
from numpy.typing import NDArray

from hfposemb.errors import HfposembError
from hfposemb.samples import folder
from hfposemb.tables.table import EmbeddingTable

from ..components.events import QUIET, State
from ..components.lines import WORK_LINE, failed_line, work_line
from ..failures import said_of
from ..jobs import children
from ..jobs.fetching import on_behalf, table_of
from ..jobs.queue import LINE, WAIT, Ticket, in_line
from ..jobs.visitor import Visitor
from ..limits import LONGEST_JOB, PUBLIC_MEMORY, PUBLIC_SECONDS
from .accounts import visit
from .library import Library
from .source_names import short_name

if TYPE_CHECKING:
    from hfposemb.analysis.projection.projecting import Projection


FILE = "maps.npz"
_SHAPES = ((512, 384), (30_522, 384))


def key_of(digest: str, dims: int, what: str) -> str:
    """Return the name of an array in the file of the maps."""
    return f"{digest[:16]}/{dims}/{what}"


def stored_map(table: EmbeddingTable, dims: int) -> Projection | None:
    """Return the UMAP projection of a table with default parameters; ``None`` if it is not in the package.

    Tables that hold the same numbers have the same map, whatever they were read from. Only tables of a shape that has
    maps are read.

    Args:
        table: The table.
        dims: Number of dimensions, 2 or 3.
    """
    if table.shape not in _SHAPES:
        return None
    found = _arrays()
    points = found.get(key_of(table.digest, dims, "points"))
    if points is None:
        return None
    from hfposemb.analysis.projection.projecting import Projection
    from hfposemb.analysis.projection.quality import NEIGHBOURS, PointTrust

    measured, shares, told = (found[key_of(table.digest, dims, name)] for name in ("measured", "trust", "parameters"))
    rows, parameters = table.shape[0], json.loads(str(told))
    kept, trustworthiness, continuity = shares
    trust = PointTrust(
        measured.astype(np.int64), kept, trustworthiness, continuity, NEIGHBOURS, rows, str(parameters["metric"])
    )
    return Projection(
        coordinates=points.astype(np.float32),
        rows=np.arange(rows),
        left_out=0,
        method="umap",
        dims=dims,
        seed=0,
        parameters=parameters,
        explained_variance_ratio=None,
        name=table.name,
        quality=trust.quality,
        trust=trust,
    )


@cache
def _arrays() -> Mapping[str, NDArray[Any]]:
    with np.load(folder("minilm") / FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


Work = Callable[[Visitor, str, Sequence[Any]], AsyncGenerator[children.Progress, None]]
"""Does the work requested by a part of a visitor's page and yields its progress; closing it stops the work."""


def umap_key(library: Library, table: EmbeddingTable, dims: int) -> Hashable:
    """Return the key under which the library keeps the UMAP projection of a table."""
    return library.result_key(table, ("umap", dims))


def umap_of(library: Library, table: EmbeddingTable, dims: int) -> Projection | None:
    """Return the UMAP projection of a table if it has been computed, or is included in the package."""
    key = umap_key(library, table, dims)
    if (found := library.results.get(key)) is not None:
        return found  # type: ignore[no-any-return]
    stored = stored_map(table, dims)
    if stored is not None:
        library.results.put(key, stored)
    return stored


@dataclass(frozen=True)
class BackgroundJob:
    """Components behind a tab's heavy work: the progress ``line`` and the states ``wanted`` and ``done``.

    A tab sets ``wanted`` to a list of lists (for UMAP ``[[source, role, dims], …]``), or to ``[]`` when it needs
    nothing. ``done`` changes when the work is finished, cancelled or failed, and at each unfinished result.
    ``BackgroundJob.failed(done, wanted)`` distinguishes failure, for which the line shows the reason.
    """

    line: gr.HTML
    wanted: gr.State
    done: gr.State

    @staticmethod
    def failed(done: Mapping[str, Any], wanted: Sequence[Sequence[Any]]) -> bool:
        """Return whether ``done`` reports that computing ``wanted`` failed or was cancelled."""
        return not done.get("ok", True) and done.get("wanted") == [list(one) for one in wanted]


@dataclass(frozen=True)
class JobRunner:
    """Runs the heavy work of tab ``key``; ``scope``, ``needs`` and ``running`` are those of ``Session``."""

    library: Library
    public: bool
    scope: str
    key: str
    needs: tuple[str, ...]
    running: dict[str, BackgroundJob]

    def bind(self, work: Work, *, name: str = "", label: str = "UMAP") -> BackgroundJob:
        """Create a progress line and bind the handlers that run ``work`` when its turn in the queue comes.

        A tab with several background jobs gives each a ``name``.
        """
        line, wanted, done = gr.HTML(visible=False, **WORK_LINE), State([]), State({})
        part = "/".join(filter(None, (self.scope, self.key, name)))

        async def compute(wanted: list[Any], request: gr.Request) -> AsyncIterator[Any]:
            if not wanted:
                yield gr.skip()
                return
            line, ok, drafts = gr.update(visible=False), True, 0
            try:
                async with aclosing(work(Visitor.of(request, public=self.public), part, wanted)) as steps:
                    async for progress in steps:
                        fresh, drafts = progress.drafts > drafts, progress.drafts
                        shown = gr.update(value=work_line(progress, label=label), visible=True)
                        yield shown, _done(wanted, ok=True) if fresh else gr.skip()
            except Exception as error:  # noqa: BLE001 - show any error in the progress line instead of breaking the page
                ok = False
                if said := said_of(error, public=self.public):  # empty if the visitor cancelled
                    line = gr.update(value=failed_line(said), visible=True)
            yield line, _done(wanted, ok=ok)

        def cancel(wanted: list[Any], request: gr.Request) -> Any:
            LINE.cancel(Visitor.of(request, public=self.public), part)
            return gr.update(visible=False), _done(wanted, ok=False)

        # The job queue limits concurrency, not Gradio: events waiting in Gradio's queue would block cheap ones.
        wanted.change(compute, wanted, [line, done], **QUIET)
        # Do not use Gradio's cancels=: progress already in flight would show the line again. The work stops by itself
        # and hides the line as its last update.
        line.select(cancel, wanted, [line, done], **QUIET)
        self.running[part] = BackgroundJob(line, wanted, done)
        return self.running[part]

    async def lay_out(self, visitor: Visitor, part: str, wanted: Sequence[Sequence[Any]]) -> AsyncGenerator[Any, None]:
        """Compute the UMAP projections ``[[source, role, dims], …]`` for a part of a visitor's page, with progress.

        Raises ``BusyError`` if the queue is full, ``CancelledError`` if the job was stopped (without a message if the
        visitor cancelled it), and other ``HfposembError`` subclasses if a job fails. Closing the generator kills the
        child process.
        """
        missing = [one for one in wanted if not self._laid_out(*one)]
        if not missing:
            return
        async with LINE.join(visitor, part, wanted[0], result=("umap", *missing[0])) as ticket:
            for text, role, dims in missing:
                ticket.next([text, role, dims])
                async for progress in self._turn(ticket, partial(self._laid_out, text, role, dims)):
                    yield progress
                yield children.Progress(0.0, f"reading {short_name(text)}")
                found = await asyncio.to_thread(self.library.open, text, public=self.public)
                key = umap_key(self.library, table_of(found, role), dims)
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
        """Run a function of ``jobs`` and store its result under ``key`` in the library's results.

        Otherwise as ``lay_out``. ``doing`` is one item of the tab's ``wanted``. ``late`` returns further arguments when
        the job starts, such as the result of another job that has finished meanwhile.
        """
        async with LINE.join(visitor, part, doing, result=key) as ticket:
            async for progress in self._turn(ticket, lambda: self.library.results.get(key) is not None):
                yield progress
            async with aclosing(self._run(ticket, key, work, *arguments, *late())) as steps:
                async for progress in steps:
                    yield progress

    def draft(self, table: EmbeddingTable, dims: int) -> Projection | None:
        """Return the UMAP projection of a table as far as it has been computed, if any of it has."""
        found: Projection | None = self.library.results.get(_draft_key(umap_key(self.library, table, dims)))
        return found

    async def _turn(self, ticket: Ticket, known: Callable[[], bool]) -> AsyncGenerator[children.Progress, None]:
        """Yield the place in the queue until the ticket is first, or somebody else's job has had the same result."""
        while (place := ticket.place()) and not known():
            yield children.Progress(0.0, in_line(place))
            await asyncio.sleep(WAIT)

    async def _run(
        self, ticket: Ticket, key: Hashable, work: Callable[..., Any], *arguments: Any
    ) -> AsyncGenerator[children.Progress, None]:
        """Run a job and store its result, unless an identical one has been stored meanwhile."""
        results = self.library.results
        if results.get(key) is not None:
            return
        bounds: dict[str, Any] = {"deadline": LONGEST_JOB}
        if self.public:
            bounds = {"deadline": PUBLIC_SECONDS, "memory": PUBLIC_MEMORY, "sealed": True}
        work, account = partial(work, public=self.public), visit().account
        if account is not None:
            work = partial(on_behalf, account.visitor, work)  # which reaches the child through a pipe
        try:
            job = await asyncio.to_thread(ticket.run, work, *arguments, **bounds)
            drafts = 0
            while (progress := job.poll(0.0)) is not None:
                if progress.drafts > drafts:
                    results.put(_draft_key(key), job.draft)
                    drafts = progress.drafts
                yield progress
                await asyncio.sleep(children.POLL)
            results.put(key, await asyncio.to_thread(ticket.result))
        finally:
            if account is not None:
                account.clear_if_closed()

    def _laid_out(self, text: str, role: str, dims: int) -> bool:
        """Return whether the UMAP projection of an open source is known."""
        try:
            found = self.library.opened(text, self.needs, public=self.public)
        except HfposembError:
            return False
        if found is None or role not in (*found.tables, "head"):
            return False
        return umap_of(self.library, table_of(found, role), dims) is not None


def bind_stops(running: Mapping[str, BackgroundJob], *, public: bool) -> None:
    """Bind what stops the jobs of a page, by their parts, once something else is wanted."""
    wishes = [job.wanted for job in running.values()]

    def stop_others(request: gr.Request, *wanted: list[Any]) -> None:
        visitor = Visitor.of(request, public=public)
        for part, one in zip(running, wanted, strict=True):
            LINE.cancel(visitor, part, but=one)

    if wishes:
        gr.on([one.change for one in wishes], stop_others, wishes, None, trigger_mode="always_last", **QUIET)


def _draft_key(key: Hashable) -> Hashable:
    return ("draft", key)


def _done(wanted: list[list[Any]], *, ok: bool) -> dict[str, Any]:
    return {"id": uuid4().hex, "ok": ok, "wanted": wanted}
