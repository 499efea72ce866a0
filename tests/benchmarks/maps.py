"""Two maps of a large vocabulary in the app: one in place of the other in the Tokens tab, and both in a row of panels.

A picture counts once the frame with it has been composed, which without a graphics card is half of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.browser.chromium import find
from tests.browser.conftest import FLAGS, TIMEOUT
from tests.browser.waiting import drawn, open_tab, still

from .app import followed, running, serving
from .cost import Row, count
from .size import GEMMA, SIZE, write_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("first", "second")
CLICK, HOVER = 2_500, 80  # ms
MEMORY = 600
"""Megabytes of the process of the page and of the one that draws for it, their own memory as the kernel counts it."""

# A server whose page has two buttons: each draws both maps in a row, in one order or the other. A click costs all that
# one in the app does once its projections are known.
BOTH = """
import gradio as gr
import numpy as np
import hfposemb
from app.components import theme
from app.components.plot import Drawing, Panel, PanelRow
from hfposemb.figures.token_figures import token_map
from hfposemb.tables.table import Labels, Provenance, table_of

def made(seed, rows={rows}):
    random = np.random.default_rng(seed)
    words = tuple(f"{{row:x}}" for row in range(rows))
    labels = Labels(words, words, random.integers(3, size=rows).astype(np.uint8))
    vectors = random.standard_normal((rows, 8), dtype=np.float32)
    table = table_of(vectors, name="made", provenance=Provenance("made"), named=lambda: labels)
    return hfposemb.project(table, method="pca", dims=2), labels

maps = [made(seed) for seed in range(2)]

def panels(first):
    figures = [token_map(*maps[place], selected=5, height=580) for place in (first, 1 - first)]
    return [Panel(f"map-{{at}}", f"click {{first}}", (Drawing(one),)) for at, one in enumerate(figures)]

with gr.Blocks() as blocks:
    row = PanelRow()
    for first, name in enumerate({names}):
        gr.Button(name).click(lambda first=first: panels(first), outputs=row)
blocks.launch(server_port=port, theme=theme.theme(), css=theme.css(), quiet=True)
"""


def map_rows(folder: Path, *, rounds: int) -> Iterator[Row]:
    """Yield what two maps of the larger vocabulary take; nothing where there is no Chromium."""
    path = find()
    if path is None:
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        for measured in (_one_for_the_other(folder), _both):
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=TIMEOUT)
            yield from measured(browser, rounds)
            browser.close()


def _one_for_the_other(folder: Path) -> Callable[[Browser, int], Iterator[Row]]:
    def measured(browser: Browser, rounds: int) -> Iterator[Row]:
        for seed, name in enumerate(NAMES):
            write_model(folder / name, GEMMA, seed=seed)
        with serving(*(str(folder / name) for name in NAMES)) as (url, _):
            page = _opened(browser, url)
            drawn(page)
            open_tab(page, "Tokens")

            def click(name: str) -> None:
                page.get_by_role("radio", name=name).click()
                page.locator(f".panel[data-key=map][data-state=drawn] .subtitle:has-text('{name}')").wait_for()

            yield from _judged(page, "one for the other in Tokens", click, rounds, "map", panels=(0, 0))

    return measured


def _both(browser: Browser, rounds: int) -> Iterator[Row]:
    with running(f"exec({BOTH.format(rows=GEMMA.rows, names=NAMES)!r})") as (url, _):
        page = _opened(browser, url)

        def click(name: str) -> None:
            page.get_by_role("button", name=name).click()
            page.locator(f".panel[data-state=drawn] h3:has-text('click {NAMES.index(name)}')").nth(1).wait_for()

        yield from _judged(page, "side by side", click, rounds, "map-0", panels=(0, 1))


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(TIMEOUT)
    page.goto(url)
    return page


def _judged(
    page: Page, how: str, click: Callable[[str], None], rounds: int, key: str, *, panels: tuple[int, int]
) -> Iterator[Row]:
    """Click and point; ``panels`` are the place of the panel under the pointer, and of that whose mark follows."""
    clicks, memory = [], []
    for turn in range(2 * rounds + 2):
        if turn:
            still(page)
        began = time.perf_counter()
        click(NAMES[1 - turn % 2])
        page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go)))")
        clicks.append(1e3 * (time.perf_counter() - began))
        memory.append(page_memory() / 1e6)
    what = f"app: 2 maps of {GEMMA.rows:,} tokens {how}"
    yield count(SIZE, f"{what}, click to drawn", clicks[2:], CLICK, unit="ms")
    still(page)
    box = page.locator(f".panel[data-key={key}] .plot").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2 - 60, box["y"] + box["height"] / 2 - 50
    hovers = followed(page, "pointermove", panels, 6 * rounds, lambda turn: page.mouse.move(x + 9 * turn, y + 7 * turn))
    yield count(SIZE, f"{what}, hover", hovers, HOVER, unit="ms")
    yield count(SIZE, f"{what}, memory of the page, at most", max(memory), MEMORY, unit="MB")
    page.close()


def page_memory() -> int:
    """Return the bytes that the process of the page and the one that draws for it share with no other process."""
    found = {"renderer": 0, "gpu-process": 0}
    for one in psutil.Process().children(recursive=True):
        kind = next((word.partition("=")[2] for word in one.cmdline() if word.startswith("--type=")), "")
        if kind in found:
            found[kind] = max(found[kind], one.memory_full_info().uss)
    return sum(found.values())
