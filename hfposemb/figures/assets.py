"""Scripts and styles of figures in a page, shared by the app and the report."""

from __future__ import annotations

from functools import cache
from pathlib import Path

STATIC, BUNDLE = (Path(__file__).with_name(name) for name in ("static", "bundle"))


@cache
def asset(name: str) -> str:
    """Return the text of a script or style in ``static``."""
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def script(path: Path) -> str:
    """Return the script of a page, which ``make js`` bundles from its modules."""
    return path.read_text(encoding="utf-8")


@cache
def plotly_js() -> str:
    """Return plotly.js with the traces that are drawn here, less than half of the whole; ``make plotly`` builds it."""
    return (BUNDLE / "plotly.min.js").read_text(encoding="utf-8")
