"""Requests that Gradio cannot read: answered with one line, of which the log has one too.

Listeners and endpoints answer their own failures, see ``page``. What reaches this middleware failed on the way to them:
there is no such endpoint, or the body holds what cannot be written into an answer about it.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from hfposemb.text import one_line

from ..failures import said_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger(__name__)

OURS = Path(__file__).parents[1]


class FailedRequests:
    """ASGI middleware that answers a request on which what is behind it fails.

    Args:
        app: What is behind it.
        public: Whether others can reach the app.
    """

    def __init__(self, app: ASGIApp, *, public: bool) -> None:
        self.app = app
        self.public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:
            if scope["type"] != "http":
                raise
            status, said = told_of(error, public=self.public)
            LOG.warning("%s %s: %d, %s", scope["method"], one_line(scope["path"], width=80), status, _where(error))
            if not started:
                answer = JSONResponse({"detail": said}, status, {"connection": "close"})
                await answer(scope, receive, send)


def told_of(error: Exception, *, public: bool) -> tuple[int, str]:
    """Return the status and the line that answer a request that failed with an error."""
    if Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(OURS):
        return 500, said_of(error, public=public)
    if isinstance(error, TypeError):  # of a client's arguments
        return 422, one_line(str(error).partition(" Please click")[0], width=200)
    if isinstance(error, KeyError) or type(error).__name__ == "FnIndexInferError":
        return 404, "there is no such endpoint or event; /gradio_api/info lists the endpoints"
    return 400, "the request is malformed"


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return one_line(f"{type(error).__name__}: {error} ({Path(frame.filename).name} {frame.lineno})", width=200)
