"""The package as a whole: what an import loads, who imports whom, and what a wheel carries."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import hfposemb as hpe

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "gradio", "umap", "sklearn", "plotly", "huggingface_hub", "scipy", "tokenizers")


def loaded_by(code: str) -> set[str]:
    """Return which of HEAVY a fresh process has loaded after running some code."""
    report = f"{code}\nimport sys\nprint(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert loaded_by("import hfposemb") == set()


def test_import_loads_no_module_until_it_is_used() -> None:
    code = "import hfposemb, sys\n"
    code += "print(*(name for name in sys.modules if name == 'numpy' or name.startswith('hfposemb.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_light_import_test_can_fail() -> None:
    assert "sklearn" in loaded_by("import sklearn")


def test_reading_tables_is_light(minilm_folder: Path) -> None:
    code = f"import hfposemb; hfposemb.extract({str(minilm_folder)!r}).position.table.vectors.sum()"
    assert loaded_by(code) == set()


def test_similarity_and_extract_stay_functions() -> None:
    """Both are names of modules too, which an import would bind in their place."""
    code = "import hfposemb.similarity, hfposemb.extract, hfposemb as h\n"
    code += "print(callable(h.similarity), callable(h.extract))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.parametrize("name", hpe.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(hpe, name) is not None
    assert name in dir(hpe)


def test_unknown_names_say_what_there_is() -> None:
    with pytest.raises(AttributeError, match="it has __version__, extract"):
        _ = hpe.exctract


LAYERS = (
    {"errors", "samples", "palette", "architectures", "chance", "cards"}
    | {"files", "layouts", "progress", "stopping", "deadline", "memory"},
    {"table", "lookup", "checkpoint", "cache", "faults"},
    {"transport"},
    {"wire"},
    {"position"},
    {"families"},
    {
        "source",
        "naming",
        "vocabulary",
        "cutting",
        "inputs",
        "attention",
        "embeddings",
        "builtin",
        "live",
        "rope",
        "pickled",
    },
    {"hub", "reopened", "adapters", "quantised"},
    {"opened"},
    {"mechanisms", "recipes", "queries", "contradictions", "modules"},
    {"extract", "facts", "engine"},
    {"listing"},
    {"verify"},
    {"projection", "similarity", "geometry", "trust", "compiled"}
    | {"values", "centring", "scores", "nearest", "pairing"},
    {"nulls"},
    {"shift", "probes", "alignment", "sums", "logits", "shifts", "oddities", "resolution"}
    | {"adding", "decoding", "survival", "anchors", "club", "reorder"},
    {"requirements", "moved", "aligned", "measures"},
    {"results", "tabulated"},
    {"comparison", "reproduce"},
    {"figures", "placing", "export", "packing", "sheet", "schema", "beside"},
    {"report", "views", "space"},
    {"bundle", "campaign"},
    {"survey"},
    {"forecast", "trajectory", "again"},
    {"cli"},
    {"entry", "__main__", "__init__"},
)
"""Modules by layer: each imports from its own layer and those above it in this list, never from below."""

_OWN = {"__version__"}
_FROM_ABOVE = {"cli": {*_OWN, "app"}, "report": _OWN, "bundle": _OWN, "faults": _OWN, "space": {*_OWN, "app"}}
"""What a module imports from below it in this list all the same, inside a function: the version, and the app."""

KNOWS_NO_READING = {"projection", "similarity", "geometry", "comparison", "placing", "figures"} | {
    "aligned",
    "alignment",
    "centring",
    "nearest",
    "pairing",
    "scores",
    "values",
    "logits",
    "anchors",
    "club",
    "compiled",
    "decoding",
    "chance",
    "measures",
    "moved",
    "nulls",
    "oddities",
    "probes",
    "resolution",
    "reorder",
    "shift",
    "shifts",
    "sums",
    "trust",
    "survival",
    "tabulated",
}
_OPENS = {"comparison": {"extract"}}
"""What opens the sources that it is given by name, and knows nothing else of how they are read."""

READERS = {
    "adapters",
    "contradictions",
    "extract",
    "opened",
    "mechanisms",
    "queries",
    "recipes",
    "hub",
    "wire",
    "deadline",
    "layouts",
    "checkpoint",
    "families",
    "source",
    "builtin",
    "live",
    "pickled",
    "quantised",
}


def imports_of(path: Path) -> set[str]:
    """Return the package's own modules that a file imports, wherever in it; type checking apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and id(node) not in skipped
            and (node.level or (node.module or "").startswith("hfposemb"))
        ):
            module = (node.module or "").removeprefix("hfposemb").lstrip(".")
            found |= {module.partition(".")[0]} if module else {alias.name for alias in node.names}
    return found


def modules() -> dict[str, Path]:
    """Return the library's modules by name."""
    return {path.stem: path for path in (ROOT / "hfposemb").glob("*.py")}


def test_every_module_has_its_layer() -> None:
    listed = set().union(*LAYERS)
    assert set(modules()) - listed == set()


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_point_one_way(name: str) -> None:
    level = next(place for place, layer in enumerate(LAYERS) if name in layer)
    allowed = set().union(*LAYERS[: level + 1]) | _FROM_ABOVE.get(name, set())
    assert imports_of(modules()[name]) - allowed == set()
    if name in KNOWS_NO_READING:
        assert imports_of(modules()[name]) & READERS == _OPENS.get(name, set())


def test_the_direction_test_can_fail() -> None:
    assert "extract" in imports_of(ROOT / "hfposemb" / "cli.py")


def test_pins_match_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["app"]]
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
    assert set(pins) == {re.split(r"[><=~!\[]", name)[0] for name in wanted}
    front = (ROOT / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert f"sdk_version: {pins['gradio']}" in front


def test_version_stands_in_one_place() -> None:
    """``hfposemb/__init__.py`` says it; the build reads it there, and what else names it is held equal."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
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


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_read_only_and_pin_their_actions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (.+)", text)
    assert used
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
