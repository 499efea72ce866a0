"""The Training tab as a person uses it: the slider, by mouse and keys and by itself; links; a phone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from playwright.sync_api import Page

from app.tabs.training import Handlers
from tests.browser.waiting import drawn, panel, query, until

QUERY = "models=sample:gpt2&models=sinusoidal:32x8&tab=training&revisions=step-[24]*"
"""Four steps: 200, 400, 450 and 2,000."""


@pytest.fixture
def training(page: Page, site: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Open the tab on a few steps of a sample, with few draws of chance; return where it is served."""
    monkeypatch.setattr("app.limits.TRAINING_DRAWS", 2)

    def start(query: str) -> str:
        url = site()
        page.goto(f"{url}?{query}")
        panel(page, "training-course").wait_for()
        drawn(page)
        return url

    return start


def _title(page: Page) -> str:
    return panel(page, "training-map").get_by_role("heading").first.inner_text()


def test_the_slider_leads_through_the_training(page: Page, training: Callable[[str], str]) -> None:
    training(QUERY)
    until(page, lambda: _title(page), lambda said: "Final map, step 2,000" in said)
    slider = page.get_by_role("slider", name="Training step")
    assert slider.get_attribute("aria-valuetext") == "step 2,000"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    until(page, lambda: _title(page), lambda said: "At step 450, the aligned map differs" in said)
    until(page, lambda: query(page).get("step"), ["450"])
    assert slider.evaluate("(node) => node === document.activeElement"), "it can be moved on"
    page.keyboard.press("Home")
    until(page, lambda: _title(page), lambda said: "At step 200, " in said)
    upright = panel(page, "training-course").locator(".stage").evaluate("(node) => node.layout.shapes[0].x0")
    assert upright == 200
    page.get_by_role("button", name="Play").click()
    until(page, lambda: _title(page), lambda said: "At step 4" in said)
    until(page, lambda: _title(page), lambda said: "Final map, step 2,000" in said)
    page.get_by_role("button", name="Play").wait_for()  # it ended by itself
    assert slider.get_attribute("aria-valuetext") == "step 2,000"


def test_a_slow_server_answers_what_was_asked_last(
    page: Page, training: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradio's page repeats what was asked while it waited with what the first event said, if told to keep the last."""
    moved = Handlers.moved

    @wraps(moved)
    def slow(*values: Any) -> Any:
        time.sleep(1.2)
        return moved(*values)

    monkeypatch.setattr(Handlers, "moved", slow)
    training(f"{QUERY}&step=200")
    slider = page.get_by_role("slider", name="Training step")
    until(page, lambda: slider.get_attribute("aria-valuetext"), "step 200")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for()  # it ended by itself
    until(page, lambda: _title(page), lambda said: "Final map, step 2,000" in said)
    assert slider.get_attribute("aria-valuetext") == "step 2,000"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(400)
    page.keyboard.press("Home")
    until(page, lambda: _title(page), lambda said: "At step 200, " in said)
    page.wait_for_timeout(2500)
    assert "At step 200, " in _title(page)
