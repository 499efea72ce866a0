"""Scripts and styles of figures in a page, shared by the app and the report."""

from __future__ import annotations

from functools import cache
from pathlib import Path

STATIC = Path(__file__).with_name("static")


@cache
def asset(name: str) -> str:
    """Return the text of a script or style in ``static``."""
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def plotly_js() -> str:
    """Return plotly.js with the traces that are drawn here, less than half of the whole; ``make plotly`` builds it."""
    return (Path(__file__).with_name("bundle") / "plotly.min.js").read_text(encoding="utf-8")
