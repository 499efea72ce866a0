"""The Tokens tab as a person uses it: each token a dot, a click walks on, UMAP can be stopped."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

import hfposemb as hpe
from tests.browser.waiting import drawn, panel, point, still, unfold_bar, until
from tests.support.app.models import MANY, WORDS, bert_and_gpt2


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A BERT and a GPT-2 of 3,138 words, with vectors alike but for some noise."""
    return bert_and_gpt2(tmp_path_factory.mktemp("pair"), (*WORDS, *MANY), width=24, noise=0.2)


@pytest.fixture
def tokens(page: Page, site: Callable[..., str]) -> Callable[..., Page]:
    """Open the Tokens tab on some sources, with PCA unless told otherwise, and wait until it is drawn."""

    def start(*sources: str, query: str = "layout=PCA") -> Page:
        page.goto(f"{site(*sources)}?tab=tokens&{query}")
        until(page, lambda: page.get_by_role("tab", name="Tokens").get_attribute("aria-selected"), "true")
        drawn(page)
        return page

    return start


def listed(page: Page) -> list[list[tuple[str, str]]]:
    """Return what the lists of neighbours say: words and numbers."""
    return [
        [(row.locator("bdi").inner_text(), row.locator(".value").inner_text()) for row in column.locator("li").all()]
        for column in panel(page, "neighbours").locator(".list").all()
    ]


def exact(source: str, word: str) -> list[tuple[str, str]]:
    """Return what a list must say."""
    near = hpe.neighbours(hpe.extract(source).token, word, k=12)
    numbers = [f"{abs(value):.3f}".lstrip("0") for value in near.values]
    return list(zip([label.strip() for label in near.labels], numbers, strict=True))


def pointed_out(page: Page) -> list[str]:
    """Return the names on the map."""
    stage = panel(page, "map").locator(".stage")
    return stage.evaluate("(node) => (node.layout?.annotations ?? []).map((note) => note.text)")


def test_every_token_is_a_dot_a_click_walks_on_and_search_chooses(
    tokens: Callable[..., Page], pair: tuple[str, str]
) -> None:
    page = tokens(*pair)
    points = (
        panel(page, "map")
        .locator(".js-plotly-plot")
        .evaluate(
            """(node) => node._fullData
           .filter((trace) => trace.xaxis === 'x' && trace.hoverinfo !== 'skip')
           .reduce((sum, trace) => sum + trace.x.length, 0)"""
        )
    )
    assert points == len(WORDS) + len(MANY)
    assert listed(page) == [exact(pair[0], "king"), exact(pair[1], " king")]
    row = panel(page, "neighbours").locator(".list").nth(1).locator(".neighbour").nth(2)
    word = row.locator("bdi").inner_text()
    row.click()
    panel(page, "neighbours").get_by_role("heading", name=re.compile(rf"neighbours of {re.escape(word)} ")).wait_for()
    assert listed(page) == [exact(pair[0], word), exact(pair[1], word)]
    # A dot of the map is a token too.
    until(page, lambda: pointed_out(page), lambda names: f"<b>{word}</b>" in names)
    far = """(stage) => {
      const { xaxis, yaxis } = stage._fullLayout, { x, y } = stage._fullData[0];
      const far = [...x].map((value, at) => [value, at]).sort((a, b) => b[0] - a[0])[0][1];
      return [xaxis._offset + xaxis.d2p(x[far]), yaxis._offset + yaxis.d2p(y[far])]; }"""
    x, y = point(page, panel(page, "map").locator(".plot"), far)
    page.mouse.move(x - 1, y)
    page.mouse.move(x, y)
    tip = panel(page, "map").locator(".tip strong")
    tip.wait_for()
    named = tip.inner_text()
    page.mouse.click(x, y)
    panel(page, "neighbours").get_by_role("heading", name=re.compile(rf"neighbours of {re.escape(named)} ")).wait_for()
    assert listed(page)[0] == exact(pair[0], named)

    field = page.get_by_label("Word, part of a word")
    field.fill("")
    field.press_sequentially("quee", delay=40)
    found = panel(page, "matches")
    found.get_by_role("heading", name="1 of bert and 1 of gpt contain quee").wait_for()
    found.locator(".neighbour").first.click()
    panel(page, "neighbours").get_by_role("heading", name=re.compile("neighbours of queen ")).wait_for()
    panel(page, "matches").wait_for(state="hidden")
    field.fill("nosuchword")
    field.press("Enter")
    panel(page, "neighbours").get_by_role("heading", name="None of the sources has a token “nosuchword”").wait_for()


