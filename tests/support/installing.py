"""Environments of their own. The one that tests run in has this package installed, and more than the app needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import urlopen

from packaging.requirements import Requirement

from tests.support.processes.waiting import unused_port

ROOT = Path(__file__).parents[2]


def tracked() -> list[str]:
    """Return the files of the repository, as a clone has them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]


def clone(folder: Path) -> Path:
    """Copy the repository, without what builds and tests left behind in it."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def _needed(names: Sequence[str]) -> set[str]:
    """Return what these requirements need, and what that needs in turn; what is not installed here is left out."""
    found: set[str] = set()
    todo = [Requirement(name) for name in names]
    while todo:
        wanted = todo.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        try:
            asked = distribution(name).requires or ()
        except PackageNotFoundError:
            continue
        if name in found and not wanted.extras:
            continue
        found.add(name)
        requirements = [Requirement(line) for line in asked]
        extras = ("", *wanted.extras)
        todo += [
            one for one in requirements if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in extras)
        ]
    return found


def environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Make an environment with these requirements and nothing else, without a network; return its Python.

    The packages are links to those of the environment that the tests run in.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    (place,) = folder.glob("lib/python*/site-packages")
    for name in _needed(requirements):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            if not (place / top).exists():
                (place / top).symlink_to(distribution(name).locate_file(top))
    return folder / "bin" / "python"


def install(python: Path, wheel: Path) -> None:
    """Install a wheel into an environment, and nothing that it needs."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", str(wheel)], check=True)


def run(python: Path, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python of its own, which sees nothing of the repository."""
    there = {**_surroundings(), **variables}
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=cwd, env=there, capture_output=True, text=True, timeout=120)


@dataclass(frozen=True)
class App:
    """An app that is served on loopback by a process of its own."""

    url: str
    output: Path

    @property
    def said(self) -> str:
        """What it printed."""
        return self.output.read_text(errors="replace")


@contextmanager
def serving(python: Path, *arguments: str, cwd: Path, **variables: str) -> Iterator[App]:
    """Run what serves the app, told "PORT" in its arguments or in GRADIO_SERVER_PORT, and wait until it answers."""
    port = str(unused_port())
    app = App(f"http://127.0.0.1:{port}", cwd.parent / f"{cwd.name}.log")
    command = [str(python), *(port if argument == "PORT" else argument for argument in arguments)]
    with app.output.open("wb") as printed:
        there = {**_surroundings(), "GRADIO_SERVER_PORT": port, **variables}
        process = subprocess.Popen(command, cwd=cwd, env=there, stdout=printed, stderr=printed)
    try:
        _wait(app, process)
        yield app
    finally:
        process.kill()
        process.wait()


@contextmanager
def space(python: Path, folder: Path, **variables: str) -> Iterator[App]:
    """Run the Space in a folder as the Hub does, but for strangers of this machine alone."""
    there = {"GRADIO_SERVER_NAME": "127.0.0.1", "SPACE_ID": "owner/name", **variables}
    with serving(python, "app/space.py", cwd=folder, **there) as app:
        yield app


def _surroundings() -> dict[str, str]:
    """Return the environment without what shows a Python where this repository is."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _wait(app: App, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while True:
        assert process.poll() is None, app.said
        assert time.monotonic() < until, app.said
        try:
            with urlopen(f"{app.url}/config", timeout=60):
                return
        except OSError:
            time.sleep(0.1)
