"""Signing in: whose token reads what, where it is kept, and what is left when somebody signs out."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import itsdangerous
import pytest
from gradio.context import LocalContext
from gradio.state_holder import StateHolder
from huggingface_hub import constants, snapshot_download
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import hfposemb as hpe
from app.components.files import kept_file
from app.components.plot import Drawing, Panel, PanelRow
from app.jobs import measuring
from app.jobs.children import Job
from app.jobs.fetching import on_behalf
from app.limits import LEFT_SECONDS
from app.server import reach, sign_in
from app.server.ownership import Owned
from app.server.page import Page
from app.server.route_allowlist import _refused
from app.session import accounts
from app.session.accounts import ACCOUNT, ACCOUNTS, INFO, KEY, Account, Accounts
from app.session.library import Library
from hfposemb.bug_reports import redacted
from hfposemb.checkpoints.access import Visitor
from hfposemb.errors import HfposembError, OfflineError, RefusedError, SourceError
from hfposemb.figures.named_figures import view
from tests.hub import FakeHub
from tests.hub.gpt2 import small_gpt2
from tests.support.processes.waiting import until

ADA, BEN = "hf_oauth_tokenOfAda.aaaa-0001", "hf_oauth_tokenOfBen.bbbb-0002"
SECRET = "secret-of-the-cookies"
files = partial(small_gpt2, 300, 64, 32)


def sent(token: str, name: str, seconds: float = 3600) -> dict[str, Any]:
    """What a provider sends of somebody who has signed in."""
    profile = {"preferred_username": name, "name": name, "sub": "1", "email": f"{name}@example.org"}
    return {"access_token": token, "id_token": "x", "expires_at": time.time() + seconds, "userinfo": profile}


@pytest.fixture
def models(hub: FakeHub) -> FakeHub:
    """A Hub with a model for everybody, a private one and a gated one that Ada may read, and Ben, who may not."""
    hub.add("lab/open", files(seed=0))
    hub.add("lab/secret-a", files(seed=1), private=True)
    hub.add("lab/gated", files(seed=2), gated=True)
    hub.grant(ADA, {"lab/secret-a", "lab/gated"})
    hub.grant(BEN)
    return hub


@pytest.fixture
def keys() -> Iterator[dict[str, str]]:
    """The keys of two people who have signed in."""
    found = {"ada": ACCOUNTS.add(sent(ADA, "ada")), "ben": ACCOUNTS.add(sent(BEN, "ben"))}
    yield found
    for key in found.values():
        ACCOUNTS.remove(key)


@contextmanager
def event(key: str | None = None) -> Iterator[None]:
    """Handle an event of a page that offers to sign in."""
    scope = {ACCOUNT: ACCOUNTS.find(key)}
    before = LocalContext.request.set(gr.Request(request=SimpleNamespace(scope=scope)))  # type: ignore[arg-type]
    yield
    LocalContext.request.reset(before)


# --- sessions and routes ----------------------------------------------------------------------------------------------


def _in(request: Request) -> JSONResponse:
    request.session[INFO] = sent(request.query_params["token"], request.query_params["name"])
    return JSONResponse({})


def _out(request: Request) -> JSONResponse:
    request.session.pop(INFO, None)
    return JSONResponse({})


def _who(request: Request) -> JSONResponse:
    return JSONResponse(request.session.get(INFO, {}).get("access_token"))


def _fails(request: Request) -> JSONResponse:
    raise ValueError(f"a bug that knows {ADA}")


@pytest.fixture
def page() -> Iterator[Callable[[], TestClient]]:
    """Browsers at a server with Gradio's sessions and ours behind them."""
    routes = [Route("/in", _in), Route("/out", _out), Route("/who", _who), Route("/login/callback", _fails)]
    sessions = Middleware(SessionMiddleware, secret_key=SECRET, same_site="none", https_only=True)
    app = Starlette(routes=routes, middleware=[sessions, Middleware(sign_in.SignedIn)])
    before = set(ACCOUNTS._accounts)
    yield lambda: TestClient(app, base_url="https://lab-space.hf.space")
    for key in set(ACCOUNTS._accounts) - before:
        ACCOUNTS.remove(key)


