"""What travels through the fake Hub: the bytes of a file, a request, and an answer on its way out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

PIECE = 1 << 16
"""Bytes read and written at a time."""


@dataclass(frozen=True)
class Blob:
    """Bytes that an answer carries: in memory, or a file that is read in pieces."""

    data: bytes | Path = b""
    size: int = 0
    oid: str = ""
    lfs: bool = False

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes of [start, stop) in pieces."""
        if isinstance(self.data, bytes):
            for at in range(start, stop, PIECE):
                yield self.data[at : min(at + PIECE, stop)]
            return
        with self.data.open("rb") as file:
            file.seek(start)
            while start < stop and (piece := file.read(min(PIECE, stop - start))):
                start += len(piece)
                yield piece


def blob(name: str, data: bytes | Path, commit: str, *, lfs: bool | None = None, limit: int = 10_000_000) -> Blob:
    """Store a file: `oid` is the git blob's SHA-1, or the SHA-256 of an LFS file.

    A `Path` above `limit` bytes is not read: its oid is the SHA-256 of its name, size and commit.
    """
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    if lfs is None:
        lfs = size > limit or name.endswith((".safetensors", ".bin"))
    made = Blob(data, size, lfs=lfs)
    if isinstance(data, Path) and size > limit:
        return replace(made, oid=hashlib.sha256(f"{name}\0{size}\0{commit}".encode()).hexdigest())
    text = b"".join(made.pieces(0, size))
    pointer = hashlib.sha1(b"blob %d\0" % size + text).hexdigest()
    return replace(made, oid=hashlib.sha256(text).hexdigest() if lfs else pointer)


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names are lower case."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass
class Answer:
    """One answer on its way out; a fault changes it before it is sent."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    blob: Blob = field(default_factory=Blob)
    start: int = 0
    stop: int = 0
    content: bool = False
    """Whether the blob is a file of a repository."""
    stream: Callable[[], Iterator[bytes]] | None = None
    """Sent in place of the blob."""
    framing: str = "length"
    """How the body ends: "length" (Content-Length), "chunked", or "close"."""
    raw: bytes | None = None
    """Sent in place of the status line, the headers and the body."""
    wait: float = 0.0
    stall: float = 0.0
    stall_at: int = 0
    rate: float | None = None
    head_rate: float | None = None
    """Bytes a second at which the status line and the headers come."""
    piece: int | None = None
    """The body comes in pieces of at most this many bytes, each a chunk of its own if it is chunked."""
    before: Callable[[], Iterator[bytes]] | None = None
    """Sent before the status line."""
    after: Callable[[], Iterator[bytes]] | None = None
    """Sent after the last chunk of a chunked body."""
    cut: int | None = None
    """The connection ends after this many bytes of the body; -1: before the status line."""
    rst: bool = False
    """Whether it ends with RST in place of FIN."""
    again: Callable[[], Answer] | None = None
    """Answers the same request once more, after `fault("moves")` changed the repository."""
    move: Callable[[str, str, str], None] | None = None
    elsewhere: str = ""
    request: Request | None = None

    def carry(self, data: bytes, kind: str | None = None) -> None:
        """Replace the body."""
        self.blob, self.start, self.stop, self.stream = Blob(data, len(data)), 0, len(data), None
        if kind is not None:
            self.headers["Content-Type"] = kind

    def part(self) -> bytes:
        """Return the body that would be sent."""
        return b"".join(self.blob.pieces(self.start, self.stop))

    def span(self, start: int, stop: int, total: int | None = None) -> None:
        """Set the Content-Range of a part."""
        self.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{self.blob.size if total is None else total}"

    def redirect(self, location: str | None) -> None:
        """Become a redirect of status 302; X-Repo-Commit and the X-Linked headers stay."""
        for name in ("ETag", "Content-Range", "Location"):
            self.headers.pop(name, None)
        if location is not None:
            self.headers["Location"] = location
        self.status, self.content = 302, False
        self.carry(b"Redirecting", "text/plain; charset=utf-8")
