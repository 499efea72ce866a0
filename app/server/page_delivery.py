"""How the page reaches a browser: compressed, with its script in its head and a preview of its link.

Gradio says of no file how long it holds, and sends each again to a browser that has it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response

from ..components.files import shared
from ..components.plot import SCRIPT
from ..limits import MOST_SOURCES
from ..session.address import MODELS, TAB, read, sources_of
from ..session.source_names import short_names
from .messages import cached, origin_of, rewritten

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PICTURE_PATH = "/preview.png"
PICTURE = Path(__file__).parents[1] / "static" / "preview.png"
WIDTH, HEIGHT = 1200, 630
DESCRIPTION = (
    "See what a pretrained model knows about words and positions: maps, similarities and comparisons of its embedding "
    "tables, measured on the model itself."
)
UNTITLED = "hfposemb: what a model knows about words and positions"
SUBJECTS = {
    "positions": "position embeddings",
    "tokens": "token embeddings",
    "words": "words + positions",
    "compare": "compared",
    "training": "in training",
}
"""What a tab shows of the models, by its key."""

_GRADIOS = re.compile(r'\s*<meta\s+(?:property="og:|name="twitter:)[^>]*>')


def titled(query: str) -> str:
    """Return the title of the view that an address's query opens.

    Examples:
        >>> titled("models=sample:minilm,sample:gpt2&tab=positions")
        'MiniLM and Demo GPT-2: position embeddings · hfposemb'
        >>> titled("")
        'hfposemb: what a model knows about words and positions'
    """
    found = read(query)
    models = list(sources_of(found.get(MODELS, ()), public=True))[:MOST_SOURCES]
    subject = SUBJECTS.get(found.get(TAB, [""])[0], "")
    names = short_names(models)
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
    if not listed:
        return f"{subject.capitalize()} · hfposemb" if subject else UNTITLED
    return f"{listed}{': ' if subject else ''}{subject} · hfposemb"


def with_preview(page: str, *, query: str, origin: str) -> str:
    """Return the page with the preview of its link in place of Gradio's.

    Args:
        page: HTML of the page.
        query: Query of the address, which holds the view.
        origin: Scheme, host and path before the page's own, since a picture needs an absolute address.
    """
    properties = {
        "og:title": titled(query),
        "og:type": "website",
        "og:description": DESCRIPTION,
        "og:image": f"{origin}{PICTURE_PATH}",
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": "Position embeddings of three models as curves in space, one dot per position",
    }
    tags = [f'<meta property="{name}" content="{html.escape(value)}" />' for name, value in properties.items()]
    tags.append('<meta name="twitter:card" content="summary_large_image" />')
    tags.append(f'<meta name="description" content="{html.escape(DESCRIPTION)}" />')
    return _GRADIOS.sub("", page).replace("</head>", "".join(f"\t\t{tag}\n" for tag in tags) + "\t</head>", 1)


@cache
def picture() -> bytes:
    """Return the picture as PNG."""
    return PICTURE.read_bytes()


DESCRIPTIONS = frozenset({"config", "info"})
"""Last parts of the paths of descriptions of the page. Gradio compresses scripts; numbers hardly shrink."""

KEEP = "public, max-age=31536000, immutable"

_MODULE = re.compile(r"/assets/[\w-][\w.-]*\.(?:js|css)")
"""Path of a module or style sheet of Gradio, which has a digest in its name."""


class PageDelivery:
    """ASGI middleware that serves the page of an app at the root of a server.

    ``begins`` returns the query that a page begins with instead of the one that was asked for; "" for the same.
    """

    def __init__(self, app: ASGIApp, begins: Callable[[str], str] | None = None) -> None:
        self.app = app
        self.begins = begins
        self.compressed = GZipMiddleware(app, compresslevel=6)
        self.page = GZipMiddleware(self._previewed, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"] if scope["type"] == "http" else None
        if path == PICTURE_PATH:
            day = {"Cache-Control": "public, max-age=86400"}
            await Response(picture(), media_type="image/png", headers=day)(scope, receive, send)
        elif path == "/":
            query = scope.get("query_string", b"").decode("latin-1")
            if self.begins is not None and (other := self.begins(query)):
                await RedirectResponse(f"?{other}", 302)(scope, receive, send)
            else:
                await self.page(scope, receive, send)
        elif path is not None and path.rpartition("/")[2] in DESCRIPTIONS:
            await self.compressed(scope, receive, send)
        elif path is not None and (_MODULE.fullmatch(path) or _is_script(path)):
            await self.app(scope, receive, cached(send, KEEP, only=200))
        else:
            await self.app(scope, receive, send)

    async def _previewed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the preview of the link and the app's script into the page."""
        await self.app(scope, receive, rewritten(send, partial(_written, scope)))


def _is_script(path: str) -> bool:
    """Return whether a path is that of a script or style sheet of rows, in a folder with a new name for every start."""
    return path.rpartition("/")[0] == f"/gradio_api/file={shared().folder}"


def with_script(page: str, path: str) -> str:
    """Return the page with the script of its rows in its head, so that figures load while Gradio builds the page.

    A page without rows, such as that of a login, stays as it is.

    Args:
        page: HTML of the page.
        path: Where the server has the script.
    """
    address = f"/gradio_api/file={path}"
    if json.dumps(address)[1:-1] not in page:
        return page
    tag = f'\t<script type="module" src=".{html.escape(address)}"></script>\n\t</head>'  # a proxy may change scheme
    return page.replace("</head>", tag, 1)


def _written(scope: Scope, start: Message, body: bytes) -> bytes:
    """Return the page with its preview and script; any other answer, such as one without a body, as it is."""
    kind = Headers(raw=start["headers"]).get("content-type", "")
    if not body or start["status"] != 200 or not kind.startswith("text/html"):
        return body
    query = scope.get("query_string", b"").decode("latin-1")
    origin = f"{origin_of(scope)}{scope.get('root_path', '').rstrip('/')}"
    page = with_preview(body.decode(), query=query, origin=origin)
    return with_script(page, str(shared().folder / SCRIPT)).encode()
