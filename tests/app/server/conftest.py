"""Servers that several files of this folder look at: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hfposemb import app
from tests.support.app.serving import Served, serving
from tests.support.processes.waiting import unused_port


@pytest.fixture(scope="package")
def strangers_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The app for strangers, in a process of its own."""
    with serving(tmp_path_factory.mktemp("strangers")) as found:
        yield found


@pytest.fixture(scope="package")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An app that serves strangers, with tools for agents, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        port = unused_port()  # another worker's server may have the usual one
        options = {"public": True, "mcp": True, "warm": False, "prevent_thread_lock": True, "quiet": True}
        blocks = app.launch(("sinusoidal:64x16",), port=port, **options)
        yield blocks
        blocks.close(verbose=False)
