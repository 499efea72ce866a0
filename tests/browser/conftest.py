"""A real browser for the tests of this folder: they fail on a JavaScript error or a request that leaves the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from app import own_folder

from .chromium import find

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

if TYPE_CHECKING:
    import gradio as gr
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

REQUIRED = "HFPOSEMB_REQUIRE_BROWSER"
TIMEOUT = 90_000  # ms; software WebGL on a busy machine is slow
HOME = {"127.0.0.1", "localhost"}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",  # without a graphics card the CPU composes a page faster than the emulated one does
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def _missing(reason: str) -> None:
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{reason} {REQUIRED}=1 asks for one.")
    pytest.skip(f"{reason} Put a Chromium on PATH or run: playwright install chromium")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A Chromium: the one on PATH, or Playwright's own. It ends with this folder, and its event loop with it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("The playwright package is not installed.")
    path = find()
    if path is None:
        _missing("No Chromium was found.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=TIMEOUT)
        yield browser
        browser.close()


# What Gradio's client logs when a page is left while an event of its is running.
LEFT = ("AbortError: signal is aborted", "Unexpected error Connection errored out")


def _said(message: ConsoleMessage) -> str:
    return f"console: {message.text} ({message.location.get('url', '')})"


def launched(blocks: gr.Blocks, **options: Any) -> str:
    """Start an app in this process and return its URL."""
    url: str = blocks.launch(
        prevent_thread_lock=True,
        quiet=True,
        server_name="127.0.0.1",
        ssr_mode=False,
        footer_links=["api"],
        **options,
    )[1]
    return url


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start apps in this process; each call returns the URL of one."""
    started: list[gr.Blocks] = []

    def start(blocks: gr.Blocks, **options: Any) -> str:
        url = launched(blocks, **options)
        started.append(blocks)
        return url

    yield start
    for blocks in started:
        blocks.close(verbose=False)


def built(sources: tuple[str, ...]) -> tuple[gr.Blocks, dict[str, Any]]:
    """Build the app on some sources; return it and the options that its command starts it with.

    Its files stay when it closes: they are named after their content, so another app of this process may serve them.
    """
    import app
    from app.components import theme

    own_folder()  # not the one that the tests running next to these share
    blocks = app.build(sources=sources)
    blocks.delete_cache = None
    return blocks, {"theme": theme.theme(), "css": theme.css()}


@pytest.fixture(scope="package")
def site() -> Iterator[Callable[..., str]]:
    """The address of an app that opens some sources. Tests that name the same sources share it and what it measured."""
    running: dict[tuple[str, ...], tuple[gr.Blocks, str]] = {}

    def find(*sources: str) -> str:
        if sources not in running:
            blocks, options = built(sources)
            running[sources] = blocks, launched(blocks, **options)
        return running[sources][1]

    yield find
    for blocks, _ in running.values():
        blocks.close(verbose=False)


@pytest.fixture
def own_site(serve: Callable[..., str]) -> Callable[..., str]:
    """The address of an app that no other test has used."""

    def start(*sources: str) -> str:
        blocks, options = built(sources)
        return serve(blocks, **options)

    return start


@contextmanager
def faultless(browser: Browser, *, home: Collection[str] = HOME) -> Iterator[Page]:
    """Open a page of 1440 × 1000 in its own context, and fail if it logs an error or asks another host than ``home``.

    An event that was running when the test went to another page may log that it was aborted; without a navigation
    after it that is an error as well.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    faults: list[str] = []
    aborted: list[str] = []

    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            (aborted if message.text.startswith(LEFT) else faults).append(_said(message))

    def request(asked: Request) -> None:
        url = urlsplit(asked.url)
        if url.scheme not in ("data", "blob", "file") and url.hostname not in home:
            faults.append(f"left the machine: {asked.url[:200]}")

    page.on("request", request)
    page.on("pageerror", lambda error: faults.append(f"JavaScript error: {error}"))
    page.on("console", said)
    page.on("domcontentloaded", lambda _: aborted.clear())
    page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    faults += aborted
    context.close()
    assert not faults, "\n".join(faults)


@pytest.fixture
def page(browser: Browser, serve: Callable[..., str]) -> Iterator[Page]:
    """A page of a single test. It ends before the apps of the test do, as without its app a page logs an error."""
    with faultless(browser) as page:
        yield page


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page for files, which must ask no server."""
    with faultless(browser, home=()) as page:
        yield page
