"""The lessons as somebody plays them: a link, a prediction, what is measured, and on to the next."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page

from app.lessons.lessons import LESSONS
from tests.browser.waiting import drawn, query, until


def start(page: Page, site: Callable[..., str]) -> Locator:
    """Open the app; return the card of the lesson."""
    page.goto(site())
    drawn(page)
    return page.locator(".lesson-card")


def play(page: Page, card: Locator, number: int, guess: int) -> str:
    """Choose one of the predictions, reveal, and return what is said."""
    lesson = LESSONS[number - 1]
    card.get_by_role("heading", name=lesson.title).wait_for()
    card.get_by_text(f"Lesson {number} of {len(LESSONS)}").wait_for()
    card.get_by_role("radio", name=lesson.choices[guess]).check()
    card.get_by_role("button", name="Reveal").click()
    result = card.get_by_role("status")
    result.get_by_text("Try it:").wait_for()
    return result.inner_text()


def test_a_wrong_guess_the_next_lesson_and_the_way_out(page: Page, site: Callable[..., str]) -> None:
    card = start(page, site)
    assert card.count() == 0 or not card.is_visible()
    page.get_by_text("Short lessons").click()
    page.get_by_role("link", name=LESSONS[6].title).click()
    wrong = (LESSONS[6].right(0.84) + 1) % len(LESSONS[6].choices)
    said = play(page, card, 7, wrong)
    assert f"Not quite. Measured: {LESSONS[6].choices[2]}." in said
    assert "Untrained: distance alone explains 1\u00a0%" in said
    assert page.evaluate("document.activeElement.closest('.lesson-card') !== null")

    card.get_by_role("link", name="Next: The sum can keep").click()
    said = play(page, card, 8, 2)
    until(page, lambda: page.get_by_role("tab", selected=True).first.inner_text(), "Words + positions")
    assert not any(page.get_by_role("radio", name=choice).count() for choice in LESSONS[6].choices)

    card.get_by_role("link", name="Close").click()
    card.wait_for(state="hidden")
    until(page, lambda: query(page).get("lesson"), None)
    assert query(page)["tab"] == ["words"]
    page.go_back()
    card.get_by_role("heading", name=LESSONS[7].title).wait_for()

    page.goto(page.url.partition("?")[0])
    page.get_by_text(f"2 of {len(LESSONS)} done").wait_for()
    page.get_by_text("Short lessons").click()
    done = [item.inner_text() for item in page.locator(".lessons li.done").all()]
    assert done == [f"{LESSONS[place].title}, done" for place in (6, 7)]
    assert page.locator(".lessons [aria-current]").inner_text() == LESSONS[0].title
