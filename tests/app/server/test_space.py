"""``hfposemb space`` against the fake Hub: what is uploaded, what is refused, and in which words."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hfposemb.app import limits

from hfposemb import __version__
from hfposemb.cli import space
from hfposemb.cli.main import main
from hfposemb.cli.serving import publish_static
from hfposemb.errors import HubError, InputError, OfflineError
from tests.hub import FakeHub
from tests.support.installing import ROOT, tracked

TOKEN = "hf_tokenThatMayWrite"
SMALL = {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": b"\0" * 8}

SCRIPT = "app/static/app.js"


@pytest.fixture
def mine(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """The Hub, where this user may write to "owner"."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.let_write(TOKEN, "owner")
    yield hub
    # nothing but the user's own token, and only where the user's own things are written
    sent = {seen.headers.get("authorization") for seen in hub.requests if seen.path.startswith("/api/models/")}
    assert sent <= {None}


def card(files: dict[str, bytes]) -> dict[str, object]:
    """Return the front matter of a README."""
    return yaml.safe_load(files["README.md"].decode().split("---\n")[1])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command, which fails; return its one line."""
    assert main(["space", *arguments]) == 1
    said = capsys.readouterr()
    assert not said.out
    (line,) = said.err.splitlines()
    return line.removeprefix("hfposemb: ")


def test_clone_and_space_are_run_alike() -> None:
    assert space.front_matter() == (ROOT / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    assert space.requirements() == (ROOT / "requirements.txt").read_text(encoding="utf-8")
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert oldest == f">={space.PYTHON}"


def test_space_holds_what_a_clone_does() -> None:
    files = space.space_files()
    code = {name for name in tracked() if name.startswith(("app/", "hfposemb/")) and not name.endswith(".map")}
    assert {name for name in files if "/" in name} == code
    assert all(
        isinstance(files[name], Path) and files[name].read_bytes() == (ROOT / name).read_bytes() for name in code
    )
    assert set(files) - code == {"README.md", "requirements.txt", "LICENSE"}
    assert files["LICENSE"] == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_creates_a_space_and_prints_its_address(mine: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", "owner/name"]) == 0
    assert capsys.readouterr().out == f"{mine.endpoint}/spaces/owner/name\n"
    held = mine.content("spaces/owner/name")
    expected = space.space_files(name="owner/name")
    for name, content in expected.items():
        assert held[name] == (content.read_bytes() if isinstance(content, Path) else content.encode()), name
    assert set(held) - set(expected) == {".gitattributes"}
    assert card(held)["sdk_version"] == space.GRADIO
    assert not any(line.startswith(b"gradio") for line in held["requirements.txt"].splitlines())
    assert card(held)["thumbnail"] == f"{mine.endpoint}/spaces/owner/name/resolve/main/app/static/preview.png"
    assert "app/static/preview.png" in held
    assert "mcp-server" in card(held)["tags"]
    assert card(held)["suggested_hardware"] == "cpu-basic"
    assert card(held)["python_version"] == "3.11"
    assert "models" not in card(held)
    assert f"Version {__version__}" in held["README.md"].decode()


def test_models_open_first(mine: FakeHub, tmp_path: Path) -> None:
    mine.add("owner/model", SMALL)
    commit = mine.add("owner/other", {**SMALL, "tokenizer.json": None, "vocab.txt": "a"}, branch="v2")
    mine.rename("gpt2", "owner/model")
    models = ["gpt2", "owner/other@v2", "sample:bert", "sinusoidal:64x32?base=100"]
    space.publish("owner/name", models=models)
    held = mine.content("spaces/owner/name")
    assert card(held)["models"] == ["owner/model", "owner/other"]
    assert card(held)["preload_from_hub"] == [
        "owner/model config.json,tokenizer.json",
        f"owner/other config.json,vocab.txt {commit}",
    ]
    (tmp_path / space.SOURCES).write_bytes(held[space.SOURCES])
    assert space.first_sources(tmp_path) == tuple(models)


def test_sources_are_one_a_line_for_whoever_edits_them(tmp_path: Path) -> None:
    assert space.first_sources(tmp_path) == ()
    (tmp_path / space.SOURCES).write_text("# what to show\n\n  gpt2  \r\nsample:bert", encoding="utf-8")
    assert space.first_sources(tmp_path) == ("gpt2", "sample:bert")


def test_updates_what_is_there(mine: FakeHub) -> None:
    space.publish("owner/name", models=["sample:gpt2"])
    mine.add("spaces/owner/name", {"hfposemb/gone.py": "", SCRIPT: "old", "mine.txt": "kept"})
    before = len(mine.requests)
    space.publish("owner/name")
    held = mine.content("spaces/owner/name")
    assert held["mine.txt"] == b"kept"
    assert held[SCRIPT] == (ROOT / SCRIPT).read_bytes()
    assert not {"hfposemb/gone.py", space.SOURCES} & set(held)
    assert not [seen for seen in mine.requests[before:] if seen.method == "PUT"], "large files are sent once"


def test_private_space_is_created_private(mine: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", "owner/name", "--private"]) == 0
    assert mine._repos["spaces/owner/name"].private
    assert main(["space", "owner/name", "--private"]) == 0, "and may be updated"
    assert main(["space", "owner/open"]) == 0
    capsys.readouterr()
    assert "exists and is public" in refused(capsys, "owner/open", "--private")


def test_dry_run_says_all_and_needs_no_login(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add("owner/model", SMALL)
    assert main(["space", "owner/name", "--models", "owner/model, sample:bert", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"owner/name would have {len(space.space_files(['x']))} files, ")
    assert '- "owner/model config.json,tokenizer.json"' in said
    assert "app/space.py" in said
    assert {seen.method for seen in hub.requests} == {"GET"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("name", "has no owner; write OWNER/NAME"),
        ("owner/name/more", "is not a valid Space name"),
        ("owner/", "is not a valid Space name"),
        ("owner/na me", "is not a valid Space name"),
        ("../name", "is not a valid Space name"),
    ],
)
def test_names_are_checked_first(name: str, said: str, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, name)
    assert not hub.requests


def test_without_a_token_and_with_one_that_the_hub_does_not_know(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "owner/name").startswith("you are not logged in: run `hf auth login`, or set HF_TOKEN")
    assert not hub.requests
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    assert "rejected the token" in refused(capsys, "owner/name")


def test_owner_that_is_somebody_else(mine: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert "your token has no write access to somebody" in refused(capsys, "somebody/name")
    mine.add("spaces/somebody/name", {"app/space.py": ""}, sdk="gradio")
    assert "your token has no write access to somebody" in refused(capsys, "somebody/name"), "where it exists, too"


@pytest.mark.parametrize(
    ("files", "sdk", "said"),
    [
        (
            {"Dockerfile": ""},
            "docker",
            "is a Space with the SDK 'docker', but this app needs 'gradio'; choose another name",
        ),
        ({"app.py": ""}, "gradio", "runs another app, which would be overwritten; choose another name"),
    ],
)
def test_other_spaces_are_left_alone(
    files: dict[str, str], sdk: str, said: str, mine: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.add("spaces/owner/name", {"README.md": "theirs", **files}, sdk=sdk)
    assert said in refused(capsys, "owner/name")
    assert mine.content("spaces/owner/name")["README.md"] == b"theirs"


def test_space_that_was_made_by_hand_is_filled(mine: FakeHub) -> None:
    mine.add("spaces/owner/name", {"README.md": "---\nsdk: gradio\n---\n", ".gitattributes": ""}, sdk="gradio")
    mine.grant(TOKEN, {"spaces/owner/name"})
    space.publish("owner/name")
    assert "app/space.py" in mine.content("spaces/owner/name")


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["./folder"], "is a local path, which a Space cannot read"),
        (["owner/absent"], "not a public model on the Hub"),
        (["owner/private"], "not a public model on the Hub"),
        (["owner/gated"], "is gated"),
        (["owner/model@nowhere"], "has no revision 'nowhere'"),
        (["sinusoidal:64"], "sinusoidal:"),
        ([f"random:8x{width}" for width in range(8, 9 + limits.MOST_SOURCES)], "models given; the app shows at most"),
    ],
)
def test_models_that_a_space_cannot_open(
    models: list[str], said: str, mine: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.add("owner/model", SMALL)
    mine.add("owner/private", SMALL, private=True)
    mine.add("owner/gated", SMALL, gated=True)
    mine.grant(TOKEN, {"owner/private", "owner/gated"})
    assert said in refused(capsys, "owner/name", "--models", ",".join(models))
    assert "spaces/owner/name" not in mine._repos


@pytest.mark.parametrize(
    ("code", "path", "said"),
    [
        (402, "repos/create", "requires a paid plan to run owner/name: fault 402"),
        (500, "repos/create", "status 500: fault 500"),
        (403, "/commit/", "no write access to owner"),
        (400, "validate-yaml", "was interrupted"),
    ],
)
def test_refusals_are_one_line(
    code: int, path: str, said: str, mine: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.fault(
        "status", code=404, error_code="RepoNotFound", method="GET", path=r"/api/spaces/owner/name(\?|$)", times=None
    )
    mine.fault("status", code=code, path=path)
    assert said in refused(capsys, "owner/name")


def test_upload_that_breaks_off_goes_on_when_it_is_run_again(mine: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    with mine.fault("reset", path="/commit/"):
        assert "cannot be reached" in refused(capsys, "owner/name")
    assert main(["space", "owner/name"]) == 0
    assert "app/space.py" in mine.content("spaces/owner/name")


def test_errors_are_of_their_kind(mine: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError):
        space.publish("name")
    with pytest.raises(HubError):
        space.publish("somebody/name")
    with mine.fault("reset", times=None):
        assert refused(capsys, "owner/name") == "the Hub cannot be reached; check the network and try again"
    mine.fault("hangup", times=None)
    with pytest.raises(OfflineError):
        space.publish("owner/name")


# --- persistent storage -----------------------------------------------------------------------------------------------


def test_cache_is_on_the_persistent_storage_where_there_is_one(tmp_path: Path) -> None:
    assert space.persistent_cache(tmp_path) == tmp_path / "hfposemb"
    assert space.persistent_cache(tmp_path / "absent") is None
    (tmp_path / "file").touch()
    assert space.persistent_cache(tmp_path / "file") is None


# --- a report ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two small sources."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["compare", "sinusoidal:16x8", "random:16x8", "--draws", "0", "--out", str(file)]) == 0
    return file


def test_report_becomes_a_static_space(mine: FakeHub, report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", "owner/report", "--static", str(report)]) == 0
    assert capsys.readouterr().out.endswith(f"{mine.endpoint}/spaces/owner/report\n")
    assert mine._repos["spaces/owner/report"].info["sdk"] == "static"
    held = mine.content("spaces/owner/report")
    assert set(held) == {".gitattributes", "README.md", "hfposemb.json", "index.html"}
    assert held["index.html"] == report.read_bytes()
    assert (card(held)["sdk"], card(held)["app_file"]) == ("static", "index.html")
    title = str(card(held)["title"])
    assert f"<title>{title}</title>" in report.read_text(encoding="utf-8")
    assert json.loads(held["hfposemb.json"]) == {"version": __version__, "title": title}


def test_report_replaces_a_report(mine: FakeHub, report: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "parts").mkdir(parents=True)
    (site / "index.html").write_text("<!doctype html><html><title>Two &amp; more</title>")
    (site / "parts" / "data.json").write_text("{}")
    (site / ".hidden").write_text("secret")
    (site / "link").symlink_to(report)
    publish_static("owner/report", site)
    held = mine.content("spaces/owner/report")
    assert set(held) == {".gitattributes", "README.md", "hfposemb.json", "index.html", "parts/data.json"}
    publish_static("owner/report", report)
    held = mine.content("spaces/owner/report")
    assert "parts/data.json" not in held
    assert held["index.html"] == report.read_bytes()


def test_report_fills_the_space_that_the_hub_just_made(mine: FakeHub, report: Path) -> None:
    example = "<!doctype html><html><h1>Welcome to your static Space!</h1></html>"
    mine.add("spaces/owner/report", {"index.html": example, "style.css": "", "README.md": ""}, sdk="static")
    mine.grant(TOKEN, {"spaces/owner/report"})
    publish_static("owner/report", report)
    assert mine.content("spaces/owner/report")["index.html"] == report.read_bytes()


@pytest.mark.parametrize(
    ("files", "sdk", "said"),
    [
        (
            {"index.html": "<html>mine</html>", "style.css": ""},
            "static",
            "has another page, which would be overwritten",
        ),
        ({"index.html": "<html>mine</html>"}, "static", "has another page, which would be overwritten"),
        ({"app/space.py": ""}, "gradio", "is a Space with the SDK 'gradio', but a report needs 'static'"),
    ],
)
def test_report_leaves_other_spaces_alone(
    files: dict[str, str], sdk: str, said: str, mine: FakeHub, report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.add("spaces/owner/name", {"README.md": "theirs", **files}, sdk=sdk)
    mine.grant(TOKEN, {"spaces/owner/name"})
    assert said in refused(capsys, "owner/name", "--static", str(report))
    assert mine.content("spaces/owner/name")["README.md"] == b"theirs"


def test_what_is_no_report_is_not_uploaded(
    hub: FakeHub, report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("text.html", b"plain"), ("bytes.html", b"<html>\xff\xfe")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "empty").mkdir()
    for given, said in (
        ("absent.html", "No such file or directory; give the .html file that `hfposemb compare --out` wrote"),
        ("empty", "index.html: No such file or directory"),
        ("text.html", "is not an HTML page; write one with: hfposemb compare"),
        ("bytes.html", "it is not text in UTF-8"),
    ):
        assert said in refused(capsys, "owner/name", "--static", str(tmp_path / given))
    assert "not both" in refused(capsys, "owner/name", "--static", str(report), "--models", "sample:bert")
    monkeypatch.setattr("hfposemb.cli.serving.LARGEST", 10)
    assert "more than 1,000 files or 0 MB" in refused(capsys, "owner/name", "--static", str(report))
    assert not hub.requests


def test_dry_run_of_a_report(hub: FakeHub, report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", "owner/name", "--static", str(report), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("owner/name would have 3 files, ")
    assert "sdk: static" in said
    assert not hub.requests
