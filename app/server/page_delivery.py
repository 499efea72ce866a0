"""How the page reaches a browser: compressed, with its script in its head and a preview of its link."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from .link_preview import PICTURE_PATH, picture, with_preview

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

DESCRIPTIONS = frozenset({"config", "info"})
"""Last parts of the paths of descriptions of the page. Gradio compresses scripts; numbers hardly shrink."""

_SCRIPT = re.compile(r'"url":"[^"\\]*(/gradio_api/file=(?:[^"\\]|\\.)*/hfposemb\.js)"')
"""The address of the app's script in the value of a row of panels, as a JSON string."""


class PageDelivery:
    """ASGI middleware that serves the page of an app at the root of a server."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app
        self.compressed = GZipMiddleware(app, compresslevel=6)
        self.page = GZipMiddleware(_Previewed(app), compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"] if scope["type"] == "http" else None
        if path == PICTURE_PATH:
            cached = {"Cache-Control": "public, max-age=86400"}
            await Response(picture(), media_type="image/png", headers=cached)(scope, receive, send)
        elif path == "/":
            await self.page(scope, receive, send)
        elif path is not None and path.rpartition("/")[2] in DESCRIPTIONS:
            await self.compressed(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def with_script(page: str) -> str:
    """Return the page with the script of its rows in its head, so that figures load while Gradio builds the page.

    A page without rows, such as that of a login, stays as it is.
    """
    if (found := _SCRIPT.search(page)) is None:
        return page
    address = html.escape("." + json.loads(f'"{found[1]}"'))  # relative, because a proxy may have another scheme
    return page.replace("</head>", f'\t<script type="module" src="{address}"></script>\n\t</head>', 1)


class _Previewed:
    """ASGI middleware that writes the preview of the link and the app's script into the page."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        parts: list[bytes] = []

        async def keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                if not _is_html(message):
                    await send(message)
            elif not _is_html(start):
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_page(scope, start, b"".join(parts), send)

        await self.app(scope, receive, keep)


def _is_html(start: Mapping[str, Any]) -> bool:
    return start["status"] == 200 and Headers(raw=start["headers"]).get("content-type", "").startswith("text/html")


async def _send_page(scope: Scope, start: Message, body: bytes, send: Send) -> None:
    query = scope.get("query_string", b"").decode("latin-1")
    content = with_script(with_preview(body.decode(), query=query, origin=_origin(scope))).encode()
    headers = MutableHeaders(raw=list(start["headers"]))
    headers["content-length"] = str(len(content))
    await send({**start, "headers": headers.raw})
    await send({"type": "http.response.body", "body": content if scope["method"] != "HEAD" else b""})


def _origin(scope: Scope) -> str:
    """Return scheme and host by which a browser reached the page; a proxy says so in its headers."""
    headers = Headers(scope=scope)
    scheme = headers.get("x-forwarded-proto", scope.get("scheme", "http")).partition(",")[0].strip()
    host = headers.get("x-forwarded-host", headers.get("host", "")).partition(",")[0].strip()
    return f"{scheme}://{host}{scope.get('root_path', '').rstrip('/')}"
