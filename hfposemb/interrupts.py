"""Prompt reaction to Ctrl-C, even while a library runs compiled code that ignores signals."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE = 0.5
"""Seconds that work has to stop by itself after Ctrl-C."""

unfinished: set[Path] = set()
"""Temporary files being written; removed if the process is ended."""


@contextmanager
def stopped_promptly(grace: float = GRACE) -> Iterator[None]:
    """End the process if the block does not stop within ``grace`` seconds of Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = threading.Event()
    heard, wake = socket.socketpair()
    wake.setblocking(False)
    before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while signals := heard.recv(16):
            if signal.SIGINT in signals and not over.wait(grace):
                _end()

    watcher = threading.Thread(target=watch, name="stopping", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        wake.close()
        watcher.join()
        heard.close()


def _end() -> None:
    for path in list(unfinished):
        with suppress(OSError):
            path.unlink()
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    os.write(2, f"{clear}hfposemb: stopped\n".encode())
    os._exit(128 + signal.SIGINT)
