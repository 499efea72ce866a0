"""Workers for many sources: processes of this machine, or an existing Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from ..errors import HfposembError, InputError, MissingExtraError
from .process_crews import work_in_processes

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


class Permits(Protocol):
    """Limit on concurrent requests that is sent to the workers; opens the gate of the process it arrives in."""

    def open(self) -> Gate:
        """Return the gate of this process."""
        ...


@dataclass(frozen=True)
class Share:
    """Fixed share of the permits, for one process."""

    permits: int

    def open(self) -> Gate:
        """Return the semaphore of this process, which its threads share."""
        return _process_semaphore(self.permits)


@cache
def _process_semaphore(permits: int) -> Gate:
    return threading.BoundedSemaphore(permits)


@dataclass(frozen=True)
class Shared:
    """Permits shared by all workers of a cluster, through the cluster's own semaphore."""

    permits: int

    def open(self) -> Gate:
        """Return this process's client of the semaphore."""
        return _semaphore(self.permits)


@cache
def _semaphore(permits: int) -> Gate:
    from distributed import Semaphore

    # Named by the number of permits, so that concurrent surveys share them.
    name = f"hfposemb, {permits} requests to the Hub"
    found: Gate = Semaphore(permits, name)  # type: ignore[no-untyped-call]
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
                (``process_crews.computing_turn``). Each local process then calls it for several items at a time.
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
    share = Share(requests // workers)
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
    permits = Shared(requests)
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
