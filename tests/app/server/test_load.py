"""Many visitors at once: nothing but an answer or a clear "busy", flat memory, and a flood that others do not feel."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from threading import Event

import psutil
import pytest
from hfposemb.app.jobs.queue import BUSY, TWICE, in_line
from hfposemb.app.limits import MOST_WAITING
from hfposemb.app.server.event_streams import MOST_STREAMS

from tests.conftest import FULL
from tests.support.app.serving import Served, Visitor, called
from tests.support.processes.waiting import until

VISITORS, SECONDS = (50, 60.0) if FULL else (5, 2.0)
FLOOD_SECONDS = 10.0 if FULL else 1.5
"""Seconds for which a flood is watched once all of it is in line."""

FLOOD = 20 if FULL else MOST_WAITING + 2
TURNS = 34 if FULL else 2
SESSIONS = 500 if FULL else 25
TOLERANCE = (48 if FULL else 16) * 2**20
"""Bytes that the allocator may keep more after a run that was the same."""
KEPT = int(1.5 * 2**20)
"""Bytes of a visitor's page with two late tabs, which is kept for ``LEFT_SECONDS`` after it was left."""

CHOICES = (
    ["sample:bert", "sample:gpt2"],
    ["sample:gpt2", "sinusoidal:256x128"],
    ["sample:bert", "random:256x128", "sinusoidal:256x128"],
)
TABS = ("Start", "Positions", "Tokens")


@pytest.fixture
def served(strangers_app: Served) -> Served:
    return strangers_app


def visit(url: str, seed: int, seconds: float) -> tuple[int, list[str]]:
    """Change sources, words and tabs for a while; return how many answers came, and what was said instead of one."""
    choose, page = random.Random(seed), Visitor(url)
    page.show("Tokens")
    word, answers, other, end = page.labelled("Word, part of a word, or id"), 0, [], time.monotonic() + seconds
    while time.monotonic() < end:
        messages = page.choose(choose.choice(CHOICES))
        messages += page.show(choose.choice(TABS))
        messages += page.act(word, "submit", choose.choice(("king", "queen", "earth")))
        for message in messages:
            if message.get("success"):
                answers += 1
            else:
                other.append(json.dumps(message.get("output")))
    page.close()
    return answers, other


def crowd(served: Served) -> int:
    """Let everybody visit at once; return the memory of the server afterwards."""
    with ThreadPoolExecutor(VISITORS) as threads:
        found = list(threads.map(lambda seed: visit(served.url, seed, SECONDS), range(VISITORS)))
    assert all(answers for answers, _ in found), "everybody gets answers"
    assert all("Queue is full" in said for _, others in found for said in others)
    return memory(served)


def memory(served: Served) -> int:
    """Return the memory of the server."""
    return int(psutil.Process(served.process.pid).memory_info().rss)


def test_crowd_gets_answers_and_memory_stays_flat(served: Served) -> None:
    page = Visitor(served.url)
    for sources in CHOICES:
        page.choose(sources)
        for tab in TABS:
            page.show(tab)
    page.close()
    first = crowd(served)
    second, most = crowd(served), TOLERANCE + VISITORS * KEPT
    print(f"memory: {first >> 20} MB after a crowd, {second >> 20} MB after another")
    assert until(lambda: memory(served) - first < most, 10), "what a session holds goes with its heartbeat"
    assert "Traceback" not in served.said


def test_sources_in_turn_leave_memory_flat(served: Served) -> None:
    """One visitor looks at one source after another, none of which was there before."""
    page, sizes = Visitor(served.url), []
    page.show("Positions")
    for row in range(3 * TURNS):
        messages = page.choose([f"random:{64 + row}x16"])
        assert any(message.get("success") for message in messages)
        if row % TURNS == TURNS - 1:
            sizes.append(memory(served))
    page.close()
    print(f"memory in turn: {[size >> 20 for size in sizes]} MB")
    assert sizes[2] - sizes[1] < (TOLERANCE / 2 if FULL else TOLERANCE), sizes


def test_sessions_that_are_dropped_are_forgotten(served: Served) -> None:
    """Programs and pages are opened, answered and left, each a session of its own."""
    page, sizes = Visitor(served.url), []
    for _ in range(3):
        for _ in range(SESSIONS):
            assert "[16, 8]" in called(page.client, "info", "sinusoidal:16x8")
        sizes.append(memory(served))
    print(f"memory after {SESSIONS} sessions each: {[size >> 20 for size in sizes]} MB")
    assert sizes[2] - sizes[1] < SESSIONS * 2**17, sizes
    page.close()
    assert "Traceback" not in served.said


