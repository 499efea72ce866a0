"""Find the Chromium that the browser tests drive. As a program: say where it is, or that they were skipped."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

WHOLE = ("chromium", "chromium-browser", "google-chrome")
NAMES = ("chromium-headless-shell", *WHOLE)
"""Programs, best first: the shell has no window to draw, which takes a tenth of the time of the others."""


def find() -> str | None:
    """Return the path of a Chromium: the one on PATH, else the one that Playwright installed, else ``None``."""
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return found
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


if __name__ == "__main__":
    where = find()
    print(f"Browser tests ran in {where}." if where else "Browser tests were SKIPPED: no Chromium could be had.")
    sys.exit(0 if where else 1)
