"""Pages that are opened from disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import TIMEOUT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


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
