"""What is declared in ``pyproject.toml``: all that is imported, nothing that is not, with bounds that hold together."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from hfposemb.checkpoints.hub.http_answers import OLDEST_HUB
from hfposemb.checkpoints.pickles.safe_torch import OLDEST_TORCH
from hfposemb.cli.space import GRADIO, PINS
from tests.support.installing import ROOT
from tests.versions import EXTRAS, declared, lower_bound

FOLDERS = ("hfposemb", "app")
OWN = {"hfposemb", "app"}

PRIVATE = {
    "huggingface_hub": r"\bbuild_hf_headers\b",
    "umap-learn": r"\bumap\.umap_\b",
    "numba": r"\bnumba\.core\b",
    "plotly": r"\bfigure\._data\b",
    "joblib": r"\bjoblib\.externals\b",
    "gradio": r"\bgradio\.(context|component_meta|data_classes)\b",
}
"""What is used that its library does not document, by package."""


@cache
def imported(code: str) -> set[str]:
    """Return the packages that some code imports, anywhere in it; those for type checking alone apart."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                visit(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(code))
    return found - OWN - set(sys.stdlib_module_names)


@cache
def distributions() -> dict[str, list[str]]:
    """Return which distributions bring each package; reading their metadata takes seconds."""
    return {name: list(found) for name, found in packages_distributions().items()}


def undeclared(code: str, requirements: list[Requirement]) -> set[str]:
    """Return which packages some code imports that no requirement brings by its own name."""
    names = {canonicalize_name(one.name) for one in requirements}
    known = distributions()
    return {name for name in imported(code) if not names & {canonicalize_name(one) for one in known.get(name, [name])}}


def sources() -> list[Path]:
    """Return every Python file that is installed."""
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def test_what_is_imported_is_declared() -> None:
    requirements = declared((*EXTRAS, "torch"))
    found = {
        str(path.relative_to(ROOT)): undeclared(path.read_text(encoding="utf-8"), requirements) for path in sources()
    }
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_what_the_app_imports_comes_without_other_extras() -> None:
    requirements = declared(("app",))
    optional = {"pandas", "torch", "mcp", "pydantic"}  # imported where they are installed, or wanted
    found = {
        path.name: undeclared(path.read_text(encoding="utf-8"), requirements) for path in (ROOT / "app").rglob("*.py")
    }
    assert {name: missing - optional for name, missing in found.items() if missing - optional} == {}


def test_what_is_declared_is_imported() -> None:
    everything = set().union(*(imported(path.read_text(encoding="utf-8")) for path in sources()))
    known = distributions()
    used = {canonicalize_name(one) for name in everything for one in known.get(name, [name])}
    assert {canonicalize_name(one.name) for one in declared()} - used == set()


@pytest.mark.parametrize("name", PRIVATE)
def test_undocumented_names_have_an_upper_bound(name: str) -> None:
    used = [path.name for path in sources() if re.search(PRIVATE[name], path.read_text(encoding="utf-8"))]
    assert used, f"nothing undocumented of {name} is used any more: its upper bound can go"
    of_name = [one for one in declared((*EXTRAS, "torch")) if one.name == name]
    assert of_name
    assert all(any(part.operator == "<" for part in one.specifier) for one in of_name)


def test_one_bound_for_each_package() -> None:
    """The extras "app" and "mcp" both name Gradio."""
    bounds: dict[str, set[str]] = {}
    for one in declared((*EXTRAS, "torch")):
        bounds.setdefault(canonicalize_name(one.name), set()).add(str(one.specifier))
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}
    assert all(lower_bound(one) for one in declared((*EXTRAS, "torch")))
    (hub,) = (one for one in declared() if canonicalize_name(one.name) == "huggingface-hub")
    assert lower_bound(hub) == OLDEST_HUB
    assert bounds["torch"] == {f">={OLDEST_TORCH}"}, "what pickles are refused by"


def test_pins_lie_within_the_bounds() -> None:
    pins = {**PINS, "gradio": GRADIO}
    for one in declared((*EXTRAS, "torch")):
        if one.name in pins:
            assert Version(pins[one.name]) in one.specifier, one


def test_huggingface_hub_brings_the_library_whose_errors_are_caught() -> None:
    brought = {canonicalize_name(Requirement(line).name) for line in requires("huggingface_hub") or ()}
    assert brought & {"httpx", "httpx2"}


def test_the_smoke_set_needs_nothing_but_the_standard_library() -> None:
    """It is run by a Python in which nothing of this project is installed, but for ``packaging``."""
    code = "import sys; sys.modules.update(dict.fromkeys(('hfposemb', 'numpy', 'pytest')))\n"
    code += "import tests.versions, tests.support.smoke"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
