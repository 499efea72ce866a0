"""What the tabs share: sources read once for everybody, results kept within bounds, and the session of one page.

``gr.State`` holds names only. Tables and results stand in the :class:`Library`, one for the process.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import os
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import gradio as gr
import numpy as np

import hfposemb as hpe
from hfposemb.analysis.projection_quality import NOT_MEASURED, SAMPLE
from hfposemb.errors import (
    CancelledError,
    CheckpointError,
    HfposembError,
    InputError,
    MissingExtraError,
    MissingTableError,
    SourceError,
)
from hfposemb.figures.style import source_style
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.source_names import distinct, path_names
from hfposemb.tables.source_parser import parse_source
from hfposemb.tables.sources import BuiltinSource, HubSource, LocalSource, SampleSource, Source
from hfposemb.tables.table import EmbeddingTable, all_rows
from hfposemb.text import display

from ..components.events import QUIET
from ..components.hidden import State
from ..components.plot import Panel, PanelRow
from ..jobs import children
from ..jobs.fetching import POLL, Fetch, Fetches, Reading, Work, extract
from ..jobs.queue import LINE, WAIT, Ticket, Visitor, in_line
from ..server.failures import is_bug, said_of
from ..server.limits import (
    BUILTIN_BYTES,
    HELD_BYTES,
    LONGEST_JOB,
    LONGEST_SOURCE,
    LONGEST_TEXT,
    MOST_SOURCES,
    PUBLIC_MEMORY,
    PUBLIC_SECONDS,
    QUICK_FLOPS,
)
from .address import Control, control

if TYPE_CHECKING:
    from hfposemb.analysis.projection import Projection
    from hfposemb.tables.encodings import PositionEncoding

T = TypeVar("T")

FIRST = ("sample:bert", "sample:gpt2", "sinusoidal:256x128")
"""The sources at first paint; none of them needs a network. The samples have 256 positions of width 128."""

PRESETS = (
    *FIRST,
    *("rotary:2048x64", "alibi:2048x12"),
    *("random:256x128", "counting:256x128", "normalised:256x128", "sigmoid:256x128", "single-sine:256x128"),
)
HUB_PRESETS = {
    "openai-community/gpt2": ("GPT-2, Hub", "sample:gpt2"),
    "google-bert/bert-base-uncased": ("BERT base, Hub", "sample:bert"),
    "FacebookAI/roberta-base": ("RoBERTa base, Hub", "sample:bert"),
    "distilbert/distilbert-base-uncased": ("DistilBERT base, Hub", "sample:bert"),
    "albert/albert-base-v2": ("ALBERT base v2, Hub", "sample:bert"),
    "facebook/opt-125m": ("OPT 125M, Hub", "sample:gpt2"),
}
"""Models of the Hub that are offered: what each is called, and the sample that stands for it without a network."""

NEEDS = ("position", "token", "inputs", "attention")
"""What a tab may need of a source: all tables of these roles, and what it takes to feed it a sentence, or to know how
its first layer attends."""

WAITING = "it is being read from the Hub"
STOPPED = "was stopped; choose it again to go on"

SOURCE_BYTES = 4 * 2**30
"""Of tables that open sources hold. Those of local files are views of the file, which the system may drop again."""

RESULT_BYTES = 512 * 2**20

HASHED = 2**22
"""Numbers of a table up to which its results go by its digest: it is hashed in a few hundredths of a second."""

MOST_FILES = 256
"""Files of a folder that are looked at for a change."""

ENTRIES = 512
"""Of either kind, however small."""


# --- bounded, and computed once ---------------------------------------------------------------------------------------


class Kept:
    """Keep what was made, the longest unused dropped beyond ``limit`` bytes; what two ask for at once is made once.

    What fails is not kept: everybody who waits for it gets the same error, whoever comes later tries again.
    """

    def __init__(self, limit: int, *, entries: int = ENTRIES) -> None:
        self.limit, self.entries = limit, entries
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._ready = Condition()

    @property
    def nbytes(self) -> int:
        """How many bytes are kept now."""
        return sum(size for _, size in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Any:
        """Return what is kept under ``key``, or ``None``."""
        with self._ready:
            return self._find(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value that was made elsewhere."""
        with self._ready:
            self._keep(key, value)

    def make(self, key: Hashable, maker: Callable[[], T]) -> T:
        """Return what is kept under ``key``, made by ``maker`` if need be."""
        with self._ready:
            if (found := self._find(key)) is not None:
                return found  # type: ignore[no-any-return]
            making, mine = self._making.get(key), False
            if making is None:
                making, mine = self._making.setdefault(key, _Making()), True
            while not mine and not making.done:
                self._ready.wait()
        if not mine:
            return making.outcome()  # type: ignore[no-any-return]
        try:
            making.value = maker()
        except BaseException as error:
            making.error = error
            raise
        finally:
            with self._ready:
                making.done = True
                del self._making[key]
                if making.error is None:
                    self._keep(key, making.value)
                self._ready.notify_all()
        return making.value  # type: ignore[no-any-return]

    def _find(self, key: Hashable) -> Any:
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def _keep(self, key: Hashable, value: Any) -> None:
        self._values[key] = (value, size_of(value))
        self._values.move_to_end(key)
        while len(self._values) > 1 and (self.nbytes > self.limit or len(self._values) > self.entries):
            self._values.popitem(last=False)


