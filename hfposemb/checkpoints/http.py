"""Ranged Hub client that validates status, range, size, ETag and commit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit

from ..errors import ChangedFileError, HubError, InputError, MissingFileError, OfflineError
from ..transfers import Progress, Traffic, progress_watcher, request_gate
from . import deadline as deadlines
from .deadline import Deadline
from .http_errors import http_errors
from .limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import httpx2


_T = TypeVar("_T")


Sink: TypeAlias = Callable[[bytes], object]
"""Receives the requested bytes in order, each once."""


HOSTS = "HFPOSEMB_HUB_HOSTS"
"""Environment variable with further hosts, comma-separated, to which a private Hub may redirect large files."""


_TRIES = 6  # attempts if failures are transient: a busy server, a broken connection
_WRONG = 3  # attempts if responses violate the protocol
_REDIRECTS = 5
_LONGEST_TAG = 300
_LONGEST_URL = 16_384
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}|[0-9a-f:.]+")  # a name, an IPv4 or IPv6 address
_HUB_HOSTS = ("huggingface.co", "hf.co")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BUSY = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Version:
    """Identifies one content of a file: its size and ETag."""

    size: int
    etag: str


class _WrongAnswerError(Exception):
    """A response that does not answer the request; retried a few times, since a proxy may have sent it."""


class _NotYetError(Exception):
    """A transient failure; ``wait`` is the delay in seconds that the server requested."""

    def __init__(self, reason: str, *, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _Answer(NamedTuple):
    """A response with its ETag, the ETag of the linked file, its URL if not on the Hub itself, and its commit."""

    response: httpx2.Response
    etag: str
    linked: str
    elsewhere: str | None
    commit: str | None


@dataclass(eq=False)
class Wire:
    """Reads files of one repository at one commit.

    The first response pins ``commit``; all later requests use it. The token is sent to the Hub only, never to the hosts
    that it redirects to.

    Attributes:
        repo: Name of the repository.
        revision: Branch, tag or commit.
        token: As in huggingface_hub: a token, ``None`` for the user's own, ``False`` for none.
        limits: Limits of what is read.
        full_download: Whether to read a whole file if the server ignores ranges.
        commit: The pinned commit.
        traffic: Requests and bytes so far.
    """

    repo: str
    revision: str
    token: str | bool | None = None
    limits: Limits = DEFAULT_LIMITS
    full_download: bool = False
    commit: str | None = None
    traffic: Traffic = field(default_factory=Traffic)
    _final: dict[str, str] = field(default_factory=dict, repr=False)
    _pinning: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        """Reject a malformed token before anything is sent."""
        if isinstance(self.token, str) and not re.fullmatch(r"[\x21-\x7e]{1,1000}", self.token):
            raise InputError("the token is no Hugging Face token, which is one word such as hf_…; copy it again")

    def deadline(self, nbytes: int = 0) -> Deadline:
        """Return the deadline of the current read, or a new one; ``nbytes`` of a large file may extend it."""
        deadline = deadlines.current(self.limits.seconds)
        deadline.allow(nbytes)
        return deadline

    def pin(self, file: str, deadline: Deadline) -> str:
        """Return the commit that the revision refers to now, from a HEAD request for ``file``, which need not exist."""

        def ask() -> str:
            with self._ask(self._url(file), {}, deadline, method="HEAD") as answer:
                refused = answer.response.status_code >= 400
                if refused and answer.response.headers.get("x-error-code") != "EntryNotFound":
                    raise self._refusal(answer.response, file)
            if self.commit is None:
                raise _WrongAnswerError("the answer names no commit")
            return self.commit

        return self._until(ask, deadline, what=f"the revision {self.revision}")

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
            with self._ask(constants.ENDPOINT + path, {}, deadline) as answer:
                if answer.response.status_code != 200:
                    raise self._refusal(answer.response, path)
                for chunk in self._chunks(answer.response, deadline):
                    kept += chunk
                    if len(kept) > most:
                        raise HubError(
                            f"{self.repo}: the Hub's answer has more than {most:,} bytes, which is the limit"
                        )
            return bytes(kept)

        return self._until(ask, deadline, what=path)

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
        state = _Reading(file, span, most, sink, same)
        return self._until(lambda: self._read_once(state, deadline), deadline, what=file)

    # --- one attempt --------------------------------------------------------------------------------------------------

    def _read_once(self, state: _Reading, deadline: Deadline) -> Version:
        headers, pinned = state.range_header(), self.commit
        with self._ask(self._final.get(state.file) or self._url(state.file), headers, deadline) as answer:
            response = answer.response
            if pinned is None and answer.commit is None and response.status_code in (200, 206, 404):
                # A 404, too, is valid for one commit only.
                raise self._unnamed(response, state.file)
            if response.status_code not in (200, 206):
                if self._final.pop(state.file, None) and 400 <= response.status_code < 500:
                    raise _NotYetError("the address of the file ran out", wait=0.0)
                raise self._refusal(response, state.file)
            expected = self._check(answer, state)
            if answer.elsewhere is not None and _strong(answer.etag):
                self._final[state.file] = answer.elsewhere
            for chunk in self._chunks(response, deadline):
                state.take(chunk)
                if (report := progress_watcher.get()) is not None:
                    report(Progress(f"{self.repo} {state.file}", state.done, state.wanted))
                if state.complete:
                    break  # ignore anything beyond the requested bytes
            if state.wanted is None:
                return Version(state.done, expected.etag)
            if not state.complete:
                raise _NotYetError(f"the answer ended after {state.done:,} of {state.wanted:,} bytes")
        return expected

    def _chunks(self, response: httpx2.Response, deadline: Deadline) -> Iterator[bytes]:
        """Yield a response's body as it arrives, until the deadline has passed."""
        for chunk in response.iter_raw():
            self.traffic.received += len(chunk)
            deadline.received(len(chunk))
            if deadline.left <= 0:
                raise _NotYetError("the answer comes too slowly")
            yield chunk

    def _check(self, answer: _Answer, state: _Reading) -> Version:
        """Validate a response, return its version, and set the number of bytes that ``state`` expects.

        Checks content encoding, content type, length, range and ETag, and that the version is unchanged.
        """
        response, headers = answer.response, answer.response.headers
        if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
            raise _WrongAnswerError(f"the answer is encoded as {coding[:20]!r}, which was not asked for")
        kind = headers.get("content-type", "").lower()
        if kind.startswith(("multipart/", "text/html")):
            raise _WrongAnswerError(f"the answer is {kind.partition(';')[0][:40]}, not the file")
        length = _length(headers)
        if response.status_code == 200:
            if state.span is not None:
                self._allow_whole(state, length)
                state.skip = state.span.start + state.done
            elif state.done:
                raise HubError(
                    f"{self.repo} {state.file}: the server cannot go on where an answer broke off; try again"
                )
            elif length is not None and length > state.most:
                raise HubError(f"{self.repo} {state.file} has {length:,} bytes; the limit is {state.most:,}")
            size = length
        else:
            size = state.check_range(headers, length)
        tag = _strong(answer.etag) or _strong(answer.linked)
        if not tag and state.span is None and not state.done:
            tag = answer.etag  # a weak tag suffices for a whole file in one response
        if not tag:
            self._final.pop(state.file, None)
            found_tag = f"only the weak ETag {answer.etag[:40]}" if answer.etag else "no ETag"
            raise _WrongAnswerError(f"the answer has {found_tag}, so its parts could be of two versions of the file")
        if len(tag) > _LONGEST_TAG:
            raise _WrongAnswerError(f"the answer has an ETag of {len(tag):,} characters")
        found = Version(-1 if size is None else size, tag)
        if state.same is not None and state.same != found:
            self._final.pop(state.file, None)
            if state.done:
                raise _WrongAnswerError("the file changed between two reads")
            raise ChangedFileError(f"{self.repo} {state.file} changed between two reads; try again")
        state.same = found
        state.expect(size)
        return found

    def _allow_whole(self, state: _Reading, length: int | None) -> None:
        span, size = state.span or range(0), "an unknown number of" if length is None else f"{length:,}"
        found = f"{self.repo} {state.file}: the server ignores ranges: {len(span):,} bytes are needed, "
        if not self.full_download:
            raise HubError(f"{found}the whole file has {size}; allow_full_download=True reads it all")
        if length is None or length > self.limits.table_bytes:
            raise HubError(f"{found}the whole file has {size}, the limit is {self.limits.table_bytes:,}")

    # --- requests -----------------------------------------------------------------------------------------------------

    def _url(self, file: str) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.repo, file, revision=self.commit or self.revision)

    def _headers(self) -> dict[str, str]:
        from huggingface_hub.errors import LocalTokenNotFoundError
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        try:
            headers = build_hf_headers(token=self.token, library_name="hfposemb", library_version=_version())
        except LocalTokenNotFoundError:
            raise InputError("token=True needs a saved token: log in with 'hf auth login'") from None
        return {**headers, "accept-encoding": "identity"}

    @contextmanager
    def _ask(
        self, url: str, headers: Mapping[str, str], deadline: Deadline, *, method: str = "GET"
    ) -> Iterator[_Answer]:
        """Wait for the request gate, send a request and follow redirects; yield the last response, its body unread."""
        asked = time.monotonic()
        with request_gate.get():
            deadline.paused(time.monotonic() - asked)
            with self._follow(url, headers, deadline, method) as answer:
                yield answer

    @contextmanager
    def _follow(self, url: str, headers: Mapping[str, str], deadline: Deadline, method: str) -> Iterator[_Answer]:
        from huggingface_hub import constants, get_session

        try:
            hub = _origin(constants.ENDPOINT)
        except ValueError:
            raise InputError(f"HF_ENDPOINT is {constants.ENDPOINT[:80]!r}, which is no address; correct it") from None
        linked, commit = "", None
        for _ in range(_REDIRECTS):
            at_hub = _origin(url) == hub
            own = self._headers()
            if not at_hub:
                own.pop("authorization", None)
            if deadline.left <= 0:
                raise _NotYetError("there was no time left to ask")
            extensions = {"timeout": deadline.timeouts(), "trace": self.traffic.trace}
            with get_session().stream(
                method, url, headers={**own, **headers}, follow_redirects=False, extensions=extensions
            ) as response:
                if at_hub:
                    commit = self._note_commit(response) or commit
                    linked = response.headers.get("x-linked-etag", "") or linked
                location = response.headers.get("location") if 300 <= response.status_code < 400 else None
                if location is None or (method == "HEAD" and self.commit is not None):
                    yield _Answer(response, response.headers.get("etag", ""), linked, None if at_hub else url, commit)
                    return
                url = self._target(url, location, hub)
        raise _WrongAnswerError("the answers redirect in a circle")

    def _target(self, url: str, location: str, hub: tuple[str, str, int | None]) -> str:
        """Return a redirect's target if it is the Hub or a known host for large files; raise otherwise."""
        try:
            target = urljoin(url, location)
            scheme, host, _ = _origin(target)
            if not _HOST.fullmatch(host) or "@" in urlsplit(target).netloc:
                raise ValueError
            if not target.isprintable() or len(target) > _LONGEST_URL:
                raise ValueError
        except ValueError:
            raise HubError(
                f"{self.repo}: the Hub redirects to {location[:80]!a}, which is no address of a file; "
                "try again, or check HF_ENDPOINT and the proxy"
            ) from None
        further = [name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")]
        known = host == hub[1] or host in further or any(f".{host}".endswith(f".{name}") for name in _HUB_HOSTS)
        if scheme not in {"https", hub[0]} or not known:
            raise HubError(
                f"{self.repo}: the Hub redirects to {f'{scheme}://{host}'[:80]}, which is none of its hosts; "
                f"if your own Hub does so, name the host in {HOSTS}"
            )
        return target

    def _note_commit(self, response: httpx2.Response) -> str | None:
        found: str | None = response.headers.get("x-repo-commit")
        if found is None:
            return None
        if not _COMMIT.fullmatch(found):
            raise _WrongAnswerError("the answer names a commit that is none")
        with self._pinning:  # two threads get the first responses, and the branch may move between them
            if self.commit not in (None, found):
                raise _WrongAnswerError("the answer is of another commit than was asked for")
            self.commit = found
        return found

    def _until(self, attempt: Callable[[], _T], deadline: Deadline, *, what: str) -> _T:
        """Retry until success, a permanent failure or the deadline; the single retry policy for all reads."""
        from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

        http, wrong = http_errors(), 0
        subject = f"{self.repo} {what}"
        for tried in range(1, _TRIES + 1):
            wait: float | None = None
            try:
                return attempt()
            except _NotYetError as error:
                reason, wait = str(error), error.wait
            except _WrongAnswerError as error:
                reason, wrong = str(error), wrong + 1
                if wrong == _WRONG:
                    raise HubError(f"{subject}: {reason}; try again, or check HF_ENDPOINT and the proxy") from None
            except OfflineModeIsEnabled:
                raise OfflineError(f"{subject}: offline mode is on; unset HF_HUB_OFFLINE") from None
            except http.unreachable:
                reason = "the Hub cannot be reached"
                if tried == _WRONG:
                    raise OfflineError(f"{subject}: {reason}; check the network and HF_ENDPOINT") from None
            except http.timeout:
                reason = "the Hub did not answer in time"
            except http.bad_address:
                raise HubError(f"{subject}: the address is invalid; check HF_ENDPOINT and the proxy") from None
            except (http.request, http.stream):
                reason = "the connection broke"
            except HFValidationError:
                raise InputError(f"{self.repo!r:.100} is no name of a repository; write owner/name") from None
            pause = min(4.0, 0.25 * 2 ** (tried - 1)) if wait is None else wait
            if pause > deadline.left:
                asked = f", and asks to wait {wait:.0f} s" if wait else ""
                given = f"given up after {self.limits.seconds:g} s" if not wait else "try again later"
                raise HubError(f"{subject}: {reason}{asked}; {given}") from None
            time.sleep(pause)
        raise HubError(f"{subject}: {reason}, {_TRIES} times; try again later")

    def _unnamed(self, response: httpx2.Response, file: str) -> Exception:
        """Return the error for a first response without a commit: later responses could belong to another one."""
        code = response.headers.get("x-error-code", "")
        if response.status_code == 404 and code != "EntryNotFound":
            return self._refusal(response, file)
        return _WrongAnswerError("the answer names no commit, as the Hub's do")

    def _refusal(self, response: httpx2.Response, file: str) -> Exception:
        """Return the error for a response that is not the file, with what to do; its body is not read."""
        status, code = response.status_code, response.headers.get("x-error-code", "")
        said = response.headers.get("x-error-message", "")
        known = self.token is not False and "authorization" in self._headers()
        where = f"on the Hub at {self.revision}" if self.revision != "main" else "on the Hub"
        if status in _BUSY:
            return _NotYetError(f"the Hub answers {status}", wait=_retry_after(response.headers))
        if code == "GatedRepo":
            advice = "accept its conditions on its page" if known else "accept its conditions on its page and log in"
            if self.token is False:
                advice = "gated models are read only where the app runs on your own machine"
            return HubError(f"{self.repo} is gated; {advice}")
        if code == "RevisionNotFound":
            return HubError(f"{self.repo} has no revision {self.revision!r:.100}; its page lists them")
        if code == "EntryNotFound":
            return MissingFileError(f"{self.repo} has no file {file} {where}")
        if status == 401 and "credentials" in said.lower():
            return HubError(f"{self.repo}: the Hub does not know the token; log in again with 'hf auth login'")
        if code == "RepoNotFound" or status in (401, 404):
            advice = "check its name, or whether your token may read it" if known else "check its name"
            if not known and self.token is not False:
                advice += "; for a private model log in with 'hf auth login'"
            return HubError(f"{self.repo} is no public model on the Hub; {advice}")
        if status == 403:
            return HubError(f"{self.repo}: the Hub refuses it (403); check what your token may do")
        return _WrongAnswerError(f"the Hub answers {status}")


@dataclass(eq=False)
class _Reading:
    """Progress of reading one file over all attempts: ``done`` of ``wanted`` bytes."""

    file: str
    span: range | None
    most: int
    sink: Sink
    same: Version | None
    done: int = 0
    wanted: int | None = None
    skip: int = 0

    @property
    def complete(self) -> bool:
        """Whether all bytes have arrived."""
        return self.wanted is not None and self.done == self.wanted

    def range_header(self) -> dict[str, str]:
        """Return the header that requests the remaining bytes."""
        if self.span is None:
            return {"range": f"bytes={self.done}-"} if self.done else {}
        return {"range": f"bytes={self.span.start + self.done}-{self.span.stop - 1}"}

    def expect(self, size: int | None) -> None:
        """Set the total number of bytes to read, once the file's size is known."""
        if self.span is None:
            self.wanted = size
        elif size is not None:
            self.wanted = max(0, min(self.span.stop, size) - self.span.start)

    def check_range(self, headers: Mapping[str, str], length: int | None) -> int:
        """Return the file's size from the Content-Range of a 206; raise if the range is not the requested one."""
        stated = headers.get("content-range", "")
        match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", stated.strip())
        if match is None:
            raise _WrongAnswerError(f"the answer is a part without a readable Content-Range, {stated[:40]!r}")
        first, last, size = map(int, match.groups())
        start = self.done if self.span is None else self.span.start + self.done
        stop = size if self.span is None else min(self.span.stop, size)
        if (first, last) != (start, stop - 1):
            raise _WrongAnswerError(f"bytes {start} to {stop - 1} were asked for, the answer has {first} to {last}")
        if length is not None and length != stop - start:
            raise _WrongAnswerError(f"the answer says {length} bytes, its range has {stop - start}")
        return size

    def take(self, chunk: bytes) -> None:
        """Pass the requested bytes of a chunk to the sink."""
        if self.skip:
            cut = min(self.skip, len(chunk))
            self.skip -= cut
            chunk = chunk[cut:]
        if self.wanted is not None:
            chunk = chunk[: self.wanted - self.done]
        elif self.done + len(chunk) > self.most:
            raise HubError(f"{self.file} has more than {self.most:,} bytes, which is the limit")
        if chunk:
            self.sink(chunk)
            self.done += len(chunk)


def _strong(tag: str) -> str:
    """Return a strong ETag unchanged and "" for a weak one, which may miss changes of a file (RFC 9110, 8.8.1)."""
    return "" if tag.startswith("W/") else tag


def _length(headers: Mapping[str, str]) -> int | None:
    stated = headers.get("content-length")
    if stated is None:
        return None
    if not re.fullmatch(r"\d{1,18}", stated):
        raise _WrongAnswerError(f"the answer has the length {stated[:20]!r}")
    return int(stated)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, given in seconds or as a date."""
    stated = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", stated):
        return float(stated)
    try:
        return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


_PORTS: Mapping[str, int] = MappingProxyType({"http": 80, "https": 443})


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port
    return parts.scheme, (parts.hostname or "").lower(), port or _PORTS.get(parts.scheme)


@cache
def _version() -> str:
    try:
        return version("hfposemb")
    except PackageNotFoundError:  # running from a clone, as a Space does
        return "0"
