"""Two people sign in to a Space, in two browsers: each opens their own models, and neither sees the other's."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from gradio.routes import App
from gradio_client import Client
from playwright.sync_api import Browser, Page
from safetensors.numpy import save

import app
from tests.browser.conftest import TIMEOUT
from tests.browser.waiting import until
from tests.hub.session import HUB
from tests.support.app.serving import Served, Visitor, serving

pytest.importorskip("authlib")

from tests.hub.oauth import SECRET, FakeProvider

ADA, BEN = "hf_oauth_tokenOfAda.aaaa-0001", "hf_oauth_tokenOfBen.bbbb-0002"
OWNER = "hf_tokenOfTheOwnerOfTheSpace"
TABLE = np.random.default_rng(7).standard_normal((64, 32)).astype(np.float32)
SIGN_IN = "Sign in with Hugging Face"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The app as a Space whose owner has a token, and a Hub with a private model of Ada's and one of the owner's."""
    HUB.reset()
    config = {"model_type": "gpt2", "n_positions": 64, "n_embd": 32, "vocab_size": 300}
    tables = {"wte.weight": np.resize(TABLE, (300, 32)), "wpe.weight": TABLE}
    files = {"config.json": json.dumps(config), "model.safetensors": save(tables)}
    for name in ("lab/secret-a", "lab/secret-of-the-owner"):
        HUB.add(name, files, private=True)
    HUB.add("lab/gated", files, gated=True)
    HUB.grant(ADA, {"lab/secret-a"})
    HUB.grant(BEN)
    HUB.grant(OWNER, {"lab/secret-a", "lab/secret-of-the-owner", "lab/gated"})
    folder = tmp_path_factory.mktemp("space")
    with FakeProvider({"ada": ADA, "ben": BEN}) as provider:
        own = {"HF_TOKEN": OWNER, "HFPOSEMB_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        own["GRADIO_TEMP_DIR"] = ""  # its own folder, in its own ``TMPDIR``, not that of the apps in this process
        (folder / "tmp").mkdir()
        with serving(folder, **provider.environment, **own) as served:
            yield served
    HUB.reset()


@contextmanager
def visitor(browser: Browser) -> Iterator[Page]:
    """A browser of its own. What Gradio's page asks of Hugging Face on a Space, such as fonts, is not answered."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(TIMEOUT)
    context.route(re.compile(r"^https://"), lambda route: route.abort())
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert not faults


def sign_in(page: Page, name: str) -> None:
    page.get_by_role("button", name=SIGN_IN).click()
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name=f"Sign out ({name})").wait_for()


def alert(page: Page, text: str) -> None:
    page.locator(".source-error").get_by_text(text).wait_for()


def panels(page: Page, source: str) -> int:
    """Count the plots of a source; a panel that only says why there are none has no plot."""
    return page.locator(f'.panel[data-key="{source}"] .plot').count()


def cookie(page: Page) -> dict[str, Any]:
    (found,) = (dict(one) for one in page.context.cookies() if one.get("name") == "session")
    return found


def asked(space: Served, endpoint: str, data: list[Any], page: Page | None) -> str:
    """Return what an endpoint answers a program that has the cookie of a page, or none, without numbers of ports."""
    headers = {} if page is None else {"cookie": f"session={cookie(page)['value']}"}
    with httpx.Client(base_url=f"{space.url}/gradio_api/call/{endpoint}", timeout=180, headers=headers) as client:
        event = client.post("", json={"data": data}).json()["event_id"]
        return re.sub(r":\d+/", "/", client.get(f"/{event}").text)


@contextmanager
def watched(space: Served) -> Iterator[set[str]]:
    """The command lines and environments of the processes that the app starts."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        served = psutil.Process(space.process.pid)
        command = Path(f"/proc/{served.pid}/cmdline").read_text()
        while not over.is_set():
            for child in served.children(recursive=True):
                with suppress(OSError):
                    called = Path(f"/proc/{child.pid}/cmdline").read_text(errors="replace")
                    if (
                        called != command
                    ):  # otherwise it is still a copy of the served app, which is about to start another
                        seen.update((called, Path(f"/proc/{child.pid}/environ").read_text(errors="replace")))
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_two_people_sign_in(browser: Browser, space: Served) -> None:
    link = f"{space.url}/?models=lab/secret-a&tab=positions"
    httpx.Client(transport=httpx.HTTPTransport(retries=100)).get(space.url, timeout=180)
    with visitor(browser) as ada, visitor(browser) as ben, watched(space) as processes:
        ada.goto(link)
        alert(ada, "sign in to open a private model")
        sign_in(ada, "ada")
        ada.locator('.panel[data-key="lab/secret-a"] .plot').first.wait_for()
        assert panels(ada, "lab/secret-a")
        copied = ada.url
        assert "lab%2Fsecret-a" in copied or "lab/secret-a" in copied
        kept = cookie(ada)
        assert kept["httpOnly"]
        assert kept["secure"]
        assert kept["sameSite"] == "None"
        assert '"severity"' in asked(space, "check", ["lab/secret-a"], ada), "a child reads it with her token"

        ben.goto(f"{space.url}/?models=sinusoidal:64x16&tab=tokens")
        sign_in(ben, "ben")
        field = ben.get_by_label("Models to compare (up to 8)").locator("visible=true")
        field.click()
        field.press_sequentially("secret", delay=20)
        ben.wait_for_timeout(1500)
        assert not [one for one in ben.get_by_role("option").all_inner_texts() if "secret" in one]
        ben.goto(copied)
        alert(ben, "is private and not yours to read")
        assert panels(ben, "lab/secret-a") == 0

        for page in (ben, None):
            for endpoint, data in (("info", ["lab/secret-a"]), ("check", ["lab/secret-a"])):
                assert "64" not in asked(space, endpoint, data, page), endpoint
        assert '"shape": [64, 32]' in asked(space, "info", ["lab/secret-a"], ada), "the control"
        with pytest.raises(Exception, match="not a public model"):
            Client(space.url, verbose=False).predict(source="lab/secret-a", api_name="/info")
        for page in (ada, ben):
            for theirs in ("lab/secret-of-the-owner", "lab/gated"):
                assert "64" not in asked(space, "info", [theirs], page), "the owner's token is for nobody"

        before = kept["value"]
        ada.get_by_role("button", name="Sign out (ada)").click()
        ada.get_by_role("button", name=SIGN_IN).wait_for()
        assert "secret" not in ada.url
        assert "secret" not in ada.evaluate("JSON.stringify(localStorage)")
        ada.goto(link)
        alert(ada, "sign in to open a private model")
        assert panels(ada, "lab/secret-a") == 0
        ada.context.add_cookies([{"name": "session", "value": before, "url": space.url}])
        assert "64" not in asked(space, "info", ["lab/secret-a"], ada), "the cookie of before is worth nothing"
        ben.get_by_role("button", name="Sign out (ben)").click()
        ben.get_by_role("button", name=SIGN_IN).wait_for()
        until(ben, lambda: left_of_visitors(space), [])
    nothing_is_left(space, processes)


def left_of_visitors(space: Served) -> list[Path]:
    """Return the folders of visitors on disk: what was read for them, and the files of their pages."""
    return [*Path(space.log.parents[1], "tmp").glob("**/hfposemb-visitors-*/*")]


def signed_in(space: Served, name: str) -> str:
    """Sign in without a browser; return the cookie."""
    with httpx.Client(timeout=180, transport=httpx.HTTPTransport(retries=100)) as client:
        began = client.get(f"{space.url}/login/huggingface")
        agreed = client.get(f"{began.headers['location']}&as={name}")
        cookie = began.headers["set-cookie"].partition(";")[0]
        ended = client.get(agreed.headers["location"], headers={"cookie": cookie})
        return str(ended.headers["set-cookie"].partition(";")[0])


PRIVATE = re.compile(r"64 × 32|300 × 32|\[(64|300), 32\]|secret-a learned")
"""What is said of Ada's model to those who can read it."""


def routes_of(router: Any) -> Iterator[tuple[str, str]]:
    """Yield method and path of each route, also of those in a router within."""
    for route in router.routes:
        if hasattr(route, "original_router"):
            yield from routes_of(route.original_router)
        else:
            yield from ((method, route.path) for method in getattr(route, "methods", ()))


def requests_of(ada: Visitor, events: list[str], files: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield requests for every route of Gradio's and ours that name Ada's page, events and files."""
    inner = files[0].partition("=")[2]
    names = {"session_hash": [ada.session], "event_id": events, "api_name": ["info"], "path_or_url": [inner]}
    call = {"name": "hfposemb_info", "arguments": {"source": "lab/secret-a"}}
    bodies: list[dict[str, Any]] = [
        {"data": ["lab/secret-a"], "session_hash": ada.session},
        {"source": "lab/secret-a"},
        *({"session_hash": page, "event_id": events[0], "fn_index": 0} for page in (ada.session, "another")),
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        *({"fn_index": one["id"], "data": [], "session_hash": ada.session} for one in ada.dependencies[:3]),
    ]
    query = {"session_hash": ada.session, "deep_link": ada.session, "models": "lab/secret-a", "tab": "positions"}
    routes = set(routes_of(App.create_app(app.build())))
    assert {("GET", "/gradio_api/queue/data"), ("POST", "/gradio_api/cancel")} <= routes, "the control"
    for method, path in sorted({*routes, ("POST", "/gradio_api/mcp"), ("GET", "/gradio_api/mcp/schema")}):
        holes = re.findall(r"{(\w+)[^}]*}", path)
        for filled in product(*(names.get(hole, ["0"]) for hole in holes)):
            address = re.sub("{[^}]*}", "{}", path).format(*filled)
            queued = path.endswith(("/queue/join", "/cancel", "/mcp", "/call/{api_name}", "/call/v2/{api_name}"))
            for body in bodies if method == "POST" and queued else [None]:
                yield method, address, {"params": query} | ({} if body is None else {"json": body})
    for odd in (inner, f"/tmp/..{inner}", f"{inner}/../{Path(inner).name}", f"/.{inner}", inner.replace("/", "%2F")):
        yield "GET", f"/gradio_api/file={odd}", {"headers": {"range": "bytes=0-99"}}
    yield from (("GET", file, {}) for file in files)


def answered(client: httpx.Client, method: str, address: str, options: dict[str, Any]) -> tuple[int, str]:
    """Return the status and the body of an answer, or the beginning of one that does not end."""
    accepted = {"accept": "application/json, text/event-stream", **options.get("headers", {})}
    status, text = 0, ""
    # Gradio breaks off what it streams for an unknown session, and a refused request is not read to its end.
    with suppress(httpx.TransportError), client.stream(method, address, **{**options, "headers": accepted}) as answer:
        status = answer.status_code
        for part in answer.iter_text():
            text += part
            if "ALIVE" in text:
                break
    return status, text


def test_what_belongs_to_one_visitor_is_worth_nothing_to_others(space: Served) -> None:
    ada, ben = (Visitor(space.url, cookie=signed_in(space, name)) for name in ("ada", "ben"))
    nobody, copied = Visitor(space.url), ada.client.headers["cookie"]
    ada.choose(["lab/secret-a"])
    ada.show("Tokens")
    asked_for = {"json": {"data": ["lab/secret-a"]}}
    called = [json.loads(answered(ada.client, "POST", "/gradio_api/call/info", asked_for)[1])["event_id"] for _ in "ab"]
    files = sorted({one for one in re.findall(r'/gradio_api/file=[^"\\]+', "".join(ada.heard)) if "visitors" in one})
    assert len(files) >= 2
    assert PRIVATE.search("".join(ada.heard)), "the control: she is told"
    bound = ada.events(ada.labelled("Models to compare (up to 8)"), "change")[0]
    for other in (ben, nobody):
        joined = ada.join(bound, [ada.values[key] for key in bound["inputs"]], bound["targets"][0][0]).json()[
            "event_id"
        ]
        for method, address, options in requests_of(ada, [joined, called[0], called[0][:-32]], files):
            status, said = answered(other.client, method, address, options)
            assert not PRIVATE.search(said), (method, address, options)
            assert status == 403 or "visitors" not in address, (method, address)
            assert status in (401, 403, 411, 422, 404) or not address.endswith("join"), (method, address, options)
        message = ada.listen(joined)
        assert message["output"]["data"], "nobody has taken or cancelled her answer"
    assert PRIVATE.search(answered(ada.client, "GET", f"/gradio_api/call/info/{called[0]}", {})[1]), "the control"
    for file in files:
        mine = ada.client.get(file)
        assert (mine.status_code, mine.headers["cache-control"]) == (200, "private, no-store")
    ada.client.get("/logout")
    for cookie in (copied, copied + "x"):
        again = Visitor(space.url, cookie=cookie)
        for method, address, options in requests_of(ada, [called[1], called[1][:-32]], files):
            assert not PRIVATE.search(answered(again.client, method, address, options)[1]), (method, address)
        again.close()
    ben.client.get("/logout")
    assert not left_of_visitors(space)
    for one in (ada, ben, nobody):
        one.close()


def nothing_is_left(space: Served, processes: set[str]) -> None:
    """Check what the app printed, wrote and sent, and how it called its processes."""
    assert len(processes) >= 2, "the meta test: processes are seen"
    secrets = (ADA, BEN, OWNER, SECRET)
    assert not [text for text in processes if any(secret in text for secret in secrets)]
    assert not [secret for secret in secrets if secret in space.said]
    files = [path for path in space.log.parents[1].rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert not any(secret.encode() in content for secret in secrets), path
        assert TABLE.tobytes() not in content, path
    entries = [path for path in files if path.suffix == ".entry"]
    assert not [path for path in entries if b"secret-a" in path.read_bytes()]
    sent = {one.headers.get("authorization", "").removeprefix("Bearer ") for one in HUB.requests}
    assert sent == {"", ADA, BEN}, "the token of the Space's owner is never used"
