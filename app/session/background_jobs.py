"""Child-process work started by a tab: what is wanted, its progress line, its place in the queue, and its result."""

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

from hfposemb.samples import folder
from hfposemb.tables.table import EmbeddingTable

from ..components.events import QUIET, State
from ..components.lines import WORK_LINE, failed_line, work_line
from ..failures import said_of
from ..jobs import children, measuring
from ..jobs.children import JobError
from ..jobs.fetching import on_behalf
from ..jobs.queue import LINE, WAIT, Ticket, UnwantedError, in_line
from ..jobs.visitor import Visitor
from ..limits import LONGEST_JOB, PUBLIC_MEMORY, PUBLIC_SECONDS
from .accounts import visit
from .library import Library

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


@dataclass(frozen=True)
class Request:
    """A result that a job computes: its ``key`` in the library, and the function of ``jobs`` with its arguments.

    An error of one that has a ``name`` begins with it.
    """

    key: Hashable
    work: Callable[..., Any]
    arguments: Sequence[Any] = ()
    name: str = ""


Asks = Callable[[Any], Request]
"""Returns what computes one of the things that a part of a page wants; asked again when its turn has come.

Raises ``HfposembError`` if it cannot be computed.
"""


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
    def failed(done: Mapping[str, Any] | None, wanted: Sequence[Any]) -> bool:
        """Return whether ``done`` reports of all that is ``wanted`` that computing it failed or was cancelled."""
        if not done or done.get("ok", True):
            return False
        return bool(wanted) and all(one in done["wanted"] for one in wanted)

    def again_on(self, event: Any) -> None:
        """Forget on an event that what is wanted has failed, so that what draws asks for it again."""
        event(lambda: {}, None, self.done, **QUIET)


@dataclass(frozen=True)
class JobRunner:
    """Runs the heavy work of tab ``key``; the fields are those of ``Session``, ``table`` its method."""

    library: Library
    public: bool
    scope: str
    key: str
    running: dict[str, BackgroundJob]
    table: Callable[[str, str], EmbeddingTable]

    def bind(self, asks: Asks, *, name: str = "", label: str = "UMAP") -> BackgroundJob:
        """Create a progress line and bind the handlers that compute what is wanted, as ``run`` does.

        A tab with several background jobs gives each a ``name``.
        """
        line, wanted, done = gr.HTML(visible=False, **WORK_LINE), State([]), State({})
        part = "/".join(filter(None, (self.scope, self.key, name)))

        async def compute(wanted: list[Any], request: gr.Request) -> AsyncIterator[Any]:
            if not wanted:
                yield gr.skip()
                return
            line, ended, drafts = gr.update(visible=False), _done(wanted, ok=True), 0
            try:
                async with aclosing(self.run(Visitor.of(request, public=self.public), part, wanted, asks)) as steps:
                    async for progress in steps:
                        fresh, drafts = progress.drafts > drafts, progress.drafts
                        shown = gr.update(value=work_line(progress, label=label), visible=True)
                        yield shown, _done(wanted, ok=True) if fresh else gr.skip()
            except UnwantedError:
                ended = gr.skip()  # neither done nor failed: a fold that was closed asks again when it is opened
            except Exception as error:  # noqa: BLE001 - show any error in the progress line instead of breaking the page
                ended = _done(wanted, ok=False)
                if said := said_of(error, public=self.public):  # empty if the visitor cancelled
                    line = gr.update(value=failed_line(said), visible=True)
            yield line, ended

        def cancel(request: gr.Request) -> Any:
            LINE.cancel(Visitor.of(request, public=self.public), part)
            return gr.update(visible=False)

        # The job queue limits concurrency, not Gradio: events waiting in Gradio's queue would block cheap ones.
        wanted.change(compute, wanted, [line, done], **QUIET)
        # Do not use Gradio's cancels=: progress already in flight would show the line again. The work stops by itself,
        # and as its last update hides the line and says that it is done: said twice, the second would stop another try.
        line.select(cancel, None, line, **QUIET)
        self.running[part] = BackgroundJob(line, wanted, done)
        return self.running[part]

    async def run(
        self, visitor: Visitor, part: str, wanted: Sequence[Any], asks: Asks
    ) -> AsyncGenerator[children.Progress, None]:
        """Compute what a part of a visitor's page wants and is not known, one after the other, with progress.

        Raises ``BusyError`` if the queue is full, ``CancelledError`` if the job was stopped (without a message if the
        visitor cancelled it), and other ``HfposembError`` subclasses if jobs fail, each of which leaves the others.
        Closing the generator kills the child process.
        """
        missing = [one for one in wanted if not self._known(asks(one))]
        if not missing:
            return
        failed = []
        async with LINE.join(visitor, part, missing[0], result=asks(missing[0]).key) as ticket:
            for one in missing:
                ticket.next(one)
                while (place := ticket.place()) and not self._known(asks(one)):  # from somebody else's job
                    yield children.Progress(0.0, in_line(place))
                    await asyncio.sleep(WAIT)
                request = asks(one)
                try:
                    async with aclosing(self._run(ticket, request)) as steps:
                        async for progress in steps:
                            yield progress
                except JobError as error:
                    failed.append(f"{request.name}: {error}" if request.name else str(error))
        if failed:
            raise JobError("; ".join(failed))

    def layout(self, one: Sequence[Any]) -> Request:
        """Return what computes the UMAP projection ``[source, role, dims]`` of an open source."""
        text, role, dims = one
        table = self.table(text, role)
        umap_of(self.library, table, dims)  # if it is included, it is among the results then
        return Request(umap_key(self.library, table, dims), measuring.umap, one)

    def draft(self, table: EmbeddingTable, dims: int) -> Projection | None:
        """Return the UMAP projection of a table as far as it has been computed, if any of it has."""
        found: Projection | None = self.library.results.get(_draft_key(umap_key(self.library, table, dims)))
        return found

    def _known(self, request: Request) -> bool:
        return self.library.results.get(request.key) is not None

    async def _run(self, ticket: Ticket, request: Request) -> AsyncGenerator[children.Progress, None]:
        """Run a job and store its result, unless an identical one has been stored meanwhile."""
        if self._known(request):
            return
        results = self.library.results
        bounds: dict[str, Any] = {"deadline": LONGEST_JOB}
        if self.public:
            bounds = {"deadline": PUBLIC_SECONDS, "memory": PUBLIC_MEMORY, "sealed": True}
        work, account = partial(request.work, public=self.public), visit().account
        if account is not None:
            work = partial(on_behalf, account.visitor, work)  # which reaches the child through a pipe
        try:
            job = await asyncio.to_thread(ticket.run, work, *request.arguments, **bounds)
            drafts = 0
            while (progress := job.poll(0.0)) is not None:
                if progress.drafts > drafts:
                    results.put(_draft_key(request.key), job.draft)
                    drafts = progress.drafts
                yield progress
                await asyncio.sleep(children.POLL)
            results.put(request.key, await asyncio.to_thread(ticket.result))
        finally:
            if account is not None:
                account.clear_if_closed()


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
