"""The lessons as somebody plays them: a link, a prediction, what is measured, and on to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest

import hfposemb as hpe
from app.lessons.card import CHOOSE, link
from app.lessons.lessons import LESSONS
from app.session.source_names import short_name

from .waiting import accessible_everywhere, drawn, no_sideways_page, still, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

FIGURES = ("0 apart", "97 of 100", "1 of the pieces", "3 of 5", "R² 0.98", "84%", "98%", "0.74")
"""What is measured of the first source of each lesson; the samples do not change."""

TABS = {"start": "Start", "tokens": "Tokens", "words": "Words + positions", "positions": "Positions"}


def start(page: Page, site: Callable[..., str], query: str = "") -> Locator:
    """Open the app with an address; return the card of the lesson."""
    page.goto(site() + query)
    drawn(page)
    return page.locator(".lesson")


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(str(page.evaluate("location.search")).removeprefix("?"))


def play(page: Page, card: Locator, number: int, guess: int) -> str:
    """Choose one of the predictions, reveal, and return what is said."""
    lesson = LESSONS[number - 1]
    card.get_by_role("heading", name=lesson.title).wait_for()
    card.get_by_text(f"Lesson {number} of 8").wait_for()
    card.get_by_role("radio", name=lesson.choices[guess]).check()
    card.get_by_role("button", name="Reveal").click()
    result = card.get_by_role("status")
    result.get_by_text("Try it:").wait_for()
    return result.inner_text()


@pytest.mark.parametrize("number", range(1, len(LESSONS) + 1))
def test_lesson_is_played(page: Page, site: Callable[..., str], number: int) -> None:
    lesson = LESSONS[number - 1]
    card = start(page, site, link(number))
    until(page, lambda: page.get_by_role("tab", selected=True).first.inner_text(), TABS[lesson.tab])
    card.get_by_role("button", name="Reveal").click()
    card.get_by_text(CHOOSE).wait_for()

    values = [lesson.measure(hpe.extract(source)) for source in lesson.models]
    right = lesson.right(values[0])
    said = play(page, card, number, right)
    assert f"Correct: {lesson.choices[right]}." in said
    for source, value in zip(lesson.models, values, strict=True):
        assert lesson.reveal.format(name=short_name(source), value=value) in said
    assert FIGURES[number - 1] in said.split("\n\n")[0] + said.split("\n")[2]
    assert lesson.exercise in said
    still(page)  # the tab that the lesson is about is drawn, with what it says
    assert query(page)["lesson"] == [str(number)]


def test_a_wrong_guess_the_next_lesson_and_the_way_out(page: Page, site: Callable[..., str]) -> None:
    card = start(page, site)
    assert card.count() == 0 or not card.is_visible()
    page.get_by_text("Eight short lessons").click()
    page.get_by_role("link", name=LESSONS[5].title).click()
    wrong = (LESSONS[5].right(0.84) + 1) % len(LESSONS[5].choices)
    said = play(page, card, 6, wrong)
    assert f"Not quite. Measured: {LESSONS[5].choices[2]}." in said
    assert "Untrained: distance alone explains 1%" in said
    assert page.evaluate("document.activeElement.closest('.lesson') !== null")

    card.get_by_role("link", name="Next: The sum keeps").click()
    said = play(page, card, 7, 2)
    until(page, lambda: page.get_by_role("tab", selected=True).first.inner_text(), "Words + positions")
    assert not any(page.get_by_role("radio", name=choice).count() for choice in LESSONS[5].choices)

    card.get_by_role("link", name="Close").click()
    card.wait_for(state="hidden")
    until(page, lambda: query(page).get("lesson"), None)
    assert query(page)["tab"] == ["words"]
    page.go_back()
    card.get_by_role("heading", name=LESSONS[6].title).wait_for()


def test_sources_that_cannot_show_it_say_why(page: Page, site: Callable[..., str]) -> None:
    card = start(page, site, "?models=sinusoidal%3A64x16&models=alibi%3A64x4&lesson=6&tab=positions")
    said = play(page, card, 6, 0)
    assert "Sinusoid: distance alone explains 100%" in said
    assert "ALiBi: alibi positions have no vector for a position" in said
    page.goto(page.url.partition("?")[0] + "?models=alibi%3A64x4&lesson=2&tab=tokens")
    said = play(page, card, 2, 0)
    assert "None of the sources can show this" in said


def test_lessons_are_for_everybody(page: Page, site: Callable[..., str]) -> None:
    card = start(page, site, link(1))
    until(page, lambda: page.evaluate("document.activeElement.textContent"), LESSONS[0].title)
    card.get_by_role("radio").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    until(page, card.get_by_role("radio").first.is_checked, True)
    for _ in range(3):  # each choice is a stop of its own
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").strip() == "Reveal"
    page.keyboard.press("Enter")
    card.get_by_text("Try it:").wait_for()
    accessible_everywhere(page)


def test_the_list_of_lessons_is_for_everybody(page: Page, site: Callable[..., str]) -> None:
    start(page, site)
    page.get_by_text("Eight short lessons").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name=LESSONS[0].title).wait_for()
    no_sideways_page(page)
    accessible_everywhere(page)
