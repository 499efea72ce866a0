"""The address of the page: it says what is shown, a link to it shows the same, and the way back works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

from playwright.sync_api import Browser, Page

from tests.browser.conftest import TIMEOUT
from tests.browser.waiting import drawn, open_tab, query, unfold_bar, until


def _tab(page: Page) -> str:
    return page.get_by_role("tab", selected=True).first.inner_text()


def test_the_address_follows_and_leads_back(page: Page, site: Callable[..., str]) -> None:
    url = site(*SMALLEST)
    page.goto(f"{url}?utm=kept")
    drawn(page)
    open_tab(page, "Positions")
    until(page, lambda: query(page), {"utm": ["kept"], "tab": ["positions"]})
    page.wait_for_timeout(1600)  # changes that follow each other at once are one step back
    unfold_bar(page)
    page.get_by_text("2-D", exact=True).locator("visible=true").click()
    until(page, lambda: query(page), {"utm": ["kept"], "tab": ["positions"], "dims": ["2"]})
    drawn(page)
    page.go_back()
    until(page, lambda: query(page), {"utm": ["kept"], "tab": ["positions"]})
    until(page, lambda: page.get_by_label("3-D", exact=True).first.is_checked(), True)
    page.go_back()
    until(page, lambda: _tab(page), "Start")
    page.go_forward()
    until(page, lambda: _tab(page), "Positions")


def _arrays(page: Page) -> dict[str, Any]:
    """Return every number that is drawn or listed on the screen, by the key of its panel."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".sentence-steps")].filter((one) => one.offsetWidth)
          .map((one) => ["steps", one.innerText]).concat([...document.querySelectorAll("hfposemb-row .panel")]
          .filter((panel) => panel.offsetWidth)
          .map((panel) => [panel.dataset.key, {
            drawn: [...panel.querySelectorAll(".stage")].map((stage) => (stage.data ?? []).map((trace) =>
              ["x", "y", "z"].map((axis) => trace[axis] && JSON.stringify(Array.from(trace[axis], (one) =>
                one?.length === undefined ? one : Array.from(one)))))),
            listed: [...panel.querySelectorAll(".neighbour")].map((row) => row.innerText),
            words: panel.querySelector(".names").innerText,
          }])))"""
    )


def _controls(page: Page) -> list[Any]:
    """Return what every control on the screen holds."""
    return page.evaluate(
        """() => [...document.querySelectorAll("input, textarea")]
          .filter((one) => one.offsetWidth && one.type !== "file")
          .map((one) => [one.ariaLabel || one.closest("label, fieldset, .block")?.innerText.slice(0, 60) || "",
            /radio|checkbox/.test(one.type) ? one.checked : one.value])"""
    )


LINK = {
    "space": "3-D",
    "colour": "Norm",
    "word": "queen",
    "layout": "PCA",
    "words": "king, queen, earth",
    "pairs": "unfolded",
    "spread": "unfolded",
    "odd": "unfolded",
    "search": "regex:^.?kin",
    "selection": "class:unused",
    "centred": "True",
}
"""What a link to a tab may hold, all of it other than at first."""


SOURCES = ("sample:bert", "random:300x64?seed=8")
SMALLEST = ("random:42x16", "sinusoidal:42x16")
"""Where all that a link opens is measured, small tables are enough."""


def test_a_link_opened_elsewhere_shows_the_same(browser: Browser, page: Page, site: Callable[..., str]) -> None:
    page.goto(f"{site(*SOURCES)}?tab=tokens")
    drawn(page)
    plain, first = _settled(page, lambda found: True), _controls(page)
    _follow(page, urlencode({"tab": "tokens", **LINK}))
    until(page, lambda: query(page), {"tab": ["tokens"], **{name: [value] for name, value in LINK.items()}})
    shown = _settled(page, lambda found: found != plain)
    assert shown != plain
    found = _elsewhere(browser, str(page.evaluate("location.href")), lambda found: found == shown)
    assert found["arrays"] == shown
    assert found["controls"] == _controls(page) != first


def test_a_link_copied_at_once_says_what_was_just_chosen(page: Page, site: Callable[..., str]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{site(*SMALLEST)}?tab=positions")
    drawn(page)
    page.get_by_label("number input for Marked position").fill("30")
    assert _copied(page)["position"] == ["30"]
    page.locator(".fold-shifts > button").click()
    assert _copied(page)["shifts"] == ["unfolded"]
    page.locator(".sources:visible").get_by_role("button", name="Remove Sinusoid", exact=True).click()
    assert _copied(page)["models"] == [SMALLEST[0]]
    page.get_by_role("tab", name="Words + positions").click()
    assert _copied(page)["tab"] == ["words"]


def _copied(page: Page) -> dict[str, list[str]]:
    button = page.locator("[data-action='Copy link']")
    until(page, button.inner_text, "Copy link")
    button.click()
    until(page, button.inner_text, "Copied")
    return parse_qs(str(page.evaluate("navigator.clipboard.readText()")).partition("?")[2])


def _follow(page: Page, link: str) -> None:
    """Go to another address as Back and Forward do, without loading the page again."""
    page.evaluate(
        "(link) => { history.pushState(null, '', `?${link}`); dispatchEvent(new PopStateEvent('popstate')); }", link
    )


def _elsewhere(browser: Browser, url: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what an address shows in a browser that has never been here."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT)
    try:
        page = context.new_page()
        page.goto(url)
        drawn(page)
        return {"arrays": _settled(page, enough), "controls": _controls(page)}
    finally:
        context.close()


def _settled(page: Page, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what is drawn, once it is enough and has not changed for a moment, or what there is after a while."""
    found: dict[str, Any] = {}
    for _ in range(20):
        before, found = found, _arrays(page)
        if found == before and enough(found):
            break
        page.wait_for_timeout(1500)
        drawn(page)
    return found