@dataclass
class _Making:
    """What one thread makes while others wait for it."""

    value: Any = None
    error: BaseException | None = None
    done: bool = False

    def outcome(self) -> Any:
        if self.error is None:
            return self.value
        if isinstance(self.error, HfposembError):
            raise self.error
        raise SourceError("what this view waited for could not be made; try again") from self.error


def size_of(value: Any) -> int:
    """Estimate the bytes that a result, or an Embeddings with all its tables read, holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Embeddings):
        return sum(size_of(table) for table in value.tables.values())
    if isinstance(value, EmbeddingTable):
        return value.shape[0] * value.shape[1] * value.dtype.itemsize
    if is_dataclass(value) and not isinstance(value, type):
        return sum(size_of(vars(value).get(part.name)) for part in fields(value))  # nothing is computed for it
    if isinstance(value, Mapping):
        return sum(size_of(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(size_of(item) for item in value)
    return sys.getsizeof(value, 64)


class Library:
    """Open sources and results, shared by everybody who uses this process. Safe for threads."""

    def __init__(self, *, source_bytes: int = SOURCE_BYTES, result_bytes: int = RESULT_BYTES) -> None:
        self.sources = Kept(source_bytes)
        self.results = Kept(result_bytes)
        self.fetches = Fetches()
        self._held: WeakKeyDictionary[Embeddings, _Held] = WeakKeyDictionary()
        self._names: WeakKeyDictionary[EmbeddingTable, str] = WeakKeyDictionary()
        self._lock = Lock()

    def open(self, text: str, *, public: bool = False) -> Embeddings:
        """Return the embeddings of a source, opened once. Raises ``HfposembError``, one line, where it cannot be.

        For the Hub this waits for the network: the page's handlers use ``opened`` and ``fetch``.
        """
        source = allowed(text, public=public)
        return self.sources.make(source_key(source, public=public), lambda: _extracted(text, public=public))

    def opened(self, text: str, needs: Sequence[str], *, public: bool = False) -> Embeddings | None:
        """Return a source without asking the network: ``None`` where what is needed of it is still to be fetched."""
        source = allowed(text, public=public)
        if not isinstance(source, HubSource):
            return self.open(text, public=public)
        found = self.sources.get(source_key(source, public=public))
        return found if found is not None and self._hold(found).read.issuperset(needs) else None

    def fetch(self, text: str, needs: Sequence[str], *, public: bool = False) -> tuple[Hashable, Work]:
        """Return a name for fetching what is needed of a source, and how to do it."""

        def work(fetch: Fetch) -> None:
            while True:
                try:
                    found = self.open(text, public=public)
                    break
                except CancelledError:
                    fetch.check()  # else it was somebody else's read, who does not want it any more
            held = self._hold(found)
            while not held.turn.acquire(timeout=POLL):
                fetch.check()
            try:
                missing = [need for need in needs if need not in held.read]
                fetch.expect(sum(table.provenance.nbytes for table in _tables(found, missing)))
                for need in missing:
                    _read(found, need)
                    held.read.add(need)
            finally:
                held.turn.release()

        return (source_key(allowed(text, public=public), public=public), tuple(needs)), work

    def _hold(self, found: Embeddings) -> _Held:
        with self._lock:
            return self._held.setdefault(found, _Held())

    def result(self, table: EmbeddingTable, what: tuple[Hashable, ...], maker: Callable[[], T]) -> T:
        """Return a result of a table, computed once: ``what`` names the method and every parameter."""
        return self.results.make(self.result_key(table, what), maker)

    def result_key(self, table: EmbeddingTable, what: tuple[Hashable, ...]) -> Hashable:
        """Return the name that a result has in ``results``.

        A small table is told by its numbers, for some are computed anew for every view. To hash a large one takes
        seconds: it is told by itself, since a source is opened once for as long as its files stay the same.
        """
        if table.shape[0] * table.shape[1] <= HASHED:
            return (table.digest, *what)
        with self._lock:
            return (self._names.setdefault(table, uuid4().hex), *what)


@dataclass(eq=False)
class _Held:
    """What was read of an open source; whoever reads more of it has its turn."""

    read: set[str] = field(default_factory=set)
    turn: Lock = field(default_factory=Lock)  # type: ignore[valid-type]


def _tables(embeddings: Embeddings, needs: Sequence[str]) -> list[EmbeddingTable]:
    return [table for role, table in embeddings.tables.items() if role.rpartition(".")[2] in needs]


def _read(embeddings: Embeddings, need: str) -> None:
    """Read one of ``NEEDS``; a source that does not have it has nothing to read."""
    for table in _tables(embeddings, [need]):
        if table.shape[0] * table.shape[1] * table.dtype.itemsize <= HELD_BYTES:
            all_rows(table)
        else:
            next(iter(table.chunks()))  # fetches all of it: of a large table no part is fetched alone
    if need == "position":
        return
    try:
        _ = embeddings.token.labels
        if need == "inputs":
            embeddings.inputs("a")
        if need == "attention":
            embeddings.logits([0])
    except (MissingTableError, InputError, MissingExtraError, CheckpointError):
        pass  # whoever draws it says why


@cache
def shared_library() -> Library:
    """Return the library of this process."""
    return Library()


def allowed(text: str, *, public: bool) -> Source:
    """Read a source's name, and refuse what strangers may not ask for before anything is looked up."""
    if len(text) > LONGEST_SOURCE:
        raise SourceError(f"a source has at most {LONGEST_SOURCE:,} characters")
    # Before it is parsed, which looks up whose home ~name is.
    if public and text.strip().startswith((".", "/", "\\", "~")):
        raise SourceError(
            "folders and files are read only where the app runs on your own machine: pip install hfposemb"
        )
    source = parse_source(text)
    if public and isinstance(source, BuiltinSource) and 4 * source.rows * source.width > BUILTIN_BYTES:
        raise SourceError(
            f"a built-in has at most {BUILTIN_BYTES >> 20} MB on this public page; {source.rows:,} × {source.width:,} "
            f"would have {4 * source.rows * source.width / 2**20:,.0f}: ask for fewer rows"
        )
    return source


