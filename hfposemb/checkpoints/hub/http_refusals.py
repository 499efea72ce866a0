"""Errors for responses that are not the requested file, which say what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from ...errors import HubError, MissingFileError, RefusedError
from .http_answers import NotYetError, WrongAnswerError
from .http_connection import Connection

if TYPE_CHECKING:
    import httpx2


_BUSY = {408, 425, 429, 500, 502, 503, 504}


def unnamed(connection: Connection, response: httpx2.Response, file: str) -> Exception:
    """Return the error for a first response without a commit: later responses could belong to another one."""
    code = response.headers.get("x-error-code", "")
    if response.status_code == 404 and code != "EntryNotFound":
        return refusal(connection, response, file)
    return WrongAnswerError("the response names no commit, as the Hub's responses do")


def refusal(connection: Connection, response: httpx2.Response, file: str) -> Exception:
    """Return the error for a response that is not the file, with what to do; its body is not read."""
    status, code = response.status_code, response.headers.get("x-error-code", "")
    said = response.headers.get("x-error-message", "")
    repo, revision, token = connection.repo, connection.revision, connection.token
    known = token is not False and "authorization" in connection.headers()
    where = f"on the Hub at {revision}" if revision != "main" else "on the Hub"
    if status in _BUSY:
        return NotYetError(f"the Hub returned status {status}", wait=_retry_after(response.headers))
    if code == "GatedRepo":
        advice = "accept its conditions on its page" if known else "accept its conditions on its page and log in"
        if token is False:
            advice = "to read gated models, run the app on your own machine"
        return RefusedError(f"{repo} is gated; {advice}", repo=repo, gated=True)
    if code == "RevisionNotFound":
        return HubError(f"{repo} has no revision {revision!r:.100}; see the branches and tags on its page")
    if code == "EntryNotFound":
        return MissingFileError(f"{repo} has no file {file} {where}")
    if status == 401 and "credentials" in said.lower():
        message = f"{repo}: the Hub rejected the token; log in again with 'hf auth login'"
        return RefusedError(message, repo=repo, rejected=True)
    if code == "RepoNotFound" or status in (401, 404):
        advice = "check its name and whether your token can read it" if known else "check its name"
        if not known and token is not False:
            advice += "; for a private model log in with 'hf auth login'"
        return RefusedError(f"{repo} is not a public model on the Hub; {advice}", repo=repo)
    if status == 403:
        return RefusedError(f"{repo}: the Hub refused access (403); check the permissions of your token", repo=repo)
    return WrongAnswerError(f"the Hub returned status {status}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, given in seconds or as a date."""
    stated = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", stated):
        return float(stated)
    try:
        return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
