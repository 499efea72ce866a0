"""What tests of the app share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hfposemb.app.session.opened import Opened
from hfposemb.app.session.state import Session

import hfposemb as hpe
from tests.support.app.sessions import open_session


@pytest.fixture
def session() -> Session:
    """A session without sources, of its own library."""
    return open_session()


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Opened:
    """The real checkpoint, as a page has it open."""
    return Opened(str(minilm_folder), "MiniLM", "#0b6aa8", "solid", hpe.extract(minilm_folder))
