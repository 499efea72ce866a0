"""The static page as a reader opens it: from disk with local files, from a plain server with models of the Hub."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.reports.static_site import write_site
from hfposemb.samples import folder as sample
from tests.browser.saved.conftest import plainly_served
from tests.browser.waiting import accessible, drawn, no_sideways_page, still, until
from tests.hub import FakeHub
from tests.hub.gpt2 import add_gpt2

PICTURES = os.environ.get("HFPOSEMB_SITE_PICTURES")
HEADER = 100_000  # bytes of the first request for a file
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``hfposemb export --site`` writes."""
    path = tmp_path_factory.mktemp("exported") / "site"
    write_site(path)
    return path


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[str]:
    """The address of the page on a plain HTTP server, which knows nothing of it."""
    with plainly_served(folder) as address:
        yield address


@pytest.fixture
def bert(hub: FakeHub) -> str:
    """The sample ``bert`` on the Hub, with one token whose text is markup."""
    home = sample("bert")
    files = {name: (home / name).read_bytes() for name in ("config.json", "model.safetensors", "tokenizer.json")}
    hub.add(
        "somebody/small-bert",
        {**files, "tokenizer.json": files["tokenizer.json"].replace(b'"[unused3]"', json.dumps(HOSTILE).encode())},
    )
    return "somebody/small-bert"


def picture(page: Page, name: str) -> None:
    """Keep a picture of the whole page for whoever develops it."""
    if PICTURES:
        if page.locator(".panel").count():
            still(page)
        page.screenshot(path=f"{PICTURES}/{name}.png", full_page=True)


def opened(page: Page, address: str, **names: str) -> None:
    """Open the page, and wait until it has drawn what the address names."""
    page.goto(f"{address}?{'&'.join(f'{key}={value}' for key, value in names.items())}")
    page.locator("#lines .panel").first.wait_for()
    drawn(page)


def line(page: Page, panel: str, number: int = 0) -> Any:
    """Return the numbers of a line that plotly has drawn."""
    return page.locator(f'[data-key="{panel}"] .stage').evaluate("(node, at) => [...node.data[at].y]", number)


def test_a_model_of_the_hub_is_read_by_its_table(page: Page, plain: str, hub: FakeHub) -> None:
    draw = np.random.default_rng(2)
    table = draw.standard_normal((240, 64)).cumsum(axis=0).astype(np.float32)
    stored = {"wpe.weight": table, "wte.weight": draw.standard_normal((3000, 64)).astype(np.float32)}
    config = {"model_type": "gpt2", "n_positions": 240, "vocab_size": 3000}
    hub.add("somebody/gpt", {"config.json": json.dumps(config), "model.safetensors": save(stored)})
    opened(page, plain, model="somebody/gpt", **{"with": "sinusoidal"})
    page.locator('[data-key="positions-1"]').wait_for()
    drawn(page)
    assert hub.cdn_bytes == HEADER + table.nbytes
    np.testing.assert_allclose(line(page, "norms"), np.linalg.norm(table, axis=1), rtol=1e-6)
    until(page, lambda: page.locator('[data-key="norms"] .stage').evaluate("(node) => node.data.length"), 2)
    np.testing.assert_allclose(line(page, "norms", 1), np.sqrt(32), rtol=1e-6)
    assert "240 × 64, F32, wpe.weight" in page.locator("#sources .facts").first.inner_text()
    # A position under the pointer is marked in both clouds and both matrices.
    matrix = page.locator('[data-key="positions-0"] .plot').nth(1)
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2)
    page.locator('[data-key="positions-1"] .cross').first.wait_for(state="attached")
    page.mouse.move(2, 2)
    picture(page, "two-light")
    if PICTURES:
        page.emulate_media(color_scheme="dark")
        picture(page, "two-dark")


def test_tokens_are_compared_by_their_rows_and_found_in_the_whole_table(
    page: Page, plain: str, hub: FakeHub, bert: str
) -> None:
    opened(page, plain, model=bert)
    source = hpe.extract("sample:bert")
    before = hub.cdn_bytes
    page.get_by_label("Cosines of words").fill("king, queen, house")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator('[data-key="words-0"]').wait_for()
    drawn(page)
    assert hub.cdn_bytes - before == 3 * source.token.shape[1] * 2
    cells = page.locator('[data-key="words-0"] .stage').evaluate("(node) => node.data[0].z.map((row) => [...row])")
    np.testing.assert_allclose(
        cells, hpe.similarity(hpe.extract("sample:bert", rows=["king", "queen", "house"]).token), atol=2e-6
    )
    page.get_by_label("Neighbours of").fill("king")
    page.get_by_role("button", name="Find").click()
    size = source.token.provenance.nbytes
    read = page.get_by_role("button", name=re.compile(r"^Read \d"))
    assert f"{size / 1e6:.2g}" in read.inner_text().replace(" MB", "")
    read.click()
    near = hpe.neighbours(source.token, "king")
    shown = page.locator('[data-key="neighbours-0"] .neighbour bdi')
    until(page, shown.all_inner_texts, list(near.labels))
    assert hub.cdn_bytes - before == 3 * source.token.shape[1] * 2 + size
    shown.first.click()
    until(page, lambda: page.get_by_label("Neighbours of").input_value(), near.labels[0])
    page.get_by_label("Cosines of words").fill(f"king, {HOSTILE}")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("norms: king").wait_for()
    until(page, lambda: HOSTILE[:10] in page.locator('[data-key="words-0"]').inner_text(), True)
    assert page.locator("main img").count() == 0
    picture(page, "tokens-light")