def changed(page: Visitor, component: int, event: str) -> list[int]:
    """Run what is bound to an event of a component; return the states that it changed."""
    messages = [page.run(bound, component) for bound in page.events(component, event)]
    return [state for one in messages for state in (one.get("output") or {}).get("changed_state_ids") or ()]


def ask_for_umap(page: Visitor, over: Event) -> str:
    """Show the map of the tokens as UMAP, and listen until it is answered or all is over; return what was said."""
    method = page.labelled("Projection")
    page.values[method] = "UMAP"
    wanted = [state for chosen in changed(page, method, "input") for state in changed(page, chosen, "change")]
    (compute,) = (bound for state in wanted for bound in page.events(state, "change") if len(bound["outputs"]) == 2)
    before = len(page.heard)
    answer = page.join(compute, [None] * len(compute["inputs"]), wanted[0])
    page.listen(answer.json()["event_id"], stop=lambda line: over.is_set())
    return "".join(page.heard[before:])


def asking(served: Served, number: int, address: str) -> Visitor:
    """Return a page that is about to ask for a UMAP of a table of its own."""
    page = Visitor(served.url, address)
    page.choose([f"random:1200x{32 + number}", "sinusoidal:16x8"])
    page.show("Tokens")
    return page


def cheap(page: Visitor) -> int:
    """Ask for a word's neighbours, which must be answered; return how many answers came."""
    word = page.labelled("Word, part of a word, or id")
    answers = page.act(word, "submit", random.choice(("king", "queen", "earth", "father")))
    assert all(message["success"] for message in answers)
    return len(answers)


def children(served: Served) -> list[psutil.Process]:
    """Return the children of the server."""
    return psutil.Process(served.process.pid).children()


def test_flood_of_heavy_requests_waits_in_line_while_others_are_answered(served: Served) -> None:
    quiet = Visitor(served.url)
    quiet.choose(["sample:bert", "sinusoidal:256x128"])
    quiet.show("Tokens")
    with ThreadPoolExecutor(4) as threads:
        pages = list(threads.map(lambda number: asking(served, number, f"9.9.9.{number}"), range(FLOOD)))
    answered, most, over, end = 0, 0, Event(), time.monotonic() + 60
    places = [in_line(place) for place in range(1, MOST_WAITING + 1)]
    with ThreadPoolExecutor(FLOOD) as threads:
        flood = [threads.submit(ask_for_umap, page, over) for page in pages]
        while time.monotonic() < end:
            most = max(most, running := len(children(served)))
            answered += cheap(quiet) if running else 0
            heard = ["".join(page.heard) for page in pages]
            if children(served) and all(any(place in one for one in heard) for place in places):
                end = min(end, time.monotonic() + FLOOD_SECONDS)
        over.set()
        said = [one.result() for one in flood]
    assert most == 1
    assert answered > FLOOD, "others are answered while the line stands"
    assert sum(BUSY in one for one in said) >= FLOOD - 1 - MOST_WAITING
    for place in places:
        assert any(place in one for one in said), place
    for page in (quiet, *pages):
        page.close()
    assert until(lambda: not children(served), 30), "who leaves has no job"


def test_visitor_has_one_heavy_job_however_many_pages_are_open(served: Served) -> None:
    first, second = (asking(served, FLOOD + number, "8.8.8.8") for number in range(2))
    over = Event()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(ask_for_umap, first, over)
        assert until(lambda: bool(children(served)), 30), "the first page's job does not start"
        refused = threads.submit(ask_for_umap, second, over)
        wait([refused], timeout=6)
        over.set()
        assert TWICE in refused.result()
        assert len(children(served)) <= 1
        assert TWICE not in running.result()
    first.close()
    second.close()
    assert until(lambda: not children(served), 30)


def test_streams_of_unknown_sessions_cost_nothing(served: Served) -> None:
    page = Visitor(served.url)
    params, before = {"session_hash": "nobody"}, served.said
    for _ in range(20):
        answer = page.client.get("/gradio_api/queue/data", params=params)
        assert json.loads(answer.text.removeprefix("data:"))["session_not_found"]
    page.choose(["sample:bert"])
    with ExitStack() as streams:
        ask = partial(page.client.stream, "GET", "/gradio_api/queue/data", params={"session_hash": page.session})
        answers = [streams.enter_context(ask()).status_code for _ in range(MOST_STREAMS + 1)]
    assert answers == [200] * MOST_STREAMS + [429]
    page.close()
    assert served.said == before, "no traceback"
