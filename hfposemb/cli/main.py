"""Run a command, and report what stops it."""

from __future__ import annotations

import argparse
import errno
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ..errors import HfposembError, one_line
from ..interrupts import stopped_promptly
from ..progress import Report, shown, wanted
from ..transfers import Progress, watching
from .inspecting import run_cache
from .measuring import run_again, run_survey, run_trajectory
from .options import Command, Terminated
from .parser import parser
from .serving import run_app, run_space

if TYPE_CHECKING:
    pass


BUG = 70
"""The exit code of a bug, EX_SOFTWARE of sysexits.h."""


def main(arguments: Sequence[str] | None = None, *, known: argparse.ArgumentParser | None = None) -> int:
    """Run one command of those that are ``known``, by default ``parser()``; return its exit code.

    0 is success and 1 an error, which is one line on stderr; 70 is a bug, whose traceback is kept in a file.
    """
    given = (known or parser()).parse_args(arguments)
    try:
        with _stopping(given.run), _shown_progress(), _bar(given.run) as given.told:
            given.run(given)
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
        # Whoever read our output has seen enough; nothing is left to flush into.
        sys.stdout = None
        return 0
    except MemoryError:
        return _failed(given, "this does not fit into the memory of this machine; ask for less")
    except OSError as error:
        if error.errno not in _OF_THE_SYSTEM:
            return _reported(given, error, arguments)
        return _failed(given, f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror))
    except Exception as error:  # noqa: BLE001 - the last frame: whatever it is, it is reported
        return _reported(given, error, arguments)
    return 0


_OF_THE_SYSTEM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.EIO}
"""Errors of the system that no program can help: a full disk, a folder that may not be written."""


def _failed(given: argparse.Namespace, said: str, *, code: int = 1) -> int:
    """Say on one line why a command failed, after the traceback with ``--debug``; return the exit code."""
    if given.debug:
        traceback.print_exc()
    print(f"hfposemb: {said}", file=sys.stderr)
    return code


def _reported(given: argparse.Namespace, bug: Exception, arguments: Sequence[str] | None) -> int:
    """Say on one line that there is a bug, and where its details are kept; return the exit code."""
    from ..bug_reports import keep

    fault = keep(bug, command=["hfposemb", *(sys.argv[1:] if arguments is None else arguments)])
    what = one_line(f"{type(bug).__name__}: {bug}").rstrip(": ")[:200]
    where = f"with the file {fault.path}" if fault.path else "with what --debug prints"
    return _failed(given, f"this is a bug in hfposemb ({what}); please report it {where}", code=BUG)


def _bar(run: Command) -> AbstractContextManager[Report]:
    """Return what shows how far a command is; the app and a Space have lines of their own."""
    return shown(run.__name__.strip("_"), False if run in (run_app, run_space, run_cache) else None, printing=True)


def _stopping(run: Command) -> AbstractContextManager[None]:
    """Return what ends a command soon after Ctrl-C; the app and whatever has workers end these first, by themselves."""
    return nullcontext() if run in (run_app, run_survey, run_again, run_trajectory) else stopped_promptly()


@contextmanager
def _shown_progress() -> Iterator[None]:
    """Show how far each read from the Hub is, with its rate and the time left, where stderr is a terminal."""
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
