"""The real models: MiniLM as it is published, and one of 50,257 words that is made once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import browser as browser  # one for this folder: Playwright has one event loop

from .checkpoints import gpt2


@pytest.fixture(scope="session")
def real(minilm_folder: Path) -> dict[str, str]:
    """The folder of every model by its name."""
    return {"minilm": str(minilm_folder), "gpt2": str(gpt2())}


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of this folder, so that nothing is computed twice."""
    return tmp_path_factory.mktemp("cache-real")


@pytest.fixture(autouse=True)
def own_cache(real_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is cached out of the user's folder."""
    monkeypatch.setenv("HFPOSEMB_CACHE", str(real_cache))
