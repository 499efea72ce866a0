"""The widget of a notebook, in a page that has as much of one as anywidget needs; its kernel is this process."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

import hfposemb as hpe
from tests.browser.waiting import drag
from tests.support.app.widget_host import Host

BERT, GPT2 = "sample:bert", "sample:gpt2"


@pytest.fixture
def host(page: Page) -> Host:
    return Host(page)


def test_hover_is_linked_and_a_range_comes_back_to_python(host: Host) -> None:
    page, view = host.page, hpe.show(BERT, GPT2, progress=False)
    heard: list[int] = []
    view.observe(lambda change: heard.append(len(change["new"])), "selection")
    host.show(view)
    assert page.locator(".panel").count() == 4
    page.locator("[data-key='matrix-0'] .plot").hover()
    page.wait_for_function("document.querySelectorAll('[data-key=matrix-1] .cross').length === 2")
    index = page.locator("[data-key='matrix-1'] .cross").first.get_attribute("data-index")
    assert page.locator(f"[data-key='map-0'] .mark[data-index='{index}']").count() == 1
    assert page.locator(f"[data-key='map-1'] .mark[data-index='{index}']").count() == 1
    page.mouse.move(0, 0)
    page.locator("[data-key='matrix-0'] .tool").click()
    drag(page, "[data-key='matrix-0'] .plot", (0.4, 0.5), (0.6, 0.55))
    page.get_by_text("positions selected").wait_for()
    rows = view.selection[GPT2].tolist()
    assert rows == list(range(rows[0], rows[-1] + 1))
    assert 10 < len(rows) < 110
    assert view.selection[BERT].tolist() == rows
    assert heard == [2 * len(rows)]
    assert [told["state"] for told in host.told] == [{"_selected": view._selected}]
    page.get_by_role("button", name="Clear selection").click()
    page.wait_for_function("document.querySelector('.chosen').textContent.startsWith('Hover')")
    assert len(view.selection) == 0


def test_tokens_are_selected_by_lasso_and_click_and_from_python(host: Host) -> None:
    page, view = host.page, hpe.show(BERT, GPT2, role="token", progress=False)
    host.show(view)
    page.locator("[data-key='map-0'] .tool", has_text="Box").click()
    drag(page, "[data-key='map-0'] .plot", (0.1, 0.1), (0.9, 0.9))
    page.get_by_text("tokens selected").wait_for()
    host.drawn()
    assert 1000 < len(view.selection[BERT]) <= 4000
    shared = {text.strip() for text in view.selection.labels[BERT]} & {
        text.strip() for text in view.selection.labels[GPT2]
    }
    assert len(shared) > 500, "the same words are selected in the other vocabulary"
    view.selection = ["king", "queen", "man"]
    page.get_by_text("3 tokens selected").wait_for()
    page.get_by_text("Cosines of the 3 selected tokens").first.wait_for()
    host.drawn()
    texts = page.locator("[data-key='matrix-1'] .plot .ytick").all_text_contents()
    assert {*texts} - {""} == {"king", "queen", "man"}
    page.keyboard.down("Shift")
    before = set(view.selection[BERT].tolist())
    page.locator("[data-key='matrix-0'] .plot").hover()
    page.locator("[data-key='matrix-0'] .plot").click()
    page.keyboard.up("Shift")
    page.wait_for_function("document.querySelector('.chosen').textContent.startsWith('2 tokens')")
    assert set(view.selection[BERT].tolist()) < before


def test_the_theme_of_the_notebook_is_followed(host: Host) -> None:
    page = host.page
    host.show(hpe.show(BERT, progress=False))
    colour = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
    light = page.evaluate(colour)
    for change, back in (
        ("document.body.dataset.jpThemeLight = 'false'", "document.body.dataset.jpThemeLight = 'true'"),
        ("document.body.className = 'vscode-dark'", "document.body.className = 'vscode-light'"),
        ("document.documentElement.setAttribute('theme', 'dark')", "document.documentElement.removeAttribute('theme')"),
    ):
        page.evaluate(change)
        page.wait_for_function(f"{colour} === 'rgb(28, 32, 38)'")
        host.drawn()
        page.evaluate(back)
        page.wait_for_function(f"{colour} === '{light}'")


def test_plotly_is_asked_for_where_models_are_not_shared_and_once_for_all_widgets(page: Page) -> None:
    host = Host(page, shares_models=False)
    host.show(hpe.show(BERT, progress=False))
    host.show(hpe.show(GPT2, progress=False))
    assert [told["content"] for told in host.told] == [{"kind": "library"}]
    assert page.locator(".hfposemb-widget").count() == 2
