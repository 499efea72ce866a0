"""Files that never change while the app runs, such as scripts: read and compressed once, and kept by browsers.

Gradio reads and compresses them at every request, quickly and a tenth less than it could. Its own ones have a digest in
their names, and the app's are in a folder with a new name for every start, so a browser need not ask for them twice.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import brotli
import gradio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response

from .gradio_mends import mended

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MODULES = Path(gradio.__file__).parent / "templates" / "frontend" / "assets"
"""Folder of Gradio's modules and style sheets, with digests in their names."""

QUALITY = 5
"""Of Brotli, 0 to 11. At 9 the first visitor waits ten times as long for one hundredth less."""

MOST_BYTES = 4 * 2**20
"""Size of the largest file that is compressed here, and of all compressed ones together."""

QUICK_BYTES = 2**16
"""Size up to which a file is compressed at once, which takes less time than to start it in another thread."""

KEEP = "public, max-age=31536000, immutable"

_NAMED = re.compile(r"/assets/([\w-][\w.-]*\.(?:js|css))")
_FILE = "/gradio_api/file="


class StaticDelivery:
    """ASGI middleware that answers a request for such a file with what it compressed before.

    Gradio answers what asks for less than a whole file, or is not such a file. It asks for no password before it sends
    its modules, so none is asked for here; those of the app are part of the published package.

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
        file = self._file(path)
        if file is not None and path not in self.known:
            await self._read(path, file)
        await self.known.get(path, self.app)(scope, receive, send)

    def _file(self, path: str) -> Path | None:
        """Return the file that is served at a path; ``None`` if Gradio has to answer."""
        if (named := _NAMED.fullmatch(path)) is not None:
            return MODULES / named[1]
        return Path(path.removeprefix(_FILE)) if path in self.kept() else None

    async def _read(self, path: str, file: Path) -> None:
        """Keep the compressed answer, if there is such a file and room for it."""
        room = MOST_BYTES - sum(len(known.body) for known in self.known.values())
        if not file.is_file() or file.stat().st_size > room:
            return
        packed = self.kept().get(path)
        if packed is None:
            body = mended(path, file.read_bytes())
            if len(body) <= QUICK_BYTES:
                packed = brotli.compress(body, quality=QUALITY)
            else:
                packed = await run_in_threadpool(brotli.compress, body, quality=QUALITY)
        headers = {"cache-control": KEEP, "content-encoding": "br", "vary": "Accept-Encoding"}
        self.known[path] = Response(packed, media_type=mimetypes.guess_type(path)[0], headers=headers)


def _compressible(scope: Scope) -> bool:
    """Return whether the whole of a file is asked for, by a browser that reads Brotli."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    headers = Headers(scope=scope)
    return "range" not in headers and "br" in headers.get("accept-encoding", "")
