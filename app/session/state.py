"""What the tabs share: sources read once for everybody, results kept within bounds, and the session of one page.

``gr.State`` holds names only. Tables and results stand in the :class:`Library`, one for the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr

import hfposemb as hpe
from hfposemb.analysis.projection_quality import NOT_MEASURED, SAMPLE
from hfposemb.figures.style import source_style
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from .. import limits
from ..components.events import QUIET
from ..components.hidden import State
from ..components.lines import WORK_LINE, failed_line, work_line
from ..components.plot import PanelRow
from ..failures import said_of
from ..jobs import children
from ..jobs.fetching import Work
from ..jobs.queue import LINE, WAIT, Ticket, Visitor, in_line
from ..limits import LONGEST_JOB, MOST_SOURCES, PUBLIC_MEMORY, PUBLIC_SECONDS
from .address import Control, control
from .guard import guarded
from .library import Library, shared_library
from .opened import WAITING, Opened, problems, waiting
from .source_names import HUB_PRESETS, PRESETS, choices, short_name, short_names

if TYPE_CHECKING:
    from hfposemb.analysis.projection import Projection


Draw = Callable[..., Any]


Works = Callable[[Visitor, str, Sequence[Any]], AsyncGenerator[children.Progress, None]]
"""Does what a part of a visitor's page wants, and yields how far it is; closing it ends the work."""


UNFOLDED = "unfolded"
"""What the address says of an accordion that is open."""


