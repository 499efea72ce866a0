"""Surveys of a training run on the fake Hub: how cost grows, what the engine adds, what a second process saves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from .cost import ROOT, Row

COUNTS = (50, 100, 200, 400)

CHILD = """
import json, os, sys, time
import psutil
import hfposemb as hpe
from hfposemb.campaign import check_out
from hfposemb.engine import Engine, Share
from hfposemb.survey import conduct, measured, plan

def run(kind, first, count, workers, out, draws):
    asked = plan([f"lab/run@step{step}" for step in range(first, first + count)], draws=draws)
    began = time.perf_counter()
    if kind == "loop":
        for target in asked.targets:
            assert measured(asked.job(target), Share(8))[0]["metric"]
    else:
        found = conduct(asked, check_out(out, asked.settings), engine=Engine(workers=workers), progress=watch)
        assert not found.failed, found.failed
    return time.perf_counter() - began

peaks = {}

def watch(*_):
    for process in [psutil.Process(), *psutil.Process().children()]:
        # Beside the workers joblib has a small process that cleans up after them.
        if (own := process.memory_full_info().uss) > 30e6:
            name = "driver" if process.pid == os.getpid() else "worker"
            peaks[name] = max(peaks.get(name, 0), own)

if __name__ == "__main__":
    kind, count, workers, out, draws = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    run("survey" if workers > 1 else "loop", 400, 4, workers, out + "-warm", draws)
    peaks.clear()
    print(json.dumps({"seconds": run(kind, 0, count, workers, out, draws), **peaks}))
"""


@contextmanager
def run_on_hub(count: int, *, delay: float) -> Iterator[dict[str, str]]:
    """Serve a training run of ``count`` checkpoints from a process of its own; yield the environment that finds it."""
    command = [sys.executable, "-m", "tests.hub", "--run", str(count), "--delay", str(delay)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield dict(part.split("=", 1) for part in process.stdout.readline().split())
        process.communicate("")


def taken(settings: dict[str, str], kind: str, count: int, *, workers: int = 1, draws: int = 5) -> dict[str, float]:
    """Survey the first checkpoints in a fresh process with an empty cache; return its seconds and its peaks."""
    import json

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
    with run_on_hub(max(400, *counts) + 4, delay=0) as hub:
        runs = [taken(hub, "survey", count, workers=2) for count in counts]
        seconds = [run["seconds"] for run in runs]
        exponent = float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])
        listed = ", ".join(f"{value:.1f}" for value in seconds)
        sizes = ", ".join(map(str, counts))
        yield Row(14, f"survey of {sizes} checkpoints, exponent of its time", f"{listed} s", "", f"{exponent:.2f}",
                  "≤ 1.05", exponent <= 1.05)  # fmt: skip
        for who in ("driver", "worker"):
            found = runs[-1][who] / runs[0][who]
            yield Row(14, f"memory of a {who}, {counts[-1]} checkpoints over {counts[0]}",
                      f"{runs[-1][who] / 1e6:.0f} MB", f"{runs[0][who] / 1e6:.0f} MB", f"{found:.2f} ×", "≤ 1.15 ×",
                      found <= 1.15)  # fmt: skip
        ours, bare = (
            median(taken(hub, kind, counts[0])["seconds"] for _ in range(rounds)) for kind in ("survey", "loop")
        )
        yield Row(14, f"survey over a bare loop, {counts[0]} checkpoints", f"{ours:.2f} s", f"{bare:.2f} s",
                  f"{ours / bare:.2f} ×", "≤ 1.2 ×", ours <= 1.2 * bare)  # fmt: skip
    with run_on_hub(404, delay=0.05) as hub:
        one, two = (
            median(taken(hub, "survey", counts[0], workers=workers)["seconds"] for _ in range(rounds))
            for workers in (1, 2)
        )
        yield Row(14, f"one process over two, {counts[0]} checkpoints 50 ms away", f"{two:.2f} s", f"{one:.2f} s",
                  f"{one / two:.2f} ×", "≥ 1.6 ×", one >= 1.6 * two)  # fmt: skip
