"""Work for children of tests, in a module that loads at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

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
