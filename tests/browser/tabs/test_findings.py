"""Odd tokens and requirements as a person meets them: a click on an odd token shows it, every source has its panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.browser.waiting import open_tab, still, until
from tests.support.app.models import WORDS, checkpoint

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_a_click_on_an_odd_token_shows_it_and_positions_have_their_requirements(
    page: Page, own_site: Callable[..., str], tmp_path: Path
) -> None:

    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 16)).astype(np.float32)
    source = checkpoint(tmp_path / "bert", WORDS, vectors)
    page.goto(own_site(source, "counting:64x8"))
    open_tab(page, "Tokens")
    page.locator(".fold-odd > button").click()
    odd = page.locator('section.panel[data-key="odd"]')
    row = odd.locator(".list").nth(1).locator(".neighbour").nth(2)
    word = row.locator("bdi").inner_text()
    row.click()
    near = page.locator('section.panel[data-key="neighbours"]')
    near.get_by_role("heading", name=re.compile(rf"^Closest to {re.escape(word)} in bert")).wait_for()
    until(page, page.get_by_label("Word, part of a word").input_value, word)

    open_tab(page, "Positions")
    still(page)
    page.locator(".fold-tests > button").click()
    counting = page.locator('section.panel[data-key="counting:64x8 requirements"]')
    counting.get_by_text("Meets 4 of 5: grows without bound").wait_for()
    assert counting.locator(".numbers p").count() == 5
    assert "bounded: not met" in counting.inner_text()
    learned = page.locator(f'section.panel[data-key="{source} requirements"]')
    assert "independent of length: not applicable, fixed length" in learned.inner_text()
    assert learned.locator(".plot").count() == 1
