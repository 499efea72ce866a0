"""Downloads from the Hub in a few threads of this process, with progress, stopped when no page waits for them."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import hfposemb as hpe
from hfposemb.cache import Cache
from hfposemb.checkpoints.access import STRANGER
from hfposemb.checkpoints.limits import DEFAULT_LIMITS, PUBLIC_LIMITS
from hfposemb.errors import CancelledError, HfposembError, RefusedError, SourceError
from hfposemb.progress import Progress, watching

from ..failures import BugError
from . import children
from .lent import lent
from .turns import Turns, asker
from .visitor import Visitor

if TYPE_CHECKING:
    from hfposemb.checkpoints.access import Visitor as HubVisitor
    from hfposemb.tables.embeddings import Embeddings
    from hfposemb.tables.table import EmbeddingTable

T = TypeVar("T")

AT_ONCE = 4
"""Maximum number of concurrent reads in this process; others are queued, and go round the visitors."""

MOST_READ = 100
"""Reads of one page that run or wait."""

POLL = 0.25
"""Seconds between polls of a read's progress."""

LATE = 0.02
"""Seconds by which the end of a read is noticed late at most."""

GRACE = 2.0
"""Seconds that a read continues when no page waits for it, because adding a source restarts the page's wait."""


@dataclass(eq=False)
class Fetch:
    """A read: its progress, and whether a page wants it. ``report`` and ``expect`` are called by its own thread."""

    name: str
    began: float | None = None
    """Time at which the first bytes arrived."""
    done: int = 0
    error: HfposembError | None = None
    over: threading.Event = field(default_factory=threading.Event)
    _ahead: int = 0
    _planned: int = 0
    _last: dict[str, Progress] = field(default_factory=dict)
    _pages: int = 0
    _left: float = 0.0

    @property
    def total(self) -> int | None:
        """Total number of bytes, ``None`` until the sizes of the tables are known."""
        return max(self._ahead + self._planned, self.done) if self._planned else None

    def expect(self, nbytes: int) -> None:
        """Set how many bytes are still to come."""
        self._ahead, self._planned = self.done, nbytes

    def report(self, progress: Progress) -> None:
        """Record the progress of a transfer; raise ``CancelledError`` if no page waits for this read any more."""
        if self.began is None:
            self.began = time.monotonic()
        last = self._last.get(progress.what)
        again = last is not None and progress.done >= last.done and progress.total == last.total
        self.done += progress.done - (last.done if again and last is not None else 0)
        self._last[progress.what] = progress
        self.check()

    def check(self) -> None:
        """Raise ``CancelledError`` if no page waits for this read any more."""
        if self.unwanted:
            raise CancelledError(f"reading {self.name} was stopped")

    @property
    def unwanted(self) -> bool:
        """Whether no page waits for this read and its grace period is over."""
        return self._pages == 0 and time.monotonic() >= self._left


Work = Callable[[Fetch], None]


_served: HubVisitor | None = None
"""In a child process, the visitor for whom it works, if that is somebody who has signed in."""

_private = False
"""Whether this child process has read anything with that visitor's token."""


def on_behalf(visitor: HubVisitor, work: Callable[..., T], *arguments: Any) -> T:
    """Call a function, in a child process, which then reads with a visitor's token what is not public."""
    global _served
    _served = visitor
    return work(*arguments)


def extract(text: str, *, public: bool, visitor: HubVisitor | None = None) -> Embeddings:
    """Extract a source; in public mode within ``PUBLIC_LIMITS`` and without this machine's token.

    With a ``visitor``, it is read with that person's token. Without one, a child process that works for somebody who
    has signed in uses the token of that person only where the Hub refuses a reader without one.
    """
    if (known := lent(text)) is not None:
        return known
    if not public:
        return hpe.extract(text)
    if visitor is not None:
        return hpe.extract(text, token=visitor, limits=PUBLIC_LIMITS)
    return publicly(lambda reader: hpe.extract(text, token=reader, limits=PUBLIC_LIMITS))


def publicly(read: Callable[[HubVisitor], T]) -> T:
    """Call ``read`` as a stranger; in a child process that works for a visitor, again as that visitor if refused."""
    global _private
    try:
        return read(STRANGER)
    except RefusedError:
        if _served is None:
            raise
    _private = True
    return read(_served)


def cache_of_results(*, public: bool) -> Cache:
    """Return the disk cache for results about what was read: the visitor's own if any of it is not public."""
    limit = (PUBLIC_LIMITS if public else DEFAULT_LIMITS).cache_bytes
    own = _served.folder if _served is not None and _private else None
    return Cache.default(limit=limit) if own is None else Cache(own, limit)


