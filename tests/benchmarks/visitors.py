"""Fifty visitors of a public app at once: see ``crowd``. Each pauses for 1 to 3 s after an answer.

The app is a process of its own; the visitors are threads of this one, on the same two cores.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil

from tests.support.crowd import QUESTIONS, Answer, crowd
from tests.support.serving import serving

from .cost import Row, count

VISITORS = 18
MANY, SECONDS, SETTLED = 50, 600.0, 120.0
"""Visitors, for how long they stay, and after how long the memory of the server is to be flat."""

CHEAP, ANY = 2_000, 8_000
"""Milliseconds within which 95 % of the cheap questions, and of all, are to be answered."""

GROWTH = 10
"""Per cent by which the memory may grow after ``SETTLED``."""


def visitor_rows(*, visitors: int = MANY, seconds: float = SECONDS, settled: float = SETTLED) -> Iterator[Row]:
    """Yield how long each kind of question took, what the memory did, and how many answers were lost."""
    with tempfile.TemporaryDirectory() as made, serving(Path(made)) as served:
        sizes: list[float] = []
        process, over = psutil.Process(served.process.pid), threading.Event()

        def watch() -> None:
            while not over.wait(1.0):
                sizes.append(process.memory_info().rss / 2**20)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            found = crowd(served.url, visitors=visitors, seconds=seconds)
        finally:
            over.set()
            watching.join()
    name = f"{visitors} visitors"
    for kind in QUESTIONS:
        yield _latency(
            f"{name}: {kind}", [one for one in found if one.kind == kind], CHEAP, dear=kind in ("project", "compare")
        )
    yield _latency(f"{name}: all", found, ANY)
    lost = sum(one.lost for one in found)
    yield count(VISITORS, f"{name}: answers lost", lost, 0, unit=f"of {len(found):,}")
    refused = sum(bool(one.said) and not one.lost for one in found)
    yield count(VISITORS, f"{name}: questions refused because the app was busy", refused, 0, unit=f"of {len(found):,}")
    begin = max(sizes[: int(settled) + 1])
    grown = max(0.0, 100 * (max(sizes[-30:]) / begin - 1))
    yield count(
        VISITORS, f"{name}: memory of the server after {settled:.0f} s and {seconds:.0f} s", grown, GROWTH, unit="%",
        bound=f"{begin:,.0f} MB, then {max(sizes[-30:]):,.0f} MB",
    )  # fmt: skip


def _latency(name: str, found: Sequence[Answer], most: float, *, dear: bool = False) -> Row:
    """Judge the 95th percentile of milliseconds, beside the median; a dear question has no goal of its own."""
    half, most_of_all = np.percentile([1e3 * one.seconds for one in found] or [np.inf], (50, 95))
    row = count(VISITORS, f"{name}, 95 %", float(most_of_all), most, unit="ms", bound=f"half within {half:,.0f} ms")
    return Row(**{**vars(row), "goal": "", "met": True}) if dear else row
