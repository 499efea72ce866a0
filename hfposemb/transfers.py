"""Progress and traffic of reads from the Hub, and a limit on concurrent requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Progress:
    """Say how far one read is: ``done`` bytes of ``total``, which is unknown (``None``) where no server said it."""

    what: str
    done: int
    total: int | None


progress_watcher: ContextVar[Callable[[Progress], object] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(report: Callable[[Progress], object]) -> Iterator[None]:
    """Call ``report`` for every piece that is read from the Hub inside this block; it may raise to stop the read."""
    before = progress_watcher.set(report)
    try:
        yield
    finally:
        progress_watcher.reset(before)


Gate: TypeAlias = AbstractContextManager[object]
"""Lets as many in at a time as it has permits, as a semaphore does; may be entered by several threads."""


request_gate: ContextVar[Gate] = ContextVar("gate", default=nullcontext())  # noqa: B039 - nothing in it ever changes


@contextmanager
def limited(gate: Gate) -> Iterator[None]:
    """Let every request of this block, from its start until its answer was read, pass ``gate``."""
    before = request_gate.set(gate)
    try:
        yield
    finally:
        request_gate.reset(before)


@dataclass
class Traffic:
    """Count what went over the wire for one source: requests, redirects among them, and bytes of bodies."""

    requests: int = 0
    received: int = 0

    def trace(self, event: str, info: object) -> None:
        """Count a request once it is sent, as httpcore's ``trace`` extension tells: none that found no connection."""
        if event.endswith(".send_request_headers.complete"):
            self.requests += 1
