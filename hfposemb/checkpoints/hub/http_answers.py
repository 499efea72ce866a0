"""Responses of the Hub: what they must be, and how far a file has been read from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...errors import HubError

if TYPE_CHECKING:
    import httpx2

OLDEST_HUB = "1.16"
"""Lowest version of huggingface_hub that ``pyproject.toml`` allows."""


@dataclass(frozen=True)
class HTTPErrors:
    """Exceptions of one HTTP library by meaning, each usable in an ``except`` clause.

    huggingface_hub uses httpx in version 1, httpx2 from version 2. Both may be installed, so the base classes of its
    own exceptions decide.
    """

    unreachable: tuple[type[Exception], ...]
    timeout: type[Exception]
    bad_address: tuple[type[Exception], ...]
    request: type[Exception]
    """Any failure without a response. Those above are subclasses or are raised before sending."""
    stream: type[Exception]
    any: type[Exception]
    """Any failed request, including those that the server refused."""


@cache
def http_errors() -> HTTPErrors:
    """Return the exceptions that huggingface_hub's requests raise. Raises ``HubError`` if its version is too old."""
    from huggingface_hub import __version__, errors

    names = (base.__module__.partition(".")[0] for base in errors.HfHubHTTPError.__mro__)
    name = next((name for name in names if name in ("httpx", "httpx2")), None)
    if name is None:
        raise HubError(
            f"huggingface_hub {__version__} is installed, and {OLDEST_HUB} or later is needed: "
            f"pip install 'huggingface_hub>={OLDEST_HUB}'"
        )
    library = sys.modules[name]
    return HTTPErrors(
        unreachable=(library.ConnectError, library.ConnectTimeout, library.ProxyError),
        timeout=library.TimeoutException,
        bad_address=(library.UnsupportedProtocol, library.LocalProtocolError, library.InvalidURL),
        request=library.RequestError,
        stream=library.StreamError,
        any=library.HTTPError,
    )


Sink: TypeAlias = Callable[[bytes], object]
"""Receives the requested bytes in order, each once."""


@dataclass(frozen=True)
class Version:
    """Identifies one content of a file: its size and ETag."""

    size: int
    etag: str


class WrongAnswerError(Exception):
    """A response that does not answer the request; retried a few times, since a proxy may have sent it."""


class NotYetError(Exception):
    """A transient failure; ``wait`` is the delay in seconds that the server requested."""

    def __init__(self, reason: str, *, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class Answer(NamedTuple):
    """A response with its ETag, the ETag of the linked file, its URL if not on the Hub itself, and its commit.

    ``redirected`` is its URL on the Hub, if the Hub redirected to it.
    """

    response: httpx2.Response
    etag: str
    linked: str
    elsewhere: str | None
    commit: str | None
    redirected: str | None = None


@dataclass(eq=False)
class Reading:
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
            raise WrongAnswerError(f"the partial response has an invalid Content-Range: {stated[:40]!r}")
        first, last, size = map(int, match.groups())
        start = self.done if self.span is None else self.span.start + self.done
        stop = size if self.span is None else min(self.span.stop, size)
        if (first, last) != (start, stop - 1):
            raise WrongAnswerError(
                f"bytes {start} to {stop - 1} were requested, but the response has {first} to {last}"
            )
        if length is not None and length != stop - start:
            raise WrongAnswerError(
                f"the response has a Content-Length of {length}, but a range of {stop - start} bytes"
            )
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
            raise HubError(f"{self.file} exceeds the limit of {self.most:,} bytes")
        if chunk:
            self.sink(chunk)
            self.done += len(chunk)


def check_kind(headers: Mapping[str, str]) -> None:
    """Raise if a response is encoded, in parts, or a page."""
    if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
        raise WrongAnswerError(f"the response has the unrequested content encoding {coding[:20]!r}")
    kind = headers.get("content-type", "").lower()
    if kind.startswith(("multipart/", "text/html")):
        raise WrongAnswerError(f"the response is {kind.partition(';')[0][:40]}, not the file")


def strong(tag: str) -> str:
    """Return a strong ETag unchanged and "" for a weak one, which may miss changes of a file (RFC 9110, 8.8.1)."""
    return "" if tag.startswith("W/") else tag


def length_of(headers: Mapping[str, str]) -> int | None:
    """Return the stated length of a response's body; ``None`` if none is stated. Raises for an invalid one."""
    stated = headers.get("content-length")
    if stated is None:
        return None
    if not re.fullmatch(r"\d{1,18}", stated):
        raise WrongAnswerError(f"the response has an invalid Content-Length: {stated[:20]!r}")
    return int(stated)