def selected(page: Page) -> int:
    """Return how many dots of the map stand out."""
    return int(
        page.evaluate(
            """() => { const [first, ...rest] = (document.querySelector('section[data-key=map] .stage')?.data ?? [])
              .filter((trace) => (trace.xaxis ?? 'x') === 'x').filter((trace) => trace.marker?.opacity === 1
                && trace.showlegend === false);
              return [first, ...rest].reduce((sum, trace) => sum + (trace?.x.length ?? 0), 0); }"""
        )
    )


def test_map_fills_one_screen_by_umap_and_its_tokens_are_selected(tokens: Callable[..., Page]) -> None:
    """The question of Start: whether king and queen are close."""
    page = tokens("sample:minilm", query="word=king")
    page.set_viewport_size({"width": 1440, "height": 900})
    still(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 1400
    unfold_bar(page)
    assert page.get_by_role("radio", name="UMAP").is_checked()
    assert "layout" not in page.url
    plan = panel(page, "map")
    plan.get_by_role("heading", name="Unused slots, other scripts and numbers form islands in MiniLM").wait_for()
    assert "30,522 tokens of MiniLM" in plan.inner_text()
    queen = panel(page, "neighbours").get_by_role("option", name=re.compile(r"^queen \.")).bounding_box()
    assert queen["y"] + queen["height"] < 900
    # A class, from the keyboard.
    plan.get_by_role("button", name="unused 994").press("Enter")
    panel(page, "selection").get_by_role("heading", name="994 tokens of MiniLM selected: unused").wait_for()
    until(page, lambda: selected(page), 994)
    until(page, lambda: "selection=class%3Aunused" in page.url, expected=True)
    page.keyboard.press("Escape")
    until(page, lambda: selected(page), 0)
    panel(page, "selection").wait_for(state="hidden")
    # A search.
    field = page.get_by_label("Word, part of a word")
    field.fill("")
    field.press_sequentially("kingd", delay=40)
    found = panel(page, "matches")
    found.get_by_role("heading", name="2 of MiniLM contain kingd").wait_for()
    until(page, lambda: selected(page), 2)
    # A shape, which takes the place of the search and is in a link.
    plan.get_by_role("button", name="Box").click()
    box = plan.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 310)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 420, steps=4)
    page.mouse.up()
    chosen = panel(page, "selection")
    chosen.get_by_role("heading", name=re.compile("tokens of MiniLM selected$")).wait_for()
    count = int(chosen.locator("h3").inner_text().split()[0].replace(",", ""))
    until(page, lambda: selected(page), count)
    with page.expect_download() as saving:
        chosen.get_by_role("button", name="CSV", exact=True).click()
    lines = Path(saving.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,token,norm"
    assert len(lines) == count + 1
    first = chosen.locator(".chip").first.inner_text()
    chosen.get_by_role("button", name="Compare").click()
    until(page, lambda: page.get_by_label("Compare words").input_value().split(", ")[0], first)
    page.locator(".fold-pairs .panel[data-state=drawn]").first.wait_for()
    until(page, lambda: "selection=ids" in page.url and "pairs=unfolded" in page.url, expected=True)
    assert page.locator('[clip-path*="xyplot"]').count()
    assert not page.locator('[clip-path*="://"]').count(), "what is drawn stays clipped when the address changes"
    page.reload()
    panel(page, "selection").get_by_role("heading", name=f"{count:,} tokens of MiniLM selected").wait_for()
    until(page, lambda: selected(page), count)
    panel(page, "selection").get_by_role("button", name="Clear").click()
    until(page, lambda: "selection" in page.url, expected=False)
