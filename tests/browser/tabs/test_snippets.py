"""The fold with what reproduces a view: opened by keyboard, copied as it is, and of one width with its panel."""

from __future__ import annotations

from collections.abc import Callable

import nbformat
from playwright.sync_api import Locator, Page

from app.findings.positions.position_clouds import source_panel
from app.session.shown_positions import View
from tests.browser.waiting import accessible, held, no_sideways_page, open_tab, still, unfold_bar, until
from tests.support.app.sessions import open_session

SMALL = ("sinusoidal:44x16", "random:44x16")


def _copied(page: Page, fold: Locator, name: str) -> str:
    page.evaluate("navigator.clipboard.writeText('')")
    button = fold.get_by_role("button", name=f"Copy {name}")
    button.click()
    until(page, button.inner_text, "Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_view_is_reproduced_from_its_fold(page: Page, site: Callable[..., str]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(site(*SMALL))
    open_tab(page, "Positions")
    unfold_bar(page)
    still(page)
    panel = page.locator(f'section.panel[data-key="{SMALL[0]}"]').first
    more, fold = panel.locator(".more"), panel.locator(".recipe")
    heights = "() => [...document.querySelectorAll('section.panel')].map((panel) => panel.offsetHeight)"
    before = page.evaluate(heights)
    assert not fold.is_visible()
    button = held(panel, "Python")
    assert button.get_attribute("aria-expanded") == "false"
    controls = button.get_attribute("aria-controls")
    button.press("Enter")
    until(page, fold.is_visible, True)
    assert page.evaluate(heights) == before, "nothing on the page moves"
    drawer = panel.get_by_role("dialog", name="Python")
    assert controls == drawer.get_attribute("id")
    assert drawer.evaluate("(node) => node.contains(document.activeElement)")
    session = open_session(*SMALL)
    drawn = source_panel(session.open(SMALL)[0], View(marked=43), session)
    recipe = drawn.recipe
    assert fold.locator("pre").first.text_content() == recipe.python
    assert _copied(page, fold, "Python") == recipe.python
    assert _copied(page, fold, "Command line") == recipe.command
    cite = _copied(page, fold, "Cite")
    assert cite == recipe.citation(f"Sinusoid: {drawn.title}"), "no address of this machine"
    with page.expect_download() as saved:
        fold.get_by_role("button", name="Notebook").click()
    notebook = nbformat.read(saved.value.path(), as_version=4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells][1:] == [
        "# Until hfposemb is published, from a checkout: %pip install -q '.[umap,plot,probes]'",
        recipe.python.rstrip(),
    ]
    assert saved.value.suggested_filename.endswith(".ipynb")
    # It stays open while the panel is drawn anew, with what is shown then.
    page.get_by_text("2-D", exact=True).locator("visible=true").click()
    until(page, lambda: "dims=2" in (fold.locator("pre").first.text_content() or ""), True)
    still(page)
    accessible(page)
    page.get_by_label("Theme", exact=True).select_option("dark")
    accessible(page)
    no_sideways_page(page)
    code = fold.locator("pre").first
    assert code.evaluate("(node) => node.scrollWidth > node.clientWidth"), "a long line scrolls inside"
    accessible(page)
    code.focus()
    page.keyboard.press("Escape")
    until(page, fold.is_visible, False)
    assert more.evaluate("(node) => node === document.activeElement")
