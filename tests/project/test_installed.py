"""The package where it is not checked out: built, installed elsewhere, run as a Space, and as a clone of itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

import hfposemb as hpe
from tests.hub.session import HUB
from tests.project.conftest import PINNED
from tests.support.app.serving import Visitor
from tests.support.installing import clone, environment, install, run, serving, space

TOKEN = "hf_tokenThatMayWrite"


def test_bare_environment_is_bare(bare: Path, tmp_path: Path) -> None:
    for name in ("hfposemb", "torch", "transformers", "pytest"):
        assert f"No module named '{name}'" in run(bare, "-c", f"import {name}", cwd=tmp_path).stderr


def test_commands_run_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    command = str(installed.parent / "hfposemb")
    for start in ((command,), ("-m", "hfposemb")):
        assert run(installed, *start, "--version", cwd=tmp_path).stdout == f"hfposemb {hpe.__version__}\n"
    facts = json.loads(run(installed, command, "info", "sample:gpt2", "--json", cwd=tmp_path).stdout)
    assert facts["tables"]["position"]["shape"] == [256, 128]
    assert "No module named 'app'" in run(installed, "-c", "import app", cwd=tmp_path).stderr
    seen = run(installed, "-c", "import hfposemb; print(hfposemb.__file__)", cwd=tmp_path).stdout
    assert str(installed.parent.parent) in seen


def test_without_the_extra_app_there_is_the_rest(built: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "plain", PINNED)
    (wheel,) = built.glob("*.whl")
    install(python, wheel)
    missing = run(python, "-m", "hfposemb", "app", cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr == "hfposemb: the app needs the package gradio: pip install 'hfposemb[app]'\n"
    assert "sample:bert" in run(python, "-m", "hfposemb", "info", "sample:bert", cwd=tmp_path).stdout
    assert "app/space.py" in run(python, "-m", "hfposemb", "space", "owner/name", "--dry-run", cwd=tmp_path).stdout


def test_clone_that_is_not_installed_says_so(bare: Path, tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    assert "sample:bert" in run(bare, "-m", "hfposemb", "info", "sample:bert", cwd=folder).stdout
    for arguments in (("app",), ("space", "owner/name", "--dry-run")):
        said = run(bare, "-m", "hfposemb", *arguments, cwd=folder)
        assert said.stderr == "hfposemb: the app is not installed; in a clone: pip install -e '.[app]'\n"
        assert said.returncode == 1


@pytest.fixture
def model(minilm_folder: Path) -> Iterator[str]:
    """A public model of the Hub, whose writer this machine is, too."""
    HUB.reset()
    HUB.let_write(TOKEN, "owner")
    files = ("config.json", "tokenizer.json", "model.safetensors")
    HUB.add("owner/model", {name: minilm_folder / name for name in files})
    yield "owner/model"
    HUB.reset()


def first_choice(page: Visitor) -> object:
    """Return what the field of sources holds when a page is opened."""
    return page.values[page.find(lambda one: "sources" in (one.get("elem_classes") or ()))]


def download(name: str, folder: Path) -> Path:
    """Write what a Space holds into a folder, as the Hub does before it runs it."""
    for path, content in HUB.content(f"spaces/{name}").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_app_opens_with_the_sources_of_its_command(installed: Path, tmp_path: Path) -> None:
    sources = ["random:32x8", "sinusoidal:32x8"]
    (tmp_path / "here").mkdir()
    with serving(
        installed, "-m", "hfposemb", "app", *sources, "--no-open", "--port", "PORT", cwd=tmp_path / "here"
    ) as app:
        page = Visitor(app.url)
        assert first_choice(page) == sources
        page.close()


def test_installed_package_makes_a_space_that_runs(installed: Path, bare: Path, model: str, tmp_path: Path) -> None:
    arguments = ("-m", "hfposemb", "space", "owner/name", "--models", f"{model},sample:gpt2")
    made = run(installed, *arguments, cwd=tmp_path, HF_TOKEN=TOKEN)
    assert made.stdout == f"{HUB.endpoint}/spaces/owner/name\n", made.stderr
    folder = download("owner/name", tmp_path / "space")
    before = len(HUB.requests)
    secret = {"HF_TOKEN": TOKEN, "HFPOSEMB_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "home")}
    with space(bare, folder, **secret) as app:
        page = Visitor(app.url)
        assert first_choice(page) == [model, "sample:gpt2"]
        page.show("Positions")
        commit = HUB._repos[model].refs["main"]
        assert f"commit {commit[:8]}" in json.dumps(page.values), "it is read, and the foot says what"
        assert "alert" not in json.dumps(page.values)
        page.close()
        with urlopen(app.url, timeout=60) as answer:
            assert "hfposemb" in answer.read().decode()
        with urlopen(f"{app.url}/gradio_api/mcp/schema", timeout=60) as answer:
            assert [tool["name"] for tool in json.load(answer)][:2] == ["hfposemb_info", "hfposemb_search"]
        assert "Traceback" not in app.said
    asked = HUB.requests[before:]
    assert asked, "the model is read"
    assert all("authorization" not in seen.headers for seen in asked), "what a Space has no need of is not used"


def test_clone_runs_as_it_is(bare: Path, tmp_path: Path) -> None:
    HUB.reset()
    HUB.let_write(TOKEN, "owner")
    hf = str(Path(sys.executable).parent / "hf")
    upload = (hf, "upload", "owner/clone", ".", ".", "--repo-type", "space")
    done = run(Path(sys.executable), *upload, cwd=clone(tmp_path / "clone"), HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    folder = download("owner/clone", tmp_path / "space")
    with space(bare, folder, HFPOSEMB_CACHE=str(tmp_path / "cache")) as app:
        page = Visitor(app.url)
        assert first_choice(page) == ["sample:minilm", "sample:gpt2", "sinusoidal:512x384"]
        page.show("Tokens")
        # a child process computes this, which must find the packages where nothing is installed
        page.values[page.labelled("Regex")] = True
        page.act(page.labelled("Word, part of a word, or id"), "submit", "^kin.$")
        assert "kind" in json.dumps(page.heard[-4:])
        page.close()
        assert "Traceback" not in app.said
    assert not list((folder / "app").rglob("*.pyi"))
