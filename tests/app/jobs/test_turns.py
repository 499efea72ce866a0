"""Whose question is next: one visitor's many never stand before another's first."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hfposemb.app.jobs.turns import MOST_ASKED, MOST_OF_ADDRESS, Turns
from hfposemb.app.jobs.visitor import BusyError, Visitor

SAME = [Visitor(f"page {number}", "9.9.9.9") for number in range(9)]
MANY, FEW, OTHER = Visitor("many"), Visitor("few"), Visitor("other", "8.8.8.8")


def order(*asked: Visitor, at_once: int = 1) -> list[Visitor]:
    """Return whose turn it was, one after the other, when all asked while a place was taken."""
    turns, served = Turns(at_once=at_once), []
    blocker = Visitor("blocker")
    taken = [turns.join(blocker) for _ in range(at_once)]
    waiting = [(visitor, turns.join(visitor)) for visitor in asked]
    assert not any(turn.done() for _, turn in waiting)
    for turn in taken:
        turns.leave(blocker, turn)
    while waiting:
        now = [one for one in waiting if one[1].done()]
        assert 0 < len(now) <= at_once
        for one in now:
            served.append(one[0])
            waiting.remove(one)
            turns.leave(*one)
    return served


def test_ten_questions_do_not_stand_before_another_ones_first() -> None:
    assert order(*[MANY] * 10, FEW, OTHER)[:3] == [MANY, FEW, OTHER]
    assert order(*[MANY] * 10, *[FEW] * 3)[:6] == [MANY, FEW] * 3
    found = order(*[MANY] * 10, FEW, at_once=2)
    assert FEW in found[:2], "who runs nothing comes before who runs something"


def test_an_address_has_one_turn_however_many_pages_it_opens() -> None:
    assert order(*SAME, OTHER)[1] == OTHER
    assert order(*[SAME[0]] * 5, SAME[1], OTHER)[:3] == [SAME[0], OTHER, SAME[1]], "its pages go round too"


def test_nobody_fills_the_places_of_all() -> None:
    turns = Turns(at_once=1)
    for _ in range(MOST_ASKED):
        turns.join(MANY)
    with pytest.raises(BusyError, match="too many questions at once"):
        turns.join(MANY)
    for number in range(MOST_OF_ADDRESS):
        turns.join(Visitor(f"page {number}", "9.9.9.9"))
    with pytest.raises(BusyError):
        turns.join(Visitor("one more", "9.9.9.9"))
    first = turns.join(FEW)
    turns.leave(FEW, first)  # given up
    assert turns.join(OTHER) is not None


def test_who_leaves_or_fails_gives_the_place_back() -> None:
    turns = Turns(at_once=1)

    def fail() -> None:
        raise ZeroDivisionError

    async def asked() -> list[Any]:
        held = threading.Event()
        running = asyncio.create_task(turns.call(MANY, held.wait, 60))
        await asyncio.sleep(0)
        given_up = asyncio.create_task(turns.call(FEW, held.wait, 60))
        await asyncio.sleep(0)
        given_up.cancel()
        failing = asyncio.create_task(turns.call(OTHER, fail))
        held.set()
        return await asyncio.gather(running, given_up, failing, turns.call(FEW, len, "abc"), return_exceptions=True)

    first, second, third, last = asyncio.run(asked())
    assert first is True
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, ZeroDivisionError)
    assert last == 3
    with turns.turn(MANY), pytest.raises(InterruptedError), turns.turn(FEW, check=_interrupted):
        pass
    assert turns.join(FEW).done()


def _interrupted() -> None:
    raise InterruptedError