def inside(client: TestClient) -> dict[str, Any]:
    """Return what the cookie of a browser says to whoever reads it."""
    return json.loads(b64decode(client.cookies["session"].rpartition(".")[0].rpartition(".")[0]))


def test_the_cookie_holds_a_random_key_in_place_of_the_token(page: Callable[[], TestClient]) -> None:
    one, other = page(), page()
    answer = one.get("/in", params={"token": ADA, "name": "ada"})
    other.get("/in", params={"token": ADA, "name": "ada"})
    assert list(inside(one)) == [KEY]
    assert len(inside(one)[KEY]) >= 40
    assert inside(one) != inside(other)
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=none; secure" in flags
    assert one.get("/who").json() == ADA, "Gradio finds the token where it looks for it"
    assert ADA not in str(one.cookies)
    assert page().get("/who").json() is None


def test_signing_out_ends_the_session_at_the_server(page: Callable[[], TestClient]) -> None:
    client = page()
    client.get("/in", params={"token": ADA, "name": "ada"})
    copied = client.cookies["session"]
    account = ACCOUNTS.find(inside(client)[KEY])
    client.get("/out")
    assert client.get("/who").json() is None
    client.cookies.set("session", copied)
    assert client.get("/who").json() is None, "a copy of the cookie is worth nothing"
    assert account.closed
    assert not account.info
    assert not account._folder.exists()


def test_a_second_sign_in_replaces_the_first_and_no_cookie_is_a_token(page: Callable[[], TestClient]) -> None:
    client = page()
    client.get("/in", params={"token": ADA, "name": "ada"})
    first = inside(client)[KEY]
    client.get("/in", params={"token": BEN, "name": "ben"})
    assert client.get("/who").json() == BEN
    assert ACCOUNTS.find(first) is None
    client = page()
    made = b64encode(json.dumps({INFO: sent(ADA, "ada"), KEY: "guessed"}).encode())
    client.cookies.set("session", itsdangerous.TimestampSigner(SECRET).sign(made).decode())
    assert client.get("/who").json() is None


def test_another_site_cannot_use_the_session(page: Callable[[], TestClient]) -> None:
    client = page()
    client.get("/in", params={"token": ADA, "name": "ada"})
    assert client.get("/who", headers={"origin": "https://evil.example"}).json() is None
    assert client.get("/who", headers={"origin": "null"}).json() is None
    assert client.get("/who", headers={"origin": "http://["}).json() is None
    assert client.get("/who", headers={"origin": "https://lab-space.hf.space"}).json() == ADA


def test_a_failure_is_one_line_without_a_token(
    page: Callable[[], TestClient], capfd: pytest.CaptureFixture[str]
) -> None:
    answer = page().get("/login/callback?code=1&state=2")
    assert (answer.status_code, answer.text) == (502, sign_in.FAILED)
    declined = page().get("/login/callback?error=access_denied&state=2", follow_redirects=False)
    assert (declined.status_code, declined.headers["location"]) == (302, "/")
    assert capfd.readouterr().out == "hfposemb: signing a visitor in failed: ValueError\n"


@pytest.mark.parametrize("path", ["/login/huggingface", "/login/callback", "/logout"])
def test_the_routes_of_signing_in_are_open_where_it_is_offered(path: str) -> None:
    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    assert _refused(scope, sign_in=True) is None
    assert _refused(scope) is not None
    assert _refused({**scope, "method": "POST"}, sign_in=True) is not None
    assert _refused({**scope, "path": f"{path}/x"}, sign_in=True) is not None


def test_it_is_offered_only_where_the_hub_has_configured_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in reach.OAUTH:
        monkeypatch.setenv(name, "x")
    assert not reach.offers_sign_in(), "outside of a Space Gradio would use the token of this machine"
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "lab/space")
    assert reach.offers_sign_in()
    monkeypatch.delenv("OAUTH_CLIENT_SECRET")
    assert not reach.offers_sign_in()


def test_a_host_never_gets_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "offers_sign_in", lambda: True)
    from app import panel

    with gr.Blocks() as host:
        panel(public=True, tabs=["start"])
    assert not host.expects_oauth


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_an_account_ends_with_its_token() -> None:
    found = Accounts()
    key = found.add(sent(ADA, "ada", seconds=0.2))
    account = found.find(key)
    assert account._folder.stat().st_mode & 0o777 == 0o700
    assert until(lambda: not account._folder.exists(), 30)
    assert account.closed, "without any request"
    assert found.find(key) is None
    assert len(found) == 0


