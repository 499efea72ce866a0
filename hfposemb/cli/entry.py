"""Entry point of the command ``hfposemb``: handles Ctrl-C while everything else is still being imported.

This module imports next to nothing, because Ctrl-C before its handler is installed ends in a Python traceback.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_STOPPED = 128 + signal.SIGINT


def main() -> int:
    """Import and run the command line; return its exit code, 130 after Ctrl-C at any moment."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return _run()  # ignored, as in a shell's background, or already handled
    signal.signal(signal.SIGINT, _leave)
    try:
        return _run(signal.default_int_handler)
    except KeyboardInterrupt:
        print("hfposemb: stopped", file=sys.stderr)
        return _STOPPED
    finally:
        # Also covers the interpreter's shutdown, which prints a traceback for every interrupted step.
        signal.signal(signal.SIGINT, _leave)


def _run(handler: signal._HANDLER | None = None) -> int:
    """Run the command line, with ``handler`` for Ctrl-C once it is imported."""
    from .main import main as run

    if handler is not None:
        signal.signal(signal.SIGINT, handler)
    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process at once. An exception could be swallowed by the import machinery."""
    os.write(2, b"hfposemb: stopped\n")
    os._exit(_STOPPED)
