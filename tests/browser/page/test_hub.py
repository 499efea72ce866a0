"""Hub models in the app as a person meets them: typed, read with a line of progress, stopped, absent, suggested."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Page

from tests.browser.waiting import drawn, open_tab, until
from tests.hub import FakeHub
from tests.hub.gpt2 import small_gpt2

ROWS, WIDTH = 600, 512


@pytest.fixture
def repo(hub: FakeHub) -> str:
    """A GPT-2 whose position table has 1.2 MB, of an owner that no other test has: what was opened stays open."""
    owner = f"owner-{uuid4().hex[:8]}"
    hub.add(f"{owner}/small-gpt", small_gpt2(900, ROWS, WIDTH), downloads=9)
    hub.add(f"{owner}/another-gpt", {"config.json": "{}"}, downloads=1)
    return f"{owner}/small-gpt"


@pytest.fixture
def opened(page: Page, site: Callable[..., str]) -> Page:
    """The app on one small built-in."""
    page.goto(site("sinusoidal:64x16"))
    drawn(page)
    return page


def choose(page: Page, text: str) -> None:
    """Type a source into the source bar."""
    field = page.get_by_label("Models to compare (up to 8)").locator("visible=true")
    field.click()
    field.press_sequentially(text, delay=10)
    field.press("Enter")


def test_a_model_typed_into_the_bar_is_drawn(opened: Page, hub: FakeHub, repo: str) -> None:
    choose(opened, repo)
    shown = opened.locator(f'.panel[data-key="shape {repo}"]:visible').first
    shown.wait_for()
    drawn(opened)
    assert shown.locator(".plot").first.evaluate("(node) => node.querySelector('.stage').data[0].x.length") == ROWS
    foot = opened.locator(".provenance p", has_text=repo)
    said = re.compile(r"commit [0-9a-f]{8} · read 1\.3 MB of 3\.1 MB")
    until(opened, foot.first.inner_text, lambda text: bool(said.search(text)))
    assert "wpe.weight 600 × 512 F32" in foot.first.inner_text()


def test_progress_is_shown_and_cancel_ends_the_read(opened: Page, hub: FakeHub, repo: str) -> None:
    hub.shape(rate=75_000)  # 17 s: a busy machine may take ten to draw the line and to click
    open_tab(opened, "Positions")
    choose(opened, repo)
    line = opened.locator(".work:visible")
    line.get_by_text(re.compile(r"reading small-gpt · .* of 1\.3 MB · .*/s · .* left")).first.wait_for()
    line.get_by_role("button", name="Cancel").first.click()
    until(opened, line.count, 0)
    opened.get_by_role("alert").locator("visible=true").get_by_text("select it again to continue").first.wait_for()
    before = until(
        opened, lambda: (hub.cdn_bytes, opened.wait_for_timeout(1500), hub.cdn_bytes), lambda n: n[0] == n[2]
    )[0]
    assert before < 100_000 + ROWS * WIDTH * 4
    drawn(opened)
    assert opened.locator('.panel[data-key="sinusoidal:64x16"]:visible').count()
