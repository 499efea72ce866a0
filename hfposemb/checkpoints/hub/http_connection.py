"""Requests to the Hub about one repository: addresses, credentials, redirects and the pinned commit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from ...errors import HubError, InputError
from ...progress import Traffic, request_gate
from ..deadline import Deadline
from .http_answers import Answer, NotYetError, WrongAnswerError, http_errors

if TYPE_CHECKING:
    import httpx2


HOSTS = "HFPOSEMB_HUB_HOSTS"
"""Environment variable with further hosts, comma-separated, to which a private Hub may redirect large files."""


_REDIRECTS = 5
_REDIRECT_BYTES = 4096
_LONGEST_URL = 16_384
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}|[0-9a-f:.]+")  # a name, an IPv4 or IPv6 address
HUB_HOSTS = ("huggingface.co", "hf.co")
"""Domains of the Hub, to whose hosts it redirects large files."""


def is_commit(text: str) -> bool:
    """Return whether a text is the whole name of a commit."""
    return re.fullmatch(r"[0-9a-f]{40}", text) is not None


@dataclass(eq=False)
class Connection:
    """Sends requests about one repository to the Hub, and follows its redirects.

    The first response pins ``commit``; all later requests use it. The token is sent to the Hub only, never to the hosts
    that it redirects to.

    Attributes:
        repo: Name of the repository.
        revision: Branch, tag or commit.
        token: As in huggingface_hub: a token, ``None`` for the user's own, ``False`` for none.
        traffic: Requests and bytes so far.
        commit: The pinned commit.
    """

    repo: str
    revision: str
    token: str | bool | None = field(repr=False)
    traffic: Traffic
    commit: str | None = None
    _pinning: Lock = field(default_factory=Lock, repr=False)
    _small: str | None = field(default=None, repr=False)
    """Address of the folder in which the Hub keeps the small files of the commit."""

    def __post_init__(self) -> None:
        """Reject a malformed token before anything is sent."""
        if isinstance(self.token, str) and not re.fullmatch(r"[\x21-\x7e]{1,1000}", self.token):
            raise InputError("the token is not a valid Hugging Face token (hf_…); copy it again")

    def url(self, file: str) -> str:
        """Return the address of a file on the Hub, at the pinned commit if there is one."""
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self.repo, file, revision=self.commit or self.revision)

    def learn(self, file: str, redirected: str | None) -> None:
        """Remember where the Hub keeps the small files of the commit, from a redirect to one of them.

        Args:
            file: The file that was read.
            redirected: Its URL on the Hub after a redirect, ``None`` without one.
        """
        place, ending = urlsplit(redirected or "")._replace(query="").geturl(), f"/{self.commit}/{quote(file)}"
        if self.commit is not None and place.endswith(ending):
            self._small = place.removesuffix(quote(file))

    def small_url(self, file: str) -> str | None:
        """Return the address of a small file where the Hub keeps others of this commit; ``None`` if that is unknown."""
        return None if self._small is None else self._small + quote(file)

    def forget_small(self) -> None:
        """Ask for files by their ordinary addresses again."""
        self._small = None

    def headers(self) -> dict[str, str]:
        """Return the headers of every request to the Hub, with the token if there is one."""
        from huggingface_hub.errors import LocalTokenNotFoundError
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        try:
            headers = build_hf_headers(token=self.token, library_name="hfposemb", library_version=_version())
        except LocalTokenNotFoundError:
            raise InputError("token=True needs a saved token: log in with 'hf auth login'") from None
        return {**headers, "accept-encoding": "identity"}

    @contextmanager
    def ask(self, url: str, headers: Mapping[str, str], deadline: Deadline, *, method: str = "GET") -> Iterator[Answer]:
        """Wait for the request gate, send a request and follow redirects; yield the last response, its body unread."""
        asked = time.monotonic()
        with request_gate.get():
            deadline.paused(time.monotonic() - asked)
            with self._follow(url, headers, deadline, method) as answer:
                yield answer

    @contextmanager
    def _follow(self, url: str, headers: Mapping[str, str], deadline: Deadline, method: str) -> Iterator[Answer]:
        from huggingface_hub import constants, get_session

        try:
            hub = _origin(constants.ENDPOINT)
        except ValueError:
            raise InputError(f"HF_ENDPOINT is {constants.ENDPOINT[:80]!r}, which is not a URL; correct it") from None
        linked, commit, asked = "", None, url
        for _ in range(_REDIRECTS):
            at_hub = _origin(url) == hub
            own = self.headers()
            if not at_hub:
                own.pop("authorization", None)
            if deadline.left <= 0:
                raise NotYetError("no time was left for a request")
            extensions = {"timeout": deadline.timeouts(), "trace": self.traffic.trace}
            with get_session().stream(
                method, url, headers={**own, **headers}, follow_redirects=False, extensions=extensions
            ) as response:
                if at_hub:
                    commit = self._note_commit(response) or commit
                    linked = response.headers.get("x-linked-etag", "") or linked
                location = response.headers.get("location") if 300 <= response.status_code < 400 else None
                if location is None or (method == "HEAD" and self.commit is not None):
                    tag, moved = response.headers.get("etag", ""), url if at_hub and url != asked else None
                    yield Answer(response, tag, linked, None if at_hub else url, commit, moved)
                    return
                url = self._target(url, location, hub)
                self._drain(response)
        raise WrongAnswerError("too many redirects")

    def _drain(self, response: httpx2.Response) -> None:
        """Read the short body of a redirect, which leaves its connection open for the next request."""
        stated = response.headers.get("content-length", "")
        if re.fullmatch(r"\d{1,4}", stated) and int(stated) <= _REDIRECT_BYTES:
            errors = http_errors()
            with suppress(errors.request, errors.stream):  # the redirect itself is known
                for chunk in response.iter_raw():
                    self.traffic.received += len(chunk)

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
                f"{self.repo}: the Hub redirects to {location[:80]!a}, which is not the URL of a file; "
                "try again, or check HF_ENDPOINT and the proxy"
            ) from None
        known = host == hub[1] or host in further_hosts() or any(f".{host}".endswith(f".{name}") for name in HUB_HOSTS)
        if scheme not in {"https", hub[0]} or not known:
            raise HubError(
                f"{self.repo}: the Hub redirects to {f'{scheme}://{host}'[:80]}, which is not a known Hub host; "
                f"if your own Hub redirects there, add the host to {HOSTS}"
            )
        return target

    def _note_commit(self, response: httpx2.Response) -> str | None:
        found: str | None = response.headers.get("x-repo-commit")
        if found is None:
            return None
        if not is_commit(found):
            raise WrongAnswerError("the response names an invalid commit")
        with self._pinning:  # two threads get the first responses, and the branch may move between them
            if self.commit not in (None, found):
                raise WrongAnswerError("the response is of a different commit than requested")
            self.commit = found
        return found


def further_hosts() -> list[str]:
    """Return the hosts to which a private Hub may redirect large files, as the user listed them."""
    names = [name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")]
    return [name for name in names if _HOST.fullmatch(name)]


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