def test_there_are_only_so_many_accounts() -> None:
    found = Accounts(most=2)
    keys = [found.add(sent(ADA, "ada")) for _ in range(2)]
    assert found.find(keys[0])
    keys.append(found.add(sent(BEN, "ben")))
    assert [found.find(key) is not None for key in keys] == [True, False, True]
    for key in keys:
        found.remove(key)


def test_what_is_kept_of_the_provider_is_the_token_and_the_name(keys: dict[str, str]) -> None:
    account = ACCOUNTS.find(keys["ada"])
    assert set(account.info) == {"access_token", "userinfo", "scope", "expires_at"}
    assert "email" not in account.info["userinfo"]
    assert ADA not in repr(account)
    assert ADA not in repr(account.visitor)


@pytest.mark.parametrize("missing", ["access_token", "userinfo"])
def test_an_incomplete_answer_opens_no_account(missing: str) -> None:
    found = Accounts()
    with pytest.raises(KeyError):
        found.add({name: value for name, value in sent(ADA, "ada").items() if name != missing})
    assert len(found) == 0


# --- models -----------------------------------------------------------------------------------------------------------


def test_each_visitor_opens_what_their_own_token_may_read(models: FakeHub, keys: dict[str, str]) -> None:
    library = Library()
    with event(keys["ada"]):
        mine = library.open("lab/secret-a", public=True)
        assert mine.position.table.vectors.shape == (64, 32)
        assert library.opened("lab/secret-a", [], public=True) is mine
        library.results.put("lab/secret-a", "measured")
    for other in (keys["ben"], None):
        with event(other):
            assert library.opened("lab/secret-a", [], public=True) is None
            assert library.results.get("lab/secret-a") is None
            with pytest.raises(RefusedError):
                library.open("lab/secret-a", public=True)
    assert library.opened("lab/secret-a", [], public=True) is None
    assert len(library.sources) == 0


def test_a_public_model_is_opened_once_for_all_and_without_a_token(models: FakeHub, keys: dict[str, str]) -> None:
    library = Library()
    with event(keys["ada"]):
        mine = library.open("lab/open", public=True)
        assert library.shares("lab/open")
    with event():
        assert library.open("lab/open", public=True) is mine
    assert not any("authorization" in one.headers for one in models.requests)


def test_after_signing_out_nothing_is_left(models: FakeHub, keys: dict[str, str], tmp_path: Path) -> None:
    library = Library()
    with event(keys["ada"]):
        secret = library.open("lab/secret-a", public=True).position.table.vectors.tobytes()
        account = accounts.visit().account
        kept = b"".join(path.read_bytes() for path in account._folder.rglob("*.entry"))
        assert secret in kept, "the control: what is read is kept in the visitor's folder"
        _, work = library.fetch("lab/gated", ["token"], public=True)
        ACCOUNTS.remove(keys["ada"])
        with pytest.raises(SourceError, match="no longer signed in"):
            library.open("lab/secret-a", public=True)
        library.results.put("lab/secret-a", "computed by an event that began before")
        with pytest.raises(HfposembError, match="no longer signed in"):
            work(SimpleNamespace(check=lambda: None, expect=lambda _: None))  # type: ignore[arg-type]
    with event(keys["ada"]):
        assert library.results.get("lab/secret-a") is None
        with pytest.raises(RefusedError, match="sign in to open a private model"):
            library.open("lab/secret-a", public=True)
    assert not account._folder.exists()
    shared = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert secret not in shared
    assert b"secret-a" not in shared
    assert ADA.encode() not in shared


def test_reads_of_two_visitors_are_two_reads(models: FakeHub, keys: dict[str, str]) -> None:
    found, library = [], Library()
    for key in (keys["ada"], keys["ben"], None):
        with event(key):
            found.append(library.fetch("lab/secret-a", ["position"], public=True)[0])
    assert len(set(found)) == 3


def test_local_mode_knows_no_accounts(models: FakeHub, keys: dict[str, str]) -> None:
    with event(keys["ada"]), pytest.raises(RefusedError):
        Library().open("lab/secret-a", public=False)


