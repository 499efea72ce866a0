"""Command runner and error reporting."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from ..errors import HfposembError, one_line
from ..files import unfinished
from ..logs import logged_to_stderr
from ..progress import Progress, Report, shown, wanted, watching
from .inspecting import run_cache
from .measuring import run_survey, run_trajectory
from .options import Command, Terminated
from .parser import parser
from .serving import run_app, run_space

BUG = 70
"""Exit code of a bug: EX_SOFTWARE of sysexits.h."""

GRACE = 0.5
"""Seconds that work has to stop by itself after Ctrl-C."""


def main(arguments: Sequence[str] | None = None, *, known: argparse.ArgumentParser | None = None) -> int:
    """Run a command and return its exit code.

    The code is 0 for success, 1 for an error, reported as one line on stderr, 2 for wrong usage, and 70 for a bug,
    whose traceback is stored in a file; ``check`` and ``vocab`` have codes of their own. After Ctrl-C or SIGTERM it is
    128 plus the signal's number.

    Args:
        arguments: Command-line arguments, by default those of the process.
        known: Parser of the commands, by default ``parser()``.
    """
    try:
        given = (known or parser()).parse_args(arguments)
    except BrokenPipeError:  # of a schema, printed while arguments are parsed
        return _unread()
    return _run(given, arguments)


def _run(given: argparse.Namespace, arguments: Sequence[str] | None) -> int:
    """Run the command that was given and return its exit code."""
    logging = logged_to_stderr() if given.verbose else nullcontext()
    try:
        with logging, _stopping(given.run), _shown_progress(), _bar(given.run) as given.told:
            code = given.run(given)
    except KeyboardInterrupt as stop:
        print(f"hfposemb: stopped{stop}", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except HfposembError as error:
        return _failed(given, str(error))
    except ModuleNotFoundError as error:
        if error.name != "hfposemb.app":
            return _reported(given, error, arguments)
        return _failed(given, "the app is not installed; in a clone: pip install -e '.[app]'")
    except BrokenPipeError:
        return _unread()
    except MemoryError:
        return _failed(given, "out of memory; choose fewer rows, dimensions or sources")
    except OSError as error:
        if error.errno not in _OF_THE_SYSTEM:
            return _reported(given, error, arguments)
        return _failed(given, f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror))
    except Exception as error:  # noqa: BLE001 - the last frame, which reports everything
        return _reported(given, error, arguments)
    return code or 0


_OF_THE_SYSTEM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.EIO}
"""System errors that are not bugs, such as a full disk or a folder without write permission."""


def _unread() -> int:
    """Return the code for output whose reader has closed the pipe; there is nothing left to flush into."""
    sys.stdout = None
    return 0


def _failed(given: argparse.Namespace, said: str, *, code: int = 1) -> int:
    """Print why a command failed on one line, after the traceback with ``--debug``; return the exit code."""
    if given.debug:
        traceback.print_exc()
    print(f"hfposemb: {said}", file=sys.stderr)
    return code


def _reported(given: argparse.Namespace, bug: Exception, arguments: Sequence[str] | None) -> int:
    """Store the details of a bug, print one line about it, and return the exit code."""
    from ..bug_reports import keep

    fault = keep(bug, command=["hfposemb", *(sys.argv[1:] if arguments is None else arguments)])
    what = one_line(f"{type(bug).__name__}: {bug}").rstrip(": ")[:200]
    where = f"with the file {fault.path}" if fault.path else "with the output of --debug"
    return _failed(given, f"this is a bug in hfposemb ({what}); please report it {where}", code=BUG)


def _bar(run: Command) -> AbstractContextManager[Report]:
    """Return a progress bar for a command, except for those that show progress themselves."""
    return shown(run.__name__.strip("_"), False if run in (run_app, run_space, run_cache) else None, printing=True)


def _stopping(run: Command) -> AbstractContextManager[None]:
    """Return a context that ends a command soon after Ctrl-C, except for commands that stop their own workers."""
    return nullcontext() if run in (run_app, run_survey, run_trajectory) else stopped_promptly()


@contextmanager
def stopped_promptly(grace: float = GRACE) -> Iterator[None]:
    """End the process if the block does not stop within ``grace`` seconds of Ctrl-C, even in compiled code."""
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


@contextmanager
def _shown_progress() -> Iterator[None]:
    """Show progress, rate and remaining time of each read from the Hub if stderr is a terminal."""
    bar: Any = None
    shown: tuple[str, int] = ("", 0)

    def report(progress: Progress) -> None:
        nonlocal bar, shown
        from tqdm import tqdm

        if bar is None or progress.what != shown[0] or progress.done < shown[1]:
            if bar is not None:
                bar.close()
            scale: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1000}
            bar = tqdm(desc=progress.what, total=progress.total, leave=False, disable=not wanted(), **scale)
            shown = (progress.what, 0)
        bar.update(progress.done - shown[1])
        shown = (progress.what, progress.done)

    try:
        with watching(report):
            yield
    finally:
        if bar is not None:
            bar.close()
