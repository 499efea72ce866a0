"""Session of one page: its sources, the controls stored in its URL, and when each tab is redrawn.

``gr.State`` holds names only. Tables and results are in the ``Library``, one for the process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import gradio as gr
from gradio.context import LocalContext

from hfposemb.errors import HfposembError
from hfposemb.figures.style import source_style
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from ..components.events import EACH, QUIET, UNFOLDED, State
from ..components.happened import Happened
from ..components.page_script import on_load
from ..components.plot import PanelRow
from ..failures import said_of
from ..jobs.fetching import Work
from ..jobs.first_pictures import first_picture, quickly_measured
from ..limits import MOST_SOURCES
from .address import Control, control
from .background_jobs import BackgroundJob, JobRunner, umap_of
from .guard import guarded
from .library import Library, shared_library, source_key
from .opened import WAITING, Opened, split, waiting
from .source_names import HUB_PRESETS, PRESETS, short_names

if TYPE_CHECKING:
    from hfposemb.analysis.projection.projecting import Projection


MOST = 8_192
"""Number of outputs, of all pages, whose last values are remembered."""

_last: OrderedDict[Hashable, bytes] = OrderedDict()
"""The digest of the values that the first output of a handler was last drawn from, by page and output."""

_lock = Lock()


def drawn_once(draw: Callable[..., Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """Return a handler that changes nothing if the outputs show what was drawn from the same values.

    Args:
        draw: Called with the values; what it returns is shown in the outputs, unless it returns ``gr.skip()``.
        outputs: The components that it draws, of which another handler may draw the first as well.
    """

    def on_event(*values: Any) -> Any:
        place, digest = _place(outputs), _digest(draw, values)
        with _lock:
            if place is not None and _last.get(place) == digest:
                return gr.skip()
            _last.pop(place, None)
        shown = draw(*values)
        if place is not None and shown != gr.skip():
            _remember(place, digest)
        return shown

    return on_event


def _place(outputs: Sequence[Any]) -> Hashable | None:
    """Return the first output on the visitor's page; ``None`` if the event comes from no page."""
    page = getattr(LocalContext.request.get(None), "session_hash", None)
    return (page, outputs[0]._id) if page and outputs else None


