"""What a browser asks for and receives: at the first visit, and at the next ones. Counts and bytes, never times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

import app
from tests.browser.waiting import drawn, open_tab


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The app as its command serves it."""
    blocks = app.launch(warm=False, prevent_thread_lock=True, quiet=True)
    yield str(blocks.local_url)
    blocks.close(verbose=False)


@pytest.fixture
def received(page: Page) -> Iterator[dict[str, dict[str, Any]]]:
    """What the page has asked for, by request: its address, and the bytes that came; none came from the cache."""
    found: dict[str, dict[str, Any]] = {}
    network = page.context.new_cdp_session(page)

    def asked(event: dict[str, Any]) -> None:
        if event["request"]["url"].startswith("http"):
            found[event["requestId"]] = {"url": event["request"]["url"], "bytes": 0}

    def ended(event: dict[str, Any]) -> None:
        if one := found.get(event["requestId"]):
            one["bytes"] = event["encodedDataLength"]

    network.on("Network.requestWillBeSent", asked)
    network.on("Network.loadingFinished", ended)
    network.send("Network.enable")
    yield found
    network.detach()


def test_visits_and_a_tab(address: str, page: Page, received: dict[str, dict[str, Any]]) -> None:
    """Nothing is loaded twice; a browser keeps the modules and scripts, and asks for the page and its numbers alone."""
    page.goto(address)
    drawn(page)
    first = list(received.values())
    addresses = [one["url"] for one in first if "/queue/" not in one["url"]]
    assert len(addresses) == len(set(addresses))
    assert len(first) <= 83
    assert sum(one["bytes"] for one in first) <= 1_150_000
    plotly = [one["bytes"] for one in first if one["url"].endswith("/plotly.min.js")]
    assert len(plotly) == 1
    assert plotly[0] <= 700_000

    received.clear()
    page.reload()
    drawn(page)
    again = [one for one in received.values() if one["bytes"]]
    assert len(again) <= 16, [one["url"] for one in again]
    assert sum(one["bytes"] for one in again) <= 150_000

    received.clear()
    open_tab(page, "Positions")
    kinds = {one["url"].partition("?")[0].rpartition(".")[2] for one in received.values()}
    assert not any(one["url"].endswith(("hfposemb.js", "plotly.min.js", "hfposemb.css")) for one in received.values())
    assert "bin" in kinds, "numbers are files"
