"""The package built and installed, once for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hfposemb.cli.space import GRADIO
from tests.support.installing import ROOT, clone, environment, install

PINNED = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
HUBS = f"gradio[oauth,mcp]=={GRADIO}"
"""What the Hub installs into a Space by itself."""


def build(folder: Path, tree: Path, *, umask: int = 0o022) -> Path:
    """Build the sdist of a clone, and the wheel of that sdist, into a folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, umask=umask)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of a clone, and the wheel that is built from that sdist."""
    return build(tmp_path_factory.mktemp("dist"), clone(tmp_path_factory.mktemp("clone")))


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a Space: the Hub's Gradio and ``requirements.txt`` are installed, this package is not."""
    return environment(tmp_path_factory.mktemp("bare"), [HUBS, *PINNED])


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel and what it needs, the extra "app" included."""
    python = environment(tmp_path_factory.mktemp("installed"), [HUBS, *PINNED])
    install(python, wheel)
    return python
