"""Work in children that can be stopped, and whose turn it is."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from hfposemb.app.failures import BugError
from hfposemb.app.jobs import children, measuring, queue
from hfposemb.app.jobs.queue import Line, in_line
from hfposemb.app.jobs.visitor import BusyError, Visitor, known_address
from hfposemb.app.limits import MOST_WAITING, PUBLIC_MEMORY
from hfposemb.app.session.background_jobs import Request

import hfposemb as hpe
from hfposemb.errors import CancelledError, HfposembError
from tests.conftest import FULL
from tests.support.app.sessions import computed, open_session, taken
from tests.support.processes import errands
from tests.support.processes.errands import asleep, drafted, slow
from tests.support.processes.waiting import gone, until

ROOT = Path(__file__).parents[3]


def followed(job: children.Job) -> Iterator[children.Progress]:
    """Yield all progress of a job."""
    while (progress := job.poll()) is not None:
        yield progress


# --- children --------------------------------------------------------------------------------------------------------


def test_job_reports_and_returns() -> None:
    with children.Job(slow, reports=True) as job:
        seen = list(followed(job))
        assert job.result() == 7
    assert [one.share for one in seen] == sorted(one.share for one in seen)
    assert any(one.left is not None for one in seen)
    assert "layout, epoch" in str(seen[-1])


def test_job_sends_unfinished_results() -> None:
    seen = []
    with children.Job(drafted, reports=True) as job:
        seen = [(progress.drafts, job.draft) for progress in followed(job)]
        assert job.result() == 3
    assert (1, 1) in seen
    assert (2, 2) in seen
    assert all(number == draft for number, draft in seen if number)


def test_cancelled_job_is_gone_with_all_it_started() -> None:
    job = children.Job(subprocess.run, [sys.executable, "-c", "import time; time.sleep(600)"])
    assert until(lambda: bool(psutil.Process(job.pid).children(recursive=True)))
    family = psutil.Process(job.pid).children(recursive=True)
    job.close()
    assert gone(job.pid)
    assert until(lambda: all(gone(child.pid) for child in family), 5)
    with pytest.raises(CancelledError):
        job.result()


def test_failing_work_is_one_line() -> None:
    with pytest.raises(children.JobError, match="rows"):
        children.Job(hpe.sinusoidal, -1, 4, deadline=60).result()
    with pytest.raises(children.JobError, match="use method='pca'"):
        children.Job(measuring.umap, "random:5x4", "token", 2, reports=True).result()


@pytest.mark.parametrize(
    ("work", "arguments", "details"),
    [
        (errands.printing, (None,), ["in printing", "KeyError: 'planted'", "a library says this"]),
        (errands.printing_last, (), ["exit code 9", "a library says this"]),
        (errands.crash, (), ["SIGSEGV", "Fatal Python error", "in crash"]),
        (errands.not_sendable, (), ["pickle"]),
        (os._exit, (9,), ["exit code 9"]),
        (sys.exit, (3,), ["SystemExit: 3"]),
    ],
)
def test_bug_in_the_work_keeps_its_traceback(
    work: Callable[..., Any], arguments: tuple[Any, ...], details: list[str]
) -> None:
    with pytest.raises(BugError) as raised:
        children.Job(work, *arguments).result()
    assert "memory" not in str(raised.value)
    for part in details:
        assert part in raised.value.details


@pytest.mark.parametrize(
    ("work", "arguments", "said"),
    [
        (errands.killed, (), children.KILLED),
        (errands.aborted, (), children.NO_MEMORY),
        (errands.short_of_memory, (None,), children.NO_MEMORY),
    ],
)
def test_lack_of_memory_is_told_where_it_was(work: Callable[..., Any], arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(children.JobError) as raised:
        children.Job(work, *arguments).result()
    assert str(raised.value) == said


def test_chatter_of_a_child_is_bounded() -> None:
    job = children.Job(os.system, f"{sys.executable} -c 'print(chr(120) * 10**7)'")
    assert job.result() == 0
    assert len(job._stderr) <= children.STDERR_BYTES


def test_child_ends_with_its_parent() -> None:
    code = (
        "from hfposemb.app.jobs import children; from tests.support.processes.errands import asleep\n"
        "job = children.Job(asleep, reports=True)\n"
        "while job.poll(0.05).doing == 'starting': pass\n"
        "print(job.pid, flush=True); import os; os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert until(lambda: gone(int(done.stdout)), 20)


def test_umap_in_a_child_is_that_of_the_library() -> None:
    """In the bounds that strangers have."""
    bounds = {"reports": True, "memory": PUBLIC_MEMORY, "sealed": True}
    with children.Job(partial(measuring.umap, public=True), "random:60x8?seed=7", "token", 2, **bounds) as job:
        seen = list(followed(job))
        found = job.result()
    wanted = hpe.project(hpe.extract("random:60x8?seed=7").token, method="umap", dims=2)
    assert np.array_equal(found.coordinates, wanted.coordinates)
    assert any("preparing UMAP" in str(one) for one in seen)


def test_umap_is_compiled_behind_everything_else_or_not_at_all() -> None:
    before = {child.pid for child in psutil.Process().children()}

    def started() -> list[psutil.Process]:
        return [child for child in psutil.Process().children() if child.pid not in before]

    children.warm_later(public=True, after=0.3).set()
    children.warm_later(public=True, after=0.0)
    assert until(lambda: bool(started()))
    (child,) = started()
    assert until(lambda: child.nice() == 19)
    child.kill()  # what it does is tested where it is done
    assert until(lambda: gone(child.pid) and not started())


def test_secrets_stay_outside_a_sealed_child(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "hf_canary")
    monkeypatch.setenv("HF_HOME", "/kept")
    sealed = children.Job(subprocess.getoutput, "env", sealed=True).result()
    assert "hf_canary" not in sealed
    assert "HF_HOME=/kept" in sealed
    assert "HF_HUB_DISABLE_IMPLICIT_TOKEN=1" in sealed
    assert "HF_TOKEN=hf_canary" in children.Job(subprocess.getoutput, "env").result(), (
        "the meta test: this would see it"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not hold a process to RLIMIT_AS")
def test_memory_beyond_the_bound_is_one_line() -> None:
    with pytest.raises(children.JobError, match="not enough memory on this machine"):
        children.Job(bytearray, 2 * 2**30, memory=2**30).result()
    assert children.Job(len, b"small", memory=2**30).result() == 5


# --- the line --------------------------------------------------------------------------------------------------------


def test_line_serves_in_the_order_of_asking_and_is_bounded() -> None:
    waiting = Line(waiting=2)
    tickets = [waiting.join(Visitor(name)) for name in "abc"]
    with pytest.raises(BusyError, match="try again in a minute"):
        waiting.join(Visitor("d"))
    assert [ticket.place() for ticket in tickets] == [0, 1, 2]
    tickets[0].end()
    assert [ticket.place() for ticket in tickets[1:]] == [0, 1]
    with pytest.raises(CancelledError):
        tickets[0].place()
    assert waiting.join(Visitor("d")).place() == 2


def test_second_job_of_a_page_waits_for_the_first() -> None:
    waiting = Line()
    figures, other, report = (waiting.join(Visitor(name), part) for name, part in ("af", "bf", "ar"))
    assert [ticket.place() for ticket in (figures, other, report)] == [0, 1, 2]
    for part in ("maps", *"voM"):  # all that the Compare tab computes may be asked for at once
        waiting.join(Visitor("a"), part)
    with pytest.raises(BusyError, match="already have 6 computations"):
        waiting.join(Visitor("a"), "tokens")
    waiting.cancel(Visitor("a"), "f")
    with pytest.raises(CancelledError):
        figures.place()
    assert until(lambda: report.place() == 1, 5), "what was not cancelled goes on"
    assert waiting.join(Visitor("a"), "tokens").place() == 6


def test_part_that_asks_again_gives_up_what_it_had() -> None:
    waiting = Line()
    first, second, third = (waiting.join(Visitor(name), "tokens") for name in "abc")
    again = waiting.join(Visitor("b"), "tokens")
    with pytest.raises(CancelledError, match=r"^$"):
        second.place()
    assert until(lambda: len(waiting) == 3, 5)
    assert (first.place(), again.place(), third.place()) == (0, 1, 2)
    running = waiting.join(Visitor("a"), "tokens")
    with pytest.raises(CancelledError, match=r"^$"):
        first.place()
    assert until(lambda: len(waiting) == 3, 5)
    assert running.place() == 2, "the place of a job that was running already is not kept"


def test_next_turn_comes_when_the_child_is_gone() -> None:
    waiting = Line()
    first, second = waiting.join(Visitor("a")), waiting.join(Visitor("b"))
    job = first.run(asleep)
    waiting.cancel(Visitor("a"), "", but=[None])
    assert not gone(job.pid), "what is wanted still goes on"
    first.stop()
    assert until(lambda: second.place() == 0, 5)
    assert gone(job.pid)
    with pytest.raises(CancelledError):
        first.run(asleep)
    with pytest.raises(CancelledError):
        first.result()


def test_who_wants_the_same_result_takes_no_further_place() -> None:
    waiting = Line(waiting=1)
    for name in "ab":
        waiting.join(Visitor(name), result=name)
    assert waiting.join(Visitor("c"), result="a").place() == 2
    with pytest.raises(BusyError):
        waiting.join(Visitor("d"), result="d")
    with pytest.raises(BusyError):
        waiting.join(Visitor("d"))


def test_pages_of_one_address_are_one_visitor() -> None:
    waiting = Line()
    held = waiting.join(Visitor("a", "9.9.9.9"))
    with pytest.raises(BusyError, match="another page of yours"):
        waiting.join(Visitor("b", "9.9.9.9"))
    assert waiting.join(Visitor("c", "8.8.8.8")).place() == 1
    assert waiting.join(Visitor("d")).place() == 2
    assert waiting.join(Visitor("e")).place() == 3, "an address that is not known is nobody's"
    held.end()
    assert waiting.join(Visitor("b", "9.9.9.9")).place() == 3


@pytest.mark.parametrize(
    ("forwarded", "peer", "found"),
    [
        ("", "9.9.9.9", "9.9.9.9"),
        ("", "127.0.0.1", ""),
        ("9.9.9.9", "10.0.0.1", "9.9.9.9"),
        ("1.1.1.1, 9.9.9.9", "10.0.0.1", "9.9.9.9"),
        ("9.9.9.9, 10.3.0.2", "10.0.0.1", "9.9.9.9"),
        ("nonsense, \x00, 300.1.1.1", "10.0.0.1", ""),
        ("2600:1234:5678:9abc:1:2:3:4", "::1", "2600:1234:5678:9abc::/64"),
    ],
)
def test_address_is_the_nearest_of_the_open_internet(forwarded: str, peer: str, found: str) -> None:
    assert known_address(forwarded.split(","), peer) == found


def test_address_counts_for_strangers_only() -> None:
    asked: Any = SimpleNamespace(
        session_hash="s", headers={"x-forwarded-for": "9.9.9.9"}, client=SimpleNamespace(host="10.0.0.1")
    )
    assert Visitor.of(asked, public=True) == Visitor("s", "9.9.9.9")
    assert Visitor.of(asked, public=False) == Visitor("s")


def test_places_are_told_in_words() -> None:
    assert [in_line(place) for place in (1, 2, 3, 4, 11, 21)] == [
        "1st in line",
        "2nd in line",
        "3rd in line",
        "4th in line",
        "11th in line",
        "21st in line",
    ]


# --- what a page computes --------------------------------------------------------------------------------------------


def page_of(name: str) -> AsyncGenerator[children.Progress, None]:
    """Let a visitor ask for a map that takes a while."""
    session = open_session(public=True)
    wanted = [[f"random:3000x{len(name) + 30}", "token", 2]]
    return session.jobs.run(Visitor(name), "tokens", wanted, session.jobs.layout)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Line:
    """A line of this test's own, looked at often."""
    made = Line()
    monkeypatch.setattr("hfposemb.app.session.background_jobs.LINE", made)
    monkeypatch.setattr("hfposemb.app.session.background_jobs.WAIT", 0.05)
    return made


