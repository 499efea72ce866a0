"""The app as a person meets it: from its start to the first picture, then changes of source, clicks, hovers and drags.

A Chromium without a graphics card draws it, on the machine that also serves it; where there is one, all is faster.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from tests.browser.chromium import find
from tests.browser.conftest import FLAGS, TIMEOUT
from tests.browser.waiting import drawn, open_tab, still
from tests.support.app.serving import Visitor

from .cost import ROOT, Row, count, environment, times

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

THE_APP = 13
TABLES = ("random:256x64", "sample:bert"), ("sample:gpt2", "sinusoidal:256x128")
HEADLINE = "() => [...document.querySelectorAll('hfposemb-row h1, hfposemb-row h2')].some((one) => one.offsetWidth)"
FIRST_PANEL = "() => [...document.querySelectorAll('.panel')].some((one) => one.dataset.state === 'drawn')"

# From an event that moves the mark to the mark in another panel: how long the page took, in ms.
WATCH = """([event, from, to]) => new Promise((done) => {
  const panels = [...document.querySelectorAll('hfposemb-row .panel')].filter((one) => one.offsetWidth);
  const [source, target] = [from < 0 ? document : panels[from], panels[to]];
  let began = 0;
  const seen = new MutationObserver(() => {
    if (!began) return;
    seen.disconnect();
    window.took = performance.now() - began;
  });
  seen.observe(target.querySelector('.overlay'), { childList: true });
  source.addEventListener(event, (happened) => { began = happened.timeStamp; }, { capture: true });
  window.took = null;
  done();
})"""

PLAIN = """async (points) => {
  const plotly = await window.hfposemb.plotly, node = document.createElement("div");
  node.style = "position: fixed; inset: 0 auto auto 0; width: 800px; height: 900px";
  document.body.append(node);
  const [x, y] = [0, 1].map(() => Float32Array.from({ length: points }, Math.random)), began = performance.now();
  await plotly.newPlot(node, [{ type: "scattergl", mode: "markers", x, y, marker: { size: 3 } }]);
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  const took = performance.now() - began;
  plotly.purge(node);
  node.remove();
  return took;
}"""


@contextmanager
def serving(*sources: str) -> Iterator[tuple[str, float]]:
    """Serve the app from a process of its own; yield its address, and when the process was started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", f"from app import launch; launch({sources!r}, port={port}, warm=False, quiet=True)"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 0.1).close()
                break
            except OSError:
                time.sleep(0.01)
        yield f"http://127.0.0.1:{port}", began
    finally:
        process.kill()
        process.wait()


def app_rows(folder: Path, *, rounds: int, points: int = 50_000) -> Iterator[Row]:
    """Yield what the app takes, nothing where there is no Chromium."""
    path = find()
    if path is None:
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=TIMEOUT)
        yield _row("from the process to the first panel", start_times(browser, rounds=rounds), 4_000)
        yield from slow_rows(browser, rounds=rounds)
        yield from server_rows(rounds=rounds)
        yield from link_rows(browser, rounds=rounds)
        yield map_row(browser, folder, rounds=rounds, points=points)
        browser.close()


def _row(name: str, found: Sequence[float], most: float) -> Row:
    """Judge the median of milliseconds."""
    return count(THE_APP, f"app: {name}", median(found), most, unit="ms")


def start_times(browser: Browser, *, rounds: int) -> list[float]:
    """Return the milliseconds from the start of a process to the first panel drawn, after one that does not count."""
    found = []
    for _ in range(rounds + 1):
        with serving() as (url, began), _page(browser, url) as page:
            page.wait_for_function(FIRST_PANEL)
            found.append(1e3 * (time.perf_counter() - began))
    return found[1:]


def slow_rows(browser: Browser, *, rounds: int) -> Iterator[Row]:
    """Yield what a page takes on a processor four times slower: until a headline, a panel, and a tab shown again."""
    told, first, again = [], [], []
    with serving() as (url, _):
        for _ in range(rounds + 1):
            with _page(browser, "about:blank") as page:
                page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
                began = time.perf_counter()
                page.goto(url, wait_until="commit")
                page.wait_for_function(HEADLINE)
                told.append(1e3 * (time.perf_counter() - began))
                page.wait_for_function(FIRST_PANEL)
                first.append(1e3 * (time.perf_counter() - began))
                for tab in ("Positions", "Start"):
                    open_tab(page, tab)
                began = time.perf_counter()
                open_tab(page, "Positions")
                again.append(1e3 * (time.perf_counter() - began))
    yield _row("from the address to the first headline, processor 4 x slower", told[1:], 5_000)
    yield _row("from the address to the first panel, processor 4 x slower", first[1:], 5_000)
    yield _row("Positions shown again, processor 4 x slower", again[1:], 1_000)


