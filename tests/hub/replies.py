"""How the fake Hub words its answers."""

from __future__ import annotations

import hashlib
import json

from tests.hub.answer import Answer, Request

_EXPOSED = {
    "hub": "X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,X-Total-Count,ETag,Link,Accept-Ranges,"
    "Content-Range,X-Linked-Size,X-Linked-ETag,X-Xet-Hash",
    "cdn": "Accept-Ranges, Content-Range, Content-Type, Content-Disposition, ETag, X-Cache",
}
"""Headers that pages of other origins may see, as huggingface.co and its CDN list them."""


def in_text(status: int, text: str) -> Answer:
    """Answer with plain text."""
    answer = Answer(status)
    answer.carry(text.encode(), "text/plain; charset=utf-8")
    return answer


def in_json(value: object, status: int = 200) -> Answer:
    """Answer with JSON."""
    answer = Answer(status)
    answer.carry(json.dumps(value).encode(), "application/json; charset=utf-8")
    return answer


def failed(status: int, message: str, code: str | None = None) -> Answer:
    """Refuse, as the Hub words it in the body and in its headers."""
    answer = in_json({"error": message}, status)
    answer.headers["X-Error-Message"] = message
    if code is not None:
        answer.headers["X-Error-Code"] = code
    return answer


def shared(request: Request) -> dict[str, str]:
    """Return the headers that let a page of another origin read an answer."""
    if request.host == "hub":
        allowed = {"Access-Control-Allow-Origin": request.headers["origin"], "Vary": "Origin"}
    else:
        allowed = {"Access-Control-Allow-Origin": "*"}
    return {**allowed, "Access-Control-Expose-Headers": _EXPOSED.get(request.host, "")}


def signature(path: str) -> str:
    """Return what the CDN wants to see beside a path."""
    return hashlib.sha1(b"signed" + path.encode()).hexdigest()
