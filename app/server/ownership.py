"""Whose a session, an event and a file are, on a page that offers to sign in.

Gradio answers whoever names a session or an event, and serves what it has to whoever knows the address. Here such a
name is worth something only in a request of the visitor for whom it was made.

- A session that a request with an account names is known to Gradio by that name and the account's id.
- An event that a program asked for has a name that is signed for its account.
- A file in the store of an account is served to requests with that account.
- A page stays with whom it was first used by, and says so if that changes.
"""

from __future__ import annotations

import hmac
import json
import os
import re
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from gradio.utils import abspath
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ..components.files import own_folders
from ..session.accounts import ACCOUNT, Account
from .messages import body_of, cached, rewritten, with_body

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_PAGES = 10_000
"""Pages of which is known who used them first."""

_FILE = "/gradio_api/file="
_SESSION = re.compile(r"(/gradio_api/heartbeat/)(\w+)")
_CALL = re.compile(r"/gradio_api/call/(?:v2/)?\w+/?")
_CALLED = re.compile(r"(/gradio_api/call/(?:v2/)?\w+/)(\w+)")
_CANCEL = "/gradio_api/cancel"
_BODIES = re.compile(r"/gradio_api/(queue/join|cancel|call/.*)", re.DOTALL)
_DIGITS = 32

_NO_FILE = PlainTextResponse("not yours, or not any more\n", 403)
_NO_EVENT = JSONResponse({"detail": "no such event"}, 404)
_LEFT = "This page was opened before you signed in or out; reload it."


class Owned:
    """ASGI middleware behind ``SignedIn``, which says whose a request is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._key = token_bytes(32)
        self._pages: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with what its visitor owns."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        account: Account | None = scope.get(ACCOUNT)
        owner = "" if account is None else account.id
        path = scope["path"]
        answer: Response | None = None
        if path.startswith(_FILE) and _within(path.removeprefix(_FILE), own_folders()):
            mine = account is not None and _within(path.removeprefix(_FILE), account.files.folder)
            send, answer = cached(send, "private, no-store"), None if mine else _NO_FILE
        elif scope["method"] == "POST" and _BODIES.fullmatch(path):
            body = await body_of(receive)
            answer, body = self._written(scope, body, owner)
            scope, receive = with_body(scope, body, receive)
            if _CALL.fullmatch(path):
                send = rewritten(send, partial(self._signed, owner))
        elif (called := _CALLED.fullmatch(path)) is not None:
            event = called[2][:-_DIGITS]
            signed = event + self._sign(event, owner)
            answer = None if hmac.compare_digest(called[2].encode(), signed.encode()) else _NO_EVENT
            scope = _at(scope, called[1] + event)
        else:
            scope = _at(scope, _SESSION.sub(lambda found: found[1] + _own(found[2], owner), path))
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if owner and any(name == "session_hash" for name, _ in query):
                owned = [(name, _own(value, owner) if name == "session_hash" else value) for name, value in query]
                scope = {**scope, "query_string": urlencode(owned).encode()}
        await (answer or self.app)(scope, receive, send)

    def _written(self, scope: Scope, body: bytes, owner: str) -> tuple[Response | None, bytes]:
        """Return the body of a request with its session as Gradio knows it, or why there is no such session."""
        try:
            found = json.loads(body)
        except ValueError:
            return None, body  # for Gradio to refuse
        page = found.get("session_hash") if isinstance(found, dict) else None
        if not isinstance(page, str):
            return None, body
        if self._pages.setdefault(page, owner) != owner:
            return JSONResponse({"detail": _LEFT, "error": _LEFT}, 401), body
        self._pages.move_to_end(page)
        if len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        found["session_hash"] = _own(page, owner)
        if scope["path"] == _CANCEL:
            event = scope["app"].get_blocks()._queue.event_ids_to_events.get(str(found.get("event_id")))
            if event is not None and event.session_hash != found["session_hash"]:
                return _NO_EVENT, body
        return None, json.dumps(found).encode()

    def _sign(self, event: str, owner: str) -> str:
        return hmac.new(self._key, f"{event} {owner}".encode(), "sha256").hexdigest()[:_DIGITS]

    def _signed(self, owner: str, start: Message, body: bytes) -> bytes:
        """Return the answer to a call with the name of its event signed."""
        if start["status"] != 200:
            return body
        event = json.loads(body)["event_id"]
        return json.dumps({"event_id": event + self._sign(event, owner)}).encode()


def _own(session: str, owner: str) -> str:
    """Return by which name Gradio knows a session."""
    return f"{session}-{owner}" if owner else session


def _within(path: str, folder: os.PathLike[str]) -> bool:
    """Return whether what Gradio would serve at a path is in a folder."""
    with suppress(ValueError):  # a path that cannot be, or on another drive
        return os.path.commonpath([os.path.realpath(abspath(path)), folder]) == os.fspath(folder)
    return False


def _at(scope: Scope, path: str) -> Scope:
    return scope if path == scope["path"] else {**scope, "path": path, "raw_path": path.encode()}
