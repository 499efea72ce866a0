"""Scripts as analysts write them, with public names alone: each runs in a process and ends with a known figure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hfposemb as hpe
from tests.hub import FakeHub
from tests.hub.training import add_run

HERE = Path(__file__).parent

LAST = {
    "plot_norms": "highest norm at position 0",
    "neighbours_table": "neighbours in both models 11",
    "cluster_tokens": "neighbours that agree 10",
    "notebook_cells": "metrics of both 35 mean norm 0.168",
    "training_run": "effective rank",
}
"""Last line that each script prints, or how it starts where the test below knows the rest."""


@pytest.mark.parametrize("name", [name for name in LAST if name != "training_run"])
def test_a_script_ends_with_its_figure(name: str, tmp_path: Path) -> None:
    if name == "plot_norms":
        pytest.importorskip("matplotlib")
    assert run(name, tmp_path).startswith(LAST[name])


def test_a_run_is_followed_as_by_the_library_itself(hub: FakeHub, tmp_path: Path) -> None:
    sources = hpe.evenly_spaced(add_run(hub, 12, positions=48, width=16), 5)
    wanted = [round(hpe.spectrum(hpe.extract(source).position).effective_rank, 1) for source in sources]
    assert run("training_run", tmp_path) == f"effective rank {wanted}"


def run(name: str, folder: Path) -> str:
    """Run a script in a folder of its own and return the last line that it prints; the library prints nothing else."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hfposemb" not in done.stderr
    return done.stdout.rstrip().splitlines()[-1]


def test_every_script_is_run_and_uses_public_names_alone() -> None:
    paths = [path for path in HERE.glob("*.py") if not path.stem.startswith(("__", "test_"))]
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    assert set(scripts) == set(LAST)
    for name, text in scripts.items():
        assert not re.search(r"(from|import) hfposemb\.", text), name
        assert set(re.findall(r"\bhpe\.(\w+)", text)) <= set(hpe.__all__), name
