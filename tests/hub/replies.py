"""How the fake Hub words its answers."""

from __future__ import annotations

import hashlib
import json

from tests.hub.answer import Answer


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


def signature(path: str) -> str:
    """Return what the CDN wants to see beside a path."""
    return hashlib.sha1(b"signed" + path.encode()).hexdigest()
