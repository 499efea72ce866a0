"""What the page costs: its bytes, and what a server sends for it and how often. Sizes and counts, never times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest
from hfposemb.app.server.page_delivery import with_script

from hfposemb import app
from hfposemb.figures.assets import plotly_js

TWO = ("sinusoidal:64x16", "random:64x16")


@pytest.fixture(scope="module")
def site() -> Iterator[SimpleNamespace]:
    """The app on this machine, and its page."""
    blocks = app.launch(TWO, warm=False, prevent_thread_lock=True, quiet=True)
    with httpx.Client(base_url=blocks.local_url, headers={"accept-encoding": "br"}) as client:
        yield SimpleNamespace(client=client, page=client.get("/").text, blocks=blocks)
    blocks.close(verbose=False)


def script_of(page: str) -> str:
    """Return the address of the script in a page's head."""
    head = page.partition("</head>")[0]
    return re.findall(r'<script type="module" src="\.(/gradio_api/file=[^"]+/hfposemb\.js)"></script>', head)[0]


def test_the_head_names_the_script_of_the_rows(site: SimpleNamespace) -> None:
    """The address is the one that a row gives, so that the browser loads it once."""
    address = script_of(site.page)
    assert f'"url":"{str(site.client.base_url).rstrip("/")}{address}"' in site.page
    assert site.client.get(address).status_code == 200
    login = "<head></head><script>window.gradio_config = {}</script>"
    assert with_script(login, "/x/hfposemb.js") == login


def test_the_address_of_the_script_stays_text() -> None:
    path = '/x"><b>/hfposemb.js'
    config = json.dumps({"url": f"http://a/gradio_api/file={path}"}, separators=(",", ":"))
    page = with_script(f"<head></head>{config}", path)
    assert '<script type="module" src="./gradio_api/file=/x&quot;&gt;&lt;b&gt;/hfposemb.js"></script>' in page


def test_scripts_are_compressed_and_kept_by_browsers(site: SimpleNamespace) -> None:
    """Compressed by Gradio itself; nothing else is kept."""
    script = script_of(site.page)
    module = re.findall(r'src="\.(/assets/index-[^"]+\.js)"', site.page)[0]
    plotly = script.replace("hfposemb.js", "plotly.min.js")
    for path in (script, plotly, module):
        packed, plain = (site.client.get(path, headers={"accept-encoding": how}) for how in ("br", "identity"))
        assert packed.headers["content-encoding"] == "br"
        assert "content-encoding" not in plain.headers
        assert packed.content == plain.content
        assert "immutable" in packed.headers["cache-control"]
    assert plain.headers["content-type"].startswith(("text/javascript", "application/javascript"))
    for path in ("/assets/no-such.js", "/assets/../gradio.js", "/assets/%2e%2e%2fgradio.js", "/theme.css", "/config"):
        assert "immutable" not in site.client.get(path).headers.get("cache-control", "")
    assert site.client.get(plotly).text == plotly_js()
    with site.client.stream("GET", plotly, headers={"accept-encoding": "br"}) as answer:
        assert len(b"".join(answer.iter_raw())) <= 700_000


def test_the_page_repeats_neither_style_nor_scripts(site: SimpleNamespace) -> None:
    """Every row names the script, next to which all else is served; the style sheet is there once."""
    components = [one["props"] for one in site.client.get("/config").json()["components"]]
    (row,) = [props["value"] for props in components if props.get("component_class_name") == "PanelRow"]
    assert row["script"]["url"].endswith("/hfposemb.js")
    assert "plotly.min.js" not in site.page
    assert site.page.count("The HTML of the app") == 1
    longest = max(len(text) for text in re.findall(r'"js_on_load":"((?:[^"\\]|\\.)*)"', site.page))
    assert longest < 1_500, "scripts are files, not text of a component"


def test_the_page_has_few_listeners(site: SimpleNamespace) -> None:
    """Gradio's page looks through all of them at each message of the server."""
    config = site.blocks.config
    assert len(config["dependencies"]) <= 46
    assert len(config["components"]) <= 120


def test_the_page_stays_small(site: SimpleNamespace) -> None:
    """Gradio repeats the properties of each component and listener, which compression takes out."""
    with site.client.stream("GET", "/", headers={"accept-encoding": "gzip, br"}) as answer:
        sent = len(b"".join(answer.iter_raw()))
    assert len(site.page.encode()) <= 485_000
    assert sent <= 50_000
    values = [len(json.dumps(one["props"].get("value"))) for one in site.blocks.config["components"]]
    assert sum(values) <= 64_000, "what is drawn at once is small; numbers are files"
