"""Compression of what Gradio sends as it is: the page, which repeats the style sheet for each of its rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.middleware.gzip import GZipMiddleware

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PAGES = frozenset({"", "config", "info"})
"""Last parts of the paths of the page and of its description. Gradio compresses scripts; numbers hardly shrink."""


class CompressedPages:
    """ASGI middleware that compresses the page for browsers that accept it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app
        self.compressed = GZipMiddleware(app, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_page = scope["type"] == "http" and scope["path"].rpartition("/")[2] in PAGES
        await (self.compressed if is_page else self.app)(scope, receive, send)
