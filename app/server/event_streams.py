"""Streams of events: only for sessions that have some, few for each, and nothing of a call is kept once it is answered.

Gradio opens a stream for any session, fails while it is sent, and logs two tracebacks of 3 kB: three hundred such
requests kept the server busy for twelve seconds. And it keeps half a megabyte for each session, also for that of a
single call of the API.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from gradio.server_messages import UnexpectedErrorMessage
from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

MOST_STREAMS = 4
"""Streams that a session has at the same time. A page has one, and for a moment two."""

TOO_MANY = f"this session already has {MOST_STREAMS} streams of events open; close one\n"

_CALL = re.compile(r".*/gradio_api/call/(?:v2/)?\w+/(\w+)")


class EventStreams:
    """ASGI middleware in front of Gradio's queue."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        if path.endswith("/gradio_api/queue/data"):
            await self._stream(scope, receive, send)
        elif call := _CALL.fullmatch(path):
            await self._answer(call[1], scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = parse_qs(scope["query_string"].decode("latin-1")).get("session_hash", [""])[0]
        if session not in scope["app"].get_blocks()._queue.pending_messages_per_session:
            unknown = UnexpectedErrorMessage(message="404: Not Found", session_not_found=True)
            said = f"data: {unknown.model_dump_json()}\n\n"
            await Response(said, media_type="text/event-stream")(scope, receive, send)
        elif self._open[session] >= MOST_STREAMS:
            await PlainTextResponse(TOO_MANY, 429)(scope, receive, send)
        else:
            self._open[session] += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self._open[session] -= 1
                self._open += Counter()  # without those that are 0

    async def _answer(self, event: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the answer of a call; one that names no session has one of its own, by the name of the event."""
        try:
            await self.app(scope, receive, send)
        finally:
            holder = scope["app"].state_holder
            for kept in (holder.session_data, holder.time_last_used, holder.blocks._queue.pending_messages_per_session):
                kept.pop(event, None)
