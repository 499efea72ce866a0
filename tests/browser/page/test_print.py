"""The page on paper: light, with its plots, and without what is pressed."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.waiting import drawn

PAINTED = """(images) => images.map((image) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 200, height: 200 });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, 200, 200);
  return context.getImageData(0, 0, 200, 200).data.filter((value, at) => at % 4 === 3 && value).length > 100;
})"""


def test_the_page_on_paper_has_its_plots_in_light_colours(page: Page, site: Callable[..., str]) -> None:
    page.goto(site("random:42x16", "sinusoidal:42x16"))
    drawn(page)
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