def test_a_refusal_says_what_to_do(models: FakeHub, keys: dict[str, str]) -> None:
    def said(text: str) -> str:
        with pytest.raises(RefusedError) as caught:
            Library().open(text, public=True)
        return str(caught.value)

    terms = f"its page, {models.endpoint}/lab/gated"
    with event():
        assert said("lab/gated") == f"lab/gated is gated; sign in and accept its terms on {terms}"
        assert said("lab/secret-a").endswith("check its name, or sign in to open a private model")
    with event(keys["ben"]):
        assert said("lab/gated") == f"lab/gated is gated; accept its terms on {terms}"
        assert said("lab/secret-a").endswith("is private and not yours to read; check its name and your access")
    del models.tokens[BEN]
    with event(keys["ben"]):
        assert said("lab/secret-a").endswith("no longer accepts your sign-in; sign out and sign in again")
    assert said("lab/gated").endswith("run the app on your own machine"), "where signing in is not offered"


# --- files, sessions and events ---------------------------------------------------------------------------------------


def test_what_is_made_for_a_page_ends_with_the_session(keys: dict[str, str]) -> None:
    def drawn_and_saved() -> tuple[tuple[Panel, ...], str]:
        return (Panel("a", "A", drawings=(Drawing(figure),)),), kept_file(b"a,b", "tokens.csv")

    figure = view("norms", hpe.extract("random:5000x4"))
    with Page() as page:
        outputs = [PanelRow(()), gr.DownloadButton()]
        page.load(drawn_and_saved, None, outputs)
    account = ACCOUNTS.find(keys["ada"])

    def files_for(account: Account | None) -> list[Path]:
        request = gr.Request(request=SimpleNamespace(scope={ACCOUNT: account}))  # type: ignore[arg-type]
        row, saved = asyncio.run(page.process_api(0, [], request=request))["data"]
        made = [Path(one["path"]) for one in (*row["files"], saved)]
        assert len(made) >= 2
        return made

    files = files_for(account)
    assert all(path.is_file() and account.files.folder in path.parents for path in files)
    assert account.files.folder.stat().st_mode & 0o777 == 0o700
    assert not set(files) & set(files_for(None)), "the same content of others is another file"
    ACCOUNTS.remove(keys["ada"])
    assert not account.files.folder.exists()
    assert not any(path.exists() for path in files_for(account)), "of an event that began before"


def test_sessions_of_programs_and_of_pages_that_were_left_are_dropped() -> None:
    with Page() as page:
        page.load(lambda: None, None, None)
    holder = StateHolder()
    holder.set_blocks(page)
    for name in ("here", "left", "left long ago"):
        holder[name].is_closed = name != "here"
        holder.time_last_used[name] -= timedelta(seconds=0 if name == "left" else 2 * LEFT_SECONDS)
    for session in ("page", "event"):
        state = holder[session]
        asyncio.run(page.process_api(0, [], state=state, session_hash=session, event_id="event"))
    assert list(holder.session_data) == list(holder.time_last_used) == ["here", "left", "page"]


