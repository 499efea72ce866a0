"""Construction of Gradio's server once, when it is started. This module imports nothing heavy.

Gradio also constructs one when a page is created, when it is left, and when its queue is set, each in a twentieth of a
second, and replaces it by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any


@contextmanager
def no_server() -> Iterator[None]:
    """Construct no server for the pages that this thread creates or sets up inside; ``launch`` still has to."""
    from gradio.routes import App

    own, thread = vars(App)["create_app"], get_ident()

    def create_app(*values: Any, **named: Any) -> App | None:
        return None if get_ident() == thread else own(*values, **named)

    setattr(App, "create_app", staticmethod(create_app))  # noqa: B010 - a type checker allows no assignment
    try:
        yield
    finally:
        setattr(App, "create_app", own)  # noqa: B010
