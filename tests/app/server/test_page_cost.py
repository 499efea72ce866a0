"""What the page costs: its bytes, and what a server sends for it and how often. Sizes and counts, never times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace

import brotli
import httpx
import pytest
from hfposemb.app.server.gradio_mends import MENDS, Mend, mended
from hfposemb.app.server.page_delivery import with_script
from hfposemb.app.server.static_delivery import MODULES

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
    assert with_script(login) == login


def test_the_address_of_the_script_stays_text() -> None:
    config = json.dumps({"url": 'http://a/gradio_api/file=/x"><b>/hfposemb.js'}, separators=(",", ":"))
    page = with_script(f"<head></head>{config}")
    assert '<script type="module" src="./gradio_api/file=/x&quot;&gt;&lt;b&gt;/hfposemb.js"></script>' in page


def test_files_that_never_change_are_compressed_once_and_kept(site: SimpleNamespace) -> None:
    script = script_of(site.page)
    module = re.findall(r'src="\.(/assets/index-[^"]+\.js)"', site.page)[0]
    for path in (script, script.replace("hfposemb.js", "plotly.min.js"), module):
        first, again = (site.client.get(path) for _ in range(2))
        assert first.headers["content-encoding"] == "br"
        assert "immutable" in first.headers["cache-control"]
        plain = site.client.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert first.content == again.content == plain.content
        part = site.client.get(path, headers={"range": "bytes=2-9"})
        assert (part.status_code, part.content) == (206, plain.content[2:10])
        assert not site.client.head(path).content


def test_modules_are_read_from_their_folder_and_nothing_else_is(site: SimpleNamespace) -> None:
    """The answer is Gradio's but for its mends, and has the same type."""
    for pattern in ("index-*.js", "index-*.css", "core-*.js"):
        name = next(MODULES.glob(pattern)).name
        packed, plain = (
            site.client.get(f"/assets/{name}", headers={"accept-encoding": how}) for how in ("br", "identity")
        )
        assert plain.content == (MODULES / name).read_bytes()
        assert packed.content == mended(name, plain.content)
        kinds = [answer.headers["content-type"].partition(";")[0] for answer in (packed, plain)]
        assert kinds[0] == kinds[1]
    beside = MODULES.parent / "gradio.js"
    assert beside.exists()
    for path in ("/assets/../gradio.js", "/assets/%2e%2e%2fgradio.js", "/assets/..%5cgradio.js", "/assets/.js"):
        assert "immutable" not in site.client.get(path).headers.get("cache-control", "")


def test_plotly_is_sent_as_it_was_compressed_for_the_package(site: SimpleNamespace) -> None:
    path = script_of(site.page).replace("hfposemb.js", "plotly.min.js")
    with site.client.stream("GET", path) as answer:
        raw = b"".join(answer.iter_raw())
    assert brotli.decompress(raw).decode() == plotly_js()
    assert len(raw) == int(answer.headers["content-length"]) <= 560_000


def test_what_is_not_a_kept_file_is_not_kept(site: SimpleNamespace) -> None:
    for path in ("/assets/no-such.js", "/assets/..%2f..%2fblocks.py", "/theme.css", "/config"):
        assert "immutable" not in site.client.get(path).headers.get("cache-control", "")
    assert site.client.get("/assets/no-such.js").status_code == 404


def test_the_page_repeats_neither_style_nor_scripts(site: SimpleNamespace) -> None:
    """Every row names the script, next to which all else is served; the style sheet is there once."""
    components = [one["props"] for one in site.client.get("/config").json()["components"]]
    rows = [props["value"] for props in components if props.get("component_class_name") == "PanelRow"]
    assert len(rows) > 20
    assert all(row["script"]["url"].endswith("/hfposemb.js") for row in rows)
    assert "plotly.min.js" not in site.page
    assert site.page.count("The HTML of the app") == 1
    longest = max(len(text) for text in re.findall(r'"js_on_load":"((?:[^"\\]|\\.)*)"', site.page))
    assert longest < 1_500, "scripts are files, not text of a component"


def test_the_page_stays_small(site: SimpleNamespace) -> None:
    """Gradio repeats the properties of each component and listener, which compression takes out."""
    with site.client.stream("GET", "/", headers={"accept-encoding": "gzip, br"}) as answer:
        sent = len(b"".join(answer.iter_raw()))
    assert len(site.page.encode()) <= 480_000
    assert sent <= 48_000
    values = [len(json.dumps(one["props"].get("value"))) for one in site.blocks.config["components"]]
    assert sum(values) <= 60_000, "what is drawn at once is small; numbers are files"


def test_the_page_has_few_components_and_listeners(site: SimpleNamespace) -> None:
    """Gradio's page walks over both at each event: see ``session.drawing``, which has one listener for each tab."""
    config = site.client.get("/config").json()
    assert len(config["dependencies"]) <= 80
    assert len(config["components"]) <= 325
    assert sum(one["type"] == "state" for one in config["components"]) <= 72


@pytest.mark.parametrize("mend", MENDS, ids=["streams", "events"])
def test_a_fault_of_gradio_is_mended_in_what_is_sent(mend: Mend) -> None:
    """It is in one script of the Gradio that is installed, once."""
    found = {path.name: path.read_bytes() for path in MODULES.glob("*.js") if mend.before in path.read_bytes()}
    assert len(found) == 1
    name, script = found.popitem()
    assert name.startswith(mend.script)
    assert script.count(mend.before) == 1
    assert mended(f"/assets/{name}", script) == script.replace(mend.before, mend.after)
    assert mended("/assets/index-1.js", mend.before) == mend.before
