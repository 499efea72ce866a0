"""Surveys of a training run on the fake Hub: how cost grows, what the engine adds, what a second process saves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from .cost import ROOT, Row

COUNTS = (50, 100, 200, 400)

CHILD = """
import itertools, json, os, sys, time
import psutil
import hfposemb as hpe
from hfposemb.surveys.survey_folder import check_out
from hfposemb.surveys.worker_pool import Engine, Share
from hfposemb.surveys.source_figures import conduct, measured, plan

def run(kind, first, count, workers, out, draws):
    asked = plan([f"lab/run@step{step}" for step in range(first, first + count)], draws=draws)
    began = time.perf_counter()
    if kind == "loop":
        for target in asked.targets:
            assert measured(asked.job(target), Share(8))[0]["metric"]
    else:
        told = watch if kind == "watched" else None
        found = conduct(asked, check_out(out, asked.settings), engine=Engine(workers=workers), progress=told)
        assert not found.failed, found.failed
    return time.perf_counter() - began

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
    run(kind, 400, 4, workers, out + "-warm", draws)
    peaks.clear()
    before = cpu()
    seconds = run(kind, 0, count, workers, out, draws)
    print(json.dumps({"seconds": seconds, "cpu": cpu() - before, **peaks}))
"""


@contextmanager
def run_on_hub(count: int, *, delay: float) -> Iterator[dict[str, str]]:
    """Serve a training run of ``count`` checkpoints from a process of its own; yield the environment that finds it."""
    command = [sys.executable, "-m", "tests.hub", "--run", str(count), "--delay", str(delay)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield dict(part.split("=", 1) for part in process.stdout.readline().split())
        process.communicate("")


def taken(settings: dict[str, str], kind: str, count: int, *, workers: int = 1, draws: int = 0) -> dict[str, float]:
    """Survey the first checkpoints in a fresh process with an empty cache.

    Returns its seconds, those of its processors, and where ``kind`` is "watched" the peaks of its memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "surveying.py"
        script.write_text(CHILD)
        arguments = (kind, str(count), str(workers), f"{folder}/out", str(draws))
        found = subprocess.run(
            [sys.executable, str(script), *arguments],
            env={**os.environ, **settings, "HFPOSEMB_CACHE": f"{folder}/cache", "HF_HOME": folder},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
    return dict(json.loads(found.stdout))


def survey_rows(*, rounds: int, counts: tuple[int, ...] = COUNTS) -> Iterator[Row]:
    """Goal 14: surveys."""
    yield from growth_rows(counts, rounds=rounds)
    yield from overhead_rows(counts[0], rounds=rounds)
    yield from process_rows(counts[0], rounds=rounds)


def growth_rows(counts: tuple[int, ...], *, rounds: int) -> Iterator[Row]:
    """How time and memory grow with the checkpoints."""
    with run_on_hub(404, delay=0) as hub:
        runs = [[taken(hub, "watched", count, workers=2) for count in counts] for _ in range(rounds)]
    for what, name in (("seconds", "time"), ("cpu", "processor time")):
        seconds = [median(run[place][what] for run in runs) for place in range(len(counts))]
        exponent = float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])
        title = f"survey of {', '.join(map(str, counts))} checkpoints, exponent of its {name}"
        ours = f"{', '.join(f'{value:.1f}' for value in seconds)} s"
        yield Row(14, title, ours, "", f"{exponent:.2f}", "≤ 1.05", exponent <= 1.05)
    for who in ("driver", "worker"):
        first, last = (median(run[place][who] for run in runs) for place in (0, -1))
        name = f"memory of the {who}, {counts[-1]} checkpoints over {counts[0]}"
        yield _ratio(name, last, first, 1.15, form=lambda value: f"{value / 1e6:.0f} MB")


def overhead_rows(count: int, *, rounds: int) -> Iterator[Row]:
    """What the engine and the folder cost beside the same work in a loop."""
    with run_on_hub(404, delay=0) as hub:
        runs = [(taken(hub, "survey", count), taken(hub, "loop", count)) for _ in range(rounds)]
    for what, name in (("seconds", ""), ("cpu", ", processor time")):
        ours, bare = (median(run[side][what] for run in runs) for side in (0, 1))
        yield _ratio(f"survey over a bare loop, {count} checkpoints{name}", ours, bare, 1.2)


def process_rows(count: int, *, rounds: int) -> Iterator[Row]:
    """What a second process saves where the Hub is 50 ms away."""
    with run_on_hub(404, delay=0.05) as hub:
        runs = [[taken(hub, "survey", count, workers=workers, draws=2) for workers in (2, 1)] for _ in range(rounds)]
    two, one = (median(run[side]["seconds"] for run in runs) for side in (0, 1))
    yield _ratio(f"two processes over one, {count} checkpoints 50 ms away", two, one, 1 / 1.6)


def _ratio(
    name: str, ours: float, bound: float, most: float, *, form: Callable[[float], str] = lambda value: f"{value:.2f} s"
) -> Row:
    found = ours / bound
    return Row(14, name, form(ours), form(bound), f"{found:.2f} ×", f"≤ {most:.3g} ×", found <= most)
