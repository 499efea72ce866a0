"""Progress and traffic of Hub reads, and a limit on concurrent requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Progress:
    """Progress of one read: ``done`` of ``total`` bytes; ``total`` is ``None`` if the server did not state it."""

    what: str
    done: int
    total: int | None


progress_watcher: ContextVar[Callable[[Progress], object] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(report: Callable[[Progress], object]) -> Iterator[None]:
    """Call ``report`` after every chunk read from the Hub inside this block; it may raise to cancel the read."""
    before = progress_watcher.set(report)
    try:
        yield
    finally:
        progress_watcher.reset(before)


Gate: TypeAlias = AbstractContextManager[object]
"""Context manager that limits concurrency, as a semaphore does; several threads may enter it."""


request_gate: ContextVar[Gate] = ContextVar("gate", default=nullcontext())  # noqa: B039 - stateless


@contextmanager
def limited(gate: Gate) -> Iterator[None]:
    """Hold ``gate`` during every request of this block, from sending it until its response has been read."""
    before = request_gate.set(gate)
    try:
        yield
    finally:
        request_gate.reset(before)


@dataclass
class Traffic:
    """Network traffic of one source: number of requests, redirects included, and bytes of response bodies."""

    requests: int = 0
    received: int = 0

    def trace(self, event: str, info: object) -> None:
        """Count a request once it is sent, as httpcore's ``trace`` extension; failed connections do not count."""
        if event.endswith(".send_request_headers.complete"):
            self.requests += 1
