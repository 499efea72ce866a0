"""In a browser: a bug behind one panel, and a page from which all sources were taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from hfposemb.app import build
from hfposemb.app.components.events import State
from hfposemb.app.components.plot import Panel, PanelRow
from hfposemb.app.session.library import Library
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session
from playwright.sync_api import Page

from tests.browser.waiting import until


def test_bug_is_said_in_its_panel_and_the_other_goes_on(
    page: Page, serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HFPOSEMB_CACHE", str(tmp_path))

    def draw(opened: Sequence[Opened], text: str) -> tuple[Panel, ...]:
        return (Panel("works", "This one works", message=f"drawn for {text}"),)

    def fail(opened: Sequence[Opened], text: str) -> tuple[Panel, ...]:
        if text == "b":
            raise ZeroDivisionError("planted")
        return (Panel("fails", "This one may fail", message=f"drawn for {text}"),)

    with gr.Blocks() as blocks, gr.Tabs() as tabs, gr.Tab("Panels"):
        session = Session(False, (), State([]), State(""), tabs, library=Library(), due=State([""]))
        text = gr.Textbox(label="Text")
        for function in (draw, fail):
            session.redraw(function, [PanelRow(scope=session.scope)], inputs=[text], on=[text.submit])
    page.goto(serve(blocks))
    for typed, failed in (("a", False), ("b", True), ("c", False)):
        page.get_by_label("Text").fill(typed)
        page.get_by_label("Text").press("Enter")
        page.get_by_text(f"drawn for {typed}").first.wait_for()
        said = page.get_by_text(
            "Something went wrong while computing this: ZeroDivisionError: planted. Details were written to"
        )
        said.wait_for(state="visible" if failed else "detached")
        until(page, page.get_by_text(f"drawn for {typed}").count, 1 if failed else 2)


EMPTY = {
    "Positions": "No source selected",
    "Tokens": "None of the sources has tokens",
    "Words + positions": "None of the sources has words",
    "Compare": "Nothing to compare yet",
    "Training": "None of the sources has a training run",
    "Start": "Add a model above",
}


def test_page_without_sources_is_empty_and_says_so(page: Page, serve: Callable[..., str]) -> None:
    url = serve(build(sources=("random:24x8", "sinusoidal:24x8")))
    page.goto(url)
    page.get_by_role("tab", name="Positions", exact=True).click()
    page.locator("hfposemb-row :is(canvas, svg.main-svg):visible").first.wait_for()
    stops = page.locator(".tab-wrapper [role=tab][tabindex='0']")
    selected = page.get_by_role("tab", selected=True)
    selected.press("ArrowRight")
    until(page, selected.inner_text, "Tokens")
    assert stops.all_inner_texts() == ["Tokens"]
    selected.press("ArrowLeft")
    until(page, selected.inner_text, "Positions")
    eight = ["counting:24x8", "sigmoid:24x8", *(f"random:{rows}x8" for rows in range(8, 14))]
    page.goto(f"{url}?tab=training&models={','.join(eight)}")  # the tab draws nothing of these, so is quick
    until(page, page.locator(".sources:visible .token").count, 8)
    field = page.get_by_label("Models to compare (up to 8)").locator("visible=true")
    field.fill("counting:32x8")
    field.press("Enter")
    page.locator("[role=alert]:visible").get_by_text("Up to 8 sources are shown; Counting was left out.").wait_for()
    until(page, page.locator(".sources:visible .token").count, 8)
    page.locator(".sources:visible").get_by_role("button", name="Remove Sigmoid", exact=True).click()
    until(page, page.locator(".sources:visible .token").count, 7)
    page.goto(f"{url}?tab=training")
    chips = page.locator(".sources:visible .token .token-remove")
    chips.first.click()
    page.get_by_text("1 of 8", exact=True).locator("visible=true").first.wait_for()

    def left() -> int:
        if chips.count():
            chips.first.click()  # once more, if the chip was just drawn anew, which loses a click
        return chips.count()

    until(page, left, 0)
    for tab, said in EMPTY.items():
        page.get_by_role("tab", name=tab, exact=True).click()
        page.get_by_text(said).first.wait_for()
        assert not drawn(page), tab


def drawn(page: Page) -> Any:
    """Return how many plots are on the screen, after a moment for those that go."""
    page.wait_for_function(
        "() => ![...document.querySelectorAll('hfposemb-row .js-plotly-plot')].some((plot) => plot.checkVisibility())"
    )
    return page.evaluate(
        "() => [...document.querySelectorAll('hfposemb-row .js-plotly-plot')].filter((p) => p.checkVisibility()).length"
    )
