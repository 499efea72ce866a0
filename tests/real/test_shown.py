"""What is shown of real models can be had again: every snippet of the app runs, and the report draws every panel."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hfposemb.app.findings.start import model_input, shapes
from hfposemb.app.session.opened import Opened

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.reports.bundle import write_bundle
from tests.browser.conftest import TIMEOUT
from tests.conftest import FULL, in_full
from tests.support.app.views import View, compared, few_draws, opened_page, wrong  # noqa: F401 - a fixture among them

from .conftest import MODELS
from .walking import Walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TABS = ("start", "positions", "tokens", "words", "compare")
PAIRS = [("minilm", "gpt2"), ("gemma", "gpt2"), ("whisper", "gpt2")] if FULL else [("minilm", "gpt2")]


# --- snippets ---------------------------------------------------------------------------------------------------------


@in_full
@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("model", MODELS)
def test_every_snippet_gives_what_is_shown(model: str, tab: str, real: dict[str, str]) -> None:
    page = opened_page((real[model], "sinusoidal:64x32"))
    if tab == "compare":
        compared(page)
    views = page.views(tab, every=True)
    assert sum(bool(view.python) for view in views) >= 2
    said = wrong(views)
    assert not said, "\n\n".join(said)


# --- Start ------------------------------------------------------------------------------------------------------------


def test_a_word_at_the_beginning_is_another_token_than_after_a_space(real: dict[str, str]) -> None:
    source = Opened(real["gpt2"], "gpt2", "", "", hpe.extract(real["gpt2"]))
    panel = model_input.input_panel([source], model_input.SENTENCE)
    assert "The first “the” has no space before it, so it is not the same token as the second" in panel.message
    repeated = model_input.input_panel([source], model_input.REPEATED)
    assert "Both “the” have the same token vector (cosine 1.00)" in repeated.message
    assert "inputs differ (cosine 1.00)" not in repeated.message


@pytest.mark.skipif(not FULL, reason="needs a model with two stacks")
def test_computed_positions_are_not_called_trained(real: dict[str, str]) -> None:
    page = opened_page((real["whisper"],))
    (panel,) = shapes.shape_panels(page.session.open(page.session.first), page.session.at("start")).panels
    assert panel.source is not None
    assert panel.source[1].endswith("learned positions · decoder")
    assert not wrong([View("start", panel, panel.recipe.python if panel.recipe else "")])


# --- the report -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def archive(request: pytest.FixtureRequest, real: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison of two models as one archive: by the command in full, else with fewer draws."""
    path = tmp_path_factory.mktemp("archive") / "all.zip"
    names = [real[name] for name in request.param]
    if FULL:
        assert main(["export", *names, "--out", str(path)]) == 0
    else:
        sources = [hpe.extract(name) for name in names]
        write_bundle(hpe.compare(*sources, draws=0, pairs=False), sources, path)
    return path


@pytest.mark.browser
def test_every_panel_of_the_report_is_drawn(archive: Path, browser: Browser, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        opened.extract("report.html", tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 30e6
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT)
    try:
        walk = Walk(context.new_page(), patience=120)
        walk.page.goto((tmp_path / "report.html").as_uri())
        walk.page.locator(".panel").first.wait_for()
        walk.page.wait_for_function("() => document.querySelectorAll('.panel[data-state=drawn]').length")
        walk.rest("the report")
        assert not walk.faults, "\n".join(walk.faults)
        assert walk.page.locator(".panel").count() >= 6
    finally:
        context.close()


def test_every_file_of_the_archive_is_read(archive: Path) -> None:
    import io
    import json

    import pandas as pd

    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            if name.endswith(".json"):
                assert json.loads(opened.read(name))
            if name.endswith(".csv"):
                frame = pd.read_csv(io.BytesIO(opened.read(name)))
                assert len(frame.columns) > 1
                assert len(frame) or (name == "pairs.csv" and not FULL)  # no pairs were compared
