"""Whose turn it is: heavy jobs run one at a time in this process, in the order of asking.

Promised: at most one child of the line is alive, whatever visitors do. A page has one place for each of its parts, and
at most ``MOST_OF_ONE`` places: what a second part asks for waits behind the first, while a part that asks anew gives up
what it had. The line is bounded, and whoever comes too late is told so in one line; whoever leaves or cancels loses the
child at once. Nobody holds a thread while waiting: ``place`` is looked at.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hfposemb.errors import HfposembError

from ..limits import MOST_OF_ONE, MOST_WAITING
from .children import CancelledError, Job

if TYPE_CHECKING:
    import gradio as gr

WAIT = 1.0
"""Seconds between two looks at one's place, for a page that has gone away to be noticed."""

BUSY = "much is being computed for others now; try again in a minute, or use PCA for a map"
TWICE = "something is being computed for another page of yours; try again when it is done, or close that page"
ENOUGH = f"{MOST_OF_ONE} computations of yours are running or waiting; try again when one is done, or cancel one"


class BusyError(HfposembError):
    """Work that cannot even wait now."""


@dataclass(frozen=True)
class Visitor:
    """Who asks: the ``session`` of a page, and the ``address`` it came from, empty where that is not known."""

    session: str
    address: str = ""

    @classmethod
    def of(cls, request: gr.Request, *, public: bool) -> Visitor:
        """Read who asks. The address counts in public mode only: all pages of one's own machine have the same."""
        session = request.session_hash or ""
        if not public:
            return cls(session)
        sent = request.headers.get("x-forwarded-for") or ""
        peer = request.client.host if request.client else ""
        return cls(session, known_address(sent.split(","), peer))


def known_address(forwarded: Sequence[str], peer: str) -> str:
    """Return the address of the open internet that is nearest to us, empty where there is none.

    A proxy appends whom it speaks to, so the last one is the one that nobody could make up. Behind proxies that tell
    no such address, every page is a visitor of its own. Of an IPv6 address the first half counts, which one subscriber
    has as a whole.
    """
    for text in (*reversed(forwarded), peer):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if address.is_global:
            return str(ipaddress.ip_network((address, 64), strict=False) if address.version == 6 else address)
    return ""


class Ticket:
    """A place in the line, and the job that runs when it is the first. Use it in ``async with``."""

    def __init__(self, line: Line, visitor: Visitor, part: str, doing: Any) -> None:
        self.visitor, self.part, self.doing = visitor, part, doing
        self._line, self._lock = line, threading.Lock()
        self._job: Job | None = None
        self._reason: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether the place was taken away."""
        return self._reason is not None

    def place(self) -> int:
        """Return how many are before this one. Raises ``CancelledError`` where the place was lost."""
        self._check()
        try:
            return self._line.place(self)
        except ValueError:
            raise CancelledError(self._reason or "") from None

    def _check(self) -> None:
        if self._reason is not None:
            raise CancelledError(self._reason)

    def run(self, work: Callable[..., Any], *arguments: Any, **bounds: Any) -> Job:
        """Start the job, in a thread; see ``jobs.Job`` for the ``bounds``."""
        with self._lock:
            self._check()
            job = self._job = Job(work, *arguments, reports=True, **bounds)
        return job

    def result(self) -> Any:
        """Return the job's result, in a thread. Raises ``CancelledError`` where it was stopped, with the reason."""
        assert self._job is not None
        try:
            return self._job.result()
        finally:
            self._check()

    def next(self, doing: Any) -> None:
        """Turn to the next job of several: at the end of the line, so that nobody waits for more than one of each."""
        if self._job is not None:
            self._line.to_the_end(self)
        self.doing = doing

    def stop(self, reason: str = "") -> None:
        """Take the place away, and end the job. Returns at once; the next one's turn comes when the child is gone."""
        if self._reason is None:
            self._reason = reason
            threading.Thread(target=self.end, daemon=True).start()

    def end(self) -> None:
        """End the job and leave the line. Returns when the child is gone."""
        with self._lock:
            if self._reason is None:
                self._reason = ""
            if self._job is not None:
                self._job.close()
        self._line.leave(self)

    async def __aenter__(self) -> Ticket:
        return self

    async def __aexit__(self, *_: object) -> None:
        # The page may be gone, and this task with it: the child ends all the same.
        await asyncio.shield(asyncio.to_thread(self.end))


class Line:
    """The tickets in their order; the first one's job runs, and at most ``waiting`` wait behind it."""

    def __init__(self, *, waiting: int = MOST_WAITING) -> None:
        self.waiting = waiting
        self._tickets: list[Ticket] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tickets)

    def join(self, visitor: Visitor, part: str = "", doing: Any = None) -> Ticket:
        """Return a place for what a ``part`` of the visitor's page asks for. Raises ``BusyError`` where there is none.

        A part that asks again waits at the place that it held, or at the end where its job was already running.
        """
        with self._lock:
            mine = [ticket for ticket in self._tickets if ticket.visitor.session == visitor.session]
            before = [ticket for ticket in mine if ticket.part == part]
            if not before:
                others = [ticket for ticket in self._tickets if ticket not in mine]
                if visitor.address and any(ticket.visitor.address == visitor.address for ticket in others):
                    raise BusyError(TWICE)
                if sum(not ticket.stopped for ticket in mine) >= MOST_OF_ONE:
                    raise BusyError(ENOUGH)
                if len(self._tickets) > self.waiting:
                    raise BusyError(BUSY)
            ticket = Ticket(self, visitor, part, doing)
            at = [place for place, old in enumerate(self._tickets) if old in before and place > 0]
            self._tickets.insert(at[0], ticket) if at else self._tickets.append(ticket)
        for old in before:
            old.stop()
        return ticket

    def cancel(self, visitor: Visitor, part: str, *, but: Sequence[Any] = ()) -> None:
        """Stop what a part of a visitor's page asked for, unless it does something that is wanted still."""
        for ticket in list(self._tickets):
            same = ticket.visitor.session == visitor.session and ticket.part == part
            if same and ticket.doing not in but:
                ticket.stop()

    def place(self, ticket: Ticket) -> int:
        """Return how many are before a ticket."""
        with self._lock:
            return self._tickets.index(ticket)

    def to_the_end(self, ticket: Ticket) -> None:
        """Put a ticket behind all others, if it is still there."""
        with self._lock:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
                self._tickets.append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket out, if it is still there."""
        with self._lock:
            if ticket in self._tickets:
                self._tickets.remove(ticket)


LINE = Line()
"""The line of this process."""


def in_line(place: int) -> str:
    """Say how many are before somebody who waits: 1 is the next."""
    return f"{place}{'th' if 10 < place % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')} in line"
