"""Public mode over real HTTP: strangers reach nothing of this machine, and no request carries its token."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hfposemb.app import limits, on_a_space
from hfposemb.app.server import route_allowlist

import hfposemb as hpe
from hfposemb import app
from tests.conftest import FULL
from tests.hub.session import HUB
from tests.support.app import doors
from tests.support.app.models import WORDS, checkpoint
from tests.support.app.serving import ENDPOINTS, REFUSAL, Served, Visitor, alerts, call_tools, called, lines, serving
from tests.support.installing import ROOT

TOKEN = "hf_canaryToken0123456789"
SECRET = "canary-content-that-nobody-may-read"
HOOKED = ["open 'canary-of-the-hook'"]


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory of the server with what a stranger might look for."""
    folder = tmp_path_factory.mktemp("home")
    checkpoint(folder / "canary", WORDS)
    (folder / "canary" / "secret.txt").write_text(SECRET)
    (folder / "canary-link").symlink_to(folder / "canary")
    (folder / "canaryowner").mkdir()
    (folder / "canaryowner" / "canary").symlink_to(folder / "canary")
    return folder


def adapter(config: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of an adapter with a configuration."""
    from safetensors.numpy import save

    name = "base_model.model.embeddings.word_embeddings.lora_embedding_"
    changes = {f"{name}{one}": np.ones((2, 8), "f4") for one in "AB"}
    return {"adapter_config.json": json.dumps(config).encode(), "adapter_model.safetensors": save(changes)}


@pytest.fixture(scope="module")
def served(canary: Path) -> Iterator[Served]:
    """The app for strangers, where the machine has a token and a private model that it opens."""
    HUB.reset()
    files = {path.name: path for path in (canary / "canary").iterdir() if path.suffix != ".txt"}
    HUB.add("owner/open", files)
    for number, path in enumerate(doors.paths(canary)):  # files of the Hub that name files of the server
        named = {
            "base_model_name_or_path": path,
            "peft_type": "LORA",
            "r": 2,
            "auto_map": {"AutoModel": f"{path}--x.Y"},
        }
        modules = [{"idx": 0, "name": "0", "path": path, "type": "sentence_transformers.models.Transformer"}]
        weights = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": path}}
        HUB.add(f"owner/adapter-{number}", adapter(named))
        HUB.add(f"owner/modules-{number}", {**files, "modules.json": json.dumps(modules).encode()})
        HUB.add(f"owner/index-{number}", {"model.safetensors.index.json": json.dumps(weights).encode()})
    HUB.add("owner/private", files, private=True)
    HUB.grant(TOKEN, {"owner/private"})
    cache = {"HFPOSEMB_CACHE": str(canary / "kept"), "HF_HOME": str(canary / "hf")}
    with serving(canary, HF_TOKEN=TOKEN, HUGGING_FACE_HUB_TOKEN=TOKEN, **cache) as found:
        page = Visitor(found.url)
        page.close()
        found.settle()
        assert found.opened == HOOKED, "the meta test: what is opened is seen"
        yield found
    HUB.reset()


@pytest.fixture
def page(served: Served) -> Iterator[Visitor]:
    """A stranger's page. Afterwards nothing was read, and no traceback was sent."""
    visitor = Visitor(served.url)
    yield visitor
    visitor.close()
    assert served.opened == HOOKED
    heard = "\n".join(visitor.heard)
    assert "Traceback" not in heard
    assert SECRET not in heard
    assert TOKEN not in heard


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    """What a stranger sends requests with who opens no page."""
    with httpx.Client(base_url=served.url, timeout=180) as found:
        yield found


def local_paths(folder: Path) -> list[str]:
    """Return local paths as strangers write them, each beside one that does not exist."""
    present = folder / "canary"
    samples = Path(hpe.__file__).parent / "samples" / "bert"
    return [
        *(str(present), f"{present}x", f"{present}/model.safetensors", f"{present}/absent.safetensors"),
        *("./canary", "./absent", "./canary/model.safetensors", "canary-link/../canary"),
        *("../canary", "../absent", "..", ".", "./", "././canary", "./canary/../canary", ".canary"),
        *("/", "/etc/passwd", "/etc/absent", "/etc/shadow", "//etc/passwd", "/proc/self/environ", "/proc/self/root"),
        *("/proc/self/cwd/canary", "/dev/stdin", str(samples), f"{samples}x"),
        *("~", "~/canary", "~root", "~root/.ssh", "~nobodyatall", "~nobodyatall/x"),
        *(f"file://{present}", f"file:{present}", "file:///etc/passwd", "FILE:///etc/absent"),
        *("\\\\server\\share\\canary", "C:\\canary", "\\canary", "%2e%2e/canary", "%2Fetc%2Fpasswd"),
        *("canary\x00", "./canary\x00.safetensors", "canary/\u2025/canary"),
        *("\u2024\u2024/canary", "\uff0fetc\uff0fpasswd", "canary/./canary"),
        *(f"  {present}  ", "canary/../../etc/passwd", "canaryowner/../canary", "canaryowner//canary"),
    ]


def test_local_paths_are_refused_alike_whether_they_exist_or_not(page: Visitor, canary: Path) -> None:
    paths = local_paths(canary)
    assert len(paths) >= 40
    plain = 0
    for first in range(0, len(paths), 3):
        chosen = paths[first : first + 3]
        page.choose(["sinusoidal:8x4", *chosen])
        said, *others = lines(page)
        assert all(other == said for other in others), "every tab says the same"
        assert len(said) == len(chosen), (chosen, said)
        for path, line in zip(chosen, said, strict=True):
            if path.strip().startswith((".", "/", "~", "\\")) and "\x00" not in path:
                assert line == REFUSAL, path
                plain += 1
            else:  # no source at all: said by the way it is written, which every name of that kind shares
                assert re.search(
                    "is not a source|is an address; write the path|unknown prefix|a source must be one line", line
                ), (path, line)
            assert "\n" not in line
    assert plain >= 25


def test_name_of_the_hub_is_no_folder_of_the_working_directory(page: Visitor) -> None:
    page.choose(["sinusoidal:8x4", "canaryowner/canary"])
    (present,) = alerts(page)
    page.choose(["sinusoidal:8x4", "canaryowner/absent"])
    (absent,) = alerts(page)
    assert present.replace("canaryowner/canary", "X") == absent.replace("canaryowner/absent", "X")


SERVED_FILES = [
    "/gradio_api/file=/etc/passwd",
    "/gradio_api/file=//etc/passwd",
    "/gradio_api/file=%2Fetc%2Fpasswd",
    "/gradio_api/file=%252Fetc%252Fpasswd",
    "/gradio_api/file=../../../../../../../../etc/passwd",
    "/gradio_api/file=..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/gradio_api/file=canary/secret.txt",
    "/gradio_api/file=./canary/secret.txt",
    "/gradio_api/file=CANARY",
    "/gradio_api/file=CANARY/",
    "/gradio_api/file=CANARY%00.png",
    "/gradio_api/file=/proc/self/environ",
    "/gradio_api/file=/proc/self/cwd/canary/secret.txt",
    "/gradio_api/file=file:///etc/passwd",
    "/gradio_api/file=http://169.254.169.254/latest/meta-data/",
    "/gradio_api/file=https://example.com/",
    "/gradio_api/file=HTTP://127.0.0.1/",
    "/gradio_api/file=\\\\server\\share",
    "/gradio_api/file/etc/passwd",
    "/gradio_api/file//etc/passwd",
    "/file=/etc/passwd",
    "/file/etc/passwd",
    "/static/../../../../../../etc/passwd",
    "/static/..%2f..%2f..%2f..%2f..%2f..%2fetc/passwd",
    "/static//etc/passwd",
    "/assets/..%2f..%2f..%2f..%2f..%2f..%2fetc/passwd",
    "/svelte/..%2f..%2f..%2f..%2fetc/passwd",
    "/gradio_api/proxy=http://169.254.169.254/",
    "/gradio_api/proxy=https://owner-space.hf.space/",
    "/proxy=http://169.254.169.254/",
    "/gradio_api/stream/x/y/1/playlist.m3u8",
    "/gradio_api/stream/x/y/1/playlist-file",
    "/gradio_api/custom_component/x/client/component/..%2f..%2fetc%2fpasswd",
    "/gradio_api/upload_progress?upload_id=x",
    "/gradio_api/deep_link",
    "/gradio_api/vibe-code",
    "/monitoring",
    "/monitoring/summary",
    "/gradio_api/dev/reload",
    "/gradio_api/runs",
    "/docs",
    "/redoc",
]


@pytest.mark.parametrize("path", SERVED_FILES)
def test_served_files_are_none_of_this_machine(path: str, client: httpx.Client, served: Served, canary: Path) -> None:
    path = path.replace("CANARY", str(canary / "canary" / "secret.txt"))
    for method in ("GET", "HEAD"):
        answer = client.request(method, path, headers={"Range": "bytes=0-99"})
        assert answer.status_code in (400, 403, 404, 405), (method, answer.status_code)
        assert SECRET not in answer.text
        assert "root:" not in answer.text
    assert served.opened == HOOKED


def test_a_shared_link_is_previewed_as_its_view(client: httpx.Client) -> None:
    query = {"models": 'sample:minilm,owner/<b>"', "tab": "positions"}
    page = client.get("/", params=query, headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "some.space"}).text
    head = page[: page.index("</head>")]
    tags = dict(re.findall(r'<meta property="(og:[^"]+)" content="([^"]*)"', head))
    assert tags["og:title"] == "MiniLM and owner/&lt;b&gt;&quot;: position embeddings · hfposemb"
    assert tags["og:image"] == "https://some.space/preview.png"
    assert "radio" not in "".join(tags.values())
    assert head.count("og:title") == head.count("twitter:card") == 1
    picture = client.get("/preview.png")
    assert picture.headers["content-type"] == "image/png"
    size = [int.from_bytes(picture.content[place : place + 4]) for place in (16, 20)]
    assert size == [int(tags["og:image:width"]), int(tags["og:image:height"])]


