"""Which mode a launch is in, where it listens, who may log in, and whether a browser opens."""

from __future__ import annotations

import io
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import httpx
import psutil
import pytest
from hfposemb.app.server import reach as reaching
from hfposemb.app.server.reach import (
    check_sources,
    credentials,
    free_port,
    has_a_browser,
    is_loopback,
    listening,
    reach,
)
from hfposemb.app.server.route_allowlist import _refused

from hfposemb import app
from hfposemb.cli.main import main
from hfposemb.errors import HfposembError, InputError
from tests.support.app.models import WORDS, checkpoint
from tests.support.app.serving import REFUSAL, Visitor, alerts, called, serving
from tests.support.processes.waiting import until, unused_port

VARIABLES = ("GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT", "GRADIO_SHARE", "SPACE_ID", "HFPOSEMB_AUTH", "CI", "BROWSER")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the variables of this shell decide nothing."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


# --- the mode ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost", " 127.0.0.1 "])
def test_loopback_is_this_machine_alone(host: str) -> None:
    assert is_loopback(host)
    assert not reach(host, None, None).public


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "::", "[::]", "192.168.1.5", "10.0.0.1", "fe80::1", "my-machine", "localhost.example"),
        *("127.0.0.1.x", "0", "127.1", "2130706433", "0x7f000001", "*"),
    ],
)
def test_every_other_address_means_public_mode(host: str) -> None:
    found = reach(host, None, None)
    assert found.public
    assert host in found.sentence
    assert reach(host, None, False).public is False


def test_what_is_not_given_is_looked_up_as_gradio_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reach(None, None, None) == reach("", None, None) == reaching.Reach("127.0.0.1", False, False)
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    assert reach(None, None, None).public
    assert reach("", None, None).public
    assert reach("", None, None).host == "0.0.0.0"
    assert not reach("127.0.0.1", None, None).public
    monkeypatch.delenv("GRADIO_SERVER_NAME")
    monkeypatch.setenv("GRADIO_SHARE", "True")
    assert reach(None, None, None) == reach(None, True, None)
    assert reach(None, None, None).public
    assert not reach(None, False, None).public
    monkeypatch.setenv("SPACE_ID", "owner/space")
    assert reach(None, False, None).public


@pytest.mark.parametrize(
    ("host", "share", "public", "said"),
    [
        (None, None, None, "Local mode: only this machine can reach the app, which can open its files."),
        ("0.0.0.0", None, None, r"Public mode: visitors .* not files on this machine, because 0\.0\.0\.0 .*--trusted"),
        (None, True, None, "Public mode: .* because anyone with a share link .*--trusted"),
        (None, None, True, "Public mode: .* not files on this machine .*--trusted"),
        ("0.0.0.0", None, False, r"Trusted mode: anyone who can reach 0\.0\.0\.0 can open every file"),
        (None, True, False, "Trusted mode: anyone who has the share link can open every file"),
    ],
)
def test_one_line_says_which_mode_it_is(host: str | None, share: bool | None, public: bool | None, said: str) -> None:
    sentence = reach(host, share, public).sentence
    assert "\n" not in sentence
    assert re.match(said, sentence), sentence


def outside() -> str:
    """Return an address of this machine that others could use."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not is_loopback(one.address):
                return one.address
    pytest.skip("this machine has no address but loopback")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint in it."""
    found = tmp_path_factory.mktemp("private")
    checkpoint(found / "model", WORDS)
    (found / "logins").write_text("ada:lovelace:1815\n\nalan:turing\n")
    return found


LOGIN = ("ada", "lovelace:1815")


class Commanded(NamedTuple):
    """An app that the command started: its address on the network, and what was printed."""

    url: str
    said: str


