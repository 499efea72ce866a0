"""Many visitors of a running app, each from an address of its own: what they asked, and how long it took.

They arrive one after the other within a sixth of the time, at most ten seconds, and stay to its end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.app.serving import Visitor

SOURCES = ("sample:minilm", "sample:gpt2", "sample:bert")
PAIRS = (["sample:bert", "sample:gpt2"], ["sample:gpt2", "sinusoidal:256x128"], ["sample:bert", "sinusoidal:256x128"])
WORDS = ("king", "queen", "earth", "father", "heaven", "water")
PATTERNS = ("^.?king", "[xyz]{2}", "ing$", "(a|e)+n")

QUESTIONS: dict[str, tuple[int, Callable[[random.Random], list[Any]]]] = {
    "info": (4, lambda pick: [pick.choice(SOURCES)]),
    "neighbours": (4, lambda pick: [pick.choice(SOURCES), pick.choice(WORDS), 10, "cosine", "token", False]),
    "search": (2, lambda pick: [pick.choice(SOURCES), pick.choice(WORDS)[:3], False, "", 20, 0]),
    "regex": (2, lambda pick: [pick.choice(SOURCES), pick.choice(PATTERNS), True, "", 20, 0]),
    "project": (2, lambda pick: [pick.choice(SOURCES), "umap", 2, "token", 2_000]),
    "compare": (1, lambda pick: [pick.choice(PAIRS)]),
}
"""How often each kind is asked, and with what."""


LEAST = 3
"""Questions that everybody asks, however slow the machine."""


@dataclass(frozen=True)
class Answer:
    """What came back for a question: after how many seconds, and what was said instead of a result."""

    kind: str
    seconds: float
    said: str = ""
    lost: bool = False


def visit(url: str, number: int, until: float, pause: tuple[float, float]) -> list[Answer]:
    """Open the page, and ask one question after the other, ``LEAST`` or more, with a pause in between."""
    pick, found = random.Random(number), []
    page = Visitor(url, f"9.9.{number // 250}.{number % 250 + 1}")
    endpoints = {one["api_name"]: one for one in page.dependencies}
    kinds, weights = list(QUESTIONS), [weight for weight, _ in QUESTIONS.values()]
    while time.monotonic() < until or len(found) < LEAST:
        (kind,) = pick.choices(kinds, weights)
        bound, began = endpoints["search" if kind == "regex" else kind], time.monotonic()
        try:
            message = page.run(bound, 0, QUESTIONS[kind][1](pick))
            said = "" if message.get("success") else str(message.get("output") or {})
            found.append(Answer(kind, time.monotonic() - began, said, lost=said == "{}"))
        except (httpx.HTTPError, ValueError, KeyError) as error:
            found.append(Answer(kind, time.monotonic() - began, repr(error), lost=True))
        page.heard.clear()
        time.sleep(pick.uniform(*pause))
    page.close()
    return found


def crowd(url: str, *, visitors: int, seconds: float, pause: tuple[float, float] = (1.0, 3.0)) -> Sequence[Answer]:
    """Let so many visit at once for so long; return all answers."""
    until, visits = time.monotonic() + seconds, []
    with ThreadPoolExecutor(visitors) as threads:
        for number in range(visitors):
            visits.append(threads.submit(visit, url, number, until, pause))
            time.sleep(min(10.0, seconds / 6) / visitors)
        return [answer for one in visits for answer in one.result()]
