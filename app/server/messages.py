"""Parts of requests and answers for the middleware of this app: where they came from, and bodies that are replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


def origin_of(scope: Scope) -> str:
    """Return scheme and host by which a browser reached the app; a proxy says so in its headers."""
    headers = Headers(scope=scope)
    scheme = headers.get("x-forwarded-proto", scope.get("scheme", "http")).partition(",")[0].strip()
    host = headers.get("x-forwarded-host", headers.get("host", "")).partition(",")[0].strip()
    return f"{scheme}://{host}"


async def body_of(receive: Receive) -> bytes:
    """Read a body, whose length ``route_allowlist`` bounds; what is there if the client leaves."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    return b"".join(parts)


def with_body(scope: Scope, body: bytes, receive: Receive) -> tuple[Scope, Receive]:
    """Return a request with a body, after which ``receive`` says what follows it."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return left.pop() if left else await receive()

    return {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}, received


def rewritten(send: Send, change: Callable[[Message, bytes], bytes]) -> Send:
    """Return what sends an answer once all of it is there, with the body that ``change`` makes of it."""
    start: Message = {}
    parts: list[bytes] = []

    async def sending(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        parts.append(message.get("body", b""))
        if message.get("more_body"):
            return
        body = change(start, b"".join(parts))
        MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return sending


def cached(send: Send, how: str, *, only: int | None = None) -> Send:
    """Return what sends an answer with a Cache-Control header, if its status is the ``only`` one to have it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and only in (None, message["status"]):
            MutableHeaders(raw=message["headers"])["cache-control"] = how
        await send(message)

    return sending
