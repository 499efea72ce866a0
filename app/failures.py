"""Error messages of the page: errors of hfposemb verbatim, bugs in one line. This module imports nothing heavy.

``hfposemb.bug_reports`` stores the details of a bug in a file. Guarantee: in public mode only a reference is shown,
never a path.
"""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict

from hfposemb.bug_reports import Fault, code_of, keep
from hfposemb.errors import HfposembError
from hfposemb.text import one_line

MOST_KNOWN = 64
"""Number of bugs whose reports this process remembers, so that repeating a request writes no further one."""

_known: OrderedDict[str, tuple[Fault, int]] = OrderedDict()
"""By code: the report of a bug, and how often it happened."""

_shown = False


class BugError(HfposembError):
    """A bug that occurred in a child process or another thread; ``details`` has its traceback."""

    def __init__(self, details: str) -> None:
        super().__init__("something went wrong while computing this")
        self.details = details


def show_tracebacks(shown: bool) -> None:
    """Set whether tracebacks of bugs are printed on stderr, instead of only the location of the details."""
    global _shown
    _shown = shown


def is_bug(error: BaseException) -> bool:
    """Return whether an error is unexpected, i.e. not one that this package raises on purpose."""
    return isinstance(error, BugError) or not isinstance(error, (HfposembError, MemoryError))


def said_of(error: Exception, *, public: bool) -> str:
    """Return the message shown for an error; details of a bug are first written to a file."""
    if isinstance(error, MemoryError):
        return "not enough memory on this machine; try a smaller input"
    if not is_bug(error):
        return str(error)
    details = error.details if isinstance(error, BugError) else "".join(traceback.format_exception(error))
    fault = _kept(details)
    if public or fault.path is None:
        return f"Something went wrong while computing this. If you report it, include the reference {fault.code}."
    return f"Something went wrong while computing this: {_last_line(details)}. Details were written to {fault.path}"


def _last_line(details: str) -> str:
    """Return the line of a traceback that names the exception."""
    return one_line(details.strip().rpartition("\n")[2], width=200).rstrip(".")


def _kept(details: str) -> Fault:
    code = code_of(details)
    fault, times = _known.get(code, (None, 0))
    times += 1
    if fault is None or times & (times - 1) == 0:  # once, and again when it has happened 2, 4, 8 … times
        fault = keep(details, command=sys.argv, times=times)
        where = f"details in {fault.path}" if fault.path else "the details could not be written to a file"
        again = f", {times:,} times" if times > 1 else ""
        print(f"hfposemb: a bug in the app, reference {fault.code}{again}; {where}", file=sys.stderr)
        if _shown:
            print(details, file=sys.stderr)
    _known[code] = fault, times
    while len(_known) > MOST_KNOWN:
        _known.popitem(last=False)
    return fault
