"""The package as a whole: what an import loads, who imports whom, and what a wheel carries."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import jedi
import pytest
import yaml

import hfposemb as hpe
from hfposemb.cli.space import GRADIO
from tests.architecture import PICTURE, imports_of, picture
from tests.versions import declared

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "hfposemb").rglob("*.py"))
APP = sorted((ROOT / "app").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
HEAVY = ("torch", "transformers", "gradio", "umap", "sklearn", "plotly", "huggingface_hub", "scipy", "tokenizers")
DEAR = ("hashlib", "tempfile", "zipfile")
"""Of the standard library: 5 MB and 40 ms that a table's bytes do not need."""


def loaded_by(code: str) -> set[str]:
    """Return which of HEAVY and DEAR a fresh process has loaded after running some code."""
    report = f"{code}\nimport sys\nprint(' '.join(name for name in {HEAVY + DEAR!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_no_module_until_it_is_used() -> None:
    code = "import hfposemb, sys\n"
    code += f"print(*(name for name in sys.modules if name in {('numpy', *HEAVY)} or name.startswith('hfposemb.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reading_tables_is_light(minilm_folder: Path) -> None:
    code = f"import hfposemb; hfposemb.extract({str(minilm_folder)!r}).position.table.vectors.sum()"
    assert loaded_by(code) == set()


def test_no_module_shadows_a_public_function() -> None:
    modules = {path.stem for path in [*LIBRARY, *(ROOT / "hfposemb").iterdir()]}
    assert modules & set(hpe.__all__) == set()


