"""Two people sign in to a Space, in two browsers: each opens their own models, and neither sees the other's."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import psutil
import pytest
from gradio_client import Client
from safetensors.numpy import save

from tests.hub.session import HUB
from tests.support.serving import Served, serving

from .conftest import TIMEOUT
from .waiting import until

pytest.importorskip("authlib")

from tests.hub.oauth import SECRET, FakeProvider

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
    """Return what an endpoint answers a program that has the cookie of a page, or none."""
    headers = {} if page is None else {"cookie": f"session={cookie(page)['value']}"}
    with httpx.Client(base_url=f"{space.url}/gradio_api/call/{endpoint}", timeout=180, headers=headers) as client:
        event = client.post("", json={"data": data}).json()["event_id"]
        return client.get(f"/{event}").text


@contextmanager
def watched(space: Served) -> Iterator[set[str]]:
    """The command lines and environments of the processes that the app starts."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        app = psutil.Process(space.process.pid)
        while not over.is_set():
            for child in app.children(recursive=True):
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        seen.add(Path(f"/proc/{child.pid}/{name}").read_text(errors="replace"))
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
        field = ben.get_by_label("Models to compare (up to 4)").locator("visible=true")
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
        until(ben, lambda: [*Path(space.log.parents[1], "tmp").glob("hfposemb-visitors-*/*")], [])
    nothing_is_left(space, processes)


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
