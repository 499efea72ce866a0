"""Wait for processes and files, and find a port for a server."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

import psutil


def gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for something to become true, and tell whether it did."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def unused_port(host: str = "127.0.0.1") -> int:
    """Return a port of an address on which nothing listens."""
    with socket.socket() as free:
        free.bind((host, 0))
        return int(free.getsockname()[1])


def workers() -> list[psutil.Process]:
    """Return the processes that compute for the app and have not ended."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # which includes those that have ended and are not yet collected
            if any("_child()" in part for part in child.cmdline()):
                found.append(child)
    return found
