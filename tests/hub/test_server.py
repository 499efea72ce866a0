"""The fake Hub itself: its routes with plain http.client and with the real client, and every fault once."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import pytest

from tests.hub.server import FAULTS, FakeHub

REPO = "owner/model"
WEIGHTS = bytes(range(256)) * 400
CONFIG = b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'


class Got(NamedTuple):
    """An answer as a client sees it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@pytest.fixture(scope="module")
def started() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def hub(started: FakeHub) -> Iterator[FakeHub]:
    started.reset()
    started.add(REPO, {"config.json": CONFIG, "model.safetensors": WEIGHTS, "onnx/deep/model.onnx": b"onnx"})
    yield started
    started.reset()


def connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).hostname or "", urlsplit(url).port, timeout=5)


def ask(url: str, method: str = "GET", *, follow: bool = False, **headers: str) -> Got:
    """Ask once on a connection of its own."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(connect(url)) as connection:
        connection.request(method, url.split("/", 3)[3].join(["/", ""]), headers=names)
        answer = connection.getresponse()
        got = Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    if follow and got.status in (302, 307):
        return ask(urljoin(url, got.headers["location"]), method, follow=True, **headers)
    return got


def weights(hub: FakeHub) -> str:
    """Return where the CDN has the weights."""
    return ask(f"{hub.endpoint}/{REPO}/resolve/main/model.safetensors").headers["location"]


def small(hub: FakeHub) -> str:
    return f"{hub.endpoint}/{REPO}/resolve/main/config.json"


# Routes


def test_a_sparse_file_costs_nothing(hub: FakeHub, tmp_path: Path) -> None:
    path = tmp_path / "big.safetensors"
    with path.open("wb") as file:
        file.write(b"head")
        file.truncate(500_000_000)
    hub.add("owner/big", {"model.safetensors": path})
    got = ask(f"{hub.endpoint}/owner/big/resolve/main/model.safetensors", follow=True, Range="bytes=0-7")
    assert (got.body, got.headers["content-range"]) == (b"head\0\0\0\0", "bytes 0-7/500000000")


def test_the_real_client_is_content(hub: FakeHub, tmp_path: Path) -> None:
    hub.rename("model", REPO)
    hub.add(REPO, {"config.json": b"{}"}, branch="refs/pr/1")
    hub.add("owner/gated", {"config.json": CONFIG}, gated=True)
    hub.page_size = 1
    script = """
import json, sys
from pathlib import Path
from huggingface_hub import HfApi, errors, hf_hub_download, snapshot_download
api, cache = HfApi(), sys.argv[1]
said = {
    "config": Path(hf_hub_download("model", "config.json", cache_dir=cache)).read_text(),
    "pr": Path(hf_hub_download("model", "config.json", revision="refs/pr/1", cache_dir=cache)).read_text(),
    "weights": Path(hf_hub_download("owner/model", "model.safetensors", cache_dir=cache)).stat().st_size,
    "snapshot": sorted(p.name for p in Path(snapshot_download("model", cache_dir=cache)).rglob("*") if p.is_file()),
    "files": api.list_repo_files("model"),
    "sizes": {s.rfilename: s.size for s in api.model_info("model", files_metadata=True).siblings},
    "models": [m.id for m in api.list_models(author="owner")],
    "refs": [r.ref for r in api.list_repo_refs("model", include_pull_requests=True).pull_requests],
    "exists": [api.file_exists("model", "config.json"), api.file_exists("model", "no"), api.repo_exists("no/no")],
    "commits": len(api.list_repo_commits("model")),
    "paths": [p.size for p in api.get_paths_info("model", ["config.json"])],
    "errors": [],
}
for name, file, more in [
    ("no/no", "a", {}), ("owner/gated", "config.json", {}), ("model", "no", {}), ("model", "a", {"revision": "no"})
]:
    try:
        hf_hub_download(name, file, cache_dir=cache, **more)
    except errors.HfHubHTTPError as error:
        said["errors"].append(type(error).__name__)
    except errors.LocalEntryNotFoundError as error:
        said["errors"].append(type(error.__cause__).__name__)
