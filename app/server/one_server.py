"""Construction of Gradio's server once, when it is started. This module imports nothing heavy.

Gradio also constructs one when a page is created, when its ``with`` block ends, and when its queue is set, each in a
twentieth of a second, and replaces it by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

_constructing: ContextVar[bool] = ContextVar("constructing", default=True)


@contextmanager
def no_server() -> Iterator[None]:
    """Construct no server for the pages that are created or set up inside; ``launch`` still has to.

    Pages that other threads create meanwhile are not concerned.
    """
    _watch()
    before = _constructing.set(False)
    try:
        yield
    finally:
        _constructing.reset(before)


def _watch() -> None:
    """Let Gradio ask whether to construct a server, from now on."""
    routes: Any = import_module("gradio.routes")
    own = routes.App.create_app
    if own.__module__ == __name__:
        return

    def create_app(*values: Any, **named: Any) -> Any:
        return own(*values, **named) if _constructing.get() else None

    routes.App.create_app = staticmethod(create_app)
