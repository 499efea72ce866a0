"""What a browser remembers of a visitor: the theme and sources of their own, and nothing personal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.waiting import drawn, open_tab, until
from tests.support.app.models import WORDS, checkpoint

SMALL = ("random:42x16", "sinusoidal:42x16")


def _kept(page: Page) -> dict[str, Any]:
    return json.loads(page.evaluate("localStorage.getItem('hfposemb') ?? '{}'"))


def test_theme_and_sources_are_there_again_and_no_path_is_kept(
    page: Page, site: Callable[..., str], tmp_path: Path
) -> None:
    local = checkpoint(tmp_path / "private", WORDS)
    url = site(*SMALL)
    page.goto(f"{url}?models=random%3A43x16&models={local}&sentence=a+secret&tab=positions")
    drawn(page)
    page.get_by_label("Theme", exact=True).select_option("dark")
    until(page, lambda: _kept(page), kept := {"theme": "dark", "sources": ["random:43x16"]})
    page.goto(url)
    drawn(page)
    assert page.get_by_label("Theme", exact=True).input_value() == "dark"
    open_tab(page, "Positions")
    page.locator(".sources input").first.click()
    page.get_by_role("option", name="43").first.wait_for()
    assert _kept(page) == kept
