"""The build backend: setuptools, with a README that PyPI can show, and archives whose bytes depend on the sources only.

setuptools cannot change links of a README, and its sdists hold the time, owner and permissions of every file.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta

EPOCH = 1577836800  # 1 January 2020: the time of every file, unless SOURCE_DATE_EPOCH is set
README = Path("build/README.md")  # as in pyproject.toml, under tool.setuptools.dynamic
_PICTURES = (".png", ".svg", ".jpg", ".gif", ".webp")


def pypi_readme(text: str, source: str, revision: str) -> str:
    """Return a README without front matter, with absolute links.

    Args:
        text: README of the repository, which links to its other files.
        source: URL of the repository.
        revision: Tag or branch to link to.
    """

    def absolute(found: re.Match[str]) -> str:
        before, path = found.groups()
        kind = "raw" if path.lower().endswith(_PICTURES) else "blob"
        return f"{before}{source}/{kind}/{revision}/{path.removeprefix('./')}"

    text = re.sub(r"\A---\n.*?\n---\n\s*", "", text, flags=re.S)
    return re.sub(r'(\]\(|\b(?:src|href)=")(?![a-z]+:|#|/)([^)\s"]+)', absolute, text)


def _write_readme() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    code = Path("hfposemb/__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"$', code, flags=re.M)[0]
    text = pypi_readme(Path("README.md").read_text(encoding="utf-8"), project["urls"]["Source"], f"v{version}")
    README.parent.mkdir(exist_ok=True)
    README.write_text(text, encoding="utf-8")


def _repack(archive: Path) -> None:
    """Write an sdist again: files in order of their names, of no owner, with one time and two kinds of permissions."""
    time, raw = int(os.environ["SOURCE_DATE_EPOCH"]), io.BytesIO()
    with tarfile.open(archive) as before, tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as after:
        for member in sorted(before.getmembers(), key=lambda one: one.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.size, entry.mtime = member.type, member.size, time
            entry.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            after.addfile(entry, before.extractfile(member) if member.isfile() else None)
    archive.write_bytes(gzip.compress(raw.getvalue(), mtime=time))


def __getattr__(hook: str) -> Any:
    """Return a hook of PEP 517 or PEP 660: that of setuptools, after the README is written."""
    wrapped = getattr(build_meta, hook)
    if hook.startswith("_"):
        return wrapped

    def run(*arguments: Any, **keywords: Any) -> Any:
        os.environ.setdefault("SOURCE_DATE_EPOCH", str(EPOCH))
        os.umask(0o022)  # permissions in a wheel are those of the files that setuptools writes
        _write_readme()
        result = wrapped(*arguments, **keywords)
        if hook == "build_sdist":
            _repack(Path(arguments[0], result))
        return result

    return run
