"""The Compare tab as a person uses it: chance comes by itself, words lead to Tokens, and the report opens from disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser.waiting import accessible_everywhere, cell, drawn, open_tab, panel, point, until
from tests.support.app.models import MANY, bert_and_gpt2
from tests.support.checkpoints.quantised import forms

Site = Callable[..., str]
DRAWS = 20
HOSTILE = ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "</script><script>alert(2)//")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A BERT and a GPT-2 that share 60 words, some of them hostile, and a sinusoid without words."""
    return *bert_and_gpt2(tmp_path_factory.mktemp("three"), (*HOSTILE, *MANY[:56])), "sinusoidal:40x16"


@pytest.fixture
def compare(page: Page, site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    """Open the Compare tab on some sources, with few draws of chance, and wait until it is drawn."""
    monkeypatch.setattr("app.limits.COMPARISON_DRAWS", DRAWS)

    def start(*sources: str) -> Page:
        page.goto(site(*sources))
        open_tab(page, "Compare")
        return page

    return start


def choose_pair(page: Page, name: str) -> None:
    """Choose a pair, which the headline is about then."""
    page.get_by_label("Pair").click()
    page.get_by_role("option", name=name, exact=True).click()
    left, _, right = name.partition(" – ")
    page.get_by_role("heading", name=f"of {left} and {right} (CKA").wait_for()


def measured(page: Page) -> None:
    """Wait until chance has been drawn for the pairs."""
    page.locator(".pairs .pair").first.wait_for()
    until(page, page.locator(".work:visible").count, 0)


def test_chance_comes_by_itself_and_a_moved_word_leads_to_tokens(
    compare: Callable[..., Page], three: tuple[str, str, str]
) -> None:
    page = compare(*three)
    page.get_by_role("heading", name="Biggest difference").wait_for()  # the figures are there at once
    measured(page)
    assert "p ." in page.locator(".pair").first.inner_text()
    assert page.locator(".pair:visible").count() == 2, "the other pairs are folded"
    assert not page.locator(".fold-quantisation:visible").count()
    # A pair without words says so, in the place where they would be.
    page.locator(".fold-moves > button").click()
    choose_pair(page, "bert – Sinusoid")
    moved = panel(page, "moved")
    moved.get_by_text("has no vocabulary").wait_for()
    choose_pair(page, "bert – gpt")
    first, second = moved.locator(".list").first.locator(".neighbour bdi").all_inner_texts()[:2]
    moved.get_by_role("heading", name=f"“{first}” moved by").wait_for()
    moved.locator(".list").first.locator(".neighbour").nth(1).click()
    moved.get_by_role("heading", name=f"“{second}” moved by").wait_for()
    moved.get_by_role("button", name="Open in Tokens").click()
    panel(page, "neighbours").get_by_text(f"“{second}”").or_(
        panel(page, "neighbours").get_by_role("heading", name=second)
    ).first.wait_for()
    assert page.get_by_role("tab", name="Tokens").get_attribute("aria-selected") == "true"


def test_the_report_is_downloaded_and_opens_from_disk(
    compare: Callable[..., Page], offline: Page, three: tuple[str, str, str], tmp_path: Path
) -> None:
    page = compare(*three)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download report").click()
    saved = tmp_path / "saved.html"
    download.value.save_as(saved)
    assert download.value.suggested_filename == "hfposemb-report.html"
    offline.goto(saved.as_uri())
    drawn(offline)
    # Hovering a position of one matrix marks it in the other sources' plots.
    matrix = panel(offline, "positions-0").locator(".plot").nth(1)
    matrix.scroll_into_view_if_needed()
    x, y = point(offline, matrix, cell(20, 20))
    offline.mouse.move(x - 2, y)
    offline.mouse.move(x, y)
    panel(offline, "positions-2").locator('[data-index="20"]').first.wait_for(state="attached")
    assert offline.evaluate("document.querySelectorAll('main img, main iframe').length") == 0
    assert offline.evaluate("document.documentElement.scrollWidth <= innerWidth")
    measured(page)
    accessible_everywhere(page)


def test_a_quantised_pair_has_a_fold_that_computes_once_it_is_opened(
    compare: Callable[..., Page], tmp_path: Path
) -> None:
    original, coded = forms(tmp_path, np.random.default_rng(0).standard_normal((200, 64)).astype(np.float32))
    for folder in (original, coded):
        (folder / "vocab.txt").write_text("\n".join(MANY[:200]) + "\n")
    page = compare(str(original), str(coded))
    fold = page.locator(".fold-quantisation")
    fold.get_by_text("what did it do to the tokens?").wait_for()
    assert not panel(page, "quantisation").count(), "nothing is computed before the fold is opened"
    fold.locator("> button").click()
    shown = panel(page, "quantisation")
    shown.get_by_role("heading", name="Quantisation changes a token by").wait_for()
    shown.locator(".plot").scroll_into_view_if_needed()
    drawn(page)
    assert "quantisation=unfolded" in page.url
    page.get_by_label("Theme", exact=True).select_option("dark")
    page.set_viewport_size({"width": 360, "height": 800})
    drawn(page)
    until(page, lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"), expected=True)
    shown.locator(".list").first.locator(".neighbour").first.click()
    panel(page, "neighbours").wait_for()