print(json.dumps(said))
"""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
    clean = {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", script, str(tmp_path / "cache")]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "config": CONFIG.decode(),
        "pr": "{}",
        "weights": len(WEIGHTS),
        "snapshot": ["config.json", "model.onnx", "model.safetensors"],
        "files": ["config.json", "model.safetensors", "onnx/deep/model.onnx"],
        "sizes": {"config.json": len(CONFIG), "model.safetensors": len(WEIGHTS), "onnx/deep/model.onnx": 4},
        "models": ["owner/model", "owner/gated"],
        "refs": ["refs/pr/1"],
        "exists": [True, False, False],
        "commits": 1,
        "paths": [len(CONFIG)],
        "errors": ["RepositoryNotFoundError", "GatedRepoError", "RemoteEntryNotFoundError", "RevisionNotFoundError"],
    }
    assert not [seen for seen in hub.requests if seen.host == "elsewhere"]


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys, tests.hub; print([m for m in ('huggingface_hub', 'httpx2', 'numpy', 'torch') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout == "[]\n"


# Faults: what a client that asks for bytes 10-19 of the weights sees

PART = WEIGHTS[10:20]

SEEN_AS: list[tuple[str, dict[str, Any], Callable[[Got], bool]]] = [
    ("status", {"code": 403, "error_code": "GatedRepo"}, lambda g: g.headers["x-error-code"] == "GatedRepo"),
    ("status", {"code": 404}, lambda g: g.status == 404 and b"fault 404" in g.body),
    ("status", {"code": 429, "retry_after": 600}, lambda g: g.status == 429 and g.headers["retry-after"] == "600"),
    (
        "status",
        {"code": 429, "retry_after": 60, "as_date": True},
        lambda g: 50 < parsedate_to_datetime(g.headers["retry-after"]).timestamp() - time.time() < 62,
    ),
    ("no_content", {}, lambda g: g.status == 204 and not g.body),
    ("not_modified", {}, lambda g: g.status == 304 and not g.body),
    ("short_length", {"at": 4}, lambda g: g.body == PART[:4] and g.headers["content-range"] == "bytes 10-19/102400"),
    ("empty", {}, lambda g: g.status == 206 and g.headers["content-length"] == "0" and not g.body),
    ("no_content_length", {}, lambda g: g.body == PART and "content-length" not in g.headers),
    ("no_content_length", {"chunked": True}, lambda g: g.body == PART and g.headers["transfer-encoding"] == "chunked"),
    ("range_ignored", {}, lambda g: g.status == 200 and g.body == WEIGHTS and "content-range" not in g.headers),
    ("content_range", {}, lambda g: g.body == PART and g.headers["content-range"] == "bytes 9-18/102400"),
    ("content_range", {"wrong": "total"}, lambda g: g.headers["content-range"] == "bytes 10-19/102401"),
    ("content_range", {"wrong": "unknown"}, lambda g: g.headers["content-range"] == "bytes 10-19/*"),
    ("content_range", {"wrong": "missing"}, lambda g: g.status == 206 and "content-range" not in g.headers),
    ("content_range", {"wrong": "unparsable"}, lambda g: g.headers["content-range"] == "bytes from here"),
    ("content_range", {"wrong": "unit"}, lambda g: g.headers["content-range"] == "rows 10-19/*"),
    ("content_range", {"value": "bytes 0-9/10"}, lambda g: g.headers["content-range"] == "bytes 0-9/10"),
    ("short_part", {"by": 3}, lambda g: g.body == PART[:7] and g.headers["content-range"] == "bytes 10-16/102400"),
    ("long_part", {"by": 5}, lambda g: g.body == WEIGHTS[10:25] and "10-24" in g.headers["content-range"]),
    ("long_part", {"honest": False}, lambda g: len(g.body) == 11 and "10-19" in g.headers["content-range"]),
    ("multipart", {}, lambda g: g.headers["content-type"].startswith("multipart/byteranges") and PART in g.body),
    ("etag", {}, lambda g: g.body == PART and g.headers["etag"] == '"0000000000000000"'),
    ("etag", {"value": None}, lambda g: g.body == PART and "etag" not in g.headers),
    ("oversized_header", {}, lambda g: g.status == 206),
    ("drip_headers", {"rate": 10_000}, lambda g: g.body == PART),
    ("informational", {"code": 100, "count": 3}, lambda g: g.body == PART),
    ("drip_trailer", {"pause": 0.001, "count": 9}, lambda g: g.body == PART),
    ("drip", {"rate": 1000, "framing": "chunked"}, lambda g: g.body == PART and "content-length" not in g.headers),
    ("html", {}, lambda g: g.status == 200 and g.body.startswith(b"<!DOCTYPE") and "etag" not in g.headers),
    ("html", {"code": 206, "size": 10**6}, lambda g: "content-range" in g.headers and len(g.body) == 10**6),
    ("wrong_bytes", {"data": b"no"}, lambda g: g.status == 206 and g.body == b"no".ljust(10, b"\0")),
    ("gzip", {}, lambda g: g.headers["content-encoding"] == "gzip" and gzip.decompress(g.body) == PART),
    ("redirect_elsewhere", {"to": "file"}, lambda g: g.headers["location"] == "file:///etc/passwd"),
    ("redirect_elsewhere", {"to": "ftp"}, lambda g: g.headers["location"].startswith("ftp://")),
    ("redirect_elsewhere", {"to": "metadata"}, lambda g: "//169.254.169.254/" in g.headers["location"]),
    ("redirect_elsewhere", {"to": "//x/y", "code": 307}, lambda g: (g.status, g.headers["location"]) == (307, "//x/y")),
    ("redirect_loop", {}, lambda g: g.status == 302 and g.headers["location"].startswith("/repos/")),
    ("redirect_without_location", {}, lambda g: g.status == 302 and "location" not in g.headers),
]


@pytest.mark.parametrize(
    ("name", "parameters", "check"), SEEN_AS, ids=lambda value: "check" if callable(value) else str(value)[:40]
)
def test_a_fault_is_what_it_says_once(
    hub: FakeHub, name: str, parameters: dict[str, Any], check: Callable[[Got], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http.client, "_MAXLINE", 1 << 20)
    url = weights(hub)
    with hub.fault(name, host="cdn", **parameters) as fault:
        got = ask(url, Range="bytes=10-19")
        assert check(got), got
        assert fault.hits == 1
        again = ask(url, Range="bytes=10-19")
        assert (again.status, again.body) == (206, PART)


BROKEN: list[tuple[str, dict[str, Any], type[Exception]]] = [
    ("reset", {}, ConnectionResetError),
    ("reset", {"at": 4}, ConnectionResetError),
    ("hangup", {}, http.client.RemoteDisconnected),
    ("truncated", {"at": 4}, http.client.IncompleteRead),
    ("content_length", {"value": "99999999999999999999"}, OverflowError),
    ("content_length", {"value": "11"}, http.client.IncompleteRead),
    ("garbage", {}, http.client.BadStatusLine),
    ("oversized_header", {}, http.client.LineTooLong),
    ("oversized_header", {"count": 200}, http.client.HTTPException),
]


@pytest.mark.parametrize(("name", "parameters", "error"), BROKEN)
def test_a_fault_breaks_the_connection(
    hub: FakeHub, name: str, parameters: dict[str, Any], error: type[Exception]
) -> None:
    url = weights(hub)
    hub.fault(name, **parameters)
    with pytest.raises(error):
        ask(url, Range="bytes=10-19")
    assert ask(url, Range="bytes=10-19").body == PART


def test_bytes_before_a_reset_arrive(hub: FakeHub) -> None:
    url = weights(hub)
    hub.fault("reset", at=100)
    with contextlib.closing(connect(url)) as connection:
        connection.request("GET", url.split("/", 3)[3].join(["/", ""]))
        answer = connection.getresponse()
        assert answer.read(100) == WEIGHTS[:100]
        with pytest.raises(ConnectionResetError):
            answer.read(1)
    assert hub.requests[-1].body_bytes == 100


def test_a_negative_length(hub: FakeHub) -> None:
    hub.fault("content_length", value="-1", path="resolve-cache")
    got = ask(small(hub), follow=True)
    assert (got.headers["content-length"], got.body) == ("-1", CONFIG)


@pytest.mark.parametrize(
    ("name", "parameters", "size"),
    [("endless", {}, 3_000_000), ("endless", {"chunked": False}, 3_000_000), ("tiny_chunks", {}, 100_000)],
)
def test_an_endless_body(hub: FakeHub, name: str, parameters: dict[str, Any], size: int) -> None:
    url = weights(hub)
    hub.fault(name, **parameters)
    with contextlib.closing(connect(url)) as connection:
        connection.request("GET", url.split("/", 3)[3].join(["/", ""]), headers={"Range": "bytes=0-9"})
        answer = connection.getresponse()
        assert answer.getheader("Content-Length") is None
        assert len(answer.read(size)) == size
    assert hub.requests[-1].body_bytes < size + 7_000_000


def test_a_gzip_bomb(hub: FakeHub) -> None:
    url = weights(hub)
    hub.fault("gzip_bomb", size=32 << 20)
    got = ask(url)
    assert len(got.body) == int(got.headers["content-length"]) < 100_000
    assert len(zlib.decompressobj(-15).decompress(got.body[10:])) == 32 << 20


def test_headers_of_the_redirect(hub: FakeHub) -> None:
    url = f"{hub.endpoint}/{REPO}/resolve/main/model.safetensors"
    right = ask(url).headers
    del right["date"]  # of the second in which it was sent
    for name, header in (
        ("linked_etag", "x-linked-etag"),
        ("linked_size", "x-linked-size"),
        ("commit", "x-repo-commit"),
    ):
        hub.fault(name)
        hub.fault(name, value=None)
        hub.fault(name, value="main")
        assert ask(url).headers[header] != right[header]
        assert header not in ask(url).headers
        assert ask(url).headers[header] == "main"
    assert {name: value for name, value in ask(url).headers.items() if name != "date"} == right


def test_main_moves_between_two_reads(hub: FakeHub) -> None:
    first = ask(small(hub)).headers["x-repo-commit"]
    second = hub.add(REPO, {"config.json": b"{}"})
    hub.move(REPO, "main", first)
    hub.fault("moves", after=1, path="/resolve/", repo=REPO, to=second)
    assert [ask(small(hub)).headers["x-repo-commit"] for _ in range(3)] == [first, second, second]


def test_elsewhere_is_recorded(hub: FakeHub) -> None:
    hub.fault("redirect_elsewhere", host="hub", path="safetensors")
    got = ask(f"{hub.endpoint}/{REPO}/resolve/main/model.safetensors", follow=True)
    assert got.body == b"Nobody should read this."
    assert [seen.host for seen in hub.requests] == ["hub", "elsewhere"]
    assert len({urlsplit(url).netloc for url in (hub.endpoint, hub.cdn, hub.elsewhere)}) == 3


def test_faults_are_matched_in_order_and_used_up(hub: FakeHub) -> None:
    hub.fault("status", code=500, times=2, after=1, path="config", method="GET")
    hub.fault("status", code=502, times=None, path="config", method="GET")
    assert ask(small(hub), "HEAD").status == 307
    assert [ask(small(hub)).status for _ in range(4)] == [502, 500, 500, 502]
    with pytest.raises(KeyError):
        hub.fault("no such fault")
    with pytest.raises(TypeError):
        hub.fault("stall", second=3)


def test_every_fault_is_tested_and_says_what_it_does() -> None:
    tested = {name for name, *_ in [*SEEN_AS, *BROKEN]}
    tested |= {
        "delay",
        "stall",
        "endless",
        "tiny_chunks",
        "happens",
        "gzip_bomb",
        "linked_etag",
        "linked_size",
        "commit",
        "moves",
    }
    assert tested == set(FAULTS)
    assert all(function.__doc__ for function in FAULTS.values())


# The end


def test_stopping_is_quick_while_answers_wait() -> None:
    before = set(threading.enumerate())
    hub = FakeHub().start()
    hub.add(REPO, {"model.safetensors": WEIGHTS})
    hub.fault("delay", seconds=60, host="hub", after=1)
    hub.fault("stall", seconds=60, host="cdn", at=10)
    place = weights(hub)
    sockets = []
    for url in (hub.endpoint + f"/{REPO}/resolve/main/model.safetensors", place, hub.elsewhere):
        raw = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port))
        raw.sendall(f"GET /{url.split('/', 3)[3] if url.count('/') > 2 else ''} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sockets.append(raw)
    while len(hub.requests) < 4:
        time.sleep(0.01)
    hub.stop()  # which would take a minute, and then leave no thread either, if it waited for the answers
    assert sum(one.body_bytes for one in hub.requests) < len(WEIGHTS), "answers are cut, not sent"
    assert set(threading.enumerate()) <= before
    for raw in sockets:
        raw.close()


def test_reset_forgets_everything_and_cuts_what_waits(hub: FakeHub) -> None:
    url = weights(hub)
    hub.fault("stall", seconds=60, at=10)
    with contextlib.closing(connect(url)) as connection:
        connection.request("GET", url.split("/", 3)[3].join(["/", ""]))
        answer = connection.getresponse()
        assert answer.read(10) == WEIGHTS[:10]
        hub.reset()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
    assert not hub.requests
    assert ask(small(hub)).status == 401
