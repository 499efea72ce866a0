"""The real models: MiniLM as it is published, and checkpoints of real sizes that are made once and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import browser as browser  # one for this folder: Playwright has one event loop
from tests.conftest import FULL

from .checkpoints import RECIPES, made

MODELS = ("minilm", *RECIPES) if FULL else ("minilm", "gpt2")
"""What is gone through: in `make test` one model that was trained and one of 50,257 words."""


@pytest.fixture(scope="session")
def real(minilm_folder: Path) -> dict[str, str]:
    """The folder of every model by its name."""
    return {name: str(minilm_folder if name == "minilm" else made(name)) for name in MODELS}


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of this folder, so that nothing is computed twice."""
    return tmp_path_factory.mktemp("cache-real")


@pytest.fixture(autouse=True)
def own_cache(real_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is cached out of the user's folder."""
    monkeypatch.setenv("HFPOSEMB_CACHE", str(real_cache))
