"""The page of an atlas from disk: sorted with the keyboard, filtered, plotted, and models chosen in plot and table."""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from hfposemb.reports.atlas_page import atlas_page
from hfposemb.surveys.survey_folder import rows_of
from tests.atlas import ROWS

NAMES = "() => [...document.querySelectorAll('tr[data-row]:not([hidden]) > th')].map((head) => head.innerText.trim())"
DOTS = "#scatter .point"


def test_the_table_is_sorted_with_the_keyboard_filtered_and_plotted(offline: Page, tmp_path: Path) -> None:
    atlas, path = offline, tmp_path / "atlas.html"
    path.write_text(atlas_page(rows_of(str(ROWS))), encoding="utf-8")
    atlas.goto(path.as_uri())
    atlas.locator(DOTS).first.wait_for(state="attached")
    found = Axe().run(atlas)
    assert [(one["id"], one["nodes"][0]["html"][:80]) for one in found.response["violations"]] == []
    head = atlas.get_by_role("columnheader", name="mean norm", exact=True)
    head.get_by_role("button").focus()
    atlas.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert atlas.evaluate(NAMES)[:2] == ["counting:256x128", "sinusoidal:512x384"]
    atlas.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert atlas.evaluate(NAMES)[0] == "sample:bert@step-0"
    ratio = atlas.get_by_role("columnheader", name="token norm / position norm").get_by_role("button")
    ratio.click()
    assert atlas.evaluate(NAMES)[:3] == ["sample:bert", "sample:gpt2", "sample:minilm"]
    assert head.get_attribute("aria-sort") == "none"

    assert atlas.locator(DOTS).count() == 14
    atlas.get_by_label("Name contains").fill("GPT2")
    assert sorted(atlas.evaluate(NAMES)) == ["sample:gpt2", "sample:gpt2@step-0", "sample:gpt2@step-500"]
    assert "3 of 14 models" in atlas.locator("#count").inner_text()
    atlas.wait_for_function(f"document.querySelectorAll('{DOTS}').length === 3")
    atlas.get_by_label("Name contains").fill("")
    atlas.locator("#filters").get_by_label("Architecture").select_option("bert")
    assert sorted(atlas.evaluate(NAMES)) == ["sample:bert", "sample:minilm"]
    atlas.get_by_label("Figures of").select_option("token")
    assert atlas.get_by_role("columnheader", name="effective rank").count() == 0
    assert atlas.get_by_role("columnheader", name="token anisotropy").count() == 1
    atlas.locator("#filters").get_by_label("Architecture").select_option("")

    atlas.get_by_label("Horizontal").select_option("mean norm")
    atlas.get_by_label("log x").check()
    atlas.get_by_label("Vertical").select_option("token norm / position norm")
    atlas.get_by_label("Colour").select_option("architecture")
    atlas.wait_for_function(f"document.querySelectorAll('{DOTS}').length === 4")
    assert "10 without a value for both" in atlas.locator("#plot-foot").inner_text()
    assert "Mean length of the position vectors." in atlas.locator("#plot-meanings").inner_text()
    assert atlas.locator("#legend").inner_text().split() == ["not", "known", "bert", "gpt2"]
    atlas.locator(DOTS).first.scroll_into_view_if_needed()
    at = atlas.locator(DOTS).first.bounding_box()
    atlas.mouse.click(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    atlas.get_by_label("Choose sample:minilm").check()
    command = atlas.locator("#chosen-command").inner_text()
    assert command == "hfposemb compare sample:bert sample:minilm"
    link = atlas.get_by_role("link", name="Open in the app").get_attribute("href")
    assert link == "http://127.0.0.1:7860/?models=sample%3Abert&models=sample%3Aminilm&tab=compare"
    assert atlas.locator("tr.marked").count() == 2
    atlas.get_by_role("button", name="Clear").click()
    assert atlas.locator("tr.marked").count() == 0
