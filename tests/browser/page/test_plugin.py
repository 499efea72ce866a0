"""Two panels on one page of somebody else's app, under a path: both draw, and neither notices the other."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import gradio as gr
import numpy as np
from fastapi import FastAPI, Response
from playwright.sync_api import Locator, Page

from tests.browser.waiting import cell, drawn, no_sideways_page, point, unfold_bar, until
from tests.support.app.serving import hosted

PATH = "/lab/tools"


def marks(page: Page) -> list[int]:
    """Return the marked row of every panel, which has a scope of its own."""
    found: list[int] = page.evaluate(
        "[...window.hfposemb.marks].filter(([name]) => name.endsWith('/position')).map(([, mark]) => mark.marked)"
    )
    return sorted(found)


def open_in(page: Page, part: Locator, name: str) -> None:
    tab = part.get_by_role("tab", name=name, exact=True)
    tab.click()
    until(page, lambda: tab.get_attribute("aria-selected"), "true")
    drawn(page)


def test_two_panels_under_a_path_draw_and_leave_each_other_alone(page: Page) -> None:
    from hfposemb.app import panel

    with gr.Blocks(title="Language lab") as host:
        gr.Markdown("# Language lab")
        with gr.Column(elem_id="left"):
            panel(sources=["sinusoidal:48x16", "random:48x16"])
        with gr.Column(elem_id="right"):
            panel(sources=["sinusoidal:40x12", "random:40x12"])
    web = FastAPI()
    web.get("/favicon.ico")(lambda: Response())
    left, right = page.locator("#left"), page.locator("#right")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with hosted(gr.mount_gradio_app(web, host, path=PATH)) as url:
        page.goto(f"{url}{PATH}")
        drawn(page)
        paths = {urlsplit(one).path for one in asked if one.startswith("http")} - {"/favicon.ico"}
        assert any(path.endswith("/plotly.min.js") for path in paths)
        assert not [path for path in paths if not path.startswith(PATH)]

        open_in(page, left, "Positions")
        open_in(page, right, "Positions")
        for part, rows in ((left, 48), (right, 40)):
            until(page, part.locator(".stage:visible").count, lambda count: count >= 4)
            heatmap = part.locator(".stage:visible").nth(1)
            assert heatmap.evaluate("(stage) => stage.data[0].z.length") == rows

        # a mark that is dragged, of one panel alone
        before = marks(page)
        assert len(before) == 2
        slider = left.locator("input[type=range]:visible")
        slider.focus()
        slider.fill("7")
        until(page, lambda: marks(page), [7, before[0]])
        slider.dispatch_event("pointerup")
        until(page, lambda: left.get_by_text("Position 7").count(), lambda count: count > 0)
        assert right.get_by_text("Position 7").count() == 0
        assert right.locator("input[type=range]:visible").input_value() != "7"

        # work of one panel is told in one panel
        unfold_bar(left)
        left.get_by_text("UMAP", exact=True).locator("visible=true").click()
        cancel = left.get_by_role("button", name="Cancel").locator("visible=true")
        cancel.first.wait_for()
        assert right.get_by_role("button", name="Cancel").locator("visible=true").count() == 0
        cancel.first.click()
        until(page, cancel.count, 0)

        # other sources, in one
        drawn_there = right.locator(".stage:visible").count()
        left.get_by_role("button", name="Remove").locator("visible=true").first.click()
        until(page, lambda: left.locator("section.panel:visible").count(), lambda count: count > 0)
        drawn(page)
        assert right.locator(".stage:visible").count() == drawn_there
        no_sideways_page(page)
        page.goto("about:blank")  # a page whose app goes away logs an error


def test_a_part_in_a_narrow_column_tells_what_is_clicked(page: Page, serve: Callable[..., str]) -> None:
    from hfposemb.app import panel

    import hfposemb as hpe

    random = np.random.default_rng(0)
    mine = hpe.from_arrays(token=random.normal(size=(60, 8)), position=random.normal(size=(24, 8)), name="<b>mine")
    with gr.Blocks() as host, gr.Row():
        with gr.Column(scale=0, min_width=400, elem_id="narrow"):
            view = panel(tabs=("positions", "tokens"), sources=[mine], controls=False)
        with gr.Column():
            said, at = gr.Textbox(label="Clicked"), gr.Number(label="Position")
        view.on_select(lambda made: f"{made['source']} {made['role']} {made['row']}", said)
        view.follow(position=at)
    page.goto(serve(host))
    page.locator("section.panel").first.wait_for()
    drawn(page)
    assert page.get_by_role("tab").all_inner_texts() == ["Positions", "Tokens"]
    assert page.locator(".source-bar:visible, .controls:visible").count() == 0
    narrow = page.locator("#narrow")
    assert narrow.evaluate("(column) => column.scrollWidth <= 400 && column.clientWidth <= 400")
    x, y = point(page, page.locator(".plot").nth(1), cell(11, 11))
    page.mouse.click(x, y)
    until(page, lambda: page.get_by_label("Clicked").input_value(), "<b>mine position 11")
    page.get_by_label("Position", exact=True).fill("9")
    page.get_by_text("Position 9").first.wait_for()
    page.goto("about:blank")  # a page whose app goes away logs an error