@contextmanager
def commanded(*arguments: str) -> Iterator[Commanded]:
    """Start the app in this process as the command does."""
    launch, started = app.launch, []
    here = {"warm": False, "prevent_thread_lock": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "launch", lambda *given, **options: started.append(launch(*given, **options | here)))
        with redirect_stdout(io.StringIO()) as printed:
            assert main(["app", "--no-open", *arguments]) == 0
    (blocks,) = started
    try:
        yield Commanded(f"http://{outside()}:{blocks.server_port}", printed.getvalue())
    finally:
        blocks.close(verbose=False)


@pytest.fixture(scope="module")
def strangers(folder: Path) -> Iterator[Commanded]:
    """The app on this machine's own address, with a password."""
    with commanded("--host", outside(), "--auth", f"@{folder / 'logins'}", "sinusoidal:8x4") as served:
        yield served


def test_neighbour_on_the_network_opens_no_file(strangers: Commanded, folder: Path) -> None:
    page = Visitor(strangers.url, login=LOGIN)
    page.choose(["sinusoidal:8x4", str(folder / "model")])
    assert alerts(page) == {REFUSAL}
    for endpoint, data in (("info", ["SOURCE"]), ("neighbours", ["SOURCE", "king", 3, "cosine", "", False])):
        sent = [str(folder / "model") if one == "SOURCE" else one for one in data]
        answer = called(page.client, endpoint, *sent)
        assert answer.startswith("event: error"), answer
        assert REFUSAL in answer
    for path in (folder / "model" / "config.json", "/etc/passwd"):
        assert page.client.get(f"/gradio_api/file={path}").status_code == 403
    assert page.client.post("/gradio_api/upload", files={"files": ("x", b"x")}).status_code == 403
    page.close()
    assert "Public mode: visitors can open Hub models and built-ins, not files on this machine" in strangers.said


def test_password_stands_before_everything(strangers: Commanded) -> None:
    with httpx.Client(base_url=strangers.url) as client:
        for path in ("/config", "/gradio_api/info", "/gradio_api/openapi.json"):
            assert client.get(path).status_code == 401, path
        assert client.get("/gradio_api/file=/etc/passwd").status_code == 403
        assert client.post("/gradio_api/call/info", json={"data": ["sample:bert"]}).status_code == 401
        assert client.post("/gradio_api/queue/join", json={"data": [], "fn_index": 0}).status_code == 401
        wrong = client.post("/login", data={"username": "ada", "password": "byron"})
        assert wrong.status_code == 400
        assert client.get("/config").status_code == 401
    for login in (LOGIN, ("alan", "turing")):
        Visitor(strangers.url, login=login).close()


def test_trusted_app_opens_files_for_whoever_reaches_it(folder: Path) -> None:
    source = str(folder / "model")
    with commanded("--host", "0.0.0.0", "--trusted", source, "sinusoidal:8x4") as served:
        page = Visitor(served.url)
        assert not alerts(page)
        answer = called(page.client, "info", source)
        assert answer.startswith("event: complete"), answer
        assert "13" in answer
        page.close()
    assert "Trusted mode: anyone who can reach 0.0.0.0 can open every file on this machine" in served.said


@pytest.mark.parametrize(
    ("options", "variables", "host"),
    [
        ({"share": True}, {}, "127.0.0.1"),
        ({}, {"GRADIO_SHARE": "true", "GRADIO_SERVER_NAME": "127.0.0.1"}, "127.0.0.1"),
        ({"host": "ADDRESS"}, {"GRADIO_SERVER_NAME": "127.0.0.1"}, "ADDRESS"),
    ],
)
def test_whoever_comes_from_elsewhere_is_a_stranger(
    options: dict[str, Any],
    variables: dict[str, str],
    host: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The tunnel is a program of Gradio's and a server of theirs.
    monkeypatch.setattr("gradio.networking.setup_tunnel", lambda **_: "https://someone.example")
    for name, value in variables.items():
        monkeypatch.setenv(name, outside() if value == "ADDRESS" else value)
    given = {name: outside() if value == "ADDRESS" else value for name, value in options.items()}
    shared = host != "ADDRESS"
    given["port"] = unused_port(outside())  # another worker's server may have the usual one
    blocks = app.launch(("sinusoidal:8x4",), warm=False, prevent_thread_lock=True, **given)
    try:
        assert blocks.share_url == ("https://someone.example" if shared else None)
        page = Visitor(f"http://{outside() if host == 'ADDRESS' else host}:{blocks.server_port}")
        page.choose(["sinusoidal:8x4", str(folder / "model")])
        assert alerts(page) == {REFUSAL}
        assert page.client.get(f"/gradio_api/file={folder / 'model' / 'config.json'}").status_code == 403
        assert page.client.post("/gradio_api/upload", files={"files": ("x", b"x")}).status_code == 403
        page.close()
        if not shared:
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"http://127.0.0.1:{blocks.server_port}")
    finally:
        blocks.close(verbose=False)
    assert "Public mode: visitors can open Hub models" in capsys.readouterr().out


