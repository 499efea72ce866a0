"""The tab Start in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

import hfposemb as hpe
from hfposemb.text import number
from tests.browser.waiting import accessible_everywhere, drawn, shifts, until
from tests.checks.planted import EMBED, llama, set_rows

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> the \u202e the $\\alpha$"


def open_start(page: Page, site: Callable[..., str], *sources: str) -> None:
    page.goto(site(*sources))
    drawn(page)


@pytest.fixture(scope="module")
def tiny(build: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT with 20 learned positions and a tokenizer of letters and a few words."""
    folder = tmp_path_factory.mktemp("tiny")
    build("bert").save_pretrained(folder)  # type: ignore[attr-defined]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "king", "saw", "queen", "img", "src"]
    letters = list("<>=()\"'$\\abcdefghijklmnopqrstuvwxyz")
    (folder / "vocab.txt").write_text("\n".join((words + letters + [f"##{c}" for c in "abcdefghijklmnop"])[:61]))
    return str(folder)


def test_sentence_picture_and_ways_on(site: Callable[..., str], page: Page, tiny: str) -> None:
    moved = shifts(page)
    open_start(page, site, tiny, "sinusoidal:64x16")
    assert moved() < 0.1, "what is drawn later has its place from the start"
    sentence = page.locator(".sentence-steps")
    page.get_by_role("link", name="What enters the first layer?").click()
    until(page, lambda: page.evaluate("scrollY"), 0)

    # What somebody writes stays text.
    page.get_by_label("Your sentence").fill(HOSTILE)
    sentence.get_by_text("has 29 pieces").wait_for()
    assert page.title() != "owned"
    assert sentence.locator("img").count() == 0
    page.get_by_label("Your sentence").fill("king the queen")
    sentence.get_by_text("in 5 pieces").wait_for()

    # A piece is chosen by its name, and a number says where it comes from.
    inputs = hpe.extract(tiny).inputs("king the queen")
    sentence.get_by_text("king 5", exact=True).click()
    table = sentence.get_by_role("table")
    assert table.count() == 1
    cell = table.get_by_role("row", name="= sum").locator("summary").nth(2)
    assert cell.inner_text() == number(float(inputs.sum[1, 2]))
    cell.click()
    assert table.get_by_text(f" = {number(float(inputs.sum[1, 2]))}").is_visible()
    page.get_by_text("d = 6", exact=True).click()
    sentence.get_by_text(".909", exact=True).wait_for()
    page.get_by_role("radio", name="Model").check(force=True)
    sentence.get_by_text("in 5 pieces").wait_for()

    drawn(page)
    shapes = page.locator("section.panel[data-key^='shape ']")
    points = "(node) => node.querySelector('.stage').data[0].x.length"
    assert [shapes.nth(place).locator(".plot.deep").evaluate(points) for place in (0, 1)] == [20, 64]

    page.get_by_role("link", name="Why both sine and cosine?").click()
    page.locator(".fold-shifts .panel[data-state=drawn]").first.wait_for()
    assert page.get_by_role("tab", name="Positions", exact=True).get_attribute("aria-selected") == "true"
    until(page, lambda: page.locator(".fold-shifts").evaluate("(fold) => fold.getBoundingClientRect().top"), near_top)
    page.go_back()
    until(page, lambda: page.get_by_role("tab", name="Start").get_attribute("aria-selected"), "true")


def near_top(top: float) -> bool:
    return -40 < top < 450


def test_a_model_is_added_above_the_tabs(site: Callable[..., str], page: Page, tiny: str) -> None:
    open_start(page, site, tiny, "sinusoidal:64x16")
    field = page.get_by_label("Models to compare (up to 8)")
    assert field.get_attribute("placeholder") == "+ Add model"
    field.fill("<img src=x onerror=alert(1)>")
    field.press("Enter")
    page.locator("[role=alert]:visible").get_by_text("is not a source").wait_for()
    page.get_by_text("2 of 8").wait_for()
    field.fill("random:32x8")
    field.press("Enter")
    page.locator('.panel[data-key="shape random:32x8"]').wait_for()
    drawn(page)
    assert page.get_by_text("3 of 8").count() == 1

    # A source keeps its colour when another one goes, and the free place is the next one's.
    colours = "(chips) => chips.map((chip) => getComputedStyle(chip, '::before').backgroundColor)"
    before = page.locator(".sources .token").evaluate_all(colours)
    assert len(set(before)) == 4
    page.locator(".sources .token-remove").nth(1).click()
    until(page, lambda: page.locator(".sources .token").evaluate_all(colours), [before[0], *before[2:]])
    field.fill("sinusoidal:40x8")
    field.press("Enter")
    until(page, lambda: page.locator(".sources .token").evaluate_all(colours), before)
    accessible_everywhere(page)


def test_findings_and_cards_of_files_are_shown_by_a_link(
    own_site: Callable[..., str], page: Page, tmp_path: Path
) -> None:
    """The fold that the address opens shows each finding with its reason and its fix, and cards to save."""
    (tmp_path / "tiny-llama").mkdir()
    folder = llama(tmp_path / "tiny-llama")
    set_rows(EMBED, 92, 0)(folder)
    page.goto(f"{own_site(str(folder), 'sinusoidal:64x16')}?check=unfolded")
    fold = page.locator(".fold-check")
    fold.get_by_text("Fix for model.safetensors").wait_for()
    drawn(page)
    found = hpe.check(folder)["reserved-row-in-use"]
    shown = fold.inner_text()
    assert "Is anything wrong with these files? 1 wrong in" in shown
    assert found.message in shown
    assert found.why in shown
    assert found.fix in shown
    assert "is computed and has no files." in shown
    # A long path in the Python code scrolls in its own box; nothing else may be wider than its place.
    clipped = """(fold) => [...fold.querySelectorAll('pre, section, p')]
        .filter((one) => one.scrollWidth > one.clientWidth && getComputedStyle(one).overflowX !== 'auto')
        .map((one) => one.innerText)"""
    assert fold.evaluate(clipped) == []

    fold.get_by_text(f"Model card of {folder.name}").click()
    pictures = fold.locator("details.card[open] figure")
    assert pictures.count() == 2
    for place, shade in enumerate(("light", "dark")):
        picture = pictures.nth(place)
        with page.expect_download() as saved:
            picture.get_by_role("button").click()
        png = saved.value.path().read_bytes()
        assert saved.value.suggested_filename == f"{folder.name}-{shade}.png"
        assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (1200, 630)
        with page.expect_download() as saved:
            picture.get_by_role("link").click()
        card = hpe.model_card(hpe.extract(folder))
        assert saved.value.path().read_text() == card.svg(dark=shade == "dark")
    assert fold.get_by_label("Markdown", exact=True).first.inner_text().strip() == card.markdown()
    accessible_everywhere(page)
