"""The widget in JupyterLab, with a kernel of its own: `make test-full` runs this where the extra `lab` is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.waiting import drag
from tests.conftest import in_full

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    in_full,
    pytest.mark.skipif(importlib.util.find_spec("jupyterlab") is None, reason="pip install -e '.[lab]'"),
]

WAIT = 120
CELLS = (
    "import hfposemb as hpe\nw = hpe.show('sample:bert', 'sample:gpt2', progress=False)",
    "print(w.selection['sample:gpt2'].tolist())",
    "w.selection = range(100, 120)",
    "w",
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab whose folder has a notebook of CELLS."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{place}",
            "source": code,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for place, code in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "try.ipynb").write_text(json.dumps(book), encoding="utf-8")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    options = [f"--port={port}", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.token="]
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyterlab",
            *options,
            "--LabApp.news_url=",
            f"--ServerApp.root_dir={tmp_path / 'work'}",
        ],
        env={**os.environ, **folders},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(WAIT * 5):
            try:
                urllib.request.urlopen(f"{address}/api/status").close()
                break
            except OSError:
                assert server.poll() is None, "JupyterLab ended"
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(WAIT)


def run_cell(page: Page, place: int) -> Locator:
    """Run a cell, and return it when it has ended."""
    cell = page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{place}']")
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    cell.locator(".jp-InputPrompt", has_text="*").wait_for(state="detached")
    return cell


def drawn(page: Page) -> None:
    page.locator(".hfposemb-widget .panel[data-state='drawn']").nth(3).wait_for(state="attached")


def test_a_range_comes_back_in_jupyterlab(lab: str, page: Page) -> None:
    page.set_viewport_size({"width": 1300, "height": 1900})
    sent: list[str | bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda one: sent.append(one)))
    page.goto(f"{lab}/lab/tree/try.ipynb?reset")
    page.get_by_text("(ipykernel) | Idle").wait_for()
    run_cell(page, 0)
    run_cell(page, 3)
    drawn(page)
    assert sent
    assert not [one for one in sent if "library" in str(one)], "plotly.js came as a model of its own"
    page.locator("[data-key='matrix-0'] .tool").click()
    drag(page, "[data-key='matrix-0'] .plot", (0.4, 0.5), (0.6, 0.55))
    page.get_by_text("positions selected").wait_for()
    cell = run_cell(page, 1)
    rows = json.loads(cell.locator(".jp-OutputArea-output").inner_text())
    assert rows == list(range(rows[0], rows[-1] + 1))
    assert 10 < len(rows) < 110
    run_cell(page, 2)
    page.get_by_text("20 positions selected").wait_for()
    page.locator("[data-key='matrix-0'] .plot").hover()
    page.wait_for_function("document.querySelectorAll('[data-key=matrix-1] .cross').length === 2")
    page.get_by_role("menuitem", name="Settings").click()
    page.get_by_text("Theme", exact=True).hover()
    page.get_by_text("JupyterLab Dark", exact=True).click()
    colour = "getComputedStyle(document.querySelector('.hfposemb-widget .panel')).backgroundColor"
    page.wait_for_function(f"{colour} === 'rgb(28, 32, 38)'")
    drawn(page)
