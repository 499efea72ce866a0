"""The scripts of the pages and their style sheet: what they are made of, and what they hold."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from app.components import page_script
from hfposemb.figures.assets import BUNDLE, STATIC
from hfposemb.reports.static_site import SITE
from tests.support.installing import ROOT, tracked

SOURCES = (STATIC, SITE, page_script.FOLDER)
BUNDLES = sorted([*BUNDLE.glob("[!p]*.js"), *SITE.glob("bundle/*.js"), *page_script.FOLDER.glob("bundle/*.js")])
MODULES = sorted(path for folder in SOURCES for path in folder.rglob("*.js") if path.parent.name != "bundle")


def modules_of(bundle: Path) -> list[Path]:
    """Return the modules of a bundle, in the order of its source map."""
    map_of = json.loads(bundle.with_suffix(".js.map").read_text(encoding="utf-8"))
    return [(bundle.parent / source).resolve() for source in map_of["sources"]]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_a_bundle_is_made_of_its_modules_as_they_are(bundle: Path) -> None:
    """``make lint-js`` builds it again; this finds a stale one without node."""
    code = b"".join(path.read_bytes() for path in modules_of(bundle))
    script = bundle.read_text(encoding="utf-8")
    assert script.endswith(f"\n// modules: {hashlib.sha256(code).hexdigest()}\n"), "run: make js"
    assert not re.search("</script|<!--", script, re.IGNORECASE), "it would end or hide a script element"


def test_every_module_is_in_a_bundle() -> None:
    assert {path for bundle in BUNDLES for path in modules_of(bundle)} == set(MODULES)


def test_files_and_lines_are_short() -> None:
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 600, path.name
        assert SITE in path.parents or max(map(len, lines)) <= 120, path.name


def test_private_fields_of_plotly_are_in_one_file() -> None:
    private = re.compile(r"\._[a-zA-Z]|\bd2p\b|glplot|fullSceneLayout")
    assert {path.name for path in MODULES if private.search(path.read_text("utf-8"))} == {"plotly_adapter.js"}


def test_every_call_names_a_function_of_the_script() -> None:
    code = (page_script.FOLDER / "app.js").read_text(encoding="utf-8")
    known = set(re.findall(r"\w+", code.partition("CALLED = {")[2].partition("}")[0]))
    python = [path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py")]
    called = {name for text in python for name in re.findall(r'on_(?:load|event)\("(\w+)"', text)}
    assert called == known


def test_python_holds_no_javascript_and_no_style() -> None:
    def holding(code: str) -> set[str]:
        files = [path for folder in ("app", "hfposemb") for path in (ROOT / folder).rglob("*.py")]
        return {path.name for path in files if re.search(code, path.read_text(encoding="utf-8"))}

    scripts = holding(r"document\.|addEventListener|=> \{|localStorage")
    assert scripts == {"page_script.py", "plot.py"}, "the two that call the script and load it"
    sends = {"page_script.py", "html_page.py", "static_site.py", "source_bar.py"}
    sheets = holding(r"css_template|font-size:|<style>")
    assert sheets == {"plot.py", *sends}, "what frames a row, those that send sheets, and the colours of chips"
    # Gradio reads a style sheet as a template of Handlebars and of JavaScript.
    assert not re.search(r"\{\{|\$\{|`|\\", page_script.page_style())


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "tests/javascript/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert all(one["integrity"] for one in packages.values())
    assert not [name for name in tracked() if "node_modules" in name]
