"""The tab Positions in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import hfposemb as hpe
from tests.browser import waiting
from tests.browser.waiting import drawn, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


SMALL = ("sinusoidal:64x16", "random:48x12")


def built_in(source: str) -> hpe.EmbeddingTable:
    found = hpe.extract(source).position.table
    assert found is not None
    return found


def open_tab(page: Page, site: Callable[..., str], *sources: str) -> None:
    page.goto(site(*sources))
    waiting.open_tab(page, "Positions")


def panel_of(page: Page, source: str, row: int = 0) -> Locator:
    """The panel of a source in the row of clouds, or the one in the row of tables."""
    return page.locator(f'.panel[data-key="{source}"]:visible').nth(row)


def plot_of(page: Page, source: str, place: int = 0, row: int = 0) -> Locator:
    return panel_of(page, source, row).locator(".plot").nth(place)


def column(plot: Locator, index: int) -> float:
    """Where a heatmap has a column, in pixels of its box."""
    found: float = plot.evaluate(
        """(node, index) => { const { xaxis } = node.querySelector('.stage')._fullLayout;
        return xaxis._offset + xaxis.d2p(index); }""",
        index,
    )
    return found


def marked(page: Page, source: str, place: int) -> list[str]:
    found: list[str] = plot_of(page, source, place).evaluate(
        "(node) => [...new Set([...node.querySelectorAll('.overlay [data-index]')].map((one) => one.dataset.index))]"
    )
    return found


def wait_for_mark(page: Page, index: int, sources: tuple[str, ...] = SMALL) -> None:
    places = [(source, place) for source in sources for place in (0, 1)]
    until(page, lambda: [marked(page, *place) for place in places], [[str(index)]] * len(places))


def test_points_hover_click_and_slider(site: Callable[..., str], page: Page) -> None:
    open_tab(page, site, *SMALL)
    for source in SMALL:
        projection = hpe.project(built_in(source), dims=3)
        for dimension, axis in enumerate("xyz"):
            seen = plot_of(page, source).evaluate(
                "(node, axis) => Array.from(node.querySelector('.stage').data[0][axis])", axis
            )
            assert np.array_equal(np.float32(seen), projection.coordinates[:, dimension])
        z = plot_of(page, source, 1).evaluate(
            "(node) => node.querySelector('.stage').data[0].z.map((row) => Array.from(row))"
        )
        assert np.abs(np.asarray(z) - hpe.similarity(built_in(source))).max() < 1e-4
        ratio = projection.explained_variance_ratio
        assert ratio is not None
        assert f"axes show {100 * sum(ratio):.0f}\u00a0% of the variance" in panel_of(page, source).inner_text()
        assert "of each point’s neighbours" in panel_of(page, source).inner_text()

    heatmap = plot_of(page, SMALL[0], 1)
    heatmap.hover(position={"x": column(heatmap, 30), "y": 60})
    wait_for_mark(page, 30)

    cloud = plot_of(page, SMALL[1])
    wrong = hpe.project(built_in(SMALL[1]), dims=3).trust
    assert wrong is not None
    symbols = cloud.evaluate("(node) => node.querySelector('.stage').data[0].marker.symbol")
    assert [place for place, symbol in enumerate(symbols) if symbol == "circle-open"] == wrong.points[
        wrong.wrong
    ].tolist()

    page.mouse.down()
    page.mouse.up()
    for source in SMALL:
        rows = hpe.neighbours(built_in(source), 30, k=3).rows
        panel_of(page, source).get_by_text(f"Position 30 is closest to {rows[0]} (").wait_for()
        text = panel_of(page, source).inner_text()
        assert all(f"{row} (" in text for row in rows)
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