def test_names_of_sessions_and_events_are_worth_nothing_to_others(keys: dict[str, str]) -> None:
    queued = {"event": SimpleNamespace(session_hash="")}

    async def echo(request: Request) -> JSONResponse:
        sent = await request.json() if request.method == "POST" else {}
        named = sent.get("session_hash", request.query_params.get("session_hash"))
        return JSONResponse({"event_id": "event", "session": named, "path": request.url.path})

    routes = [Route("/gradio_api/{path:path}", echo, methods=["GET", "POST"])]
    app = Starlette(routes=routes, middleware=[Middleware(Owned)])
    app.get_blocks = lambda: SimpleNamespace(_queue=SimpleNamespace(event_ids_to_events=queued))  # type: ignore[attr-defined]
    visitor: list[Account | None] = [None]

    async def of_visitor(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, ACCOUNT: visitor[0]}, receive, send)

    client = TestClient(of_visitor)
    ada, ben = (ACCOUNTS.find(keys[name]) for name in ("ada", "ben"))

    def asked(by: Account | None, method: str, path: str, **sent: Any) -> Any:
        visitor[0] = by
        answer = client.request(method, f"/gradio_api/{path}", **sent)
        return answer.json() if answer.status_code == 200 else answer.status_code

    known = asked(ada, "POST", "queue/join", json={"session_hash": "page"})["session"]
    assert known.startswith("page-")
    assert asked(ada, "GET", "queue/data?session_hash=page")["session"] == known
    assert asked(ada, "GET", "heartbeat/page")["path"] == f"/gradio_api/heartbeat/{known}"
    for other in (ben, None):
        assert asked(other, "POST", "queue/join", json={"session_hash": "page"}) == 401
        assert asked(other, "GET", "queue/data?session_hash=page&session_hash=page")["session"] != known
        assert known not in asked(other, "GET", "heartbeat/page")["path"]
    queued["event"].session_hash = known
    cancelled = {"event_id": "event", "fn_index": 0}
    assert asked(ada, "POST", "cancel", json={**cancelled, "session_hash": "page"})["session"] == known
    assert asked(ben, "POST", "cancel", json={**cancelled, "session_hash": "other"}) == 404
    assert asked(None, "POST", "cancel", json={**cancelled, "session_hash": "third"}) == 404
    for path in ("call/info", "call/v2/info"):
        event = asked(ada, "POST", path, json={"data": []})["event_id"]
        assert asked(ada, "GET", f"{path}/{event}")["path"] == f"/gradio_api/{path}/event"
        assert [asked(one, "GET", f"{path}/{name}") for one in (ben, None) for name in (event, "event")] == [404] * 4
        assert asked(ada, "GET", f"{path}/ä{event}") == 404
        assert asked(ada, "GET", f"{path}/event") == 404, "a name that a page got is not that of a program"
    for body in (b"{", b"[]", b'{"session_hash": 1}', b"\xff"):
        visitor[0] = ada
        with suppress(ValueError, AttributeError):  # of the echo
            assert client.post("/gradio_api/queue/join", content=body).status_code != 401


# --- what the machine has ---------------------------------------------------------------------------------------------


def test_a_visitor_gets_nothing_from_the_caches_of_this_machines_user(
    models: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Path(snapshot_download("lab/secret-a", token=ADA))
    commit = there.name
    assert hpe.extract(f"lab/secret-a@{commit}").position.table.shape == (64, 32), "the control: it is in the cache"
    for text in (f"lab/secret-a@{commit}", "lab/secret-a"):
        with pytest.raises(RefusedError):
            hpe.extract(text, token=Visitor(BEN, tmp_path / "ben"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hpe.extract("lab/secret-a").position.table.shape == (64, 32), "the control: offline as well"
    with pytest.raises(OfflineError):
        hpe.extract("lab/secret-a", token=Visitor(BEN, tmp_path / "ben"))


def test_a_pickled_model_carries_no_token(models: FakeHub, tmp_path: Path) -> None:
    found = hpe.extract("lab/secret-a", token=Visitor(ADA, tmp_path / "ada"))
    _ = found.position.table.vectors
    sent_on = pickle.dumps(found)
    assert ADA.encode() not in sent_on
    with pytest.raises(RefusedError):
        _ = pickle.loads(sent_on).token.vectors


def test_a_child_gets_the_token_through_its_pipe_alone(
    models: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_tokenOfThisMachine")
    work = partial(measuring.pca, public=True)
    mine = partial(on_behalf, Visitor(ADA, tmp_path / "ada"), work)
    with Job(mine, "lab/secret-a", "position", 2, reports=True, sealed=True) as job:
        shown = [Path(f"/proc/{job.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        assert job.result().coordinates.shape == (64, 2)
    assert not any(token in text for text in shown for token in (ADA.encode(), b"hf_tokenOfThisMachine"))
    others = partial(on_behalf, Visitor(BEN, tmp_path / "ben"), work)
    refused = pytest.raises(HfposembError, match="not a public model")
    with Job(others, "lab/secret-a", "position", 2, reports=True, sealed=True) as job, refused:
        job.result()
    assert not list(Path(os.environ["HFPOSEMB_CACHE"]).rglob("*.entry"))


def test_reports_of_bugs_do_not_show_a_token() -> None:
    assert redacted(f"{ADA} and hf_hub_download", {}) == "hf_*** and hf_hub_download"
