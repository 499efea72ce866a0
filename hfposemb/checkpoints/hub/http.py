"""Ranged Hub client that validates status, range, size, ETag and commit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from ...errors import ChangedFileError, HubError, InputError, MissingFileError, OfflineError, RefusedError
from ...logs import LOG
from ...progress import Progress, Traffic, progress_watcher
from .. import deadline as deadlines
from ..deadline import Deadline
from ..limits import DEFAULT_LIMITS, Limits
from .http_answers import (
    Answer,
    NotYetError,
    Reading,
    Sink,
    Version,
    WrongAnswerError,
    check_kind,
    http_errors,
    length_of,
    strong,
)
from .http_connection import Connection

if TYPE_CHECKING:
    import httpx2


_T = TypeVar("_T")
_TRIES = 6  # attempts if failures are transient: a busy server, a broken connection
_WRONG = 3  # attempts if responses violate the protocol
_LONGEST_TAG = 300


class Wire(Connection):
    """Reads files of one repository at one commit.

    The first response pins ``commit``; all later requests use it. The token is sent to the Hub only, never to the hosts
    that it redirects to.

    Args:
        repo: Name of the repository.
        revision: Branch, tag or commit.
        token: As in huggingface_hub: a token, ``None`` for the user's own, ``False`` for none.
        limits: Limits of what is read.
        full_download: Whether to read a whole file if the server ignores ranges.
        traffic: Counts requests and bytes.
    """

    def __init__(
        self,
        repo: str,
        revision: str,
        token: str | bool | None = None,
        limits: Limits = DEFAULT_LIMITS,
        full_download: bool = False,
        *,
        traffic: Traffic | None = None,
    ) -> None:
        super().__init__(repo, revision, token, Traffic() if traffic is None else traffic)
        self.limits, self.full_download = limits, full_download
        self._final: dict[str, str] = {}  # URLs to which the Hub redirected, by file

    def deadline(self, nbytes: int = 0) -> Deadline:
        """Return the deadline of the current read, or a new one; ``nbytes`` of a large file may extend it."""
        deadline = deadlines.current(self.limits.seconds)
        deadline.allow(nbytes)
        return deadline

    def pin(self, file: str) -> str:
        """Return the commit that the revision refers to now, from a HEAD request for ``file``, which need not exist."""
        deadline = self.deadline()

        def ask() -> str:
            with self.ask(self.url(file), {}, deadline, method="HEAD") as answer:
                refused = answer.response.status_code >= 400
                if refused and answer.response.headers.get("x-error-code") != "EntryNotFound":
                    raise refusal(self, answer.response, file)
            if self.commit is None:
                raise WrongAnswerError("the response names no commit")
            return self.commit

        return self._retried(ask, deadline, what=f"the revision {self.revision}")

    def get(self, file: str, *, most: int, deadline: Deadline) -> bytes:
        """Return a whole file of at most ``most`` bytes. Raises ``MissingFileError`` if there is none."""
        kept = bytearray()
        self.read(file, None, kept.extend, most=most, deadline=deadline)
        return bytes(kept)

    def api(self, path: str, *, most: int, deadline: Deadline) -> bytes:
        """Return the body of a Hub API response of at most ``most`` bytes; ``path`` starts with ``/api/``."""
        from huggingface_hub import constants

        def ask() -> bytes:
            kept = bytearray()
            with self.ask(constants.ENDPOINT + path, {}, deadline) as answer:
                if answer.response.status_code != 200:
                    raise refusal(self, answer.response, path)
                for chunk in self._chunks(answer.response, deadline):
                    kept += chunk
                    if len(kept) > most:
                        raise HubError(f"{self.repo}: the Hub's response exceeds the limit of {most:,} bytes")
            return bytes(kept)

        return self._retried(ask, deadline, what=path)

    def read(
        self,
        file: str,
        span: range | None,
        sink: Sink,
        *,
        most: int = 0,
        deadline: Deadline,
        same: Version | None = None,
    ) -> Version:
        """Read a range of a file, or all of it, into ``sink``; interrupted reads are resumed.

        Args:
            file: Path in the repository.
            span: Range of bytes, truncated at the end of the file; ``None`` for the whole file.
            sink: Receives the bytes.
            most: Limit for the size of a whole file in bytes.
            deadline: Deadline of the read.
            same: Version that earlier parts belong to; the read fails if the file has another one.

        Returns:
            Version of the file.

        Raises:
            HubError: If the file cannot be read, including its subclasses for missing and changed files.
        """
        state = Reading(file, span, most, sink, same)
        version = self._retried(lambda: self._read_once(state, deadline), deadline, what=file)
        LOG.debug("%s %s: read %s of %s bytes from the Hub", self.repo, file, f"{state.done:,}", f"{version.size:,}")
        return version

    def _read_once(self, state: Reading, deadline: Deadline) -> Version:
        whole = state.span is None and state.most <= self.limits.header_bytes
        small = self.small_url(state.file) if whole else None
        try:
            return self._read_at(self._final.get(state.file) or small, state, deadline)
        except WrongAnswerError:
            if small is not None:
                self.forget_small()
            raise

    def _read_at(self, known: str | None, state: Reading, deadline: Deadline) -> Version:
        """Read what is left from a known address, or from the ordinary one."""
        headers, pinned = state.range_header(), self.commit
        url = known or self.url(state.file)
        with self.ask(url, headers, deadline) as answer:
            response = answer.response
            if pinned is None and answer.commit is None and response.status_code in (200, 206, 404):
                # A 404, too, is valid for one commit only.
                raise unnamed(self, response, state.file)
            if response.status_code not in (200, 206):
                self._again_elsewhere(response, state.file)
                raise refusal(self, response, state.file)
            expected = self._checked(answer, state)
            if answer.elsewhere is not None and strong(answer.etag):
                self._final[state.file] = answer.elsewhere
            length = 0
            for chunk in self._chunks(response, deadline):
                length += len(chunk)
                state.take(chunk)
                if (report := progress_watcher.get()) is not None:
                    report(Progress(f"{self.repo} {state.file}", state.done, state.wanted))
                # A response that is read to its end leaves its connection open for the next request.
                if state.complete and response.headers.get("content-length") != str(length):
                    break  # ignore anything beyond the requested bytes
            self.learn(state.file, answer.redirected)
            if state.wanted is None:
                return Version(state.done, expected.etag)
            if not state.complete:
                raise NotYetError(f"the response ended after {state.done:,} of {state.wanted:,} bytes")
        return expected

    def _checked(self, answer: Answer, state: Reading) -> Version:
        """Validate a response, return its version, and set the number of bytes that ``state`` expects.

        Checks content encoding, content type, length, range and ETag, and that the version is unchanged.
        """
        headers = answer.response.headers
        check_kind(headers)
        size = self._size(answer.response, state, length_of(headers))
        found = Version(-1 if size is None else size, self._tag(answer, state))
        if state.same is not None and state.same != found:
            self._forget(state.file)
            if state.done:
                raise WrongAnswerError("the file changed between two reads")
            raise ChangedFileError(f"{self.repo} {state.file} changed between two reads; try again")
        state.same = found
        state.expect(size)
        return found

    def _size(self, response: httpx2.Response, state: Reading, length: int | None) -> int | None:
        """Return the size of the whole file, if the response states it; raise if its range is not acceptable."""
        if response.status_code == 200:
            if state.span is not None:
                self._allow_whole(state, length)
                state.skip = state.span.start + state.done
            elif state.done:
                raise HubError(f"{self.repo} {state.file}: the server cannot resume an interrupted download; try again")
            elif length is not None and length > state.most:
                raise HubError(f"{self.repo} {state.file} has {length:,} bytes; the limit is {state.most:,}")
            return length
        return state.check_range(response.headers, length)

    def _tag(self, answer: Answer, state: Reading) -> str:
        """Return the ETag that identifies the file's version."""
        tag = strong(answer.etag) or strong(answer.linked)
        if not tag and state.span is None and not state.done:
            tag = answer.etag  # a weak tag suffices for a whole file in one response
        if not tag:
            self._forget(state.file)
            found_tag = f"only the weak ETag {answer.etag[:40]}" if answer.etag else "no ETag"
            raise WrongAnswerError(
                f"the response has {found_tag}, so its parts could come from two versions of the file"
            )
        if len(tag) > _LONGEST_TAG:
            raise WrongAnswerError(f"the response has an ETag of {len(tag):,} characters, which is too long")
        return tag

    def _allow_whole(self, state: Reading, length: int | None) -> None:
        span, size = state.span or range(0), "an unknown number of" if length is None else f"{length:,}"
        found = f"{self.repo} {state.file}: the server ignores range requests: {len(span):,} bytes are needed, but "
        if not self.full_download:
            raise HubError(f"{found}the whole file has {size}; set allow_full_download=True to read it whole")
        if length is None or length > self.limits.table_bytes:
            raise HubError(f"{found}the whole file has {size}; the limit is {self.limits.table_bytes:,}")
        LOG.info("%s %s: the server ignores range requests; reading the whole file", self.repo, state.file)

    def _again_elsewhere(self, response: httpx2.Response, file: str) -> None:
        """Raise ``NotYetError`` if a refused request was sent to an address that was learned from a redirect."""
        forgotten, status = self._forget(file), response.status_code
        if not 400 <= status < 500 or status == 429:
            return
        absent = status == 404 and response.headers.get("x-error-code") == "EntryNotFound"
        if not absent and str(response.url) == self.small_url(file):
            self.forget_small()
            raise NotYetError("the address is not that of the file", wait=0.0)
        if forgotten:
            raise NotYetError("the file's URL has expired", wait=0.0)

    def _chunks(self, response: httpx2.Response, deadline: Deadline) -> Iterator[bytes]:
        """Yield a response's body as it arrives, until the deadline has passed."""
        for chunk in response.iter_raw():
            self.traffic.received += len(chunk)
            deadline.received(len(chunk))
            if deadline.left <= 0:
                raise NotYetError("the response is too slow")
            yield chunk

    def _forget(self, file: str) -> str | None:
        """Forget the URL of a file that the Hub redirected to; return it if there was one."""
        return self._final.pop(file, None)

    def _retried(self, attempt: Callable[[], _T], deadline: Deadline, *, what: str) -> _T:
        """Retry until success, a permanent failure or the deadline; the single retry policy for all reads."""
        http, wrong = http_errors(), 0
        subject = f"{self.repo} {what}"
        for tried in range(1, _TRIES + 1):
            wait: float | None = None
            try:
                return _permanent(attempt, repo=self.repo, what=what)
            except NotYetError as error:
                reason, wait = str(error), error.wait
            except WrongAnswerError as error:
                reason, wrong = str(error), wrong + 1
                if wrong == _WRONG:
                    raise HubError(f"{subject}: {reason}; try again, or check HF_ENDPOINT and the proxy") from None
            except http.unreachable as error:
                reason = "the Hub cannot be reached"
                if tried == _WRONG or isinstance(error, http.timeout):  # a timeout is ten seconds
                    raise OfflineError(f"{subject}: {reason}; check the network and HF_ENDPOINT") from None
            except http.timeout:
                reason = "the Hub did not respond in time"
            except (http.request, http.stream):
                reason = "the connection broke"
            pause = min(4.0, 0.25 * 2 ** (tried - 1)) if wait is None else wait
            if pause > deadline.left:
                asked = f" and asks to wait {wait:.0f} s" if wait else ""
                given = f"given up after {self.limits.seconds:g} s" if not wait else "try again later"
                raise HubError(f"{subject}: {reason}{asked}; {given}") from None
            LOG.info("%s: %s; trying again in %.2g s", subject, reason, pause)
            time.sleep(pause)
        raise HubError(f"{subject}: {reason} (tried {_TRIES} times); try again later")


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
