"""What is published: the wheel and the sdist, what an index shows of them, and the programs that install them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata

import hfposemb as hpe
from tests.conftest import FULL
from tests.project.conftest import build
from tests.support.base_commands import REFUSED, RUNNER, RUNS
from tests.support.installing import ROOT, clone, run, tracked

in_full = pytest.mark.skipif(not FULL, reason="builds again, or installs from a package index; runs in make test-full")

BASE_MEGABYTES = 320
"""Most that the package and what it needs may take, installed without extras; pip itself apart."""


def metadata_of(wheel: Path) -> tuple[Message, bytes]:
    """Return the metadata of a wheel, parsed and as they are."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        raw = archive.read(name)
    return message_from_bytes(raw), raw


def is_source(name: str) -> bool:
    """Return whether a file is a module or a map of a script that pages get in one piece, from a ``bundle``."""
    return name.endswith((".map", ".d.ts")) or (name.endswith(".js") and "/bundle/" not in name)


def test_wheel_holds_the_tree(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = [name for name in tracked() if name.startswith(("hfposemb/", "app/")) and not is_source(name)]
    assert packed == {re.sub(r"^app/", "hfposemb/app/", name) for name in ours}


def test_sdist_holds_what_a_wheel_needs_and_no_tests(built: Path) -> None:
    """Tests need the tests' Hub, models and a browser: they are run from a clone."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    needed = {
        name for name in tracked() if name.startswith(("hfposemb/", "app/", ".ci/build")) and not name.endswith(".map")
    }
    beside = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in", "pyproject.toml"}
    assert {one for one in packed if ".egg-info/" not in one} == needed | beside | {
        "requirements.txt",
        "PKG-INFO",
        "setup.cfg",
    }


def test_files_are_named_by_the_version(built: Path) -> None:
    assert {path.name.split("-")[1].removesuffix(".tar.gz") for path in built.iterdir()} == {hpe.__version__}


@in_full
def test_a_second_build_has_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """In another folder, at another time, where files are writable by a group."""
    tree = clone(tmp_path / "elsewhere" / "clone")
    for path in [tree, *tree.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o020)
        os.utime(path, (1e9, 1e9))
    again = build(tmp_path / "dist", tree, umask=0o002)
    assert {one.name: one.read_bytes() for one in again.iterdir()} == {
        one.name: one.read_bytes() for one in built.iterdir()
    }


def test_metadata_are_valid_and_complete(wheel: Path) -> None:
    read, raw = metadata_of(wheel)
    assert Metadata.from_email(raw, validate=True).name == "hfposemb"
    links = dict(line.split(", ") for line in read.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Source", "Changelog", "Issues"} <= set(links)
    assert all(url.startswith("https://") for url in links.values())
    assert read["Author"]
    assert read["Maintainer"]
    assert read["License-Expression"] == "Apache-2.0"
    assert read["Description-Content-Type"] == "text/markdown"


def test_an_index_shows_the_readme_with_links_that_lead_somewhere(wheel: Path) -> None:
    read, _ = metadata_of(wheel)
    links = dict(line.split(", ") for line in read.get_all("Project-URL"))
    text = str(read.get_payload())
    assert text.startswith("# hfposemb\n"), "the front matter is for the Space"
    targets = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(targets) > 5
    for target in targets:
        assert re.match(r"https?://|#", target), target
        if target.startswith(links["Source"]):
            kind, revision, path = target.removeprefix(f"{links['Source']}/").split("/", 2)
            if (kind, revision) == ("actions", "workflows"):  # a badge: the state of a workflow
                assert (ROOT / ".github" / "workflows" / path.partition("/")[0]).exists(), target
                continue
            assert (kind, revision) == ("raw" if path.endswith(".png") else "blob", f"v{hpe.__version__}")
            assert (ROOT / path.partition("#")[0]).exists(), target


def test_only_relative_links_are_made_absolute() -> None:
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / ".ci" / "build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    given = "---\ntitle: x\n---\n\n# A\n[a](docs/a.md#b) [b](https://c.org) [c](#d) "
    given += '![e](./docs/e.png) <img src="f.svg">'
    made = backend.pypi_readme(given, "https://host/owner/name", "v1")
    assert made == (
        "# A\n[a](https://host/owner/name/blob/v1/docs/a.md#b) [b](https://c.org) [c](#d) "
        '![e](https://host/owner/name/raw/v1/docs/e.png) <img src="https://host/owner/name/raw/v1/f.svg">'
    )


def test_the_workflow_publishes_tags_only_and_what_it_has_built() -> None:
    """With trusted publishing: no token is stored, and one job alone may ask for one."""
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    assert flow[True] == {"push": {"tags": ["v*"]}}, "YAML reads the key `on` as true"
    jobs = flow["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["environment"]["name"] == "pypi"
    uses = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]]
    assert uses == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
    assert "secrets" not in json.dumps(flow)


# --- make test-full: from a package index, by the programs that users have --------------------------------------------


def from_index(folder: Path, *packages: str) -> Path:
    """Install packages from an index into an environment of their own; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


@in_full
def test_the_base_is_light_and_runs(wheel: Path, tmp_path: Path) -> None:
    python = from_index(tmp_path / "base", str(wheel))
    (packages,) = (tmp_path / "base").glob("lib/python*/site-packages")
    counted = [one for one in packages.iterdir() if not one.name.startswith(("pip", "setuptools", "pkg_resources"))]
    size = sum(path.stat().st_blocks * 512 for top in counted for path in ([top] if top.is_file() else top.rglob("*")))
    assert size <= BASE_MEGABYTES * 1e6, f"{size / 1e6:.0f} MB"
    lines = [line for line in RUNS if "owner/" not in line and "./" not in line] + [
        line for line in REFUSED if not line.startswith("app")
    ]
    done = run(python, "-c", RUNNER, json.dumps([line.split() for line in lines]), cwd=tmp_path)
    said = {line: (code, err) for line, (code, _, err) in zip(lines, json.loads(done.stdout), strict=True)}
    assert {line: one for line, one in said.items() if one[0] and line not in REFUSED} == {}
    assert {line: said[line][1] for line in REFUSED if line in said} == {
        line: f"hfposemb: {message}\n" for line, message in REFUSED.items() if line in said
    }


@in_full
def test_uvx_runs_the_wheel(wheel: Path, tmp_path: Path) -> None:
    uvx = from_index(tmp_path / "uv", "uv").parent / "uvx"
    there = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
    command = [str(uvx), "--python", sys.executable, "--from", str(wheel), "hfposemb", "info", "sample:minilm"]
    done = subprocess.run(command, env=there, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "30,522 × 384" in done.stdout


README_SCRIPT = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)


@in_full
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_accept_what_users_write(installed: Path, tmp_path: Path, checker: str) -> None:
    """The README's Python and ``tests/typed.py``, with the installed wheel, the app and all."""
    (tmp_path / "readme.py").write_text("\n".join(README_SCRIPT))
    shutil.copy(ROOT / "tests" / "typed.py", tmp_path)
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed)]
    elif (found := shutil.which("pyright")) is not None:
        command = [found, "--pythonpath", str(installed)]
    else:
        pytest.skip("pyright is not installed: npm install -g pyright")
    done = subprocess.run([*command, "readme.py", "typed.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text("import hfposemb as hpe\nhpe.exctract('sample:bert')\n")
    done = subprocess.run([*command, "wrong.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "exctract" in done.stdout
