"""What tests of the app share."""

from __future__ import annotations

import pytest
from hfposemb.app.session.state import Session

from tests.support.app.sessions import open_session


@pytest.fixture
def session() -> Session:
    """A session without sources, of its own library."""
    return open_session()
