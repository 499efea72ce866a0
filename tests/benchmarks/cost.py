"""Take the cost of what runs here or in a fresh process, of two in turns, and judge it against a bound."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cost:
    """Hold one run: seconds of wall clock and of CPU, and the peak memory of its process in bytes (0: not asked)."""

    wall: float
    cpu: float
    peak: float = 0

    def __str__(self) -> str:
        peak = f", {self.peak / 1e6:,.0f} MB" if self.peak else ""
        return f"{_seconds(self.wall)} ({_seconds(self.cpu)} CPU{peak})"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


@dataclass(frozen=True)
class Row:
    """Hold one line of the table: an operation, what it took, its bound, and whether the goal is met.

    ``number`` is that of the goal it belongs to, 1 to 12; 13 is the app, 14 surveys, 15 the app at size.
    """

    number: int
    name: str
    ours: str
    bound: str
    found: str
    goal: str
    met: bool


Pair = tuple[Cost, Cost]


def ratio(number: int, name: str, costs: Pair, worst: float, *, measure: str = "wall") -> Row:
    """Judge ours over the bound by one ``measure`` of both: ``worst`` is the largest ratio that meets the goal."""
    ours, bound = costs
    found = getattr(ours, measure) / getattr(bound, measure)
    return Row(number, name, str(ours), str(bound), times(found), f"≤ {times(worst)}", found <= worst)


def beside(number: int, name: str, costs: Pair) -> Row:
    """Tell a ratio that nothing is asked of."""
    ours, bound = costs
    return Row(number, name, str(ours), str(bound), times(ours.wall / bound.wall), "", met=True)


def times(value: float) -> str:
    """Write a ratio: small ones as a fraction."""
    return f"{value:.2f} ×" if value >= 0.2 else f"1/{1 / value:.1f}"


def count(number: int, name: str, ours: float, most: float, *, unit: str, bound: str = "") -> Row:
    """Judge a number that must not be larger than ``most``."""
    return Row(number, name, f"{ours:,.0f} {unit}", bound, f"{ours:,.0f}", f"≤ {most:,.0f}", ours <= most)


def score(number: int, name: str, ours: float, bound: float, *, slack: float) -> Row:
    """Judge a quality that must not be lower than the bound's by more than ``slack``."""
    goal = f"≥ −{slack:g}" if slack else "≥ 0"
    return Row(
        number,
        name,
        f"{ours:.4f}",
        f"{bound:.4f}",
        f"{ours - bound:+.4f}".replace("-", "−"),
        goal,
        ours >= bound - slack,
    )


def here(action: Callable[[], object], *, repeat: int = 1) -> Callable[[], Cost]:
    """Run an action in this process, several times a run where it is short."""

    def run() -> Cost:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            action()
        return Cost((time.perf_counter() - wall) / repeat, (time.process_time() - cpu) / repeat)

    return run


def environment() -> dict[str, str]:
    """Return the environment of a fresh interpreter: nothing from the Hub, and bytecode as an installation has it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}


_PEAK = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def fresh(code: str) -> Callable[[], Cost]:
    """Run code in a fresh interpreter; wall and CPU include its start."""

    def run() -> Cost:
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", f"{code}\n{_PEAK}"], env=environment(), cwd=ROOT, check=True, capture_output=True
        )
        wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(wall, cpu, int(done.stdout.split()[-1]) * 1024)

    return run


def importing(module: str) -> Callable[[], Cost]:
    """Time one import statement in a fresh interpreter, without the interpreter's own start."""
    code = (
        "import time\n"
        f"wall, cpu = time.perf_counter(), time.process_time()\nimport {module}\n"
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )

    def run() -> Cost:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(), cwd=ROOT, check=True, capture_output=True
        )
        return Cost(*map(float, done.stdout.split()))

    return run


def in_turns(ours: Callable[[], Cost], bound: Callable[[], Cost], *, rounds: int, warm: bool = True) -> Pair:
    """Return the medians of interleaved runs, ours first; with ``warm`` after one of each that does not count."""
    runs: tuple[list[Cost], list[Cost]] = ([], [])
    for turn in range(rounds + warm):
        for run, into in zip((ours, bound), runs, strict=True):
            cost = run()
            if turn >= warm:
                into.append(cost)
    return middle(runs[0]), middle(runs[1])


def middle(costs: list[Cost]) -> Cost:
    """Return the median of each measure."""
    return Cost(
        median(cost.wall for cost in costs), median(cost.cpu for cost in costs), median(cost.peak for cost in costs)
    )
