"""What ``make`` does before anything is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hfposemb.cli.space import GRADIO
from tests.support.installing import ROOT
from tests.versions import declared

OLD = f"""#!/bin/sh
exec {sys.executable} -c '
import sys
sys.version_info = (3, 10, 13, "final", 0)
sys.executable = "/usr/bin/python3"
exec(sys.argv[2])
' "$@"
"""
"""A Python that reports version 3.10 to whatever code it is given with -c."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What ``make run`` reads, and a PATH on which the only Python is an old one."""
    (tmp_path / ".github").mkdir()
    for name in ("Makefile", "README.md", "pyproject.toml", "requirements.txt", ".github/run-requirements.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in ("make", "sh"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    (tmp_path / "bin" / "python3").write_text(OLD)
    (tmp_path / "bin" / "python3").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("target", ["run", "test"])
def test_a_python_that_is_too_old_is_one_line(tree: Path, target: str) -> None:
    done = subprocess.run(
        ["make", target], cwd=tree, env={"PATH": str(tree / "bin")}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert said == [
        "hfposemb needs Python 3.11 or later, and /usr/bin/python3 is Python 3.10; install one, then: "
        "make clean run PYTHON=/path/to/python"
    ]
    assert not (tree / ".venv").exists()


def test_make_run_installs_what_is_locked_and_nothing_else() -> None:
    planned = subprocess.run(["make", "-n", "-B", "run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = re.findall(r"pip install .*", planned)
    options = "--quiet --disable-pip-version-check"
    assert installs == [
        f"pip install {options} --require-hashes -r .github/run-requirements.txt",
        f"pip install {options} --no-deps -e .",
    ]


def test_the_lock_is_whole_and_agrees_with_the_pins_of_a_space() -> None:
    """Every package that an installed one requires is in it, by digest; ``make lock`` makes it anew."""
    text = (ROOT / ".github" / "run-requirements.txt").read_text(encoding="utf-8")
    comment, _, listed = text.partition("\n")
    assert comment == "# What make run installs, all of it, by digest; made by: make lock"
    assert re.fullmatch(r"([\w-]+==\S+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n)+", listed)
    locked = dict(re.findall(r"^([\w-]+)==(\S+)", listed, flags=re.M))
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
    pins = {canonicalize_name(name): version for name, version in pins.items()} | {"gradio": GRADIO}
    assert {name: locked.get(name) for name in pins if name != "mcp"} == {k: v for k, v in pins.items() if k != "mcp"}
    waiting, seen = [Requirement(f"{one.name}[{','.join(one.extras)}]") for one in declared(("app",))], set()
    while waiting:
        one = waiting.pop()
        for extra in one.extras or {""}:
            if (name := canonicalize_name(one.name), extra) in seen:
                continue
            seen.add((name, extra))
            assert name in locked
            inner = map(Requirement, requires(name) or ())
            waiting += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": extra})]
    assert len(seen) > 50


def test_every_test_in_a_browser_is_in_a_folder_that_make_names() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest-browser:")[2].partition("\n\n")[0]
    named = re.findall(r" (tests/\w+)", recipe)
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if "mark." + "browser" in path.read_text("utf-8")]
    assert marked
    assert all(str(path.relative_to(ROOT)).startswith(tuple(f"{name}/" for name in named)) for path in marked)