@pytest.mark.parametrize(
    "path",
    [
        *("upload", "upload?upload_id=x", "component_server", "component_server/", "process_recording", "stream/x"),
        *("stream/x/close", "run/predict", "run/chosen", "api/chosen", "vibe-edit", "vibe-code", "run-history/connect"),
    ],
)
def test_doors_that_the_page_does_not_need_are_closed(path: str, client: httpx.Client, served: Served) -> None:
    content = {"files": ("x.txt", b"canary-upload")}
    assert client.post(f"/gradio_api/{path}", files=content).status_code == 403
    assert client.post(f"/gradio_api/{path}", json={"data": [], "session_hash": "x"}).status_code == 403
    assert served.opened == HOOKED


def test_what_the_page_needs_is_served_and_its_limits_are_told(page: Visitor) -> None:
    said = html.unescape(json.dumps(list(page.values.values()), ensure_ascii=False))
    assert all(line in said for line in limits.told())
    linked = set(re.findall(r'(?:src|href)="\.?(/(?:assets|static|gradio_api)/[^"]+)"', page.client.get("/").text))
    assert linked
    for path in (*linked, "/config", "/theme.css", "/gradio_api/info", "/gradio_api/startup-events"):
        assert page.client.get(path).status_code == 200, path
    stored = set(re.findall(r'"path": ?"([^"]+)"', json.dumps(list(page.values.values()))))
    assert stored, "the first paint has files"
    for path in stored:
        assert page.client.get(f"/gradio_api/file={path}").status_code == 200


