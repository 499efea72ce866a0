"""Every tab and every control of the app with real models: no error, no failed line, nothing empty, nothing pending."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.app import serving
from tests.browser.conftest import TIMEOUT
from tests.conftest import FULL

from .walking import TABS, Walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not FULL, reason="uses every control of every tab, which takes many minutes"),
]

WINDOWS = {"light": (1440, 1000), "dark": (1440, 1000), "phone": (360, 780), "wide": (3840, 2160)}
Sources = tuple[str, ...]
GROUPS: dict[str, Sources] = {
    "two": ("minilm", "gpt2", "sinusoidal:512x384"),
    "large": ("gemma", "gpt2"),
    "two stacks": ("whisper", "gpt2"),
}

Start = Callable[..., Walk]


@pytest.fixture(scope="module", params=GROUPS)
def url(request: pytest.FixtureRequest, real: dict[str, str]) -> Iterator[str]:
    """The app with some sources."""
    with serving(*(real.get(name, name) for name in GROUPS[request.param])) as (found, _):
        yield found


@pytest.fixture
def start(browser: Browser, url: str) -> Iterator[Start]:
    """Open the app in a window of some size."""
    contexts = []

    def go(window: str, **options: object) -> Walk:
        width, height = WINDOWS[window]
        context = browser.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        context.set_default_timeout(TIMEOUT)
        walk = Walk(context.new_page(), **options)  # type: ignore[arg-type]
        walk.page.goto(url)
        if window == "dark":
            walk.page.get_by_label("Theme", exact=True).select_option("dark")
        return walk

    yield go
    for context in contexts:
        context.close()


def slowest(walk: Walk) -> str:
    """Return what took longest, for the message of a failure."""
    return json.dumps(sorted(walk.took.items(), key=lambda item: -item[1])[:10])


def test_every_control_of_every_tab(start: Start, request: pytest.FixtureRequest) -> None:
    """Each choice of each control; of the large models one of each group, since each takes minutes."""
    every = request.node.callspec.params["url"] != "large"
    walk = start("light", every=every, patience=900.0)
    walk.rest("load")
    used = {tab: walk.tab(tab) for tab in TABS}
    assert not walk.faults, "\n".join([*walk.faults, slowest(walk)])
    assert all(used[tab] >= 4 for tab in TABS[:5]), used


@pytest.mark.parametrize("window", ["dark", "phone", "wide"])
def test_every_tab_at_every_size(window: str, start: Start) -> None:
    walk = start(window, cancelled=1.0)
    walk.rest("load")
    for tab in TABS:
        walk.open(tab)
    assert not walk.faults, "\n".join([*walk.faults, slowest(walk)])
