"""The command's first moments: Ctrl-C while Python imports, when no line of a command has run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

AT = """
import os, signal, sys

def interrupt(event, arguments):
    if event == "import" and arguments[0] == os.environ["AT"]:
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
"""
"""Sends Ctrl-C the moment a module begins to be imported, whatever the speed of the machine."""

SCRIPT = Path(sys.executable).parent / "hfposemb"


def interrupted(folder: Path, module: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command, which gets Ctrl-C as it imports a module."""
    (folder / "sitecustomize.py").write_text(AT)
    environment = {**os.environ, "PYTHONPATH": str(folder), "AT": module}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


MODULES = (
    "hfposemb.cli.main",
    "argparse",
    "tempfile",
    "numpy",
    "hfposemb.models.extraction",
    "hfposemb.models.summary",
)


@pytest.mark.parametrize(
    ("module", "command"),
    [*((module, (str(SCRIPT),)) for module in MODULES), (MODULES[0], (sys.executable, "-m", "hfposemb"))],
)
def test_ctrl_c_during_an_import_is_one_line(module: str, command: tuple[str, ...], tmp_path: Path) -> None:
    done = interrupted(tmp_path, module, *command, "info", "sample:bert")
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "hfposemb: stopped\n")


def test_ctrl_c_that_a_shell_ignores_stays_ignored(tmp_path: Path) -> None:
    """A shell starts what runs in the background so."""
    start = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = interrupted(
        tmp_path, "hfposemb.models.summary", sys.executable, "-c", start, str(SCRIPT), "info", "sample:bert"
    )
    assert done.returncode == 0
    assert done.stdout.startswith("sample:bert\n")
