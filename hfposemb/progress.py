"""A bar for work that takes longer than two seconds, in terminals and notebooks; scripts stay quiet.

``HFPOSEMB_PROGRESS=0`` turns every bar off, and ``HFPOSEMB_PROGRESS=1`` draws them wherever stderr goes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from typing import Any, Literal, TextIO, TypeAlias

AFTER = 2.0
"""Seconds before a bar appears."""

EVERY = 0.25
"""Seconds between two drawings of it."""

SWITCH = "HFPOSEMB_PROGRESS"

Report: TypeAlias = Callable[[float, str], None]
"""Called with the share done, 0 to 1, and what is being done."""

_active: ContextVar[bool] = ContextVar("active", default=False)


def wanted() -> bool:
    """Return whether bars are drawn: in a notebook, and where stderr is a terminal, unless ``SWITCH`` decides."""
    if given := os.environ.get(SWITCH):
        return given != "0"
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


@contextmanager
def shown(doing: str, progress: Report | Literal[False] | None = None, *, printing: bool = False) -> Iterator[Report]:
    """Yield what long work calls to say how far it is, and draw a bar meanwhile.

    A ``progress`` of the caller's own is yielded as it is, and ``False`` draws nothing. Nothing is drawn inside another
    bar either, and nothing where bars are not ``wanted``. ``doing`` is shown until the work reports a stage; work that
    reports none has the seconds counted. With ``printing`` the bar goes as soon as something is printed.
    """
    if progress:
        yield progress
    elif progress is False or _active.get() or not wanted():
        yield _ignore
    else:
        token, bar = _active.set(True), _Bar(doing)
        try:
            with redirect_stdout(_Stdout(sys.stdout, bar)) if printing else nullcontext():
                yield bar.report
        finally:
            bar.close()
            _active.reset(token)


def _ignore(share: float, doing: str) -> None:
    """Show nothing."""


class _Stdout:
    """Stand for standard output, and end a bar before the first text that is printed."""

    def __init__(self, stdout: TextIO, bar: _Bar) -> None:
        self._stdout, self._bar = stdout, bar

    def write(self, text: str) -> int:
        """Write as the output itself does."""
        self._bar.close()
        return self._stdout.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


class _Bar:
    """A bar that a thread of its own draws, so that the time goes on where the work says nothing."""

    def __init__(self, doing: str) -> None:
        self._doing, self._share, self._first = doing, 0.0, -1.0
        self._started = time.time()
        self._done, self._drawing = threading.Event(), threading.Lock()
        self._bar: Any = None
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def report(self, share: float, doing: str) -> None:
        """Take the share done and the stage; the first share was done before, and nothing is drawn of what is done."""
        self._first = share if self._first < 0 else self._first
        self._share, self._doing = share, doing
        if share >= 1:
            with self._drawing:
                self._clear()

    def close(self) -> None:
        """Stop drawing, and clear the line."""
        if not self._done.is_set():
            self._done.set()
            self._thread.join()
            self._clear()

    def _clear(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _run(self) -> None:
        wait = AFTER
        while not self._done.wait(wait):
            wait = EVERY
            with self._drawing:
                if self._share < 1:
                    self._draw()

    def _draw(self) -> None:
        if self._bar is None:
            first = 100 * max(self._first, 0)
            plain: dict[str, Any] = {"bar_format": "{desc}", "dynamic_ncols": True, "leave": False}
            self._bar = _tqdm()(total=100, initial=first, file=sys.stderr, **plain)
            self._bar.start_t = self._started
        known = "{desc} {bar} {percentage:.0f} % · {elapsed} · {remaining} left"
        self._bar.bar_format = known if self._share > 0 else "{desc} · {elapsed}"
        self._bar.set_description_str(self._doing, refresh=False)
        self._bar.n = 100 * self._share
        self._bar.refresh()


def _tqdm() -> Any:
    """Return tqdm as the environment draws it; a notebook without ipywidgets has bars of text."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm
