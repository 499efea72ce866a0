"""A static Space: a report of ``hfposemb compare --out``, or the folder of a page, which the Hub serves as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..errors import InputError
from .space_upload import Kind, check_name, upload

SDK = "static"
MARK = "hfposemb.json"
"""File that only such a Space has; it names the version that made the page."""

MOST_FILES = 1_000
LARGEST = 500_000_000
"""Maximum size of all files in bytes."""

_KIND = Kind(SDK, MARK, ("*",), "a report", "has another page")
_HEAD = 64 * 1024
_TITLE = re.compile(r"<title>([^<]{1,200})</title>")


def static_files(report: Path) -> dict[str, Path | str]:
    """Return the files of a static Space by path.

    Args:
        report: An HTML file, or a folder with an ``index.html``.

    Raises:
        InputError: If it is neither, or too large.
    """
    from .. import __version__

    folder = report.is_dir()
    start = report / "index.html" if folder else report
    head = _head(start, report)
    pages = _tree(report) if folder else {"index.html": report}
    if len(pages) > MOST_FILES or sum(path.stat().st_size for path in pages.values()) > LARGEST:
        raise InputError(
            f"{report} has more than {MOST_FILES:,} files or {LARGEST // 10**6} MB; give a page, or the folder of one"
        )
    found = _TITLE.search(head)
    title = " ".join(found[1].split())[:80] if found else "hfposemb report"
    mark = {"version": __version__, "title": title}
    return {**pages, "README.md": _readme(title), MARK: f"{json.dumps(mark, ensure_ascii=False)}\n"}


def publish_static(name: str, report: Path, *, private: bool = False) -> str:
    """Create or update a static Space with a report and return its URL.

    Needs a token with write access, from HF_TOKEN or a login. A Space with another page is not modified.

    Args:
        name: ``owner/name`` of the Space.
        report: An HTML file, or a folder with an ``index.html``.
        private: Whether to create it as private.

    Raises:
        InputError: If the name or the report is invalid.
        HubError: If the Hub refuses the request or cannot be reached.
    """
    check_name(name)
    return upload(name, static_files(report), _KIND, private=private)


def _head(start: Path, report: Path) -> str:
    """Return the beginning of a page."""
    try:
        with start.open(encoding="utf-8") as file:
            head = file.read(_HEAD)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError(
            f"cannot read {start}: {reason}; give the .html file that `hfposemb compare --out` wrote, or a folder with "
            "an index.html"
        ) from error
    if "<html" not in head.lower():
        raise InputError(f"{report} is not an HTML page; write one with: hfposemb compare SOURCE … --out report.html")
    return head


def _tree(folder: Path) -> dict[str, Path]:
    """Return the files of a folder, without hidden ones and links."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not path.is_symlink() and not any(part.startswith(".") for part in parts):
            found["/".join(parts)] = path
            if len(found) > MOST_FILES:
                break
    return found


def _readme(title: str) -> str:
    return (
        f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\nemoji: 🌀\ncolorFrom: blue\ncolorTo: pink\nsdk: {SDK}\n"
        "app_file: index.html\nshort_description: Embedding tables measured with hfposemb\ntags:\n- hfposemb\n"
        "- embeddings\n---\n\n"
        f"{title}: a page written by `hfposemb` and uploaded by `hfposemb space --static`.\n"
    )
