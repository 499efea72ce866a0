"""What a browser remembers of a visitor: the theme and sources of their own, and nothing personal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.waiting import drawn, open_tab, until
from tests.conftest import in_full
from tests.support.app.models import WORDS, checkpoint

if TYPE_CHECKING:
    from playwright.sync_api import Page

SMALL = ("random:42x16", "sinusoidal:42x16")


def _kept(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.evaluate("localStorage.getItem('hfposemb') ?? '{}'"))
    return found


def _dark(page: Page) -> bool:
    return bool(page.evaluate("document.body.classList.contains('dark')"))


@in_full
def test_the_theme_is_chosen_remembered_and_follows_the_system(page: Page, site: Callable[..., str]) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(site(*SMALL))
    drawn(page)
    field = page.get_by_label("Theme", exact=True)
    assert (field.input_value(), _dark(page), _kept(page)) == ("system", False, {})
    page.emulate_media(color_scheme="dark")
    until(page, lambda: _dark(page), True)
    field.select_option("light")
    until(page, lambda: _dark(page), False)
    assert _kept(page) == {"theme": "light"}
    page.reload()
    drawn(page)
    assert (page.get_by_label("Theme", exact=True).input_value(), _dark(page)) == ("light", False)
    page.get_by_label("Theme", exact=True).select_option("system")
    until(page, lambda: _dark(page), True)


def test_own_sources_are_offered_again_and_no_path_is_kept(
    page: Page, site: Callable[..., str], tmp_path: Path
) -> None:
    local = checkpoint(tmp_path / "private", WORDS)
    url = site(*SMALL)
    page.goto(f"{url}?models=random%3A43x16&models={local}&sentence=a+secret&tab=positions")
    drawn(page)
    until(page, lambda: _kept(page), {"sources": ["random:43x16"]})
    page.goto(url)
    drawn(page)
    open_tab(page, "Positions")
    page.locator(".sources input").first.click()
    page.get_by_role("option", name="43").first.wait_for()
    assert _kept(page) == {"sources": ["random:43x16"]}


@in_full
def test_what_stands_in_the_storage_is_read_with_care(page: Page, site: Callable[..., str]) -> None:
    url = site(*SMALL)
    for written in ("not JSON", "[1]", "null", '{"theme": "pink", "sources": "x"}', '{"sources": [1, "<b>", "./x"]}'):
        page.goto(url)
        page.evaluate("(text) => localStorage.setItem('hfposemb', text)", written)
        page.reload()
        drawn(page)
        assert page.get_by_label("Theme", exact=True).input_value() == "system"