def table_of(found: Embeddings, role: str) -> EmbeddingTable:
    """Return a table by its role, or the output head."""
    if role in found.lookups:
        return found.lookup(role)
    return found.head if role == "head" else found.tables[role]


@dataclass(eq=False)
class _Page:
    """The reads that a page waits for, and whether it was told to stop."""

    what: object
    fetches: list[Fetch]
    stopped: bool = False

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.stopped or all(fetch.over.is_set() for fetch in self.fetches)


class Fetches:
    """The reads of this process. Pages that want the same share one read, which continues while any of them waits."""

    def __init__(self, *, most: int = AT_ONCE) -> None:
        self._turns = Turns(at_once=most, most=MOST_READ)
        self._lock = threading.Lock()
        self._running: dict[Hashable, Fetch] = {}
        self._pages: dict[str, _Page] = {}

    async def follow(
        self, page: str, what: object, wanted: Mapping[Hashable, tuple[str, Work]]
    ) -> AsyncGenerator[list[Fetch], None]:
        """Do everything in ``wanted``, which maps keys to a name and a function; yield the reads until all are over.

        However it ends, reads that no other page waits for are stopped. Raises ``CancelledError`` if ``stop`` was
        called for this page.
        """
        mine = _Page(what, [self._join(key, name, work) for key, (name, work) in wanted.items()])
        self._pages[page] = mine
        try:
            while not mine.ended:
                yield mine.fetches
                until = time.monotonic() + POLL
                while not mine.ended and time.monotonic() < until:
                    await asyncio.sleep(LATE)
            if mine.stopped:
                raise CancelledError("reading was stopped")
            yield mine.fetches
        finally:
            if self._pages.get(page) is mine:
                del self._pages[page]
            if not mine.stopped:
                self._leave(mine, GRACE)

    def stop(self, page: str, *, but: object = None, grace: float = 0.0) -> None:
        """Stop the wait of a page, unless it waits for ``but``."""
        found = self._pages.get(page)
        if found is not None and not found.stopped and (but is None or found.what != but):
            found.stopped = True
            self._leave(found, grace)

    def _join(self, key: Hashable, name: str, work: Work) -> Fetch:
        with self._lock:
            fetch = self._running.get(key)
            if fetch is None or fetch.unwanted:
                fetch = self._running[key] = Fetch(name, _pages=1)
                reading = key, fetch, work, asker() or Visitor("")
                threading.Thread(target=self._run, args=reading, name=f"fetch {name}", daemon=True).start()
            else:
                fetch._pages += 1
            return fetch

    def _leave(self, page: _Page, grace: float) -> None:
        with self._lock:
            for fetch in page.fetches:
                fetch._pages -= 1
                fetch._left = time.monotonic() + grace

    def _run(self, key: Hashable, fetch: Fetch, work: Work, visitor: Visitor) -> None:
        outcome: HfposembError | None = SourceError(f"reading {fetch.name} ended early; try again")
        try:
            with self._turns.turn(visitor, check=fetch.check), watching(fetch.report):
                work(fetch)
            outcome = None
        except HfposembError as error:
            outcome = error
        except OSError as error:
            outcome = SourceError(f"{fetch.name} cannot be read: {error.strerror or error}")
        except MemoryError:
            outcome = SourceError(f"{fetch.name} does not fit into memory")
        except Exception:  # noqa: BLE001 - reported to the pages that wait
            outcome = BugError(traceback.format_exc())
        finally:
            with self._lock:
                if self._running.get(key) is fetch:
                    del self._running[key]
            fetch.error = outcome
            fetch.over.set()


def megabytes(count: int) -> str:
    """Format a number of bytes for humans."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{count} bytes"


def reading(fetches: list[Fetch]) -> children.Progress:
    """Return the joint progress of the reads that are not over, or of all if none is left."""
    going = [fetch for fetch in fetches if not fetch.over.is_set()] or fetches
    known = [fetch.total for fetch in going if fetch.total is not None]
    done, total = sum(fetch.done for fetch in going), sum(known) if len(known) == len(going) else 0
    starts = [fetch.began for fetch in going if fetch.began is not None]
    seconds = time.monotonic() - min(starts) if starts else 0.0
    rate = done / seconds if seconds > 1 else 0.0
    said = [f"reading {' and '.join(fetch.name for fetch in going)}"]
    if total or done:
        said.append(f"{megabytes(done)} of {megabytes(total)}" if total else megabytes(done))
    if rate:
        said.append(f"{megabytes(int(rate))}/s")
    left = (total - done) / rate if rate and total else None
    return children.Progress(min(1.0, done / total) if total else 0.0, " · ".join(said), left)
