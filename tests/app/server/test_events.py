"""Whatever a program sends to the listeners of a page, each answers with a value or with one line."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import gradio as gr
import httpx
import pytest

from hfposemb import app
from tests.conftest import FULL
from tests.support.app.serving import Served, Visitor
from tests.support.app.unserved import Unserved

DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]

FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, -(10**30), 10**30, 2**31, 1.5, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "x" * 5_000, "\0", "\ud800", "<img src=x onerror=alert(1)>", "NaN", "99999999999999999999"),
    *([], [None], [[]], [1, "x", None], DEEP, ["x"] * 3_000, {}, {"": None}, {"value": 1}, FILE),
    *({"__type__": "update", "value": []}, {"x": [float("nan")], "y": 3}, {"x": ["a"], "y": [[]]}),
)
NAMES = ("panel", "group", "index", "id", "list", "place", "at", "label", "text", "legend", "action", "area", "tab")
NAMES += ("query", "sources", "input_value", "value", "key")
NEAR: dict[str, tuple[Any, ...]] = {
    "panel": ("neighbours", "map", "selection", "reorder", "lists", "norms sample:bert", "head-sample:bert"),
    "group": ("token", "position", "patch"),
    "action": ("Clear", "CSV", "Compare", "Look for them", "Measure", "Again", "cancel"),
    "legend": ("Words", "Numbers"),
    "tab": ("start", "tokens", "nowhere"),
    "query": ("?models=sample:bert&tab=tokens&position=-5&word=|9|", "?selection=1&range=9-1&moved=x&patch={}&dims=9"),
    **dict.fromkeys(("index", "id", "list", "place", "at"), (0, 1, 3999, 4000, 2**31 - 1, -1)),
}
"""Values that a page does send, in whatever event."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unserved]:
    """The page of a public app, on two sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFPOSEMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Unserved(app.build(public=True, sources=("sample:bert", "sinusoidal:64x16")))


def happened(drawn: random.Random) -> Any:
    """Return what a program may say that happened."""
    if drawn.random() < 0.2:
        return drawn.choice(HOSTILE)
    names = drawn.sample(NAMES, drawn.randint(1, 5))
    return {one: drawn.choice(NEAR[one] if one in NEAR and drawn.random() < 0.7 else HOSTILE) for one in names}


def attack(page: Unserved, drawn: random.Random) -> Iterator[tuple[Any, Any, Any]]:
    """Yield listeners in any order, each with crafted values and a crafted event."""
    for bound in drawn.sample(page.listeners, len(page.listeners)):
        honest = [page.values.get(one._id) for one in bound.inputs]
        given = [drawn.choice(HOSTILE) if drawn.random() < 0.5 else value for value in honest]
        yield bound, honest if drawn.random() < 0.3 else given, happened(drawn)


def faults(page: Unserved, bound: Any, given: Any, told: Any) -> list[Any]:
    """Run a listener; return what it was and how it failed, unless it is told in one line."""
    try:
        page.run(bound, given, told)
    except gr.Error as error:
        if "Something went wrong" in error.message or "\n" in error.message or error.print_exception:
            return [bound.name, given, told, error.message]
    return []


def test_every_listener_answers_anything_with_a_value_or_one_line(
    page: Unserved, capfd: pytest.CaptureFixture[str]
) -> None:
    drawn, wrong = random.Random(33), []
    tabs = [key for key, one in page.blocks.blocks.items() if isinstance(one, gr.Tab)]
    for turn in range(60 if FULL else 2):
        if turn == 1:
            for tab in tabs:
                page.act(tab, "select")
        for bound, given, told in attack(page, drawn):
            wrong += faults(page, bound, given, told)
        for bound in page.listeners:
            wrong += faults(page, bound, None, {})  # with what is kept of all that, too
    assert not wrong
    printed = capfd.readouterr().err
    assert "Traceback" not in printed
    assert "a bug in the app" not in printed


# --- over HTTP --------------------------------------------------------------------------------------------------------


JOIN = {"data": [], "fn_index": 0, "session_hash": "x", "trigger_id": 1, "event_data": None}
BODIES: tuple[Any, ...] = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 20_000, b'{"data": ' + b"9" * 5_000 + b"}", b'"\\ud800"'),
    *({**JOIN, "fn_index": index} for index in (-1, 10**6, 2**70, "0", None, 1.5, [0])),
    *({**JOIN, "session_hash": one} for one in (None, 1, "", "x" * 5_000, "../x", {"a": 1}, "\ud800")),
    *({**JOIN, "trigger_id": one} for one in (-1, 2**70, "x")),
    *({**JOIN, "data": data} for data in (None, {}, [DEEP], ["x" * 50_000], [float("nan")] * 50, [FILE] * 9)),
    *({**JOIN, "event_data": one} for one in HOSTILE if one is not DEEP),
    *({"event_id": one, "session_hash": "x", "fn_index": 0} for one in ("x", None, 5)),
)
POSTED = ("queue/join", "call/neighbours", "call/nothing", "call/v2/neighbours", "call/v2/nothing", "cancel", "reset")
POSTED += ("run/neighbours", "api/neighbours", "upload", "component_server", "mcp/", "predict")
ASKED = (
    *("queue/data", "queue/data?session_hash=", "queue/data?session_hash=unknown", "call/neighbours/unknown"),
    *("call/v2/nothing/x", "heartbeat/..", "file=/etc/passwd", "file=", "file=%00", "file=" + "a/" * 3_000),
    *("info?page=%00", "startup-events", "stream/a/b/c/playlist.m3u8", "proxy=http://127.0.0.1:1/", "nothing", "mcp/"),
)
HEADERS: tuple[dict[str, str], ...] = (
    {"range": "bytes=9-1"},
    {"range": "bytes=" + "0-1," * 2_000},
    {"range": "x"},
    {"cookie": "session=x; access-token=\x7f; ;;=;" + "a=b;" * 200},
    {"x-forwarded-host": "[", "x-forwarded-proto": "\\x"},
    {"host": "[::1"},
    {"host": "a b"},
    {"x-forwarded-for": "x" * 2_000},
    {"accept-encoding": "br;q=x, \\", "content-type": "multipart/form-data"},
    {"origin": "null", "referer": "http://["},
    {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-key": "x", "sec-websocket-version": "99"},
)
RAW = (
    *(b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET / HTTP/9.9\r\n\r\n"),
    *(b"GET / HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{", b"GET /" + b"a" * 99_999),
    b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n: z\r\n\r\n",
)


def strike(url: str, rounds: int) -> list[Any]:
    """Send everything to everything; return the answers."""
    answers = []
    with httpx.Client(base_url=f"{url}/gradio_api/", timeout=1) as web:

        def ask(method: str, path: str, **sent: Any) -> None:
            with suppress(httpx.TransportError), web.stream(method, path, **sent) as answer:
                answers.append((method, path, sent, answer.status_code, next(answer.iter_bytes(65_536), b"")))

        for _ in range(rounds):
            for path in POSTED:
                for body in BODIES:
                    content = body if isinstance(body, bytes) else json.dumps(body).encode()
                    ask("POST", path, content=content, headers={"content-type": "application/json"})
            for path in ASKED:
                ask("GET", path)
            for headers in HEADERS:
                for path in ("", "info", "queue/join", "../"):
                    ask("POST" if path == "queue/join" else "GET", path, headers=headers)
            with ExitStack() as stack:
                for raw in RAW:
                    with suppress(OSError):
                        address = web.base_url.netloc.decode().split(":")
                        stack.enter_context(socket.create_connection(address, 5)).sendall(raw)
                time.sleep(0.3)  # all stay open until the server has read them
    return answers


def test_log_of_a_public_app_stays_short_whatever_strangers_send(strangers_app: Served) -> None:
    before = len(strangers_app.said)
    page = Visitor(strangers_app.url)
    answers = strike(strangers_app.url, 5 if FULL else 1)
    assert len(answers) > 300
    assert all(message["success"] for message in page.show("Tokens"))
    page.close()
    said = strangers_app.said[before:]
    assert "Traceback" not in said
    assert len(said) < 6_000, said
    for *sent, body in answers:
        assert b"Traceback" not in body, sent
        assert b'{"error": null}' not in body, sent
