"""Pages that are opened from disk, or from a plain server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import TIMEOUT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def plainly_served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder as they are; yield the address, which ends in a slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """An empty page; an error on it, or a request to a server, fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda sent: said.append(sent.url) if sent.url.startswith("http") else None)
    yield page
    context.close()
    assert said == []
