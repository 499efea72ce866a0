"""Search by regular expressions in a child process that keeps what it searches.

Matching some patterns never finishes, and the loop that matches them runs in C, where no thread can stop it. So it runs
in a process that is killed after its deadline, and that the system ends by an alarm should this process not be there to
do so. Starting one and sending it the labels of a large vocabulary takes longer than to search them, so it stays for
the next search. One search runs at a time.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty
from typing import Any

from ..limits import SEARCH_MEMORY
from .children import KILLED, LATE, NO_MEMORY, Conversation, JobError, bound, receive, send, without_secrets

BUSY = "too many searches are running; try again in a minute"

MOST_SEARCHES = 4
"""Number of searches that may wait for the running one. Each occupies a thread of the server."""

MOST_KEPT = 4
"""Number of vocabularies that the child keeps."""

IDLE = 600.0
"""Seconds without a search after which the child ends."""


def search(pattern: str, texts: Sequence[str], *, deadline: float) -> list[int]:
    """Return the indices of the texts that a regular expression matches, ignoring case.

    Args:
        pattern: Regular expression.
        texts: What is searched; searched again, the same object is not sent again and must not have changed.
        deadline: Seconds after which the child is killed.

    Raises:
        JobError: The pattern is invalid or took too long, too many searches are waiting, or memory is short.
    """
    return _searcher.search(pattern, texts, deadline=deadline)


class Searcher:
    """The child and those who wait for it."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._waiting = threading.BoundedSemaphore(1 + MOST_SEARCHES)
        self._child: _Child | None = None

    def search(self, pattern: str, texts: Sequence[str], *, deadline: float) -> list[int]:
        """Return the indices of the texts that match; see the function."""
        if not self._waiting.acquire(blocking=False):
            raise JobError(BUSY)
        try:
            # The running search ends within its deadline, and so may the one queued before this one.
            if not self._running.acquire(timeout=2 * deadline):
                raise JobError(BUSY)
            try:
                return self._found(pattern, texts, deadline)
            finally:
                self._running.release()
        finally:
            self._waiting.release()

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _found(self, pattern: str, texts: Sequence[str], deadline: float) -> list[int]:
        if self._child is not None and self._child.ended:
            self.close()
        child = self._child = self._child or _Child()
        kind, value = child.ask(pattern, texts, deadline)
        if kind == "found":
            return memoryview(value).cast("q").tolist()
        if kind == "failed":
            raise JobError(value)
        self.close()
        raise JobError(LATE if kind == "late" else KILLED)


class _Child:
    """A running child, and which texts it has."""

    def __init__(self) -> None:
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import _child; _child()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=without_secrets(os.environ),
        )
        self._conversation = Conversation(self._process)
        self._kept: OrderedDict[int, Sequence[str]] = OrderedDict()  # by id, which stays theirs while they are here

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def ask(self, pattern: str, texts: Sequence[str], deadline: float) -> tuple[str, Any]:
        """Return its answer, "found" or "failed" with a value; "late" or "gone" without one if it must be closed."""
        key, new = id(texts), id(texts) not in self._kept
        dropped: list[int] = []
        self._kept[key] = texts
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            dropped.append(self._kept.popitem(last=False)[0])
        request = key, tuple(texts) if new else None, dropped, pattern, deadline
        self._conversation.ask(pickle.dumps(request))
        try:
            return self._conversation.answer(deadline)
        except Empty:
            return "late", None

    def close(self) -> None:
        """Kill it. Returns when it is gone."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


_searcher = Searcher()


# --- functions that run in the child ----------------------------------------------------------------------------------


def _child() -> None:
    """Entry point of the child: answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else must mix with the answers
    bound(SEARCH_MEMORY)
    kept: dict[int, tuple[str, ...]] = {}
    with suppress(EOFError):
        while True:
            _end_after(IDLE)
            key, texts, dropped, pattern, deadline = pickle.loads(receive(sys.stdin.buffer))
            _end_after(deadline + 1)
            for old in dropped:
                del kept[old]
            if texts is not None:
                kept[key] = texts
            send(answers, pickle.dumps(_answer(pattern, kept[key])))


def _answer(pattern: str, texts: Sequence[str]) -> tuple[str, Any]:
    try:
        found = re.compile(pattern, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        return "failed", f"not a valid regular expression: {error}"
    except MemoryError:
        return "failed", NO_MEMORY
    try:
        return "found", array("q", [place for place, text in enumerate(texts) if found(text)]).tobytes()
    except MemoryError:
        return "failed", NO_MEMORY


def _end_after(seconds: float) -> None:
    """Let the system end this process after some time, even in the middle of a match."""
    with suppress(AttributeError):  # Windows has no such alarm
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
