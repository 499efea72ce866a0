"""The page about what is changed in and used of libraries without their word for it: complete, and its cases run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from hfposemb.app.server import gradio_patches

from tests.conftest import in_full
from tests.support.installing import ROOT

OWN = {"hfposemb", "app"}

UNDOCUMENTED = (
    "gradio.",
    "numba.core",
    "umap.",
    "starlette._",
    "plotly.basedatatypes",
    "distributed.comm",
    "joblib.externals",
)
"""Modules whose names have no underscore, of which their libraries document nothing: starts of their names."""


DOCUMENTED = {"._exit", "._replace"}
"""Attributes with an underscore that Python documents."""


@cache
def sources() -> dict[str, ast.Module]:
    """Return the code of every Python file that is installed, by its path."""
    paths = sorted(path for folder in OWN for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def own_names(trees: dict[str, ast.Module]) -> set[str]:
    """Return the private names that the project defines itself."""
    found: set[str] = set()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _of_self(node):
            found.add(node.attr)
    return found


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _of_figure(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "figure"  # plotly's; the project has no such class


def _set_on(node: ast.Attribute, imported: set[str]) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id in imported


def _foreign(module: str) -> bool:
    return module.partition(".")[0] not in OWN | set(sys.stdlib_module_names)


def used(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield what is used of a library that it does not document: a name of a module, or ``.name`` of a value.

    A private attribute counts if the project defines no such name, and an assignment to an attribute of what is
    imported from a library always does.
    """
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            imported |= {alias.asname or alias.name.partition(".")[0] for alias in node.names if _foreign(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported |= {alias.asname or alias.name for alias in node.names if _foreign(node.module)}
        else:
            continue
        for name in filter(_foreign, names):
            if name.startswith(UNDOCUMENTED) or any(map(_private, name.split("."))):
                yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _private(node.attr) and (node.attr not in own or _of_figure(node)):
            yield f".{node.attr}"
        elif isinstance(node, ast.Attribute) and _set_on(node, imported):
            yield f"{ast.unparse(node)} ="


def all_uses() -> set[tuple[str, str]]:
    """Return every such use as the file and the name."""
    trees = sources()
    own = own_names(trees)
    return {(path, name) for path, tree in trees.items() for name in used(tree, own) if name not in DOCUMENTED}


PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\| [\w-]+ \| `([^`]+)` \|", PAGE, flags=re.M)
CASES = re.findall(r"^### (\d)\. .*?```python\n(.*?)```", PAGE, flags=re.M | re.S)


def test_every_use_of_an_undocumented_name_stands_in_the_table() -> None:
    """And what stands there is used."""
    assert {one for one in all_uses() if one[1] not in NAMED} == set()
    code = "\n".join((ROOT / path).read_text(encoding="utf-8") for path in sources())
    assert [name for name in NAMED if name.removesuffix(" =").rpartition(".")[2] not in code] == []


def test_every_patch_stands_in_the_table() -> None:
    """With the case for Gradio, and the test that fails when Gradio changes it."""
    table = re.findall(r"^\| .*\[case (\d)\].*`(tests/\S+)` \|$", PAGE, flags=re.M)
    assert [int(case) for case, _ in table] == [1, 2, 8]
    assert all((ROOT / path).exists() for _, path in table)
    for name in (gradio_patches.STUBS[1], gradio_patches.PANDAS, gradio_patches.SWITCH):
        assert name in PAGE


@in_full
@pytest.mark.parametrize(("number", "code"), [one for one in CASES if one[0] in "12"], ids=["stubs", "pandas"])
def test_a_case_of_an_import_still_holds(number: str, code: str) -> None:
    """If it fails, Gradio has changed: the patch can go."""
    there = {name: text for name, text in os.environ.items() if name != gradio_patches.SWITCH}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=there)
    assert done.returncode == 0, f"case {number}: {done.stderr}"


def test_every_case_is_complete() -> None:
    assert [int(number) for number, _ in CASES] == list(range(1, 10))
    for _, code in CASES:
        compile(code, "case", "exec")
