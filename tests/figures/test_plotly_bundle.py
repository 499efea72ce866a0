"""plotly.js as it is shipped: with every trace that figures use, of the version that its recipe names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import brotli

from hfposemb.figures.assets import compressed_plotly_js, plotly_js

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


def test_the_compressed_bundle_is_the_same_script() -> None:
    assert brotli.decompress(compressed_plotly_js()).decode() == plotly_js()
