"""What mkdocs calls while it builds the site: pages that are made then, and links as the site has them.

In the repository, pages link to files: a notebook, a source file, CONTRIBUTING.md. On the site the notebook is a page
with its outputs, the source file is the page of its module, and CONTRIBUTING.md is a page like the others.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

from tests.reference import CHAPTERS, documented

ROOT = Path(__file__).parents[1]

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
ORIGINS = {there: here for here, there in (COPIED | NOTEBOOKS).items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the modules where the navigation says MODULES."""
    chapters: list[Any] = [{chapter: [_entry(name) for name in names]} for chapter, names in CHAPTERS.items()]
    listed = {name for names in CHAPTERS.values() for name in names}
    chapters.insert(0, {"Opening": [_entry(name) for name in documented() if name not in listed]})
    for section in config.nav or ():
        for pages in section.values():
            if isinstance(pages, list) and "MODULES" in pages:
                place = pages.index("MODULES")
                pages[place : place + 1] = chapters
    return config


def _entry(name: str) -> dict[str, str]:
    return {name.rpartition(".")[2]: f"api/{name}.md"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, uri in COPIED.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    for path, uri in NOTEBOOKS.items():
        text, pictures = notebook_page(ROOT / path)
        files.append(File.generated(config, uri, content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    for name, shown in documented().items():
        files.append(File.generated(config, f"api/{name}.md", content=module_page(name, shown)))
    return files


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


LINK = r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)"
"""Text, which may have brackets or a picture in it, and target of a link; a picture alone is none."""


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page to where the site has their targets."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc", "navigation"] if page.is_homepage else ["toc"]
    here = ORIGINS.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def led(found: re.Match[str]) -> str:
        text, link = found[1], found[2]
        path, mark, place = link.partition("#")
        if not path or re.match(r"[a-z]+:", link):
            return found[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        uri = MOVED.get(there, there.removeprefix("docs/") if there.startswith("docs/") else "")
        if uri:
            return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{mark}{place})"
        if not (ROOT / there).exists():
            raise PluginError(f"{here} links to {there}, which does not exist")
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{there})" if config.repo_url else text

    return _outside_code(markdown, lambda text: re.sub(LINK, led, text))


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change the text of a page that is not in a block of code."""
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulae as MathML, which browsers draw without a script."""
    return re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', _drawn, html, flags=re.S)


def _drawn(found: re.Match[str]) -> str:
    source = unescape(found[2]).strip()[2:-2]
    block = found[1] == "div"
    formula = convert(source, display="block" if block else "inline")
    if "\\" in formula:
        raise PluginError(f"{source} has a command that latex2mathml does not know")
    return f'<div class="formula">{formula}</div>' if block else formula
