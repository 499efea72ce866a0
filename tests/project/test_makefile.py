"""What ``make`` does before anything is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hfposemb.cli.space import GRADIO
from tests.support.installing import ROOT

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
    for name in ("Makefile", "README.md", "pyproject.toml", "requirements.txt"):
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


def test_make_installs_the_gradio_of_a_space() -> None:
    planned = subprocess.run(["make", "-n", "-B", "run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"'gradio=={GRADIO}' -e '.[app]'" in planned


def test_every_test_in_a_browser_is_in_a_folder_that_make_names() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest-browser:")[2].partition("\n\n")[0]
    named = re.findall(r" (tests/\w+)", recipe)
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if "mark." + "browser" in path.read_text("utf-8")]
    assert len(marked) > 2
    assert all(str(path.relative_to(ROOT)).startswith(tuple(f"{name}/" for name in named)) for path in marked)