def test_crowd_waits_with_its_places_shown_and_one_child(alone: Line) -> None:
    before = len(psutil.Process().children())

    async def visit(name: str, said: list[str]) -> None:
        try:
            async with aclosing(page_of(name)) as steps:
                async for progress in steps:
                    said.append(str(progress))
        except HfposembError as error:
            said.append(str(error))

    async def crowd() -> list[list[str]]:
        said: list[list[str]] = [[] for _ in range(MOST_WAITING + 4)]
        tasks = [asyncio.create_task(visit("x" * place, lines)) for place, lines in enumerate(said)]
        most, end = 0, time.monotonic() + 60
        while time.monotonic() < end and len([one for one in said[0] if one != "starting"]) < 2:
            most = max(most, len(psutil.Process().children()) - before)
            await asyncio.sleep(0.02)
        assert most <= 1
        for task in tasks:  # all leave at once
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return said

    said = asyncio.run(crowd())
    assert [lines[0] for lines in said[1 : MOST_WAITING + 1]] == [
        in_line(place) for place in range(1, MOST_WAITING + 1)
    ]
    assert said[MOST_WAITING + 1 :] == [[queue.BUSY]] * 3
    assert until(lambda: len(alone) == 0 and len(psutil.Process().children()) == before, 10), "nothing is left behind"


