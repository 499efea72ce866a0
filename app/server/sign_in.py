"""Signing in with Hugging Face: which request belongs to whom.

Gradio speaks with the provider and keeps what that sends, the token included, in a signed cookie. Here the cookie holds
a random key instead, and the rest stays in the memory of this process: see ``session.accounts``.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import PlainTextResponse, RedirectResponse

from ..session.accounts import ACCOUNT, ACCOUNTS, INFO, KEY
from .reach import split_origin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROUTES = ("/login/huggingface", "/login/callback", "/logout")
"""Gradio's routes for signing in and out."""

FAILED = "Signing in failed; go back to the page and try again.\n"


class SignedIn:
    """ASGI middleware behind Gradio's sessions: moves what the provider sent from the cookie to ``ACCOUNTS``.

    A request that another site makes a browser send comes without an account.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with the session of its visitor."""
        if scope["type"] != "http" or "session" not in scope:
            await self.app(scope, receive, send)
            return
        cookie, elsewhere = scope["session"], _from_elsewhere(scope)
        key = None if elsewhere else cookie.get(KEY)
        account = ACCOUNTS.find(key)
        session = {name: value for name, value in cookie.items() if name not in (KEY, INFO)}
        if account is not None:
            session |= {KEY: key, INFO: dict(account.info)}
        before = session.get(INFO)
        started = False

        async def put_away(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if not elsewhere:
                    if session.get(INFO) is not before:
                        _settle(session, key)
                    _write(cookie, session)
            await send(message)

        try:
            await self.app({**scope, "session": session, ACCOUNT: account}, receive, put_away)
        except Exception as error:
            if scope["path"] not in ROUTES or started:
                raise
            declined = b"error=access_denied" in scope["query_string"]
            if not declined:
                print(f"hfposemb: signing a visitor in failed: {type(error).__name__}", flush=True)
            answer = RedirectResponse("/", 302) if declined else PlainTextResponse(FAILED, 502)
            await answer(scope, receive, send)


def _settle(session: dict[str, Any], key: object) -> None:
    """Close the account that a request ended, and open the one that it began."""
    if isinstance(key, str):
        ACCOUNTS.remove(key)
    session.pop(KEY, None)
    info = session.pop(INFO, None)
    if info is not None:
        with suppress(KeyError, TypeError, AttributeError, ValueError):  # not what a provider sends
            session[KEY] = ACCOUNTS.add(info)


def _write(cookie: MutableMapping[str, Any], session: dict[str, Any]) -> None:
    """Make the cookie hold what the session holds, except for what the provider sent."""
    wanted = {name: value for name, value in session.items() if name != INFO}
    if dict(cookie) != wanted:
        cookie.clear()
        cookie.update(wanted)


def _from_elsewhere(scope: Scope) -> bool:
    """Return whether a page of another site sent the request."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    hosts = [headers.get(b"host"), headers.get(b"x-forwarded-host"), *os.environ.get("SPACE_HOST", "").split(",")]
    return origin is not None and split_origin(origin).netloc not in filter(None, hosts)
