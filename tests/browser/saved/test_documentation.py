"""The documentation site, built by `make docs` and read in a browser: nothing comes from another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

import hfposemb as hpe
from hfposemb.comparison.metrics import MEASURES
from tests.browser.saved.conftest import plainly_served
from tests.conftest import in_full
from tests.support.installing import ROOT

pytestmark = in_full


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning ends the build."""
    folder = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, "-m", "tests.documentation", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def served(built: Path) -> Iterator[str]:
    """The address of the site."""
    with plainly_served(built) as address:
        yield address


def search(page: Page, asked: str) -> str:
    """Search the site with its keyboard shortcut; return the address of what is found first."""
    page.reload()
    page.locator('dialog[aria-label="Search"]').wait_for(state="attached")
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Search").fill(asked)
    first = page.locator(f'[role="option"][href*="h={asked.replace(" ", "+")}"]').first
    first.wait_for()
    return first.get_attribute("href") or ""


def test_every_public_name_has_its_entry(built: Path) -> None:
    anchors = {
        found for path in (built / "api").glob("*.html") for found in re.findall(r' id="([\w.]+)"', path.read_text())
    }
    named = {anchor.rpartition(".")[2] for anchor in anchors if anchor.startswith("hfposemb.")}
    missing = [name for name in hpe.__all__[1:] if name not in named]
    assert missing == []


def test_a_page_loads_nothing_from_elsewhere(built: Path) -> None:
    for path in built.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|link|source)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>", path.read_text()
        )
        assert loaded == [], path.name


def test_the_search_index_has_measures_rows_and_formats(built: Path) -> None:
    text = json.loads((built / "search.json").read_text(encoding="utf-8"))["items"]
    found = " ".join(one["text"] for one in text)
    for measure in MEASURES:
        assert measure.name.strip() in found
    for words in ("modernbert", "GatherBlockQuantized", "survey sample:gpt2"):
        assert words in found, words


def test_search_filter_formulae_and_theme(served: str, page: Page) -> None:
    page.goto(f"{served}measures/positions.html")
    assert page.locator("math").count() > 12
    assert page.locator("article img").evaluate_all("all => all.every((one) => one.complete && one.naturalWidth > 0)")

    for asked, place in (("translation invariance", "positions"), ("kinship", "kinship"), ("CKA", "pairs")):
        assert f"measures/{place}.html" in search(page, asked)

    page.goto(f"{served}architectures.html")
    table = page.locator("article table").last
    everything = table.locator("tbody tr:visible").count()
    page.get_by_label("Filter rows").last.fill("modernbert rotary")
    left = table.locator("tbody tr:visible")
    assert 0 < left.count() < everything / 10
    assert all("modernbert" in text.lower() for text in left.all_inner_texts())

    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_pages_and_search_work_from_a_disk(built: Path, offline: Page) -> None:
    offline.goto((built / "measures" / "tokens.html").as_uri())
    assert "measures/tokens.html" in search(offline, "anisotropy")


@pytest.mark.parametrize("name", ["index", "tutorial", "gallery", "questions", "architectures", "api", "measures/sums"])
def test_no_page_is_wider_than_a_phone(served: str, page: Page, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{served}{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
