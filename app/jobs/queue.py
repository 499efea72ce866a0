"""FIFO queue: one heavy job per process, one place per part of a page.

Guarantees: at most one child of the queue is alive, whatever visitors do. A page has one place for each of its parts
and at most ``MOST_OF_ONE`` places. Another part's request waits behind the first; a part that asks again gives up its
earlier request. The queue is bounded: requests beyond the limit are refused with a one-line message, and visitors who
want the same count as one. When a visitor leaves or cancels, the child is killed at once. Waiting occupies no thread:
``Ticket.place`` is polled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from hfposemb.errors import CancelledError

from ..limits import MOST_OF_ONE, MOST_WAITING
from .children import Job
from .visitor import BusyError, Visitor

WAIT = 1.0
"""Seconds between polls of a place, which also detect that a page has gone away."""

BUSY = "the queue is full; try again in a minute, or use PCA for a map"
TWICE = "another page of yours is computing something; try again when it is done, or close that page"
ENOUGH = f"you already have {MOST_OF_ONE} computations running or waiting; wait for one to finish, or cancel one"


class UnwantedError(CancelledError):
    """The part of the page that asked for a result wants another one now, or none."""


class Ticket:
    """A place in the queue, and the job that runs when it is first. Use it in ``async with``."""

    def __init__(self, line: Line, visitor: Visitor, part: str, doing: Any, result: Hashable = None) -> None:
        self.visitor, self.part, self.doing = visitor, part, doing
        self.result_key: Hashable = self if result is None else result
        self._line, self._lock = line, threading.Lock()
        self._job: Job | None = None
        self._lost: CancelledError | None = None

    @property
    def stopped(self) -> bool:
        """Whether the place was taken away."""
        return self._lost is not None

    def place(self) -> int:
        """Return the number of tickets ahead. Raises ``CancelledError`` if the place was lost."""
        self._check()
        try:
            return self._line.place(self)
        except ValueError:
            raise (self._lost or CancelledError("")) from None

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def run(self, work: Callable[..., Any], *arguments: Any, **bounds: Any) -> Job:
        """Start the job; call it in a thread. See ``children.Job`` for ``bounds``."""
        with self._lock:
            self._check()
            job = self._job = Job(work, *arguments, reports=True, **bounds)
        return job

    def result(self) -> Any:
        """Return the job's result; call it in a thread. Raises ``CancelledError`` if the job was stopped."""
        assert self._job is not None
        try:
            return self._job.result()
        finally:
            self._check()

    def next(self, doing: Any) -> None:
        """Move on to the next of several jobs, at the end of the queue, so that others wait for one job only."""
        if self._job is not None:
            self._line.to_the_end(self)
        self.doing = doing

    def stop(self, *, wanted: bool = True) -> None:
        """Give up the place and end the job, which is perhaps not ``wanted`` any more.

        Returns at once; the next job starts when the child is gone.
        """
        if self._lost is None:
            self._lost = CancelledError("") if wanted else UnwantedError("")
            threading.Thread(target=self.end, daemon=True).start()

    def end(self) -> None:
        """End the job and leave the queue. Returns when the child is gone."""
        with self._lock:
            if self._lost is None:
                self._lost = CancelledError("")
            if self._job is not None:
                self._job.close()
        self._line.leave(self)

    async def __aenter__(self) -> Ticket:
        return self

    async def __aexit__(self, *_: object) -> None:
        # The page may be gone and this task cancelled: end the child nevertheless.
        await asyncio.shield(asyncio.to_thread(self.end))


class Line:
    """Tickets in order: the first one's job runs, at most ``waiting`` wait behind it."""

    def __init__(self, *, waiting: int = MOST_WAITING) -> None:
        self.waiting = waiting
        self._tickets: list[Ticket] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tickets)

    def join(self, visitor: Visitor, part: str = "", doing: Any = None, *, result: Hashable = None) -> Ticket:
        """Return a ticket for a ``part`` of the visitor's page. Raises ``BusyError`` if there is no room.

        Tickets for the same ``result`` take the room of one: when the first is done, the others have it too.

        A part that asks again keeps its place, or moves to the end if its job was already running.
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
                wanted = {ticket.result_key for ticket in self._tickets}
                if len(wanted) > self.waiting and result not in wanted:
                    raise BusyError(BUSY)
            ticket = Ticket(self, visitor, part, doing, result)
            at = [place for place, old in enumerate(self._tickets) if old in before and place > 0]
            self._tickets.insert(at[0], ticket) if at else self._tickets.append(ticket)
        for old in before:
            old.stop(wanted=False)
        return ticket

    def cancel(self, visitor: Visitor, part: str, *, but: Sequence[Any] | None = None) -> None:
        """Stop the job of a part of a visitor's page, unless what the part wants now, ``but``, includes it."""
        for ticket in list(self._tickets):
            same = ticket.visitor.session == visitor.session and ticket.part == part
            if same and (but is None or ticket.doing not in but):
                ticket.stop(wanted=but is None)

    def place(self, ticket: Ticket) -> int:
        """Return the number of tickets ahead of a ticket."""
        with self._lock:
            return self._tickets.index(ticket)

    def to_the_end(self, ticket: Ticket) -> None:
        """Move a ticket to the end, if it is still in the queue."""
        with self._lock:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
                self._tickets.append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket, if it is still in the queue."""
        with self._lock:
            if ticket in self._tickets:
                self._tickets.remove(ticket)


LINE = Line()
"""The queue of this process."""


def in_line(place: int) -> str:
    """Return the place in the queue as text; 1 is next."""
    return f"{place}{'th' if 10 < place % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')} in line"