def test_the_page_opens_from_disk(page: Page, folder: Path, hub: FakeHub, bert: str, minilm_folder: Path) -> None:
    """Files are read without any request, and then a model of the Hub."""
    said: list[str] = []
    page.on("request", lambda asked: said.append(asked.url) if not asked.url.startswith(("file:", "blob:")) else None)
    page.goto((folder / "index.html").as_uri())
    files = [minilm_folder / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    page.get_by_label("Files of: Model").set_input_files(files)
    page.locator("#lines .panel").first.wait_for()
    drawn(page)
    source = hpe.extract(minilm_folder)
    np.testing.assert_allclose(line(page, "norms"), hpe.norms(source.position), rtol=1e-6)
    page.get_by_label("Neighbours of").fill("bank")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="Read 46.9 MB").click()
    shown = page.locator('[data-key="neighbours-0"] .neighbour bdi')
    until(page, shown.all_inner_texts, list(hpe.neighbours(source.token, "bank").labels))
    assert said == []
    picture(page, "minilm-files")
    name = page.get_by_label("Model", exact=True)
    name.fill(bert)
    name.press("Enter")
    page.locator("#sources").get_by_text("bert.embeddings.position_embeddings.weight").wait_for()
    drawn(page)
    np.testing.assert_allclose(line(page, "norms"), hpe.norms(hpe.extract("sample:bert").position), rtol=1e-6)
    assert {url.split("/")[2] for url in said} == {hub.endpoint.split("/")[2], hub.cdn.split("/")[2]}


def test_reading_is_cancelled_and_errors_are_said(page: Page, plain: str, hub: FakeHub, tmp_path: Path) -> None:
    table = add_gpt2(hub, tmp_path)
    page.goto(plain)
    name = page.get_by_label("Model", exact=True)
    name.fill("not a name")
    name.press("Enter")
    page.get_by_text("is not a source; write owner/name").wait_for()
    hub.shape(rate=400_000)
    name.fill("openai-community/gpt2")
    name.press("Enter")
    page.get_by_text("reading positions").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    assert hub.cdn_bytes < HEADER + table.nbytes
    hub.shape()
    with hub.fault("range_ignored", host="cdn", times=None):
        name.press("Enter")
        page.get_by_text("ignores ranges").wait_for()
    picture(page, "refused")
    dropped = base64.b64encode(save({"wpe.weight": np.eye(8, 4, dtype=np.float32)})).decode()
    carried = page.evaluate_handle(
        """(text) => {
          const carried = new DataTransfer(), raw = Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0));
          carried.items.add(new File([raw], "model.safetensors"));
          return carried;
        }""",
        dropped,
    )
    page.dispatch_event("main", "drop", {"dataTransfer": carried})
    page.locator("#sources").get_by_text("8 × 4, F32, wpe.weight").wait_for()
    page.locator("#sources").get_by_text("there is no config.json").wait_for()


def test_positions_without_a_table_and_every_way_of_looking(page: Page, plain: str, hub: FakeHub, bert: str) -> None:
    llama = {"model_type": "llama", "rope_theta": 500000.0, "head_dim": 64, "max_position_embeddings": 8192}
    tables = {"model.embed_tokens.weight": np.ones((40, 8), np.float32)}
    hub.add("somebody/rotary", {"config.json": json.dumps(llama), "model.safetensors": save(tables)})
    opened(page, plain, model=bert, **{"with": "somebody/rotary"})
    page.get_by_text("Its positions are rotary").first.wait_for()
    waves = page.locator('[data-key="positions-1"] .stage')
    until(page, lambda: waves.evaluate("(node) => node.data?.[0]?.y?.length"), 32)
    values = waves.evaluate("(node) => [...node.data[0].y]")
    np.testing.assert_allclose(values, 2 * np.pi / hpe.extract("somebody/rotary").position.inv_freq, rtol=1e-6)
    picture(page, "rotary-light")
    accessible(page, "main")
    page.emulate_media(color_scheme="dark")
    accessible(page, "main")
    no_sideways_page(page)
    picture(page, "phone-dark")
    accessible(page, "main")
