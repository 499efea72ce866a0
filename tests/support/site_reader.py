"""Runs the reader of the static page in node, on the same files as the Python reader."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfposemb.models.architectures.page_rules import page_rules

SCRIPT = Path(__file__).parents[1] / "javascript" / "site_reader.js"
OLDEST = 20
"""First version of node that has all that the reader uses of a browser."""


@cache
def node() -> str | None:
    """Return the path of a node that is recent enough, else ``None``."""
    found = shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    return found if int(said.lstrip("v").split(".")[0]) >= OLDEST else None


needs_node = pytest.mark.skipif(node() is None, reason=f"needs node {OLDEST} or later")


def in_javascript(kind: str, items: Sequence[Any], folder: Path, **hub: Any) -> list[dict[str, Any]]:
    """Return what the page's reader answers to each item: ``found``, or ``refused`` with the line that says why.

    Args:
        kind: What is asked, a key of ``kinds`` in ``site_reader.js``.
        items: The questions.
        folder: Where the task is written.
        hub: The address of a Hub and its hosts, which the rules of the page name.
    """
    task = folder / "task.json"
    rules = {**page_rules(), "endpoint": "", "hosts": [], "domains": [], **hub}
    rules["limits"]["retry_pause"] = 20
    task.write_text(json.dumps({"kind": kind, "items": list(items), "rules": rules}), encoding="utf-8")
    command = [str(node()), "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--disable-warning=ExperimentalWarning"]
    done = subprocess.run([*command, str(SCRIPT), str(task)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
