"""Surveys of a training run on the fake Hub: how cost grows, what the engine adds, what a second process saves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from .cost import ROOT, Cost, Row, here, in_turns, ratio

COUNTS = (50, 100, 200, 400)
MANY = 1_000
SPARE = 4
"""Checkpoints that are surveyed before, so that processes are started and libraries loaded."""

REQUESTS = 8
"""Requests in flight at most, in a survey by default and in what it is compared with."""

CHILD = """
import atexit, functools, itertools, json, os, sys, time
import psutil
import hfposemb as hpe
from hfposemb.surveys.survey_folder import check_out
from hfposemb.surveys.worker_pool import Engine, Permits
from hfposemb.surveys.source_figures import conduct, measured, plan

def run(kind, first, count, workers, out, draws):
    asked = plan([f"lab/run@step{step}" for step in range(first, first + count)], draws=draws)
    began = time.perf_counter()
    if kind == "loop":
        for target in asked.targets:
            assert measured(asked.job(target), Permits(8))[0]["metric"]
    else:
        told = watch if kind == "watched" else None
        engine = Engine("dask", cluster(workers)) if kind == "dask" else Engine(workers=workers)
        found = conduct(asked, check_out(out, asked.settings), engine=engine, progress=told)
        assert not found.failed, found.failed
    return time.perf_counter() - began

@functools.cache
def cluster(workers):
    from distributed import LocalCluster
    made = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
    atexit.register(made.close)
    return made.scheduler_address

peaks, calls = {}, itertools.count()

def watch(*_):
    if next(calls) % 10:
        return
    for process in [psutil.Process(), *psutil.Process().children()]:
        # What it wrote to: the pages of a library are its own or not as other processes use that library too.
        own = sum(part.private_dirty for part in process.memory_maps())
        # Beside the workers joblib has small processes that clean up after them.
        if own > 20e6:
            name = "driver" if process.pid == os.getpid() else "worker"
            peaks[name] = max(peaks.get(name, 0), own)

def cpu():
    used = [process.cpu_times() for process in [psutil.Process(), *psutil.Process().children()]]
    return sum(one.user + one.system for one in used)

if __name__ == "__main__":
    kind, count, workers, out, draws = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    run(kind, count, SPARE, workers, out + "-warm", draws)
    peaks.clear()
    before, began = cpu(), time.monotonic()
    seconds = run(kind, 0, count, workers, out, draws)
    print(json.dumps({"seconds": seconds, "cpu": cpu() - before, "began": began, **peaks}))
""".replace("SPARE", str(SPARE))


@dataclass(frozen=True)
class Hub:
    """A Hub in a process of its own: the environment that finds it, and what it was asked."""

    settings: dict[str, str]
    process: subprocess.Popen[str]

    def requests(self, since: float) -> list[tuple[str, str, str | None]]:
        """Return method, URL and range of every request from a time on, in order of arrival."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return [
            (method, url, span) for at, method, url, span in json.loads(self.process.stdout.readline()) if at >= since
        ]


