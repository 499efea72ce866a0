"""The app as a part of somebody else's: in a tab, in a TabbedInterface, under a path, and twice on one page."""

from __future__ import annotations

import json
import re
import runpy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
import httpx
import pytest
import uvicorn
from hfposemb.app import build, panel

from tests.app.test_app import rows_of
from tests.support.serving import Visitor

DOCS = Path(__file__).parents[2] / "docs"
SNIPPETS = dict(
    re.findall(r"^## (.+?)\n[^#]*?```python\n(.*?)```", (DOCS / "plugin.md").read_text("utf-8"), flags=re.DOTALL | re.M)
)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI app on loopback for as long as the block lasts."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def panels(page: Visitor) -> set[str]:
    """Return the keys of the panels that the browser has been given."""
    return set(re.findall(r'"key\\*": ?\\*"(\w+)', json.dumps(list(page.values.values()))))


def files(page: Visitor) -> set[str]:
    """Return where the page fetches what its panels draw."""
    return set(re.findall(r'"url\\*": ?\\*"([^"\\]+)', json.dumps(list(page.values.values()))))


def run(code: str) -> dict[str, Any]:
    """Run a snippet of the page; return its names."""
    names: dict[str, Any] = {}
    exec(compile(code, "docs/plugin.md", "exec"), names)
    return names


def test_snippets_draw_the_panel() -> None:
    ways, once = {title: run(code) for title, code in SNIPPETS.items()}, len(rows_of(build()))
    assert [len(rows_of(names["host"])) / once for names in ways.values()] == [1, 1, 1, 2]
    assert "app" in ways["Under a path of a web server"]


def test_tabbed_interface_serves_the_panel() -> None:
    host = run(SNIPPETS["In a `TabbedInterface`"])["host"]
    url = host.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", ssr_mode=False)[1]
    try:
        look(url)
    finally:
        host.close(verbose=False)


def look(url: str) -> None:
    """Open a page, walk to another tab, and fetch all pictures of both."""
    page = Visitor(url.rstrip("/"))
    assert {"shape"} <= panels(page)
    page.show("Tokens")
    assert {"map", "neighbours"} <= panels(page)
    fetched = files(page)
    assert any(name.endswith("plotly.min.js") for name in fetched)
    for name in fetched:
        assert urlsplit(name).path.startswith(urlsplit(url).path.rstrip("/") + "/"), name
        answer = httpx.get(name, timeout=60)
        assert answer.status_code == 200, name
        assert answer.content
    page.close()


def test_example_host_has_it_in_a_tab_under_a_path() -> None:
    with serving(runpy.run_path(str(DOCS / "plugin.py"))["app"]) as url:
        assert "Language lab" in httpx.get(f"{url}/lab/", timeout=60).text
        look(f"{url}/lab")
        page = Visitor(f"{url}/lab")
        tabs = [one["props"]["label"] for one in page.components.values() if one["type"] == "tabitem"]
        assert tabs[:3] == ["Notes", "Embeddings", "Start"]
        page.close()


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[gr.Blocks, set[int], set[int]]]:
    """A host with two panels, and the components of each."""
    with gr.Blocks() as host:
        with gr.Column() as left:
            panel(sources=["random:64x16", "sinusoidal:64x16"])
        with gr.Column() as right:
            panel(sources=["random:64x24", "sinusoidal:64x24"])
    yield host, {block._id for block in _under(left)}, {block._id for block in _under(right)}
    host.close(verbose=False)


def _under(block: Any) -> Iterator[Any]:
    yield block
    for child in getattr(block, "children", ()):
        yield from _under(child)


def test_no_event_of_one_panel_reaches_the_other(two: tuple[gr.Blocks, set[int], set[int]]) -> None:
    host, left, right = two
    assert len(left) == len(right) > 100
    for dependency in host.config["dependencies"]:
        part = {target for target, _ in dependency["targets"] if target is not None}
        part |= {*dependency["inputs"], *dependency["outputs"]}
        assert not (part & left and part & right), dependency


def test_names_in_the_page_are_of_one_panel(two: tuple[gr.Blocks, set[int], set[int]]) -> None:
    host, left, right = two
    names = [
        {block.elem_id for key, block in host.blocks.items() if key in part and block.elem_id} for part in (left, right)
    ]
    assert names[0]
    assert not names[0] & names[1]
    assert not {row.scope for row in rows_of(host) if row._id in left} & {
        row.scope for row in rows_of(host) if row._id in right
    }


def test_sources_of_one_panel_are_not_those_of_the_other(two: tuple[gr.Blocks, set[int], set[int]]) -> None:
    host, left, right = two
    url = host.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", ssr_mode=False)[1]
    page = Visitor(url.rstrip("/"))
    before = {key: json.dumps(value) for key, value in page.values.items() if key in right}
    page.show("Positions")
    page.choose(["counting:48x8", "sinusoidal:48x8"])
    chosen = [
        page.values[key] for key in left if "sources" in (page.components[key]["props"].get("elem_classes") or ())
    ]
    assert chosen
    assert all(texts == ["counting:48x8", "sinusoidal:48x8"] for texts in chosen)
    assert {key: json.dumps(value) for key, value in page.values.items() if key in right} == before
    page.close()
