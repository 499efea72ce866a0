"""Whose cheap question is answered next: that of the visitor who had the fewest and waited longest.

Questions that are answered in this process (neighbours, searches, PCA, drawings) have places of their own, apart from
heavy jobs, which run at a lower priority in child processes (``queue``) and only wait here. Guarantees: at most
``AT_ONCE`` questions are computed at a time; however many a visitor asks, another one's first is next; and nobody, and
no address, fills the places of all. Visitors behind one address share its turns evenly, by their pages.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from ..limits import MOST_RUNNING
from .visitor import BusyError, Visitor

T = TypeVar("T")

AT_ONCE = 4
"""Questions computed at a time. NumPy's part of them leaves Python's lock to the others."""

MOST_ASKED = 20
"""Questions of one page that are computed or wait, beyond which more are refused."""

MOST_OF_ADDRESS = MOST_RUNNING // 2
"""The same of all pages of one address."""

POLL = 0.25
"""Seconds between looks at whether a turn is still wanted."""

MOST_KNOWN = 4096
"""Visitors of whom it is known when they had their last turn."""

ENOUGH = "you are asking too many questions at once; wait for the answers, then ask again"

ASKER: ContextVar[Visitor | None] = ContextVar("asker", default=None)
"""Who asks, where Gradio's own context does not say."""


class Turns:
    """Places for questions, which go round the visitors. Thread-safe."""

    def __init__(self, *, at_once: int = AT_ONCE, most: int = MOST_ASKED) -> None:
        self._lock = threading.Lock()
        self._free, self._most = at_once, most
        self._waiting: list[tuple[Visitor, Future[None]]] = []
        self._asked: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._last: OrderedDict[str, int] = OrderedDict()
        self._served = 0

    def join(self, visitor: Visitor) -> Future[None]:
        """Return what is done when it is the visitor's turn. Raises ``BusyError`` if the visitor asks too much."""
        with self._lock:
            address, page = _keys(visitor)
            if self._asked[page] >= self._most or self._asked[address] >= MOST_OF_ADDRESS:
                raise BusyError(ENOUGH)
            self._asked.update({address, page})
            turn: Future[None] = Future()
            self._waiting.append((visitor, turn))
            self._go_on()
        return turn

    def leave(self, visitor: Visitor, turn: Future[None]) -> None:
        """End a turn, or give it up."""
        with self._lock:
            keys = set(_keys(visitor))
            self._asked = +(self._asked - Counter(keys))
            if turn.done():
                self._free += 1
                self._running = +(self._running - Counter(keys))
            else:
                self._waiting.remove((visitor, turn))
            self._go_on()

    @contextmanager
    def turn(self, visitor: Visitor | None, *, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for a turn in this thread, where ``check`` may raise; without a visitor there is nobody to wait for."""
        if visitor is None:
            yield
            return
        mine = self.join(visitor)
        try:
            while not wait([mine], timeout=POLL).done:
                check()
            yield
        finally:
            self.leave(visitor, mine)

    async def call(self, visitor: Visitor | None, work: Callable[..., T], *arguments: Any, **more: Any) -> T:
        """Call a function in a thread when it is the visitor's turn; no thread waits for that."""
        if visitor is None:
            return await asyncio.to_thread(work, *arguments, **more)
        mine = self.join(visitor)
        try:
            await asyncio.shield(asyncio.wrap_future(mine))
            return await asyncio.to_thread(work, *arguments, **more)
        finally:
            self.leave(visitor, mine)

    def _go_on(self) -> None:
        while self._free and self._waiting:
            place = min(range(len(self._waiting)), key=lambda place: self._rank(self._waiting[place][0]))
            visitor, turn = self._waiting.pop(place)
            self._free -= 1
            self._served += 1
            for key in set(_keys(visitor)):
                self._running[key] += 1
                self._last[key] = self._served
                self._last.move_to_end(key)
            while len(self._last) > MOST_KNOWN:
                self._last.popitem(last=False)
            turn.set_result(None)

    def _rank(self, visitor: Visitor) -> list[int]:
        return [of.get(key, 0) for key in _keys(visitor) for of in (self._running, self._last)]


def _keys(visitor: Visitor) -> tuple[str, str]:
    """Return what a visitor's address and page are counted by; a page of an unknown address is one of its own."""
    page = f"page {visitor.session}"
    return f"address {visitor.address}" if visitor.address else page, page


def asker() -> Visitor | None:
    """Return who sent the event that is being handled, ``None`` outside events."""
    from gradio.context import LocalContext

    request = LocalContext.request.get(None)
    return ASKER.get() or (None if request is None else Visitor.of(request, public=True))


TURNS = Turns()
"""The turns of this process."""
