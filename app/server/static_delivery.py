"""Files that never change while the app runs, such as scripts: compressed once, and kept by browsers.

Gradio compresses them at every request, quickly and a tenth less than it could. Its own ones have a digest in their
names, and the app's are in a folder with a new name for every start, so a browser need not ask for them twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import brotli
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from .gradio_mends import mended

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

NAMED = "/assets/"
"""Path of Gradio's modules and style sheets, with digests in their names."""

QUALITY = 5
"""Of Brotli, 0 to 11. At 9 the first visitor waits ten times as long for one hundredth less."""

MOST_BYTES = 4 * 2**20
"""Size of the largest file that is compressed here, and of all compressed ones together."""

KEEP = "public, max-age=31536000, immutable"


class StaticDelivery:
    """ASGI middleware that answers a request for such a file with what it compressed before.

    Gradio answers the first request for each file, and all that it would not answer with the whole file. It asks for no
    password before it sends its modules; those of the app are part of the published package.

    Args:
        app: What is behind it.
        kept: Returns the paths of the app's own such files, each with its content compressed with Brotli, or ``None``
            if that is to be computed.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        *,
        kept: Callable[[], Mapping[str, bytes | None]],
    ) -> None:
        self.app = app
        self.kept = kept
        self.known: dict[str, Response] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"] if _compressible(scope) else ""
        if not path.startswith(NAMED) and path not in self.kept():
            await self.app(scope, receive, send)
            return
        if path not in self.known:
            found = await self._read(scope, receive, send)
            if found is None:
                return
            self.known[path] = found
        await self.known[path](scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Return the compressed answer to keep; ``None`` if there is none and the request has been answered."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self.app({**scope, "headers": plain}, receive, keep)
        body = b"".join(message.get("body", b"") for message in messages)
        room = MOST_BYTES - sum(len(known.body) for known in self.known.values())
        if not messages or messages[0].get("status") != 200 or len(body) > room:
            for message in messages:
                await send(message)
            return None
        body = mended(scope["path"], body)
        packed = self.kept().get(scope["path"])
        packed = packed or await run_in_threadpool(brotli.compress, body, quality=QUALITY)
        headers = MutableHeaders(raw=list(messages[0]["headers"]))
        for name in ("accept-ranges", "content-length", "date", "server"):
            del headers[name]
        headers.update({"cache-control": KEEP, "content-encoding": "br", "vary": "Accept-Encoding"})
        return Response(packed, headers=dict(headers.items()))


def _compressible(scope: Scope) -> bool:
    """Return whether the whole of a file is asked for, by a browser that reads Brotli."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    headers = Headers(scope=scope)
    return "range" not in headers and "br" in headers.get("accept-encoding", "")
