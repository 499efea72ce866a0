"""Commands that serve the app, locally or as a Space, and pages as a static Space."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from ..errors import InputError, require
from .options import byte_size, print_json, print_result
from .space_upload import Kind, check_name, upload


def run_app(given: argparse.Namespace) -> None:
    """Serve the app."""
    require("gradio", extra="app", purpose="the app")
    from ..app import launch
    from ..app.limits import MOST_SOURCES
    from ..app.server.reach import check_sources, has_a_browser, reach

    if given.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read as huggingface_hub is imported, and by child processes
    if len(given.sources) > MOST_SOURCES:
        raise InputError(f"{len(given.sources)} sources given; the app shows at most {MOST_SOURCES} at once")
    public = True if given.public else False if given.trusted else None
    at = reach(given.host, given.share or None, public)
    check_sources(given.sources, public=at.public)
    blocks = launch(
        tuple(given.sources),
        host=at.host,
        port=given.port,
        share=at.share,
        public=public,
        auth=given.auth,
        mcp=given.mcp or None,
        inbrowser=not given.no_open and has_a_browser(),
        debug=given.debug,
        quiet=given.json,
        prevent_thread_lock=given.json,
    )
    if given.json:
        print_json({"url": blocks.local_url, "share_url": blocks.share_url, "public": at.public, "mcp": given.mcp})
        blocks.block_thread()


def run_space(given: argparse.Namespace) -> None:
    """Publish the app or a report as a Space, or with ``--dry-run`` list what would be uploaded."""
    from .space import presets_of, publish, space_files

    models = [model.strip() for model in given.models.split(",") if model.strip()]
    if given.static is not None and models:
        raise InputError("a static Space runs no app; give --models or --static, not both")
    if not given.dry_run:
        if given.static is None:
            url = publish(given.name, models=models, private=given.private)
        else:
            url = publish_static(given.name, given.static, private=given.private)
        print_result(url, {"url": url}, given)
        return
    check_name(given.name)
    files = (
        space_files(models, presets=presets_of(models), name=given.name)
        if given.static is None
        else static_files(given.static)
    )
    sizes = {name: len(text.encode()) if isinstance(text, str) else text.stat().st_size for name, text in files.items()}
    if given.json:
        print_json({"name": given.name, "files": sizes, "readme": files["README.md"]})
        return
    print(f"{given.name} would have {len(files)} files, {byte_size(sum(sizes.values()))}; nothing was uploaded")
    for name, size in sizes.items():
        print(f"  {name:<44}{byte_size(size):>12}")
    print(f"\nREADME.md:\n{files['README.md']}")


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
