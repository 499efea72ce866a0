"""A visit to the app with Gradio as it is and as it is changed: what is seen is the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response

from tests.support.installing import ROOT, serving

from ..waiting import drawn, open_tab


@pytest.mark.parametrize("patches", ["0", "1"], ids=["as it is", "changed"])
def test_a_visit_with_and_without_patches(page: Page, patches: str, tmp_path: Path) -> None:
    """The first tab is drawn and then another; the script that is mended is sent as the switch says."""
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    arguments = ("-m", "hfposemb", "app", "sample:bert", "--port", "PORT")
    variables = {"HFPOSEMB_PATCHES": patches, "PYTHONPATH": str(ROOT)}
    with serving(Path(sys.executable), *arguments, cwd=tmp_path, **variables) as app:
        page.goto(app.url)
        drawn(page)
        open_tab(page, "Tokens")
        (script,) = [one.body() for one in answers if "/assets/statustracker-" in one.url and one.url.endswith(".js")]
        page.goto("about:blank")  # before the server goes away
    assert (b"!==`closed`?`input`" in script) == (patches == "1")
    assert "Traceback" not in app.said
