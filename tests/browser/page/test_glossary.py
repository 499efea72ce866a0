"""Terms of the field are explained where they are used."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.waiting import drawn, open_tab


def test_a_term_is_explained_once_in_a_text_with_a_picture(page: Page, site: Callable[..., str]) -> None:
    page.goto(site("random:42x16", "sinusoidal:42x16"))
    drawn(page)
    open_tab(page, "Positions")
    panel = page.locator("section.panel:visible").filter(has=page.locator(".ask")).first
    panel.locator(".ask").click()
    terms = panel.locator(".help .term")
    names = [name.lower() for name in terms.all_inner_texts()]
    assert len(names) == len(set(names)) > 0
    term = terms.first
    card = page.locator(f"[id='{term.get_attribute('aria-describedby')}']")
    assert not card.is_visible()
    term.focus()
    page.keyboard.press("Enter")
    card.wait_for()
    assert len(card.inner_text()) > 30
    assert card.locator("svg path").count() == 2
    box, window = card.bounding_box(), page.viewport_size
    assert 0 <= box["x"] <= window["width"] - box["width"]
    assert 0 <= box["y"] <= window["height"] - box["height"]
    assert panel.locator(".help").is_visible(), "the text that the term is in stays"
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    assert panel.locator(".help").is_visible(), "one press closes one thing"
