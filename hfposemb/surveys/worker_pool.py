"""Where many sources are worked on: processes of this machine, or a Dask cluster that exists. joblib runs both."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from ..errors import HfposembError, InputError, MissingExtraError

if TYPE_CHECKING:
    from ..transfers import Gate

Item = TypeVar("Item")
Result = TypeVar("Result")

Kind: TypeAlias = Literal["local", "dask"]
KINDS: tuple[Kind, ...] = ("local", "dask")

REQUESTS = 8
"""Requests towards the Hub at a time by default, of all workers together."""

_SECONDS = 5  # that a scheduler may take to answer, and a worker to come


class Permits(Protocol):
    """Gives the gate for the requests of the process it is opened in; it travels to the workers."""

    def open(self) -> Gate: ...


@dataclass(frozen=True)
class Share:
    """A part of the permits, for one process."""

    permits: int

    def open(self) -> Gate:
        """Return a gate of its own."""
        return threading.BoundedSemaphore(self.permits)


@dataclass(frozen=True)
class Shared:
    """Permits that all workers of a cluster take from one place: the cluster's own semaphore."""

    permits: int

    def open(self) -> Gate:
        """Return the worker's way to the semaphore, one for each process."""
        return _semaphore(self.permits)


@cache
def _semaphore(permits: int) -> Gate:
    from distributed import Semaphore

    # By a name that says their number: surveys at the same time share them.
    name = f"hfposemb, {permits} requests to the Hub"
    found: Gate = Semaphore(permits, name)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True)
class Lost:
    """Stand for the result of an item whose process ended while it was worked on, each time."""

    item: Any
    reason: str


@dataclass(frozen=True)
class Pool:
    """An engine that runs: ``workers`` calls at a time."""

    workers: int
    _run: Callable[..., Generator[Any, None, None]] = field(repr=False)

    def each(
        self, function: Callable[[Item, Permits], Result], items: Sequence[Item]
    ) -> Generator[Result | Lost, None, None]:
        """Call a function on each of some items; yield what it returns, whichever is done first.

        To close it ends what is under way.
        """
        return self._run(function, items)


_ENDED = "the process that worked on it ended before it was done, most likely for want of memory"


@dataclass(frozen=True)
class Engine:
    """Choose where many sources are worked on.

    ``local`` is processes of this machine, ``workers`` of them, one a core where that is ``None``, each with one thread
    for its mathematics. ``dask`` is a cluster that exists, whose ``scheduler`` listens at an address such as
    tcp://host:8786. ``requests`` is how many requests towards the Hub there are at a time, of all workers together.
    Raises ``InputError`` for what does not go together.
    """

    kind: Kind = "local"
    scheduler: str | None = None
    workers: int | None = None
    requests: int = REQUESTS

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.kind not in KINDS:
            raise InputError(f"the engine is {' or '.join(KINDS)}; got {self.kind!r:.40}")
        if (self.kind == "dask") != (self.scheduler is not None):
            raise InputError("a scheduler and the engine dask go together, such as dask and tcp://host:8786")
        if self.kind == "dask" and self.workers is not None:
            raise InputError("a Dask cluster has the workers it has; leave their number out")
        if self.requests < 1 or (self.workers is not None and self.workers < 1):
            raise InputError(f"requests and workers are 1 or more; got {self.requests} and {self.workers}")

    @contextmanager
    def running(self) -> Iterator[Pool]:
        """Connect, and yield what does the work. Raises ``HfposembError`` where the cluster cannot be had."""
        import joblib

        if self.scheduler is None:
            # Each has a permit at least.
            workers = min(self.workers or joblib.cpu_count(), self.requests)
            yield Pool(workers, partial(_here, workers, self.requests))
        else:
            with _client(self.scheduler) as client:
                yield Pool(max(1, sum(client.ncores().values())), partial(_there, client, self.requests))


HERE = Engine()
"""Processes of this machine, one a core."""


