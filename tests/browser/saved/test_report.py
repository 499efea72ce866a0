"""The report of a real model in a real browser: every panel is drawn, without an error and without a request."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

import hfposemb as hpe
from hfposemb.reports.report import report, write_report

EMPTY = """() => [...document.querySelectorAll(".plot")]
  .filter((plot) => !plot.querySelector(".main-svg, canvas")).length"""


def test_the_report_of_a_real_vocabulary_is_drawn_whole(offline: Page, minilm_folder: Path, tmp_path: Path) -> None:
    """30,522 words are more than a page draws: this failed where rows were cut and their trust was not."""
    sources = [hpe.extract(str(minilm_folder)), hpe.extract("sample:bert")]
    path = tmp_path / "report.html"
    write_report(report(*sources, comparison=hpe.compare(*sources, draws=0)), path)
    offline.goto(path.as_uri())
    plots = offline.locator(".plot")
    for number in range(plots.count()):
        plots.nth(number).scroll_into_view_if_needed()
        plots.nth(number).locator(".main-svg, canvas").first.wait_for(state="attached")
    assert plots.count() >= 13
    assert offline.evaluate(EMPTY) == 0
    assert offline.get_by_text("20,000 of 30,522 tokens, sampled with seed 0").count() > 0
