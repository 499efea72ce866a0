"""What tests of the app share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hfposemb.app import limits
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from hfposemb.analysis.projection import umap_layout
from hfposemb.composition.amplitude_sweep import sweep_amplitude
from hfposemb.composition.sum_and_concatenation import compare_sum_with_concatenation
from tests.support.app.sessions import open_session
from tests.support.app.views import views_of


@pytest.fixture
def session() -> Session:
    """A session without sources, of its own library."""
    return open_session()


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Opened:
    """The real checkpoint, as a page has it open."""
    return Opened(str(minilm_folder), "MiniLM", "#0b6aa8", "solid", hpe.extract(minilm_folder))


@pytest.fixture(scope="module")
def few_draws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let views and their snippets, which are compared, draw little alike.

    UMAPs run a tenth of their epochs, and sweeps of the amplitude ask for a fifth of their words.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        whole = umap_layout.optimised_layout

        def shorter(*given: Any, epochs: int, **more: Any) -> Any:
            return whole(*given, epochs=-(-epochs // 10), **more)

        patch.setattr(umap_layout, "optimised_layout", shorter)
        patch.setattr(limits, "COMPARISON_DRAWS", 3)
        patch.setattr(limits, "TRAINING_DRAWS", 3)
        for swept in (sweep_amplitude, compare_sum_with_concatenation):
            patch.setitem(swept.__kwdefaults__, "queries", 100)
        yield
    views_of.cache_clear()