@pytest.mark.parametrize("name", hpe.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(hpe, name) is not None
    assert name in dir(hpe)


def completed(code: str) -> set[str]:
    """Return what an editor offers after some code that imports the package as ``hpe``."""
    lines = f"import hfposemb as hpe\n{code}".split("\n")
    script = jedi.Script("\n".join(lines), project=jedi.Project(ROOT))
    return {found.name for found in script.complete(len(lines), len(lines[-1]))}


def test_editors_complete_names_and_what_functions_return() -> None:
    assert set(hpe.__all__) <= completed("hpe.")
    assert {"token", "position", "head"} <= completed("hpe.extract('x').")
    assert {"vectors", "labels", "to_frame"} <= completed("hpe.extract('x').token.")
    assert {"coordinates", "explained_variance_ratio"} <= completed("hpe.project(hpe.sinusoidal(4, 4).position).")
    assert completed("hpe.exctract('x').") == set()


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(AttributeError, match="did you mean extract"):
        _ = hpe.exctract


PACKAGES = """
samples
tables -> samples
checkpoints -> tables
models -> checkpoints tables samples
analysis -> tables
composition -> analysis tables
comparison -> vocabularies composition analysis models tables
figures -> comparison composition analysis tables
checks -> models analysis checkpoints tables samples
vocabularies -> checks models checkpoints tables
surveys -> comparison models analysis checkpoints tables
training -> models tables
reports -> vocabularies checks figures comparison models analysis tables
widget -> reports figures comparison models analysis tables
"""
"""What each package may import. All may import the modules at the top: errors, files and other helpers."""

MOST_LOOSE = 11
"""Modules of the library outside its packages, the helpers below and ``__main__``."""

HELPERS = {
    "bug_reports",
    "cache",
    "errors",
    "files",
    "guesses",
    "lazy_attributes",
    "logs",
    "memory_maps",
    "progress",
    "text",
}
APP_FOLDERS = """
jobs
components -> jobs
session -> components jobs
recipes -> session components
findings -> recipes session components jobs
lessons -> session components
tabs -> lessons findings session components jobs
server -> findings session components jobs
"""
"""What each folder of the app may import. All may import ``failures`` and ``limits``."""


def arrows(text: str) -> dict[str, set[str]]:
    """Return what each package may import, from the lines above."""
    lines = (line.partition(" -> ") for line in text.split("\n") if line)
    return {name: set(others.split()) for name, _, others in lines}


ALLOWED, APP_ALLOWED = arrows(PACKAGES), arrows(APP_FOLDERS)


def wrong_imports(folder: Path, allowed: set[str]) -> set[str]:
    """Return the imports of a folder's files that lead to none of the allowed packages."""
    return {
        f"{path.name}: {one}"
        for path in sorted(folder.rglob("*.py"))
        for one in imports_of(path)
        if one.split(".")[0] not in allowed
    }


@pytest.mark.parametrize("name", ALLOWED)
def test_packages_import_one_way(name: str) -> None:
    assert wrong_imports(ROOT / "hfposemb" / name, ALLOWED[name] | HELPERS | {name}) == set()


@pytest.mark.parametrize("name", APP_ALLOWED)
def test_folders_of_the_app_import_one_way(name: str) -> None:
    assert wrong_imports(ROOT / "app" / name, APP_ALLOWED[name] | {"failures", "limits", name}) == set()


def test_no_tab_imports_a_tab() -> None:
    assert {one for path in (ROOT / "app" / "tabs").glob("*.py") for one in imports_of(path) if "tabs" in one} == set()


def test_helpers_import_no_package() -> None:
    found = {
        path.stem: {one.split(".")[0] for one in imports_of(path)} & set(ALLOWED)
        for path in (ROOT / "hfposemb").glob("*.py")
    }
    assert {name: found[name] for name in HELPERS} == {name: set() for name in HELPERS}


def test_every_package_has_its_line() -> None:
    assert {path.parent.name for path in (ROOT / "hfposemb").glob("*/__init__.py")} == {*ALLOWED, "cli"}
    assert {path.parent.name for path in (ROOT / "app").glob("*/__init__.py")} == set(APP_ALLOWED)


@pytest.mark.parametrize("files", [LIBRARY, APP], ids=["hfposemb", "app"])
def test_no_file_imports_in_a_circle(files: list[Path]) -> None:
    root = ROOT / files[0].relative_to(ROOT).parts[0]
    paths = {".".join(path.relative_to(root).with_suffix("").parts): path for path in files}
    graph = {name: {one for one in imports_of(path) if one in paths} for name, path in paths.items()}
    assert list(TopologicalSorter(graph).static_order())


def test_folders_of_one_package_import_one_way() -> None:
    """A folder and the files beside it may import each other; two folders may not."""
    folders: dict[str, set[str]] = {}
    for path in [*LIBRARY, *APP]:
        root, *inside = path.relative_to(ROOT).parts[:-1]
        for one in imports_of(path):
            target = ROOT.joinpath(root, *one.split(".")).parent.relative_to(ROOT).parts[1:]
            if len(inside) == len(target) == 2 and inside[0] == target[0] and list(target) != inside:
                folders.setdefault("/".join((root, *inside)), set()).add("/".join((root, *target)))
    assert "hfposemb/checkpoints/safetensors" in folders["hfposemb/checkpoints/gguf"], "the meta test: arrows are seen"
    assert list(TopologicalSorter(folders).static_order())


def test_the_picture_of_the_packages_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run: python -m tests.architecture"


def test_no_folder_is_crowded() -> None:
    """What nobody can see at one glance has folders of its own."""
    folders = {path.parent for path in [*LIBRARY, *APP, *TESTS]}
    crowded = {str(one.relative_to(ROOT)): len([*one.glob("*.py")]) - 1 for one in folders}
    assert {name: count for name, count in crowded.items() if count > 20} == {}
    assert crowded["hfposemb"] <= MOST_LOOSE


def test_no_test_imports_a_test() -> None:
    """What several tests need stands in ``tests/support``, or beside them in a module that holds no test."""
    wrong = {
        f"{path.relative_to(ROOT)}: {one}"
        for path in TESTS
        for one in imports_of(path)
        if any(part.startswith("test_") for part in one.split("."))
    }
    assert wrong == set()
    assert "support.snippets" in imports_of(ROOT / "tests" / "project" / "test_docs.py"), "imports are seen"


def test_no_file_is_long() -> None:
    files = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in [*LIBRARY, *APP]}
    assert {name: lines for name, lines in files.items() if lines > 600} == {}


def test_pins_match_the_dependencies() -> None:
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
    # The front matter pins Gradio, and Gradio bounds pydantic.
    assert set(pins) == {one.name for one in declared(("app", "mcp"))} - {"gradio", "pydantic"}
    front = (ROOT / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert f"sdk_version: {GRADIO}\n" in front


def test_version_stands_in_one_place() -> None:
    """``hfposemb/__init__.py`` says it; the build reads it there, and what else names it is held equal."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hfposemb.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", hpe.__version__)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == hpe.__version__
    newest = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert hpe.__version__ in newest[:2]
    assert newest[0] in ("Unreleased", hpe.__version__)


def test_citation_is_complete() -> None:
    """The keys that CFF 1.2.0 asks for, and what the package says of itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert all(author["name"] for author in cited["authors"])
    assert cited["title"] == project["name"]
    assert cited["license"] == project["license"]
    assert cited["abstract"] == project["description"]
