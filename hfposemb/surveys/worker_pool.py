"""Workers for many sources: processes of this machine, or an existing Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import resource_tracker
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
                (``computing_turn``). There is then a local process for each permit.
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
            readers = 1 if workers == 1 else self.requests
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
    """Run in processes of this machine, or in this process if there is only one worker.

    Processes that are ``reading`` are as many as permits, so that requests are in flight while other items compute.
    """
    workers = max(1, min(most, len(items)))
    processes = max(1, min(requests, len(items))) if reading and workers > 1 else workers
    share = Permits(requests // processes)
    work = partial(_given, function, share)
    yield from map(work, items) if processes == 1 else _in_processes(work, items, processes, workers)


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


_turn: AbstractContextManager[object] = nullcontext()


def computing_turn() -> AbstractContextManager[object]:
    """Return what an item holds while it computes, so that one is computed for each core while others are read."""
    return _turn


_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def _in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int, turns: int
) -> Generator[Result | Lost, None, None]:
    """Call a function on each item in processes, of which ``turns`` compute at a time; yield results as they are made.

    Closing the generator ends the processes.
    """
    left, under_way = deque(items), dict[Future[Result], Item]()
    executor = _executor(processes, turns)
    try:
        while left or under_way:
            while left and len(under_way) < processes:
                item = left.popleft()
                under_way[_submit(executor, work, item)] = item
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            if not any(map(_is_terminated, ended)):
                for future in ended:
                    del under_way[future]
                    yield future.result()
                continue
            # A process has ended, and all calls with it: run each item alone to find the one that ended it.
            wait(under_way)
            for future, item in under_way.items():
                if _is_terminated(future):
                    _end(executor)
                    executor = _executor(1, 1)
                    future = _submit(executor, work, item)
                    wait([future])
                yield Lost(item, _ENDED) if _is_terminated(future) else future.result()
            under_way.clear()
            _end(executor)
            executor = _executor(processes, turns)
    finally:
        _end(executor)


def _is_terminated(future: Future[Any]) -> bool:
    from joblib.externals.loky import BrokenProcessPool

    return isinstance(future.exception(), BrokenProcessPool)


def _executor(processes: int, turns: int) -> Any:
    """Return an executor of processes that have one compute thread each and end with this one."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend import get_context

    given = os.getpid(), get_context("loky").Semaphore(turns)
    return ProcessPoolExecutor(processes, initializer=_begin, initargs=given, env=dict.fromkeys(_THREADS, "1"))


def _submit(executor: Any, work: Callable[[Item], Result], item: Item) -> Future[Result]:
    """Submit a call, which has failed if a process has ended before it."""
    from joblib.externals.loky import BrokenProcessPool

    try:
        with _keyboard_elsewhere():
            found: Future[Result] = executor.submit(work, item)
    except BrokenProcessPool as error:
        found = Future()
        found.set_exception(error)
    return found


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


def _end(executor: Any) -> None:
    """End the processes at once, without a traceback of their thread, which may look for a call that is given up."""
    before = threading.excepthook

    def heard(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is not KeyError or failed.thread is None or failed.thread.name != "ExecutorManagerThread":
            before(failed)

    threading.excepthook = heard
    try:
        executor.shutdown(wait=True, kill_workers=True)
    finally:
        threading.excepthook = before


def _begin(parent: int, turn: AbstractContextManager[object]) -> None:
    """Prepare a worker, which ends soon after its parent: otherwise it would outlive it by minutes."""
    global _turn
    _turn = turn

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