def test_files_that_gradio_would_serve_are_refused_in_public_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_ALLOWED_PATHS", "/etc")
    with pytest.raises(InputError, match="GRADIO_ALLOWED_PATHS"):
        app.launch(("sinusoidal:8x4",), public=True, warm=False, prevent_thread_lock=True, quiet=True)


def test_options_that_launch_sets_are_named() -> None:
    with pytest.raises(InputError, match="launch sets server_name, server_port itself"):
        app.launch(server_name="0.0.0.0", server_port=1)


# --- the port ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_without_a_port_the_next_free_one_is_taken(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_SERVER_PORT", str(taken))
    assert free_port("127.0.0.1", None) > taken
    assert free_port("0.0.0.0", None) > taken
    assert free_port(outside(), None) > taken  # Gradio refuses what is taken on its own address
    with pytest.raises(HfposembError, match=rf"port {taken} of 127\.0\.0\.1 is in use"):
        free_port(outside(), taken)


def test_a_port_that_another_server_takes_meanwhile_is_left_to_it() -> None:
    """Two apps that start at once, each of which has found the same port free."""
    tried: list[int] = []
    with socket.socket() as other:

        def start(*, server_port: int) -> None:
            tried.append(server_port)
            if len(tried) == 1:
                other.bind(("127.0.0.1", server_port))
                other.listen()
                raise OSError("address in use")

        listening(start, "127.0.0.1", None)
        assert len(tried) == 2
        assert tried[0] < tried[1]
        with pytest.raises(HfposembError, match=f"port {tried[0]} of 127.0.0.1 is in use"):
            listening(start, "127.0.0.1", tried[0])

    def broken(*, server_port: int) -> None:
        raise OSError("no memory")

    with pytest.raises(HfposembError, match=r"cannot listen on 127\.0\.0\.1:\d+ \(no memory\); choose another port"):
        listening(broken, "127.0.0.1", None)


def test_port_that_is_taken_is_said_with_what_to_do(taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", "--no-open", "--port", str(taken)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"hfposemb: port {taken} of 127.0.0.1 is in use; choose another port, or omit it to use the next free one\n"
    )


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "7860.5", "99999999"])
def test_wrong_port_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["app", f"--port={port}"])
    assert stopped.value.code == 2
    assert "give a number from 1 to 65535" in capsys.readouterr().err


def test_wrong_addresses_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="from 1 to 65535; got 0"):
        free_port("127.0.0.1", 0)
    with pytest.raises(HfposembError, match="not an address of this machine"):
        free_port("203.0.113.7", None)
    with pytest.raises(HfposembError, match="unknown host"):
        free_port("no host", None)
    monkeypatch.setenv("GRADIO_SERVER_PORT", "http")
    with pytest.raises(InputError, match="GRADIO_SERVER_PORT must be a number"):
        free_port("127.0.0.1", None)


