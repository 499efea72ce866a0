"""The Tokens tab as a person uses it: each token a dot, a click walks on, UMAP can be stopped, tokens do no harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

import hfposemb as hpe
from app.findings.chosen_word import Word, row_of
from tests.app.test_app import HOSTILE, WORDS, anisotropic, checkpoint
from tests.conftest import in_full

from .waiting import accessible_everywhere, open_tab, point, still, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Site = Callable[..., str]
MANY = tuple("".join(letters) for letters in product("bcdfg", "aeiou", "klmnp", "aeiou", "rstvw"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A BERT and a GPT-2 of 3,138 words, with vectors alike but for some noise."""
    random = np.random.default_rng(3)
    words = (*WORDS, *MANY)
    vectors = random.normal(size=(len(words), 24)).astype(np.float32)
    spaced = [f"Ġ{word}" if word.isalpha() else word for word in words]
    noisy = (vectors + 0.2 * random.normal(size=vectors.shape)).astype(np.float32)
    folder = tmp_path_factory.mktemp("pair")
    return checkpoint(folder / "bert", words, vectors), checkpoint(folder / "gpt", spaced, noisy, spaced=True)


@pytest.fixture
def tokens(page: Page, site: Site, own_site: Site) -> Callable[..., Page]:
    """Open the Tokens tab on some sources, and wait until it is drawn."""

    def start(*sources: str, own: bool = True) -> Page:
        page.goto((own_site if own else site)(*sources))
        open_tab(page, "Tokens")
        return page

    return start


def panel(page: Page, key: str) -> Locator:
    """Return a panel by its key."""
    return page.locator(f'section.panel[data-key="{key}"]')


def listed(page: Page) -> list[list[tuple[str, str]]]:
    """Return what the lists of neighbours say: words and numbers."""
    return [
        [(row.locator("bdi").inner_text(), row.locator(".value").inner_text()) for row in column.locator("li").all()]
        for column in panel(page, "neighbours").locator(".list").all()
    ]


def exact(source: str, word: str, *, centred: bool = False) -> list[tuple[str, str]]:
    """Return what a list must say."""
    near = hpe.neighbours(hpe.extract(source).token, word, k=12, centred=centred)
    numbers = [f"{abs(value):.3f}".lstrip("0") for value in near.values]
    return list(zip([label.strip() for label in near.labels], numbers, strict=True))


def pointed_out(page: Page) -> list[str]:
    """Return the names on the map."""
    names: list[str] = (
        panel(page, "map")
        .locator(".stage")
        .evaluate("(node) => (node.layout?.annotations ?? []).map((note) => note.text)")
    )
    return names


def test_every_token_is_a_dot_and_a_click_walks_on(tokens: Callable[..., Page], pair: tuple[str, str]) -> None:
    page = tokens(*pair, own=False)
    points = page.evaluate(
        """() => document.querySelector('section[data-key=map] .js-plotly-plot')._fullData
           .filter((trace) => trace.xaxis === 'x' && trace.hoverinfo !== 'skip')
           .reduce((sum, trace) => sum + trace.x.length, 0)"""
    )
    assert points == len(WORDS) + len(MANY)
    assert listed(page) == [exact(pair[0], "king"), exact(pair[1], " king")]
    row = panel(page, "neighbours").locator(".list").nth(1).locator("li button").nth(2)
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


def test_tokens_are_coloured_by_trust(tokens: Callable[..., Page], pair: tuple[str, str]) -> None:
    page = tokens(*pair, own=False)
    page.get_by_role("radio", name="Trust").check(force=True)
    plan = panel(page, "map")
    plan.get_by_role("heading", name=re.compile("^Of 2,000 tokens measured of bert, [0-9,]+ are misplaced")).wait_for()
    assert re.search(r"king has \d+ of its 10 nearest neighbours near it", plan.inner_text())
    measured = "(stage) => stage._fullData.findIndex((trace) => trace.marker.color.length > 1000)"
    stage = plan.locator(".stage")
    until(page, lambda: stage.evaluate(f"(stage) => stage._fullData[({measured})(stage)]?.x.length"), 2_000)
    far = f"""(stage) => {{
      const trace = stage._fullData[({measured})(stage)], {{ xaxis, yaxis }} = stage._fullLayout;
      const at = trace.x.reduce((best, x, place) => (x > trace.x[best] ? place : best), 0);
      return [xaxis._offset + xaxis.d2p(trace.x[at]), yaxis._offset + yaxis.d2p(trace.y[at])]; }}"""
    x, y = point(page, plan.locator(".plot"), far)
    page.mouse.move(x - 1, y)
    page.mouse.move(x, y)
    plan.locator(".tip").get_by_text("of its 10 nearest are near it here").wait_for()
    page.get_by_label("Words to compare").fill(", ".join(MANY[:14]))  # at once, as pasted
    page.get_by_text(f"2 more were left out: {MANY[12]}, {MANY[13]}.").wait_for()


def test_search_finds_and_chooses(tokens: Callable[..., Page], pair: tuple[str, str]) -> None:
    page = tokens(*pair, own=False)
    field = page.get_by_label("Word, part of a word")
    field.fill("")
    field.press_sequentially("quee", delay=40)
    found = panel(page, "matches")
    found.get_by_role("heading", name="1 of bert and 1 of gpt contain quee").wait_for()
    found.locator("li button").first.click()
    panel(page, "neighbours").get_by_role("heading", name=re.compile("neighbours of queen ")).wait_for()
    panel(page, "matches").wait_for(state="hidden")
    field.fill("nosuchword")
    field.press("Enter")
    panel(page, "neighbours").get_by_role("heading", name="None of the sources has a token “nosuchword”").wait_for()


