"""Engines: the same results wherever the work is done, and whichever worker is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import HfposembError, InputError
from hfposemb.surveys import worker_pool
from hfposemb.surveys.worker_pool import Engine, Lost, Permits
from tests.conftest import FULL
from tests.hub import FakeHub
from tests.hub.training import add_run
from tests.support.processes.errands import end_at, own_process
from tests.support.processes.waiting import until
from tests.support.survey_models import at_once, same

ROOT = Path(__file__).parents[2]
COUNT = 100 if FULL else 8


@contextmanager
def dask(module: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a part of a cluster, which keeps nothing where this process does, and end it."""
    command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments]
    environment = {**os.environ, "HFPOSEMB_CACHE": str(folder / "elsewhere")}
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def scheduling(folder: Path) -> Iterator[str]:
    """Start a scheduler."""
    with dask("dask_scheduler", folder, "--host", "127.0.0.1", "--port", "0", "--no-show") as process:
        yield said_by(process, r"Scheduler at: *(tcp://\S+)")


@contextmanager
def working(folder: Path, scheduler: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker, which has the fake Hub's address from its environment."""
    with dask("dask_worker", folder, scheduler, "--nthreads", "1", "--no-nanny") as process:
        said_by(process, r"(Registered to)")
        yield process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scheduler of a cluster of two workers, each a process of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    with scheduling(folder) as scheduler, working(folder, scheduler), working(folder, scheduler):
        yield scheduler


def said_by(process: subprocess.Popen[bytes], pattern: str) -> str:
    """Wait until a process says what matches; return the first group of it."""
    for line in process.stderr:
        if match := re.search(pattern, line.decode()):
            return match[1]
    raise AssertionError(f"the process ended without saying {pattern}")


@pytest.mark.parametrize("reading", [False, True])
def test_a_process_that_ends_loses_its_item_alone(reading: bool) -> None:
    """Even while it reads several."""
    with Engine(workers=2).running() as pool:
        found = sorted(pool.each(end_at, ["a", "end", *"bcdefghij"], reading=reading), key=str)
    reason = "the worker process ended unexpectedly, most likely out of memory"
    assert found == sorted([*"abcdefghij", Lost("end", reason)], key=str)


def test_processes_keep_all_permitted_requests_in_flight(hub: FakeHub) -> None:
    sources = add_run(hub, 12)
    hub.shape(delay=0.1)
    found = hpe.survey(sources, metrics=["mean norm"], draws=0, engine=Engine(workers=2, requests=6))
    assert found.value.notna().all()
    assert 4 < at_once(hub, 0.1) <= 6


def test_more_processes_read_than_compute() -> None:
    def overlapping(_item: int, _given: Permits) -> tuple[int, float, float]:
        import os
        import time

        from hfposemb.surveys.worker_pool import computing_turn

        with computing_turn():
            began = time.monotonic()
            time.sleep(0.2)
            return os.getpid(), began, time.monotonic()

    with Engine(workers=2, requests=4).running() as pool:
        found = [one for one in pool.each(overlapping, list(range(8)), reading=True) if not isinstance(one, Lost)]
    assert len({process for process, *_ in found}) == 4
    for _, now, _ in found:
        assert sum(began <= now < ended for _, began, ended in found) <= 2


def test_a_process_that_ends_between_two_calls_is_replaced() -> None:
    """The next call fails as it is made, not as it is waited for."""
    with Engine(workers=2).running() as pool:
        each = pool.each(own_process, list(range(6)))
        found = [next(each)]
        os.kill(int(str(found[0])), signal.SIGKILL)
        time.sleep(1)
        found.extend(each)
    assert len(found) == 6
    assert not any(isinstance(one, Lost) for one in found)


def test_processes_share_the_permits_equally_and_compute_with_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # whoever runs the tests may have asked for that already

    def permits(item: str, given: Permits) -> str:
        return str(given)

    def threads(item: str, given: Permits) -> set[int]:
        import threadpoolctl

        return {found["num_threads"] for found in threadpoolctl.threadpool_info()}

    with Engine(workers=2, requests=5).running() as pool:
        assert set(pool.each(permits, ["a", "b", "c"])) == {"Permits(permits=2, shared=False)"}
        assert set().union(*pool.each(threads, ["a", "b"])) <= {1}  # type: ignore[arg-type]
    with Engine(workers=4, requests=2).running() as pool:
        assert pool.workers == 2, "each has a permit at least"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "spark"}, "engine must be local or dask; got 'spark'"),
        ({"kind": "dask"}, "needs a scheduler"),
        ({"kind": "dask", "scheduler": "tcp://x:1", "workers": 2}, "cannot be set for a Dask cluster"),
        ({"requests": 0}, "must be at least 1"),
    ],
)
def test_what_does_not_go_together(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Engine(**options)  # type: ignore[arg-type]


def test_a_cluster_gives_what_this_machine_gives(cluster: str, hub: FakeHub, tmp_path: Path) -> None:
    sources = [*add_run(hub, COUNT), "lab/run@none", "rotary:8x4"]
    here = hpe.survey(sources, draws=3, engine=Engine(workers=2))
    before = hub.requests
    there = Engine("dask", cluster, requests=1)
    same(here, hpe.survey(sources, draws=3, engine=there, out=tmp_path / "out"))
    assert len(hub.requests) > len(before)


def test_a_cluster_asks_no_more_than_permitted(cluster: str, hub: FakeHub) -> None:
    sources = add_run(hub, 6)
    hub.shape(delay=0.1)
    there = Engine("dask", cluster, requests=1)
    assert hpe.survey(sources, metrics=["mean norm"], draws=0, engine=there).value.notna().all()
    assert at_once(hub, 0.1) == 1


def test_a_worker_killed_half_way_loses_nothing(cluster: str, hub: FakeHub, tmp_path: Path) -> None:
    sources = add_run(hub, COUNT)
    here = hpe.survey(sources, draws=3, engine=Engine(workers=1))

    with working(tmp_path, cluster) as worker:

        def kill(share: float, _: str) -> None:
            if share >= 0.5 and worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
                worker.wait()

        found = hpe.survey(sources, draws=3, engine=Engine("dask", cluster), out=tmp_path / "out", progress=kill)
        assert worker.poll() == -signal.SIGKILL
    same(here, found)
    assert not found.duplicated(["source", "table", "metric"]).any()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait shorter for a scheduler and its workers."""
    monkeypatch.setattr(worker_pool, "_SECONDS", 2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("scheduler", "said"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler responds at 'tcp://127.0.0.1:1'"),
        ("127.0.0.1", "'127.0.0.1' is not the address of a Dask scheduler, such as tcp://host:8786"),
    ],
)
def test_a_scheduler_that_is_not_there(
    scheduler: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = ["survey", "random:8x4", "--engine", "dask", "--scheduler", scheduler, "--out", str(out)]
    assert main(given) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not out.exists()


CHILD = """
from hfposemb.surveys.worker_pool import Engine
from tests.support.processes.errands import hears_the_keyboard, own_process
if __name__ == "__main__":
    with Engine(workers=2).running() as pool:
        print(*pool.each(hears_the_keyboard, ["a", "b"]), hears_the_keyboard("here", None), flush=True)
        for found in pool.each(own_process, list(range(10_000))):
            print(found, flush=True)
"""


def test_no_process_hears_the_keyboard_or_outlives_the_driver(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(CHILD)
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout.readline() == "False False True\n"
        started = {int(driver.stdout.readline()) for _ in range(40)}
        driver.kill()
    assert driver.pid not in started
    assert until(lambda: not any(Path(f"/proc/{one}").exists() for one in started), 20), "processes were left alone"


def test_no_traceback_is_printed_of_the_thread_of_an_executor_that_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loky's thread looks for a step that was queued and given up where its process is killed."""
    heard: list[str] = []

    class Ended:
        def shutdown(self, **given: bool) -> None:
            for name in ("ExecutorManagerThread", "another"):
                failing = threading.Thread(target={}.__getitem__, args=(1,), name=name)
                failing.start()
                failing.join()

    def told(failed: threading.ExceptHookArgs) -> None:
        heard.append(failed.thread.name)

    monkeypatch.setattr(threading, "excepthook", told)
    worker_pool._end(Ended())
    assert heard == ["another"]
    assert threading.excepthook is told


@pytest.mark.usefixtures("impatient")
def test_a_cluster_without_a_worker_says_so(tmp_path: Path) -> None:
    with (
        scheduling(tmp_path) as scheduler,
        pytest.raises(HfposembError, match="has no workers; start one with 'dask worker'"),
    ):
        hpe.survey(["random:8x4"], draws=0, engine=Engine("dask", scheduler))
