"""The figures of a run as data, in ``docs/benchmarks.json``: what the next run is compared with."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .cost import ROOT, Row

KEPT = ROOT / "docs" / "benchmarks.json"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "umap-learn", "torch", "transformers", "huggingface_hub")
WORSE = 1.15
"""How many times the figure of the run before a figure may be before it is marked."""


@dataclass
class Found:
    """All that a run has found, and how many seconds each group took."""

    rows: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def worse(one: Row, before: Mapping[str, float]) -> float | None:
    """Return how many times the figure of the run before this one is, where that is too many times."""
    now, then = one.value, before.get(one.name)
    if now is None or then is None or now <= WORSE * then:
        return None
    return now / then if then > 0 else float("inf")


def regressions(lines: Iterable[Row], before: Mapping[str, float]) -> dict[str, float]:
    """Return which lines are worse than in the run before, and how many times."""
    found = {one.name: worse(one, before) for one in lines}
    return {name: times for name, times in found.items() if times is not None}


def read_values(path: Path = KEPT) -> dict[str, float]:
    """Return the figures of the last run that was kept by the names of their lines; none where none was."""
    if not path.exists():
        return {}
    return {name: line["value"] for name, line in json.loads(path.read_text(encoding="utf-8"))["lines"].items()}


def write_values(found: Found, path: Path = KEPT) -> None:
    """Keep a run: where and when, the seconds of each group, and of each line its figure and its text."""
    lines = {one.name: {"value": one.value, **_said(one)} for one in found.rows if one.value is not None}
    run = {"machine": machine(), "seconds": {name: round(taken, 1) for name, taken in found.seconds.items()}}
    path.write_text(json.dumps({**run, "lines": lines}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _said(one: Row) -> dict[str, Any]:
    return {"ours": one.ours, "bound": one.bound, "spread": one.spread, "goal": one.goal, "met": one.met}


def machine() -> dict[str, Any]:
    """Return where and when this is."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "processor": _processor(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    """Return what the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), "unknown processor")
