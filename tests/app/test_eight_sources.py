"""Eight folders whose names are long and alike: every tab draws them, tells them apart and stays short."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from hfposemb.app.components.plot import Panel
from hfposemb.app.limits import MOST_SOURCES

from hfposemb.figures.palette import SOURCES
from tests.support.app.models import MANY, checkpoint
from tests.support.app.views import Page, opened_page

LONGEST = 260  # characters of a headline


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Eight small models of a sweep, all with the same words."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    found = [
        checkpoint(
            folder / f"bert-small-trained-on-one-book-{rate}e-4-seed-{seed}",
            ("king", *MANY[:59]),
            rng.normal(size=(60, 16)).astype(np.float32),
        )
        for rate in (1, 3)
        for seed in range(MOST_SOURCES // 2)
    ]
    return opened_page(tuple(found))


def test_sources_have_colours_of_their_own(eight: Page) -> None:
    opened = eight.session.open(eight.session.first)
    assert len({source.name for source in opened}) == len({source.color for source in opened}) == MOST_SOURCES
    assert len({(style.colour.dark, style.dash) for style in SOURCES}) == MOST_SOURCES


@pytest.mark.parametrize("tab", ["start", "positions", "tokens", "words", "compare"])
def test_every_tab_draws_eight_sources(eight: Page, tab: str) -> None:
    views = eight.views(tab, every=False)
    assert len(views) > 1
    for view in views:
        if isinstance(view.shown, Panel):
            assert "Traceback" not in view.shown.message
            assert len(view.shown.title) <= LONGEST, view.shown.title
        else:
            said = [html.unescape(title) for title in re.findall("<h2>(.*?)</h2>", view.shown)]
            assert all(len(title) <= LONGEST for title in said), said