def _here(
    most: int, requests: int, function: Callable[[Item, Permits], Result], items: Sequence[Item]
) -> Generator[Result | Lost, None, None]:
    """Work in processes of this machine; in this one where there is one worker."""
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    workers = max(1, min(most, len(items)))
    share, left = Share(requests // workers), dict(enumerate(items))

    def together(numbers: Iterable[int]) -> Iterator[tuple[int, Result]]:
        first = {"initializer": _begin, "initargs": (os.getpid(), _settings())}
        with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1, **first):
            # Not in batches: what is done is given back at once, and is not lost when this process ends.
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        with _keyboard_elsewhere():
            outputs = parallel(joblib.delayed(_numbered)(function, number, items[number], share) for number in numbers)
        yield from _quietly(outputs)

    while left:
        begun: list[int] = []

        def begin(into: list[int] = begun) -> Iterator[int]:
            for number in list(left):
                into.append(number)
                yield number

        try:
            for number, result in together(begin()):
                del left[number]
                yield result
        except TerminatedWorkerError:
            # joblib gives up with all that was begun. Which of it ended its process shows where each is alone.
            for number in [number for number in begun if number in left]:
                item = left.pop(number)
                try:
                    ((_, result),) = together([number])
                except TerminatedWorkerError:
                    yield Lost(item, _ENDED)
                else:
                    yield result


@contextmanager
def _keyboard_elsewhere() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, though the terminal sends it to all: this one ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # not everywhere
        yield
        return
    resource_tracker.ensure_running()  # whose start would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quietly(outputs: Generator[Result, None, None]) -> Iterator[Result]:
    """Yield all, and where that is ended early, end it without joblib's warning of what was under way."""
    try:
        # Not "yield from", which would close it first.
        for result in outputs:  # noqa: UP028
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs.close()


def _settings() -> dict[str, str]:
    """Return the environment variables that say where to read and to keep files."""
    return {name: value for name, value in os.environ.items() if name.startswith(("HFPOSEMB_", "HF_"))}


def _begin(process: int, settings: dict[str, str]) -> None:
    """Prepare a worker: it has the settings of the process that started it, and ends soon after that process.

    joblib keeps workers for the next call, and starts new ones only where these arguments are others. Left alone, they
    would also wait for minutes.
    """
    os.environ.update(settings)

    def watch() -> None:
        while os.getppid() == process:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _numbered(
    function: Callable[[Item, Permits], Result], number: int, item: Item, permits: Permits
) -> tuple[int, Result]:
    return number, function(item, permits)


def _there(
    client: Any, requests: int, function: Callable[[Item, Permits], Result], items: Sequence[Item]
) -> Generator[Result | Lost, None, None]:
    """Work on a Dask cluster, which gives what a lost worker had to another one, and gives up after several."""
    import joblib

    try:
        with joblib.parallel_config(_backend()(client=client, wait_for_workers_timeout=_SECONDS), n_jobs=-1):
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from _quietly(parallel(joblib.delayed(function)(item, Shared(requests)) for item in items))
    except TimeoutError as error:
        raise HfposembError(
            f"the Dask scheduler at {client.scheduler.address} has no worker; start one with 'dask worker'"
        ) from error


@cache
def _backend() -> type[Any]:
    """Return joblib's own way to Dask, made to answer for every task."""
    from concurrent.futures import Future

    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int) -> int:
            # Of a cluster with one core joblib makes a loop in this process.
            return max(2, int(super().effective_n_jobs(n_jobs)))

        def submit(self, func: Any, callback: Callable[[Any], object] | None = None) -> Future[Any]:
            ((_, (item, *_), _),) = func.items
            found: Future[Any] = super().submit(func, callback)

            def end(done: Future[Any]) -> None:
                # joblib calls nobody back where Dask gives a task up, and waits for it for ever.
                if callback is not None and done.exception() is not None:
                    callback([Lost(item, _ENDED)])

            found.add_done_callback(end)
            return found

    return Backend


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, and see that its workers know this package."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingExtraError("distributed", extra="cluster", purpose="the engine dask") from error
    try:
        get_address_host_port(scheduler)
    except ValueError as error:
        # A client would be left half open, and wait for itself at the end of this process.
        raise InputError(f"{scheduler!r:.100} is no address of a Dask scheduler, such as tcp://host:8786") from error
    try:
        client = Client(scheduler, timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise HfposembError(
            f"no Dask scheduler answers at {scheduler!r:.100}; check the address, or start one with 'dask scheduler'"
        ) from error
    with client:
        try:
            client.run(_known)
        except (ImportError, AttributeError) as error:
            raise HfposembError(
                f"the workers of {scheduler} cannot import hfposemb: {error}; install it there too"
            ) from error
        yield client


def _known() -> None:
    """Be found on a worker, which shows that it has this package."""
