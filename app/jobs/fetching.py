"""Read from the Hub in a few threads of this process, with progress, and only as long as a page waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import hfposemb as hpe
from hfposemb.checkpoints.limits import PUBLIC_LIMITS
from hfposemb.errors import CancelledError, HfposembError, SourceError
from hfposemb.transfers import Progress, watching

from ..failures import BugError

if TYPE_CHECKING:
    from hfposemb.tables.embeddings import Embeddings

AT_ONCE = 4
"""Reads under way in this process; the others wait for their turn."""

POLL = 0.25
"""Seconds between two looks at a read, for its progress to be shown."""

GRACE = 2.0
"""Seconds that a read goes on without a page that waits for it: whoever chooses one more source wants it still."""


@dataclass(eq=False)
class Fetch:
    """One read: how far it is, and whether anybody wants it. Its own thread calls ``report`` and ``expect``."""

    name: str
    began: float | None = None
    """When its first bytes came."""
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
        """How many bytes there are in all, ``None`` until the sizes of the tables are known."""
        return max(self._ahead + self._planned, self.done) if self._planned else None

    def expect(self, nbytes: int) -> None:
        """Set how many bytes are still to come."""
        self._ahead, self._planned = self.done, nbytes

    def report(self, progress: Progress) -> None:
        """Take note of a piece that was read; raise ``CancelledError`` where nobody waits any more."""
        if self.began is None:
            self.began = time.monotonic()
        last = self._last.get(progress.what)
        again = last is not None and progress.done >= last.done and progress.total == last.total
        self.done += progress.done - (last.done if again and last is not None else 0)
        self._last[progress.what] = progress
        self.check()

    def check(self) -> None:
        """Raise ``CancelledError`` where nobody waits for this read any more."""
        if self.unwanted:
            raise CancelledError(f"reading {self.name} was stopped")

    @property
    def unwanted(self) -> bool:
        """Tell whether nobody waits for it, nor did a moment ago."""
        return self._pages == 0 and time.monotonic() >= self._left


Work = Callable[[Fetch], None]


def extract(text: str, *, public: bool) -> Embeddings:
    """Extract a source for a user, or for strangers: within their limits, and never with the token of this machine."""
    return hpe.extract(text, token=False, limits=PUBLIC_LIMITS) if public else hpe.extract(text)


@dataclass(eq=False)
class _Page:
    """What one page waits for, and whether it was told to stop."""

    what: object
    fetches: list[Fetch]
    stopped: bool = False


class Fetches:
    """The reads of this process. What two pages ask for is read once, and goes on while either of them waits."""

    def __init__(self, *, most: int = AT_ONCE) -> None:
        self._turns = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._running: dict[Hashable, Fetch] = {}
        self._pages: dict[str, _Page] = {}

    async def follow(
        self, page: str, what: object, wanted: Mapping[Hashable, tuple[str, Work]]
    ) -> AsyncIterator[list[Fetch]]:
        """Do all that is wanted, each key a name and its work; yield the reads again and again until all are over.

        However it ends, nothing is read any more that no other page waits for. Raises ``CancelledError`` where
        ``stop`` was called for this page.
        """
        mine = _Page(what, [self._join(key, name, work) for key, (name, work) in wanted.items()])
        self._pages[page] = mine
        try:
            while not mine.stopped and not all(fetch.over.is_set() for fetch in mine.fetches):
                yield mine.fetches
                await asyncio.sleep(POLL)
            if mine.stopped:
                raise CancelledError("reading was stopped")
            yield mine.fetches
        finally:
            if self._pages.get(page) is mine:
                del self._pages[page]
            if not mine.stopped:
                self._leave(mine, GRACE)

    def stop(self, page: str, *, but: object = None, grace: float = 0.0) -> None:
        """Let a page wait no more, unless ``but`` is what it waits for."""
        found = self._pages.get(page)
        if found is not None and not found.stopped and (but is None or found.what != but):
            found.stopped = True
            self._leave(found, grace)

    def _join(self, key: Hashable, name: str, work: Work) -> Fetch:
        with self._lock:
            fetch = self._running.get(key)
            if fetch is None or fetch.unwanted:
                fetch = self._running[key] = Fetch(name, _pages=1)
                threading.Thread(target=self._run, args=(key, fetch, work), name=f"fetch {name}", daemon=True).start()
            else:
                fetch._pages += 1
            return fetch

    def _leave(self, page: _Page, grace: float) -> None:
        with self._lock:
            for fetch in page.fetches:
                fetch._pages -= 1
                fetch._left = time.monotonic() + grace

    def _run(self, key: Hashable, fetch: Fetch, work: Work) -> None:
        outcome: HfposembError | None = SourceError(f"reading {fetch.name} ended before it was done; try again")
        try:
            while not self._turns.acquire(timeout=POLL):
                fetch.check()
            try:
                with watching(fetch.report):
                    work(fetch)
                outcome = None
            finally:
                self._turns.release()
        except HfposembError as error:
            outcome = error
        except OSError as error:
            outcome = SourceError(f"{fetch.name} cannot be read: {error.strerror or error}")
        except MemoryError:
            outcome = SourceError(f"{fetch.name} does not fit into this machine's memory")
        except Exception:  # noqa: BLE001 - whatever it is, the page that waits is told
            outcome = BugError(traceback.format_exc())
        finally:
            with self._lock:
                if self._running.get(key) is fetch:
                    del self._running[key]
            fetch.error = outcome
            fetch.over.set()


def megabytes(count: int) -> str:
    """Return a number of bytes as a person reads it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{count} bytes"


@dataclass(frozen=True)
class Reading:
    """How far several reads are together; as text the words of the line of progress."""

    names: tuple[str, ...]
    done: int
    total: int | None
    rate: float | None

    @classmethod
    def of(cls, fetches: list[Fetch]) -> Reading:
        """Add up what is not over yet."""
        going = [fetch for fetch in fetches if not fetch.over.is_set()] or fetches
        totals = [fetch.total for fetch in going]
        known = [total for total in totals if total is not None]
        starts = [fetch.began for fetch in going if fetch.began is not None]
        done = sum(fetch.done for fetch in going)
        seconds = time.monotonic() - min(starts) if starts else 0.0
        total = sum(known) if len(known) == len(totals) else None
        return cls(tuple(fetch.name for fetch in going), done, total, done / seconds if seconds > 1 else None)

    @property
    def share(self) -> float:
        """The share that is done, 0 while it cannot be told."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def __str__(self) -> str:
        said = [f"reading {' and '.join(self.names)}"]
        if self.total:
            said.append(f"{megabytes(self.done)} of {megabytes(self.total)}")
        elif self.done:
            said.append(megabytes(self.done))
        if self.rate:
            said.append(f"{megabytes(int(self.rate))}/s")
        if self.rate and self.total:
            left = max(1, round((self.total - self.done) / self.rate))
            said.append(f"{f'{left} s' if left < 100 else f'{round(left / 60)} min'} left")
        return " · ".join(said)