def test_report_waits_for_the_comparison_of_the_same_page_and_takes_it(alone: Line) -> None:
    session = open_session()
    kept = session.library.results

    async def do(part: str, asks: Callable[[Any], Request]) -> None:
        await taken(session.jobs.run(Visitor("page"), part, [part], asks))

    async def both() -> None:
        comparing = asyncio.create_task(do("figures", lambda one: Request(one, errands.figures)))
        while not len(alone):
            await asyncio.sleep(0.01)
        report = do("report", lambda one: Request(one, errands.written, (kept.get("figures"),)))
        await asyncio.gather(comparing, report)

    asyncio.run(both())
    assert kept.get("figures") == 7
    assert kept.get("report") == "a report of 7"


def test_storm_of_starts_and_cancels_leaves_no_child_and_no_place(alone: Line) -> None:
    """Jobs are cancelled at every moment: while they wait, start, run, and as their part asks again."""
    draw, before = random.Random(7), {child.pid for child in psutil.Process().children()}
    session = open_session(public=True)
    ended: list[str] = []

    async def ask(number: int) -> None:
        visitor, part = Visitor(f"page {number % 7}"), draw.choice("abc")
        steps = session.jobs.run(visitor, part, [number], lambda one: Request(one, errands.asleep))
        try:
            async with asyncio.timeout(draw.choice((0.0, 0.01, 0.1, 0.4))), aclosing(steps):
                async for _ in steps:
                    if draw.random() < 0.1:
                        alone.cancel(visitor, part)
        except (HfposembError, TimeoutError) as error:
            ended.append(type(error).__name__)
        else:
            ended.append("none")

    async def storm() -> None:
        asked = set()
        for number in range(200 if FULL else 40):
            asked.add(asyncio.create_task(ask(number)))
            await asyncio.sleep(draw.choice((0, 0, 0.02)))
            if draw.random() < 0.2:
                draw.choice(sorted(asked, key=id)).cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(storm())
    assert "TimeoutError" in ended  # how many find the line full depends on the machine
    assert until(lambda: not len(alone) and {one.pid for one in psutil.Process().children()} <= before)
    assert computed(session, ["late"], lambda one: Request(one, errands.figures))
    assert session.library.results.get("late") == 7, "the next is computed"
