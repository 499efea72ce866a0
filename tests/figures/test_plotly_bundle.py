"""plotly.js as it is shipped: with every trace that figures use, of the version that its recipe names."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hfposemb.figures.assets import plotly_js
from tests.conftest import FULL

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "tests" / "javascript" / "bundle"


def test_the_bundle_has_the_traces_that_figures_use() -> None:
    code = "\n".join(path.read_text() for folder in ("hfposemb", "app") for path in (ROOT / folder).rglob("*.py"))
    used = {name.lower() for name in re.findall(r"\bgo\.([A-Z]\w+)\(", code)} - {"figure", "frame"}
    built = {*re.findall(r"plotly\.js/lib/(\w+)\"", (RECIPE / "traces.cjs").read_text())} - {"core"} | {"scatter"}
    assert used <= built
    script = plotly_js()
    for name in built:  # how a trace registers itself
        assert re.search(rf'moduleType:"trace",name:"{name}"', script), name


def test_the_bundle_is_of_the_version_that_its_recipe_names() -> None:
    version = json.loads((RECIPE / "package.json").read_text())["devDependencies"]["plotly.js"]
    head = plotly_js()[:400]
    assert head.startswith(f"/*!\nplotly.js v{version} with the traces ")
    assert "MIT License" in head
    assert f'.version="{version}"' in plotly_js()


def test_the_bundle_looks_a_point_up_as_often_as_its_recipe_says() -> None:
    (wait,) = re.findall(r"HOVERMINTIME = (\d+);", (RECIPE / "traces.cjs").read_text())
    assert re.findall(r"\.HOVERMINTIME=(\d+)", plotly_js()) == [wait]
    assert "HOVERMINTIME:50" in plotly_js()  # what the recipe replaces, once for all that use it


def test_what_the_bundle_names_by_a_digest_is_named_by_its_content() -> None:
    """Not by a path on the machine that built it, by which the plugin of plotly.js' own build names styles."""
    script = plotly_js()
    styles = re.findall(r"""\.id="([0-9a-f]{64})",\w+\.textContent=('(?:[^'\\]|\\.)*')""", script)
    assert styles
    for name, text in styles:
        assert hashlib.sha256(ast.literal_eval(text).encode()).hexdigest() == name
    assert set(re.findall(r"\b[0-9a-f]{40,}\b", script)) <= {name for name, _ in styles}


@pytest.mark.skipif(not FULL, reason="installs from npm; runs in make test-full")
def test_the_bundle_has_the_same_bytes_in_another_folder(tmp_path: Path) -> None:
    """In one with a space in its name, below the settings of other programs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    there, made = tmp_path / "an other" / "tests/javascript/bundle", tmp_path / "an other" / "hfposemb/figures/bundle"
    shutil.copytree(RECIPE, there, ignore=shutil.ignore_patterns("node_modules"))
    made.mkdir(parents=True)
    (tmp_path / "tsconfig.json").write_text('{"compilerOptions": {"strict": true, "target": "es5"}}')
    for command in ("npm ci --no-audit --no-fund --loglevel=error", "npm run --silent build"):
        subprocess.run(command.split(), cwd=there, check=True)
    assert (made / "plotly.min.js").read_text() == plotly_js()
