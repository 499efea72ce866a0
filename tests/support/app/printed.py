"""What the command line of a view gives of what the view shows."""

from __future__ import annotations

import csv
import json
import re
import shlex
from base64 import b64decode
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hfposemb.app.components.plot import Panel

from hfposemb.cli.main import main
from tests.support.app.shown import ROUNDED, not_given
from tests.support.app.views import (
    View,
    unwritten,
)


def printed(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run command lines in a folder, and return the numbers that they print or write."""
    monkeypatch.chdir(folder)
    found = []
    for line in command.splitlines():
        words = shlex.split(line)
        assert words[0] == "hfposemb"
        with redirect_stdout(StringIO()) as said:
            assert main(words[1:]) == 0
        found.append(numbers(said.getvalue(), folder / words[-1] if "--out" in words else None))
    return found


def numbers(said: str, written: Path | None) -> Any:
    """Return the numbers of a file, or else of what a command said: JSON, CSV, or one number a line."""
    if written is not None and written.suffix == ".npz":
        return np.load(written)["vectors"]
    if written is not None:
        traces = json.loads(written.read_text())["data"]
        return [decoded(one["y"]) for one in traces if one["mode"] == "lines" and "fill" not in one]
    if said.startswith("{"):
        return json.loads(said)
    if said.startswith("label,"):
        return np.array([[float(cell) for cell in line[1:]] for line in list(csv.reader(said.splitlines()))[1:]])
    matrix = [line.split()[1:] for line in said.partition("\n\n")[0].splitlines()[1:]]
    if matrix and all(len(line) == len(matrix) for line in matrix):
        return np.array(matrix, np.float64)
    return np.array([float(line.split()[-1]) for line in said.splitlines() if re.search(r"\d\.\d+$", line)])


def decoded(array: Any) -> Any:
    """Return an array of a figure that was written as JSON."""
    return np.frombuffer(b64decode(array["bdata"]), array["dtype"]) if isinstance(array, dict) else array


GIVES = {
    "project": {"points"},
    "extract": {"matrix"},
    "export": {"line"},
    "neighbours": {"list"},
    "similarity": {"matrix"},
    "odd": {"list"},
    "head": {"line"},
    "info": {"line"},
    "trajectory": {"line", "matrix"},
    "rope": {"line"},
}
"""What a command prints or writes of the views that name it; the others give all that is shown."""


def printed_wrong(view: View, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the command line of a view does not give of what is shown."""
    given, name = printed(view.command, folder, monkeypatch), shlex.split(view.command)[1]
    rounded = 1e-3 if name in ("neighbours", "similarity") else ROUNDED  # they print three digits
    if isinstance(view.shown, Panel):
        return not_given(view.shown, given, kinds=GIVES[name], rounded=rounded)
    (document,) = given
    pairs = "CKA" in view.shown and "<section" in view.shown
    if pairs:
        return unwritten(view.shown, [pair["observed"] for pair in document["pairs"]])
    metrics = [each["metrics"] for each in document["sources"]]
    return unwritten(view.shown, [{name: one["value"] for name, one in each.items()} for each in metrics])
