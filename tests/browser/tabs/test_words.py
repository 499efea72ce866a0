"""The Words + positions tab as a person uses it: a sentence, the slider, a word, another order, other positions."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page

from app.findings.words import sum_view
from tests.browser.waiting import accessible_everywhere, drawn, still, unfold_bar, until

SOURCES = ("sample:bert", "sample:gpt2", "sinusoidal:64x16")


def title(page: Page, key: str) -> Locator:
    return page.locator(f'section.panel[data-key="{key}"]:visible .title')


def kept(page: Page) -> dict[str, str]:
    """Return what each word of the sentence keeps, as it is written."""
    buttons = page.get_by_role("list", name="Words of the sentence").get_by_role("button").all()
    return {one.locator("strong").inner_text(): one.locator("span").inner_text() for one in buttons}


def mark(page: Page, key: str) -> float:
    """Return where a panel's upright line stands."""
    stage = page.locator(f'section.panel[data-key="{key}"]:visible .stage').first
    return float(stage.evaluate("(stage) => stage.layout.shapes[0].x0"))


def test_a_slider_a_sentence_a_word_another_order_and_other_positions(site: Callable[..., str], page: Page) -> None:
    page.goto(site(*SOURCES))
    drawn(page)
    page.get_by_role("link", name="Why does adding positions not destroy words?").click()
    title(page, "survival").wait_for()
    drawn(page)
    one_screen(page)

    def says(amplitude: str, said: bool = True) -> None:
        until(page, lambda: f" {amplitude}×, words keep " in title(page, "finding").inner_text(), said)

    says("1")
    assert page.locator(".folds section.panel").count() == 0, "what is folded is not computed"
    for name in ("sums", "remains"):
        page.locator(f".fold-{name} > button").click()
    for key in ("anchors", "recovery", "variance"):
        title(page, key).wait_for()
    assert set(kept(page)) == {"the", "king", "saw", "queen"}
    before = kept(page)

    slider = page.locator('input[type="range"]:visible')
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2, steps=4)
    says("1", False)  # while the button is down
    page.mouse.move(box["x"] + box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    says("4")
    drawn(page)
    for key in ("survival", "anchors", "recovery", "variance"):
        until(page, lambda key=key: mark(page, key), 4.0)
    assert kept(page) != before
    assert page.locator('section.panel[data-key="map"]:visible').inner_text().count("at 4×") == 1
    slider.press("ArrowLeft")
    says("3.75")
    slider.fill("1")
    says("1")

    sentence = page.locator("label:visible", has_text="Sentence").locator("textarea, input")
    sentence.fill("the queen saw the king and <b>bread")
    until(page, lambda: "bread" in kept(page), True)
    assert "b" in kept(page)
    assert page.locator("ol b:visible").count() == 0

    page.get_by_role("button", name="queen").first.click()
    until(page, lambda: title(page, "lists").inner_text().startswith("At 1×, queen at position 2 keeps "), True)

    page.locator('section.panel[data-key="lists"] .neighbour').nth(1).click()
    until(page, lambda: page.locator(".anchor-words .token").count(), len(sum_view.FIRST_ANCHORS) + 1)

    written = sentence.input_value()
    page.get_by_role("button", name="Reorder words").click()
    until(page, lambda: sentence.input_value() != written, True)
    assert sorted(sentence.input_value().split()) == sorted(written.split())
    page.locator('section.panel[data-key="reorder"]').get_by_text("Before: “the queen saw").wait_for()

    unfold_bar(page)
    page.locator(".words-whose").get_by_text("Sinusoid", exact=True).click()
    until(page, lambda: title(page, "finding").inner_text().startswith("With the sinusoid added"), True)

    page.get_by_label("Source", exact=True).locator("visible=true").click()
    page.get_by_role("option", name="Demo GPT-2").click()
    page.locator('section.panel[data-key="finding"]').get_by_text("Demo GPT-2: word +").wait_for()
    still(page)
    assert page.locator(".panel.error:visible").count() == 0


def one_screen(page: Page) -> None:
    """Check that a screen answers the question that led here."""
    page.set_viewport_size({"width": 1440, "height": 900})
    still(page)
    assert page.evaluate("scrollY") == 0
    for key in ("finding", "survival"):
        assert title(page, key).bounding_box()["y"] < 700
    assert page.evaluate("document.documentElement.scrollHeight") <= 1600
    page.set_viewport_size({"width": 1440, "height": 1000})


def test_links_open_folds_and_the_tab_is_accessible(site: Callable[..., str], page: Page) -> None:
    page.goto(f"{site(*SOURCES)}?tab=words&head=1")  # older than the fold
    title(page, "logit-map").wait_for()
    top = page.locator(".fold-logits")
    until(page, lambda: top.evaluate("(node) => Math.abs(node.getBoundingClientRect().top) < 60"), True)
    assert page.locator(".folds section.panel").count() == 3

    accessible_everywhere(page)
    sentence = page.get_by_label("Sentence", exact=True)
    assert not sentence.is_visible(), "data come first on a phone"
    line = page.get_by_role("button", name="Demo BERT · The model’s own")
    line.click()
    assert line.get_attribute("aria-expanded") == "true"
    sentence.wait_for()
    plot = page.locator('section.panel[data-key="survival"] .stage')
    wide = plot.evaluate("(stage) => stage._fullLayout._size.w")
    assert wide > 200, "the curves have the width of a phone, without names right of them"
