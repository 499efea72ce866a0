"""What a panel does: its drawer, the whole window, and the page that it is saved as."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.waiting import accessible, drawn, held, no_sideways_page, shifts, still, unfold_bar, until

SOURCES = ("sample:gpt2", "sinusoidal:64x16")
PLACES = """() => [...document.querySelectorAll('section.panel')]
  .map((node) => JSON.stringify(node.getBoundingClientRect()))"""

FOUR = ("sample:gpt2", "sinusoidal:64x16", "random:32x8", "rotary:48x8")
# Four sources of a link take more room than the two that this site draws first.
MOVED = 0.25
# Where the plots and the feet of each line of panels start.
LEVELS = """() => [...document.querySelectorAll('hfposemb-row > .grid')].filter((one) => one.offsetWidth)
  .flatMap((grid) => {
  const panels = [...grid.children].filter((panel) => panel.querySelector('.plot'));
  const tops = [...new Set(panels.map((panel) => panel.getBoundingClientRect().top))];
  return tops.flatMap((top) => ['.plot', '.tail'].map((part) => [...new Set(panels
    .filter((panel) => panel.getBoundingClientRect().top === top)
    .map((panel) => Math.round(panel.querySelector(part).getBoundingClientRect().top)))]));
})"""
# What has the focus, and the sides on which its ring is cut off, or that it has none.
RING = """() => {
  const node = document.activeElement;
  const shown = [node, ...node.querySelectorAll('span'), node.parentElement, node.closest('.wrap')].find((one) => {
    const style = one && getComputedStyle(one), ring = /0px 0px 0px 2px/.test(style?.boxShadow);
    return ring || (style && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2);
  });
  if (!shown) return [node.outerHTML.slice(0, 120), 'no ring'];
  const style = getComputedStyle(shown), box = shown.getBoundingClientRect(), cut = [];
  const wide = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset);
  for (let one = shown.parentElement; one; one = one.parentElement) {
    const { overflowX, overflowY } = getComputedStyle(one), edge = one.getBoundingClientRect();
    if (one === document.documentElement) break;
    if (overflowY !== 'visible' && box.top - wide < edge.top - .5) cut.push('top');
    if (overflowY !== 'visible' && box.bottom + wide > edge.bottom + .5) cut.push('bottom');
    if (overflowX !== 'visible' && box.left - wide < edge.left - .5) cut.push('left');
    if (overflowX !== 'visible' && box.right + wide > edge.right + .5) cut.push('right');
  }
  return [node.outerHTML.slice(0, 120), cut.join()];
}"""


def open_page(page: Page, site: Callable[..., str]) -> None:
    page.goto(site(*SOURCES))
    drawn(page)
    still(page)


def test_four_sources_are_level_and_nothing_moves(site: Callable[..., str], page: Page) -> None:
    moved, url = shifts(page), site(*SOURCES)
    for tab in ("start", "compare", "positions"):
        page.goto(f"{url}?models={','.join(FOUR)}&tab={tab}")
        if tab == "compare":
            page.locator(".work .said:visible, .pairs .pair:visible").first.wait_for()  # it may be over already
        still(page)
        assert moved() < MOVED, tab
        for width in (1920, 1440):
            page.set_viewport_size({"width": width, "height": 1000})
            still(page)
            levels = page.evaluate(LEVELS)
            assert levels, tab
            assert all(len(tops) == 1 for tops in levels), (tab, width, levels)

    # On the way through all that the keyboard reaches, the ring around it is whole.
    unfold_bar(page)
    reached = []
    for _ in range(64):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(RING))
    assert [one for one in reached if one[1] and not one[0].startswith("<body")] == []
    found = " ".join(node for node, _ in reached)
    assert all(name in found for name in ("Remove Demo GPT-2", "radio", "range", "combobox", 'role="tab"'))


def test_drawer_moves_nothing_and_returns_the_focus(site: Callable[..., str], page: Page) -> None:
    open_page(page, site)
    first, second = (page.locator(".panel[data-key^='shape ']").nth(place) for place in (0, 1))
    first.evaluate("(node) => node.scrollIntoView({block: 'center'})")
    before = page.evaluate(PLACES)
    held(first, "Table").press("Enter")
    drawer = first.get_by_role("dialog")
    until(page, drawer.is_visible, True)
    still(page)
    assert page.evaluate(PLACES) == before
    box = drawer.bounding_box()
    assert box["x"] + box["width"] == page.evaluate("innerWidth"), "it is at the right edge of the window"
    assert drawer.get_by_role("row").nth(1).inner_text().startswith("0"), "a position far outside is listed"
    accessible(page)
    held(second, "Table").press("Enter")
    assert not drawer.is_visible(), "one is open at a time"
    page.keyboard.press("Escape")
    assert not second.get_by_role("dialog").is_visible()
    assert second.locator(".more").evaluate("(node) => node === document.activeElement")
    assert page.evaluate(PLACES) == before

    no_sideways_page(page)
    held(first, "Python").click()
    until(page, drawer.is_visible, True)
    still(page)
    box = drawer.bounding_box()
    assert box["x"] == 0
    assert box["y"] + box["height"] == page.evaluate("innerHeight"), "on a phone it comes from below"


def test_a_panel_has_the_whole_window_gives_it_back_and_is_saved_as_a_page(
    site: Callable[..., str], page: Page, offline: Page, tmp_path: Path
) -> None:
    open_page(page, site)
    first = page.locator(".panel[data-key^='shape ']").first
    first.evaluate("(node) => node.scrollIntoView({block: 'center'})")
    before = page.evaluate(PLACES)
    font = "(node) => parseFloat(node.querySelector('.stage').layout.font.size)"
    small = first.locator(".plot.deep").evaluate(font)
    first.locator(".more").focus()
    page.keyboard.press("p")
    shown = page.locator("dialog .panel.presented")
    still(page)
    assert shown.locator(".plot.deep").evaluate(font) == 1.6 * small
    plot = shown.locator(".plot.deep").bounding_box()
    assert plot["width"] > 0.45 * page.evaluate("innerWidth"), "the curve has half, its stripes the other"
    assert plot["height"] > 0.5 * page.evaluate("innerHeight")
    assert shown.locator(".scale-bars").is_visible(), "the scale that the row shares is beside it"
    page.evaluate("document.body.classList.add('dark')")
    accessible(page)
    page.evaluate("document.body.classList.remove('dark')")
    for key, expected in (("ArrowRight", "shape sinusoidal:64x16"), ("ArrowLeft", "shape sample:gpt2")):
        page.keyboard.press(key)
        until(page, lambda: shown.get_attribute("data-key"), expected)
    still(page)
    assert page.get_by_text("1 of 2").is_visible()
    page.keyboard.press("Escape")
    assert not shown.count()
    still(page)
    assert page.evaluate(PLACES) == before
    assert first.locator(".more").evaluate("(node) => node === document.activeElement")
    assert first.locator(".plot.deep").evaluate(font) == small

    # What it is saved as draws without a network.
    with page.expect_download() as download:
        held(first, "HTML").click()
    assert download.value.suggested_filename == "demo-gpt-2.html"
    saved = tmp_path / "saved.html"
    download.value.save_as(saved)
    assert saved.stat().st_size < 2.5e6, "plotly is compressed"
    host = urlsplit(page.url).netloc
    assert host not in saved.read_text(encoding="utf-8"), "others cannot open an address of this machine"
    asked: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto(saved.as_uri())
    offline.wait_for_function("() => document.querySelector('.plot canvas')")
    assert offline.evaluate("document.querySelector('.plot').data[0].x.length") == 256
    assert offline.evaluate("document.querySelector('.plot').data[0].hovertext[7]") == "position 7"
    words = offline.locator("body").inner_text()
    assert all(word in words for word in ("Demo GPT-2", "first position", "hfposemb"))
    assert asked == [saved.as_uri()]
