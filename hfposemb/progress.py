"""Progress of work and of reads from the Hub, their traffic, and a limit on concurrent requests.

Work of more than two seconds has a bar in terminals and notebooks; scripts show none.

``HFPOSEMB_PROGRESS=0`` disables all bars; ``HFPOSEMB_PROGRESS=1`` draws them wherever stderr goes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TextIO, TypeAlias

AFTER = 2.0
"""Seconds before a bar appears."""

EVERY = 0.25
"""Seconds between redraws."""

SWITCH = "HFPOSEMB_PROGRESS"

Report: TypeAlias = Callable[[float, str], None]
"""Called with the fraction done, 0 to 1, and the current stage."""

_active: ContextVar[bool] = ContextVar("active", default=False)


def wanted() -> bool:
    """Return whether to draw bars: in notebooks and on terminals, unless the environment variable ``SWITCH`` is set."""
    if given := os.environ.get(SWITCH):
        return given != "0"
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


@contextmanager
def shown(doing: str, progress: Report | Literal[False] | None = None, *, printing: bool = False) -> Iterator[Report]:
    """Yield a callback for reporting progress, and draw a bar until the block ends.

    No bar is drawn inside another one, or unless ``wanted()`` is true.

    Args:
        doing: Text shown until the first report. Without reports, the bar shows the elapsed time.
        progress: A callback to use instead of drawing, or ``False`` to draw nothing.
        printing: Whether the block prints; the bar is then removed before the first output.
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
    """Do nothing."""


class _Stdout:
    """Wrapper of standard output that closes a bar before the first output."""

    def __init__(self, stdout: TextIO, bar: _Bar) -> None:
        self._stdout, self._bar = stdout, bar

    def write(self, text: str) -> int:
        """Close the bar and write ``text``."""
        self._bar.close()
        return self._stdout.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


class _Bar:
    """Progress bar drawn by its own thread, so that the elapsed time advances between reports."""

    def __init__(self, doing: str) -> None:
        self._doing, self._share, self._first = doing, 0.0, -1.0
        self._started = time.time()
        self._done, self._drawing = threading.Event(), threading.Lock()
        self._bar: Any = None
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def report(self, share: float, doing: str) -> None:
        """Update fraction and stage.

        The first fraction counts as done before the start, so it does not affect the estimated time. The bar disappears
        at 1.
        """
        self._first = share if self._first < 0 else self._first
        self._share, self._doing = share, doing
        if share >= 1:
            with self._drawing:
                self._clear()

    def close(self) -> None:
        """Stop the thread and clear the line."""
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
    """Return the tqdm class for this environment; without ipywidgets, notebooks get text bars."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm


@dataclass(frozen=True)
class Progress:
    """Progress of one read: ``done`` of ``total`` bytes; ``total`` is ``None`` if the server did not state it."""

    what: str
    done: int
    total: int | None


progress_watcher: ContextVar[Callable[[Progress], object] | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(report: Callable[[Progress], object]) -> Iterator[None]:
    """Call ``report`` after every chunk read from the Hub inside this block; it may raise to cancel the read."""
    before = progress_watcher.set(report)
    try:
        yield
    finally:
        progress_watcher.reset(before)


Gate: TypeAlias = AbstractContextManager[object]
"""Context manager that limits concurrency, as a semaphore does; several threads may enter it."""


request_gate: ContextVar[Gate] = ContextVar("gate", default=nullcontext())  # noqa: B039 - stateless


@contextmanager
def limited(gate: Gate) -> Iterator[None]:
    """Hold ``gate`` during every request of this block, from sending it until its response has been read."""
    before = request_gate.set(gate)
    try:
        yield
    finally:
        request_gate.reset(before)


@dataclass
class Traffic:
    """Network traffic of one source: number of requests, redirects included, and bytes of response bodies."""

    requests: int = 0
    received: int = 0

    def trace(self, event: str, info: object) -> None:
        """Count a request once it is sent, as httpcore's ``trace`` extension; failed connections do not count."""
        if event.endswith(".send_request_headers.complete"):
            self.requests += 1
