"""Build the documentation site with Zensical: ``python -m tests.documentation [FOLDER]``, offline; a warning ends it.

Pages are staged first, as the site has them. In the repository, pages link to files: a notebook, a source file,
CONTRIBUTING.md. On the site the notebook is a page with its outputs, the source file is the page of its module, and
CONTRIBUTING.md is a page like the others. Formulae become MathML, which browsers draw without a script.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import yaml
from latex2mathml.converter import convert
from nbconvert import MarkdownExporter

from tests.reference import CHAPTERS, documented
from tests.support.installing import ROOT

COPIED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "hfposemb/samples/README.md": "samples.md",
    "hfposemb/samples/minilm/README.md": "minilm.md",
}
"""Pages of the site that are kept outside docs/, by their path in the repository."""

NOTEBOOKS = {f"docs/{path.name}": f"{path.stem}.md" for path in sorted((ROOT / "docs").glob("*.ipynb"))}
WIDE = {"index.md", "architectures.md", "formats.md", "check.md", "benchmarks.md", "api.md"}
"""Pages whose tables or pictures take the place of the table of contents."""

MODULES = {f"hfposemb/{name.replace('.', '/')}.py": f"api/{name}.md" for name in documented()}
MOVED = COPIED | NOTEBOOKS | MODULES

LINK = r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)"
"""Text, which may have brackets or a picture in it, and target of a link; a picture alone is none."""

FORMULA = r"(?<![\\\w$])\$\$(.+?)\$\$|(?<![\\\w$])\$(?![\s$])([^$\n]*?[^$\s])\$(?![\w$])"
"""A formula of its own line, or one in a sentence, as the extension arithmatex reads them."""


def staged(folder: Path) -> Path:
    """Write the pages and the settings of the site into an empty folder; return the settings."""
    docs = folder / "docs"
    ignored = shutil.ignore_patterns("*.py", "*.jsonl", "*.ipynb", "benchmarks.json")
    shutil.copytree(ROOT / "docs", docs, ignore=ignored)
    (docs / "api").mkdir()
    shutil.copy(ROOT / "docs" / "docstrings.py", folder)
    shutil.copy(ROOT / "docs" / "plugin.py", docs)
    for path, uri in COPIED.items():
        shutil.copy(ROOT / path, docs / uri)
    for path, uri in NOTEBOOKS.items():
        text, pictures = notebook_page(ROOT / path)
        (docs / uri).write_text(text, encoding="utf-8")
        shutil.copy(ROOT / path, docs)
        for name, content in pictures.items():
            (docs / name).parent.mkdir(exist_ok=True)
            (docs / name).write_bytes(content)
    for name, shown in documented().items():
        (docs / "api" / f"{name}.md").write_text(module_page(name, shown), encoding="utf-8")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for page in docs.rglob("*.md"):
        uri = page.relative_to(docs).as_posix()
        change = partial(_as_on_site, uri=uri, repository=settings.get("repo_url", "").rstrip("/"))
        text = _outside_code(page.read_text(encoding="utf-8"), change)
        page.write_text(_header(uri) + text, encoding="utf-8")
    settings["nav"] = list_of_modules(settings["nav"])
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return folder / "mkdocs.yml"


def list_of_modules(nav: list[Any]) -> list[Any]:
    """Put the pages of the modules where the navigation says MODULES."""
    chapters: list[Any] = [{chapter: [_entry(name) for name in names]} for chapter, names in CHAPTERS.items()]
    listed = {name for names in CHAPTERS.values() for name in names}
    chapters.insert(0, {"Opening": [_entry(name) for name in documented() if name not in listed]})
    return [
        {title: [one for page in pages for one in (chapters if page == "MODULES" else [page])]}
        if isinstance(pages, list)
        else {title: pages}
        for section in nav
        for title, pages in section.items()
    ]


def _entry(name: str) -> dict[str, str]:
    return {name.rpartition(".")[2]: f"api/{name}.md"}


def _header(uri: str) -> str:
    if uri not in WIDE:
        return ""
    return f"---\nhide: [{'toc, navigation' if uri == 'index.md' else 'toc'}]\n---\n\n"


def module_page(name: str, shown: tuple[str, ...]) -> str:
    """Return the page of a module, which mkdocstrings fills from its docstrings."""
    chosen = f"    options:\n      members: [{', '.join(shown)}]\n" if shown else ""
    return f"# hfposemb.{name}\n\n::: hfposemb.{name}\n{chosen}"


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, with its outputs, and its pictures by name."""
    text, resources = MarkdownExporter().from_notebook_node(
        nbformat.read(path, as_version=4), {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    )
    text = re.sub(r"^!\[(?:png|svg)\]", "![Output of the cell above]", text, flags=re.M)
    title, _, rest = text.partition("\n")
    download = f'<p><a href="{path.name}" download>Download this page as a notebook</a></p>'
    return f"{title}\n\n{download}\n{rest}", dict(resources["outputs"])


def _as_on_site(text: str, *, uri: str, repository: str) -> str:
    """Lead the links of a page to where the site has their targets, and write its formulae as MathML."""
    here = next((path for path, there in (COPIED | NOTEBOOKS).items() if there == uri), f"docs/{uri}")

    def led(found: re.Match[str]) -> str:
        said, link = found[1], found[2]
        path, mark, place = link.partition("#")
        if not path or re.match(r"[a-z]+:", link):
            return found[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        target = MOVED.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
        if target:
            return f"[{said}]({posixpath.relpath(target, posixpath.dirname(uri) or '.')}{mark}{place})"
        if not (ROOT / there).exists():
            raise SystemExit(f"{here} links to {there}, which does not exist")
        return f"[{said}]({repository}/blob/main/{there})" if repository else said

    return re.sub(FORMULA, _drawn, re.sub(LINK, led, text), flags=re.S)


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change the text of a page that is neither in a block of code nor in backticks."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", markdown, flags=re.M | re.S)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def _drawn(found: re.Match[str]) -> str:
    source, block = (found[1] or found[2]).strip(), found[1] is not None
    formula = convert(source, display="block" if block else "inline")
    if "\\" in formula:
        raise SystemExit(f"{source} has a command that latex2mathml does not know")
    return f'<div class="formula">{formula}</div>' if block else formula


def build(folder: Path) -> None:
    """Build the site into a folder, which is replaced. A warning of Zensical, such as a broken link, ends it."""
    with tempfile.TemporaryDirectory() as stage:
        settings = staged(Path(stage))
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(settings)]
        done = subprocess.run(command, cwd=stage, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        site = settings.parent / "site"
        name_in_full(site)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(site, folder)


def name_in_full(site: Path) -> None:
    """Title the entries of the API by their whole names, so that a search finds the concept of that name first."""
    index = site / "search.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    for entry in found["items"]:
        anchor = entry["location"].partition("#")[2]
        if entry["location"].startswith("api/") and anchor:
            entry["title"] = anchor
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    index.write_text(text, encoding="utf-8")
    (site / "search.js").write_text(f"var __index = {text};", encoding="utf-8")  # for pages opened from a disk


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "site", help="replaced; by default site/")
    build(parser.parse_args().folder)
