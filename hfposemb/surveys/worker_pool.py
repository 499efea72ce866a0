"""Workers for many sources: processes of this machine, or an existing Dask cluster."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import resource_tracker
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from ..errors import HfposembError, InputError, MissingExtraError

if TYPE_CHECKING:
    from ..progress import Gate

Item = TypeVar("Item")
Result = TypeVar("Result")

Kind: TypeAlias = Literal["local", "dask"]
KINDS: tuple[Kind, ...] = ("local", "dask")

REQUESTS = 8
"""Default number of concurrent requests to the Hub, over all workers."""

READ_AHEAD = 2
"""Number of items per permit that a process works on, so that requests are in flight while other items compute."""

_SECONDS = 5  # timeout for the scheduler to answer, and for a worker to appear


@dataclass(frozen=True)
class Permits:
    """Limit on concurrent requests that is sent to the workers: of one process, or ``shared`` by those of a cluster."""

    permits: int
    shared: bool = False

    def open(self) -> Gate:
        """Return the gate of the process it arrives in, which its threads share."""
        return _gate(self)


@cache
def _gate(given: Permits) -> Gate:
    if not given.shared:
        return threading.BoundedSemaphore(given.permits)
    from distributed import Semaphore

    # Named by the number of permits, so that concurrent surveys share them.
    name = f"hfposemb, {given.permits} requests to the Hub"
    found: Gate = Semaphore(given.permits, name)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True)
class Lost:
    """Result of an item whose process ended on every attempt."""

    item: Any
    reason: str


@dataclass(frozen=True)
class Pool:
    """A running engine that makes ``workers`` calls at a time, or ``readers`` if they mostly wait for the Hub."""

    workers: int
    readers: int
    _run: Callable[..., Generator[Any, None, None]] = field(repr=False)

    def each(
        self, function: Callable[[Item, Permits], Result], items: Sequence[Item], *, reading: bool = False
    ) -> Generator[Result | Lost, None, None]:
        """Call a function on each item and yield the results in order of completion.

        Closing the generator cancels unfinished calls.

        Args:
            function: Called with an item and the permits of its process.
            items: The items.
            reading: Whether the function waits for the Hub most of its time and computes in its turn only
                (``computing_turn``). Each local process then calls it for several items at a time.
        """
        return self._run(function, items, reading)


_ENDED = "the worker process ended unexpectedly, most likely out of memory"


@dataclass(frozen=True)
class Engine:
    """Where many sources are processed.

    Attributes:
        kind: ``"local"`` for processes of this machine, each with one compute thread; ``"dask"`` for an existing
            cluster.
        scheduler: Address of the Dask scheduler, such as tcp://host:8786.
        workers: Number of local processes; one per core by default.
        requests: Number of concurrent requests to the Hub, over all workers.

    Raises:
        InputError: If the settings contradict each other.
    """

    kind: Kind = "local"
    scheduler: str | None = None
    workers: int | None = None
    requests: int = REQUESTS

    def __post_init__(self) -> None:
        """Reject settings that contradict each other."""
        if self.kind not in KINDS:
            raise InputError(f"engine must be {' or '.join(KINDS)}; got {self.kind!r:.40}")
        if (self.kind == "dask") != (self.scheduler is not None):
            raise InputError(
                "the engine dask needs a scheduler such as tcp://host:8786, and a scheduler the engine dask"
            )
        if self.kind == "dask" and self.workers is not None:
            raise InputError("the number of workers cannot be set for a Dask cluster; leave it out")
        if self.requests < 1 or (self.workers is not None and self.workers < 1):
            raise InputError(f"requests and workers must be at least 1; got {self.requests} and {self.workers}")

    @contextmanager
    def running(self) -> Iterator[Pool]:
        """Connect and yield the pool. Raises ``HfposembError`` if the cluster is not available."""
        import joblib

        if self.scheduler is None:
            # Every worker needs at least one permit.
            workers = min(self.workers or joblib.cpu_count(), self.requests)
            readers = 1 if workers == 1 else workers * (self.requests // workers)
            yield Pool(workers, readers, partial(_here, workers, self.requests))
        else:
            with _client(self.scheduler) as client:
                workers = max(1, sum(client.ncores().values()))
                yield Pool(workers, workers, partial(_there, client, self.requests))


HERE = Engine()
"""Processes of this machine, one per core."""


def _here(
    most: int,
    requests: int,
    function: Callable[[Item, Permits], Result],
    items: Sequence[Item],
    reading: bool = False,
) -> Generator[Result | Lost, None, None]:
    """Run in processes of this machine, or in this process if there is only one worker."""
    workers = max(1, min(most, len(items)))
    share = Permits(requests // workers)
    if workers == 1:
        for item in items:
            yield function(item, share)
        return
    yield from work_in_processes(
        partial(_given, function, share),
        items,
        workers=workers,
        at_once=READ_AHEAD * share.permits if reading else 1,
        lost=partial(Lost, reason=_ENDED),
    )


def _given(function: Callable[[Item, Permits], Result], permits: Permits, item: Item) -> Result:
    return function(item, permits)


def _there(
    client: Any,
    requests: int,
    function: Callable[[Item, Permits], Result],
    items: Sequence[Item],
    reading: bool = False,
) -> Generator[Result | Lost, None, None]:
    """Run on a Dask cluster, which reassigns the work of a lost worker and gives up after several attempts.

    How many items a worker takes at a time is the cluster's choice, whether they are ``reading`` or not.
    """
    from distributed import KilledWorker, as_completed

    try:
        client.wait_for_workers(1, timeout=_SECONDS)
    except TimeoutError as error:
        raise HfposembError(
            f"the Dask scheduler at {client.scheduler.address} has no workers; start one with 'dask worker'"
        ) from error
    permits = Permits(requests, shared=True)
    asked = {client.submit(function, item, permits, pure=False): item for item in items}
    try:
        for done in as_completed(asked, loop=client.loop):  # type: ignore[no-untyped-call]
            item = asked.pop(done)
            try:
                yield done.result()
            except (KilledWorker, CancelledError):  # Dask gave up on it, or on its scheduler
                yield Lost(item, _ENDED)
    finally:
        client.cancel(list(asked))  # what is left if whoever reads the results stops


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, and check that its workers can import this package."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingExtraError("distributed", extra="cluster", purpose="the engine dask") from error
    try:
        get_address_host_port(scheduler)
    except ValueError as error:
        # Check first: a client with a bad address stays half open and blocks the exit of this process.
        raise InputError(
            f"{scheduler!r:.100} is not the address of a Dask scheduler, such as tcp://host:8786"
        ) from error
    try:
        client = Client(scheduler, timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise HfposembError(
            f"no Dask scheduler responds at {scheduler!r:.100}; check the address, or start one with 'dask scheduler'"
        ) from error
    with client:
        try:
            client.run(_known)
        except (ImportError, AttributeError) as error:
            raise HfposembError(
                f"the workers of {scheduler} cannot import hfposemb: {error}; install it on the workers"
            ) from error
        yield client


def _known() -> None:
    """Do nothing; being importable on a worker shows that the package is installed there."""


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
            with _quiet_manager():
                self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None


@contextmanager
def _quiet_manager() -> Iterator[None]:
    """Print no traceback of the thread of an executor that is ended, which may look for a step that it has given up."""
    before = threading.excepthook

    def heard(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is not KeyError or failed.thread is None or failed.thread.name != "ExecutorManagerThread":
            before(failed)

    threading.excepthook = heard
    try:
        yield
    finally:
        threading.excepthook = before


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
