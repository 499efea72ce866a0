"""The app as a part of somebody else's: in a tab, in a TabbedInterface, under a path, and twice on one page."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
import httpx
import numpy as np
import pytest
from hfposemb.app import TABS, panel
from hfposemb.app.jobs import children
from hfposemb.app.jobs.lent import lend, lent, name_of
from hfposemb.app.session.plugged import selected

import hfposemb as hpe
from hfposemb.errors import InputError, SourceError
from tests.conftest import FULL
from tests.support.app.serving import Visitor, hosted, visited
from tests.support.app.sessions import rows_of
from tests.support.app.unserved import Unserved

DOCS = Path(__file__).parents[2] / "docs"
SNIPPETS = dict(
    re.findall(r"^## (.+?)\n[^#]*?```python\n(.*?)```", (DOCS / "plugin.md").read_text("utf-8"), flags=re.DOTALL | re.M)
)


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
    ways = {title: run(code) for title, code in SNIPPETS.items()}
    with gr.Blocks() as whole:
        panel()
    once = len(rows_of(whole))
    part = len(rows_of(ways["As a part of your own tool"]["host"])) / once
    assert 0.2 < part < 0.8
    assert [len(rows_of(names["host"])) / once for names in ways.values()] == [
        1,
        1,
        1,
        0,
        2,
        part,
    ]  # an iframe has none of its own
    assert "app" in ways["Under a path of a web server"]


def test_a_panel_of_some_tabs_has_only_their_rows() -> None:
    host = run(SNIPPETS["As a part of your own tool"])["host"]
    tabs = [block.id for block in host.blocks.values() if isinstance(block, gr.Tab)]
    assert tabs == ["positions", "tokens"]
    bars = [block for block in host.blocks.values() if {"controls", "source-chips"} & set(block.elem_classes or ())]
    assert len(bars) > 3
    assert all("unshown" in block.elem_classes for block in bars)
    with gr.Blocks(), pytest.raises(InputError, match="tabs must be some of start, positions"):
        panel(tabs=["nowhere"])
    with gr.Blocks(), pytest.raises(InputError, match="no control is named 'words'"):
        panel(tabs=["positions"]).follow(words=gr.Textbox())


@pytest.mark.parametrize("several", [list, iter], ids=["list", "iterator"])
def test_one_source_and_one_tab_are_given_as_they_are(several: Any) -> None:
    drawn = []
    for sources, tabs in (("sample:bert", "positions"), (several(["sample:bert"]), several(["positions"]))):
        with gr.Blocks() as host:
            view = panel(sources=sources, tabs=tabs)
        drawn.append(([block.id for block in host.blocks.values() if isinstance(block, gr.Tab)], [*view.sessions]))
    assert drawn[0] == drawn[1] == (["positions"], ["positions"])
    with gr.Blocks():
        (given,) = panel(sources=hpe.extract("sample:bert"), tabs="positions").given.values()
    assert given == "sample:bert"


SUBSETS = [
    tabs for count in range(1, len(TABS) + 1) for tabs in combinations(TABS, count) if FULL or count in (1, len(TABS))
]


@pytest.mark.parametrize("tabs", SUBSETS, ids="-".join)
def test_any_of_the_tabs_are_drawn_together(tabs: tuple[str, ...]) -> None:
    with gr.Blocks() as host:
        view = panel(tabs=tabs, sources=["sample:bert"])
    page, shown = Unserved(host), view.sessions[tabs[-1]]
    opened = next(key for key, one in host.blocks.items() if isinstance(one, gr.Tab) and one.id == tabs[-1])
    if tabs in (("start",), ("positions",), ("tokens",), ("words",)):  # the others measure first
        page.act(opened, "select")
        rows = [page.values[row._id] for row in rows_of(host)]
        assert any(value and '"drawings":[{' in value["row"] for value in rows), "nothing is drawn"
    else:
        for bound in sorted(host.fns.values(), key=lambda one: (opened, "select") not in one.targets):
            if (opened, "select") in bound.targets or shown.due in bound.outputs:
                page.run(bound, target=opened)
    assert page.state[view.session.active._id] == tabs[-1]
    assert page.state[shown.due._id] == ["", ["sample:bert", ""]]


def test_a_click_and_a_value_from_outside_cross_the_border() -> None:
    names = run(SNIPPETS["As a part of your own tool"])
    host, view = names["host"], names["view"]
    (text,) = view.given
    opened = view.sessions["positions"].open((text, "sinusoidal:32x16"))
    assert [one.name for one in opened] == ["my model", "Sinusoid"]
    assert opened[0].embeddings is names["mine"]
    click = {"panel": text, "group": "position", "index": 7}
    assert selected(click, opened) == {"source": text, "role": "position", "row": 7, "label": "7"}
    near = {"panel": "neighbours", "list": 0, "id": 3, "label": "x"}
    assert selected(near, opened) == {"source": text, "role": "token", "row": 3, "label": "3"}
    assert selected({"panel": "neighbours", "action": "Open in Tokens"}, opened) is None
    with visited(host) as page:
        row = next(key for key, block in host.blocks.items() if block in rows_of(host))
        page.show("Positions")
        for bound in page.events(row, "select"):
            page.run(bound, row, event_data=click)
        (json_key,) = [key for key, block in host.blocks.items() if isinstance(block, gr.JSON)]
        assert page.values[json_key] == {"source": "my model", "role": "position", "row": 7, "label": "7"}


def test_jobs_open_what_is_in_memory() -> None:
    made = hpe.from_arrays(position=np.eye(8, dtype=np.float32), name="mine/#1")
    text = lend(made)
    assert lend(made) == text
    assert name_of(text) == "mine  1"
    found = children.Job(lent_rows, text, deadline=60).result()
    assert found == 8
    with pytest.raises(SourceError, match="no longer in memory"):
        lent("memory:x#0123456789ab")
    assert lent("sample:bert") is None


def lent_rows(text: str) -> int:
    """Open a source as a job in a child process does."""
    found = lent(text)
    return found.tables["position"].shape[0]


def test_tabbed_interface_serves_the_panel() -> None:
    host = run(SNIPPETS["In a `TabbedInterface`"])["host"]
    with visited(host) as page:
        look(page)


def look(page: Visitor) -> None:
    """Walk to another tab, and fetch all pictures of both."""
    assert {"shape"} <= panels(page)
    page.show("Tokens")
    assert {"map", "neighbours"} <= panels(page)
    fetched = files(page)
    script = next(name for name in fetched if name.endswith("/hfposemb.js"))
    beside = [script.removesuffix("hfposemb.js") + name for name in ("plotly.min.js", "hfposemb.css")]
    for name in [*fetched, *beside]:
        assert urlsplit(name).path.startswith(urlsplit(page.url).path + "/"), name
        answer = httpx.get(name, timeout=60)
        assert answer.status_code == 200, name
        assert answer.content


def test_example_host_has_it_in_a_tab_under_a_path() -> None:
    with hosted(runpy.run_path(str(DOCS / "plugin.py"))["app"]) as url:
        assert "Language lab" in httpx.get(f"{url}/lab/", timeout=60).text
        page = Visitor(f"{url}/lab")
        look(page)
        tabs = [one["props"]["label"] for one in page.components.values() if one["type"] == "tabitem"]
        assert tabs[:3] == ["Notes", "Embeddings", "Start"]
        page.close()


@pytest.fixture(scope="module")
def two() -> tuple[gr.Blocks, set[int], set[int]]:
    """A host with two panels, and the components of each."""
    with gr.Blocks() as host:
        with gr.Column() as left:
            panel(sources=["random:64x16", "sinusoidal:64x16"])
        with gr.Column() as right:
            panel(sources=["random:64x24", "sinusoidal:64x24"])
    return host, {block._id for block in _under(left)}, {block._id for block in _under(right)}


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
    with visited(host) as page:
        before = {key: json.dumps(value) for key, value in page.values.items() if key in right}
        page.show("Positions")
        page.choose(["counting:48x8", "sinusoidal:48x8"])
        chosen = [
            page.values[key] for key in left if "sources" in (page.components[key]["props"].get("elem_classes") or ())
        ]
        assert chosen
        assert all(texts == ["counting:48x8", "sinusoidal:48x8"] for texts in chosen)
        assert {key: json.dumps(value) for key, value in page.values.items() if key in right} == before