@in_full
def test_a_table_whose_tokens_point_one_way_says_so_and_is_centred(tokens: Callable[..., Page], tmp_path: Path) -> None:
    source = anisotropic(tmp_path / "gpt")
    page = tokens(source)
    panel(page, "neighbours").get_by_text("so a high cosine means little: use Centred").wait_for()
    assert listed(page) == [exact(source, "king")]
    page.get_by_role("checkbox", name="Centred").check()
    panel(page, "neighbours").get_by_role("heading", name=re.compile("with centred cosine")).wait_for()
    assert listed(page) == [exact(source, "king", centred=True)]
    panel(page, "spread").get_by_role("heading", name=re.compile("has centred cosine")).wait_for()
    assert "mean cosine" not in panel(page, "neighbours").inner_text()
    until(page, lambda: "centred=True" in page.url, expected=True)
    page.reload()
    panel(page, "neighbours").get_by_role("heading", name=re.compile("with centred cosine")).wait_for()
    assert page.get_by_role("checkbox", name="Centred").is_checked()


def workers() -> list[psutil.Process]:
    """Return the processes that compute for the app and have not ended."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # which includes those that have ended and are not yet collected
            if any("_child()" in part for part in child.cmdline()):
                found.append(child)
    return found


def test_map_that_is_included_is_drawn(tokens: Callable[..., Page]) -> None:
    page = tokens("sample:minilm")
    page.get_by_role("radio", name="UMAP").locator("visible=true").first.check(force=True)
    found = until(page, lambda: panel(page, "map").inner_text(), lambda text: "vectors before rounding" in text)
    assert "this map keeps" in found
    assert "30,522 tokens of MiniLM" in found


@in_full
def test_umap_starts_shows_how_far_it_is_and_is_cancelled(tokens: Callable[..., Page], pair: tuple[str, str]) -> None:
    page = tokens(*pair)
    before = panel(page, "map").get_by_role("heading").first.inner_text()
    page.get_by_role("radio", name="UMAP").check(force=True)
    line = page.locator(".work:visible")
    line.get_by_role("progressbar").wait_for()
    # The last picture stays, fainter; it fades there, so the test waits for it.
    page.wait_for_function("getComputedStyle(document.querySelector('section[data-key=map] .plot')).opacity === '0.4'")
    (work,) = until(page, workers, lambda found: len(found) == 1)
    line.get_by_role("button", name="Cancel").click()
    until(page, line.count, 0)
    page.locator("label.selected", has_text="PCA").locator("visible=true").first.wait_for()
    until(page, lambda: work in workers(), expected=False)
    until(page, panel(page, "map").get_by_role("heading").first.inner_text, before)
    page.get_by_role("radio", name="UMAP").locator("visible=true").first.check(force=True)
    panel(page, "map").get_by_role("heading", name=re.compile("^Of each token’s 10 nearest")).wait_for(timeout=240_000)
    until(page, page.locator(".work:visible").count, 0)


@in_full
def test_source_that_fails_is_said_in_the_bar_and_the_rest_stays(
    tokens: Callable[..., Page], pair: tuple[str, str]
) -> None:
    page = tokens(*pair)
    field = page.get_by_label("Models to compare (up to 4)").locator("visible=true")
    field.click()
    field.press_sequentially("./nowhere", delay=30)
    field.press("Enter")
    page.get_by_role("alert").locator("visible=true").get_by_text("does not exist").first.wait_for()
    assert listed(page) == [exact(pair[0], "king"), exact(pair[1], " king")]


def test_hostile_tokens_execute_nothing_and_fetch_nothing(tokens: Callable[..., Page], tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "hostile", (*HOSTILE, *WORDS))
    table, page = hpe.extract(source).token, tokens(source)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    field = page.get_by_label("Word, part of a word")
    words: Any = page.get_by_label("Words to compare")
    words.fill(",".join(str(row) for row in range(len(HOSTILE))))
    for row in range(len(HOSTILE)):
        field.fill(str(row))
        field.press("Enter")
        found = row_of(table, Word(str(row)), source)  # a token that is spelt like the number comes first
        panel(page, "neighbours").get_by_text(f"id {found}, norm").wait_for()
    still(page)
    assert page.locator("section.panel :is(img, script, iframe, object)").count() == 0
    assert page.locator("section.panel a[href^=javascript]").count() == 0
    assert not [url for url in asked if url.endswith("/x") or "onerror" in url]
    assert len(panel(page, "neighbours").inner_text()) < 5_000
    assert "\u202e" not in page.locator("body").inner_text()


def test_tab_is_accessible_in_both_modes_and_on_a_phone(tokens: Callable[..., Page], pair: tuple[str, str]) -> None:
    accessible_everywhere(tokens(*pair, own=False))


@in_full
def test_long_name_leaves_room_for_the_others(tokens: Callable[..., Page], tmp_path: Path) -> None:
    page = tokens(
        "sample:gpt2", checkpoint(tmp_path / "a-folder-name-of-forty-characters-in-all", WORDS), "sample:bert"
    )
    names = page.locator("fieldset.names label > span").filter(visible=True)
    until(page, names.count, 3)
    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 1000})
        still(page)
        clipped = names.evaluate_all("(all) => all.map((one) => one.scrollWidth > one.clientWidth)")
        assert not clipped[0], width
        assert not clipped[2], width
        assert names.nth(1).evaluate("(one) => one.clientWidth") > 100
