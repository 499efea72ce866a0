"""Wait for what a test is about to look at. A fixed pause is either too short on a busy machine or too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qs

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

Value = TypeVar("Value")

POLL = 100  # ms
PATIENCE = 600  # polls

_SEEN = """
  const seen = [...document.querySelectorAll('hfposemb-row .panel')].filter((node) => node.offsetWidth);
  const waiting = document.querySelector('.pending [data-drawing]') !== null;
  const ready = (node) => node.dataset.state === 'drawn' && !node.querySelector('[data-outdated]');
  const drawn = seen.length > 0 && !waiting && seen.every(ready);
"""


def drawn(page: Page) -> None:
    """Wait until every panel on the screen is drawn, and no row of panels waits for others."""
    page.wait_for_function(f"() => {{ {_SEEN} return drawn; }}", polling=POLL)  # not at each frame, which makes frames


def still(page: Page) -> None:
    """Wait until every panel is drawn and nothing fades or moves any more, so that colours and places are final."""
    page.wait_for_function(
        f"""() => {{ {_SEEN}
        const moving = document.getAnimations().filter((one) => one.playState === 'running'
          && Number.isFinite(one.effect.getComputedTiming().endTime));
        const ended = drawn && moving.length === 0;
        window.stillFor = ended ? (window.stillFor ?? 0) + 1 : 0;
        if (window.stillFor < 3) return false;  // a frame may lie between a change and its transition
        window.stillFor = 0;
        return true; }}""",
        polling=POLL / 2,
    )


def until(page: Page, read: Callable[[], Value], expected: Value | Callable[[Value], bool]) -> Value:
    """Read again and again until it is what is expected, which the last reading must be; return that."""
    found = read()
    for _ in range(PATIENCE):
        if expected(found) if callable(expected) else found == expected:
            return found
        page.wait_for_timeout(POLL)
        found = read()
    assert expected(found) if callable(expected) else found == expected, found
    return found


def query(page: Page) -> dict[str, list[str]]:
    """Return what the address of the page says is shown."""
    return parse_qs(str(page.evaluate("location.search")).removeprefix("?"))


def open_tab(page: Page, name: str) -> None:
    """Click a tab and wait until it is the one that is open, and drawn."""
    tab = page.get_by_role("tab", name=name, exact=True)
    tab.click()
    until(page, lambda: tab.get_attribute("aria-selected"), "true")
    drawn(page)


_SHIFTS = """
  window.shifted = 0;
  const add = (list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value; };
  new PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true });
"""


def shifts(page: Page) -> Callable[[], float]:
    """Return a function that returns how far content has moved on the page, from its first request on."""
    page.add_init_script(_SHIFTS)
    return lambda: float(page.evaluate("window.shifted"))


def cell(column: int, row: int) -> str:
    """Return a function of the stage, in JavaScript, that returns the pixels of a cell of its heatmap."""
    return (
        "({ _fullLayout: { xaxis, yaxis } }) => "
        f"[xaxis._offset + xaxis.d2p({column}), yaxis._offset + yaxis.d2p({row})]"
    )


def point(page: Page, plot: Locator, where: str) -> tuple[float, float]:
    """Return a place of the window in a plot: ``where`` is a function of the stage that returns pixels of its box."""
    still(page)
    box = plot.bounding_box()
    x, y = plot.evaluate(f"(node) => ({where})(node.querySelector('.stage'))")
    return box["x"] + x, box["y"] + y


def accessible(page: Page, within: str | None = None) -> None:
    """Fail on any violation that axe finds once nothing moves."""
    still(page)
    found = Axe().run(page, context=within).response["violations"]
    said = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
    assert not said, json.dumps(said, indent=1)


def no_sideways_page(page: Page) -> None:
    """Make the window a phone's, and fail if the page is wider."""
    page.set_viewport_size({"width": 360, "height": 780})
    until(page, lambda: page.evaluate("document.documentElement.scrollWidth"), lambda wide: wide <= 360)
    still(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def accessible_everywhere(page: Page) -> None:
    """Check the page in both themes and on a phone, where it must not scroll sideways."""
    accessible(page)
    page.get_by_label("Theme", exact=True).select_option("dark")
    accessible(page)
    no_sideways_page(page)
    accessible(page)


def unfold_bar(within: Page | Locator) -> None:
    """Show the controls above the pictures that are seldom used."""
    within.locator(".summary button[aria-expanded=false]:visible").first.click()


def held(panel: Locator, name: str) -> Locator:
    """Open the menu of a panel, and return one of its buttons."""
    panel.locator(".more").first.press("Enter")
    return panel.get_by_role("button", name=name, exact=True).first


def panel(page: Page, key: str) -> Locator:
    """Return a panel by its key."""
    return page.locator(f'section.panel[data-key="{key}"]')


def drag(page: Page, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag the pointer over an element, from one share of its width and height to another."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    (x0, y0), (x1, y1) = ((box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
    page.mouse.move(x1, y1)
    page.mouse.up()
