"""The tab Start in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hfposemb as hpe

from .waiting import accessible_everywhere, drawn, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> the \u202e the $\\alpha$"


def open_start(page: Page, site: Callable[..., str], *sources: str) -> None:
    page.goto(site(*sources))
    drawn(page)


@pytest.fixture
def tiny(build: Callable[..., object], tmp_path: Path) -> str:
    """A BERT with 20 learned positions and a tokenizer of letters and a few words."""
    build("bert").save_pretrained(tmp_path)  # type: ignore[attr-defined]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "king", "saw", "queen", "img", "src"]
    letters = list("<>=()\"'$\\abcdefghijklmnopqrstuvwxyz")
    (tmp_path / "vocab.txt").write_text("\n".join((words + letters + [f"##{c}" for c in "abcdefghijklmnop"])[:61]))
    return str(tmp_path)


def test_sentence_picture_and_ways_on(site: Callable[..., str], page: Page, tiny: str) -> None:
    open_start(page, site, tiny, "sinusoidal:64x16")
    sentence = page.locator(".panel[data-key=input]")
    assert "Both “the” have the same token vector (cosine 1.00)" in sentence.inner_text()

    # What somebody writes stays text.
    page.get_by_label("Your sentence").fill(HOSTILE)
    sentence.get_by_text("has 29 pieces").wait_for()
    drawn(page)
    page.get_by_label("Your sentence").fill("the <b>the")
    sentence.get_by_text("At positions 1 and 5 their inputs differ").wait_for()
    drawn(page)
    assert page.title() != "owned"
    assert sentence.locator("img").count() == 0
    page.get_by_label("Your sentence").fill("king king")
    sentence.get_by_text("“king”").wait_for()

    drawn(page)
    picture = page.locator(".panel[data-key=picture]")
    points = "(node) => node.querySelector('.stage').data[0].x.length"
    assert picture.locator(".plot").nth(0).evaluate(points) == 20
    assert picture.locator(".plot").nth(1).evaluate(points) == 20
    page.get_by_text("Sinusoid", exact=True).locator("visible=true").first.click()
    picture.get_by_text("in the sinusoid").first.wait_for()
    drawn(page)
    expected = hpe.project(hpe.extract("sinusoidal:20x16").position, dims=3).coordinates
    seen = picture.locator(".plot").nth(0).evaluate("(node) => Array.from(node.querySelector('.stage').data[0].x)")
    assert np.array_equal(np.float32(seen), expected[:, 0])

    page.get_by_role("button", name="See positions").click()
    page.get_by_text("Share of similarity explained by distance alone").wait_for()


def test_try_your_own_model(site: Callable[..., str], page: Page, tiny: str) -> None:
    open_start(page, site, tiny, "sinusoidal:64x16")
    field = page.get_by_label("Try your own model")
    field.fill("<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Show").click()
    alert = page.locator("[role=alert]:visible")
    alert.wait_for()
    alert.get_by_text("is not a source").wait_for()
    field.fill("gpt2")
    page.get_by_role("button", name="Show").click()
    page.locator("[role=alert]:visible").get_by_text("gpt2").wait_for()
    assert page.get_by_role("tab", name="Start").get_attribute("aria-selected") == "true"

    field.fill("random:32x8")
    field.press("Enter")
    page.locator('.panel[data-key="random:32x8"]:visible').first.wait_for()
    drawn(page)
    assert page.get_by_role("tab", name="Positions", exact=True).get_attribute("aria-selected") == "true"

    def keys() -> list[str]:
        found = page.locator(".panel:visible[data-key]").evaluate_all("(nodes) => nodes.map((one) => one.dataset.key)")
        return list(found[:3])

    until(page, keys, ["random:32x8", tiny, "sinusoidal:64x16"])


def test_accessible_in_both_themes_and_on_a_phone(site: Callable[..., str], page: Page, tiny: str) -> None:
    open_start(page, site, tiny, "sinusoidal:64x16")
    accessible_everywhere(page)
