"""Take the pictures of the documentation from the app: ``make pictures``, or ``python -m tests.pictures NAME …``.

Every tab in light, in dark, at the width of a phone and of a 4K screen, a panel in the whole window, the panels of the
gallery, and the README's picture, in few colours so that they stay small. The README's shows OpenAI's position table,
which is no part of this project: it is taken where ``HFPOSEMB_GPT2`` names a folder with it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from app import TABS
from app.lessons.card import link
from tests.browser.chromium import find
from tests.browser.conftest import FLAGS, TIMEOUT, launched
from tests.browser.waiting import held, still
from tests.gallery import FINDINGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).parent.parent / "docs"
COLOURS = 256


@dataclass(frozen=True)
class Picture:
    """One picture: where it goes, the address it is of, the size of the window, and which panel, if not the window."""

    path: str
    query: str = ""
    width: int = 1440
    height: int = 1000
    dark: bool = False
    panel: str = ""
    presented: str = ""  # the panel that has the whole window
    shrink: float = 1.0
    real: bool = False  # of OpenAI's GPT-2
    is_strip: bool = False  # of the sentence on Start, step by step


def tabs() -> Iterator[Picture]:
    """Yield a picture of every tab in light, in dark, and at the widths of a phone and of a 4K screen."""
    for tab in TABS:
        wide = Picture(f"pictures/{tab}-light.png", f"?tab={tab}", shrink=0.75)
        yield wide
        yield replace(wide, path=f"pictures/{tab}-dark.png", dark=True)
        yield Picture(f"pictures/{tab}-phone.png", f"?tab={tab}", 360, 1200)
        yield Picture(f"pictures/{tab}-3840.png", f"?tab={tab}", 3840, 2160, shrink=0.375)


PICTURES: tuple[Picture, ...] = (
    Picture("positions.png", "?tab=positions", height=1320, shrink=0.75, real=True),
    Picture("../app/static/preview.png", "", 1440, 756, shrink=1200 / 1440),  # of a link, in messengers
    *tabs(),
    Picture("pictures/sentence.png", width=1000, shrink=0.75, is_strip=True),
    Picture("pictures/lesson-light.png", link(6), shrink=0.75),
    Picture("pictures/present.png", "?tab=positions", 1920, 1080, presented="sample:minilm", shrink=0.5),
    *(
        Picture(f"pictures/{finding.picture}.png", finding.query, panel=finding.panel)
        for finding in FINDINGS
        if finding.picture
    ),
)


def take(browser: Browser, url: str, picture: Picture) -> bytes:
    """Return a picture as PNG."""
    page = browser.new_page(viewport={"width": picture.width, "height": picture.height})
    page.set_default_timeout(TIMEOUT)
    try:
        page.goto(url + picture.query)
        _arrived(page, picture)
        if picture.is_strip:
            return strip(page)
        if picture.dark:
            page.get_by_label("Theme", exact=True).select_option("dark")
            still(page)
        if picture.presented:
            panel = page.locator(f'section.panel[data-key="{picture.presented}"]:visible').first
            held(panel, "Present").click()
            still(page)
        if not picture.panel:
            return page.screenshot()
        panel = page.locator(f'section.panel[data-key="{picture.panel}"]').first
        panel.scroll_into_view_if_needed()
        still(page)
        return panel.screenshot()
    finally:
        page.close()


def strip(page: Page) -> bytes:
    """Return the sentence on Start as a film strip: its steps, a number opened, another piece, and tables by hand."""
    steps = page.locator(".sentence-steps.html-container, .sentence-steps").last
    pieces, sums, shape = (steps.locator("section").nth(place) for place in range(3))

    def opened() -> bytes:
        sums.locator("details:visible").nth(1).locator("summary").click()
        return sums.screenshot()

    def another() -> bytes:
        pieces.locator("label").nth(1).click()
        return sums.screenshot()

    def by_hand() -> bytes:
        page.locator(".sentence-card .segmented label").nth(1).click()
        still(page)
        return steps.screenshot()

    frames = [pieces.screenshot(), sums.screenshot(), opened(), another(), shape.screenshot(), by_hand()]
    return joined(frames)


def joined(frames: list[bytes]) -> bytes:
    """Return pictures below each other as one."""
    from PIL import Image

    images = [Image.open(BytesIO(png)).convert("RGB") for png in frames]
    whole = Image.new("RGB", (max(one.width for one in images), sum(one.height + 12 for one in images)), "white")
    top = 0
    for one in images:
        whole.paste(one, (0, top))
        top += one.height + 12
    out = BytesIO()
    whole.save(out, "PNG")
    return out.getvalue()


def _arrived(page: Page, picture: Picture) -> None:
    """Wait until the tab of the address is drawn, and nothing is being computed for it any more."""
    wanted = next((tab for tab in TABS if f"tab={tab}" in picture.query), "start")
    place = TABS.index(wanted)
    page.wait_for_function(
        f"() => document.querySelectorAll('[role=tab]')[{place}]?.getAttribute('aria-selected') === 'true'"
    )
    if "lesson=" in picture.query:
        page.locator(".lesson-card h2").wait_for()
    still(page)
    unfinished = ".work, .bones, .late-tab"  # jobs, and what stands for panels that are not there yet
    page.wait_for_function(f"() => ![...document.querySelectorAll('{unfinished}')].some((one) => one.offsetWidth)")
    still(page)
    page.evaluate("document.activeElement?.blur()")


def small(png: bytes, shrink: float) -> bytes:
    """Return a picture in few colours, and smaller where asked."""
    from PIL import Image

    image = Image.open(BytesIO(png)).convert("RGB")
    size = (round(image.width * shrink), round(image.height * shrink))
    image = image.resize(size, Image.Resampling.LANCZOS) if shrink != 1 else image
    out = BytesIO()
    # By coverage: by number alone, the greys of the page would take the colours of lines and links.
    few = image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


def main(names: list[str]) -> int:
    """Take all pictures, or those whose path has one of the names in it."""
    os.environ.setdefault("HFPOSEMB_CACHE", tempfile.mkdtemp())
    from playwright.sync_api import sync_playwright

    import app
    from app.components import theme

    chromium = find()
    if chromium is None:
        print("No Chromium was found: put one on PATH, or run: playwright install chromium")
        return 1
    wanted = [one for one in PICTURES if not names or any(name in one.path for name in names)]
    (DOCS / "pictures").mkdir(exist_ok=True)
    folder = os.environ.get("HFPOSEMB_GPT2")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as places:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), timeout=TIMEOUT)
        for real in {one.real for one in wanted}:
            if real and not folder:
                print("HFPOSEMB_GPT2 names no folder with OpenAI's position table, so its picture stays as it is")
                continue
            sources: tuple[str, ...] = ()
            if real and folder:
                (named := Path(places) / "GPT-2").symlink_to(folder)
                sources = (str(named), "sample:minilm", "sinusoidal:512x384")
            blocks = app.build(sources=sources)
            url = launched(blocks, theme=theme.theme(), css=theme.css())
            for picture in (one for one in wanted if one.real == real):
                done = small(take(browser, url, picture), picture.shrink)
                (DOCS / picture.path).write_bytes(done)
                print(f"{picture.path} {len(done) / 1000:.0f} kB", flush=True)
            blocks.close(verbose=False)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