def test_bodies_are_bounded(client: httpx.Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"{}"

    large = b" " * (limits.REQUEST_BYTES + 1)
    assert client.post("/gradio_api/queue/join", content=large).status_code == 413
    assert client.post("/gradio_api/queue/join", content=pieces()).status_code == 411


def test_models_of_the_owner_stay_private_and_no_request_carries_the_token(page: Visitor) -> None:
    page.choose(["owner/open", "sinusoidal:8x4"])
    assert not alerts(page)
    page.choose(["owner/private", "sinusoidal:8x4"])
    (said,) = alerts(page)
    assert said.startswith("is not a public model on the Hub")
    assert "\n" not in said
    page.choose(["owner/open", "sinusoidal:8x4"])
    page.show("Tokens")
    method = page.labelled("Projection")
    page.act(method, "input", "UMAP")  # a child reads the model again
    assert "reading" in "".join(page.heard)
    assert HUB.requests
    for seen in HUB.requests:
        assert "authorization" not in seen.headers
        assert TOKEN not in json.dumps([seen.path, seen.headers])


FILE = {"path": "/etc/passwd", "url": None, "orig_name": "x", "meta": {"_type": "gradio.FileData"}}
CRAFTED: list[Any] = [
    "./canary",
    ["./canary"],
    {"path": "./canary"},
    FILE,
    [FILE, FILE],
    {**FILE, "path": "canary/secret.txt"},
    {**FILE, "url": "http://169.254.169.254/latest/meta-data/"},
    {"__type__": "update", "value": ["/etc/passwd"]},
    "x" * 40_000,
    ["x" * 1_000] * 40,
    [f"/etc/passwd{number}" for number in range(1_000)],
    [[["/etc/passwd"]]],
    [None, 1, 1.5, True, {}, []],
    None,
    -1,
    10**30,
    "\x00",
    "\ud800",
    "<script>alert(1)</script>",
]


@pytest.mark.parametrize("turn", range(len(CRAFTED) if FULL else 1))
def test_crafted_payloads_reach_nothing(turn: int, page: Visitor, served: Served) -> None:
    """Every event gets as many payloads as there are turns, so that every payload is sent to some events."""
    assert len(page.dependencies) > len(CRAFTED)
    for number, bound in enumerate(page.dependencies):
        value = CRAFTED[(number + 7 * turn) % len(CRAFTED)]
        trigger = bound["targets"][0][0] if bound["targets"] else None
        message = page.run(bound, trigger, data=[value] * len(bound["inputs"]), event_data=value)
        said = json.dumps(message.get("output"))
        assert 'File \\"' not in said
        assert "root:x:" not in said
    other = Visitor(served.url)
    other.choose(["sinusoidal:8x4"])
    assert not alerts(other)
    other.close()


@pytest.mark.parametrize("turn", range(40 if FULL else 1))
def test_names_of_files_reach_nothing_through_any_event(turn: int, page: Visitor, canary: Path) -> None:
    asked = doors.names(canary, len(page.dependencies), seed=turn)
    for name, bound in zip(asked, page.dependencies, strict=True):
        trigger = bound["targets"][0][0] if bound["targets"] else None
        values = (page.values[key] for key in bound["inputs"])
        data = [[name] if isinstance(value, list) else name for value in values]
        page.run(bound, trigger, data=data, event_data={"value": name, "sources": [name], "query": f"?models={name}"})


def test_names_of_files_reach_nothing_through_endpoints_and_tools(page: Visitor, served: Served, canary: Path) -> None:
    asked = doors.names(canary, 1_000 if FULL else 16)
    asked += [f"owner/{kind}-{one}" for kind in ("adapter", "modules", "index") for one in range(12 if FULL else 2)]
    tools = []
    for number, name in enumerate(asked):
        endpoint, given = list(ENDPOINTS.items())[number % len(ENDPOINTS)]
        given = {**given, **({"sources": [name, "sample:bert"]} if "sources" in given else {"source": name})}
        answer = called(page.client, endpoint, *given.values())
        page.heard.append(answer)
        assert answer.startswith("event: error") or name.startswith("owner/"), (endpoint, name, answer)
        tools.append((endpoint, given))
    for result, (endpoint, given) in zip(call_tools(served.url, *tools), tools, strict=True):
        page.heard += [content.text for content in result.content]
        assert result.isError or str(given).count("owner/"), (endpoint, given, result.content)


def test_names_touch_no_file_through_any_function(served: Served, canary: Path) -> None:
    command = [sys.executable, "-m", "tests.support.app.doors", str(20_000 if FULL else 1_000)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "HFPOSEMB_CACHE": str(canary / "kept-by-doors")}
    run = subprocess.run(command, cwd=canary, env=variables, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["touched"] == [f"os.stat '{canary}/canary-of-the-hook'"], "the meta test: what is looked at is seen"
    assert found["unlike"] == {}, "what exists and what does not is answered alike"
    assert found["refused"] > found["asked"] / 10


def test_public_mode_comes_by_itself_on_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not on_a_space()
    assert "Limits of this public page" not in _written(app.build(sources=("sinusoidal:16x8",)))
    monkeypatch.setenv("SPACE_ID", "owner/space")
    assert on_a_space()
    page = app.build(sources=("sinusoidal:16x8",))
    assert "Limits of this public page" in _written(page)
    assert len(page.blocks) <= 120, "as few components as a page of one's own"
    assert "Limits of this public page" not in _written(app.build(sources=("sinusoidal:16x8",), public=False))


def _written(blocks: Any) -> str:
    return json.dumps([block.get_config().get("value") for block in blocks.blocks.values()], default=str)


def test_files_of_the_first_paint_outlive_the_clearing() -> None:
    from gradio.route_utils import delete_files_created_by_app

    blocks = app.build(sources=("sample:bert", "sinusoidal:16x8"), public=True)
    assert blocks.delete_cache == (limits.FILES_SECONDS, limits.FILES_SECONDS)
    stored = set(re.findall(r'"path": ?"([^"]+)"', _written(blocks)))
    assert stored
    delete_files_created_by_app(blocks, age=None)
    assert all(Path(path).exists() for path in stored)


def test_door_is_closed_to_other_protocols() -> None:
    assert route_allowlist._refused({"type": "websocket", "path": "/"}) is not None
    assert route_allowlist._refused({"type": "lifespan"}) is None
    put = {"type": "http", "method": "PUT", "path": "/", "headers": []}
    assert route_allowlist._refused(put) is not None
