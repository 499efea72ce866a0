"""Log messages of the library, all by the logger ``hfposemb``; they are discarded unless a handler is added.

Retries and fallbacks are logged at INFO; cache hits and bytes read at DEBUG. Messages name repositories and files, and
have no addresses, query strings or tokens.

    >>> import logging
    >>> logging.getLogger("hfposemb").handlers
    [<NullHandler (NOTSET)>]
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from .text import one_line

LOG = logging.getLogger("hfposemb")
LOG.addHandler(logging.NullHandler())


class OneLine(logging.Handler):
    """Prints every message as one line without a traceback, and at most ``most`` of them in a minute.

    The next line says how many were left out, so that a log stays short whatever is asked of a server.
    """

    def __init__(self, most: int = 20, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.most, self.clock = most, clock
        self._began, self._count = clock(), 0

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message, unless there were too many."""
        now = self.clock()
        if now - self._began >= 60:
            if self._count > self.most:
                print(f"{self._count - self.most:,} more messages were left out", file=sys.stderr)
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= self.most:
            error = record.exc_info[1] if record.exc_info else None
            said = [record.getMessage(), *([f"{type(error).__name__}: {error}"] if error is not None else [])]
            stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
            print(f"{stamp} {record.levelname} {one_line(': '.join(said), width=300)}", file=sys.stderr)
        if self._count == self.most:
            print(f"{self.most} messages in a minute; more are counted only", file=sys.stderr)


class WithoutTracebacks:
    """A stream to which a traceback is written as one message of the logger ``hfposemb``, which names the error.

    For what a server prints by itself, past all loggers.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._of_thread = threading.local()

    def write(self, text: str) -> int:
        """Write a text, or what it says of an error."""
        for line in text.splitlines(keepends=True):
            if "Traceback (most recent call last):" in line:
                self._of_thread.inside = True
            elif not getattr(self._of_thread, "inside", False):
                if not line.startswith(_BETWEEN):
                    self._stream.write(line)
            elif not line[:1].isspace():
                self._of_thread.inside = False
                LOG.error(line)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_BETWEEN = ("During handling of the above exception, another", "The above exception was the direct cause of")


def keep_short() -> None:
    """Print the messages of all loggers of this process with ``OneLine``; for a process that only serves."""
    sys.stderr = cast("TextIO", WithoutTracebacks(sys.stderr))
    named = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    for logger in (logging.root, *named):
        logger.propagate = True
        for handler in [one for one in logger.handlers if not isinstance(one, logging.NullHandler)]:
            logger.removeHandler(handler)
    logging.root.addHandler(OneLine())
    logging.captureWarnings(True)


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Print all messages to standard error inside the context."""
    handler, level = logging.StreamHandler(sys.stderr), LOG.level
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
