"""Processes of this machine that work on several items each: some wait for the Hub while one computes."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from queue import SimpleQueue
from typing import Any, TypeAlias

computing_turn: ContextVar[AbstractContextManager[object]] = ContextVar("turn", default=nullcontext())  # noqa: B039
"""Held by an item while it computes, so that a process computes one item at a time, as the others are read."""

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_ARENAS = "MALLOC_ARENA_MAX"  # of glibc, which would keep memory apart for each of the threads that mostly wait
_IDLE_SECONDS = 300

Work: TypeAlias = Callable[[Any], Any]


def work_in_processes(
    work: Work, items: Sequence[Any], *, workers: int, at_once: int, lost: Callable[[Any], Any]
) -> Generator[Any, None, None]:
    """Call a function on each item in processes, and yield the results in order of completion.

    Closing the generator ends the processes if calls are unfinished; otherwise they are kept for the next time.

    Args:
        work: The function, which is sent to the processes.
        items: Its arguments.
        workers: Number of processes, each with one compute thread.
        at_once: Number of items that a process works on at the same time, in threads.
        lost: Returns the result of an item whose process ended on every attempt.
    """
    left = deque(enumerate(items))
    at_once = max(1, min(at_once, -(-len(items) // workers)))
    crews = _taken(workers)
    run, under_way = uuid.uuid4().hex, dict[Future[Any], _Process]()

    def advance(process: _Process) -> None:
        while left and len(process.given) < at_once:
            number, item = left.popleft()
            process.given[number] = item
        if process.given:
            under_way[process.step(run, work)] = process

    finished = False
    try:
        for process in crews:
            advance(process)
        while under_way:
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                process = under_way.pop(future)
                if _is_terminated(future):
                    # Run each of its items alone to find the one that ended the process.
                    alone = process.restart()
                    for item in alone.values():
                        yield process.attempt(work, item, lost)
                    advance(process)
                    continue
                number, result = future.result()
                del process.given[number]
                advance(process)  # before the caller takes its time over the result
                yield result
        finished = True
    finally:
        _put_back(crews, end=not finished)


def _is_terminated(future: Future[Any]) -> bool:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    return isinstance(future.exception(), TerminatedWorkerError)


# --- in the calling process -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Process:
    """A worker process, started with the first step, and the items it was given and has not finished."""

    settings: Mapping[str, str]
    given: dict[int, Any] = field(default_factory=dict)
    _executor: Any = None

    def step(self, run: str, work: Work) -> Future[Any]:
        """Have the process start the items that it does not know yet, and wait for the next one to finish."""
        if self._executor is None:
            self._executor = _executor(self.settings)
        with _keyboard_elsewhere():
            found: Future[Any] = self._executor.submit(_step, run, work, dict(self.given))
        return found

    def attempt(self, work: Work, item: Any, lost: Callable[[Any], Any]) -> Any:
        """Return the result of an item that the process works on alone."""
        self.given[0] = item
        future = self.step(uuid.uuid4().hex, work)
        if _is_terminated(future):
            self.restart()
            return lost(item)
        self.given.clear()
        return future.result()[1]

    def restart(self) -> dict[int, Any]:
        """Forget the process, which has ended; return the items that it had."""
        self.end()
        had, self.given = self.given, {}
        return had

    def end(self) -> None:
        """End the process at once."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None


_idle: list[_Process] = []
_idle_lock = threading.Lock()


def _taken(count: int) -> list[_Process]:
    """Return so many processes: idle ones first, if they were started with the settings of now."""
    settings = {**_settings(), "": str(os.getpid())}
    with _idle_lock:
        idle, _idle[:] = list(_idle), []
    fit = [process for process in idle if process.settings == settings]
    for process in (*fit[count:], *(process for process in idle if process.settings != settings)):
        if process.settings[""] == settings[""]:  # not those of a parent that was forked
            process.end()
    return fit[:count] + [_Process(settings) for _ in range(count - len(fit))]


def _put_back(crews: Sequence[_Process], *, end: bool) -> None:
    if end:
        for process in crews:
            process.end()
        return
    with _idle_lock:
        _idle.extend(crews)


@atexit.register
def _end_idle() -> None:
    with _idle_lock:
        idle, _idle[:] = list(_idle), []
    for process in idle:
        if process.settings[""] == str(os.getpid()):
            with suppress(Exception):
                process.end()


def _executor(settings: Mapping[str, str]) -> Any:
    """Return an executor of one process. Unlike a pool, it lets the caller choose the process of a call."""
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    return ProcessPoolExecutor(
        max_workers=1,
        timeout=_IDLE_SECONDS,
        initializer=_begin,
        initargs=(os.getpid(), {name: value for name, value in settings.items() if name}),
        env={**dict.fromkeys(_THREADS, "1"), _ARENAS: os.environ.get(_ARENAS, "2")},
    )


def _settings() -> dict[str, str]:
    """Return the environment variables that configure where files are read and kept."""
    return {name: value for name, value in os.environ.items() if name.startswith(("HFPOSEMB_", "HF_"))}


@contextmanager
def _keyboard_elsewhere() -> Iterator[None]:
    """Block Ctrl-C, which the terminal sends to all processes, in those started inside; this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # not on every platform
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in a worker process ----------------------------------------------------------------------------------------------


def _begin(process: int, settings: dict[str, str]) -> None:
    """Prepare a worker: give it the parent's settings, and end it soon after the parent ends.

    Without this, workers would outlive the parent by minutes.
    """
    os.environ.update(settings)

    def watch() -> None:
        while os.getppid() == process:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Crew:
    """The items of one run in this process, each in a thread."""

    def __init__(self) -> None:
        self.begun: set[int] = set()
        self.finished: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self.turn = threading.Lock()

    def start(self, number: int, item: Any, work: Work) -> None:
        """Start an item."""

        def run() -> None:
            computing_turn.set(self.turn)
            try:
                result, error = work(item), None
            except BaseException as raised:  # noqa: BLE001 - raised again where the result is taken
                result, error = None, raised
            self.finished.put((number, result, error))

        self.begun.add(number)
        threading.Thread(target=run, daemon=True).start()


_crews: dict[str, _Crew] = {}


def _step(run: str, work: Work, given: Mapping[int, Any]) -> tuple[int, Any]:
    """Start those of the given items that were not started here yet; return the number and result of one that ends.

    All items under way are given, because the process may be a new one: an old one ends when it has grown too large.
    """
    if run not in _crews:
        _crews.clear()
    crew = _crews.setdefault(run, _Crew())
    for number, item in given.items():
        if number not in crew.begun:
            crew.start(number, item, work)
    number, result, error = crew.finished.get()
    if error is not None:
        raise error
    return number, result
