"""--json on every command: one document on standard output, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.cli.parser import parser
from tests.support.survey_models import write_models

SMALL = "random:32x8"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and a survey of one."""
    folder = tmp_path_factory.mktemp("made")
    write_models(folder / "models", 3)
    tables = {"wpe.weight": hpe.extract(SMALL).position.table.vectors.copy()}
    (folder / "after").mkdir()
    save_file(tables, folder / "after" / "model.safetensors")
    hpe.survey([SMALL], metrics=["mean norm"], draws=0, out=folder / "survey")
    return folder


@pytest.fixture
def files(made: Path, tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of these files as the working directory, and caches of this test."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "here"))


COMMANDS: dict[str, tuple[str, str]] = {
    "space": ("owner/space --dry-run", "files"),
    "info": ("sample:bert", "tables"),
    "extract": (f"{SMALL} --table position --out x.npy", "shape"),
    "project": (f"{SMALL} --table position", "points"),
    "project --out": (f"{SMALL} --table position --out x.csv", "file"),
    "similarity": ("sample:bert --rows king,queen", "values"),
    "neighbours": ("sample:bert king", "neighbours"),
    "card": ("sample:bert", "facts"),
    "mixture": ("sample:bert king --positions 1,5", "mixture"),
    "compare": (f"{SMALL} --draws 0 --words 1", "sources"),
    "survey": (f"{SMALL} --metric IsoScore --draws 0 --out new", "sources"),
    "survey --dry-run": (f"{SMALL} --metric IsoScore --draws 0 --dry-run", "seconds"),
    "survey --again": ("--again survey", "same"),
    "atlas": ("survey --dataset dataset", "dataset"),
    "trajectory": ("sample:gpt2 --revisions step-*", "metrics"),
    "export": (f"{SMALL} --table position --out y.csv", "content"),
    "check": ("./models/gpt2-001", "reports"),
    "vocab": ("sample:bert sample:bert", "verdict"),
    "rope": ("./models/llama-002", "scalings"),
    "odd": ("sample:bert --count 2", "lists"),
    "kinship": ("sample:bert sample:gpt2", "pairs"),
    "merge-preview": ("sample:bert sample:bert", "steps"),
    "transplant": ("sample:bert sample:gpt2 --tokens 5 -k 8", "quality"),
    "changes": (f"{SMALL} ./after --table position", "listed"),
    "head": ("./models/llama-002 --draws 19", "measures"),
    "info --requirements": (f"{SMALL} --requirements", "requirements"),
    "skill": ("", "skill"),
    "skill --add": ("--add --dest skills", "installed"),
    "cache": ("", "kinds"),
    "cache --clear": ("--clear", "freed"),
}
"""Arguments of each command, and a key of its document. Those that load transformers or a server are below."""


def test_no_command_is_without_json() -> None:
    (choices,) = [action.choices for action in parser()._actions if action.dest != "help" and action.choices]
    assert set(choices) == {name.split()[0] for name in COMMANDS} | {"app", "verify", "reproduce"}  # type: ignore[arg-type]
    for command in choices.values():  # type: ignore[union-attr]
        assert [action for action in command._actions if "--json" in action.option_strings]


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_output_is_one_document(name: str, files: None, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, key = COMMANDS[name]
    assert main([name.split()[0], *arguments.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=_refused)
    assert key in found


def test_points_are_those_of_the_projection(files: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["project", SMALL, "--table", "position", "--dims", "3", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    wanted = hpe.project(hpe.extract(SMALL).position, dims=3).coordinates
    np.testing.assert_allclose([[one[axis] for axis in "xyz"] for one in points], wanted, rtol=1e-5, atol=1e-6)


def test_verification_and_findings(files: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "sample:gpt2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"]
    assert main(["reproduce", "sinusoid-rotation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["studies"][0]["name"] == "sinusoid-rotation"


def test_the_app_prints_its_address(files: None) -> None:
    command = [sys.executable, "-m", "hfposemb", "app", SMALL, "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            found = _document(process)
            assert (found["public"], found["mcp"], found["share_url"]) == (False, False, None)
            with urlopen(found["url"], timeout=60) as page:
                assert page.status == 200
        finally:
            process.terminate()


def _document(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the document that a running process has printed."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            break
    return json.loads(text)


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