@contextmanager
def _page(browser: Browser, url: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.set_default_timeout(TIMEOUT)
    try:
        page.goto(url)
        yield page
    finally:
        page.close()


def server_rows(*, rounds: int) -> Iterator[Row]:
    """Yield for each tab what the server computes when cached sources take each other's places, all handlers summed."""
    with serving(*TABLES[0]) as (url, _):
        page = Visitor(url)
        for tab in ("Start", "Positions", "Tokens", "Words + positions", "Compare"):
            page.show(tab)
            for sources in TABLES:  # into the cache
                page.choose(list(sources))
            found = []
            for turn in range(2 * rounds):
                messages = page.choose(list(TABLES[turn % 2]))
                found.append(sum((one.get("output") or {}).get("duration") or 0.0 for one in messages) * 1e3)
            yield _row(f"other cached sources in {tab}, server", found, 300)
        page.close()


def link_rows(browser: Browser, *, rounds: int) -> Iterator[Row]:
    """Yield how long a mark takes to follow the pointer in another panel, and the slider while it is dragged."""
    with serving("sample:gpt2", "sample:bert") as (url, _), _page(browser, url) as page:
        drawn(page)
        open_tab(page, "Positions")
        still(page)
        box = page.locator(".panel:visible .plot").nth(1).bounding_box()
        assert box
        yield _row(
            "hover, to the mark in another panel",
            followed(page, "pointermove", (0, 1), 4 * rounds, lambda turn: _over(page, box, turn)),
            80,
        )
        slider = page.get_by_role("slider", name="Marked position")
        room = slider.bounding_box()
        assert room
        page.mouse.move(room["x"] + 5, room["y"] + room["height"] / 2)
        page.mouse.down()
        times = followed(page, "input", (-1, 1), 4 * rounds, lambda turn: _drag(page, room, turn))
        page.mouse.up()
        yield _row("slider while it is dragged, to the mark", times, 80)


def _over(page: Page, box: dict[str, float], turn: int) -> None:
    """Move the pointer over the matrix, a square in the middle of its plot."""
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] - 60 + 7 * turn, middle[1] - 50 + 5 * turn)


def _drag(page: Page, room: dict[str, float], turn: int) -> None:
    """Drag the slider by some positions."""
    page.mouse.move(room["x"] + 20 + 9 * turn, room["y"] + room["height"] / 2)


def followed(page: Page, event: str, panels: tuple[int, int], times: int, act: Callable[[int], None]) -> list[float]:
    """Act again and again, and return how long the mark in the second of the panels took to follow each time."""
    found = []
    for turn in range(times):
        page.evaluate(WATCH, [event, *panels])
        act(turn)
        page.wait_for_function("() => window.took !== null", polling=10)
        found.append(float(page.evaluate("window.took")))
    return found


def map_row(browser: Browser, folder: Path, *, rounds: int, points: int) -> Row:
    """Return how long the map of one of two large vocabularies takes from the click to the picture.

    Bound is what plotly takes for as many points that are in the page already: no server, no labels, no enlarged part.
    """
    sources = [write_bert(folder / name, points, seed=seed) for seed, name in enumerate(("left", "right"))]
    found, plain = [], []
    with serving(*sources) as (url, _), _page(browser, url) as page:
        drawn(page)
        open_tab(page, "Tokens")
        for turn in range(2 * rounds + 1):
            name = Path(sources[1 - turn % 2]).name
            still(page)
            began = time.perf_counter()
            page.get_by_role("radio", name=name).click()
            page.locator(f".panel[data-key=map][data-state=drawn] .subtitle:has-text('{name}')").wait_for()
            found.append(time.perf_counter() - began)
            plain.append(1e-3 * page.evaluate(PLAIN, points))
    ours, bound = median(found[1:]), median(plain[1:])
    name = f"app: click to the map of {points:,} of 2 × {points:,} tokens"
    took, least = (f"{1e3 * seconds:,.0f} ms" for seconds in (ours, bound))
    return Row(THE_APP, name, took, least, times(ours / bound), f"≤ {times(1.5)}", ours <= 1.5 * bound)


def write_bert(folder: Path, tokens: int, *, width: int = 64, seed: int = 0) -> str:
    """Write a BERT with random vectors for so many words, and return it as a source."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    shapes = {"word": (tokens, width), "position": (256, width)}
    stored = {
        f"embeddings.{name}_embeddings.weight": random.standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }
    save_file(stored, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("king\nqueen\n" + "".join(f"word{row}\n" for row in range(tokens - 2)))
    config = {"model_type": "bert", "max_position_embeddings": 256, "hidden_size": width, "vocab_size": tokens}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)
