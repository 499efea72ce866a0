"""Route allow-list for public mode. This module imports nothing heavy.

Gradio serves more routes than this app uses: uploads, a proxy, functions of components, recordings, a way around the
queue. Guarantees in public mode: every route not listed here is answered with 403, a request body has at most
``REQUEST_BYTES``, and files of other hosts are never served. Gradio decides which local files are served: those that
the app wrote for a page.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..limits import REQUEST_BYTES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_READ = re.compile(
    r"/|/config/?|/theme\.css|/robots\.txt|/favicon\.ico|/preview\.png|/manifest\.json|/pwa_icon(/[0-9]+)?|/(assets|static|svelte)/.+"
    r"|/gradio_api/(mcp/?|mcp/schema|info/?|openapi\.json|app_id/?|user/?|startup-events|theme\.css|queue/(data|status)|heartbeat/\w+"
    r"|call/(v2/)?\w+/\w+)"
    r"|/gradio_api/file=(?!//|[^/]*:)[^\\]+",
    re.DOTALL,
)
_WRITE = re.compile(r"/gradio_api/(mcp/?|queue/join|cancel|reset/?|call/(v2/)?\w+/?)")
_LOGIN = {"GET": re.compile(r"/logout|/gradio_api/login_check/?"), "POST": re.compile(r"/login/?")}
"""Additional routes of a page with a password, by method."""

_SIGN_IN = re.compile(r"/login/(huggingface|callback)|/logout")
"""Additional routes, read only, of a page that offers to sign in."""


class Doors:
    """ASGI middleware that allows the routes the page needs.

    With ``login`` also those of the page that asks for a password, with ``sign_in`` those of Gradio's OAuth.
    """

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Awaitable[None]], *, login: bool = False, sign_in: bool = False
    ) -> None:
        self.app = app
        self.login, self.sign_in = login, sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, 411 or 413, or pass the request on."""
        refused = _refused(scope, login=self.login, sign_in=self.sign_in)
        if refused is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, said = refused
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": said.encode()})


def _refused(scope: Scope, *, login: bool = False, sign_in: bool = False) -> tuple[int, str] | None:
    """Return the status and message for a request that is rejected, otherwise ``None``."""
    if scope["type"] == "lifespan":
        return None
    closed = 403, "not available in this app\n"
    if scope["type"] != "http":
        return closed
    method, path = scope["method"], scope["path"]
    named = login and method in _LOGIN and _LOGIN[method].fullmatch(path)
    named = named or (sign_in and method == "GET" and _SIGN_IN.fullmatch(path))
    if method in ("GET", "HEAD"):
        return None if named or _READ.fullmatch(path) else closed
    if method == "OPTIONS":
        return None
    if method != "POST" or not (named or _WRITE.fullmatch(path)):
        return closed
    length = dict(scope["headers"]).get(b"content-length", b"")
    if not length.isdigit():
        return 411, "the request needs a Content-Length header\n"
    return (413, f"a request can have at most {REQUEST_BYTES:,} bytes\n") if int(length) > REQUEST_BYTES else None
