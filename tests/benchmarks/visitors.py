"""Fifty visitors of a public app at once: see ``crowd``. Each pauses for 1 to 3 s after an answer.

Then one of them asks for a word beside another client who asks for what is slow, or for what is not there.

The app is a process of its own; the visitors are threads of this one, on the same two cores.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil

from tests.support.app.crowd import QUESTIONS, Answer, crowd
from tests.support.app.serving import Served, Visitor, serving

from .cost import Row, count

VISITORS = 18
MANY, SECONDS, SETTLED = 50, 600.0, 120.0
"""Visitors, for how long they stay, and after how long the memory of the server is to be flat."""

CHEAP, ANY = 2_000, 8_000
"""Milliseconds within which 95 % of the cheap questions, and of all, are to be answered."""

SLOW = "(([a-z]*[aeiou]){6}[a-z]*[xyz]){3}$"
"""A pattern that an engine which goes back takes seconds for."""

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
        beside = list(_beside_others(served, least=3 if seconds < SECONDS else 20))
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
    yield from beside


def _beside_others(served: Served, *, least: int) -> Iterator[Row]:
    """Yield how long a plain search takes while one other client keeps asking for much, ten or forty at a time."""
    page, other = Visitor(served.url, "9.9.8.1"), [Visitor(served.url, "9.9.8.2") for _ in range(10)]
    bound = next(one for one in page.dependencies if one["api_name"] == "search")

    def search(asking: Visitor, text: str, *, regex: bool) -> float:
        began = time.monotonic()
        asking.run(bound, 0, ["sample:minilm", text, regex, "", 20, 0])
        return 1e3 * (time.monotonic() - began)

    def unknown(asking: Visitor, number: int) -> None:
        asking.client.get("/gradio_api/queue/data", params={"session_hash": f"nobody-{number}"})

    alone = float(np.median([search(page, "king", regex=False) for _ in range(least)]))
    slow = [partial(search, one, SLOW, regex=True) for one in other]
    nobody = [partial(unknown, one, number) for one in other for number in range(4)]
    for what, asked in (("ten slow patterns", slow), ("forty streams of unknown sessions", nobody)):
        with _asked_again(asked):
            took = max(search(page, "king", regex=False) for _ in range(least))
        yield count(
            VISITORS, f"a search beside {what} of one other client, longest", took, CHEAP, unit="ms",
            bound=f"{alone:,.0f} ms alone",
        )  # fmt: skip
    for one in (page, *other):
        one.close()


@contextmanager
def _asked_again(asked: Sequence[Callable[[], object]]) -> Iterator[None]:
    """Ask for these again and again meanwhile, each by a thread of its own."""
    over = threading.Event()

    def again(ask: Callable[[], object]) -> None:
        while not over.is_set():
            ask()

    with ThreadPoolExecutor(len(asked)) as threads:
        for ask in asked:
            threads.submit(again, ask)
        try:
            yield
        finally:
            over.set()


def _latency(name: str, found: Sequence[Answer], most: float, *, dear: bool = False) -> Row:
    """Judge the 95th percentile of milliseconds, beside the median; a dear question has no goal of its own."""
    half, most_of_all = np.percentile([1e3 * one.seconds for one in found] or [np.inf], (50, 95))
    row = count(VISITORS, f"{name}, 95 %", float(most_of_all), most, unit="ms", bound=f"half within {half:,.0f} ms")
    return Row(**{**vars(row), "goal": "", "met": True}) if dear else row
