"""What a page says where something fails: an error of ours in its own words, a bug in one line. Nothing heavy is here.

``hfposemb.bug_reports`` keeps the details of a bug in a file. Promised: strangers are told a reference and no path.
"""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict

from hfposemb.bug_reports import Fault, keep
from hfposemb.errors import HfposembError

MOST_KNOWN = 64
"""Bugs of which this process remembers where it wrote them, so that a page that asks again writes nothing."""

_known: OrderedDict[str, Fault] = OrderedDict()
_shown = False


class BugError(HfposembError):
    """A bug that was met elsewhere, in a child process or another thread; ``details`` has its traceback."""

    def __init__(self, details: str) -> None:
        super().__init__("something went wrong while computing this")
        self.details = details


def show_tracebacks(shown: bool) -> None:
    """Print the traceback of every bug on stderr, or only where its details are."""
    global _shown
    _shown = shown


def is_bug(error: BaseException) -> bool:
    """Tell whether an error is none that this package raises on purpose."""
    return isinstance(error, BugError) or not isinstance(error, (HfposembError, MemoryError))


def said_of(error: Exception, *, public: bool) -> str:
    """Return what a page says of an error; the details of a bug are written to a file first."""
    if isinstance(error, MemoryError):
        return "this does not fit into the memory of this machine; ask for less"
    if not is_bug(error):
        return str(error)
    fault = _kept(error.details if isinstance(error, BugError) else "".join(traceback.format_exception(error)))
    if public or fault.path is None:
        return f"Something went wrong while computing this. If you report it, give the reference {fault.code}."
    return f"Something went wrong while computing this. Details were written to {fault.path}"


def _kept(details: str) -> Fault:
    fault = _known.get(details)
    if fault is None:
        fault = _known[details] = keep(details, command=sys.argv)
        where = f"its details are in {fault.path}" if fault.path else "its details could not be written to a file"
        print(f"hfposemb: a bug in the app, reference {fault.code}; {where}", file=sys.stderr)
        if _shown:
            print(details, file=sys.stderr)
        while len(_known) > MOST_KNOWN:
            _known.popitem(last=False)
    return fault
