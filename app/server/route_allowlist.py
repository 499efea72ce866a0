"""Route allow-list for public mode.

Gradio serves more routes than this app uses: uploads, a proxy, functions of components, recordings, a way around the
queue. Guarantees in public mode: every route not listed here is answered with 403, a request body has at most
``REQUEST_BYTES``, and files of other hosts are never served. A file that a request names in its address or its body is
in one of the folders of what the app wrote for pages, or nobody looks at it; within them Gradio decides what is served.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import PlainTextResponse

from ..limits import REQUEST_BYTES
from .messages import body_of, with_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_READ = re.compile(
    r"/|/config/?|/theme\.css|/robots\.txt|/favicon\.ico|/preview\.png|/manifest\.json|/pwa_icon(/[0-9]+)?|/(assets|static|svelte)/.+"
    r"|/gradio_api/(mcp/?|mcp/schema|info/?|openapi\.json|app_id/?|user/?|startup-events|theme\.css|queue/(data|status)|heartbeat/\w+"
    r"|call/(v2/)?\w+/\w+)",
    re.DOTALL,
)
_FILE = "/gradio_api/file="
_WRITE = re.compile(r"/gradio_api/(mcp/?|queue/join|cancel|reset/?|call/(v2/)?\w+/?)")
_LOGIN = {"GET": re.compile(r"/logout|/gradio_api/login_check/?"), "POST": re.compile(r"/login/?")}
"""Additional routes of a page with a password, by method."""

_SIGN_IN = re.compile(r"/login/(huggingface|callback)|/logout")
"""Additional routes, read only, of a page that offers to sign in."""


class Doors:
    """ASGI middleware that allows the routes the page needs.

    With ``login`` also those of the page that asks for a password, with ``sign_in`` those of Gradio's OAuth. Files are
    served from ``folders`` only.
    """

    def __init__(
        self, app: ASGIApp, *, folders: Sequence[str] = (), login: bool = False, sign_in: bool = False
    ) -> None:
        self.app = app
        self.folders, self.login, self.sign_in = tuple(folders), login, sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 400, 403, 411 or 413, or pass the request on."""
        refused = _refused(scope, folders=self.folders, login=self.login, sign_in=self.sign_in)
        if refused is None and scope["type"] == "http" and scope["method"] == "POST":
            body = await body_of(receive)
            refused, (scope, receive) = self._refused_body(scope, body), with_body(scope, body, receive)
        if refused is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, said = refused
            await PlainTextResponse(said, status, {"connection": "close"})(scope, receive, send)

    def _refused_body(self, scope: Scope, body: bytes) -> tuple[int, str] | None:
        """Return the status and message for a body that is no JSON or names a file that no page was given."""
        if not body or (self.login and _LOGIN["POST"].fullmatch(scope["path"])):
            return None
        try:
            named = list(_named_files(json.loads(body)))
        except (ValueError, RecursionError):
            return 400, "the body of the request is not JSON\n"
        if all(_is_served(f"{_FILE}{path}", self.folders) for path in named):
            return None
        return 403, "the request names a file, and this page takes none\n"


def _named_files(value: Any) -> Iterator[str]:
    """Yield the paths of the values that Gradio would take for files, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("path"), str):
            yield value["path"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _named_files(one)


def _refused(
    scope: Scope, *, folders: Sequence[str] = (), login: bool = False, sign_in: bool = False
) -> tuple[int, str] | None:
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
        return None if named or _is_route(path) or _is_served(path, folders) else closed
    if method == "OPTIONS":
        return None
    if method != "POST" or not (named or _WRITE.fullmatch(path)):
        return closed
    length = dict(scope["headers"]).get(b"content-length", b"")
    if not length.isdigit():
        return 411, "the request needs a Content-Length header\n"
    return (413, f"a request can have at most {REQUEST_BYTES:,} bytes\n") if int(length) > REQUEST_BYTES else None


def _is_route(path: str) -> bool:
    """Return whether a path is that of a route to read, with nothing in it that leads elsewhere."""
    return _READ.fullmatch(path) is not None and os.path.normpath(path) == (path.rstrip("/") or "/")


def _is_served(route: str, folders: Sequence[str]) -> bool:
    """Return whether a route asks for a file within one of some folders, without looking at the disk."""
    path = route.removeprefix(_FILE)
    written_out = path == os.path.normpath(path) and "\x00" not in path  # as the app writes it: nothing is resolved
    return route != path and written_out and any(path.startswith(f"{folder}{os.sep}") for folder in folders)