def source_key(source: Source, *, public: bool = False) -> Hashable:
    """Return a key that two names of the same source share; what a user's token opens has another for strangers."""
    return public and isinstance(source, HubSource), repr(source), *_state_of_files(source)


def _state_of_files(source: Source) -> tuple[Hashable, ...]:
    """Return what changes when a file of a local source does: then it is opened anew, and its results are others."""
    if not isinstance(source, LocalSource):
        return ()
    try:
        with os.scandir(source.path if source.path.is_dir() else source.path.parent) as listed:
            found = [(one.name, one.stat()) for one in itertools.islice(listed, MOST_FILES) if one.is_file()]
    except OSError:
        return ()  # opening it says what is wrong
    return tuple(sorted((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found))


def _extracted(text: str, *, public: bool) -> Embeddings:
    try:
        return extract(text, public=public)
    except OSError as error:
        raise SourceError(f"{display(text, width=60)} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise SourceError(f"{display(text, width=60)} does not fit into this machine's memory") from error


# --- what a source is called ------------------------------------------------------------------------------------------


def short_name(text: str) -> str:
    """Return what a source is called where there is little room, safe to show."""
    return short_names([text])[0]


def short_names(texts: Sequence[str]) -> list[str]:
    """Return what sources that are seen together are called, safe to show, no two of them alike."""
    return distinct(texts, [[display(name, width=28) for name in _called(text)] for text in texts])


def _called(text: str) -> tuple[str, ...]:
    """Return what a source could be called, the shortest first."""
    try:
        # A name needs no home, and looking one up would tell strangers whose there are.
        source = LocalSource(Path(text.strip())) if text.strip().startswith("~") else parse_source(text)
    except HfposembError:
        return (text,)
    match source:
        case SampleSource(name, step):
            called = {"bert": "BERT", "gpt2": "GPT-2"}.get(name, name)
            return (called if step is None else f"{called} step {step:,}", text)
        case BuiltinSource(name, rows, width):
            called = {"sinusoidal": "Sinusoid", "random": "Untrained", "alibi": "ALiBi"}.get(name, name.capitalize())
            called = called if not source.options else f"{called} {' '.join(source.options.values())}"
            return (called, f"{called} {rows:,} × {width:,}", text)
        case HubSource(repo, revision):
            short = repo.rpartition("/")[2]
            return (short, repo) if revision is None else (short, f"{short}@{revision[:12]}", repo, text)
        case LocalSource(path):
            return path_names(path)


def choices(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return sources as the choices of the source field; what would read alike is written in full."""
    made = [choice(text) for text in dict.fromkeys(texts)]
    often = Counter(label for label, _ in made)
    return [(label if often[label] == 1 else display(text, width=200), text) for label, text in made]


def choice(text: str) -> tuple[str, str]:
    """Return a source as a choice of the source field: how it is written there, and its name."""
    name = short_name(text)
    if text.startswith("sample:"):
        return f"{name}, small demo", text
    if text in HUB_PRESETS:
        return HUB_PRESETS[text][0], text
    if text in PRESETS:
        return f"{name} {text.partition(':')[2].replace('x', ' × ')}", text
    return (text if len(text) <= 36 else f"…{display(text[-35:], width=35)}"), text


# --- one page ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    """One of the sources on the page: its ``text`` as given, short ``name``, colour and dash, and what was opened.

    ``embeddings`` is ``None`` where opening failed, and ``error`` says why in one line. ``wanted`` is the part whose
    positions are asked for, where it has several.
    """

    text: str
    name: str
    color: str
    dash: str
    embeddings: Embeddings | None = None
    error: str = ""
    wanted: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the source that have positions, the first one first."""
        return () if self.embeddings is None else tuple(self.embeddings.positions)

    @property
    def part(self) -> str:
        """The part whose positions are shown: the one that is wanted, else the first."""
        return self.wanted if self.wanted in self.parts else next(iter(self.parts), "")

    @property
    def position(self) -> PositionEncoding:
        """The positions that are shown. Raises ``HfposembError`` where it has none or was not opened."""
        if self.embeddings is None:
            raise SourceError(self.error)
        return self.embeddings.positions[self.part] if self.parts else self.embeddings.position

    def table(self, role: str) -> EmbeddingTable | None:
        """Return a table, or ``None`` where the source has none or was not opened."""
        return None if self.embeddings is None else self.embeddings.tables.get(role)


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
    if SAMPLE * table.shape[0] * table.shape[1] > QUICK_FLOPS:
        return replace(found, trust=None, quality=NOT_MEASURED)
    _ = found.quality
    return found


def _done(wanted: list[list[Any]], *, ok: bool) -> dict[str, Any]:
    return {"id": uuid4().hex, "ok": ok, "wanted": wanted}


WORK_LINE: dict[str, Any] = {
    "apply_default_css": False,
    "elem_classes": "work",
    "css_template": """
        .block:has(> .html-container > &) { padding: 0; background: none; box-shadow: none; }
        font-size: 13px; line-height: 20px; color: var(--body-text-color); display: grid; gap: 6px;
        .track { height: 4px; border-radius: 2px; background: var(--border-color-primary); overflow: hidden; }
        .track > span { display: block; height: 100%; background: #b8195a; transition: width .25s; }
        .dark & .track > span { background: #d13a78; }
        .said { display: flex; justify-content: space-between; align-items: center; gap: 16px; }
        .said span { font-variant-numeric: tabular-nums; }
        button { font: inherit; font-weight: 650; color: inherit; background: none; cursor: pointer; }
        button { border: 0; border-bottom: 2px solid var(--border-color-primary); min-height: 28px; padding: 0; }
        .failed { box-shadow: inset 3px 0 #b54d06; padding-left: 12px; }
        .column:has(> * > * > &) .plot, .column:has(> * > &) .plot { opacity: .4; }
        .column:has(> * > * > & .failed) .plot, .column:has(> * > & .failed) .plot { opacity: 1; }
    """,
    "js_on_load": """
        // The line is written anew four times a second: a button that goes between press and release gets no click.
        const cancel = (event) => event.target.closest("button") && trigger("select", { action: "cancel" });
        element.addEventListener("pointerdown", cancel);
        element.addEventListener("click", (event) => event.detail === 0 && cancel(event));  // by the keyboard
    """,
}


def work_line(progress: children.Progress | Reading, *, label: str = "UMAP") -> str:
    """Return a job's progress as HTML: a bar, what is being done and how long it takes, and the way out."""
    share, words = round(100 * progress.share), html.escape(one_line(str(progress)))
    return (
        f'<div class="track" role="progressbar" aria-label="{label}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{share}"><span style="width: {max(share, 1)}%"></span></div>'
        f'<div class="said"><span>{words}</span><button type="button">Cancel</button></div>'
    )


def failed_line(text: str) -> str:
    """Return why a job has no result, as HTML."""
    return f'<p class="failed" role="alert">{html.escape(one_line(text))}</p>'


def guarded(handler: Callable[..., Any], *, public: bool, outputs: Sequence[Any] = ()) -> Callable[..., Any]:
    """Show an error of ours as its one line, where a handler has no better place for it.

    A bug is reported in those of the ``outputs`` that are panels: their old pictures would be of something else.
    """

    def safe(*values: Any) -> Any:
        try:
            if any(isinstance(value, str) and len(value) > LONGEST_TEXT for value in values):
                raise InputError(f"a text here has at most {LONGEST_TEXT:,} characters; write less")
            return handler(*values)
        except gr.Error:
            raise
        except Exception as error:
            said = one_line(said_of(error, public=public))
            if is_bug(error) and (shown := _failed(outputs, said)) is not None:
                return shown
            raise gr.Error(html.escape(said), title="This did not work", print_exception=False) from error

    return safe


def _failed(outputs: Sequence[Any], said: str) -> Any:
    """Return the values of a handler's outputs that say of its panels what went wrong, ``None`` where it has none."""
    panels = (Panel("failed", "This could not be drawn", message=said, tone="error"),)
    places = [place for place, output in enumerate(outputs) if type(output) is gr.HTML][:1]
    shown = [
        panels if isinstance(output, PanelRow) else failed_line(said) if place in places else gr.skip()
        for place, output in enumerate(outputs)
    ]
    if not places and not any(isinstance(output, PanelRow) for output in outputs):
        return None
    return shown if len(shown) > 1 else shown[0]


def one_line(text: str, *, width: int = 400) -> str:
    """Return a message on one line, its control and bidi characters by name."""
    return display(" ".join(text.split()), width=width)


def unseen_heading(text: str, *, level: int) -> None:
    """Put a heading here for those who hear the page, where those who see it need none."""
    style = "position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%)"
    line = f'<h{level} style="{style}">{html.escape(text)}</h{level}>'
    gr.HTML(line, apply_default_css=False, scale=0, min_width=0, elem_classes="unseen")


def waiting(opened: Sequence[Opened]) -> list[Opened]:
    """Return the sources that are still to be fetched."""
    return [source for source in opened if source.error == WAITING]


def problems(opened: Sequence[Opened], notices: Sequence[str] = ()) -> str:
    """Return the line under the source field, as HTML: which source could not be opened, and what to do."""
    lines = [
        f'<p role="alert"><strong>{html.escape(source.name)}</strong> {html.escape(source.error)}</p>'
        for source in opened
        if source.error and source.error != WAITING
    ]
    return "".join([*lines, *(f'<p role="alert">{html.escape(notice)}</p>' for notice in notices)])
