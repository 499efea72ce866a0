"""Terms of the field are explained where they are used; on paper, the page is light and has its plots."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.waiting import drawn, open_tab

PAINTED = """(images) => images.map((image) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 200, height: 200 });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, 200, 200);
  return context.getImageData(0, 0, 200, 200).data.filter((value, at) => at % 4 === 3 && value).length > 100;
})"""


def test_a_term_is_explained_once_with_a_picture_and_the_page_is_printed(page: Page, site: Callable[..., str]) -> None:
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
    page.keyboard.press("Escape")

    page.get_by_label("Theme", exact=True).select_option("dark")
    images, header = page.locator(".js-plotly-plot img"), page.get_by_label("Theme", exact=True)
    assert images.count() == 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.wait_for_function("() => [...document.querySelectorAll('.js-plotly-plot img')].every((one) => one.complete)")
    assert images.evaluate_all(PAINTED).count(True) >= 2, "WebGL leaves a printer nothing"
    assert not page.evaluate("document.body.classList.contains('dark')")
    assert not header.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert images.count() == 0
    assert header.is_visible()
    assert page.evaluate("document.body.classList.contains('dark')")
