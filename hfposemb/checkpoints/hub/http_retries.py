"""The retry policy of all reads from the Hub."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ...errors import HubError, InputError, OfflineError
from ...logs import LOG
from ..deadline import Deadline
from .http_answers import NotYetError, WrongAnswerError
from .http_errors import http_errors

_T = TypeVar("_T")


_TRIES = 6  # attempts if failures are transient: a busy server, a broken connection
_WRONG = 3  # attempts if responses violate the protocol


def retried(attempt: Callable[[], _T], deadline: Deadline, *, repo: str, what: str, seconds: float) -> _T:
    """Retry until success, a permanent failure or the deadline; the single retry policy for all reads.

    Args:
        attempt: Makes one attempt.
        deadline: Deadline of the read.
        repo: Name of the repository.
        what: What is read.
        seconds: Time that a whole read may take.
    """
    http, wrong = http_errors(), 0
    subject = f"{repo} {what}"
    for tried in range(1, _TRIES + 1):
        wait: float | None = None
        try:
            return _permanent(attempt, repo=repo, what=what)
        except NotYetError as error:
            reason, wait = str(error), error.wait
        except WrongAnswerError as error:
            reason, wrong = str(error), wrong + 1
            if wrong == _WRONG:
                raise HubError(f"{subject}: {reason}; try again, or check HF_ENDPOINT and the proxy") from None
        except http.unreachable:
            reason = "the Hub cannot be reached"
            if tried == _WRONG:
                raise OfflineError(f"{subject}: {reason}; check the network and HF_ENDPOINT") from None
        except http.timeout:
            reason = "the Hub did not respond in time"
        except (http.request, http.stream):
            reason = "the connection broke"
        pause = min(4.0, 0.25 * 2 ** (tried - 1)) if wait is None else wait
        if pause > deadline.left:
            asked = f" and asks to wait {wait:.0f} s" if wait else ""
            given = f"given up after {seconds:g} s" if not wait else "try again later"
            raise HubError(f"{subject}: {reason}{asked}; {given}") from None
        LOG.info("%s: %s; trying again in %.2g s", subject, reason, pause)
        time.sleep(pause)
    raise HubError(f"{subject}: {reason} (tried {_TRIES} times); try again later")


def _permanent(attempt: Callable[[], _T], *, repo: str, what: str) -> _T:
    """Make one attempt; raise an error of this package for a failure that no other attempt would mend."""
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    try:
        return attempt()
    except OfflineModeIsEnabled:
        raise OfflineError(f"{repo} {what}: offline mode is on; unset HF_HUB_OFFLINE") from None
    except http_errors().bad_address:
        raise HubError(f"{repo} {what}: the address is invalid; check HF_ENDPOINT and the proxy") from None
    except HFValidationError:
        raise InputError(f"{repo!r:.100} is not a repository name; write owner/name") from None
