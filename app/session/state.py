"""The session of one page: its sources, the controls that its address remembers, and when each tab draws.

``gr.State`` holds names only. Tables and results are in the ``Library``, one for the process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from ..components.lines import WORK_LINE
from ..components.plot import PanelRow
from ..failures import said_of
from ..jobs.fetching import Work
from ..limits import MOST_SOURCES
from .address import Control, control
from .background_jobs import JobRunner, umap_key
from .guard import guarded
from .library import Library, shared_library
from .opened import WAITING, Opened, problems, waiting
from .source_names import HUB_PRESETS, PRESETS, choices, short_names

if TYPE_CHECKING:
    from hfposemb.analysis.projection import Projection


Draw = Callable[..., Any]


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
        # One row shows progress for all: the page copies every component that ever did, at each message of the server.
        if row := next((output for output in outputs if isinstance(output, PanelRow)), None):
            options |= {"show_progress": "minimal", "show_progress_on": row}
        gr.on(list(on), handler, inputs=[self.due, *inputs], outputs=list(outputs), **options)

    def projection(self, table: EmbeddingTable, method: str, dims: int) -> Projection | None:
        """Return a projection: PCA at once, UMAP only if it has been computed.

        How far the picture of a large table can be trusted is not measured then: see ``Projection.measured``.
        """
        if method == "umap":
            return self.library.results.get(umap_key(self.library, table, dims))  # type: ignore[no-any-return]
        return self.library.result(table, ("pca", dims), lambda: _first_picture(table, dims))

    @property
    def jobs(self) -> JobRunner:
        """What computes in a child process for this tab."""
        return JobRunner(self.library, self.public, self.scope, self.key, self.needs)

    def ask_for(self, text: str, source: str, row: int) -> list[Any]:
        """Return the value of ``asked`` that brings a word of a source to Tokens."""
        return [text, source, row, uuid4().hex]

    def show(self, key: str) -> tuple[Any, str]:
        """Return the updates of ``tabs`` and ``active`` that bring a tab to the screen."""
        return gr.update(selected=key), key


def _first_picture(table: EmbeddingTable, dims: int) -> Projection:
    """Return the PCA of a table, measured where that is quick; the table itself is not kept by it."""
    found = hpe.project(table, method="pca", dims=dims)
    if SAMPLE * table.shape[0] * table.shape[1] > limits.QUICK_FLOPS:
        return replace(found, trust=None, quality=NOT_MEASURED)
    _ = found.quality
    return found