def _digest(draw: Callable[..., Any], values: Sequence[Any]) -> bytes:
    return hashlib.blake2b(repr((id(draw), values)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _remember(place: Hashable, digest: bytes) -> None:
    with _lock:
        _last[place] = digest
        _last.move_to_end(place)
        while len(_last) > MOST:
            _last.popitem(last=False)


Draw = Callable[..., Any]


@dataclass(frozen=True)
class Lens:
    """What a tab draws of the sources that are open: ``view(opened, value)``, with the value of a ``state``.

    ``changes`` are the events after which it is drawn again.
    """

    view: Callable[[tuple[Opened, ...], Any], tuple[Opened, ...]]
    state: gr.State
    changes: tuple[Any, ...]


@dataclass(frozen=True)
class Session:
    """The context that a tab draws with: see "Tabs" in the package's docstring.

    ``scope`` is unique to one ``panel()``; pass it to every ``PanelRow`` so that linked hover stays within the page.
    The states ``sources`` and ``active`` hold the source names and the key of the active tab; ``first`` are the sources
    to draw with while the page is built. ``key`` is the tab's own key.
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
    needs: tuple[str, ...] = ()
    fetched: gr.State = field(default_factory=lambda: State({}))
    """Outcome of the page's reads: see ``opening``. Changes whenever reads end."""

    due: gr.State = field(default_factory=lambda: State([]))
    """Changes when the tab is to be redrawn: see ``drawn_with``. Each tab has its own."""

    asked: gr.State = field(default_factory=lambda: State([]))
    """A word that another tab sends to Tokens: its text, source and row, and a unique id."""

    beyond: gr.State = field(default_factory=lambda: State([]))
    """Sources that were asked for beyond ``MOST_SOURCES``, until the sources change."""

    own: gr.State = field(default_factory=lambda: State([]))
    """Sources that the visitor's browser remembers, offered next to the presets."""

    controls: list[Control] = field(default_factory=list)
    """The controls whose values are stored in the URL."""

    folds: dict[str, gr.Accordion] = field(default_factory=dict)
    """Accordions that start closed, by their name in the URL."""

    opens: dict[str, str] = field(default_factory=dict)
    """The accordion that a control is in, both by their names in the URL: a link with the control opens it."""

    running: dict[str, BackgroundJob] = field(default_factory=dict)
    """The background jobs of all tabs: see ``background_jobs.bind_stops``."""

    pending: gr.HTML | None = None
    """What Gradio marks while rows of panels are computed, and the last pictures fade: see ``lines.pending_mark``."""

    keys: tuple[str, ...] = ()
    """The tabs that the page has; empty if it has all."""

    linked: bool = False
    """Whether the URL reflects what is shown, so that the page can be linked."""

    restored: gr.State = field(default_factory=lambda: State(""))
    """Changes when the controls were set from a URL and everything is to be redrawn with their values."""

    view: gr.State = field(default_factory=lambda: State({}))
    """What the controls of late tabs hold that differs from the first paint, as text by their names in the URL."""

    lens: Lens | None = None
    """What is drawn of the sources, if that is not all of them: see ``through``."""

    loads: tuple[Any, ...] = ()
    """The event that follows the drawing of a late tab: see ``late_tabs``."""

    def at(self, key: str, needs: Sequence[str] = (), *, due: gr.State | None = None) -> Session:
        """Return the session for one tab: it needs the parts ``needs`` and is redrawn when ``due`` changes."""
        return replace(self, key=key, needs=tuple(needs), due=due or self.due)

    def through(self, view: Callable[..., tuple[Opened, ...]], state: gr.State, *changes: Any) -> Session:
        """Return a session that draws ``view(opened, value)``, again when the ``state`` changes and on ``changes``."""
        return replace(self, lens=Lens(view, state, (state.change, *changes)))

    def open(self, texts: Sequence[str], fetched: Mapping[str, Any] | None = None) -> tuple[Opened, ...]:
        """Open sources by name, each with the colour of its place; one that fails carries its error.

        A place can be empty: "" is no source, and leaves its colour to the next one that is added.
        There is no network access: a Hub source that lacks parts the tab needs has the error recorded in ``fetched``,
        or ``WAITING``.
        """
        told = (fetched or {}).get("problems", {}).get(self.key, {})
        shown = {place: text for place, text in enumerate(texts[:MOST_SOURCES]) if text}
        return tuple(
            self._open(Opened(text, name, *source_style(place)), told.get(text, WAITING))
            for (place, text), name in zip(shown.items(), short_names(list(shown.values())), strict=True)
        )

    def _open(self, named: Opened, told: str) -> Opened:
        try:
            found = self.library.opened(named.text, self.needs, public=self.public)
        except Exception as error:  # noqa: BLE001 - one source that cannot be opened must not affect the others
            return replace(named, error=one_line(said_of(error, public=self.public)))
        return replace(named, embeddings=found, error="" if found is not None else told)

    def wanted(self, opened: Sequence[Opened]) -> dict[Hashable, tuple[str, Work]]:
        """Return the reads for the sources that wait for them, in order, for ``Fetches.follow``."""
        out: dict[Hashable, tuple[str, Work]] = {}
        for source in waiting(opened):
            key, work = self.library.fetch(source.text, self.needs, public=self.public)
            out[key] = (source.name, work)
        return out

    def redraw(
        self,
        draw: Draw,
        outputs: Sequence[Any],
        *,
        inputs: Sequence[Any] = (),
        on: Sequence[Any] = (),
        after: Sequence[Any] = (),
        within: gr.State | None = None,
    ) -> None:
        """Call ``draw(opened, *inputs)`` for ``outputs`` when the sources change, and on events as in ``when``.

        A hidden tab is redrawn when it becomes active, to save the work for tabs that nobody looks at, and what is
        ``within`` a fold when that is opened.
        """
        changes = [*(self.lens.changes if self.lens else ()), *([within.change] if within else ())]
        events = [self.due.change, *changes, *on]
        self.when(events, draw, outputs, inputs=inputs, after=[*self.loads, *after], within=within)

    def drawn_with(self, restored: str, texts: Sequence[str], fetched: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the value of ``due`` once the tab is drawn with these sources; empty while some are being fetched."""
        opened = self.open(texts, fetched)
        errors = {source.text: source.error for source in opened}
        return [] if waiting(opened) else [restored, *([text, errors.get(text, "")] for text in texts)]

    def shown(self, due: Sequence[Any]) -> tuple[Opened, ...]:
        """Open the sources that the tab is drawn with, according to ``due``; empty before the first drawing.

        Handlers of a tab use this, not ``sources``, which may have changed since: what is on the screen counts. Those
        that cannot be opened are left out: the bar above the tabs says why.
        """
        problems = {text: error for text, error in due[1:] if error}
        opened = self.open([text for text, _ in due[1:]], {"problems": {self.key: problems}})
        return tuple(one for one in opened if one.there)

    def table(self, text: str, role: str) -> EmbeddingTable:
        """Return a table of an open source. Raises ``HfposembError`` if it is not open any more."""
        (opened,) = self.open([text])
        table = opened.table(role)
        if table is None:
            raise HfposembError(opened.error or f"{opened.name} has no {role} table any more; choose it again")
        return table

    def fitting(self, texts: Sequence[str], fetched: Mapping[str, Any] | None = None) -> tuple[list[str], list[str]]:
        """Return the sources that the page has places for, and those beyond: before others go, those that failed do."""
        named, beyond = split(texts)
        if not beyond:
            return named, beyond
        return split(text for text in (*named, *beyond) if self.open([text], fetched)[0].there)

    def keep(self, name: str, component: Any, **more: Any) -> None:
        """Store a control's value in the URL under ``name``; ``more`` is passed to ``address.control``."""
        self.controls.append(control(name, component, **more))

    def fold(self, name: str, title: str, *, holds: Sequence[str] = ()) -> tuple[gr.Accordion, State]:
        """Return an accordion, closed at first, and the state of whether it is open, which is stored in the URL.

        ``holds`` are the names of the controls in it.
        """
        box, unfolded = gr.Accordion(title, open=False, elem_classes=["question", f"fold-{name}"]), State(False)
        self.keep(name, unfolded, read=lambda text: text == UNFOLDED, write=lambda _: UNFOLDED)
        self.folds[name] = box
        self.opens.update(dict.fromkeys(holds, name))
        return box, unfolded

    def bind_folds(self) -> None:
        """Keep whether each accordion of the page is open, once all tabs are drawn."""
        kept = {one.name: one.component for one in self.controls}
        states = {name: kept[name] for name in self.folds}

        def named(event: Happened) -> list[Any]:
            # Gradio makes a new object, with another number, of a component that was updated; its classes stay.
            classes = getattr(event.target, "elem_classes", ())
            return [state for name, state in states.items() if f"fold-{name}" in classes]

        def expand(event: Happened) -> Any:
            return dict.fromkeys(named(event), True) or gr.skip()

        def collapse(event: Happened) -> Any:
            return dict.fromkeys(named(event), False) or gr.skip()

        if states:
            boxes = self.folds.values()  # of which a link opens several at once
            gr.on([box.expand for box in boxes], expand, None, list(states.values()), **EACH)
            gr.on([box.collapse for box in boxes], collapse, None, list(states.values()), **EACH)

    def bind_tabs(self, items: Mapping[str, gr.Tab]) -> None:
        """Keep the name of the open tab in ``active``.

        On a linked page the answer to the first tab tells the page's scripts that the server knows its tab.
        """
        unseen: dict[str, Any] = {"html_template": "", "apply_default_css": False, "elem_classes": "unseen"}
        ready = [gr.HTML("", js_on_load=on_load("announceReady"), **unseen)] if self.linked else []

        def select(event: Happened) -> Any:
            name = getattr(event.target, "id", None)
            return {self.active: name, **dict.fromkeys(ready, "ready")} if name in items else gr.skip()

        gr.on([item.select for item in items.values()], select, None, [self.active, *ready], **EACH)

    def when(
        self,
        on: Sequence[Any],
        draw: Draw,
        outputs: Sequence[Any],
        *,
        inputs: Sequence[Any] = (),
        after: Sequence[Any] = (),
        within: gr.State | None = None,
    ) -> None:
        """Call ``draw(opened, *inputs)`` for ``outputs`` on the events ``on`` and ``after``.

        If all of ``on`` are changes, it is not called again for values that the outputs show already. The components
        whose changes are in ``after`` only say when to draw: their values do not count. ``within`` says whether the
        fold of the outputs is open.
        """
        values, lens = [self.due, *inputs], self.lens
        beside = [*([lens.state] if lens else ()), *([within] if within else ()), *(one.__self__ for one in on)]
        values += [one for one in dict.fromkeys(beside) if one not in values]

        def on_event(due: list[Any], *given: Any) -> Any:
            told, opened = dict(zip(values[1:], given, strict=True)), self.shown(due)
            if not due or waiting(opened) or (within and not told[within]):
                return gr.skip()
            return draw(lens.view(opened, told[lens.state]) if lens else opened, *given[: len(inputs)])

        handler = on_event
        if all(one.event_name in ("change", "input") for one in on):
            handler = drawn_once(on_event, outputs)
        handler = guarded(handler, public=self.public, outputs=outputs, of=draw)
        options = {**QUIET, "trigger_mode": "always_last"}
        if self.pending is not None and any(isinstance(output, PanelRow) for output in outputs):
            options |= {"show_progress": "minimal", "show_progress_on": self.pending}
        gr.on([*on, *after], handler, inputs=values, outputs=list(outputs), **options)

    def projection(self, table: EmbeddingTable, method: str, dims: int) -> Projection | None:
        """Return a projection: PCA computed if needed, UMAP only if it is known.

        For large tables the quality of the projection is not measured here: see ``Projection.measured``.
        """
        if method == "umap":
            return umap_of(self.library, table, dims)
        return self.pca(table, dims)

    def source_key(self, source: Opened, what: tuple[Hashable, ...]) -> Hashable:
        """Return the key of a result of a whole source among those of the library."""
        tables = () if source.embeddings is None else source.embeddings.tables.values()
        commits = tuple(table.provenance.commit for table in tables)
        return (*what, source_key(source.text, public=self.public), commits)

    def pca(self, table: EmbeddingTable, dims: int) -> Projection:
        """Return the PCA of a table, computed now if need be, with its quality if that is quick to measure."""
        return self.library.result(table, ("pca", dims), lambda: quickly_measured(self.picture(table, dims), table))

    def picture(self, table: EmbeddingTable, dims: int) -> Projection:
        """Return the PCA of a table without its quality, computed now if need be."""
        return self.library.result(table, ("picture", dims), lambda: first_picture(table, dims))

    @property
    def jobs(self) -> JobRunner:
        """The runner of this tab's child-process work."""
        return JobRunner(self.library, self.public, self.scope, self.key, self.running, self.table)

    def ask_for(self, text: str, source: str, row: int) -> list[Any]:
        """Return the value of ``asked`` that shows a word of a source in Tokens."""
        return [text, source, row, uuid4().hex]

    def show(self, key: str) -> tuple[Any, str]:
        """Return the updates of ``tabs`` and ``active`` that activate a tab, if the page has it."""
        return (gr.update(selected=key), key) if self.has(key) else (gr.skip(), gr.skip())

    def show_word(self, source: Opened, label: str) -> list[Any]:
        """Return the updates of ``asked``, ``tabs`` and ``active`` that open a word of a source in Tokens."""
        table = source.table("token")
        row = None if table is None else table.labels.exact(label)
        asked = self.ask_for(label, "" if row is None else source.text, -1 if row is None else row)
        return [asked, *self.show("tokens")]

    def has(self, key: str) -> bool:
        """Return whether the page has a tab."""
        return not self.keys or key in self.keys
