"""A page begins with GPT-2, BERT and the sinusoid where the Hub answers in time, and says in a line what is missing."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hfposemb.app.session import first_models
from hfposemb.app.session.first_models import FAMOUS, SINUSOID, FirstModels
from hfposemb.app.session.library import shared_library
from hfposemb.app.session.source_names import FIRST

from hfposemb import app
from tests.architectures.tiny import build
from tests.hub import FakeHub
from tests.support.installing import ROOT, serving

GPT2, BERT = FAMOUS


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    """Forget what other tests have opened in this process."""
    shared_library.cache_clear()


@pytest.fixture
def put(hub: FakeHub, tmp_path: Path) -> Callable[..., None]:
    """Put small models on the fake Hub under the names of the famous ones."""

    def on_the_hub(*names: str) -> None:
        for name in names:
            folder = tmp_path / name.replace("/", "-")
            build("gpt2" if name == GPT2 else "bert").save_pretrained(folder)
            hub.add(name, {file.name: file.read_bytes() for file in folder.iterdir()})

    return on_the_hub


def ended(first: FirstModels) -> FirstModels:
    first.wait(60)
    return first


def test_both_come_in_time(put: Callable[..., None]) -> None:
    put(GPT2, BERT)
    first = ended(FirstModels(public=False))
    assert first.sources() == (GPT2, BERT, SINUSOID)
    assert not first.said()
    first.built = first.sources()
    assert first.address("") == ""
    found = shared_library().opened(GPT2, first_models.NEEDS)
    assert found.position.table.shape == (40, 64)


def test_one_comes_and_one_line_says_how_to_get_the_other(put: Callable[..., None]) -> None:
    put(BERT)
    first = ended(FirstModels(public=True))
    assert first.sources() == (BERT, FIRST[0], SINUSOID)
    assert first.said().startswith("GPT-2 is not shown: ")
    assert "\n" not in first.said()
    assert f"hfposemb app {GPT2}, or choose GPT-2 among the sources" in first.said()


@pytest.mark.parametrize(
    "fault", [{"kind": "status", "code": 503}, {"kind": "status", "code": 429, "retry_after": 900}]
)
def test_a_dead_hub_leaves_what_needs_no_network(hub: FakeHub, fault: dict[str, Any]) -> None:
    hub.fault(fault.pop("kind"), **fault)
    first = FirstModels(public=False)
    first.wait(0.5)
    assert first.sources() == FIRST
    assert first.said().startswith("GPT-2 and BERT are ")


def test_what_comes_late_is_for_pages_that_are_opened_later(hub: FakeHub, put: Callable[..., None]) -> None:
    put(GPT2, BERT)
    hub.shape(delay=0.5)
    first = FirstModels(public=False)
    first.wait(0.1)
    first.built = first.sources()
    assert first.built == FIRST
    assert "still being read" in first.said()
    assert first.address("") == ""
    ended(first)
    assert first.address("tab=tokens") == f"models={GPT2}&models={BERT}&models={SINUSOID}&tab=tokens"
    for of_its_own in ("models=sample:bert", "tab=words&models=sample%3Abert", "&" * 99, "models=", "x=" + "y" * 9999):
        assert first.address(of_its_own) == "", "a redirect would lose a view, or never end"
    assert first.address("text=models%3D").startswith(f"models={GPT2}&")
    assert first.address(first.address("tab=tokens")) == ""


def test_the_app_begins_with_them_and_stays_as_it_is(hub: FakeHub, put: Callable[..., None]) -> None:
    put(GPT2)
    blocks = app.launch(warm=False, prevent_thread_lock=True, quiet=True)
    try:
        with urllib.request.urlopen(blocks.local_url) as answer:
            page = answer.read().decode()
            assert answer.url == blocks.local_url, "what was there as the page was built needs no other address"
        assert GPT2 in page
        assert "BERT is not shown" in page
    finally:
        blocks.close()


def test_offline_asks_for_nothing(hub: FakeHub, put: Callable[..., None], tmp_path: Path) -> None:
    put(GPT2, BERT)
    arguments = ("-m", "hfposemb", "app", "--offline", "--no-open", "--port", "PORT")
    with (
        serving(Path(sys.executable), *arguments, cwd=tmp_path, PYTHONPATH=str(ROOT)) as served,
        urllib.request.urlopen(served.url) as answer,
    ):
        page = answer.read().decode()
    assert "GPT-2 and BERT are not shown: " in page
    assert "offline mode is on" in page
    assert hub.requests == []