@contextmanager
def run_on_hub(count: int, *, delay: float, layers: int = 0) -> Iterator[Hub]:
    """Serve a training run of ``count`` checkpoints and some to spare from a process of its own."""
    command = [sys.executable, "-m", "tests.hub", "--run", str(count + SPARE), "--delay", str(delay)]
    command += ["--layers", str(layers)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Hub(dict(part.split("=", 1) for part in process.stdout.readline().split()), process)
        process.communicate("")


def replayed(requests: Sequence[tuple[str, str, str | None]]) -> float:
    """Return the seconds that the requests of a survey take with as many in flight, and nothing else.

    Every thread keeps a connection to each host and takes the next request as soon as it has read an answer: no client
    that sends these requests can be faster.
    """
    waiting = deque(requests)

    def send() -> None:
        open_connections: dict[str, HTTPConnection] = {}
        with suppress(IndexError):
            while True:
                method, url, span = waiting.popleft()
                parts = urlsplit(url)
                connection = open_connections.setdefault(parts.netloc, HTTPConnection(parts.netloc))
                headers = {} if span is None else {"Range": span}
                connection.request(
                    method, f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=headers
                )
                answer = connection.getresponse()
                answer.read()
                assert answer.status < 400, (answer.status, url)
        for connection in open_connections.values():
            connection.close()

    began = time.perf_counter()
    with ThreadPoolExecutor(REQUESTS) as pool:
        for done in [pool.submit(send) for _ in range(REQUESTS)]:
            done.result()
    return time.perf_counter() - began


def taken(hub: Hub, kind: str, count: int, *, workers: int = 1, draws: int = 0) -> dict[str, float]:
    """Survey the first checkpoints in a fresh process with an empty cache.

    Returns its seconds, those of its processors, and where ``kind`` is "watched" the peaks of its memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "surveying.py"
        script.write_text(CHILD)
        arguments = (kind, str(count), str(workers), f"{folder}/out", str(draws))
        found = subprocess.run(
            [sys.executable, str(script), *arguments],
            env={**os.environ, **hub.settings, "HFPOSEMB_CACHE": f"{folder}/cache", "HF_HOME": folder},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    return dict(json.loads(found.stdout))


def survey_rows(*, rounds: int, counts: tuple[int, ...] = COUNTS, many: int = MANY) -> Iterator[Row]:
    """Goal 14: surveys."""
    yield from network_rows(many)
    yield from growth_rows(counts)
    yield from overhead_rows(counts[0], rounds=rounds + 2)  # a survey writes, and disks are uneven
    yield from process_rows(counts[0])


def network_rows(count: int) -> Iterator[Row]:
    """How far the network bounds a survey of checkpoints with GPT-2's tensors, where the Hub is 50 ms away."""
    with run_on_hub(count, delay=0.05, layers=12) as hub:
        found = taken(hub, "survey", count, workers=2)
        requests = hub.requests(found["began"])
        bound = here(lambda: replayed(requests))()
    name = f"survey of {count:,} checkpoints 50 ms away, over its {len(requests):,} requests, {REQUESTS} in flight"
    yield ratio(14, name, (Cost(found["seconds"], found["cpu"]), bound), 1.3)


def growth_rows(counts: tuple[int, ...]) -> Iterator[Row]:
    """How time and memory grow with the checkpoints."""
    with run_on_hub(counts[-1], delay=0) as hub:
        run = [taken(hub, "watched", count, workers=2) for count in counts]
    for what, name in (("seconds", "time"), ("cpu", "processor time")):
        costs = tuple(one[what] for one in run)
        title = f"survey of {', '.join(map(str, counts))} checkpoints, exponent of its {name}"
        ours = f"{', '.join(f'{value:.1f}' for value in costs)} s"
        exponent = float(np.polyfit(np.log(counts), np.log(costs), 1)[0])
        yield Row(14, title, ours, "", f"{exponent:.2f}", "≤ 1.05", exponent <= 1.05, 2**exponent)
    for who in ("driver", "worker"):
        last, first = (Cost(0, 0, run[place][who]) for place in (-1, 0))
        name = f"memory of the {who}, {counts[-1]} checkpoints over {counts[0]}"
        yield ratio(14, name, (last, first), 1.15, measure="peak")


def overhead_rows(count: int, *, rounds: int) -> Iterator[Row]:
    """What the engine and the folder cost beside the same work in a loop."""
    with run_on_hub(count, delay=0) as hub:
        costs = in_turns(cost_of(hub, "survey", count), cost_of(hub, "loop", count), rounds=rounds, warm=False)
    name = f"survey over a bare loop, {count} checkpoints"
    yield ratio(14, name, costs, 1.2)
    yield ratio(14, f"{name}, processor time", costs, 1.2, measure="cpu")


def process_rows(count: int) -> Iterator[Row]:
    """What a second process saves where the Hub is 50 ms away, one of this machine and one of a cluster."""
    with run_on_hub(count, delay=0.05) as hub:
        for kind, what, most in (("survey", "processes", 1.6), ("dask", "Dask workers", 1.8)):
            two, one = (cost_of(hub, kind, count, workers=workers, draws=2) for workers in (2, 1))
            costs = in_turns(two, one, rounds=1, warm=False)
            yield ratio(14, f"two {what} over one, {count} checkpoints 50 ms away", costs, 1 / most)


def cost_of(hub: Hub, kind: str, count: int, *, workers: int = 1, draws: int = 0) -> Callable[[], Cost]:
    """Survey the first checkpoints in a fresh process each time."""

    def run() -> Cost:
        found = taken(hub, kind, count, workers=workers, draws=draws)
        return Cost(found["seconds"], found["cpu"])

    return run