# --- what is shown first ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["./nowhere"], "./nowhere does not exist; give a folder with a checkpoint or a .safetensors file"),
        (["nonsense:"], "unknown prefix 'nonsense'"),
        (["two words"], "'two words' is not a source"),
        ([".", "--public"], ". is on this machine, and public mode opens no files; use --trusted"),
        ([".", "--host", "0.0.0.0"], ". is on this machine, and public mode opens no files; use --trusted"),
        (["--auth", "ada"], "expected a login as USER:PASSWORD"),
        (["--auth", "ada:x", "--mcp"], "an MCP server does not support a password"),
    ],
)
def test_what_cannot_be_is_said_at_once(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", "--no-open", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(f"hfposemb: {said}")
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_sources_of_a_page_are_checked_without_the_network() -> None:
    check_sources(["owner/name", "sample:bert", "sinusoidal:8x4", "."], public=False)


# --- who may come in --------------------------------------------------------------------------------------------------


def test_logins_are_read_from_text_and_file(tmp_path: Path) -> None:
    assert credentials("ada:love:lace") == [("ada", "love:lace")]
    file = tmp_path / "logins"
    file.write_text("ada:love\n\n alan : turing \n")
    assert credentials(f"@{file}") == [("ada", "love"), ("alan", " turing")]
    for wrong in ("ada", ":x", "ada:", " :x", "@"):
        with pytest.raises(InputError) as raised:
            credentials(wrong)
        assert wrong == "@" or wrong not in str(raised.value), "what may be a password is not repeated"
    file.write_text("\n")
    with pytest.raises(InputError, match="has no login"):
        credentials(f"@{file}")
    file.write_text("secret-canary\n")
    with pytest.raises(InputError, match="every line of") as raised:
        credentials(f"@{file}")
    assert "secret-canary" not in str(raised.value)
    file.write_text("ada:love\n" * 10_000)
    with pytest.raises(InputError, match="has more than 65,536 characters; list fewer logins"):
        credentials(f"@{file}")


def test_login_of_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFPOSEMB_AUTH", "ada:love")
    assert app._login(None, mcp=False) == [("ada", "love")]
    assert app._login("alan:turing", mcp=False) == [("alan", "turing")]
    monkeypatch.setenv("HFPOSEMB_AUTH", "")
    assert app._login(None, mcp=True) is None


def test_doors_to_a_login_are_open_only_where_there_is_one() -> None:
    for method, path in (("POST", "/login"), ("GET", "/logout"), ("GET", "/gradio_api/login_check")):
        asked = {"type": "http", "method": method, "path": path, "headers": [(b"content-length", b"9")]}
        assert _refused(asked) is not None
        assert _refused(asked, login=True) is None
    large = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"content-length", b"999999")]}
    assert _refused(large, login=True) is not None


# --- the browser ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "platform", "found"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "1 2 3 4"}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_TTY": "/dev/ttys0"}, "darwin", False),
        ({}, "win32", True),
    ],
)
def test_browser_opens_where_somebody_sees_it(environment: dict[str, str], platform: str, found: bool) -> None:
    assert has_a_browser(environment, platform) is found


@pytest.mark.skipif(os.name != "posix", reason="the browser is a script")
def test_browser_opens_when_the_page_is_there_and_nobody_waits_for_it(folder: Path, tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\nexec sleep 60\n')
    browser.chmod(0o755)
    clean = dict.fromkeys(("CI", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"), "")
    with serving(folder, arguments=("sinusoidal:8x4",), BROWSER=f"{browser} %s", **clean) as served:
        assert until(opened.exists, 120)
        assert until(lambda: opened.read_text().endswith("\n"))
        assert opened.read_text() == f"{served.url}/\n"
        Visitor(served.url).close()
        for child in psutil.Process(served.process.pid).children():
            child.kill()
        assert "Local mode: only this machine can reach the app" in served.said
        assert f"Running on {served.url}/; press Ctrl-C to stop." in served.said


def test_panel_outside_a_page_says_what_to_write() -> None:
    with pytest.raises(HfposembError, match=r"panel\(\) needs an open gr\.Blocks"):
        app.panel()
    with gr.Blocks():
        app.panel(sources=("sinusoidal:16x8",))
