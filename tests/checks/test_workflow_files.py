"""The GitHub Action and the pre-commit hook run the command as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from hfposemb.cli.parser import parser
from tests.checks.planted import change, llama

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def test_the_action_checks_a_folder_and_keeps_the_findings(tmp_path: Path) -> None:
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == "check"]
    for name in ("sound", "faulty"):
        (tmp_path / name).mkdir()
        llama(tmp_path / name)
    change(tmp_path / "faulty", vocab_size=95)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    codes = {}
    for name in ("sound", "faulty"):
        there = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output"), "FULL": "true"}
        there |= {"SOURCES": f"./{name}", "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        script = ["bash", "-e", "-o", "pipefail", "-c", step["run"].replace("python -m", f"{sys.executable} -m")]
        done = subprocess.run(script, cwd=tmp_path, env={**os.environ, **there}, capture_output=True, text=True)
        codes[name] = done.returncode
        assert '"2.1.0"' in (tmp_path / "hfposemb.sarif").read_text(encoding="utf-8"), done.stderr
    assert codes == {"sound": 0, "faulty": 1}
    assert f"sarif={tmp_path}/hfposemb.sarif" in (tmp_path / "output").read_text(encoding="utf-8")
    assert "faulty/config.json" in (tmp_path / "hfposemb.sarif").read_text(encoding="utf-8")


def test_all_inputs_of_the_action_are_used() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text
        assert ACTION["inputs"][name]["description"].endswith(".")


def test_the_hook_runs_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    given = parser().parse_args([*shlex.split(hook["entry"])[1:], "./model"])
    assert given.sources == ["./model"]
    assert hook["pass_filenames"] is False
