"""Work for children of tests, in a module that loads at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

Report = Callable[[float, str], None]


def slow(report: Report) -> int:
    """Report for a while."""
    for step in range(1, 11):
        time.sleep(0.15)
        report(step / 10, f"layout, epoch {step} of 10")
    return 7


def asleep(report: Report) -> None:
    """Do nothing for long."""
    report(0.0, "asleep")
    time.sleep(600)


def printing(_report: Report) -> None:
    """Print as libraries do, then run into a bug."""
    print("a library says this")
    raise KeyError("planted")


def printing_last() -> None:
    """Print as libraries do, then end without what a process does at its end."""
    print("a library says this")
    os._exit(9)


def figures(_report: Report, *, public: bool) -> int:
    """Take a moment, as a comparison does."""
    time.sleep(0.5)
    return 7


def written(found: int | None, _report: Report, *, public: bool) -> str:
    """Write a report of what was found."""
    return f"a report of {found}"


def failing(_report: Report, *, public: bool) -> None:
    """Run into a bug, where a page's work does."""
    raise KeyError(f"planted, public {public}")


def short_of_memory(_report: Report) -> None:
    """Fail as a library does that was loaded without the memory for it."""
    raise ImportError("libx.so: failed to map segment: Cannot allocate memory")


def crash() -> None:
    """End as a library's crash ends a process."""
    os.kill(os.getpid(), signal.SIGSEGV)


def killed() -> None:
    """End as the system ends a process for lack of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def aborted() -> None:
    """End as the allocator of C++ ends a process that may take no more memory."""
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.kill(os.getpid(), signal.SIGABRT)


def not_sendable() -> object:
    """Return what no pipe can carry."""
    return lambda: None


def end_at(item: str, _: object) -> str:
    """Return the item, or end this process as the system ends one that takes too much memory."""
    if item == "end":
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def own_process(_item: int, _: object) -> int:
    """Return the process this runs in."""
    return os.getpid()


def hears_the_keyboard(_item: str, _: object) -> bool:
    """Tell whether Ctrl-C of the terminal reaches this process."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def drafted(report: Any) -> int:
    """Send two unfinished results before the finished one."""
    for number in (1, 2):
        report.draft(number)
        report(number / 3, "layout")
        time.sleep(0.5)
    return 3
