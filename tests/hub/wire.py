"""The sockets of the fake Hub: reads requests, records them, and sends answers the way they say."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.hub.answer import PIECE, Answer, Request

if TYPE_CHECKING:
    from tests.hub.server import FakeHub


@dataclass(frozen=True)
class Seen:
    """One request that arrived, and what was written for it."""

    method: str
    host: str
    """ "hub", "cdn" or "elsewhere"."""
    path: str
    """With the query, percent-encoded as it came."""
    headers: dict[str, str]
    """Names in lower case."""
    status: int
    """0 until the answer begins, and for a connection cut before that."""
    body_bytes: int
    at: float
    """time.monotonic() of its arrival."""


@dataclass
class Record:
    """A request while it is being answered."""

    request: Request
    at: float
    status: int = 0
    body_bytes: int = 0

    def seen(self) -> Seen:
        """Return what is known of it now."""
        asked = self.request
        headers = dict(asked.headers)
        return Seen(asked.method, asked.host, asked.path, headers, self.status, self.body_bytes, self.at)


class _Cut(Exception):  # noqa: N818
    """Ends a connection in the middle of an answer."""


class Server(ThreadingHTTPServer):
    """One of the hub's hosts, listening from the start, each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, hub: FakeHub, host: str) -> None:
        name = {"hub": "127.0.0.1", "cdn": "localhost", "elsewhere": "127.0.0.2"}[host]
        self.hub, self.host = hub, host
        try:
            super().__init__((name, 0), _Handler)
        except OSError:  # only Linux answers for all of 127.0.0.0/8
            name = "127.0.0.1"
            super().__init__((name, 0), _Handler)
        self.url = f"http://{name}:{self.server_address[1]}"
        self.handlers: set[_Handler] = set()
        self.loop = threading.Thread(target=self.serve_forever, args=(0.02,), name=f"fake {host}", daemon=True)
        self.loop.start()

    def server_bind(self) -> None:
        """Bind."""
        # HTTPServer asks the resolver for the machine's name here, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "fake", self.server_address[1]

    def cut(self, *, busy: bool) -> list[threading.Thread]:
        """End the open connections, or the busy ones; return their threads."""
        ended = [handler for handler in list(self.handlers) if handler.busy or not busy]
        for handler in ended:
            with contextlib.suppress(OSError):
                handler.connection.shutdown(socket.SHUT_RDWR)
        return [handler.thread for handler in ended]

    def end(self) -> None:
        """Stop listening, cut every connection, wait for the threads."""
        self.shutdown()
        self.server_close()
        for thread in [self.loop, *self.cut(busy=False)]:
            thread.join(2)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server
    busy = False

    def setup(self) -> None:
        self.thread = threading.current_thread()
        # A small buffer, so that what was written is close to what the client has read.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        super().setup()
        self.server.handlers.add(self)

    def finish(self) -> None:
        self.server.handlers.discard(self)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        """Answer any method: record, route, break, send."""
        hub = self.server.hub
        self.busy = True
        length = self.headers.get("Content-Length", "0")
        body = self.rfile.read(int(length)) if length.isdigit() else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.server.host, self.path, headers, body)
        record, halt = Record(request, time.monotonic()), hub._halt
        hub._records.append(record)
        answer = hub._answer(request)
        try:
            self._send(answer, record, halt, answer.rate or hub._rate, hub._delay + answer.wait)
        except _Cut:
            self._hang_up(rst=answer.rst)
        finally:
            self.busy = False

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET  # noqa: N815

    def _send(self, answer: Answer, record: Record, halt: threading.Event, rate: float | None, wait: float) -> None:
        if wait:
            self._pause(wait, halt)
        if answer.cut == -1:
            raise _Cut
        record.status = answer.status
        if answer.raw is not None:
            self.connection.sendall(answer.raw)
            raise _Cut
        if answer.before is not None:
            self._trickle(answer.before(), None, halt)
        self.send_response(answer.status)
        bare = answer.status in (204, 304)
        if answer.framing == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif answer.framing == "length" and not bare:
            answer.headers.setdefault("Content-Length", str(answer.stop - answer.start))
        for name, value in answer.headers.items():
            self.send_header(name, value.encode().decode("latin-1"))  # as UTF-8, which real servers send
        if answer.head_rate is not None:
            head, self._headers_buffer = b"".join(self._headers_buffer) + b"\r\n", []
            self._trickle((head[at : at + 1] for at in range(len(head))), answer.head_rate, halt)
        else:
            self.end_headers()
        if self.command == "HEAD" or bare:
            return
        for piece in self._paced(answer, rate, halt):
            if answer.framing == "chunked":
                self.connection.sendall(b"%x\r\n" % len(piece))
            self._write(piece, record)
            if answer.framing == "chunked":
                self.connection.sendall(b"\r\n")
            if halt.is_set():
                raise _Cut
        if answer.cut is not None or answer.headers.get("Content-Length", "") != str(record.body_bytes):
            if answer.framing == "chunked" and answer.cut is None:
                self.connection.sendall(b"0\r\n")
                if answer.after is not None:
                    self._trickle(answer.after(), None, halt)
                self.connection.sendall(b"\r\n")
                return
            raise _Cut

    def _paced(self, answer: Answer, rate: float | None, halt: threading.Event) -> Iterator[memoryview]:
        """Yield the body in pieces, no faster than `rate`, stalling and ending where the answer says."""
        source = answer.stream() if answer.stream else answer.blob.pieces(answer.start, answer.stop)
        size = answer.piece or (PIECE if rate is None else max(1, min(PIECE, int(rate / 50))))
        began, sent = time.monotonic(), 0
        stall, at = answer.stall, answer.stall_at
        for whole in source:
            rest = memoryview(whole)
            while rest:
                take = min(size, len(rest))
                if stall and sent + take > at:
                    take = min(take, at - sent)
                if answer.cut is not None:
                    take = min(take, answer.cut - sent)
                if take:
                    yield rest[:take]
                rest, sent = rest[take:], sent + take
                if answer.cut is not None and sent >= answer.cut:
                    return
                if stall and sent >= at:
                    self._pause(stall, halt)
                    stall = 0
                ahead = began + sent / rate - time.monotonic() if rate else 0
                if ahead > 0.002:
                    self._pause(ahead, halt)

    def _trickle(self, parts: Iterator[bytes], rate: float | None, halt: threading.Event) -> None:
        """Send what is no body part by part, each a packet of its own, at `rate` bytes a second."""
        for part in parts:
            self.connection.sendall(part)
            if rate is not None:
                self._pause(len(part) / rate, halt)
            elif halt.is_set():
                raise _Cut

    def _write(self, piece: memoryview, record: Record) -> None:
        record.body_bytes += len(piece)  # before the client can have it, so that a test may look at once
        try:
            while piece:
                piece = piece[self.connection.send(piece) :]
        finally:
            record.body_bytes -= len(piece)

    def _pause(self, seconds: float, halt: threading.Event) -> None:
        if halt.wait(seconds):
            raise _Cut

    def _hang_up(self, *, rst: bool) -> None:
        self.close_connection = True
        if rst:
            time.sleep(0.02)  # RST throws away what is still in the buffer
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