@dataclass(frozen=True)
class Session:
    """What a tab is given to draw with: see "Tabs" in the package's docstring.

    ``scope`` is unique to one ``panel()``: give it to every ``PanelRow``, so that hovers stay on the page.
    ``sources`` [texts] and ``active``, the key of the tab on the screen, are states; ``first`` are the texts to draw
    with while the page is built. ``key`` is that of the tab.
    """

    public: bool
    first: tuple[str, ...]
    sources: gr.State
    active: gr.State
    tabs: gr.Tabs
    library: Library = field(default_factory=shared_library)
    scope: str = field(default_factory=lambda: f"p{uuid4().hex[:12]}")
    key: str = ""
    presets: tuple[str, ...] = (*PRESETS, *HUB_PRESETS)
    fields: list[tuple[gr.Dropdown, gr.HTML]] = field(default_factory=list)
    needs: tuple[str, ...] = ()
    fetched: gr.State = field(default_factory=lambda: State({}))
    """What became of the reads of this page: see ``opening``. It changes whenever some are over."""

    busy: gr.HTML | None = None
    """Marks the page while a drawing is on its way: one component, since what it costs grows with their number."""

    due: gr.State = field(default_factory=lambda: State([]))
    """It changes when the tab is to be drawn anew: see ``drawn_with``. Each tab has one of its own."""

    asked: gr.State = field(default_factory=lambda: State([]))
    """The word that another tab asked Tokens for: its text, source and row, and an id that is new every time."""

    tried: gr.State = field(default_factory=lambda: State([]))
    """A source that is to come first, the tab that shows it, and an id that is new every time."""

    own: gr.State = field(default_factory=lambda: State([]))
    """Sources that the visitor's browser remembers, which are offered beside the presets."""

    lines: dict[str, gr.HTML] = field(default_factory=dict)
    """By tab, the line that shows how far a read is."""

    controls: list[Control] = field(default_factory=list)
    """What the address of the page tells."""

    folds: dict[str, gr.Accordion] = field(default_factory=dict)
    """What is folded away until a visitor, or the address, unfolds it, by its name in the address."""

    linked: bool = False
    """Whether the address of the page says what is shown, so that a link can."""

    restored: gr.State = field(default_factory=lambda: State(""))
    """It changes when the controls were set from an address, and everything is to be drawn with what they say."""

    def at(self, key: str, needs: Sequence[str] = (), *, due: gr.State | None = None) -> Session:
        """Return the same session for one tab, which draws with sources of which this was read, when it is ``due``."""
        return replace(self, key=key, needs=tuple(needs), due=due or self.due)

    def open(self, texts: Sequence[str], fetched: Mapping[str, Any] | None = None) -> tuple[Opened, ...]:
        """Open sources by their texts, each in its place's colour; one that fails carries its error.

        Nothing is asked of the network: a source of the Hub of which not all is here that the tab needs has the error
        that ``fetched`` has for it, or ``WAITING``.
        """
        told = (fetched or {}).get("problems", {}).get(self.key, {})
        shown = texts[:MOST_SOURCES]
        return tuple(
            self._open(Opened(text, name, *source_style(place)), told.get(text, WAITING))
            for place, (text, name) in enumerate(zip(shown, short_names(shown), strict=True))
        )

    def _open(self, named: Opened, told: str) -> Opened:
        try:
            found = self.library.opened(named.text, self.needs, public=self.public)
        except Exception as error:  # noqa: BLE001 - a source that cannot be opened leaves the others
            return replace(named, error=one_line(said_of(error, public=self.public)))
        return replace(named, embeddings=found, error="" if found is not None else told)

    def wanted(self, opened: Sequence[Opened]) -> dict[Hashable, tuple[str, Work]]:
        """Return what is to be fetched for the sources that wait for it, in their order, for ``Fetches.follow``."""
        out: dict[Hashable, tuple[str, Work]] = {}
        for source in waiting(opened):
            key, work = self.library.fetch(source.text, self.needs, public=self.public)
            out[key] = (source.name, work)
        return out

    def source_field(self) -> None:
        """Put the field of sources, which all tabs share, into the bar that is open."""
        with gr.Column(scale=1, min_width=320, elem_classes="source-field"):
            dropdown = gr.Dropdown(
                choices((*self.first, *self.presets)),
                value=list(self.first),
                multiselect=True,
                allow_custom_value=True,
                max_choices=MOST_SOURCES,
                label="Sources, two to four",
                elem_classes="sources",
            )
            problem = problems(self.open(self.first))
            line = gr.HTML(problem, visible=bool(problem), elem_classes="source-error")
            self.fetch_line()
        self.fields.append((dropdown, line))

    def told_fields(self, texts: Sequence[str], own: Sequence[str] = ()) -> list[Any]:
        """Return the updates that show these sources in every field, which offers the visitor's ``own`` too."""
        offered = choices((*texts, *own, *self.first, *self.presets))
        return [gr.update(choices=offered, value=list(texts)) for _ in self.fields]

    def fetch_line(self) -> None:
        """Put the line here that shows how far the tab's reads are."""
        self.lines[self.key] = gr.HTML(visible=False, **WORK_LINE)

    def redraw(self, draw: Draw, outputs: Sequence[Any], *, inputs: Sequence[Any] = (), on: Sequence[Any] = ()) -> None:
        """Call ``draw(opened, *inputs)`` for ``outputs`` when the sources change and when an event of ``on`` comes.

        A tab that is not on the screen waits until it is, so that nobody pays for what nobody sees.
        """
        self.when([self.due.change, *on], draw, outputs, inputs=inputs)

    def drawn_with(self, restored: str, texts: Sequence[str], fetched: Mapping[str, Any] | None = None) -> list[Any]:
        """Return what ``due`` holds once the tab is drawn with these sources; nothing while some are being fetched."""
        opened = self.open(texts, fetched)
        return [] if waiting(opened) else [restored, *([source.text, source.error] for source in opened)]

    def shown(self, due: Sequence[Any]) -> tuple[Opened, ...]:
        """Open the sources that the tab is drawn with, as ``due`` holds them; none before it is drawn at all.

        Handlers of a tab ask this, not ``sources``, which may have changed since: what is on the screen counts.
        """
        held = dict(due[1:])
        return self.open(list(held), {"problems": {self.key: {text: error for text, error in held.items() if error}}})

    def keep(self, name: str, component: Any, **more: Any) -> None:
        """Let the address of the page tell a control's value under a ``name``, as ``address.control`` describes it."""
        self.controls.append(control(name, component, **more))

    def fold(self, name: str, title: str) -> tuple[gr.Accordion, State]:
        """Return an accordion, closed at first, and the state of whether it is open, which the address remembers."""
        box, unfolded = gr.Accordion(title, open=False, elem_classes=["question", f"fold-{name}"]), State(False)
        box.expand(lambda: True, None, unfolded, **QUIET)
        box.collapse(lambda: False, None, unfolded, **QUIET)
        self.keep(name, unfolded, read=lambda text: text == UNFOLDED, write=lambda _: UNFOLDED)
        self.folds[name] = box
        return box, unfolded

    def when(self, on: Sequence[Any], draw: Draw, outputs: Sequence[Any], *, inputs: Sequence[Any] = ()) -> None:
        """Call ``draw(opened, *inputs)`` for ``outputs`` when an event of ``on`` comes."""

        def on_event(due: list[Any], *values: Any) -> Any:
            opened = self.shown(due)
            return gr.skip() if not due or waiting(opened) else draw(opened, *values)

        handler = guarded(on_event, public=self.public, outputs=outputs)
        options = {**QUIET, "trigger_mode": "always_last"}
        if self.busy is not None and any(isinstance(output, PanelRow) for output in outputs):
            options |= {"show_progress": "minimal", "show_progress_on": self.busy}
        gr.on(list(on), handler, inputs=[self.due, *inputs], outputs=list(outputs), **options)

    def projection(self, table: EmbeddingTable, method: str, dims: int) -> Projection | None:
        """Return a projection: PCA at once, UMAP only if it has been computed.

        How far the picture of a large table can be trusted is not measured then: see ``Projection.measured``.
        """
        if method == "umap":
            return self.library.results.get(self.umap_key(table, dims))  # type: ignore[no-any-return]
        return self.library.result(table, ("pca", dims), lambda: _first_picture(table, dims))

    def umap_key(self, table: EmbeddingTable, dims: int) -> Hashable:
        """Return the name that a UMAP has in the library's results."""
        return self.library.result_key(table, ("umap", dims))

    def umaps(self) -> Umaps:
        """Put the line that shows UMAP's progress here, and bind what computes it when the visitor's turn comes."""
        return self.works(self.lay_out)

    def works(self, work: Works, *, name: str = "", label: str = "UMAP") -> Umaps:
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
        return Umaps(line, wanted, done)

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
                key = self.umap_key(found.tables[role], dims)
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
        """Tell whether a UMAP is there, of a source that is open."""
        found = self.open([text])[0].table(role)
        return found is not None and self.projection(found, "umap", dims) is not None

    def ask_for(self, text: str, source: str, row: int) -> list[Any]:
        """Return the value of ``asked`` that brings a word of a source to Tokens."""
        return [text, source, row, uuid4().hex]

    def show(self, key: str) -> tuple[Any, str]:
        """Return the updates of ``tabs`` and ``active`` that bring a tab to the screen."""
        return gr.update(selected=key), key


@dataclass(frozen=True)
class Umaps:
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


def _first_picture(table: EmbeddingTable, dims: int) -> Projection:
    """Return the PCA of a table, measured where that is quick; the table itself is not kept by it."""
    found = hpe.project(table, method="pca", dims=dims)
    if SAMPLE * table.shape[0] * table.shape[1] > limits.QUICK_FLOPS:
        return replace(found, trust=None, quality=NOT_MEASURED)
    _ = found.quality
    return found


def _done(wanted: list[list[Any]], *, ok: bool) -> dict[str, Any]:
    return {"id": uuid4().hex, "ok": ok, "wanted": wanted}
