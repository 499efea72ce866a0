"""The source bar: places, which fix colours, and what the bar says of them."""

from __future__ import annotations

import pytest
from hfposemb.app.limits import MOST_SOURCES
from hfposemb.app.session.opened import problems
from hfposemb.app.session.source_bar import chip_colours, counted, placed

from tests.support.app.sessions import open_session


@pytest.mark.parametrize(
    ("texts", "before", "expected"),
    [
        (["a", "b"], [], ["a", "b"]),
        (["b", "c"], ["a", "b", "c"], ["", "b", "c"]),
        (["b", "c", "d"], ["", "b", "c"], ["d", "b", "c"]),
        (["a"], ["a", "b", "c"], ["a"]),
        ([], ["a", "b"], []),
        (["c", "a", "a", ""], ["a", "", "c"], ["a", "", "c"]),
        (list("abcdefghi"), ["a"], list("abcdefgh")),
    ],
)
def test_a_source_keeps_its_place(texts: list[str], before: list[str], expected: list[str]) -> None:
    assert placed(texts, before) == expected


def test_chips_have_the_colours_of_their_places() -> None:
    style = chip_colours(["", "b", "", "d"], "p1")
    assert ".bar-p1 .token:nth-of-type(1) { --dot: var(--source-2); }" in style
    assert ".bar-p1 .token:nth-of-type(2) { --dot: var(--source-4); }" in style


def test_a_free_place_is_remembered_by_what_is_drawn() -> None:
    session = open_session(tab="positions")
    texts = ["", "sinusoidal:8x4", "", "sinusoidal:8x8"]
    colours = [source.color for source in session.open(["random:8x4", "counting:8x4", "sinusoidal:9x4", "random:9x4"])]
    shown = session.shown(session.drawn_with("", texts))
    assert [source.color for source in shown] == [colours[1], colours[3]]


def test_a_source_that_fails_takes_no_place_and_is_said_once() -> None:
    session = open_session(tab="positions")
    texts = ["./nowhere", "sinusoidal:8x4", "nonsense:8x4"]
    opened = session.open(texts)
    assert counted(opened) == "<span>1 of 8</span>"
    assert [one.text for one in session.shown(session.drawn_with("", texts))] == ["sinusoidal:8x4"]
    assert problems(opened).count("nowhere") == problems(opened).count("nonsense:8x4") + 1 == 2
    more = [f"random:{rows}x8" for rows in range(8, 8 + MOST_SOURCES)]
    assert session.fitting([*texts, *more]) == (["sinusoidal:8x4", *more[:-1]], more[-1:])
    assert session.fitting(texts) == (texts, [])
