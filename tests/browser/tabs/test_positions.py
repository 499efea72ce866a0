"""The tab Positions in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Locator, Page

from tests.browser import waiting
from tests.browser.waiting import drawn, until

SMALL = ("sinusoidal:64x16", "random:48x12")


def open_tab(page: Page, site: Callable[..., str], *sources: str) -> None:
    page.goto(site(*sources))
    waiting.open_tab(page, "Positions")


def panel_of(page: Page, source: str) -> Locator:
    """The panel of a source in the row of clouds."""
    return page.locator(f'.panel[data-key="{source}"]:visible').first


def plot_of(page: Page, source: str, place: int) -> Locator:
    return panel_of(page, source).locator(".plot").nth(place)


def column(plot: Locator, index: int) -> float:
    """Where a heatmap has a column, in pixels of its box."""
    return plot.evaluate(
        """(node, index) => { const { xaxis } = node.querySelector('.stage')._fullLayout;
        return xaxis._offset + xaxis.d2p(index); }""",
        index,
    )


def marked(page: Page, source: str, place: int) -> list[str]:
    return plot_of(page, source, place).evaluate(
        "(node) => [...new Set([...node.querySelectorAll('.overlay [data-index]')].map((one) => one.dataset.index))]"
    )


def wait_for_mark(page: Page, index: int) -> None:
    places = [(source, place) for source in SMALL for place in (0, 1)]
    until(page, lambda: [marked(page, *place) for place in places], [[str(index)]] * len(places))


def test_points_hover_click_and_slider(site: Callable[..., str], page: Page) -> None:
    open_tab(page, site, *SMALL)
    for source in SMALL:
        said = panel_of(page, source).inner_text()
        assert re.search("axes show \\d+\u00a0% of the variance", said)
        assert "of each point’s neighbours" in said

    heatmap = plot_of(page, SMALL[0], 1)
    heatmap.hover(position={"x": column(heatmap, 30), "y": 60})
    wait_for_mark(page, 30)

    symbols = plot_of(page, SMALL[1], 0).evaluate("(node) => node.querySelector('.stage').data[0].marker.symbol")
    assert set(symbols) == {"circle", "circle-open"}, "what is misplaced is hollow"

    page.mouse.down()
    page.mouse.up()
    for source in SMALL:
        panel_of(page, source).get_by_text("Position 30 is closest to").wait_for()
    drawn(page)
    page.mouse.move(2, 2)
    wait_for_mark(page, 30)

    calls: list[str] = []
    page.on("request", lambda asked: calls.append(asked.url))
    slider = page.locator("input[type=range]:visible")
    until(page, slider.input_value, "30")
    assert slider.get_attribute("max") == "63"
    slider.focus()
    slider.fill("12")
    wait_for_mark(page, 12)
    assert not calls, "dragging asks nobody"
    slider.dispatch_event("pointerup")
    for source in SMALL:
        panel_of(page, source).get_by_text("Position 12 is closest to").wait_for()
