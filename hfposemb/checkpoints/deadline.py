"""A single deadline for all requests of a read; the time left bounds every socket operation."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

SLOWEST = 100_000
"""Lowest transfer rate of a large file in bytes per second; a slower read is aborted."""

_LONGEST = 10.0
"""Longest timeout of a single socket operation in seconds; failures after it are retried."""


class Deadline:
    """Time limit of a read, extended by the bytes of large files as they arrive.

    ``allow(nbytes)`` announces a transfer. From then on, each byte received extends the deadline by 1 / ``SLOWEST``
    seconds, up to ``seconds`` from now. A connection of at least ``SLOWEST`` bytes per second is therefore never cut
    off, a slower one is once it is ``seconds`` behind, and a read never takes longer than ``seconds + nbytes /
    SLOWEST``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._extension = 0.0

    @property
    def left(self) -> float:
        """Seconds left; negative once the deadline has passed."""
        return self._end - time.monotonic()

    def allow(self, nbytes: int) -> None:
        """Allow the next ``nbytes`` to extend the deadline as they arrive."""
        self._extension = max(self._extension, nbytes / SLOWEST)

    def received(self, nbytes: int) -> None:
        """Extend the deadline for bytes that arrived."""
        extension = min(nbytes / SLOWEST, self._extension)
        self._extension -= extension
        self._end = min(self._end + extension, time.monotonic() + self.seconds)

    def paused(self, seconds: float) -> None:
        """Extend the deadline by time during which no request could be sent."""
        self._end += seconds

    def timeouts(self) -> Mapping[str, object]:
        """Return the timeouts of a request for httpx's ``timeout`` extension, all bounded by this deadline."""
        left = _Left(self)
        return {"connect": left, "read": left, "write": left, "pool": max(0.0, min(_LONGEST, self.left))}


class _Left:
    """Timeout whose value is the time left until a deadline, evaluated each time it is applied.

    A timeout of httpx bounds a single socket operation, so a server that sends a byte now and then never times out.
    httpcore passes the value to ``socket.settimeout`` before each operation, which converts it with ``__index__``.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __index__(self) -> int:
        left = min(_LONGEST, self._deadline.left)
        if left <= 0:
            raise TimeoutError("the deadline of the read is over")
        return math.ceil(left)

    def __repr__(self) -> str:
        return f"{self._deadline.left:.1f} s left"


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def one_read(seconds: float) -> Iterator[Deadline]:
    """Share one deadline between all requests of this block; a nested block uses the deadline of the outer one.

    All requests of one ``extract``, or of one table, form one read.
    """
    deadline = _current.get() or Deadline(seconds)
    before = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(before)


def current(seconds: float) -> Deadline:
    """Return the deadline of the current read, or a new one."""
    return _current.get() or Deadline(seconds)
