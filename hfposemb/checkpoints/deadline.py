"""One deadline for everything that a read fetches: what is left of it bounds every operation on a socket."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

SLOWEST = 100_000
"""Bytes a second of a large file, below which a read is given up."""

_LONGEST = 10.0
"""Seconds that one operation on a socket may take; whatever fails after that is tried again."""


class Deadline:
    """End a read after ``seconds``; large files, once they are announced, extend it as their bytes arrive.

    ``allow(nbytes)`` announces so many bytes. From then on every byte received puts the end off by 1 / ``SLOWEST`` of a
    second, never beyond ``seconds`` from now: a connection of at least ``SLOWEST`` bytes a second is never cut off,
    a slower one is after ``seconds`` of arrears, and the whole read lasts ``seconds + nbytes / SLOWEST`` at most,
    whatever arrives.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._extension = 0.0

    @property
    def left(self) -> float:
        """Return the seconds left, below zero once it is over."""
        return self._end - time.monotonic()

    def allow(self, nbytes: int) -> None:
        """Let the next ``nbytes`` extend the read as they arrive."""
        self._extension = max(self._extension, nbytes / SLOWEST)

    def received(self, nbytes: int) -> None:
        """Take note of bytes that arrived."""
        extension = min(nbytes / SLOWEST, self._extension)
        self._extension -= extension
        self._end = min(self._end + extension, time.monotonic() + self.seconds)

    def paused(self, seconds: float) -> None:
        """Leave out time in which nothing could be asked."""
        self._end += seconds

    def timeouts(self) -> Mapping[str, object]:
        """Return the timeouts of a request: httpx's ``timeout`` extension, bounded by this deadline throughout."""
        left = _Left(self)
        return {"connect": left, "read": left, "write": left, "pool": max(0.0, min(_LONGEST, self.left))}


class _Left:
    """A timeout in seconds that has another value every time it is set: what is left of a deadline.

    A timeout of httpx bounds one operation on a socket, so a server that sends a byte now and then is never timed out.
    httpcore hands the value to ``socket.settimeout`` before each operation, which converts it by ``__index__``.
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
    """Give everything that is fetched inside this block one deadline: that of the block around it, where there is one.

    The requests of one ``extract``, or of one table, are one read, however many they are.
    """
    deadline = _current.get() or Deadline(seconds)
    before = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(before)


def current(seconds: float) -> Deadline:
    """Return the deadline of the read that is going on, a new one where there is none."""
    return _current.get() or Deadline(seconds)
