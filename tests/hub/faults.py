"""What can go wrong between a client and the Hub: one function per fault, each rewriting one answer.

`FAULTS` is the table: the name is the function's, its keyword arguments are the parameters, its docstring says what
the client gets. A decorator says which answers a kind looks at; others pass by untouched and are not counted: "any"
answer, a "body" (a GET answered 200 or 206, JSON included), "content" (a body that is a file or part of one, from the
CDN or from /api/resolve-cache), a "file" (the same, HEAD included), or the name of a header the answer must carry.
"""

from __future__ import annotations

import email.utils
import gzip as gzip_format
import time
import zlib
from collections.abc import Callable, Iterator

from tests.hub.answer import PIECE, Answer, Request

FAULTS: dict[str, Callable[..., None]] = {}
"""Every kind of fault by name."""
LOOKS_AT: dict[str, str] = {}
"""Which answers a kind looks at."""


def _kind(looks_at: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        FAULTS[function.__name__] = function
        LOOKS_AT[function.__name__] = looks_at
        return function

    return register


def looks_at(name: str, answer: Answer, request: Request) -> bool:
    """Return whether a kind of fault looks at this answer."""
    what = LOOKS_AT[name]
    body = request.method == "GET" and answer.status in (200, 206)
    known = {"any": True, "body": body, "content": body and answer.content, "file": answer.content}
    return known.get(what, what in answer.headers)


# Answers of another status


@_kind("any")
def status(
    answer: Answer,
    *,
    code: int = 503,
    retry_after: float | str | None = None,
    as_date: bool = False,
    error_code: str | None = None,
) -> None:
    """Any status with a short JSON body; Retry-After verbatim, or as the date that many seconds from now."""
    answer.status, answer.headers, answer.content = code, {}, False
    text = f"fault {code}"
    answer.carry(b'{"error":"%s"}' % text.encode(), "application/json; charset=utf-8")
    answer.headers["X-Error-Message"] = text
    if error_code is not None:
        answer.headers["X-Error-Code"] = error_code
    if retry_after is not None and as_date:
        answer.headers["Retry-After"] = email.utils.formatdate(time.time() + float(retry_after), usegmt=True)
    elif retry_after is not None:
        answer.headers["Retry-After"] = str(retry_after)


@_kind("any")
def no_content(answer: Answer) -> None:
    """204 without a body."""
    answer.status, answer.content = 204, False
    answer.carry(b"")


@_kind("any")
def garbage(answer: Answer) -> None:
    """Bytes that are no HTTP in place of the status line, the headers and the body, then the end of the connection."""
    answer.raw = b"\x16\x03\x01 this is not HTTP\r\n\r\n"


# The connection and the time


@_kind("any")
def reset(answer: Answer, *, at: int | None = None) -> None:
    """The connection is reset (RST): before the status line, or after `at` bytes of the body."""
    answer.cut, answer.rst = -1 if at is None else at, True


@_kind("any")
def hangup(answer: Answer) -> None:
    """The connection is closed (FIN) before the status line."""
    answer.cut = -1


@_kind("any")
def delay(answer: Answer, *, seconds: float) -> None:
    """The answer begins `seconds` late."""
    answer.wait = seconds


@_kind("body")
def stall(answer: Answer, *, seconds: float, at: int = 0) -> None:
    """After `at` bytes of the body nothing comes for `seconds`, then the rest."""
    answer.stall, answer.stall_at = seconds, at


@_kind("body")
def drip(answer: Answer, *, rate: float, framing: str = "length") -> None:
    """The body comes at `rate` bytes a second, with its length, "chunked" or ended by FIN ("close")."""
    answer.rate, answer.framing = rate, framing
    if framing != "length":
        answer.headers.pop("Content-Length", None)


@_kind("any")
def drip_headers(answer: Answer, *, rate: float) -> None:
    """The status line and the headers come byte by byte, `rate` of them a second."""
    answer.head_rate = rate


@_kind("body")
def tiny_chunks(answer: Answer) -> None:
    """A body that never ends, as fast as it can, in chunks of one byte."""
    endless(answer)
    answer.piece = 1


@_kind("any")
def informational(answer: Answer, *, pause: float = 0.0, padding: int = 0) -> None:
    """Answers of status 103, `pause` seconds apart, come before the right one, without end."""

    def flood() -> Iterator[bytes]:
        while True:
            yield b"HTTP/1.1 103 Early Hints\r\nLink: <%s>\r\n\r\n" % (b"x" * padding)
            time.sleep(pause)

    answer.before = flood


@_kind("body")
def drip_trailer(answer: Answer, *, pause: float) -> None:
    """The right body, chunked, and then a trailer, a byte every `pause` seconds, without end."""

    def trailer() -> Iterator[bytes]:
        yield b"X-Trailer: "
        while True:
            yield b"x"
            time.sleep(pause)

    answer.framing, answer.after = "chunked", trailer
    answer.headers.pop("Content-Length", None)


# The length of the body


@_kind("body")
def truncated(answer: Answer, *, at: int) -> None:
    """Content-Length is right, the connection is closed (FIN) after `at` bytes."""
    answer.headers["Content-Length"] = str(answer.stop - answer.start)
    answer.cut = at


@_kind("body")
def short_length(answer: Answer, *, at: int) -> None:
    """The body has `at` bytes and Content-Length says so; Content-Range still promises the whole part."""
    answer.stop = min(answer.stop, answer.start + at)


@_kind("body")
def empty(answer: Answer) -> None:
    """The same status and headers with Content-Length 0 and no body."""
    answer.stop = answer.start


@_kind("body")
def content_length(answer: Answer, *, value: str) -> None:
    """Content-Length is `value` verbatim ("-1", "1e9", "99999999999999999999"); the right body, then FIN."""
    answer.headers["Content-Length"] = value


@_kind("body")
def no_content_length(answer: Answer, *, chunked: bool = False) -> None:
    """The right body without Content-Length: ended by FIN, or chunked."""
    answer.framing = "chunked" if chunked else "close"


@_kind("body")
def endless(answer: Answer) -> None:
    """A body that never ends, chunked: the right one, then zeros."""
    blob, start, stop = answer.blob, answer.start, answer.stop

    def stream() -> Iterator[bytes]:
        yield from blob.pieces(start, stop)
        while True:
            yield bytes(PIECE)

    answer.stream, answer.framing = stream, "chunked"


# The range


@_kind("content")
def range_ignored(answer: Answer) -> None:
    """200 with the whole file, whatever was asked."""
    answer.status, answer.start, answer.stop = 200, 0, answer.blob.size
    answer.headers.pop("Content-Range", None)


@_kind("Content-Range")
def content_range(answer: Answer, *, wrong: str = "start", value: str | None = None) -> None:
    """Right bytes, Content-Range `value`, or `wrong`: "start", "total", "missing", "unparsable", "unit"."""
    if value is None and wrong == "start":
        shift = -1 if answer.start else 1
        answer.span(answer.start + shift, answer.stop + shift)
    elif value is None and wrong == "total":
        answer.span(answer.start, answer.stop, answer.blob.size + 1)
    elif value is None and wrong == "missing":
        del answer.headers["Content-Range"]
    else:
        values = {"unparsable": "bytes from here", "unit": f"rows {answer.start}-{answer.stop - 1}/*"}
        answer.headers["Content-Range"] = values[wrong] if value is None else value


@_kind("Content-Range")
def short_part(answer: Answer) -> None:
    """206 with a byte fewer at the end than asked; Content-Range and Content-Length agree with the body."""
    answer.stop = max(answer.start + 1, answer.stop - 1)
    answer.span(answer.start, answer.stop)


@_kind("Content-Range")
def long_part(answer: Answer, *, honest: bool = True) -> None:
    """206 with a byte more than asked (a zero beyond the file); not `honest`: Content-Range is the asked one."""
    blob, start, stop = answer.blob, answer.start, answer.stop + 1
    if honest:
        answer.span(start, stop, max(blob.size, stop))

    def stream() -> Iterator[bytes]:
        yield from blob.pieces(start, min(stop, blob.size))
        yield bytes(stop - min(stop, blob.size))

    answer.headers["Content-Length"] = str(stop - start)
    answer.stream = stream


@_kind("Content-Range")
def multipart(answer: Answer) -> None:
    """206 as multipart/byteranges of the one part, without a Content-Range of its own."""
    span = answer.headers.pop("Content-Range")
    head = f"\r\n--THIS\r\nContent-Type: application/octet-stream\r\nContent-Range: {span}\r\n\r\n".encode()
    answer.carry(head + answer.part() + b"\r\n--THIS--\r\n", "multipart/byteranges; boundary=THIS")


# What the headers say


@_kind("file")
def etag(answer: Answer, *, value: str | None = '"0000000000000000"') -> None:
    """The ETag of a file is another one, or missing (None)."""
    _set(answer, "ETag", value)


@_kind("X-Repo-Commit")
def commit(answer: Answer, *, value: str | None = "f" * 40) -> None:
    """X-Repo-Commit is another commit, malformed ("main", "../../x", "Z" * 40), or missing (None)."""
    _set(answer, "X-Repo-Commit", value)


@_kind("any")
def oversized_header(answer: Answer) -> None:
    """A header of 200 kB."""
    answer.headers["X-Padding"] = "x" * 200_000


@_kind("any")
def happens(answer: Answer, *, what: Callable[[], object]) -> None:
    """`what` is called just before this answer, which is then made of what there is now."""
    assert answer.again is not None
    what()
    fresh = answer.again()
    for name, value in vars(fresh).items():
        setattr(answer, name, value)


@_kind("any")
def moves(answer: Answer, *, repo: str, to: str, branch: str = "main") -> None:
    """The branch moves to the commit `to` just before this answer, and stays there."""
    move = answer.move
    assert move is not None
    happens(answer, what=lambda: move(repo, branch, to))


# Other bodies


@_kind("body")
def html(answer: Answer, *, code: int = 200) -> None:
    """A text/html page in place of the answer, 200 or, with Content-Range kept, 206."""
    kept = {name: answer.headers[name] for name in ("Content-Range",) if code == 206 and name in answer.headers}
    answer.status, answer.headers, answer.content = code, kept, False
    page = b"<!DOCTYPE html><html><body><h1>Please log in to the network</h1></body></html>"
    answer.carry(page, "text/html; charset=utf-8")


@_kind("body")
def wrong_bytes(answer: Answer, *, data: bytes) -> None:
    """The same status and headers; the body is `data`, cut or filled with zeros to the promised length."""
    length = answer.stop - answer.start
    answer.carry(data[:length].ljust(length, b"\0"))


@_kind("body")
def gzip(answer: Answer) -> None:
    """Content-Encoding: gzip of the right body, though nobody asked for it."""
    answer.carry(gzip_format.compress(answer.part(), 1, mtime=0))
    answer.headers["Content-Encoding"] = "gzip"


@_kind("body")
def gzip_bomb(answer: Answer) -> None:
    """Content-Encoding: gzip of 4 GiB of zeros, about 1/1000 on the wire."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    count = 4 << 10
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    tail = b"\x03\0" + bytes(8)  # the checksum is wrong: who comes to read it has inflated everything

    def stream() -> Iterator[bytes]:
        yield head
        for _ in range(count):  # a full flush ends on a byte and refers to nothing before it, so blocks repeat
            yield block
        yield tail

    answer.headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(head + tail) + count * len(block))}
    answer.stream = stream


# Redirects

_TARGETS = {"file": "file:///etc/passwd", "ftp": "ftp://127.0.0.1/model", "metadata": "http://169.254.169.254/latest/"}


@_kind("any")
def redirect_elsewhere(answer: Answer, *, to: str = "elsewhere") -> None:
    """Location on the elsewhere host, or `to`: "file", "ftp", "metadata" (169.254.169.254), or any URL verbatim."""
    assert answer.request is not None
    target = answer.elsewhere + answer.request.path if to == "elsewhere" else _TARGETS.get(to, to)
    answer.redirect(target)


@_kind("any")
def redirect_loop(answer: Answer) -> None:
    """Location is the very URL that was asked (with times=None: for ever)."""
    assert answer.request is not None
    answer.redirect(answer.request.path)


@_kind("any")
def redirect_without_location(answer: Answer) -> None:
    """A redirect that does not say where to."""
    answer.redirect(None)


def _set(answer: Answer, name: str, value: str | None) -> None:
    if value is None:
        answer.headers.pop(name, None)
    else:
        answer.headers[name] = value
