"""Take the cost of what runs here or in a fresh process, of two in turns, and judge it against a bound."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cost:
    """Hold seconds of wall clock and of CPU, and the peak memory of a process in bytes (0: not asked).

    Of several runs these are the medians, and ``runs`` holds each of them.
    """

    wall: float
    cpu: float
    peak: float = 0
    runs: tuple[Cost, ...] = ()

    def __str__(self) -> str:
        peak = f", {self.peak / 1e6:,.0f} MB" if self.peak else ""
        walls = [run.wall for run in self.runs]
        spread = f" [{span(walls, seconds)}]" if len(walls) > 1 else ""
        return f"{seconds(self.wall)}{spread} ({seconds(self.cpu)} CPU{peak})"


def seconds(value: float) -> str:
    """Write a time in seconds, a short one in milliseconds."""
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def span(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Write the smallest and the largest value; nothing of a single one, which has no spread."""
    return f"{form(min(values))} – {form(max(values))}" if len(values) > 1 else ""


@dataclass(frozen=True)
class Row:
    """Hold one line of the table: an operation, what it took, its bound, and whether the goal is met.

    ``number`` is that of the goal it belongs to, 1 to 12; 13 is the app, 14 surveys, 15 the app at size, 16 GGUF,
    17 UMAP of large vocabularies. ``value`` is what two runs of the benchmarks are compared by: the ratio to the
    bound, or the figure itself where there is none, the smaller the better. ``spread`` is the range of ``found`` over
    the rounds.
    """

    number: int
    name: str
    ours: str
    bound: str
    found: str
    goal: str
    met: bool
    value: float | None = None
    spread: str = ""


Pair = tuple[Cost, Cost]


def ratio(number: int, name: str, costs: Pair, worst: float, *, measure: str = "wall") -> Row:
    """Judge ours over the bound by one ``measure`` of both: ``worst`` is the largest ratio that meets the goal."""
    found = ratios(costs, measure)
    value = median(found)
    ours, bound = map(str, costs)
    return Row(number, name, ours, bound, times(value), f"≤ {times(worst)}", value <= worst, value, span(found, times))


def ratios(costs: Pair, measure: str = "wall") -> list[float]:
    """Return ours over theirs in each round, or of the two costs where the rounds were not kept."""
    ours, theirs = (cost.runs or (cost,) for cost in costs)
    return [getattr(one, measure) / getattr(other, measure) for one, other in zip(ours, theirs, strict=True)]


def beside(number: int, name: str, costs: Pair) -> Row:
    """Return the row of a ratio that has no goal."""
    found = ratios(costs)
    ours, bound = map(str, costs)
    return Row(number, name, ours, bound, times(median(found)), "", True, median(found), span(found, times))


def times(value: float) -> str:
    """Write a ratio: small ones as a fraction."""
    return f"{value:.2f} ×" if value >= 0.2 else f"1/{1 / value:.1f}"


def count(number: int, name: str, ours: float | Sequence[float], most: float, *, unit: str, bound: str = "") -> Row:
    """Judge a number, or the median of several, that must not be larger than ``most``."""
    runs = ours if isinstance(ours, Sequence) else (ours,)
    found = median(runs)
    spread = span(runs, lambda value: f"{value:,.0f}")
    goal, met = f"≤ {most:,.0f}", found <= most
    return Row(number, name, f"{found:,.0f} {unit}", bound, f"{found:,.0f}", goal, met, found, spread)


def score(number: int, name: str, ours: Sequence[float], bound: Sequence[float], *, slack: float) -> Row:
    """Judge the mean of a quality over seeds, which must not be lower than the bound's by more than ``slack``."""
    goal = f"≥ −{slack:g}" if slack else "≥ 0"
    means = fmean(ours), fmean(bound)
    more = means[0] - means[1]
    sides = (f"{mean:.4f}" for mean in means)
    spread = span([one - other for one, other in zip(ours, bound, strict=True)], signed)
    return Row(number, name, *sides, signed(more), goal, more >= -slack, means[1] / means[0], spread)


def signed(value: float) -> str:
    """Write a difference with its sign."""
    return f"{value:+.4f}".replace("-", "−")


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


def inside(setup: str, code: str) -> Callable[[], Cost]:
    """Measure some code in a fresh interpreter after a set-up that is not counted, its memory above what that took."""
    script = f"""
import time
{setup}
def noted(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
open("/proc/self/clear_refs", "w").write("5")  # the peak so far is forgotten
before, wall, cpu = noted("VmRSS"), time.perf_counter(), time.process_time()
{code}
print(time.perf_counter() - wall, time.process_time() - cpu, max(1, noted("VmHWM") - before))
"""

    def run() -> Cost:
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment(), cwd=ROOT, check=True, capture_output=True
        )
        return Cost(*map(float, done.stdout.split()[-3:]))

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
    """Return the median of each measure, with the runs."""
    wall, cpu, peak = (median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak"))
    return Cost(wall, cpu, peak, tuple(costs))
